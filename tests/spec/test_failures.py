"""Each property of a shipped system says how it fails, with the values of a violation."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache

import pytest

from epochfence.checker.verdict.explanation import Values, failure_sentence
from epochfence.language import (
    Bag,
    Instance,
    Map,
    Optional,
    Property,
    Record,
    Sequence,
    Set,
    instantiate,
)
from epochfence.language.expressions import children_first
from epochfence.language.terms.values import field_name
from epochfence.language.types import Constants, Type, Value, choices
from epochfence.model.engine.interpreter import FullState
from epochfence.spec.changes import VARIED
from epochfence.spec.systems import SHIPPED

TRIES = 30_000
CONSTANTS = {"delivery": {"transactional_id": 1, "read_committed": 1}}
"""Without transactions, some properties of the system hold in every state."""
OFF = {"transactions+franz-go": ["aborted_sorted"]}
EVERY = SHIPPED | VARIED


def drawn(kind: Type, constants: Constants, rng: random.Random) -> Value:
    """A value of the type; a sequence is short."""
    match kind:
        case Optional():
            return None if rng.random() < 0.3 else drawn(kind.of, constants, rng)
        case Set():
            return frozenset(v for v in choices(kind.of, constants) if rng.random() < 0.4)
        case Sequence() | Bag():
            count = rng.choice((0, 1, 2, 2, 3))
            return tuple(drawn(kind.of, constants, rng) for _ in range(count))
        case Map():
            return tuple(drawn(kind.of, constants, rng) for _ in range(kind.key.count(constants)))
        case Record():
            return tuple(drawn(of, constants, rng) for _, of in kind.fields)
        case _:
            return rng.choice(choices(kind, constants))


@cache
def instance_of(name: str) -> Instance:
    """The system at its newest release."""
    return instantiate(EVERY[name](), constants=CONSTANTS.get(name), switch_off=OFF.get(name, ()))


def read_by(instance: Instance, item: Property) -> list[int]:
    """The variables that a property reads, by index."""
    read = {field_name(n.data) for n in children_first(item.expression) if n.op == "field"}
    return [at for at, variable in enumerate(instance.variables) if variable.name in read]


def violations(
    instance: Instance, item: Property, rng: random.Random
) -> Iterator[tuple[FullState, FullState | None]]:
    """Drawn states, or steps, that break a property; they needn't be reachable."""
    start = next(iter(instance.initial_states()))
    read = read_by(instance, item)
    is_step = item.kind == "step"

    def other(state: FullState) -> FullState:
        changed = list(state)
        for at in read:
            if rng.random() < 0.7:
                changed[at] = drawn(instance.variables[at].type, instance.constants, rng)
        return tuple(changed)

    for _ in range(TRIES):
        before = other(start)
        after = other(before) if is_step else None
        if not Values.of(instance, before, after).value(item.expression, {}):
            yield before, after


def every_property() -> list[tuple[str, str]]:
    """Each property of a shipped system once: the system, and its name."""
    found: dict[tuple[str, str], str] = {}
    for name in EVERY:
        instance = instance_of(name)
        for item in (*instance.properties, *instance.progress):
            found.setdefault((item.name, item.sentence), name)
    return [(system, name) for (name, _), system in found.items()]


@pytest.mark.parametrize("system", list(EVERY))
def test_each_property_says_how_it_fails(system: str) -> None:
    instance = instance_of(system)
    assert not [p.name for p in (*instance.properties, *instance.progress) if not p.failures]


@pytest.mark.parametrize(("system", "name"), every_property())
def test_a_failure_sentence_is_filled_with_values(system: str, name: str) -> None:
    instance = instance_of(system)
    item = next(p for p in (*instance.properties, *instance.progress) if p.name == name)
    if item.kind == "leads to":
        pytest.skip("its variables are bound by the run")
    before, after = next(violations(instance, item, random.Random(name)))
    told = failure_sentence(instance, item, before, after, after=5)
    when = "in step 6" if item.kind == "step" else "after 5 steps"
    assert told.startswith(f"{name} doesn't hold: {when} ")
    assert told.endswith(f". ({item.sentence})")
    assert "{" not in told.replace(item.sentence, "")
