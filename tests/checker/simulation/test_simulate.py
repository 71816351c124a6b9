"""Random walks: each is a run of the executable model, and finds only violations that are there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings

from epochfence.checker.named_systems import load_system
from epochfence.checker.native.jit.memory import Region
from epochfence.checker.native.walks.walks import (
    BEGUN,
    LENGTH,
    NEW,
    PICKED,
    PRIORITY,
    RARE,
    SCHEDULED,
    SEEN_BITS,
    STEPS,
    UNIFORM,
    Guidance,
    Taken,
    Walker,
    mark,
)
from epochfence.checker.output.junit import to_junit
from epochfence.checker.output.sarif import to_sarif
from epochfence.checker.prepare import Prepared, prepare
from epochfence.checker.simulation import simulate as simulation
from epochfence.checker.simulation.simulate import PART, Simulation, Walks, simulate
from epochfence.checker.verdict.result import Verdict
from epochfence.diagrams.report.page import to_html
from epochfence.language import (
    Bool,
    DeclarationError,
    Instance,
    Int,
    Key,
    Map,
    Row,
    Table,
    after,
    constant,
    event,
    instantiate,
    step_property,
)
from epochfence.model.engine.interpreter import FullState, Interpreter
from epochfence.tests.checker.drawn_systems import instances
from epochfence.tests.checker.plain_search import search
from epochfence.tests.checker.test_random_systems import expected
from epochfence.tests.systems.counter import Ticker

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
SMALL = Walks(seed="1", steps=20_000, shorter=0)


def example(name: str, protocol: str | None = None) -> Instance:
    return instantiate(load_system(str(EXAMPLES / f"{name}.py")), protocol)


def counting(*, most: int = 20) -> Instance:
    """A counter from 0 to 15."""
    counter = Ticker(20)
    return counter.instance(counter.below(most + 1), to=15, terminal=counter.x == 15)


def reachable(instance: Instance) -> set[FullState]:
    machine = Interpreter(instance)
    seen = set(machine.initial_states())
    left = [*seen]
    while left:
        for step in machine.steps(left.pop()):
            if step.state is not None and step.state not in seen:
                seen.add(step.state)
                left.append(step.state)
    return seen


def walker_of(prepared: Prepared, depth: int = 50) -> Walker:
    faults = np.zeros(len(prepared.labels), dtype=np.uint8)
    faults[::3] = 1
    tables = np.arange(len(faults), dtype=np.int64)
    stride, initials = prepared.packing.stride, prepared.initials()
    return Walker(prepared.kernel, stride, initials, depth, faults, tables, 3, 30)


def guidance(
    prepared: Prepared, way: int, prefix: tuple[bytes, int, int] | None = None
) -> Guidance:
    """Walks of one kind, with drawn weights, that begin in initial states or with the prefix: its
    last state, length and last row."""
    rows = len(prepared.labels)
    weights = np.random.default_rng(1).integers(1, 1000, (rows + 2) * rows, dtype=np.uint16)
    state, length, last = prefix or (b"", 0, 0)
    prefixes = Region(len(state) + 64)
    prefixes.array[: len(state)] = np.frombuffer(state, dtype=np.uint8)
    lengths, lasts = (np.array([x] * bool(state), dtype=np.int64) for x in (length, last))
    seen = Region(1 << (SEEN_BITS - 3))
    return Guidance(np.array([way]), weights, 20, 50, seen, prefixes, lengths, lasts)


def is_run(prepared: Prepared, path: list[bytes], rows: list[int]) -> bool:
    """Whether the executable model takes these steps through these states."""
    machine = Interpreter(prepared.instance)
    here = [s for s in machine.initial_states() if prepared.pack(s) == path[0]]
    for packed, row in zip(path[1:], rows, strict=True):
        here = [
            step.state
            for state in here
            for step in machine.steps(state)
            if step.row == row and step.state is not None and prepared.pack(step.state) == packed
        ]
    return bool(here)


def comparable(result: Simulation) -> dict[str, Any]:
    """The result without its times."""
    data = result.as_json()
    for name in ("seconds", "steps_per_second", "engine"):
        del data[name]
    return data


@pytest.mark.parametrize("way", [UNIFORM, RARE, SCHEDULED, PRIORITY, NEW])
@pytest.mark.parametrize("name", ["lease", "peterson", "token_ring", "resend"])
def test_walks_are_runs_of_the_model(name: str, way: int) -> None:
    prepared = prepare(example(name), symmetry=False, slicing=False)
    walker, by = walker_of(prepared), guidance(prepared, way)
    known = {prepared.pack(state) for state in reachable(prepared.instance)}
    steps = 0
    for number in range(30):
        part = walker.take(7, number, 1, by)
        assert (part.walks, part.flags) == (1, 0)
        path, rows = _path(walker, part)
        assert known.issuperset(path)
        assert is_run(prepared, path, rows)
        assert part.kept[0, STEPS] == len(part.rows) >= len(rows)
        steps += len(part.rows)
        if way != NEW:
            assert rows == part.rows.tolist()
            last = _state(prepared, path[-1])
            ended = next(Interpreter(prepared.instance).steps(last), None) is None
            assert ended or len(rows) == walker.depth
    assert steps > 0


def _path(walker: Walker, part: Taken) -> tuple[list[bytes], list[int]]:
    """The states and rows of the only walk of a part, which begins in an initial state."""
    return walker.traced(-1 - int(part.kept[0, BEGUN]), part.places)


def test_new_walks_come_to_each_state_once() -> None:
    prepared = prepare(example("peterson"), symmetry=False, slicing=False)
    every = reachable(prepared.instance)
    walker, by = walker_of(prepared, depth=200), guidance(prepared, NEW)
    for number in range(1_000):
        part = walker.take(7, number, 1, by)
        assert mark(by.seen.address, part.hashes) == len(part.hashes)
    assert mark(by.seen.address, walker.take(7, 0, 30, by).hashes) == 0
    bits = sum(map(int.bit_count, by.seen.array.tobytes()))
    # the hash of an initial state is entered only where a step leads back to it
    assert len(every) - len(prepared.grounded.initials) <= bits <= len(every)


@pytest.mark.parametrize("way", [RARE, NEW])
def test_walks_go_on_from_picked_states(way: int) -> None:
    prepared = prepare(example("lease"), symmetry=False, slicing=False)
    walker = walker_of(prepared)
    part = next(
        each
        for n in range(99)
        if (each := walker.take(7, n, 1, guidance(prepared, NEW))).kept[0, PICKED]
    )
    steps = int(part.kept[0, PICKED])
    path, rows = _path(walker, part)
    state = part.picked[0, 0].tobytes()
    assert (state, int(part.lasts[0, 0])) == (path[steps], rows[steps - 1])
    by = guidance(prepared, way, (state, steps, rows[steps - 1]))
    further = walker.take(7, 0, 20, by)
    assert 0 in further.kept[:, BEGUN]
    end = 0
    for each in further.kept:
        start, end = end, end + int(each[LENGTH])
        if each[BEGUN] == 0:
            assert each[LENGTH] <= walker.depth - steps
            places = np.concatenate((part.places[:steps], further.places[start:end]))
            assert is_run(prepared, *walker.traced(-1 - int(part.kept[0, BEGUN]), places))


def _state(prepared: Prepared, packed: bytes) -> FullState:
    first = prepared.grounded.initials[0]
    return prepared.grounded.plain(prepared.packing.unpack(packed, first))


@pytest.mark.parametrize("guided", [True, False])
@pytest.mark.parametrize("system", [("lease", "1"), ("lease", "2"), ("raft_log", None)])
def test_a_seed_gives_the_same_walks_for_any_number_of_threads(
    system: tuple[str, str | None], guided: bool
) -> None:
    instance = example(*system)

    def walked(threads: int, seed: str = "5") -> dict[str, Any]:
        options = Walks(seed=seed, steps=20_000, threads=threads, guided=guided, shorter=0)
        return comparable(simulate(instance, options))

    assert walked(1) == walked(2) == walked(4)
    assert walked(1)["rows"] != walked(1, "6")["rows"]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(instances(60))
def test_on_random_systems(instance: Instance) -> None:
    try:
        reference = search(instance, 400)
    except ValueError:
        reject()
    wanted = expected(reference, instance)
    found = simulate(instance, Walks(seed="3", steps=100_000, depth=60))
    if found.trace is not None:
        assert wanted.steps is not None
        assert found.within is not None  # which may have smaller constants, and shorter runs
        shortest = expected(search(found.within, 400), found.within).steps
        assert shortest is not None
        assert len(found.trace.steps) >= shortest
    else:
        assert wanted.steps is None or wanted.steps > 1


def test_a_broken_system_is_found() -> None:
    result = simulate(example("lease", "1"), Walks(seed="2", steps=1_000_000))
    assert (result.verdict, result.exit_code) == (Verdict.BROKEN, 12)
    assert result.trace is not None
    assert (len(result.trace.steps), result.is_shortest) == (11, True)


def test_a_long_walk_is_shrunk() -> None:
    counter = Ticker()
    x, y = counter.x, counter.machine.field("y", Int(0, 9))
    rows = (Row("up", when=(x < 3) & (y == 9), set={x: x + 1, y: 0}), Row("other", set={y: y + 1}))
    # only two of ten steps matter: those with which `x` grows need the others
    result = simulate(counter.instance(counter.below(2), rows=rows, terminal=False), SMALL)
    assert result.verdict is Verdict.BROKEN
    assert result.trace is not None
    assert len(result.trace.steps) == 20


def test_detours_are_left_out() -> None:
    counter = Ticker()
    y = counter.machine.field("y", Int(0, 1))
    turn = Table(counter.machine, event("turn"), (Row("turn", set={y: 1 - y}),))
    tables = (counter.table(when=counter.x < 3), turn)
    instance = counter.instance(counter.below(3), tables=tables, terminal=False)
    results = [simulate(instance, Walks(seed=str(n), steps=5_000, shorter=0)) for n in range(5)]
    assert [len(r.trace.steps) if r.trace else 0 for r in results] == [3] * 5
    assert any((r.found_after or 0) > 3 for r in results)


def test_constants_for_which_a_row_lacks_an_instance_are_not_tried() -> None:
    """With one node the row reads a second one: this is no smaller counterexample."""
    counter = Ticker()
    nodes = constant("nodes", 3, 1, 3)
    ready = counter.machine.field("ready", Map(Key("node", nodes), Bool()))
    rows = (Row("up", when=~ready[1], set={counter.x: counter.x + 1}),)
    instance = counter.instance(counter.below(2), rows=rows, terminal=False, constants=(nodes,))
    result = simulate(instance, replace(SMALL, shorter=10))
    assert result.verdict is Verdict.BROKEN
    assert result.within is not None
    assert result.within.constants["nodes"] == 2


def test_steps_end_walks() -> None:
    result = simulate(counting(), Walks(seed="1", steps=1_000))
    assert 1_000 <= result.steps < 1_000 + 32 * 15
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.reason.startswith("nothing found in ")
    assert result.reason.endswith("; 1 of 1 rows taken")
    assert (result.exit_code, Verdict.HOLDS.value) == (0, 0)
    assert result.as_json()["verdict"] == "inconclusive"


def test_strict_walks_that_find_nothing_are_inconclusive() -> None:
    assert simulate(counting(), Walks(seed="1", steps=100, strict=True)).exit_code == 20


def test_walks_end_without_new_rows() -> None:
    result = simulate(counting(), Walks(seed="1", idle=5_000, seconds=60))
    assert 5_000 <= result.steps < 1 << 20
    assert result.curve[0][1] == 1


def test_seconds_end_walks() -> None:
    result = simulate(counting(), Walks(seed="1", seconds=0.2))
    assert result.seconds < 5
    assert result.steps > 0


def test_a_deadlock_and_a_value_out_of_range_are_found() -> None:
    counter = Ticker(5)
    result = simulate(counter.instance(to=4, terminal=counter.x == 5), SMALL)
    assert (result.verdict, result.exit_code) == (Verdict.DEADLOCK, 11)
    result = simulate(counter.instance(terminal=False), SMALL)
    assert result.verdict is Verdict.BROKEN
    assert "out of range" in result.reason


def test_where_nothing_can_happen_is_said() -> None:
    result = simulate(Ticker().instance(to=0), SMALL)
    assert result.reason.startswith("nothing can happen")
    assert result.exit_code == 20


def test_a_seed_of_another_declaration_is_refused() -> None:
    seed = simulate(counting(), SMALL).seed
    assert simulate(counting(), Walks(seed=seed, steps=100)).seed == seed
    with pytest.raises(DeclarationError, match="is of another declaration"):
        simulate(counting(most=19), Walks(seed=seed, steps=100))


@pytest.mark.parametrize("seed", ["", "x", "-1", "1.5", "٣", str(1 << 63), "9" * 5_000])
def test_a_seed_that_is_no_number_is_refused(seed: str) -> None:
    with pytest.raises(DeclarationError, match="must be a whole number"):
        simulate(counting(), Walks(seed=seed or "-", steps=100))


def test_a_part_that_time_cut_off_hides_no_later_one() -> None:
    """Another thread may have found something by then."""
    prepared = prepare(counting(), symmetry=False)
    with simulation._Run(prepared, SMALL, 1) as run:
        late = replace(run.walkers[0].take(1, PART, PART, run.guidance()), flags=1)
        parts = {1: late}
        setattr(run, "_take", lambda *given: given[-1].update(parts))  # noqa: B010
        outcome: Any = SimpleNamespace(walks=0, steps=0)
        found, _ = run._round(outcome, 2)
        assert found is not None
        assert (found.walk, found.flags) == (2 * PART - 1, 1)
        assert (outcome.walks, outcome.steps) == (PART, 15 * PART)
        parts.clear()
        assert run._round(outcome, 2) == (None, False)


def test_a_counterexample_has_the_smallest_constants_that_show_it() -> None:
    steps, spare = constant("steps", 9, 2, 9), constant("spare", 5, 1, 5)
    counter = Ticker(steps)
    instance = counter.instance(
        counter.below(4), to=steps, constants=(steps, spare), terminal=counter.x == steps
    )
    result = simulate(instance, Walks(seed="1", steps=1_000))
    assert result.smaller == {"steps": 4, "spare": 1}
    assert result.constants == {"steps": 9, "spare": 5}
    assert (result.trace and len(result.trace.steps), result.is_shortest) == (4, True)
    assert result.as_json()["found_within"] == {"steps": 4, "spare": 1}
    whole = simulate(instance, Walks(seed="1", steps=1_000, shorter=0))
    assert (whole.smaller, whole.is_shortest) == ({}, False)


@pytest.mark.parametrize("kind", ["range", "deadlock", "step"])
def test_bounds_are_smaller_for_each_kind_of_violation(kind: str) -> None:
    spare = constant("spare", 5, 1, 5)
    counter = Ticker()
    low = step_property("Low", after(counter.x) < 2, "x stays low.")
    instance = counter.instance(
        low if kind == "step" else counter.small,
        to=3 if kind == "deadlock" else 4,
        constants=(spare,),
        terminal=False,
    )
    result = simulate(instance, Walks(seed="1", steps=1_000))
    assert result.verdict is (Verdict.DEADLOCK if kind == "deadlock" else Verdict.BROKEN)
    assert result.smaller == {"spare": 1}
    assert (result.trace and len(result.trace.steps)) == {"range": 4, "deadlock": 3, "step": 2}[
        kind
    ]


@pytest.mark.parametrize("most", [3, 20])
def test_results_of_walks_are_written_for_other_tools(most: int, tmp_path: Path) -> None:
    instance = counting(most=most)
    result = simulate(instance, SMALL)
    broken = most == 3
    (suite,) = ElementTree.fromstring(to_junit(instance, result))
    assert [each.tag for case in suite for each in case] == ["failure" if broken else "skipped"]
    (run,) = json.loads(to_sarif(instance, result, tmp_path))["runs"]
    assert [item["ruleId"] for item in run["results"]] == ["Small"] * broken
    assert run["invocations"][0]["exitCode"] == result.exit_code == 12 * broken
    page = to_html(instance, result)
    assert f"--seed {result.seed}" in page
    assert ("Counterexample" in page) == broken
    assert "states</dt>" not in page


def test_strict_walks_that_find_nothing_are_errors_of_a_test() -> None:
    instance = counting()
    result = simulate(instance, Walks(seed="1", steps=100, strict=True))
    (suite,) = ElementTree.fromstring(to_junit(instance, result))
    assert {each.tag for case in suite for each in case} == {"error"}
