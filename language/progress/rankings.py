"""Rankings: numbers that fair steps lower, for proofs of progress without bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..declaration.arguments import check_kind, check_name, items
from ..declaration.errors import DeclarationError, declared_at
from ..declaration.typecheck import type_of
from ..expressions import TRUE, Expression, Operand, children_first, lift
from ..machines import Event
from ..properties import check_from_outside
from ..terms.interned import Interned
from ..terms.scopes import free_variables
from ..types import Bool


@dataclass(frozen=True, eq=False)
class Helpful(Interned):
    """An event that helps where it is possible and `when` holds: it lowers the rank, or makes an
    earlier helpful event possible. `each` are variables for its instances, in its order; without
    them `when` is the same for all instances.
    """

    event: Event
    when: Expression = TRUE
    each: tuple[Expression, ...] = ()


@dataclass(frozen=True, eq=False)
class Ranking(Interned):
    """The proof of the leads-to `name`: numbers that no step raises until the goal holds, and the
    events that lower them.
    """

    name: str
    rank: tuple[Expression, ...]
    helpful: tuple[Helpful, ...]

    @property
    def parts(self) -> tuple[Expression, ...]:
        """Every expression in the ranking."""
        return (*self.rank, *(item.when for item in self.helpful))

    def over(self, change: Callable[[Expression], Expression]) -> Ranking:
        """The ranking with all its expressions changed."""
        return replace(
            self,
            rank=tuple(map(change, self.rank)),
            helpful=tuple(replace(item, when=change(item.when)) for item in self.helpful),
        )


def helps(event: Event, when: Operand = True, *, each: tuple[Expression, ...] = ()) -> Helpful:
    """A fair event that lowers the rank where `when` holds, or makes an earlier helpful event
    possible. `each` are variables for its instances: those of its machine, of the address, and of
    keys among its parameters.

    Raises DeclarationError for a wrong event, variable or condition over a state.
    """
    check_kind("helps", event, Event)
    where = f"helps {event.name}"
    bound = items(f"{where}, each", each, Expression, "variable")
    for variable in bound:
        if variable.op != "variable":
            raise DeclarationError(
                f"{where}, each: `{variable}` is not a variable: use KEY.variable(name)"
            )
    return Helpful(event, _of_state(where, lift(when)), bound)


def ranking(name: str, rank: tuple[Operand, ...], helpful: tuple[Helpful, ...]) -> Ranking:
    """The proof that the leads-to `name` holds. `rank` are numbers, compared lexicographically
    (true counts 1); the rest of each budget is put before them automatically. From the property's
    premise until its goal, no step may raise the rank, and one of the `helpful` events must be
    possible. A step of a helpful event must lower the rank, or make possible a helpful event before
    it in the tuple. Both arguments may use the variables of the property's `each`.

    Raises DeclarationError if a rank is not a number of a state, or nothing is helpful.
    """
    check_name("a ranking", name)
    where = f"ranking of {name}"
    parts = items(f"{where}, rank", rank, (Expression, int), "number")
    events = items(f"{where}, helpful", helpful, Helpful, "helps(...)")
    if not events:
        raise DeclarationError(f"{where}: without helpful events a run may stop: name some")
    numbers = (_of_state(where, lift(part), is_number=True) for part in parts)
    return Ranking(name, tuple(numbers), events)


def _of_state(where: str, part: Expression, *, is_number: bool = False) -> Expression:
    """The part, as a condition or a number over a whole state."""
    with declared_at(None, where):
        compared = is_number and not isinstance(type_of(part), Bool)
        check_from_outside(part >= 0 if compared else part, free_variables(part))
    if any(node.op == "after" for node in children_first(part)):
        raise DeclarationError(f"{where}: `{part}` refers to the next state")
    return part
