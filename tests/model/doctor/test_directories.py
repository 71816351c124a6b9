"""Data directories that were written by hand, whole and damaged, and what doctor says of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from epochfence.model.doctor.diagnosis import Diagnosis
from epochfence.model.doctor.directories import look
from epochfence.model.doctor.evidence import Verdict
from epochfence.model.doctor.output.report import lines
from epochfence.model.judge.segments.folder import files_of
from epochfence.model.records import (
    Flag,
    ProducerEntry,
    Record,
    decode_group_key,
    encode_group_key,
    encode_group_value,
    encode_snapshot,
)
from epochfence.model.records.layouts.offset_layouts import OffsetCommitKey, OffsetCommitValueV3
from epochfence.tests.cli.test_cli import epochfence
from epochfence.tests.model.judge.segments.test_directories import PID, Broker, Log, entry

HANGS, UNKNOWN, HEALTHY = Verdict.HANGS, Verdict.UNKNOWN, Verdict.HEALTHY


def written(broker: Broker) -> Broker:
    """All of it, in files: the only partition of a transaction log has the id."""
    broker.orders.write(broker.folder / "orders-0")
    broker.transactions.write(broker.folder / "__transaction_state-0")
    return broker


def whole(broker: Broker) -> None:
    broker.aborted()
    broker.committed()


def late_batch(broker: Broker) -> None:
    """Behind the marker of its own epoch."""
    broker.aborted()
    broker.orders.data(1, 0)


def ongoing(broker: Broker) -> None:
    broker.aborted()
    broker.transactions.state("t", "ONGOING", 1, "orders-0")
    broker.orders.data(1, 0, 2)


def decided(broker: Broker) -> None:
    ongoing(broker)
    broker.transactions.state("t", "PREPARE_COMMIT", 2, "orders-0")


def marker_left_out(broker: Broker) -> None:
    decided(broker)
    broker.transactions.state("t", "COMPLETE_COMMIT", 2)


def elsewhere(broker: Broker) -> None:
    broker.aborted()
    broker.transactions.state("t", "ONGOING", 1, "others-0")
    broker.orders.data(1, 0)


def nobody(broker: Broker) -> None:
    broker.aborted()
    broker.orders.data(0, 0, producer=PID + 1)


def fenced(broker: Broker) -> None:
    """An instance of epoch 1 writes where nobody has written before; the newest is of epoch 2."""
    broker.transactions.state("t", "EMPTY", 1)
    broker.transactions.state("t", "EMPTY", 2)
    broker.orders.data(1, 0)


CASES: dict[str, tuple[Callable[[Broker], None], Verdict, str | None]] = {
    "whole": (whole, HEALTHY, None),
    "a late batch": (late_batch, HANGS, "hanging"),
    "ongoing": (ongoing, HEALTHY, "open"),
    "decided": (decided, HEALTHY, "ending"),
    "a marker that was left out": (marker_left_out, HANGS, "hanging"),
    "ongoing elsewhere": (elsewhere, HANGS, "hanging"),
    "an instance that was fenced": (fenced, HANGS, "fenced-writer"),
    "a producer of no id": (nobody, HANGS, "hanging"),
}


def found_in(folder: Path, *, release: str = "3.5", is_complete: bool = True) -> Diagnosis:
    return look([folder], release, is_complete=is_complete)


@pytest.mark.parametrize("name", CASES)
def test_each_state_has_its_cause(name: str, tmp_path: Path) -> None:
    make, verdict, cause = CASES[name]
    make(broker := Broker(tmp_path))
    written(broker)
    found = found_in(tmp_path)
    assert found.verdict is verdict, list(lines(found))
    assert [case.cause for case in found.cases] == ([] if cause is None else [cause])


@pytest.mark.parametrize("name", CASES)
def test_a_copy_that_may_be_behind_hangs_never(name: str, tmp_path: Path) -> None:
    make, verdict, _ = CASES[name]
    make(broker := Broker(tmp_path))
    written(broker)
    found = found_in(tmp_path, is_complete=False)
    assert found.verdict is (UNKNOWN if verdict is HANGS else verdict)
    assert (verdict is HANGS) == any("may be behind" in line for line in lines(found))


def test_a_marker_that_was_left_out_is_told_with_what_was_decided(tmp_path: Path) -> None:
    marker_left_out(broker := Broker(tmp_path))
    written(broker)
    (case,) = found_in(tmp_path, release="4.3").cases
    assert [bug.name for bug in case.bugs] == ["finding 13, KAFKA-20734"]
    assert case.facts[-1].startswith("t decided COMMIT for this partition in epoch 2")
    assert "records 5 to 6 of orders-0" in case.risk


def test_a_decision_of_version_2_shows_the_result(tmp_path: Path) -> None:
    marker_left_out(broker := Broker(tmp_path))
    written(broker)
    found = found_in(tmp_path, release="4.3")
    (case,) = found.cases
    decisions = found.evidence.decisions[PID]
    assert {each.client_version for each in decisions} == {0}
    assert "isn't known here" in case.risk
    from epochfence.model.doctor.diagnosis import diagnose

    found.evidence.decisions[PID] = [replace(each, client_version=2) for each in decisions]
    (case,) = diagnose(found.evidence).cases
    assert case.risk == (
        "aborting loses records 5 to 6 of orders-0; the coordinator has committed the transaction"
    )


@pytest.mark.parametrize("epochs", [2, 3])
def test_instances_that_fence_each_other_are_told_with_how_often(
    epochs: int, tmp_path: Path
) -> None:
    whole(broker := Broker(tmp_path))
    for epoch in range(3, 3 + epochs):
        broker.transactions.state("t", "EMPTY", epoch)
    written(broker)
    found = found_in(tmp_path)
    assert found.verdict is HEALTHY
    told = [one.says for one in found.problems if one.cause == "instances-fence-each-other"]
    assert (len(told) == 1) == (epochs == 3)
    assert all(each.startswith("t: 3 new epochs by InitProducerId within") for each in told)


def test_of_two_copies_the_one_that_is_ahead_counts(tmp_path: Path) -> None:
    """A follower's copy has an open transaction whose marker its leader has."""
    whole(leader := Broker(tmp_path / "1"))
    written(leader)
    follower = Broker(tmp_path / "2")
    follower.aborted()
    follower.orders.data(1, 0)
    follower.orders.write(follower.folder / "orders-0")
    assert look([tmp_path / "2", tmp_path / "1"], "3.5", is_complete=True).verdict is HEALTHY


