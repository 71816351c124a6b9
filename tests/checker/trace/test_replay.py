"""Traces as files: what is written is read as it was, and taken again step by step."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from epochfence import language as lang
from epochfence.checker.check import check
from epochfence.checker.named_systems import load_system
from epochfence.checker.tla.names import names_of
from epochfence.checker.trace.itf import Settings, TraceError, as_itf, decoded, encoded, read_trace
from epochfence.checker.trace.replay import replay
from epochfence.checker.verdict.result import Outcome, Verdict
from epochfence.language import Instance, Row, System, Table, instantiate
from epochfence.language.types import Value
from epochfence.model.engine.interpreter import Interpreter
from epochfence.tests.checker.drawn_systems import instances

counter = lang.Machine("counter")
x = counter.field("x", lang.Int(0, 3))
lamp = counter.field("lamp", lang.Bool())
tick = lang.event("tick")
up = Row("up", when=x < 3, set={x: x + 1, lamp: ~lamp})


def counting(*rows: Row, **parts: Any) -> Instance:
    """A system of a number and a lamp."""
    some = (lang.invariant("Some", x >= 0, "x is some number."),)
    given: dict[str, Any] = {"properties": some, "terminal": True} | parts
    system = System("counting", (Table(counter, tick, rows or (up,)),), **given)
    return instantiate(system, progress=True)


def written(instance: Instance, outcome: Outcome) -> str:
    """The file of a counterexample."""
    assert outcome.trace is not None
    variables = {variable.name: variable.type for variable in instance.variables}
    broken = next((p.name for p in outcome.properties if p.verdict == "broken"), "")
    of = Settings("counting", instance.protocol, tuple(instance.features), instance.chosen)
    return as_itf(outcome.trace, variables, of, broken)


def again(instance: Instance, text: str) -> Outcome:
    """What the file comes to."""
    return replay(instance, read_trace(text.encode()))


BROKEN: dict[str, Callable[[], Instance]] = {
    "an invariant": lambda: counting(properties=(lang.invariant("Low", x < 3, "x is low."),)),
    "a step": lambda: counting(
        properties=(lang.step_property("Slow", lang.after(x) <= 2, "x is slow."),)
    ),
    "a range": lambda: counting(Row("up", set={x: x + 1})),
    "a deadlock": lambda: counting(terminal=False),
    "a lasso": lambda: counting(progress=(lang.leads_to("Lit", x == 3, x == 0, "It ends."),)),
    "a dead end": lambda: counting(progress=(lang.always_possible("Low", x < 2, "It may fall."),)),
    "a loop": lambda: counting(
        Row("up", when=x < 3, set={x: x + 1}),
        Row("down", set={x: 1}),
        progress=(lang.leads_to("Falls", x == 3, x == 0, "It falls."),),
        fairness=lang.weak_fairness(tick),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_kind_of_fault_is_seen_again(name: str) -> None:
    instance = BROKEN[name]()
    result = check(instance)
    assert result.trace is not None
    text = written(instance, result)
    found = again(instance, text)
    assert found.trace is not None
    assert (found.verdict, found.reason) == (result.verdict, result.reason)
    assert found.trace == result.trace
    assert written(instance, found) == text


def test_a_run_that_breaks_nothing_says_nothing_of_others() -> None:
    instance = counting(terminal=False)
    text = written(instance, check(instance))
    found = again(instance, json.dumps({"states": json.loads(text)["states"][:2]}))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert [step.row for step in (found.trace.steps if found.trace else ())] == ["up"]


def test_a_trace_of_other_programs_may_stutter_and_leave_variables_out() -> None:
    """TLC and Quint write whole numbers as #bigint, and stay in the last state of a run."""
    values = [{"counter.x": {"#bigint": str(at)}} for at in (0, 1, 1, 2)]
    found = again(counting(), json.dumps({"vars": ["counter.x"], "states": values}))
    assert found.trace is not None
    assert [dict(state) for state in found.trace.data] == [
        {"counter.x": at, "counter.lamp": at == 1} for at in range(3)
    ]


