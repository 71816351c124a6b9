"""Consume-process-produce is judged by input: each is counted once, however often it was tried."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochfence.model.judge.application.anomalies import View, find_anomalies
from epochfence.model.judge.judge import Finding
from epochfence.tests.model.judge.test_histories import judged

Line = dict[str, Any]
GROUP = {"group": "g"}


def view(lines: list[Line]) -> View:
    return find_anomalies(("f", number, line) for number, line in enumerate(lines, 1))


def names(lines: list[Line]) -> Counter[str]:
    return Counter(anomaly.name for anomaly in view(lines).anomalies)


def send(name: str, record: str, *offsets: int, **others: Any) -> Line:
    line = {"event": "send", "producer": name[0], "transaction": name, "partition": "out-0",
            "record": record, "outcome": "acknowledged", **others}  # fmt: skip
    return line | ({"inputs": {"in-0": [*offsets]}} if offsets else {})


def drop(name: str, *offsets: int) -> Line:
    return {
        "event": "filter",
        "producer": name[0],
        "transaction": name,
        "inputs": {"in-0": [*offsets]},
    }


def commit(name: str, offset: int, **others: Any) -> Line:
    return {"event": "commit_offset", "producer": name[0], "transaction": name, **GROUP,
            "partition": "in-0", "offset": offset, "outcome": "acknowledged", **others}  # fmt: skip


def end(name: str, outcome: str = "committed") -> Line:
    return {"event": "end", "transaction": name, "outcome": outcome}


def read(record: str, offset: int, partition: str = "out-0", **others: Any) -> Line:
    return {"event": "read", "consumer": "c", "partition": partition, "offset": offset,
            "record": record, **others}  # fmt: skip


def taken(offset: int, **others: Any) -> Line:
    return read(f"in-{offset}", offset, "in-0", **others)


CAUGHT_UP = {"event": "caught_up", "consumer": "c", "partition": "out-0"}
FIRST = [send("a1", "x", 7), commit("a1", 8)]
AGAIN = [send("b1", "y", 7), commit("b1", 8), end("b1")]
BOTH_READ = [read("x", 0), read("y", 2), CAUGHT_UP]

HISTORIES: dict[str, tuple[list[Line], str]] = {
    "once": ([*FIRST, end("a1"), read("x", 0), CAUGHT_UP], "EXPLAINED"),
    "again after an abort": (
        [*FIRST, end("a1", "aborted"), *AGAIN, read("y", 2), CAUGHT_UP], "EXPLAINED"
    ),
    "again, and the first was out": (
        [*FIRST, end("a1", "unknown"), *AGAIN, read("y", 2), CAUGHT_UP], "EXPLAINED"
    ),
    "again, and nobody knows of the first": (
        [*FIRST, end("a1", "unknown"), *AGAIN, read("y", 2)], "UNJUDGED"
    ),
    "two that committed": ([*FIRST, end("a1"), *AGAIN], "PROCESSED_TWICE"),
    "two that were read": ([*FIRST, end("a1", "unknown"), *AGAIN, *BOTH_READ], "PROCESSED_TWICE"),
    "one filtered it, one did not": (
        [drop("a1", 7), commit("a1", 8), end("a1"), *AGAIN, read("y", 2), CAUGHT_UP],
        "PROCESSED_TWICE",
    ),
    "two groups": (
        [*FIRST, end("a1"), *AGAIN[:1], commit("b1", 8, group="h"), end("b1"), *BOTH_READ],
        "EXPLAINED",
    ),
    "two groups, and one of neither": (
        [*FIRST, end("a1"), commit("b1", 8, group="h"), end("b1"), send("c1", "z", 7), end("c1"),
         read("x", 0), read("z", 2), CAUGHT_UP], "UNJUDGED"
    ),
    "one to many": (
        [send("a1", "x", 7), send("a1", "y", 7), commit("a1", 8), end("a1"), *BOTH_READ],
        "EXPLAINED",
    ),
    "many to one": (
        [send("a1", "x", 5, 6, 7), commit("a1", 8), end("a1"), read("x", 0), CAUGHT_UP],
        "EXPLAINED",
    ),
    "a record stands for its input": (
        [send("a1", "x"), end("a1", "unknown"), send("b1", "x"), end("b1"), read("x", 0),
         read("x", 2)], "PROCESSED_TWICE"
    ),
    "to two partitions": (
        [send("a1", "x"), end("a1"), send("b1", "x", partition="out-1"), end("b1")],
        "PROCESSED_TWICE",
    ),
    "a record of the second try": (
        [send("a1", "x"), end("a1", "unknown"), send("b1", "x"), end("b1"), read("x", 2),
         CAUGHT_UP], "EXPLAINED"
    ),
    "passed by the next": (
        [taken(6, **GROUP), *FIRST, end("a1"), read("x", 0), CAUGHT_UP], "SKIPPED"
    ),
    "passed with an abort": (
        [*FIRST, end("a1", "aborted"), send("a2", "y", 8), commit("a2", 9), end("a2"),
         read("y", 2), CAUGHT_UP], "SKIPPED"
    ),
    "filtered": (
        [taken(6, **GROUP), drop("a1", 6), *FIRST, end("a1"), read("x", 0), CAUGHT_UP],
        "EXPLAINED",
    ),
    "before the group began": ([taken(6), *FIRST, end("a1"), read("x", 0), CAUGHT_UP], "EXPLAINED"),
    "behind the committed offset": (
        [taken(8), *FIRST, end("a1"), read("x", 0), CAUGHT_UP], "EXPLAINED"
    ),
    "nobody knows who passed": (
        [*FIRST, end("a1"), taken(8), commit("b1", 9), end("b1", "unknown"), read("x", 0),
         CAUGHT_UP], "UNJUDGED"
    ),
    "nobody knows who took": (
        [*FIRST, end("a1", "unknown"), send("a2", "y", 8), commit("a2", 9), end("a2"),
         read("y", 2)], "UNJUDGED"
    ),
    "a record without inputs": (
        [taken(6, **GROUP), send("a1", "w"), *FIRST, end("a1"), read("w", 0), read("x", 1),
         CAUGHT_UP], "UNJUDGED"
    ),
    "without offsets": ([FIRST[0], end("a1"), read("x", 0), CAUGHT_UP], "UNJUDGED"),
    "without inputs": (
        [send("a1", "x"), commit("a1", 8), end("a1"), read("x", 0), CAUGHT_UP], "UNJUDGED"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HISTORIES)
def test_an_input_is_judged_by_what_is_certain(name: str) -> None:
    lines, right = HISTORIES[name]
    found = view(lines)
    told = {anomaly.name for anomaly in found.anomalies} or {found.finding.name}
    assert told == {right}, (found.anomalies, found.unjudged)


def test_the_report_that_was_public_is_found_with_its_lines(tmp_path: Path) -> None:
    lines = [
        send("w8-1", "in-3308"),
        end("w8-1", "unknown"),
        send("w9-1", "in-3308"),
        end("w9-1"),
        read("in-3308", 19461),
        read("in-3308", 19467),
    ]
    lines[0]["producer"], lines[2]["producer"] = "w8", "w9"
    done = judged(tmp_path, lines, "--application")
    assert done.code == 12
    file = tmp_path / "history.jsonl"
    verdict, first, second = done.out.splitlines()
    assert first.startswith(f"{file}, line 6: PROCESSED_TWICE of in-3308 in out-0.")
    assert second == f"  see {file}, lines 1, 3, 5"
    assert verdict == "2 sends, 2 ends, 2 reads, 1 inputs: 1 anomalies, UNEXPLAINED (exit 12)"


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([send("a1", "x", 7, transaction=None)], "line 1: record x has inputs and no transaction"),
        ([send("a1", "x", 7), drop("a1", 7)], "line 2: offset 7 of in-0 has and lacks a record"),
        ([commit("a1", 1), commit("a1", 1, group="h")], "line 2: transaction a1 commits for"),
        ([commit("a1", 1), drop("a1", 1) | {"producer": "b"}], "line 2: transaction a1 is of a"),
        ([end("a1"), commit("a1", 1)], "line 2: transaction a1 has ended"),
        ([end("a1"), drop("a1", 1)], "line 2: transaction a1 has ended"),
        ([drop("a1", 1, 1)], "line 1: inputs.in-0 must contain unique items"),
        ([drop("a1")], "line 1: inputs.in-0 must contain at least 1 items"),
        ([drop("a1") | {"inputs": {"in-0": [1.0]}}], "line 1: inputs is 1.0, and should be"),
    ],
)
def test_what_says_two_things_of_an_input_is_refused(
    tmp_path: Path, lines: list[Line], says: str
) -> None:
    done = judged(tmp_path, lines, "--application")
    assert (done.code, done.out) == (2, "")
    assert says in done.err


def application(random: Random, inputs: int = 8) -> list[Line]:
    """A run of a correct application: instances take turns, transactions are aborted or their ends
    get lost, and who comes next begins at the committed offset."""
    lines: list[Line] = [taken(at, **GROUP) for at in range(inputs)]
    committed, log = 0, 0
    for number in range(40):
        if committed == inputs:
            break
        name = f"{random.choice('ab')}{number}"
        upto = random.randint(committed + 1, inputs)
        records: list[str] = []
        for at in range(committed, upto):
            count = random.choice((0, 1, 1, 2))
            lines += [drop(name, at)] if not count else ()
            for each in range(count):
                records.append(f"{name}/{at}/{each}")
                lines.append(send(name, records[-1], at))
        lines.append(commit(name, upto))
        outcome = random.choice(("committed", "aborted", "unknown"))
        lines.append(end(name, outcome))
        if outcome == "committed" or (outcome == "unknown" and random.random() < 0.5):
            committed = upto
            lines += (read(record, log + at) for at, record in enumerate(records))
            log += len(records)
        log += 1
    return [*lines, CAUGHT_UP]


@given(random=st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_a_correct_application_is_never_blamed_and_what_is_planted_is_seen(random: Random) -> None:
    lines = application(random)
    assert names(lines) == Counter()
    known = [line for line in lines if line.get("outcome") != "unknown"]
    ended = {line["transaction"] for line in known if line["event"] == "end"}
    there = {line["transaction"] for line in lines if line["event"] == "send"} & ended
    sends = [line for line in lines if line["event"] == "send"]
    shown = {line["record"] for line in lines if line["event"] == "read"}
    counted = [s for s in sends if s["record"] in shown and s["transaction"] in there]
    if not counted:
        return
    one = random.choice(counted)
    again = [one | {"transaction": "c1", "producer": "c", "record": "again"}, end("c1")]
    assert names([*lines, *again, read("again", 999)]) == {"PROCESSED_TWICE": 1}
    inputs = one["inputs"]
    without = [line for line in lines if line.get("inputs") != inputs]
    lost = {line["record"] for line in lines if line.get("inputs") == inputs and "record" in line}
    without = [line for line in without if line.get("record") not in lost]
    passed = [line for line in without if line["event"] == "commit_offset"]
    assert any(line["offset"] > inputs["in-0"][0] for line in passed)
    if any(line["event"] == "send" for line in without):
        assert names(without) == {"SKIPPED": 1}


@pytest.mark.parametrize("dropped", [CAUGHT_UP, end("a1", "unknown"), end("b1")])
def test_an_input_that_is_counted_twice_is_never_explained_with_less_known(dropped: Line) -> None:
    lines = [line for line in HISTORIES["two that were read"][0] if line != dropped]
    assert view(lines).finding in (Finding.UNEXPLAINED, Finding.UNJUDGED)
