"""Rows taken by the interpreter and by the compiled oracle, which have to come to the same.

What a test of answers says of one step, it says of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from epochfence.language import Instance
from epochfence.model.engine.compiler.stepper import Stepper
from epochfence.model.engine.interpreter import FullState, Interpreter, Step


class Both(Interpreter):
    """An interpreter each of whose steps is taken by compiled rows as well."""

    def steps(self, state: FullState, table: str | None = None) -> Iterator[Step]:
        """Every step enabled in a state, of the one table where it is named."""
        found = list(super().steps(state, table))
        compiled = [
            step
            for index, action in enumerate(self.instance.actions)
            if table in (None, action.table)
            for bound in _stepper(self.instance).bindings(index, state)
            if (step := _stepper(self.instance).take(index, state, bound)) is not None
        ]
        assert list(map(_outcome, compiled)) == list(map(_outcome, found))
        yield from found


@cache
def _stepper(instance: Instance) -> Stepper:
    return Stepper(instance)


def _outcome(step: Step) -> object:
    """A step without the words for an update out of range, which are each engine's own."""
    return step.bound, None if step.out_of_range else (step.row, step.state)
