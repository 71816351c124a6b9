"""A system with its constants, protocol and features settled: the input of every engine.

The network and the budgets become ordinary variables here, so that an engine knows only
variables, actions and properties.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

from ..declaration.pictures import LastRecord, Log
from ..declaration.places import Place
from ..expressions import (
    ConstantInfo,
    Expression,
    all_true,
    lift,
)
from ..messages import Message
from ..progress.rankings import Ranking
from ..properties import Property
from ..systems import System
from ..terms.folding import truth
from ..terms.interned import Interned
from ..types import (
    Type,
    Value,
)


@dataclass(frozen=True)
class Variable:
    """One part of the state: a machine's field for all its instances, a channel or a budget."""

    name: str
    type: Type
    initials: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class ActionRow(Interned):
    """A row of an action. `rooms` has a condition for each sent message: its channel has room."""

    id: str
    guard: Expression
    rooms: tuple[tuple[Message, Expression], ...]
    updates: tuple[tuple[Expression, Expression], ...]
    declared: Place | None = None

    @cached_property
    def room(self) -> Expression:
        """Whether the channels have room for all messages of the row."""
        return all_true(*(room for _, room in self.rooms))


@dataclass(frozen=True, eq=False)
class Action(Interned):
    """A table on an event, instantiated. It has a step for every value of `bounds` (and every
    distinct element of the bag that `choice` ranges over) for which `when` holds. The step takes
    the first row whose guard holds, if the channels have capacity for its messages. On an ordered
    channel `taken` is the first message, without a choice.

    `this` is the variable in `bounds` for the table's own instance. For an action on a message in
    flight, `message` is that message; the step takes it from the network, unless it `adds` another.
    """

    table: str
    bounds: tuple[Expression, ...]
    taken: Expression | None
    when: Expression
    rows: tuple[ActionRow, ...]
    this: Expression | None = None
    message: Message | None = None
    adds: bool = False
    declared: Place | None = None

    @property
    def choice(self) -> Expression | None:
        """`taken`, if it ranges over the elements of a bag; else None."""
        return None if self.taken is None or self.taken.op != "element" else self.taken


@dataclass(frozen=True, eq=False)
class Instance:
    """A system under check. Constants that are left `open` have no value: a result holds for each
    of their values from the lowest on. `properties` are those of states and steps, `progress` are
    those of whole runs, and `rankings` are for their proofs.
    """

    system: System
    protocol: str
    features: frozenset[str]
    constants: Mapping[str, int]
    variables: tuple[Variable, ...]
    actions: tuple[Action, ...]
    properties: tuple[Property, ...]
    terminal: Expression
    open: tuple[ConstantInfo, ...] = ()
    progress: tuple[Property, ...] = ()
    rankings: tuple[Ranking, ...] = ()
    logs: tuple[Log | LastRecord, ...] = ()

    @cached_property
    def row_names(self) -> tuple[str, ...]:
        """Every row, as table and row name, in the order that coverage counts them."""
        return tuple(f"{action.table}/{row.id}" for action in self.actions for row in action.rows)

    @property
    def chosen(self) -> dict[str, int]:
        """The constants that a user may set, with their values, without open ones."""
        return {
            info.name: self.constants[info.name]
            for info in self.system.constant_infos
            if info not in self.open
        }

    @property
    def switched(self) -> list[str]:
        """Features that differ from the release's: `with x and y`, `without z`."""
        usual = self.system.protocols.features_at(self.protocol)
        each = {"with": self.features - usual, "without": usual - self.features}
        return [f"{how} {' and '.join(sorted(names))}" for how, names in each.items() if names]

    @property
    def may_deadlock(self) -> bool:
        """Whether a deadlock is possible: `terminal` isn't the constant true."""
        return not self.terminal.same_as(lift(True))

    def initial_states(self) -> Iterable[tuple[Value, ...]]:
        """The initial states: a value for each variable."""
        return product(*(variable.initials for variable in self.variables))


def ending_anywhere(instance: Instance) -> Instance:
    """The instance whose runs may end in any state, so that none is a deadlock."""
    return replace(instance, terminal=lift(True))


def ends_anywhere(instance: Instance) -> bool:
    """Whether the declaration allows a run to end in any state, by `terminal=True`."""
    return truth(instance.system.end, instance.constants, instance.features) is True
