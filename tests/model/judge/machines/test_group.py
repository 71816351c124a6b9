"""Offsets of groups are judged: what is fetched has to be what was committed, by then."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest

from epochfence.model.judge.judge import Finding
from epochfence.tests.model.judge.honest import Line, Recorded, judged, unexplained, without_markers

GROUP, INPUTS = "g", ("in-0", "in-1")


class Processing(Recorded):
    """A cluster whose clients process inputs: they commit their offsets in transactions."""

    def add_offsets_of(self, name: str) -> None:
        """AddOffsetsToTxn, which clients of version 2 don't send."""
        if self.transaction_version >= 2:
            return
        error = self.add_offsets(name, *self.later[name], GROUP)
        asked = self._about(name, "AddOffsetsToTxn") | {"group_id": GROUP}
        self.write(asked, {"error": error})

    def commit(self, name: str, partition: str, offset: int) -> None:
        """TxnOffsetCommit."""
        held = self.later[name]
        error = self.commit_offsets(name, *held, GROUP, offsets={partition: offset})
        asked = {"request": "TxnOffsetCommit", **self.place(partition), "offset": offset,
                 "producer_id": held[0], "producer_epoch": held[1]}  # fmt: skip
        self.write(asked, {"error": error})

    def commit_outside(self, partition: str, offset: int) -> None:
        """OffsetCommit."""
        error = self.commit_group_offsets(GROUP, {partition: offset})
        asked = {"request": "OffsetCommit", **self.place(partition), "offset": offset}
        self.write(asked, {"error": error})

    def fetched(self, partition: str, *, stable: bool) -> None:
        """OffsetFetch."""
        told = self.fetch_offset(GROUP, partition, require_stable=stable)
        asked = {"request": "OffsetFetch", **self.place(partition), "require_stable": stable}
        self.write(asked, {"error": told.error, "offset": told.offset})

    def place(self, partition: str) -> Line:
        return {"group_id": GROUP, "partition": partition}


def eventful(release: str, random: Random, steps: int) -> list[Line]:
    """A run in which clients take turns at random, with rivals, timeouts, failovers and markers
    that are late."""
    cluster = Processing(release, random, overlap=3)
    for name in ("a", "b"):
        cluster.init(name)
    for number in range(steps):
        name, partition = random.choice("ab"), random.choice(INPUTS)
        match random.choice(["commit"] * 4 + ["end"] * 3 + ["mark"] * 3 + ["fetch"] * 6
                            + ["init", "late", "fail", "restart", "outside"]):  # fmt: skip
            case "commit":
                if random.random() < 0.8:
                    cluster.add_offsets_of(name)
                cluster.commit(name, partition, number)
            case "outside":
                cluster.commit_outside(partition, number)
            case "fetch":
                cluster.fetched(partition, stable=random.random() < 0.7)
            case "end":
                cluster.end(name, random.choice(["COMMIT", "ABORT"]))
            case "init":
                cluster.init(name)
            case "late":
                cluster.sleep(random.choice([1, 100]))
            case "fail":
                cluster.fail_over(name)()
            case "restart":
                cluster.groups.restart()
            case _:
                for marker, part in random.sample(cluster.due(), len(cluster.due())):
                    cluster.deliver(marker, part)
                for each in cluster.to_complete():
                    cluster.complete(each)
    return cluster.lines


def steady(release: str) -> list[Line]:
    """A run in which nothing goes wrong: three transactions, one of them aborted."""
    cluster = Processing(release)
    cluster.init("a")
    cluster.fetched("in-0", stable=True)
    for offset, result in ((3, "COMMIT"), (5, "ABORT"), (6, "COMMIT")):
        cluster.add_offsets_of("a")
        cluster.commit("a", "in-0", offset)
        cluster.fetched("in-0", stable=True)
        cluster.end("a", result)
        cluster.deliver_markers()
        cluster.fetched("in-0", stable=True)
    cluster.commit_outside("in-0", 9)
    cluster.fetched("in-0", stable=False)
    return cluster.lines


def told(lines: Iterable[Line], release: str, tmp_path: Path) -> list[str]:
    found = judged(lines, release, tmp_path / "history.jsonl")
    return [str(one.operation) for one in unexplained(found)]


RELEASES = ("0.11.0.0", "1.1", "2.4", "2.5", "2.8", "3.6", "3.7", "3.9", "4.0.0", "4.3")


