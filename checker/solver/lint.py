"""Checks tables in every state that the types allow, reachable or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from ...language import Instance, System, Table, instantiate
from ...language.expressions import EnumValue, Expression, children_first
from ...language.types import show_value
from ..ground import GroundAction, Grounded, ground
from ..ground.graph import Node, leaves_of
from ..verdict.constant_folding import ruled_out
from ..verdict.vacuity import SETTINGS, known_reasons
from .terms import Bits, Relation, Term, z3

FAULTS = ("unreachable", "error")


@dataclass(frozen=True)
class Finding:
    """A finding in a table: an event that is `unanswered`, a row that is `unreachable` because of
    the rows before it, rows that `overlap`, an update that may leave its `range`, an `error` that
    the response can't carry. `example` is a state with the finding. `explained` is the reason for a
    hidden row, if constants or the system's list of unreached rows give one.
    """

    kind: str
    table: str
    rows: tuple[str, ...]
    example: str = ""
    explained: str = ""

    @property
    def is_error(self) -> bool:
        """Whether it is certainly an error. Other findings may be intended."""
        return self.kind in FAULTS and not self.explained

    def as_json(self) -> dict[str, Any]:
        """The finding as plain data."""
        return {
            "kind": self.kind,
            "table": self.table,
            "rows": list(self.rows),
            "example": self.example,
            "explained": self.explained or None,
            "fault": self.is_error,
        }


def lint(
    system: System,
    protocol: str | None,
    tables: Sequence[Table],
    constants: Mapping[str, int] | None = None,
) -> list[Finding]:
    """Z3's findings in these tables of a system at a release (None: the newest).

    Raises DeclarationError for an unknown release or constant.
    """
    return list(findings(system, protocol, tables, constants))


def findings(
    system: System,
    protocol: str | None,
    tables: Sequence[Table],
    constants: Mapping[str, int] | None = None,
) -> Iterator[Finding]:
    """Yields the findings of `lint` one by one. Raises KeyboardInterrupt at Ctrl-C, which Z3
    catches.
    """
    instance = instantiate(system, protocol, constants, properties=[])
    for table in tables:
        yield from _errors(instance, table)
    yield from _Lint(instance).findings({table.name for table in tables})


class _Lint:
    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.grounded: Grounded = ground(instance)
        self.relation = Relation(self.grounded, Bits())
        self.solver = z3.SolverFor(self.relation.numbers.logic)
        self.solver.add(self.relation.in_range)
        # by names of rows: a reason for a whole table doesn't explain the order of its rows
        self.explained = known_reasons(instance)
        self.explained |= dict.fromkeys(ruled_out(instance).rows, SETTINGS)
        self.by_table: dict[str, list[GroundAction]] = {}
        self.table_of: list[str] = [name.partition("/")[0] for name in instance.row_names]
        for action in self.grounded.actions:
            self.by_table.setdefault(self.table_of[action.guards[0][0]], []).append(action)

    def findings(self, tables: set[str]) -> Iterator[Finding]:
        """Yields the findings of these tables."""
        for table, actions in self.by_table.items():
            if table not in tables:
                continue
            yield from self._unanswered(table, actions)
            rows = [row for row, _ in actions[0].guards]
            for row in rows:
                if not any(self._finds(action, self._first(action, row)) for action in actions):
                    why = self.explained.get(self.instance.row_names[row], "")
                    yield Finding("unreachable", table, (self._name(row),), explained=why)
            for pair in combinations(rows, 2):
                yield from self._overlap(table, actions, pair)
            yield from self._ranges(table, actions)

    def _unanswered(self, table: str, actions: list[GroundAction]) -> Iterator[Finding]:
        graph = self.grounded.graph
        for action in actions:
            none = graph.and_(*(graph.not_(guard) for _, guard in action.guards))
            example = self._finds(action, none)
            if example:
                yield Finding("unanswered", table, (), example)
                return

    def _overlap(
        self, table: str, actions: list[GroundAction], pair: tuple[int, int]
    ) -> Iterator[Finding]:
        names = tuple(map(self._name, pair))
        for action in actions:
            guards = dict(action.guards)
            if self.grounded.graph.true in (guards[pair[0]], guards[pair[1]]):
                return  # a row for all other cases
            example = self._finds(action, self.grounded.graph.and_(*(guards[row] for row in pair)))
            if example:
                yield Finding("overlap", table, names, example)
                return

    def _ranges(self, table: str, actions: list[GroundAction]) -> Iterator[Finding]:
        reported: set[int] = set()
        for action in actions:
            for row in action.rows:
                if row.row in reported:
                    continue
                example = self._finds(action, self.grounded.graph.and_(row.guard, row.out_of_range))
                if example:
                    reported.add(row.row)
                    yield Finding("range", table, (self._name(row.row),), example)

    def _first(self, action: GroundAction, row: int) -> Node:
        """The condition that a row's guard is the first one that holds."""
        graph = self.grounded.graph
        before = [graph.not_(guard) for other, guard in action.guards if other < row]
        return graph.and_(*before, dict(action.guards)[row])

    def _finds(self, action: GroundAction, condition: Node) -> str:
        """The text of a state in which the action is possible and the condition holds; empty if
        there is none.
        """
        if condition is self.grounded.graph.false:
            return ""
        self.solver.push()
        self.solver.add(self.relation.is_there(action), self.relation.terms.truth(condition))
        verdict, example = self.solver.check(), ""
        if verdict == z3.sat:
            example = self._example(action, condition, self.solver.model())
        elif verdict == z3.unknown:
            example = f"(Z3 couldn't tell: {self.solver.reason_unknown()})"
            if "interrupted" in example:
                raise KeyboardInterrupt
        self.solver.pop()
        return example

    def _example(self, action: GroundAction, condition: Node, model: Term) -> str:
        """The model's values of the variables that the condition reads, as traces show them."""
        read = {self.grounded.leaves[at].path[0] for at in leaves_of([condition, *action.possible])}
        parts = [f"{key}{number}" for key, number in action.instances]
        state = self.grounded.plain(self.relation.vector(model, self.relation.now))
        for variable, value in zip(self.instance.variables, state, strict=True):
            if variable.name in read:
                parts.append(f"{variable.name}={show_value(variable.type, value)}")
        return ", ".join(parts) or "any state"

    def _name(self, row: int) -> str:
        return self.instance.row_names[row].partition("/")[2]


def _errors(instance: Instance, table: Table) -> Iterator[Finding]:
    """Replies with an error that the response doesn't have at this release."""
    protocols, features = instance.system.protocols, instance.features
    for row in table.rows:
        if not protocols.holds(row.during, features):
            continue
        for sending in table.sendings(row):
            allowed = {
                error.data.member
                for error, during in sending.message.errors
                if protocols.holds(during, features)
            }
            said = dict(sending.fields).get("error")
            if not sending.message.errors or said is None:
                continue
            for member in _members(said, instance):
                if member not in allowed:
                    yield Finding("error", table.name, (row.id,), member)


def _members(said: Expression, instance: Instance) -> list[str]:
    """The members of an enum that may be the value of an expression at this release."""
    if said.op == "if":
        condition = said.args[0]
        if all(n.op in ("feature", "not", "and", "or", "const") for n in children_first(condition)):
            holds = instance.system.protocols.holds(condition, instance.features)
            return _members(said.args[1 if holds else 2], instance)
        return [member for part in said.args[1:] for member in _members(part, instance)]
    return [said.data.member] if isinstance(said.data, EnumValue) else []
