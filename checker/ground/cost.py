"""Estimates the cost of grounding in advance: nested quantifiers multiply."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import prod

from ...language import Bag, DeclarationError, Expression, Instance, Sequence, Set
from ...language.declaration.places import Place
from ...language.declaration.typecheck import type_of
from ...language.expressions import QUANTIFIERS, resolve
from ...language.types import Type, how_many

MOST = 10_000_000  # most nodes of expressions: they take minutes; shipped systems have some 40,000


def check_effort(instance: Instance) -> None:
    """Raises DeclarationError if grounding would take more than minutes. The message has the table
    or property, and the constant to make smaller.
    """
    constants = {**instance.constants, **{info.name: info.low for info in instance.open}}

    def heaviest() -> str:
        """The constant whose least value would save the most nodes, with its value."""
        saved = {
            info.name: _weighed(instance, _Weighing({**constants, info.name: info.low})).total
            for info in instance.system.constant_infos
            if constants.get(info.name, info.low) > info.low
        }
        name = min(saved, key=saved.__getitem__, default="")
        return f", above all of {name} ({constants[name]})" if name else ""

    _weighed(instance, _Weighing(constants, heaviest))


def _weighed(instance: Instance, weighing: _Weighing) -> _Weighing:
    """Counts all expressions of an instance."""
    for item in instance.properties:
        weighing.add(f"property {item.name}", item.declared, [item.expression])
    for item in instance.progress:
        times = prod(weighing.size(name.data.type) for name in item.each)
        parts = [item.premise, item.expression]
        weighing.add(f"property {item.name}", item.declared, parts, times)
    weighing.add("terminal", instance.system.declared, [instance.terminal])
    for action in instance.actions:
        each = [action.when]
        for row in action.rows:
            each += [row.guard, row.room, *(part for update in row.updates for part in update)]
        times = prod(weighing.size(bound.data.type) for bound in action.bounds)
        weighing.add(f"table {action.table}", action.declared, each, times)
    return weighing


class _Weighing:
    """Counts the nodes of expressions. A node under a quantifier counts for each case. With
    `heaviest` there is a limit, and the function returns the remedy.
    """

    def __init__(
        self, constants: Mapping[str, int], heaviest: Callable[[], str] | None = None
    ) -> None:
        self.constants = constants
        self.heaviest = heaviest
        self.known: dict[Expression, int] = {}
        self.total = 0

    def add(
        self, where: str, place: Place | None, every: Iterable[Expression], times: int = 1
    ) -> None:
        """Counts the nodes of one declaration, for each of `times` bindings."""
        here = times * self.weight(every)
        self.total += here
        if self.heaviest is not None and self.total > MOST:
            raise DeclarationError(
                f"its expressions have {here:,} parts, for all values of parameters and variables, "
                f"which takes the system over its limit of {MOST:,}: use smaller bounds"
                f"{self.heaviest()}"
            ).within(where, place)

    def weight(self, every: Iterable[Expression]) -> int:
        """The number of different nodes; under quantifiers each counts for each case."""
        stack, seen, total = list(every), set[Expression](), 0
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            total += 1
            if node.op in QUANTIFIERS:
                total += self.quantified(node)
                stack += node.args[0].args
            else:
                stack += node.args
        return total

    def quantified(self, node: Expression) -> int:
        """The nodes of a quantifier's body, multiplied by its cases."""
        if node not in self.known:
            bound, body = node.args
            count = self.size(bound.data.type if bound.op == "variable" else _stored(bound.args[0]))
            self.known[node] = count * self.weight([body])
        return self.known[node]

    def size(self, over: Type | None) -> int:
        """The number of values or elements of a type."""
        match over:
            case None:
                return 1
            case Set():
                return how_many(over.of, self.constants)
            case Sequence() | Bag():
                return resolve(over.capacity, self.constants)
            case _:
                return how_many(over, self.constants)


def _stored(collection: Expression) -> Type | None:
    """The type of a collection that is a part of the state. None for a computed one, whose type
    overestimates its size.
    """
    part = collection
    while part.op in ("index", "get"):
        part = part.args[0]
    return type_of(collection) if part.op == "field" else None