@pytest.mark.parametrize("release", RELEASES)
def test_a_steady_run_is_explained_and_no_offset_but_those(release: str, tmp_path: Path) -> None:
    lines = without_markers(steady(release))
    file = tmp_path / "history.jsonl"
    # before version 2 the marker of another transaction of the epoch may come late, or again
    wrong_ones = (4, 7) if release < "4.0.1" else (4, 5, 7)
    assert {one.finding for one in judged(lines, release, file)} == {Finding.EXPLAINED}
    for at, line in enumerate(lines):
        if line["request"] != "OffsetFetch" or line["response"]["error"] != "NONE":
            continue
        for wrong in wrong_ones:
            damaged: list[Line] = list(lines)
            damaged[at] = line | {"response": {"error": "NONE", "offset": wrong}}
            assert told(damaged, release, tmp_path), (at, wrong)


@pytest.mark.slow(2)
@pytest.mark.parametrize("release", RELEASES)
def test_an_eventful_run_is_explained(release: str, seed: int, tmp_path: Path) -> None:
    """No true answer is unexplained. Within the limit, most searches come to an end."""
    ends: list[bool] = []
    for number in range(6):
        lines = eventful(release, Random(seed + number), 40)
        for history in (lines, without_markers(lines)):
            found = judged(history, release, tmp_path / "history.jsonl")
            assert not any(unexplained(found)), seed + number
            ends.append(Finding.GAVE_UP not in {one.finding for one in found})
    assert sum(ends) > len(ends) / 2, seed


def test_an_offset_of_an_aborted_transaction_is_not_committed(tmp_path: Path) -> None:
    for release in ("2.5", "3.9", "4.3"):
        lines = [
            line | ({"result": "ABORT"} if "result" in line else {})
            for line in without_markers(steady(release))
        ]
        (first,) = told(lines, release, tmp_path)
        assert first == "OffsetFetch(require_stable=True) → error=NONE, offset=3"


UNSTABLE = {"error": "UNSTABLE_OFFSET_COMMIT", "offset": -1}


@pytest.mark.parametrize(("release", "explained"), [("2.4", False), ("3.9", True), ("4.3", False)])
def test_an_offset_on_its_way_is_unstable_before_4_0(
    release: str, *, explained: bool, tmp_path: Path
) -> None:
    """And of no release later on, or before KIP-447."""
    asked: Line = {"group_id": GROUP, "partition": "in-0"}
    commit = {"request": "OffsetCommit", **asked, "offset": 3, "start": 1, "end": 9,
              "response": {"error": "NONE"}}  # fmt: skip
    fetch = {"request": "OffsetFetch", **asked, "require_stable": True, "start": 4, "end": 5,
             "response": UNSTABLE}  # fmt: skip
    assert (told([commit, fetch], release, tmp_path) == []) is explained
    assert told([commit, fetch | {"start": 10, "end": 11}], release, tmp_path)


@pytest.mark.parametrize(
    ("asked", "error", "explained"),
    [
        ({}, "UNKNOWN_MEMBER_ID", False),
        ({"member_id": "m", "generation_id": 3}, "UNKNOWN_MEMBER_ID", True),
        ({"member_id": "m", "generation_id": 3}, "ILLEGAL_GENERATION", True),
        ({"member_id": "m", "generation_id": 3}, "FENCED_INSTANCE_ID", False),
        (
            {"member_id": "m", "generation_id": 3, "group_instance_id": "i"},
            "FENCED_INSTANCE_ID",
            True,
        ),
        ({"member_id": "m", "generation_id": 3}, "INVALID_PRODUCER_EPOCH", True),
        ({}, "OUT_OF_ORDER_SEQUENCE_NUMBER", False),
        ({}, "NOT_COORDINATOR", True),
        ({}, "VOTER_NOT_FOUND", False),
    ],
)
def test_only_what_a_group_may_answer_is_explained(
    asked: Line, error: str, *, explained: bool, tmp_path: Path
) -> None:
    line = {"request": "TxnOffsetCommit", "group_id": GROUP, "partition": "in-0", "offset": 3,
            "producer_id": 1, "producer_epoch": 0, "start": 1, "end": 9, **asked,
            "response": {"error": error}}  # fmt: skip
    assert (told([line], "3.9", tmp_path) == []) is explained


def test_an_error_that_the_epoch_forbids_needs_a_later_one(tmp_path: Path) -> None:
    """A producer that nobody fenced isn't refused as one of an older epoch."""
    lines = without_markers(steady("4.3"))
    commits = [at for at, line in enumerate(lines) if line["request"] == "TxnOffsetCommit"]
    for at in commits:
        damaged = list(lines)
        damaged[at] = lines[at] | {"response": {"error": "INVALID_PRODUCER_EPOCH"}}
        assert told(damaged, "4.3", tmp_path)
