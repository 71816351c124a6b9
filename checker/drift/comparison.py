"""Compares two states of Kafka's sources by the methods that rows cite."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .citations import Citation, citations

NEAR = 0.75
"""How alike two names are at least, from 0 to 1, for one to be the probable new name."""


@dataclass(frozen=True)
class Cited:
    """A cited method that vanished or changed, with the rows that cite it. `instead` is the
    probable new name of a vanished method.
    """

    method: str
    rows: tuple[str, ...]
    instead: str = ""

    def as_json(self) -> dict[str, Any]:
        """The data for JSON."""
        found: dict[str, Any] = {"method": self.method, "rows": list(self.rows)}
        return found | ({"probably": self.instead} if self.instead else {})


@dataclass(frozen=True)
class Drift:
    """The difference between two states of the sources.

    `vanished` and `changed` are cited methods. `uncited` are methods of the same classes that no
    row cites, each with its change: added, removed or changed.
    """

    since: str
    until: str
    vanished: tuple[Cited, ...]
    changed: tuple[Cited, ...]
    uncited: tuple[tuple[str, str], ...]

    @property
    def concerns_rows(self) -> bool:
        """Whether a cited method vanished or changed."""
        return bool(self.vanished or self.changed)

    def as_json(self) -> dict[str, Any]:
        """The data for JSON."""
        return {
            "since": self.since,
            "until": self.until,
            "vanished": [each.as_json() for each in self.vanished],
            "changed": [each.as_json() for each in self.changed],
            "uncited": [{"method": method, "change": change} for method, change in self.uncited],
        }


def compared(
    before: Mapping[str, str],
    after: Mapping[str, str],
    *,
    since: str,
    until: str,
    cited: list[Citation] | None = None,
) -> Drift:
    """The drift between the digests of two states, by method.

    Citations of methods that neither state has belong to other releases: they are left out.
    """
    rows: dict[str, list[str]] = {}
    for citation in citations() if cited is None else cited:
        if citation.names_a_method:
            rows.setdefault(citation.of, []).append(citation.row)
    vanished, changed = list[Cited](), list[Cited]()
    for method, citing in sorted(rows.items()):
        if method not in before:
            continue
        if method not in after:
            vanished.append(Cited(method, tuple(citing), instead(method, before, after)))
        elif after[method] != before[method]:
            changed.append(Cited(method, tuple(citing)))
    classes = {method.rpartition(".")[0] for method in rows}
    uncited = [
        (method, change)
        for method in sorted({*before, *after} - rows.keys())
        if method.rpartition(".")[0] in classes
        if (change := _change(before.get(method), after.get(method)))
    ]
    return Drift(since, until, tuple(vanished), tuple(changed), tuple(uncited))


def instead(method: str, before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The probable new name of a method that vanished, or "".

    It is a method with the same body; else a method with the same name in a class that is new or
    had no such method; else a method of the same class with a similar name.
    """
    new = [each for each in after if each not in before and not each.endswith("<init>")]
    same = [each for each in new if after[each] == before[method]]
    owner, _, name = method.rpartition(".")
    alike = [each for each in new if each.rpartition(".")[2] == name]
    in_class = [each for each in new if each.rpartition(".")[0] == owner]
    names = {each.rpartition(".")[2]: each for each in in_class}
    near = [names[each] for each in difflib.get_close_matches(name, names, 1, NEAR)]
    return next(iter([*sorted(same), *sorted(alike), *near]), "")


def _change(before: str | None, after: str | None) -> str:
    if before == after:
        return ""
    if before is None:
        return "added"
    return "removed" if after is None else "changed"
