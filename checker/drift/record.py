"""The recorded digests of Kafka's methods, by version: `sources.tsv`, and `bytecode.tsv` for newer
versions, some of which have no sources.

A file has one line for each method of a cited class: its name, and each version in which its digest
changed, as `2.5.1:1a2b3c4 3.0.2:-` (`-`: it doesn't exist). `python -m
epochfence.checker.drift.record SOURCES CLASSES` writes both files from a folder with the source
jars of all releases and one with class jars.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path

from ...spec.releases.features import RELEASED
from .citations import citations, classes
from .class_files import bytecode_of, class_jars_of
from .sources import SourceError, methods_of, sources_of

ABSENT = "-"


@dataclass
class Recorded:
    """The digests of methods by version of Kafka, oldest first."""

    versions: tuple[str, ...]
    changes: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, dict[str, str]])
    """For each method the versions in which its digest changes, with the digest."""

    def at(self, version: str) -> dict[str, str]:
        """The digests of a recorded version, by method."""
        later = set(self.versions[self.versions.index(version) + 1 :])
        found: dict[str, str] = {}
        for method, changes in self.changes.items():
            digests = [digest for at, digest in changes.items() if at not in later]
            if digests and digests[-1] != ABSENT:
                found[method] = digests[-1]
        return found

    def newest_of(self, release: str) -> str | None:
        """The newest recorded version of a release (4.3, or 4.3.0 itself), if there is one."""
        of_it = [v for v in self.versions if v == release or v.startswith(f"{release}.")]
        return of_it[-1] if of_it else None

    def versions_of(self, release: str) -> tuple[str, ...]:
        """The recorded versions of a declared release, up to the next declared one."""
        at = RELEASED.index(release)
        least = number(release)
        following = number(RELEASED[at + 1]) if at + 1 < len(RELEASED) else (999,)
        return tuple(v for v in self.versions if least <= number(v) < following)


def number(version: str) -> tuple[int, ...]:
    """The sort key of a version: 2.10 comes after 2.9."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


@cache
def recorded(form: str = "sources") -> Recorded:
    """The record in the package: of `sources`, or of `bytecode`."""
    text = files("epochfence.checker.drift").joinpath(f"{form}.tsv").read_text(encoding="utf-8")
    head, *lines = text.splitlines()
    changes: dict[str, dict[str, str]] = {}
    for line in lines:
        method, _, history = line.partition("\t")
        changes[method] = dict(change.split(":") for change in history.split(" "))
    return Recorded(tuple(head.split("\t")[1].split(" ")), changes)


def written(digests: Mapping[str, Mapping[str, str]]) -> str:
    """The text of a record: the digests of every version, oldest first, by method."""
    versions = sorted(digests, key=number)
    methods = sorted({method for of_version in digests.values() for method in of_version})
    lines = [f"method\t{' '.join(versions)}"]
    for method in methods:
        before, history = ABSENT, list[str]()
        for version in versions:
            digest = digests[version].get(method, ABSENT)
            if digest != before:
                history.append(f"{version}:{digest}")
            before = digest
        lines.append(f"{method}\t{' '.join(history)}")
    return "\n".join(lines) + "\n"


def cited_classes() -> set[str]:
    """The outermost classes that rows cite."""
    return classes([citation.of for citation in citations()])


def read(folder: Path) -> dict[str, dict[str, str]]:
    """The digests of the cited classes' methods, of every version with source jars in a folder.

    Raises SourceError if there are none.
    """
    names = cited_classes()
    jars = sources_of(folder)
    return {version: methods_of(jars[version], names) for version in sorted(jars, key=number)}


def main(arguments: list[str]) -> None:
    """Writes the record from a folder of source jars and one of class jars."""
    sources, jars = arguments
    try:
        found = read(Path(sources))
        names = cited_classes()
        compiled = {
            version: bytecode_of(files, names)
            for version, files in class_jars_of(Path(jars)).items()
        }
    except SourceError as error:
        sys.exit(f"drift: {error}")
    for form, digests in (("sources", found), ("bytecode", compiled)):
        file = Path(__file__).with_name(f"{form}.tsv")
        file.write_text(written(digests), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
