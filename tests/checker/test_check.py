"""What a check tells: the first fault and how to get there, what was left out, what was counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psutil
import pytest

from epochfence import language as lang
from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.checker.native.cache import kernel, machine_code, object_cache
from epochfence.checker.native.cache.kernel import Kernel
from epochfence.checker.native.cache.machine_code import Code
from epochfence.checker.native.cache.object_code import BEST, PLAIN, QUICK
from epochfence.checker.native.search import explore
from epochfence.checker.trace.trace import Trace
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.checker.verdict.violation import RANGE
from epochfence.language import Instance, Row, System, Table, instantiate
from epochfence.model.engine.interpreter import Interpreter
from epochfence.tests.agreement.ways import AtOnce
from epochfence.tests.checker.native.grouping import in_lanes
from epochfence.tests.checker.plain_search import search

BENCH = Path(__file__).parents[2] / "bench"
N = lang.constant("N", 3, 1, 9)


def ktx(**constants: int) -> Instance:
    """The benchmark protocol."""
    return instantiate(load_system(str(BENCH / "ktx.py")), constants=constants)


def counting(*rows: Row, properties: Any = (), **parts: Any) -> Instance:
    """Systems of one number `x` in 0..3, which starts at 0, and a truth `lamp`."""
    tables = (Table(counter, tick, rows),) if rows else ()
    given: dict[str, Any] = {"properties": tuple(properties), "terminal": True} | parts
    return instantiate(System("counting", tables, **given))


counter = lang.Machine("counter")
x = counter.field("x", lang.Int(0, 3))
lamp = counter.field("lamp", lang.Bool())
log = counter.field("log", lang.Sequence(lang.Int(0, 3), 2))
tick = lang.event("tick")
up = Row("up", when=x < 3, set={x: x + 1})


def shown(trace: Trace | None) -> list[tuple[str, str, list[str]]]:
    """A trace's steps: action, row, changes."""
    assert trace is not None
    return [
        (step.action, step.row, [f"{where}: {a} > {b}" for where, a, b in step.changes])
        for step in trace.steps
    ]


# Verdicts -----------------------------------------------------------------------------------------


def test_everything_holds() -> None:
    result = check(counting(up, properties=[lang.invariant("Small", x <= 3, "x is small.")]))
    assert result.verdict is Verdict.HOLDS
    assert (result.states, result.transitions, result.depth) == (4, 3, 4)
    assert result.rows == [("counter.tick/up", 3)]
    assert [(p.name, p.verdict) for p in result.properties] == [("Small", "holds")]
    assert result.trace is None


def test_an_invariant_is_broken_after_the_fewest_steps() -> None:
    rows = (Row("jump", when=lamp, set={x: 2}), up)
    light = Table(counter, lang.event("light"), (Row("on", set={lamp: True}),))
    below = lang.invariant("Below", x < 2, "x stays below 2.")
    system = System("counting", (Table(counter, tick, rows), light), (below,), terminal=True)
    result = check(instantiate(system))
    assert result.verdict is Verdict.BROKEN
    assert result.properties[0].trace_length == 2
    assert result.trace is not None
    assert "Below doesn't hold after 2 steps. (x stays below 2.)" in result.trace.conclusion
    assert len(shown(result.trace)) == 2
    assert result.trace.states[-1][0] == 2


def test_an_initial_state_may_break_an_invariant() -> None:
    result = check(counting(up, properties=[lang.invariant("Up", x > 0, "x is above 0.")]))
    assert result.verdict is Verdict.BROKEN
    assert result.properties[0].trace_length == 0
    assert result.trace is not None
    assert dict(result.trace.initial)["counter.x"] == "0"


def test_a_step_property_is_broken_by_a_step() -> None:
    slow = lang.step_property("Slow", lang.after(x) <= 2, "x never gets to 3.")
    result = check(counting(up, properties=[slow]))
    assert (result.verdict, result.properties[0].trace_length) == (Verdict.BROKEN, 3)
    assert shown(result.trace)[-1][:2] == ("tick", "up")
    assert shown(result.trace)[-1][2][0].endswith("x: 2 > 3")
    assert result.reason == "Slow doesn't hold in step 3. (x never gets to 3.)"


