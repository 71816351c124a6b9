"""A system's steps by compiled rows. It has the meaning of `Interpreter`, and is about a hundred
times as fast.

It runs the functions of `Machine` on a bounded system's states. The explorer's runs are replayed
with it, and so compared with the executable machines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ....language import Action, Expression, Instance
from ....language.types import Type, Value
from ..errors import ModelError, OutOfRangeError
from ..interpreter import Bindings, FullState, Step, bindings
from ..values import Ranges
from .compiler import Compiler, Layout, Rule

Bound = Mapping[Expression, Value]


class Stepper:
    """An instance's steps. A state is a tuple with a value per variable. An action is compiled at
    its first use."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        names = [variable.name.split(".", 1) for variable in instance.variables]
        self._places = {(machine, name): f"s[{at}]" for at, (machine, name) in enumerate(names)}
        self._ranges = Ranges(instance.constants, open_keys=False)
        self._actions: dict[int, tuple[Callable[..., Any], Callable[..., Any] | None]] = {}

    def _compiler(self, names: Mapping[Expression, str]) -> Compiler:
        def refused(field: str, _: Type, value: Any) -> ModelError:
            return OutOfRangeError(f"{field} can't be {value!r}", field)

        layout = Layout(self._places, names)
        return Compiler(
            layout,
            self._ranges,
            refused=refused,
            out_of_range=lambda field, value: OutOfRangeError(f"{field} can't be {value!r}", field),
        )

    def _action(self, index: int) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
        if index not in self._actions:
            self._actions[index] = self._compiled(self.instance.actions[index])
        return self._actions[index]

    def _compiled(self, action: Action) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
        names = {bound: f"b{at}" for at, bound in enumerate(action.bounds)}
        bag = None
        if action.choice is not None:
            parameters = {name: bound.data.type for bound, name in names.items()}
            bag = self._compiler(names).expression(action.choice.args[0], parameters)
            names[action.choice] = "choice"
        parameters = dict.fromkeys(names.values())
        rules = [Rule(row.id, row.guard, row.updates, room=row.room) for row in action.rows]
        function = self._compiler(names).function(
            parameters,  # type: ignore[reportArgumentType]  # unchecked, they have no types
            action.when,
            rules,
            checked=True,
        )
        return function, bag

    def bindings(self, index: int, state: FullState) -> Iterator[Bindings]:
        """The bindings of an action in a state. `index` is the index of the action."""
        bag = self._action(index)[1]

        def contents(_: Expression, bound: Bindings) -> Any:
            assert bag is not None
            return bag(list(state), (), None, *bound.values())

        return bindings(self.instance.actions[index], self.instance.constants, contents)

    def take(self, index: int, state: FullState, bound: Bound) -> Step | None:
        """The step of an action with these bindings, or None. A step that leaves a type's range has
        `out_of_range` and no state."""
        action = self.instance.actions[index]
        before = sum(len(other.rows) for other in self.instance.actions[:index])
        fields = list(state)
        named = tuple(bound.items())
        try:
            result = self._action(index)[0](fields, (), None, *bound.values())
        except OutOfRangeError as error:
            return Step(-1, action, named, None, str(error))
        if result is None:
            return None
        return Step(before + result[0], action, named, tuple(fields))

    def steps(self, state: FullState) -> Iterator[Step]:
        """Every step enabled in a state."""
        for index in range(len(self.instance.actions)):
            for bound in self.bindings(index, state):
                step = self.take(index, state, bound)
                if step is not None:
                    yield step
