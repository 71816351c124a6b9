"""Long histories get the same verdict in windows as in one piece."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochfence.model import PartitionLeader
from epochfence.model.judge import windows
from epochfence.model.judge.judge import Finding, Judgement, judge
from epochfence.model.judge.operations import Operation, Settings
from epochfence.model.judge.windows import distinct, judge_windows
from epochfence.tests.model.judge.test_judge import (
    RUNS,
    WRONG,
    Recorder,
    each_machine,
    produce,
    releases,
    seeds,
    spoil,
)

NAMED = ("finding", "operations", "operation")


def in_windows(
    history: list[Operation], size: int, protocol: str = Settings.protocol, limit: int = 20_000
) -> Judgement:
    """A history in windows of so many operations, in the order in which they have to come."""
    by_start = sorted(history, key=lambda operation: operation.start)
    return judge_windows(by_start, distinct(history), Settings(protocol=protocol), limit, size)


@each_machine
@given(
    random=seeds, release=releases, wrong=st.sampled_from([None, *WRONG]), size=st.integers(5, 12)
)
@settings(max_examples=25, deadline=None)
def test_windows_find_what_the_whole_comes_to(
    machine: str, random: Random, release: str, wrong: str | None, size: int
) -> None:
    history = RUNS[machine](Recorder(random, overlap=1.5, losses=0.05), release, 14)
    spoil(history, random, wrong)
    whole = judge(history, Settings(protocol=release), limit=20_000)
    found = in_windows(history, size, release)
    if Finding.GAVE_UP in (whole.finding, found.finding):
        return
    assert [getattr(found, name) for name in NAMED] == [getattr(whole, name) for name in NAMED]
    if not found.note:
        assert Counter(map(str, found.allowed)) == Counter(map(str, whole.allowed))


def busy(count: int, clients: int = 4) -> Iterator[Operation]:
    """Producers of one partition that have a batch in flight all the time."""
    leader = PartitionLeader()
    for at in range(count):
        asked: dict[str, Any] = {"producer_id": at % clients, "producer_epoch": 0, "count": 1}
        asked["base_sequence"] = at // clients
        answer = leader.append(**asked)
        told = {"error": answer.error, "base_offset": answer.first_offset}
        yield Operation("Produce", asked, at, at + clients - 0.5, told, at + 1)


@pytest.mark.parametrize("wrong_at", [None, 3, 420, 799])
def test_one_of_many_is_found_where_something_is_always_in_flight(wrong_at: int | None) -> None:
    history = list(busy(800))
    if wrong_at is not None:
        response = {"error": "NONE", "base_offset": 5_000_000}
        history[wrong_at] = history[wrong_at]._replace(response=response)
    found = in_windows(history, 100)
    assert found.operations == 800
    if wrong_at is None:
        assert found.finding is Finding.EXPLAINED
        assert found.configurations < 20_000
    else:
        assert found.finding is Finding.UNEXPLAINED
        assert found.operation == history[wrong_at]


def test_an_answer_lost_in_one_window_has_its_effect_in_another() -> None:
    lost = produce(0, 0, None, 0, producer=1)
    alone = [produce(at, at + 1, at + 1.5, at) for at in range(90)]
    duplicate = produce(0, 91, 92, 90, producer=1)
    after = [produce(at, at + 5, at + 5.5, at + 1) for at in range(90, 100)]
    history = [lost, *alone, duplicate, *after]
    assert in_windows(history, 20).finding is Finding.EXPLAINED
    # without it there is a gap in what the log has
    gap = [*alone, *after]
    assert in_windows(gap, 20).finding is Finding.UNEXPLAINED
    assert in_windows(gap, 20).operation == after[0]


def test_a_window_gives_up_at_its_limit() -> None:
    found = in_windows(list(busy(300)), 50, limit=10)
    assert (found.finding, found.operations) == (Finding.GAVE_UP, 300)


@pytest.mark.slow(1)
def test_a_long_history_of_many_producers_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it takes to ask a machine that knows many of them is not what the limit is for."""
    monkeypatch.setattr(windows, "FREE", 4)
    history = [
        Operation(
            "Produce",
            {"producer_id": at % 400, "producer_epoch": 0, "base_sequence": at // 400, "count": 1},
            10 * at,
            10 * at + 5,
            {"error": "NONE", "base_offset": at},
        )
        for at in range(800)
    ]
    found = judge_windows(iter(history), distinct(history), limit=4_000, size=100)
    assert found.finding is Finding.EXPLAINED
    assert found.configurations > 8_000
