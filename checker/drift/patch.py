"""A patch to Kafka, and the methods that it changes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from .record import ABSENT, recorded
from .sources import SUFFIXES, SourceError, methods_in

_FILE = re.compile(r"^--- (?:a/)?(?P<name>[^\t\n]+)")
_HUNK = re.compile(r"^@@ -(?P<start>\d+)(?:,\d+)? \+\d+(?:,\d+)? @@ ?(?P<context>.*)$")
_DECLARED = re.compile(
    r"^ \s*(?:override |private |protected |public |static |final |synchronized |\w+\[\w+\] )*"
    r"(?:def |[\w<>\[\], .]+ )(?P<name>[a-z]\w*)\s*\("
)
_CALLED = re.compile(r"\b(?P<name>[a-z]\w*)\s*\(")


@dataclass(frozen=True)
class Touched:
    """A file that a patch changes, and the methods with changed lines.

    Without a checkout the methods are guessed from the names in the hunks' heads, declarations and
    changed lines: there may be more than the patch changes (`is_exact` is false).
    """

    path: str
    methods: tuple[str, ...]
    is_exact: bool


def touched(patch: str, checkout: Path | None = None) -> list[Touched]:
    """The Java and Scala files that a unified diff changes.

    Raises SourceError for a text that is no unified diff, and for a file of the diff that the
    checkout doesn't have.
    """
    changed: dict[str, dict[int, str]] = {}
    heads: dict[str, list[str]] = {}
    name, line, is_known = "", 0, False
    for text in patch.splitlines():
        file, hunk = _FILE.match(text), _HUNK.match(text)
        if file is not None:
            name, is_known = file["name"].strip(), file["name"].strip().endswith(SUFFIXES)
            continue
        if text.startswith("+++ "):
            if name == "/dev/null":
                name = text[4:].split("\t")[0].strip().removeprefix("b/")
                is_known = name.endswith(SUFFIXES)
            continue
        if hunk is not None and name:
            line = int(hunk["start"])
            if is_known:
                heads.setdefault(name, []).append(hunk["context"])
            continue
        if not is_known or not line:
            continue
        if text.startswith("-"):
            changed.setdefault(name, {})[line] = text[1:]
            line += 1
        elif text.startswith("+"):
            changed.setdefault(name, {}).setdefault(line, text[1:])
        else:
            if (declared := _DECLARED.match(text)) and "=" not in text.partition("(")[0]:
                heads.setdefault(name, []).append(f"{declared['name']}(")
            line += 1
    if not heads and not name:
        raise SourceError("no unified diff: write it with git diff, or save a pull request's .diff")
    return [_of_file(path, lines, heads.get(path, []), checkout) for path, lines in changed.items()]


def _of_file(path: str, lines: dict[int, str], heads: list[str], checkout: Path | None) -> Touched:
    if checkout is not None:
        file = checkout / path
        if not file.is_file():
            raise SourceError(f"{checkout} has no {path}: check out the commit before the patch")
        found = [
            method.name
            for method in methods_in(path, file.read_bytes())
            if any(method.first_line <= line <= method.last_line for line in lines)
        ]
        return Touched(path, tuple(dict.fromkeys(found)), True)
    owner = PurePosixPath(path).stem
    names = [name for text in (*heads, *lines.values()) for name in _CALLED.findall(text)]
    known = {
        method
        for form in ("sources", "bytecode")
        for method, changes in recorded(form).changes.items()
        if method.partition(".")[0] == owner and list(changes.values())[-1] != ABSENT
    }
    wanted = set(names)
    found = sorted(method for method in known if method.rpartition(".")[2] in wanted)
    return Touched(path, tuple(found), False)
