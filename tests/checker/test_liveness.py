"""What must come to happen: the native pass against plain Python, and what a lasso says."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from epochfence import language as lang
from epochfence.checker import liveness as native_progress
from epochfence.checker import prepare as preparation
from epochfence.checker.check import Options, check
from epochfence.checker.liveness import LivenessSearch
from epochfence.checker.named_systems import load_system
from epochfence.checker.native.search import components
from epochfence.checker.native.search.explore import Explorer, search
from epochfence.checker.prepare import prepare
from epochfence.checker.trace.trace import ReplayError
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import Instance
from epochfence.language.systems import events_of
from epochfence.tests.checker.drawn_systems import instances
from epochfence.tests.checker.plain_progress import (
    Graph,
    broken,
    by_removal,
    by_subsets,
    explored,
)

ROOM = 1 << 30
unhurried = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def drawn_graph(random: Random, states: int) -> Instance:
    """A random graph as a system: events with a key choose where it goes, some of them fair."""
    key = lang.Key("side", random.randint(1, 2))
    machine = lang.Machine("walker")
    place = machine.field("place", lang.Int(0, states - 1))
    tables: list[lang.Table] = []
    for number in range(random.randint(1, 3)):
        step = lang.event(f"step {number}", side=key)
        rows = [
            lang.Row(
                f"from {at} by {side}",
                when=(place == at) & (lang.position(step.side) == side),
                set={place: random.randrange(states)},
            )
            for at in range(states)
            for side in range(2)
            if random.random() < 0.45
        ]
        rows = rows or [lang.Row("stay", when=place == 0)]
        tables.append(lang.Table(machine, step, rows=tuple(rows)))
    fairness: dict[str, lang.Fairness] = {}
    for table in tables:
        if random.random() < 0.7:
            declare = random.choice((lang.weak_fairness, lang.strong_fairness))
            rows = tuple(row.id for row in table.rows if random.random() < 0.6)
            item = declare(table.on, rows=rows if random.random() < 0.4 else ())[0]
            fairness[item.name] = item
    side = key.variable("s")
    premise, goal = random.randrange(states), random.randrange(1, states)
    far = place >= goal
    system = lang.System(
        "walk",
        tuple(tables),
        (),
        terminal=True,
        fairness=tuple(fairness.values()),
        progress=(
            lang.leads_to("Goes", place == premise, far, "It goes."),
            lang.leads_to("Leaves", far, ~far, "It leaves."),
            lang.leads_to(
                "BySide", place == lang.position(side), place == goal, "For each.", each=(side,)
            ),
            lang.always_possible("CanGo", far, "It can go."),
        ),
    )
    return lang.instantiate(system, progress=True)


def native(instance: Instance, threads: int = 1) -> set[str]:
    """What the native pass says is broken; each run is replayed."""
    prepared = prepare(instance)
    explorer = Explorer(
        prepared.kernel, prepared.packing.stride, len(prepared.labels), threads, ROOM * 4
    )
    try:
        explorer.insert(prepared.initials())
        explorer.begin_level()
        search(explorer)
        names = {
            f"{aim.of.name} {[v for _, v in aim.bound]}": aim for aim in prepared.grounded.aims
        }
        found: set[str] = set()
        for item in LivenessSearch(prepared, explorer).broken():
            native_progress.trace_of(prepared, item)
            found |= {name for name, aim in names.items() if aim is item.aim}
        return found
    finally:
        explorer.close()


def plain(instance: Instance, graph: Graph) -> set[str]:
    """What both plain ways say; where they can be asked, they agree."""
    found = broken(instance, graph, by_removal)
    if len(graph.states) <= 9:
        assert found == broken(instance, graph, by_subsets)
    return found


@pytest.mark.slow(1)
@settings(max_examples=4, suppress_health_check=unhurried)
@given(st.randoms(use_true_random=False), st.integers(2, 8), st.sampled_from([1, 2]))
def test_random_graphs_are_judged_as_in_plain_python(
    random: Random, states: int, threads: int
) -> None:
    instance = drawn_graph(random, states)
    assert native(instance, threads) == plain(instance, explored(instance, 100))


def with_progress(instance: Instance, random: Random) -> Instance:
    """A drawn system with its properties of states as what must come to happen, and with fairness
    of some of its events and messages."""
    conditions = [item.expression for item in instance.properties if item.kind == "invariant"]
    if not conditions or not instance.actions:
        reject()
    progress = [lang.always_possible(f"E{at}", x, "E.") for at, x in enumerate(conditions)]
    for at, goal in enumerate(conditions):
        premise = random.choice([lang.lift(True), *(~x for x in conditions)])
        progress.append(lang.leads_to(f"L{at}", premise, goal, "L."))
    bounded = {event for each in instance.system.budgets for event in events_of(each)}
    events = [
        event
        for event in dict.fromkeys(table.on for table in instance.system.tables)
        if event not in bounded
    ]
    fairness = [
        item
        for event in events
        if random.random() < 0.7
        for item in random.choice((lang.weak_fairness, lang.strong_fairness))(event)
    ]
    system = replace(
        instance.system,
        properties=(),
        progress=tuple(progress),
        fairness=tuple(fairness),
        terminal=True,
    )
    return lang.instantiate(system, instance.protocol, instance.constants, progress=True)


@pytest.mark.slow
@settings(max_examples=5, suppress_health_check=unhurried)
@given(instances(), st.randoms(use_true_random=False))
def test_random_systems_with_messages_are_judged_as_in_plain_python(
    drawn: Instance, random: Random
) -> None:
    instance = with_progress(drawn, random)
    try:
        graph = explored(instance, 150)
    except (ValueError, AssertionError):
        reject()
    assert native(instance) == plain(instance, graph)


# Faults planted into the engine ------------------------------------------------------------


def _no_strong(prepared: Any) -> Any:
    fair = FAIR(prepared)
    return replace(fair, weak=fair.weak | fair.strong, strong=fair.strong * 0)


def _no_weak(prepared: Any) -> Any:
    fair = FAIR(prepared)
    return replace(fair, weak=fair.weak * 0)


def _all_strong(prepared: Any) -> Any:
    fair = FAIR(prepared)
    return replace(fair, weak=fair.weak * 0, strong=fair.strong | fair.weak)


FAIR = native_progress._fair  # pyright: ignore[reportPrivateUsage]
REACH = components.reach
PLANTED: dict[str, tuple[Any, str, Any]] = {
    "strong fairness is weak": (native_progress, "_fair", _no_strong),
    "weak fairness is none": (native_progress, "_fair", _no_weak),
    "weak fairness is strong": (native_progress, "_fair", _all_strong),
    "no run idles": (components, "idle", lambda *_: 0),
    "every state is on the way": (
        components,
        "reach",
        lambda *args: args[4].fill(1) or REACH(*args) or 1,
    ),
    "no cycle is fair": (components, "components", lambda *args: (0, 0, args[-2])),
    "no aim is broken": (components, "broken_aims", lambda *_: 0),
    "every aim is broken": (components, "broken_aims", lambda *_: -1),
    "runs stay where they begin": (components, "reach_all", lambda *_: None),
    "nothing comes": (components, "come", lambda *_: None),
    "one number for all instances": (
        preparation,
        "labelled_by",
        lambda grounded: (preparation._rows(grounded.instance), grounded),
    ),
}


@pytest.mark.slow(1)
@pytest.mark.long
@pytest.mark.parametrize("fault", PLANTED)
def test_a_fault_in_the_engine_is_noticed(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(200):
        instance = drawn_graph(Random(seed), 2 + seed % 6)
        expected = broken(instance, explored(instance, 100), by_removal)
        with monkeypatch.context() as patched:
            patched.setattr(*PLANTED[fault])
            try:
                found = native(instance)
            except (ReplayError, IndexError, RuntimeError, StopIteration):
                return
        if found != expected:
            return
    pytest.fail("nobody noticed")


# What a result says ------------------------------------------------------------------------

EXAMPLES = "docs/examples/{}.py"


def example(name: str, protocol: str | None = None, **changed: Any) -> Instance:
    """An example with what must come to happen, and with parts of its system replaced."""
    system = replace(load_system(EXAMPLES.format(name)), **changed)
    return lang.instantiate(system, protocol, progress=True)


def verdicts(result: Result) -> dict[str, str]:
    return {item.name: item.verdict for item in result.properties}


def test_a_loop_is_shown_with_what_is_fair_along_it() -> None:
    result = check(example("retry", "1"))
    assert result.verdict is Verdict.LEADS_TO_BROKEN
    assert verdicts(result) == {
        "DoneIsDone": "holds",
        "Answered": "broken",
        "CanBeAnswered": "unknown",
    }
    assert result.trace is not None
    assert result.trace.loop == 3
    assert [step.row for step in result.trace.steps] == [
        "ask",
        "answer",
        "lost",
        "ask again",
        "seen before",
    ]
    assert result.trace.states[-1] == result.trace.states[3]
    assert result.trace.fair == (
        "strong fairness of Ask: possible at times, taken once",
        "weak fairness of retry: possible at times, taken once",
    )
    assert check(example("retry")).verdict is Verdict.HOLDS


def test_what_is_sent_again_and_again_need_not_arrive_by_weak_fairness() -> None:
    fairness = load_system(EXAMPLES.format("retry")).fairness
    weak = tuple(lang.weak_fairness(item.event)[0] for item in fairness)
    result = check(example("retry", fairness=weak))
    assert verdicts(result)["Answered"] == "broken"
    assert result.trace is not None
    assert "lost" in [step.row for step in result.trace.steps[result.trace.loop :]]


def test_without_fairness_a_run_may_stop_and_the_result_says_so() -> None:
    result = check(example("peterson", fairness=()))
    assert result.verdict is Verdict.LEADS_TO_BROKEN
    assert result.trace is not None
    assert (len(result.trace.steps), result.trace.loop) == (1, 1)
    assert "no fairness, so none of the possible events has to happen" in result.trace.conclusion


def test_fairness_is_to_each_process_by_itself() -> None:
    assert check(example("peterson")).verdict is Verdict.HOLDS
    system = load_system(EXAMPLES.format("peterson"))
    result = check(example("peterson", fairness=system.fairness[:-1]))
    assert result.trace is not None
    assert "fairness forces none of the possible events: process.leave" in result.trace.conclusion


def test_what_came_to_its_goal_may_be_owed_once_more() -> None:
    machine = lang.Machine("walker")
    place = machine.field("place", lang.Int(0, 3))
    step = lang.event("step")
    row = lang.Row("on", when=place < 3, set={place: place + 1})
    system = lang.System(
        "walk",
        (lang.Table(machine, step, rows=(row,)),),
        (),
        terminal=True,
        fairness=lang.weak_fairness(step),
        progress=(lang.leads_to("EvenAgain", place.is_in(1, 3), place.is_in(0, 2), "Even again."),),
    )
    result = check(lang.instantiate(system, progress=True))
    assert verdicts(result) == {"EvenAgain": "broken"}
    assert result.trace is not None
    assert len(result.trace.steps) == 3


def test_a_dead_end_is_told_by_the_way_there() -> None:
    instance = lang.instantiate(
        load_system(EXAMPLES.format("retry")), "1", properties=["CanBeAnswered"]
    )
    result = check(instance)
    assert result.verdict is Verdict.LEADS_TO_BROKEN
    assert result.trace is not None
    assert ([step.row for step in result.trace.steps], result.trace.loop) == (
        ["ask", "answer", "lost"],
        None,
    )


def test_symmetry_is_not_used_with_fairness_and_the_result_says_so() -> None:
    system = load_system(EXAMPLES.format("lease"))
    client: Any = next(m for m in system.machines if m.name == "client")
    i = lang.variable("i", client.key)
    state = client.state.at(i)
    asking, holding = (client.state.data.type.ASKING, client.state.data.type.HOLDING)
    leads = lang.leads_to("L", state == asking, state == holding, "L.", each=(i,))
    able = lang.always_possible("A", lang.any_of(i, state == holding), "A.")
    for progress, keys in ((leads, []), (able, ["client"])):
        result = check(lang.instantiate(replace(system, progress=(progress,)), progress=True))
        assert result.symmetry == keys
        assert any("fair to each" in note for note in result.notes) is not bool(keys)


def test_too_little_memory_is_inconclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_progress, "PER_STATE", 1 << 50)
    result = check(example("retry"))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "memory limit" in result.reason
    assert set(verdicts(result).values()) == {"holds", "unknown"}


def test_a_premise_that_is_never_true_is_vacuous() -> None:
    system = load_system(EXAMPLES.format("retry"))
    client: Any = next(m for m in system.machines if m.name == "client")
    state = client.state
    never = lang.leads_to("Never", (state == state) & False, state == state, "Never.")
    result = check(example("retry", progress=(never,)), Options(strict=True))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert [item.subject for item in result.unexplained] == ["Never"]


def test_what_is_not_asked_for_is_not_looked_for_and_said() -> None:
    result = check(lang.instantiate(load_system(EXAMPLES.format("retry"))))
    assert (result.progress, result.progress_left) == (None, 2)
    assert list(verdicts(result)) == ["DoneIsDone"]


def test_a_transition_takes_few_bytes() -> None:
    result = check(lang.instantiate(load_system(EXAMPLES.format("lease")), progress=True))
    assert result.progress is None  # it declares none
    system = load_system(EXAMPLES.format("raft_log"))
    ends = lang.always_possible("Ends", lang.lift(True), "Ends.")
    result = check(lang.instantiate(replace(system, progress=(ends,)), progress=True))
    assert result.progress is not None
    assert result.progress.bytes <= 16 * result.progress.transitions