def test_what_was_open_before_comes_from_a_snapshot(tmp_path: Path) -> None:
    """Segments before it are gone: retention doesn't stop at an open transaction's begin."""
    broker = Broker(tmp_path)
    broker.orders.start = broker.orders.end = 7
    broker.orders.data(1, 3, producer=PID + 1)
    written(broker)
    snapshot = [entry(first=5), ProducerEntry(**{**vars_of(entry()), "producer_id": PID + 2})]
    path = tmp_path / "orders-0" / f"{7:020}.snapshot"
    path.write_bytes(encode_snapshot(snapshot))
    found = found_in(tmp_path)
    assert sorted(case.open.first_offset for case in found.cases) == [5, 7]
    path.unlink()
    found = found_in(tmp_path)
    assert found.verdict is UNKNOWN
    assert any("without a snapshot" in line for line in lines(found))


def test_a_snapshot_that_lacks_an_open_transaction_hides_nothing(tmp_path: Path) -> None:
    nobody(broker := Broker(tmp_path))
    written(broker)
    end = broker.orders.end
    path = tmp_path / "orders-0" / f"{end:020}.snapshot"
    path.write_bytes(encode_snapshot([]))
    found = found_in(tmp_path)
    assert (found.verdict, [case.cause for case in found.cases]) == (UNKNOWN, ["not-known"])
    assert any(f"lacks producer {PID + 1}, whose" in line for line in lines(found))
    path.write_bytes(encode_snapshot([replace(entry(first=end - 1), producer_id=PID + 1)]))
    assert found_in(tmp_path).verdict is HANGS


def test_a_folder_whose_name_is_no_partitions_leaves_doubt(tmp_path: Path) -> None:
    whole(broker := Broker(tmp_path))
    written(broker)
    folder = (tmp_path / "orders-0").rename(tmp_path / "orders_0")
    found = found_in(folder)
    assert found.verdict is UNKNOWN
    [judged] = files_of(folder).findings
    assert any(str(judged) in line for line in lines(found))


def commit(log: Log, group: str, offset: int | None, producer: int = -1) -> None:
    """A group's offset of orders-0; None removes it."""
    key = encode_group_key(1, OffsetCommitKey(group=group, topic="orders", partition=0))
    kind, _ = decode_group_key(key)
    value = None
    if offset is not None:
        committed = OffsetCommitValueV3(
            offset=offset, leader_epoch=-1, metadata="", commit_timestamp=0
        )
        value = encode_group_value(kind, committed, 3)
    record = Record(offset_delta=0, key=key, value=value)
    flags = Flag.TRANSACTIONAL if producer >= 0 else Flag(0)
    log.add((record,), 1, 0, flags, producer)