def of_apalache(kind: lang.types.Type, value: Value) -> Any:
    """A value of the module that `export tla` writes, as Apalache has it."""
    match kind, value:
        case lang.Optional(), _:
            return [] if value is None else [of_apalache(kind.of, value)]
        case lang.Bag(), tuple():
            counted = Counter(value).items()
            return {"#map": [[of_apalache(kind.of, v), {"#bigint": str(n)}] for v, n in counted]}
        case lang.Map(), tuple():
            each = enumerate(value)
            return {"#map": [[{"#bigint": str(at)}, of_apalache(kind.of, v)] for at, v in each]}
        case lang.Set(), frozenset():
            return {"#set": [of_apalache(kind.of, each) for each in sorted(value, key=str)]}
        case lang.Record(), tuple():
            fields = zip(kind.fields, value, strict=True)
            return {name: of_apalache(of, part) for (name, of), part in fields}
        case _, bool() | str():
            return value
        case _:
            return {"#bigint": str(value)}


def test_a_trace_of_the_exported_module_is_taken_again() -> None:
    """As Apalache writes it: names of TLA+, every number a #bigint, no word of rows."""
    instance = instantiate(load_system("docs/examples/lease.py"), "1")
    trace = check(instance).trace
    assert trace is not None
    names = names_of(instance)
    states = [
        {
            names.variable(variable.name): of_apalache(variable.type, value)
            for variable, value in zip(instance.variables, state, strict=True)
        }
        for state in trace.states
    ]
    text = json.dumps({"vars": [*states[0]], "states": states})
    assert "network.Acquire" not in text
    found = again(instance, text)
    assert found.verdict is Verdict.BROKEN
    assert found.trace == trace


@pytest.mark.parametrize("often", [-1, "2", True, {"#bigint": "2000"}])
def test_a_count_that_is_none_is_refused(often: Any) -> None:
    with pytest.raises(TraceError, match="is not the count of an element"):
        decoded(lang.Bag(lang.Int(0, 3), 2), {"#map": [[1, often]]}, {}, "here")


NO_TRACES: dict[str, tuple[Any, str]] = {
    "not json": ("{", "not valid JSON: column 2"),
    "a list": ([], "the trace is not an object"),
    "no states": ({}, "not an ITF trace: it has no `states`"),
    "none": ({"states": []}, "not an ITF trace: it has no `states`"),
    "a state": ({"states": [1]}, "state 0 is not an object"),
    "empty": ({"states": [{}]}, "state 0: it names no variable of counting"),
    "a loop": ({"states": [{"counter.x": 0}], "loop": 1}, "its loop, 1, isn't the index of"),
    "unknown": ({"states": [{"counter.y": 0}]}, "state 0: counter.y is not a variable of counting"),
    "a type": ({"states": [{"counter.x": True}]}, "state 0, counter.x: true is not of type 0..3"),
    "a range": ({"states": [{"counter.x": 4}]}, "state 0, counter.x: 4 is not of type 0..3"),
    "a text": ({"states": [{"counter.x": "a" * 99}]}, "state 0, counter.x: "),
    "another beginning": (
        {"states": [{"counter.x": 1}]},
        "state 0: not an initial state of the system",
    ),
    "a jump": (
        {"states": [{"counter.x": 0}, {"counter.x": 2}]},
        "state 1: no row leads to it from the state before",
    ),
    "another row": (
        {"states": [{"counter.x": 0}, {"#meta": {"row": "gone"}, "counter.x": 1}]},
        'state 1: "up" leads to it, but the file says "gone": wrong declaration',
    ),
    "no lasso": (
        {"states": [{"counter.x": 0}, {"counter.x": 1}], "loop": 0},
        "counting has no property of progress",
    ),
}


@pytest.mark.parametrize("name", NO_TRACES)
def test_what_is_no_trace_is_told_in_a_line(name: str) -> None:
    data, message = NO_TRACES[name]
    with pytest.raises(TraceError) as told:
        again(counting(), data if isinstance(data, str) else json.dumps(data))
    assert str(told.value).startswith(message)
    assert len(str(told.value)) < 150


def test_a_loop_that_is_none_is_refused() -> None:
    instance = BROKEN["a loop"]()
    whole = json.loads(written(instance, check(instance)))
    assert whole["loop"] > 0
    with pytest.raises(TraceError, match="the run's loop isn't a loop on the model"):
        again(instance, json.dumps(whole | {"loop": 0}))


