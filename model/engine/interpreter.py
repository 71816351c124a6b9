"""Runs systems on plain values, step by step: the executable meaning of a declaration.

It is simple and slow on purpose. Traces are replayed on it, and the native explorer is compared
with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

from ...language import Action, Expression, Instance, Property
from ...language.expressions import naming
from ...language.terms.scopes import free_variables
from ...language.terms.values import assign, evaluate, field_name
from ...language.types import Value, choices, contains, show_value

FullState: TypeAlias = tuple[Value, ...]


@dataclass(frozen=True)
class Step:
    """A taken step: the row's index in `Instance.row_names`, the bindings, the reached state.

    `out_of_range` names the update that leaves its type's range, if any. Then there is no state.
    """

    row: int
    action: Action
    bound: tuple[tuple[Expression, Value], ...]
    state: FullState | None
    out_of_range: str = ""


Bindings: TypeAlias = dict[Expression, Value]


def bindings(
    action: Action,
    constants: Mapping[str, int],
    contents: Callable[[Expression, Bindings], Any],
) -> Iterator[Bindings]:
    """The possible bindings of an action in a state. `contents` returns the elements of a bag
    there."""
    domains = [choices(bound.data.type, constants) for bound in action.bounds]
    for values in product(*domains):
        bound = dict(zip(action.bounds, values, strict=True))
        if action.choice is None:
            yield bound
            continue
        for content in dict.fromkeys(contents(action.choice.args[0], bound)):
            yield {**bound, action.choice: content}


class Interpreter:
    """An instance's states and steps. A state is a tuple with a value per variable."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.names = tuple(variable.name for variable in instance.variables)
        self.types = {variable.name: variable.type for variable in instance.variables}

    def initial_states(self) -> Iterator[FullState]:
        """The initial states."""
        yield from self.instance.initial_states()

    def as_mapping(self, state: FullState) -> dict[str, Value]:
        """The state by variable name."""
        return dict(zip(self.names, state, strict=True))

    def holds(
        self,
        condition: Expression,
        state: FullState,
        following: FullState | None = None,
        bound: Iterable[tuple[Expression, Value]] = (),
    ) -> bool:
        """Whether a condition holds in a state, or for the step from it to `following`. `bound` has
        the values of variables in the condition."""
        next_ = None if following is None else self.as_mapping(following)
        constants, values = self.instance.constants, dict(bound)
        return bool(evaluate(condition, self.as_mapping(state), constants, values, following=next_))

    def step_holds(self, item: Property, state: FullState, following: FullState) -> bool:
        """Whether a step property holds of a step."""
        return self.holds(item.expression, state, following)

    def broken(self, run: Sequence[FullState]) -> Iterator[Property]:
        """The safety properties that the last state of a run, or the step to it, breaks."""
        for item in self.instance.properties:
            if item.kind != "step":
                holds = self.holds(item.expression, run[-1])
            else:
                holds = len(run) < 2 or self.step_holds(item, *run[-2:])
            if not holds:
                yield item

    def is_stuck(self, state: FullState) -> bool:
        """Whether a state is a deadlock: it has no next step, and isn't terminal."""
        ended = next(self.steps(state), None) is None
        return ended and not self.holds(self.instance.terminal, state)

    def steps(self, state: FullState, table: str | None = None) -> Iterator[Step]:
        """Every step enabled in a state (of one table, if named), in the declared order of rows."""
        before, constants = self.as_mapping(state), self.instance.constants
        index = 0

        def contents(bag: Expression, bound: Bindings) -> Value:
            return self._value(bag, before, bound)

        for action in self.instance.actions:
            wanted = table in (None, action.table)
            for bound in bindings(action, constants, contents) if wanted else ():
                step = self._take(action, index, before, bound)
                if step is not None:
                    yield step
            index += len(action.rows)

    def _value(self, expression: Expression, before: Mapping[str, Value], bound: Bindings) -> Value:
        """The value of an expression in rows."""
        return evaluate(expression, before, self.instance.constants, bound)

    def _take(
        self,
        action: Action,
        index: int,
        before: Mapping[str, Value],
        bound: dict[Expression, Value],
    ) -> Step | None:
        constants = self.instance.constants
        if not self._value(action.when, before, bound):
            return None
        for offset, row in enumerate(action.rows):
            if not self._value(row.guard, before, bound):
                continue
            if not self._value(row.room, before, bound):
                return None
            after = dict(before)
            named = tuple(bound.items())
            for target, expression in row.updates:
                value = self._value(expression, before, bound)
                assign(target, value, after, before, constants, bound)
            for name, kind in self.types.items():
                if after[name] is not before[name] and not contains(kind, after[name], constants):
                    fault = f"{name} would be {show_value(kind, after[name])}: not {kind}"
                    return Step(index + offset, action, named, None, fault)
            return Step(index + offset, action, named, tuple(after[n] for n in self.names))
        return None


class Remembering(Interpreter):
    """An interpreter for many similar states. It evaluates an expression once for all states with
    the same values of the expression's fields."""

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        self._read: dict[Expression, tuple[tuple[str, ...], tuple[Expression, ...]]] = {}
        self._known: dict[tuple[Expression, Any, Any], Value] = {}

    def _value(self, expression: Expression, before: Mapping[str, Value], bound: Bindings) -> Value:
        read = self._read.get(expression)
        if read is None:
            fields = (field_name(node.data) for node in naming(expression) if node.op == "field")
            read = tuple(dict.fromkeys(fields)), tuple(free_variables(expression))
            self._read[expression] = read
        fields, names = read
        key = expression, tuple(before[f] for f in fields), tuple(bound[n] for n in names)
        if key not in self._known:
            self._known[key] = super()._value(expression, before, bound)
        return self._known[key]