def test_groups_that_wait_are_named_from_the_offsets_that_are_here(tmp_path: Path) -> None:
    """An offset of a transaction counts from its commit marker on."""
    late_batch(broker := Broker(tmp_path))
    written(broker)
    offsets = Log()
    commit(offsets, "waits", 5)
    commit(offsets, "has read on", 5)
    commit(offsets, "has read on", 6)
    commit(offsets, "is removed", 5)
    commit(offsets, "is removed", None)
    commit(offsets, "open", 5, producer=PID)
    commit(offsets, "committed", 5, producer=PID + 1)
    commit(offsets, "aborted", 5, producer=PID + 2)
    offsets.marker(1, "COMMIT", producer=PID + 1)
    offsets.marker(1, "ABORT", producer=PID + 2)
    path = offsets.write(tmp_path / "__consumer_offsets-7")
    found = found_in(tmp_path)
    (case,) = [case for case in found.cases if case.partition.place.topic == "orders"]
    assert case.partition.groups == ["committed", "waits"]
    assert "  groups at this offset: committed, waits" in list(lines(found))
    path.write_bytes(path.read_bytes()[:-1])
    assert any(
        "waiting groups may not all be known: " in line for line in lines(found_in(tmp_path))
    )
    path.unlink()
    path.parent.rmdir()
    told = list(lines(found_in(tmp_path)))
    assert "note: waiting groups aren't known: __consumer_offsets isn't here" in told


def vars_of(given: ProducerEntry) -> dict[str, int]:
    return {name: getattr(given, name) for name in given.__dataclass_fields__}


@pytest.mark.parametrize("cut", [1, 30])
def test_a_half_copied_segment_leaves_doubt(cut: int, tmp_path: Path) -> None:
    late_batch(broker := Broker(tmp_path))
    broker.orders.data(1, 1)
    written(broker)
    path = next((tmp_path / "orders-0").glob("*.log"))
    path.write_bytes(path.read_bytes()[:-cut])
    found = found_in(tmp_path)
    assert (found.verdict, [case.cause for case in found.cases]) == (UNKNOWN, ["not-known"])
    assert any("can't be read" in line for line in lines(found))


def test_a_transaction_log_that_is_not_all_here_leaves_doubt(tmp_path: Path) -> None:
    nobody(broker := Broker(tmp_path))
    written(broker)
    (tmp_path / "__transaction_state-0").rename(tmp_path / "__transaction_state-3")
    found = found_in(tmp_path)
    assert (found.verdict, found.cases[0].cause) == (UNKNOWN, "not-known")
    assert "isn't all here" in found.cases[0].facts[-1]


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"\x00\x00\x00\x01t", b"\x00\x63later"), (b"\x00\x63\x00\x01t", b"\x00\x00later")],
    ids=["value", "key"],
)
def test_records_of_an_unknown_version_leave_doubt(
    key: bytes, value: bytes, tmp_path: Path
) -> None:
    """A newer broker has written them: what they say of a transaction isn't guessed."""
    late_batch(broker := Broker(tmp_path))
    broker.transactions.add((Record(offset_delta=0, key=key, value=value),), 0, 0, Flag(0), -1)
    written(broker)
    found = found_in(tmp_path)
    assert found.verdict is UNKNOWN, list(lines(found))
    assert any("version 99" in line for line in lines(found)), list(lines(found))


def test_the_command_s_exit_code_and_json(tmp_path: Path) -> None:
    late_batch(broker := Broker(tmp_path / "data"))
    written(broker)
    file = tmp_path / "found.json"
    folder = tmp_path / "data"
    told = epochfence("doctor", folder, "--complete", "--protocol", "3.5", "--json", file)
    assert told.code == 12
    assert "abort --topic orders --partition 0 --start-offset 5" in told.out
    assert json.loads(file.read_text())["transactions"][0]["bugs"][0] == "KAFKA-14402"
    assert epochfence("doctor", folder).code == 20
    assert epochfence("doctor", tmp_path / "nowhere").code == 2
    assert epochfence("doctor", folder, "--protocol", "1984").code == 2
    assert epochfence("doctor", folder, "--topic", "orders").code == 2
    empty = tmp_path / "empty"
    empty.mkdir()
    assert epochfence("doctor", empty).code == 20