def test_a_step_property_that_every_step_breaks() -> None:
    never = lang.step_property("Never", lang.after(x) < 0, "There is no step.")
    turn = Row("turn", set={lamp: ~lamp})
    result = check(counting(turn, properties=[never]))
    assert (result.verdict, result.properties[0].trace_length) == (Verdict.BROKEN, 1)


def test_a_state_without_a_step_is_a_deadlock_unless_it_is_an_end() -> None:
    small = lang.invariant("Small", x <= 3, "x is small.")
    stuck = check(counting(up, properties=[small], terminal=x == 2))
    assert stuck.verdict is Verdict.DEADLOCK
    assert stuck.verdict.value == 11
    assert len(shown(stuck.trace)) == 3
    assert [p.verdict for p in stuck.properties] == ["unknown"]
    assert check(counting(up, properties=[small], terminal=x == 3)).verdict is Verdict.HOLDS


def test_deadlocks_are_not_looked_for_where_a_run_may_end_anywhere() -> None:
    small = lang.invariant("Small", x <= 3, "x is small.")
    stuck = counting(up, properties=[small], terminal=False)
    assert check(stuck).as_json()["deadlocks"] == "looked for"
    result = check(stuck, Options(deadlock=False))
    assert (result.verdict, result.states) == (Verdict.HOLDS, 4)
    assert result.as_json()["deadlocks"] == "not looked for"
    low = lang.invariant("Low", x < 3, "x stays below 3.")
    broken = check(counting(up, properties=[low], terminal=False), Options(deadlock=False))
    assert broken.verdict is Verdict.BROKEN


def test_a_row_that_waits_for_room_is_no_step() -> None:
    post = lang.message("post", counter)
    sends = Table(counter, lang.event("send"), (Row("send", send=(post(),)),))
    takes = Table(counter, post, (Row("never"),), when=x > 0)
    small = lang.invariant("Small", x <= 3, "x is small.")
    system = System("post", (sends, takes), (small,), channels=(lang.Channel(post),))
    result = check(instantiate(system))
    assert (result.verdict, len(shown(result.trace))) == (Verdict.DEADLOCK, 1)


@pytest.mark.parametrize(
    ("row", "steps", "where"),
    [
        (Row("up", set={x: x + 1}), 4, "counter.x would be 4"),
        (Row("down", set={x: x - 1}), 1, "counter.x would be -1"),
        (Row("log", set={log: lang.append(log, x)}), 3, "counter.log would be <0, 0, 0>"),
    ],
    ids=["above", "below", "longer"],
)
@pytest.mark.parametrize("slicing", [True, False])
def test_an_update_out_of_range_is_a_fault(row: Row, steps: int, where: str, slicing: bool) -> None:
    always = lang.invariant("Always", lamp | ~lamp, "Yes.")
    result = check(counting(row, properties=[always]), Options(slicing=slicing))
    assert result.verdict is Verdict.BROKEN
    assert (result.properties[-1].name, result.properties[-1].trace_length) == (RANGE, steps)
    assert where in result.reason


def test_a_fault_comes_before_what_lies_behind_it() -> None:
    """The step that breaks the range takes as many steps as the state beside it would."""
    rows = (Row("both", set={log: lang.append(log, x), lamp: True}),)
    off = lang.invariant("Off", ~lamp, "The lamp is off.")
    full = counting(*rows, properties=[off])
    assert check(full).properties[0].trace_length == 1


# Counts and traces --------------------------------------------------------------------------------


@pytest.mark.slow(1)
def test_counts_are_of_whole_levels_and_the_same_for_any_threads() -> None:
    results = [check(ktx(V=0, K=1), Options(threads)) for threads in (1, 2, 3, 1)]
    first = results[0]
    assert first.verdict is Verdict.BROKEN
    for other in results[1:]:
        assert (other.states, other.transitions, other.depth, other.rows) == (
            first.states,
            first.transitions,
            first.depth,
            first.rows,
        )
        assert other.trace == first.trace


def test_the_late_produce_request_is_found_after_nine_steps() -> None:
    result = check(ktx(I=2, K=1, E=2, S=1, V=0), Options(2))
    broken = {p.name: p.trace_length for p in result.properties if p.verdict == "broken"}
    assert broken == {"NoHanging": 9}
    assert [row for _, row, _ in shown(result.trace)] == [
        "StartInit", "InitOk", "SendAdd", "AddOk", "Send", "Abort", "EndOk", "MarkOk", "ProdOk",
    ]  # fmt: skip
    assert [p.verdict for p in result.properties if p.name != "NoHanging"] == ["unknown"] * 5