def test_a_trace_that_was_changed_comes_to_no_other_verdict() -> None:
    instance = BROKEN["an invariant"]()
    whole = json.loads(written(instance, check(instance)))
    states = whole["states"]
    for at, state in enumerate(states):
        for other in range(4):
            changed = [*states[:at], state | {"counter.x": other}, *states[at + 1 :]]
            if changed == states:
                continue
            with pytest.raises(TraceError):
                again(instance, json.dumps(whole | {"states": changed}))


@pytest.mark.slow(1)
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(instances())
def test_states_of_random_systems_are_read_as_they_were(instance: Instance) -> None:
    machine = Interpreter(instance)
    first = next(iter(instance.initial_states()))
    reached = [step.state for step in machine.steps(first) if step.state is not None]
    for state in (first, *reached):
        for variable, value in zip(instance.variables, state, strict=True):
            data = json.loads(json.dumps(encoded(variable.type, value)))
            assert decoded(variable.type, data, instance.constants, "here") == value


FORMS: list[tuple[lang.types.Type, Any, Value]] = [
    (lang.Optional(lang.Int(0, 3)), None, None),
    (lang.Optional(lang.Int(0, 3)), 2, 2),
    (lang.Set(lang.Int(0, 3)), [1, 2], frozenset({1, 2})),
    (lang.Sequence(lang.Int(0, 3), 2), {"#tup": [3, 1]}, (3, 1)),
    (lang.Map(lang.Key("key", 2), lang.Bool()), {"key0": True, "key1": False}, (True, False)),
    (lang.Map(lang.Key("key", 2), lang.Bool()), {"#map": [[1, False], [0, True]]}, (True, False)),
    (lang.Int(0, 2**62), {"#bigint": str(2**60)}, 2**60),
    (lang.Optional(lang.Int(0, 3)), [], None),
    (lang.Optional(lang.Int(0, 3)), {"#tup": [{"#bigint": "3"}]}, 3),
    (lang.Key("key", 2), {"#bigint": "1"}, 1),
    (lang.Bag(lang.Int(0, 3), 2), {"#map": [[{"#bigint": "2"}, {"#bigint": "2"}]]}, (2, 2)),
    (lang.Bag(lang.Int(0, 3), 2), [], ()),
]


@pytest.mark.parametrize(("kind", "data", "value"), FORMS)
def test_forms_of_other_programs(kind: lang.types.Type, data: Any, value: Value) -> None:
    assert decoded(kind, data, {}, "here") == value


@pytest.mark.parametrize(
    "data", [math.pi, [[1, 2]], {"#map": 3}, {"#set": 3}, {"#bigint": "9" * 5000}, {"tag": "Some"}]
)
@pytest.mark.parametrize("kind", sorted({kind for kind, _, _ in FORMS}, key=str), ids=str)
def test_nothing_else_is_a_value(kind: lang.types.Type, data: Any) -> None:
    with pytest.raises(TraceError):
        decoded(kind, data, {}, "here")


def test_a_large_number_keeps_its_digits() -> None:
    kind = lang.Int(0, 2**62)
    assert encoded(kind, 2**60) == {"#bigint": str(2**60)}


def test_the_file_says_what_it_is_of() -> None:
    instance = counting(terminal=False)
    text = written(instance, check(instance))
    file = read_trace(text.encode())
    assert file.settings == Settings("counting", "1", (), {})
    assert replace(file, settings=None) == read_trace(
        json.dumps({**json.loads(text), "#meta": {"broken": file.broken}}).encode()
    )


@pytest.mark.parametrize("named", ["up", "also up"])
def test_of_two_rows_with_one_outcome_the_one_that_is_named_is_taken(named: str) -> None:
    two = lang.event("tick again")
    tables = (Table(counter, tick, (up,)), Table(counter, two, (replace(up, id="also up"),)))
    instance = instantiate(System("counting", tables, (), terminal=True))
    told = {"states": [{"counter.x": 0}, {"#meta": {"row": named}, "counter.x": 1}]}
    trace = again(instance, json.dumps(told)).trace
    assert trace is not None
    assert [step.row for step in trace.steps] == [named]
