"""The smallest bounds within which the rows of a counterexample still lead to its violation."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ...language import DeclarationError, Instance, instantiate
from ...language.instances.instance import ending_anywhere
from ...model.engine.interpreter import FullState, Interpreter
from ..verdict.violation import Kind, violating_steps

BEAM = 32  # most states from which rows are followed at once


@dataclass(frozen=True)
class Smaller:
    """An instance with smaller constants, and the states after each row in it."""

    instance: Instance
    levels: Sequence[Collection[FullState]]


def smaller(
    instance: Instance, rows: Sequence[str], kind: Kind, broken: Collection[str], until: float
) -> Smaller | None:
    """Makes each constant as small as possible, one after the other: the rows must still lead to a
    violation of this kind, of one of the properties `broken` (empty: of a range). No value is tried
    after the time `until` of time.perf_counter. None if no constant can be smaller.
    """
    found: Smaller | None = None
    for info in instance.system.constant_infos:
        at = instance if found is None else found.instance
        for value in _below(at.constants[info.name], info.low):
            if time.perf_counter() > until:
                return found
            other = _with(at, info.name, value)
            levels = other and _followed(other, rows, kind, broken)
            if other and levels:
                found = Smaller(other, levels)
                break
    return found


def _below(value: int, low: int) -> Iterator[int]:
    """Smaller values to try, the least first."""
    tried = {low, low + 1, value // 2, value - 1}
    yield from sorted(each for each in tried if low <= each < value)


def _with(instance: Instance, name: str, value: int) -> Instance | None:
    """The instance with another value of a constant; None if the system refuses it."""
    system, usual = instance.system, instance.system.protocols.features_at(instance.protocol)
    try:
        other = instantiate(
            system,
            instance.protocol,
            {**instance.chosen, name: value},
            switch_on=instance.features - usual,
            switch_off=usual - instance.features,
            properties=[item.name for item in instance.properties],
        )
    except DeclarationError:
        return None
    return other if instance.may_deadlock else ending_anywhere(other)


def _followed(
    instance: Instance, rows: Sequence[str], kind: Kind, broken: Collection[str]
) -> list[list[FullState]]:
    """The states after each row, up to BEAM; empty if no last state has the violation, or if a row
    reads an instance that a key lacks with these constants."""
    if not set(rows) <= set(instance.row_names):
        return []
    try:
        return _levels(Interpreter(instance), rows, kind, broken)
    except DeclarationError:
        return []


def _levels(
    machine: Interpreter, rows: Sequence[str], kind: Kind, broken: Collection[str]
) -> list[list[FullState]]:
    levels = [[*machine.initial_states()][:BEAM]]
    for name in rows:
        row, table = machine.instance.row_names.index(name), name.partition("/")[0]
        following = {
            step.state: None
            for state in levels[-1]
            for step in machine.steps(state, table)
            if step.row == row and step.state is not None
        }
        levels.append([*following][:BEAM])
        if not following:
            return []
    levels[-1] = [s for s in levels[-1] if _is_violated(machine, s, kind, broken)]
    return levels if levels[-1] else []


def _is_violated(
    machine: Interpreter, state: FullState, kind: Kind, broken: Collection[str]
) -> bool:
    properties = machine.instance.properties
    if kind is Kind.DEADLOCK:
        return machine.is_stuck(state)
    if kind is Kind.STATE:
        return any(
            item.name in broken and not machine.holds(item.expression, state)
            for item in properties
            if item.kind == "invariant"
        )
    steps = violating_steps(machine, state, properties, ranges=not broken)
    return any(item is None or item.name in broken for _, item in steps)