def test_a_trace_is_a_run_of_the_model_and_says_only_what_changes() -> None:
    instance = ktx(I=2, K=1, E=2, S=1, V=0)
    result = check(instance)
    machine = Interpreter(instance)
    assert result.trace is not None
    state = result.trace.states[0]
    assert state in list(machine.initial_states())
    for following, step in zip(result.trace.states[1:], result.trace.steps, strict=True):
        assert following in [s.state for s in machine.steps(state)]
        assert step.changes
        assert all(a != b for _, a, b in step.changes)
        state = following
    broken = next(p for p in instance.properties if p.name == "NoHanging")
    assert not machine.holds(broken.expression, state)


def test_rows_never_taken_are_told() -> None:
    never = Row("never", when=x > 3)
    rows = (never, up, Row("hidden", when=2 * x < 4))
    small = lang.invariant("Small", x <= 3, "x is small.")
    result = check(counting(*rows, properties=[small]))
    assert result.never_taken == ["counter.tick/never", "counter.tick/hidden"]
    assert dict(result.rows)["counter.tick/up"] == 3


def test_a_large_range_is_explored() -> None:
    large = lang.Machine("large")
    producer_id = large.field("producer_id", lang.Int(0, 2**31 - 1), 2**31 - 3)
    grow = Table(large, tick, (Row("grow", set={producer_id: producer_id + 1}),))
    seen = lang.invariant("Seen", producer_id >= 0, "It is there.")
    instance = instantiate(System("large", (grow,), (seen,)))
    result = check(instance)
    assert (result.verdict, result.states) == (Verdict.BROKEN, 3)
    assert "large.producer_id would be 2147483648" in result.reason
    assert search(instance).out_of_range == 4


# Slicing ------------------------------------------------------------------------------------------


def sliceable(*properties: lang.Property) -> Instance:
    """A system with a truth `lamp` that nothing reads, and a number that everything does."""
    turn = Table(
        counter, lang.event("turn"), (Row("on", set={lamp: ~lamp, log: lang.push(log, x)}),)
    )
    return instantiate(
        System("sliceable", (Table(counter, tick, (up,)), turn), properties, terminal=True)
    )


small = lang.invariant("Small", x <= 3, "x is small.")


def test_what_nothing_reads_is_left_out_and_said() -> None:
    whole = check(sliceable(small), Options(slicing=False))
    part = check(sliceable(small))
    assert whole.left_out == []
    assert {name.partition("<")[0] for name in part.left_out} == {"counter.lamp", "counter.log"}
    assert part.states == 4 < whole.states
    assert part.verdict is whole.verdict is Verdict.HOLDS
    assert whole.states == search(sliceable(small)).states


def test_what_a_property_reads_is_kept() -> None:
    lit = lang.invariant("Lit", lang.if_(lamp, True, True), "Anything.")
    dark = lang.invariant("Dark", ~lamp, "The lamp stays off.")
    assert "counter.lamp" not in check(sliceable(small, dark)).left_out
    assert check(sliceable(small, dark)).verdict is Verdict.BROKEN
    # a property that is true by itself looks at nothing
    assert "counter.lamp" in check(sliceable(small, lit)).left_out


def test_a_field_of_one_value_is_no_part_of_the_state_and_not_called_left_out() -> None:
    still = lang.invariant("Still", ~lamp & (lang.size(log) == 0), "Nothing changes.")
    result = check(counting(up, properties=[still, small]))
    assert result.verdict is Verdict.HOLDS
    assert result.left_out == []


# Symmetry -----------------------------------------------------------------------------------------

RUNNER = lang.Key("runner", N)
runner = lang.Machine("runner", RUNNER)
at = runner.field("at", lang.Int(0, 2))
seat = lang.Machine("seat")
taken = seat.field("taken", lang.Set(RUNNER))
r = RUNNER.variable("r")
advance = Table(runner, lang.event("advance"), (Row("on", when=at < 2, set={at: at + 1}),))
sit = Table(
    seat,
    lang.event("sit", r),
    (Row("down", when=at.at(r) == 1, set={taken: taken | lang.set_of(r)}),),
    others=(runner,),
)
seated = lang.invariant(
    "Seated", lang.all_of(r, r.is_in(taken).implies(at.at(r) > 0)), "Who sits ran."
)


