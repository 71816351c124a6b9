"""The logs of a run: what they say of a state is what the rows of the system say."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import pytest

from epochfence.checker.trace.chart.chart import chart_of
from epochfence.checker.trace.chart.logs import ShownLog, ShownRecords, to_lines
from epochfence.checker.trace.chart.story import IN_BRIEF, in_brief
from epochfence.checker.trace.trace import Trace, actor_states, shown_trace
from epochfence.checker.verdict.violation import harmful_step
from epochfence.language import DeclarationError, Instance, Int, Log, Machine, instantiate, position
from epochfence.model.engine.interpreter import Interpreter
from epochfence.spec.systems import SHIPPED, shipped
from epochfence.tests.checker.trace.chart.test_chart import walk

WITH_LOGS = [name for name in SHIPPED if shipped(name).logs]
LEADERS = {"transactions", "idempotence", "exactly-once", "transactions+replication"}
pytestmark = pytest.mark.together


@cache
def run(name: str, seed: int) -> tuple[Instance, Trace]:
    """A random run of a shipped system."""
    instance = instantiate(shipped(name))
    states, steps = walk(Interpreter(instance), Random(seed))
    return instance, shown_trace(instance, states, steps, "It ended.")


def test_every_system_with_a_log_declares_it() -> None:
    for name in SHIPPED:
        fields = (f"{m.name}.{f}" for m in shipped(name).machines for f in m.fields)
        has_log = any(field.endswith(".log") for field in fields)
        assert bool(shipped(name).logs) or not has_log, name
    assert LEADERS & {*SHIPPED} <= {*WITH_LOGS}


@pytest.mark.parametrize("name", WITH_LOGS)
def test_each_entry_of_each_state_is_shown(name: str, seed: int) -> None:
    instance, trace = run(name, seed)
    declared = [log for log in instance.logs if isinstance(log, Log)]
    assert len(trace.logs) == len(trace.states)
    for state, logs in zip(trace.data, trace.logs, strict=True):
        shown = [log for log in logs if isinstance(log, ShownLog)]
        of = "replica" if "replication" in name or name == "delivery" else "partition"
        field = next(v for v in state if v in (f"{of}.log", "store.log", "offsets.log"))
        value: Any = state[field]
        lists = list(value.values()) if isinstance(value, dict) else [value]
        if len(declared) == 1 and len(lists) == len(shown):
            assert [len(log.entries) for log in shown] == [len(entries) for entries in lists]
        for log in shown:
            offsets = [entry.offset for entry in log.entries]
            assert offsets == sorted({*offsets})


@pytest.mark.parametrize("name", ["transactions", "idempotence"])
def test_a_read_committed_consumer_sees_committed_records_below_the_first_open_one(
    name: str, seed: int
) -> None:
    for number in range(8):
        _, trace = run(name, seed + number)
        for state, logs in zip(trace.data, trace.logs, strict=True):
            for at, log in enumerate(each for each in logs if isinstance(each, ShownLog)):
                entries: Any = [*state["partition.log"].values()][at]
                start: Any = [*state["partition.log_start_offset"].values()][at]
                _compare(log, entries, start)


def _compare(log: ShownLog, entries: list[dict[str, Any]], start: int) -> None:
    def outcome(place: int) -> str | None:
        entry = entries[place]
        if entry["idempotent_only"]:
            return "COMMIT"
        later = (
            e["kind"]
            for e in entries[place + 1 :]
            if e["kind"] != "DATA" and e["producer_id"] == entry["producer_id"]
        )
        return next(later, None)

    assert log.high_watermark == len(entries)
    for place, (entry, shown, view) in enumerate(
        zip(entries, log.entries, log.consumer, strict=True)
    ):
        assert shown.kind == entry["kind"].lower()
        if entry["kind"] != "DATA":
            continue
        assert shown.is_open == (outcome(place) is None)
        if view == "read":
            assert (outcome(place), place >= start) == ("COMMIT", True)
        if view == "waits":
            assert log.last_stable_offset is not None
            assert place >= log.last_stable_offset


def test_a_last_record_is_added_whenever_it_changes(seed: int) -> None:
    for number in range(8):
        _, trace = run("transactions", seed + number)
        before: tuple[Any, ...] = ()
        for logs in trace.logs:
            (records,) = (log.records for log in logs if isinstance(log, ShownRecords))
            assert records[: len(before)] == before
            assert len(records) <= len(before) + 1
            assert records[-1:] != records[-2:-1] or len(records) < 2
            before = records


def test_text_has_the_entries_and_ends_in_the_order_of_offsets() -> None:
    for number in range(40):
        _, trace = run("transactions", number)
        for logs in trace.logs:
            for line, log in zip(to_lines(logs), logs, strict=True):
                assert line.startswith(log.title)
                if isinstance(log, ShownLog):
                    found = [line.find(f" {e.offset}:{e.title}") for e in log.entries]
                    assert -1 not in found
                    assert found == sorted(found)


def test_the_harmful_step_is_the_last_one_that_changed_a_log() -> None:
    instance, trace = run("transactions", 3)
    lengths = [
        [len(log.entries) for log in logs if isinstance(log, ShownLog)] for logs in trace.logs
    ]
    number = harmful_step(trace, instance, "NoHangingTransaction")
    assert number == len(trace.steps) or lengths[number] != lengths[number - 1]
    assert harmful_step(trace, instance, "no such property") == len(trace.steps)


@pytest.mark.parametrize("name", ["transactions", "idempotence", "delivery"])
def test_a_run_in_brief_names_the_states_and_the_harmful_step(name: str, seed: int) -> None:
    instance, trace = run(name, seed)
    chart = replace(chart_of(trace), harmful=len(trace.steps) - 1)
    states = actor_states(instance, trace)[-1]
    told = in_brief(chart, instance, states, "It doesn't hold.")
    assert len(told) <= IN_BRIEF
    assert told[-1] == "It doesn't hold."
    assert told[-2].startswith(f"The harmful step is {len(trace.steps) - 1}: ")
    for lane, state in states.items():
        title = chart.titles.get(lane, lane)
        if lane in chart.lanes and len(chart.lanes) <= IN_BRIEF - 2:
            assert any(line.startswith(f"{title} is in {state}") for line in told)


def test_a_log_of_something_else_is_refused() -> None:
    field = Machine("m").field("x", Int(0, 1))
    with pytest.raises(DeclarationError, match="isn't an element"):
        Log("log", field, position(field))
