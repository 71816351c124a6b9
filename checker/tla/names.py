"""Valid names for TLA+: letters, digits and underscores, each name once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from ...language import Instance

LIBRARY = Path(__file__).with_name("Epochfence.tla")
"""The module that each of ours extends."""
WORDS = (
    "ASSUME ASSUMPTION AXIOM BOOLEAN CASE CHOOSE CONSTANT CONSTANTS DOMAIN ELSE ENABLED EXCEPT "
    "EXTENDS FALSE IF IN INSTANCE LAMBDA LET LOCAL MODULE OTHER RECURSIVE STRING SUBSET THEN "
    "THEOREM TRUE UNCHANGED UNION VARIABLE VARIABLES WITH Append Cardinality Head Int IsFiniteSet "
    "Len Nat SelectSeq Seq SubSeq Tail Init Next Spec Terminated TypeOK vars x k"
)
"""TLA+'s own, those of its modules that ours extends, and what each of ours defines."""


class Names:
    """The names of a system's parts in a module; each name is given once."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], str] = {}

    def variable(self, name: str) -> str:
        """The name of a variable: `transaction_state` for `transaction.state`."""
        return self._global("variable", name)

    def constant(self, name: str) -> str:
        """The name of a constant."""
        return self._global("constant", name)

    def operator(self, name: str) -> str:
        """The name of a definition, such as a row's."""
        return self._global("operator", name)

    def bound(self, name: str, around: Iterable[str]) -> str:
        """A name for a bound variable; `around` are the bound names around it."""
        return _free(name, {*self._given.values(), *around})

    def _global(self, kind: str, name: str) -> str:
        if (kind, name) not in self._given:
            self._given[kind, name] = _free(name, {*self._given.values()})
        return self._given[kind, name]


def names_of(instance: Instance) -> Names:
    """The names of an instance's system, constants and variables, assigned in this order."""
    names = Names()
    names.operator(instance.system.name)
    for name in instance.constants:
        names.constant(name)
    for variable in instance.variables:
        names.variable(variable.name)
    return names


@cache
def reserved() -> frozenset[str]:
    """The reserved names."""
    library = LIBRARY.read_text(encoding="utf-8")
    return frozenset({*WORDS.split(), *re.findall(r"^(?:RECURSIVE )?([A-Z]\w*)", library, re.M)})


def _free(name: str, taken: set[str]) -> str:
    words = re.sub(r"\W+", "_", name.replace("'", ""), flags=re.ASCII).strip("_")
    is_name = words[:1].isalpha() and not words.startswith(("WF_", "SF_"))
    readable = words if is_name else f"x_{words}"
    free, number = readable, 2
    while free in taken or free in reserved():
        free, number = f"{readable}_{number}", number + 1
    return free
