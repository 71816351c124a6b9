"""`--limit` bounds the work on a history, whatever is concurrent in it; and of requests that are as
good as each other one order is tried."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from random import Random
from types import FrameType
from typing import Any

import pytest
from hypothesis import given

from epochfence.model.judge.judge import Finding, Judgement, judge
from epochfence.model.judge.operations import Operation, Settings
from epochfence.tests.model.judge.test_judge import few, is_explained, releases, seeds

NONE: dict[str, Any] = {"error": "NONE"}
TOGETHER, LIMIT = 400, 500
MOST = 4_000
"""Lines of Python that a step may take; it takes some 20 to 3,000."""


def produce(
    producer_id: int, response: Mapping[str, Any] | None, *, sequence: int = 0, **fields: Any
) -> Operation:
    """One of the requests that are in flight together."""
    fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence, **fields}
    end = None if response is None else 100
    return Operation("Produce", {"count": 1, **fields}, 0, end, response)


def at(offset: int) -> dict[str, Any]:
    """An answer that has an offset."""
    return {**NONE, "base_offset": offset}


def coordinated(request: str, response: Mapping[str, Any] | None, **fields: Any) -> Operation:
    """The same, of a coordinator's."""
    who = {} if request == "InitProducerId" else {"producer_id": 7, "producer_epoch": 0}
    end = None if response is None else 100
    return Operation(request, {**who, **fields}, 10, end, response)


def begun(response: Mapping[str, Any] | None, timeout: int = 60_000) -> Operation:
    """An InitProducerId among the others."""
    return coordinated("InitProducerId", response, transaction_timeout_ms=timeout)


