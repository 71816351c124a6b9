"""Class files, for versions of Kafka that have no sources: a digest of each method's bytecode.

`javap` prints the bytecode. Positions in the constant pool, packages and numbers of lambdas don't
count, so a moved class keeps its digests. A lambda belongs to the method around it. Needs a JDK.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import zipfile
from collections.abc import Collection, Iterator
from hashlib import sha256
from pathlib import Path, PurePosixPath

from .sources import DIGITS, SourceError

_JAR = re.compile(r"(?P<artifact>kafka[\w.-]*?)-(?P<version>\d+(?:\.\d+)+)\.jar")
_CLASS = re.compile(
    r"^(?:[a-z]+ )*(?:class|interface|enum) (?P<name>[\w.$]+)|^class (?P<other>[\w.$]+)"
)
_METHOD = re.compile(r"^  (?P<head>[^\s].*?(?P<name>[\w$<>]+)\(.*\).*);$")
_LAMBDA = re.compile(r"^lambda\$(?P<of>\w+)\$\d+$|^\$anonfun\$(?P<scala>\w+)\$\d+\w*$")
_NOISE = (
    (re.compile(r"^\s*\d+: "), ""),
    (re.compile(r"#\d+(?:,\s*\d+)?"), "#"),
    (re.compile(r"(?:[a-z_]\w*[/.])+(?=[A-Z])"), ""),
    (re.compile(r"lambda\$(\w+)\$\d+"), r"lambda$\1"),
    (re.compile(r"\b(if\w*|goto\w*)\s+\d+"), r"\1"),
    (re.compile(r"\s+"), " "),
)
_AT_ONCE = 200  # classes in one call of javap


def class_jars_of(place: Path) -> dict[str, list[Path]]:
    """The class jars of a folder by version."""
    found: dict[str, list[Path]] = {}
    for jar in [place] if place.is_file() else sorted(place.rglob("kafka*.jar")):
        name = _JAR.fullmatch(jar.name)
        if name is not None:
            found.setdefault(name["version"], []).append(jar)
    return found


def bytecode_of(jars: list[Path], classes: Collection[str]) -> dict[str, str]:
    """The digests of the methods of these classes, and of their inner ones, in class jars.

    Raises SourceError without javap, and for an unreadable jar.
    """
    javap = shutil.which("javap")
    if javap is None:
        raise SourceError("class files need javap: install a JDK (Debian: openjdk-17-jdk-headless)")
    pieces: dict[str, list[str]] = {}
    found: dict[str, str] = {}
    for jar in jars:
        try:
            with zipfile.ZipFile(jar) as archive:
                names = [
                    name.removesuffix(".class")
                    for name in archive.namelist()
                    if name.endswith(".class")
                    and PurePosixPath(name).stem.partition("$")[0] in classes
                ]
        except (OSError, zipfile.BadZipFile) as error:
            raise SourceError(f"{jar}: not a jar that can be read ({error})") from None
        for at in range(0, len(names), _AT_ONCE):
            command = [javap, "-p", "-c", "-cp", str(jar), *names[at : at + _AT_ONCE]]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            for method, body in _methods(done.stdout):
                pieces.setdefault(method, []).append(body)
    for method, bodies in pieces.items():
        text = "\n".join(sorted(bodies))
        found[method] = sha256(text.encode()).hexdigest()[:DIGITS]
    return found


def _methods(printed: str) -> Iterator[tuple[str, str]]:
    """Each method in javap's output, with its normalised bytecode."""
    owner, method, lines = "", "", list[str]()
    for line in printed.splitlines():
        start = _CLASS.match(line)
        head = None if start else _METHOD.match(line)
        if (start or head) and method:
            yield method, "\n".join(lines)
            method, lines = "", []
        if start is not None:
            owner = _owner(start["name"] or start["other"])
        elif head is not None and owner:
            method = f"{owner}.{_method_name(head['name'], owner)}"
            lines = [_normal(head["head"])]
        elif method and line.startswith("    "):
            lines.append(_normal(line))
    if method:
        yield method, "\n".join(lines)


def _owner(name: str) -> str:
    """The simple name of a class; an anonymous class belongs to the class around it."""
    parts = name.rpartition(".")[2].split("$")
    return ".".join(part for part in parts if part and not part.isdigit())


def _method_name(name: str, owner: str) -> str:
    inside = _LAMBDA.match(name)
    if inside is not None:
        return inside["of"] or inside["scala"]
    parts = [part for part in name.split("$") if part and not part.isdigit()]
    return "<init>" if parts and parts[-1] == owner.rpartition(".")[2] else name


def _normal(line: str) -> str:
    for pattern, by in _NOISE:
        line = pattern.sub(by, line)
    return line.strip()
