"""The names that a module gives to the conditions and values of its rows, for readable output.

Equal expressions are one object. A part of a row has a name if a variable of the row's module holds
it, or a variable of a module that this module imports as a whole.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import ModuleType

from ..language import Event, Expression, Table
from ..language.declaration.errors import DeclarationError
from ..language.declaration.typecheck import type_of
from ..language.expressions import Bound, rewrite
from .notation import in_brief, readable_update


class Names:
    """The names of the expressions in a table. Each name belongs to one expression."""

    def __init__(self, table: Table) -> None:
        self.on: Event = table.on
        self.leaves: dict[Expression, Expression] = {}
        self.named: dict[str, Expression] = {}
        taken = {name for machine in (table.machine, *table.others) for name in machine.fields}
        for file in dict.fromkeys(row.declared.file for row in table.rows if row.declared):
            for name, expression in _of_file(file).items():
                if name not in taken | {*self.named} and expression not in self.leaves:
                    self.named[name] = expression
                    self.leaves[expression] = _leaf(name, expression)

    def __call__(self, expression: Expression) -> Expression:
        """The expression in short notation, with the names of its parts."""
        return in_brief(rewrite(expression, self.leaves.get), self.on)

    def explained(self, lines: Iterable[str], width: int) -> list[str]:
        """The declaration of each name in these lines, and of the names in those declarations."""
        found: dict[str, list[str]] = {}
        left = [*lines]
        while left:
            text = left.pop()
            for name in _mentioned(self.named, text):
                if name not in found:
                    expression = self.named[name]
                    inner = (rewrite(part, self.leaves.get) for part in expression.args)
                    meaning = Expression(expression.op, tuple(inner), expression.data)
                    leaf = self.leaves[expression]
                    found[name] = readable_update(leaf, in_brief(meaning, self.on), width)
                    left += found[name]
        return [line for name in self.named if name in found for line in found[name]]


def _mentioned(names: Iterable[str], text: str) -> Iterator[str]:
    words = set(re.findall(r"(?<![\w.])\w+(?:\.\w+)?(?!\w|=[^=])", text))
    words |= {word.partition(".")[0] for word in words}
    return (name for name in names if name in words)


def _leaf(name: str, expression: Expression) -> Expression:
    """A placeholder of the same type whose text is the name."""
    kind = type_of(expression)
    assert kind is not None
    return Expression("variable", (), Bound(name, kind))


@cache
def _of_file(file: str) -> Mapping[str, Expression]:
    """The expressions in variables of the module, by name; and those in variables of modules of its
    package that it imports, as `module.variable`. Empty if the module isn't loaded."""
    loaded = (m for m in [*sys.modules.values()] if getattr(m, "__file__", None) == file)
    module = next(loaded, None)
    if module is None:
        return {}
    found = _of_module(module)
    package = module.__name__.partition(".")[0]
    for alias, other in vars(module).items():
        if isinstance(other, ModuleType) and other.__name__.partition(".")[0] == package:
            found |= {f"{alias}.{name}": held for name, held in _of_module(other).items()}
    return found


def _of_module(module: ModuleType) -> dict[str, Expression]:
    every = [*vars(module).items()]
    return {n: e for n, e in every if isinstance(e, Expression) and n[0] != "_" and _is_part(e)}


def _is_part(expression: Expression) -> bool:
    """Whether an expression has a type and consists of others, so that a name is helpful."""
    if not expression.args or expression.op == "element":
        return False
    try:
        return type_of(expression) is not None
    except DeclarationError:
        return False