BEGUN = Operation(
    "InitProducerId",
    {"transaction_timeout_ms": 60_000},
    0,
    1,
    {**NONE, "producer_id": 7, "producer_epoch": 0},
)
WRONG = {"error": "INVALID_PRODUCER_ID_MAPPING"}
HISTORIES: dict[str, Callable[[int], list[Operation]]] = {
    "one wrong offset": lambda n: [produce(i, at(i)) for i in range(n)] + [produce(n, at(2 * n))],
    "a producer's sequence": lambda n: [
        *(produce(1, at(i), sequence=i) for i in range(n)), produce(1, at(2 * n), sequence=n),
    ],
    "no offsets": lambda n: [produce(i, NONE) for i in range(n)] + [produce(n, at(2 * n))],
    "in transactions": lambda n: [
        *(produce(i, at(i), transactional=True) for i in range(n)), produce(n, at(3 * n)),
    ],
    "answers lost": lambda n: [produce(i, None) for i in range(n)] + [produce(n, at(2 * n))],
    "answers lost, in transactions": lambda n: [
        *(produce(i, None, transactional=True) for i in range(n)), produce(n, at(4 * n)),
    ],
    "without ids": lambda n: [
        *(Operation("Produce", {"producer_id": -1, "count": 1 + i % 3}, 0, 9, NONE)
          for i in range(n)),
        produce(1, at(9 * n)),
    ],
    "markers": lambda n: [
        operation
        for i in range(n // 2)
        for operation in (
            produce(i, NONE, transactional=True),
            Operation(
                "WriteTxnMarkers", {"producer_id": i, "producer_epoch": 0, "result": "COMMIT"},
                0, 100, NONE,
            ),
        )
    ] + [produce(n, at(9 * n))],
    "epochs": lambda n: [
        begun({**NONE, "producer_id": 7, "producer_epoch": i + 5 * (i == n - 1)}) for i in range(n)
    ],
    "producer ids": lambda n: [
        begun({**NONE, "producer_id": 7 + i, "producer_epoch": 3}) for i in range(n)
    ],
    "EndTxn": lambda n: [
        BEGUN, *(coordinated("EndTxn", NONE, result=("COMMIT", "ABORT")[i % 2]) for i in range(n)),
        coordinated("EndTxn", WRONG, result="ABORT"),
    ],
    "AddPartitionsToTxn": lambda n: [
        BEGUN, *(coordinated("AddPartitionsToTxn", NONE, partitions=[f"p-{i}"]) for i in range(n)),
        coordinated("AddPartitionsToTxn", WRONG, partitions=["q"]),
    ],
    "InitProducerId lost": lambda n: [
        *(begun(None, 1_000 + i) for i in range(n)),
        begun({**NONE, "producer_id": 7, "producer_epoch": 5 * n + 5}),
    ],
    "mixed": lambda n: mixed(n, 0),
    "mixed, answers lost": lambda n: mixed(n, 0.6),
}  # fmt: skip


def mixed(count: int, losses: float) -> list[Operation]:
    """Requests of all kinds to a coordinator, and one that nothing explains."""
    random, found = Random(count), [BEGUN]
    for number in range(count):
        response = None if random.random() < losses else NONE
        found.append(
            random.choice(
                (
                    coordinated("AddPartitionsToTxn", response, partitions=[f"p-{number}"]),
                    coordinated("EndTxn", response, result=random.choice(["COMMIT", "ABORT"])),
                    begun(response),
                )
            )
        )
    return [*found, coordinated("EndTxn", WRONG, result="COMMIT")]


def counted(work: Callable[[], Judgement]) -> tuple[int, Judgement]:
    """How many lines of Python it runs, and what it comes to."""
    lines = 0

    def on(_: FrameType, event: str, __: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return on

    before = sys.gettrace()
    sys.settrace(on)
    try:
        found = work()
    finally:
        sys.settrace(before)
    return lines, found


@pytest.mark.slow(1)
@pytest.mark.parametrize("kind", HISTORIES)
def test_the_limit_bounds_the_work(kind: str) -> None:
    """What a history's reading takes apart: that is so much for each of its operations."""
    history = HISTORIES[kind](TOGETHER)
    judge(HISTORIES[kind](TOGETHER + 1), limit=LIMIT)  # the rows are compiled by then
    before, _ = counted(lambda: judge(history, limit=1))
    lines, found = counted(lambda: judge(history, limit=LIMIT))
    assert found.configurations <= LIMIT
    assert lines - before < MOST * LIMIT


@pytest.mark.slow(1)
@pytest.mark.parametrize("count", [20, 40])
def test_one_order_of_requests_that_are_as_good_as_each_other(count: int) -> None:
    for kind in ("no offsets", "answers lost"):
        found = judge(HISTORIES[kind](count), limit=count * count * 10)
        assert found.finding is Finding.UNEXPLAINED, kind


@few
@given(random=seeds, release=releases)
def test_together_begun_requests_are_judged_as_by_every_order(random: Random, release: str) -> None:
    """Requests that are the same but for their ends, or for a name that nothing else has."""
    for _ in range(2):
        history = list[Operation]()
        is_leader = random.random() < 0.5
        if not is_leader:
            history.append(BEGUN)
        for number in range(random.choice([3, 3, 4])):
            told: dict[str, Any] = {"error": "NONE"}
            if is_leader:
                if random.random() < 0.3:
                    told["base_offset"] = random.randrange(4)
                fields = {"transactional": True} if random.random() < 0.3 else {}
                sequence = random.choice([0, 0, 0, 1])
                one = produce(random.choice([1, 10 + number]), told, sequence=sequence, **fields)
            else:
                told["error"] = random.choice(["NONE"] * 3 + ["CONCURRENT_TRANSACTIONS"])
                parts = random.choice([["p"], [f"p-{number}"]])
                one = random.choice(
                    (
                        coordinated("AddPartitionsToTxn", told, partitions=parts),
                        coordinated("EndTxn", told, result="COMMIT"),
                    )
                )
            one = one._replace(start=one.start + random.choice([0, 0, 0, 50]))
            one = one._replace(end=random.choice([100, 40 + one.start, 200]))
            if random.random() < 0.15:
                one = one._replace(end=None, response=None)
            history.append(one)
        found = judge(history, Settings(protocol=release)).finding
        assert (found is not Finding.UNEXPLAINED) == is_explained(history, release), history
        assert found is not Finding.GAVE_UP


def test_a_lost_batch_is_not_taken_for_a_marker_where_it_comes_again() -> None:
    """Four producers have a transaction for each record. The first one's third record is lost
    twice, and answered the third time, many offsets later."""
    history: list[Operation] = []
    offset = 0
    for turn in range(15):
        for producer in range(4):
            lost, now = producer == 0 and turn in (2, 3), 10 * (4 * turn + producer)
            if producer == 0 and 3 < turn < 14:
                continue
            asked = produce(
                producer,
                None if lost else at(offset),
                transactional=True,
                sequence=turn if producer else min(turn, 2),
            )
            history.append(asked._replace(start=now, end=None if lost else now + 5))
            offset += 0 if lost else 2  # the record and its marker
    found = judge(history, Settings(protocol="3.6"), limit=10_000)
    assert found.finding is Finding.EXPLAINED


def test_an_operation_takes_no_longer_where_more_producers_are_known() -> None:
    def lines(producers: int) -> int:
        history = [
            produce(number % producers, at(number), sequence=number // producers)._replace(
                start=number, end=number + 0.5
            )
            for number in range(200)
        ]
        count, found = counted(lambda: judge(history))
        assert found.finding is Finding.EXPLAINED
        return count

    lines(20)  # the rows are compiled by then
    assert lines(20) < 1.5 * lines(1)