def race(*properties: lang.Property, n: int = 3) -> Instance:
    """Runners whose names mean nothing."""
    system = System(
        "race",
        (advance, sit),
        properties or (seated,),
        constants=(N,),
        terminal=True,
        interchangeable=(RUNNER,),
    )
    return instantiate(system, constants={"N": n})


@pytest.mark.parametrize("threads", [1, 2])
def test_states_that_differ_by_renaming_are_one(threads: int) -> None:
    with_, without = (check(race(), Options(threads, symmetry=on)) for on in (True, False))
    assert with_.symmetry == ["runner"]
    assert without.symmetry == []
    # a runner is in one of five ways; three of them without an order are 35, with one 125
    assert (with_.states, without.states) == (35, 125)
    assert with_.verdict is without.verdict is Verdict.HOLDS
    assert without.states == search(race()).states


def test_a_trace_under_symmetry_is_a_run_of_the_model() -> None:
    alone = lang.invariant("Alone", lang.size(taken) < 2, "One sits at most.")
    with_, without = (check(race(alone), Options(symmetry=on)) for on in (True, False))
    assert with_.properties[0].trace_length == without.properties[0].trace_length == 4
    assert with_.trace is not None
    machine = Interpreter(race(alone))
    state = with_.trace.states[0]
    for following in with_.trace.states[1:]:
        assert following in [s.state for s in machine.steps(state)]
        state = following
    assert not machine.holds(alone.expression, state)


TOLD_APART = {
    "a number for a key": lang.invariant("P", at.at(0) <= 2, "."),
    "a key compared with a number": lang.invariant(
        "P", lang.all_of(r, (r != 0) | (at.at(r) < 3)), "."
    ),
    "a set with a number": lang.invariant("P", lang.size(taken & lang.set_of(0)) < 2, "."),
    "a number sought": lang.invariant("P", lang.lift(0).is_in(taken) | (lang.size(taken) < 4), "."),
    "a position": lang.invariant("P", lang.all_of(r, lang.position(r) + at.at(r) < 9), "."),
    "the first of all": lang.invariant("P", at.at(lang.first_of(r, at.at(r) > 1).value) < 9, "."),
    "the first for want of one": lang.invariant(
        "P", lang.all_of(r, at.at(lang.if_(at.at(r) > 1, r, None).value) < 3), "."
    ),
}


@pytest.mark.parametrize("property_", TOLD_APART.values(), ids=TOLD_APART)
def test_instances_that_are_told_apart_are_not_reduced(property_: lang.Property) -> None:
    result = check(race(property_), Options(slicing=False))
    assert result.symmetry == []
    assert any(note.startswith("symmetry not used for runner") for note in result.notes)
    assert result.states == 125


def test_a_number_put_in_place_of_an_instance_is_seen_in_updates_and_messages() -> None:
    cheat = Table(seat, lang.event("cheat"), (Row("first", set={taken: lang.set_of(0)}),))
    post = lang.message("post", runner, runner=RUNNER)
    send = Table(seat, lang.event("send"), (Row("first", send=(post(runner=0),)),))
    take = Table(runner, post, (Row("take"),))
    for tables, channels in (((cheat,), ()), ((send, take), (lang.Channel(post),))):
        system = System(
            "race", (advance, sit, *tables), (seated,), constants=(N,), terminal=True,
            interchangeable=(RUNNER,), channels=channels,
        )  # fmt: skip
        assert check(instantiate(system)).symmetry == []


def test_bags_in_the_order_of_what_instances_have_are_sorted_again() -> None:
    """Nothing, one ticket, two of one runner or of two."""
    ticket = lang.record("ticket", of=lang.Set(RUNNER), n=lang.Int(0, 1))
    desk = lang.Machine("desk")
    pile = desk.field("pile", lang.Bag(ticket, 2))
    one = lang.element("one", pile)
    issue = Table(
        desk, lang.event("issue", r, n=lang.Int(0, 1)),
        (Row("issue", when=lang.size(pile) < 2,
             set={pile: lang.put(pile, ticket(of=lang.set_of(r), n=0))}),),
    )  # fmt: skip
    fine = lang.invariant("Fine", lang.all_of(one, lang.size(one.of) == 1), "One each.")
    system = System(
        "desk", (issue,), (fine,), constants=(N,), terminal=True, interchangeable=(RUNNER,)
    )
    result = check(instantiate(system))
    assert result.symmetry == ["runner"]
    assert result.states == 4


