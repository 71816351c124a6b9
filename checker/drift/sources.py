"""Kafka's sources: the methods of its classes, each with a digest of its tokens.

A source is a folder of jars (`kafka-clients-4.3.0-sources.jar`), one jar, or a checkout. Java and
Scala are parsed by tree-sitter. Comments and white space don't count, so a digest changes only if
the code does. A class has its simple name, an inner class a name such as `Outer.Inner`. If several
files have a class of one name, their methods are merged.

Needs the extra `drift`.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

DIGITS: Final = 7
"""Hexadecimal digits of a digest."""
SUFFIXES: Final = (".java", ".scala")
_SOURCES = re.compile(r"(?P<artifact>.+?)-(?P<version>\d+(?:\.\d+)+(?:-\w+)?)-sources\.jar")
_LEFT_OUT = re.compile(r"(?:^|/)(?:test|jmh-benchmarks|generator|examples|trogdor)/")
_JAVA_TYPES = {
    "class_declaration",
    "interface_declaration",
    "enum_declaration",
    "record_declaration",
    "annotation_type_declaration",
}
_JAVA_METHODS = {"method_declaration", "constructor_declaration", "compact_constructor_declaration"}
_SCALA_TYPES = {"class_definition", "object_definition", "trait_definition", "enum_definition"}
_SCALA_METHODS = {"function_definition"}
_COMMENTS = {"line_comment", "block_comment", "comment"}


class SourceError(Exception):
    """Unreadable sources. The message has their name and the remedy."""


@dataclass(frozen=True)
class Method:
    """One method in a file: its class and name, its lines (counted from 1), and its tokens."""

    name: str
    first_line: int
    last_line: int
    tokens: tuple[str, ...]


def sources_of(place: Path) -> dict[str, list[Path]]:
    """The source jars of a folder by version, or the one version of a checkout (`checkout`).

    Raises SourceError if there are none.
    """
    if place.is_file():
        jars = [place]
    elif (place / "build.gradle").is_file() or (place / "settings.gradle").is_file():
        return {"checkout": [place]}
    else:
        jars = sorted(place.rglob("*-sources.jar"))
    found: dict[str, list[Path]] = {}
    for jar in jars:
        name = _SOURCES.fullmatch(jar.name)
        if name is not None:
            found.setdefault(name["version"], []).append(jar)
    if not found:
        raise SourceError(
            f"{place}: no source jars (kafka-clients-4.3.0-sources.jar) and no checkout of Kafka"
        )
    return found


def methods_of(places: list[Path], classes: Collection[str] | None = None) -> dict[str, str]:
    """The digests of the methods in these jars or checkouts: those of all classes, or of `classes`
    and their inner classes.

    Raises SourceError for a file that can't be read.
    """
    pieces: dict[str, list[tuple[str, ...]]] = {}
    found: dict[str, str] = {}
    wanted = None
    if classes is not None:
        names = "|".join(map(re.escape, sorted(classes)))
        kinds = "class|object|trait|interface|enum|record"
        wanted = re.compile(rf"\b(?:{kinds})\s+(?:{names})\b".encode())
    for place in places:
        for path, text in files_of(place):
            if wanted is not None and not wanted.search(text):
                continue
            for method in methods_in(path, text):
                if classes is not None and method.name.partition(".")[0] not in classes:
                    continue
                pieces.setdefault(method.name, []).append(method.tokens)
    for name, overloads in pieces.items():
        digest = sha256()
        for tokens in sorted(overloads):
            digest.update("\0".join(tokens).encode())
            digest.update(b"\n")
        found[name] = digest.hexdigest()[:DIGITS]
    return found


def files_of(place: Path) -> Iterator[tuple[str, bytes]]:
    """The Java and Scala files of a jar or a checkout, without tests, with their paths."""
    if place.is_dir():
        for path in sorted(place.rglob("*")):
            name = path.relative_to(place).as_posix()
            if path.suffix in SUFFIXES and not _LEFT_OUT.search(name):
                yield name, path.read_bytes()
        return
    try:
        with zipfile.ZipFile(place) as jar:
            for name in jar.namelist():
                if name.endswith(SUFFIXES):
                    yield name, jar.read(name)
    except (OSError, zipfile.BadZipFile) as error:
        raise SourceError(f"{place}: not a jar that can be read ({error})") from None


def methods_in(path: str, text: bytes) -> list[Method]:
    """The methods of one file. Raises SourceError if the extra `drift` isn't installed."""
    is_java = path.endswith(".java")
    tree = _parser(is_java).parse(text)
    types, methods = (_JAVA_TYPES, _JAVA_METHODS) if is_java else (_SCALA_TYPES, _SCALA_METHODS)
    found: list[Method] = []

    def visit(node: Any, owner: str) -> None:
        for child in node.named_children:
            if child.type in types:
                name = _name(child)
                visit(child, f"{owner}.{name}" if owner and owner != name else name)
            elif child.type in methods and owner:
                name = "<init>" if child.type in ("constructor_declaration",) else _name(child)
                lines = child.start_point[0] + 1, child.end_point[0] + 1
                tokens = tuple(_tokens(child, child.child_by_field_name("name")))
                found.append(Method(f"{owner}.{name}", *lines, tokens))
                visit(child, owner)
            else:
                visit(child, owner)

    visit(tree.root_node, "")
    return found


_parsers: dict[bool, Any] = {}


def _parser(is_java: bool) -> Any:
    if is_java not in _parsers:
        try:
            import tree_sitter
            import tree_sitter_java
            import tree_sitter_scala
        except ImportError:
            raise SourceError(
                "drift needs tree-sitter: install the extra with pip install 'epochfence[drift]'"
            ) from None
        language = tree_sitter_java if is_java else tree_sitter_scala
        _parsers[is_java] = tree_sitter.Parser(tree_sitter.Language(language.language()))
    return _parsers[is_java]


def _name(node: Any) -> str:
    found = node.child_by_field_name("name")
    return "" if found is None else found.text.decode()


def _tokens(node: Any, name: Any) -> Iterator[str]:
    """The leaves of a syntax tree in order, without comments and without the method's own name: a
    renamed method keeps its digest.
    """
    stack = [node]
    while stack:
        one = stack.pop()
        if one.type in _COMMENTS or one == name:
            continue
        if one.child_count == 0:
            yield one.text.decode(errors="replace")
        stack += reversed(one.children)