# Limits -------------------------------------------------------------------------------------------


@pytest.mark.slow(1)
@pytest.mark.parametrize("threads", [1, 2])
def test_memory_is_kept_and_what_is_known_is_told(threads: int) -> None:
    process = psutil.Process()
    check(ktx(K=1, S=1))  # what is compiled once is there before the limit is set
    limit = process.memory_info().rss + (32 << 20)
    result: Result = check(ktx(), Options(threads, memory=limit))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.verdict.value == 20
    assert result.reason.startswith("the memory limit was reached after level ")
    assert 10_000 < result.states < 11_995_156
    assert result.transitions > 0
    assert 5 < result.depth < 49
    assert sum(n for _, n in result.rows) == result.transitions
    assert {p.verdict for p in result.properties} == {"unknown"}
    assert result.memory <= limit
    assert process.memory_info().rss <= limit + (32 << 20)


def test_a_fault_before_the_limit_is_told() -> None:
    limit = psutil.Process().memory_info().rss + (64 << 20)
    assert check(ktx(V=0), Options(memory=limit)).verdict is Verdict.BROKEN


@pytest.fixture
def efforts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """With how much effort each code was made that a kernel takes, once it is there."""
    taken: list[int] = []
    take = Kernel._take  # pyright: ignore[reportPrivateUsage]

    def noted(self: Kernel, code: Code) -> None:
        taken.append(code.effort)
        take(self, code)

    monkeypatch.setattr(Kernel, "_take", noted)
    monkeypatch.setattr(kernel, "Thread", AtOnce)
    monkeypatch.setenv(object_cache.VARIABLE, object_cache.OFF)
    return taken


@pytest.mark.parametrize("expected", [[QUICK, PLAIN, BEST], [QUICK, BEST]], ids=["large", "small"])
def test_faster_code_is_taken_within_a_search(
    monkeypatch: pytest.MonkeyPatch, efforts: list[int], expected: list[int]
) -> None:
    instance = instantiate(load_system("docs/examples/lease.py"), "1", {"leases": 1})
    if PLAIN in expected:
        monkeypatch.setattr(machine_code, "LARGE", 0)
    before = check(instance)
    efforts.clear()
    from_states = {BEST: before.states // 2, PLAIN: before.states // 3}
    monkeypatch.setattr(explore, "IMPROVED_FROM", from_states)
    result = check(instance)
    assert efforts == expected
    assert (result.verdict, result.levels) == (before.verdict, before.levels)
    assert (result.transitions, result.rows) == (before.transitions, before.rows)


SMALL = lang.invariant("Small", x <= 3, "x is small.")
BELOW = lang.invariant("Below", x < 2, "x stays below 2.")
UP = lang.always_possible("Up", x == 3, "It can go up.")


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({"properties": [SMALL]}, [QUICK]),
        ({"properties": [SMALL], "progress": (UP,)}, [QUICK, BEST]),
        ({"properties": [BELOW]}, [QUICK, BEST]),
    ],
    ids=["search", "progress", "walk back"],
)
def test_states_one_by_one_get_faster_code_where_many_are_expanded_at_once(
    monkeypatch: pytest.MonkeyPatch, efforts: list[int], declared: Any, expected: list[int]
) -> None:
    """The search doesn't need it; who looks at each state's own steps does."""
    monkeypatch.setattr(explore, "IMPROVED_FROM", {BEST: 1})
    with in_lanes():
        result = check(instantiate(counting(up, **declared).system, progress=True))
    assert efforts == expected
    assert (result.verdict is Verdict.HOLDS) == (BELOW not in declared["properties"])


def test_what_numba_compiles_is_no_part_of_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = instantiate(load_system("docs/examples/lease.py"), "1", {"leases": 1})
    check(instance)  # all is compiled from here on
    before = check(instance)
    asked = iter(range(0, 10**6, 1_000))
    monkeypatch.setattr(explore, "compiling_seconds", lambda: next(asked))
    result = check(instance)
    assert before.compile_seconds < 1_000 <= result.compile_seconds
    assert before.kernel_from_cache
    assert not result.kernel_from_cache
    assert result.seconds < 0
