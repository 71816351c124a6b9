"""Damage that leaves every file readable, its checksums right: none of it stays unseen."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from epochfence.model.judge.segments.across_partitions import time_of
from epochfence.model.judge.segments.directories import judge_segments
from epochfence.model.judge.segments.transactions import are_all
from epochfence.model.records import (
    AbortedTransaction,
    Flag,
    ProducerEntry,
    Record,
    RecordBatch,
    decode_batch,
    decode_snapshot,
    encode_as_coordinator,
    encode_batch,
    encode_index,
    encode_key,
    encode_marker,
    encode_snapshot,
)
from epochfence.tests.cli.test_cli import epochfence
from epochfence.tests.model.judge.segments.test_directories import (
    PID,
    Broker,
    Log,
    entry,
    honest,
)

ORDERS, DECISIONS = "orders-0", "__transaction_state-0"
OTHER = 4100
DAY_MS = 86_400_000


def batches(path: Path) -> list[RecordBatch]:
    """The batches of a segment."""

    def each() -> Iterator[RecordBatch]:
        data, at = path.read_bytes(), 0
        while at < len(data):
            batch, at = decode_batch(data, at)
            yield batch

    return list(each())


def write(path: Path, kept: list[RecordBatch]) -> None:
    """Writes batches as a segment, with their checksums."""
    path.write_bytes(b"".join(map(encode_batch, kept)))


def log_of(folder: Path, topic: str = ORDERS, base: int = 0) -> Path:
    """A segment."""
    return folder / topic / f"{base:020}.log"


def without(*offsets: int, topic: str = ORDERS) -> Callable[[Path], None]:
    """Removes the batches at these offsets."""

    def damage(folder: Path) -> None:
        path = log_of(folder, topic)
        write(path, [batch for batch in batches(path) if batch.base_offset not in offsets])

    return damage


def altered(at: int, **fields: Any) -> Callable[[Path], None]:
    """Gives the batch at this offset other fields."""

    def damage(folder: Path) -> None:
        path = log_of(folder)
        write(path, [replace(b, **fields) if b.base_offset == at else b for b in batches(path)])

    return damage


def snapshot_of(folder: Path, offset: int = 7) -> Path:
    """A producer snapshot."""
    return folder / ORDERS / f"{offset:020}.snapshot"


def entries(change: Callable[[ProducerEntry], list[ProducerEntry]]) -> Callable[[Path], None]:
    """Makes other entries of the one in the snapshot."""

    def damage(folder: Path) -> None:
        path = snapshot_of(folder)
        (entry,) = decode_snapshot(path.read_bytes())
        path.write_bytes(encode_snapshot(change(entry)))

    return damage


def one(**fields: Any) -> Callable[[Path], None]:
    """Gives the snapshot's entry other fields."""
    return entries(lambda entry: [replace(entry, **fields)])


def _empty_inside_a_transaction(folder: Path) -> None:
    snapshot_of(folder, 6).write_bytes(encode_snapshot([]))


def _split(folder: Path, at: int = 4) -> None:
    """Rolls the log at this offset: two segments, and a snapshot between them."""
    path = log_of(folder)
    every = batches(path)
    write(path, [batch for batch in every if batch.base_offset < at])
    write(log_of(folder, base=at), [batch for batch in every if batch.base_offset >= at])
    index = folder / ORDERS / f"{0:020}.txnindex"
    index.rename(index.with_name(f"{at:020}.txnindex"))
    open_ = ProducerEntry(
        producer_id=PID, epoch=0, last_sequence=3, last_offset=3, offset_delta=0, timestamp=1,
        coordinator_epoch=-1, current_txn_first_offset=0,
    )  # fmt: skip
    snapshot_of(folder, at).write_bytes(encode_snapshot([open_]))


def _middle_segment(folder: Path) -> None:
    _split(folder)
    path = log_of(folder, base=4)
    write(log_of(folder, base=5), [batch for batch in batches(path) if batch.base_offset > 4])
    path.unlink()
    snapshot_of(folder, 4).unlink()


def _first_segment(folder: Path) -> None:
    _split(folder)
    log_of(folder).unlink()
    snapshot_of(folder, 4).unlink()


def _snapshot_of_a_segment(folder: Path) -> None:
    _split(folder)
    snapshot_of(folder, 4).unlink()


def _index_alone(folder: Path) -> None:
    (folder / ORDERS / f"{7:020}.index").write_bytes(b"")


def _no_segment(folder: Path) -> None:
    log_of(folder).unlink()


def _record_lost(folder: Path) -> None:
    first = batches(log_of(folder))[0]
    altered(0, records=(first.records[0], first.records[2]))(folder)


def _no_such_name(folder: Path) -> None:
    (folder / ORDERS / "abc.snapshot").write_bytes(b"")


def _no_file(folder: Path) -> None:
    (folder / ORDERS / f"{9:020}.log").mkdir()


def _broken_link(folder: Path) -> None:
    (folder / ORDERS / f"{9:020}.log").symlink_to(folder / "gone")


def _instead(path: Path, make: Callable[[Path], None]) -> None:
    path.unlink()
    make(path)


def _folder_for_an_index(folder: Path) -> None:
    _instead(folder / ORDERS / f"{0:020}.txnindex", Path.mkdir)


def _pipe_for_an_index(folder: Path) -> None:
    _instead(folder / ORDERS / f"{0:020}.txnindex", os.mkfifo)


def _snapshot_of_decisions(folder: Path, data: bytes) -> None:
    (folder / DECISIONS / f"{6:020}.snapshot").write_bytes(data)


def _no_folder(folder: Path) -> None:
    (folder / "orders-7").write_bytes(b"")


def _broken_link_of_a_partition(folder: Path) -> None:
    (folder / "orders-7").symlink_to(folder / "gone")


def _broken_link_of_decisions(folder: Path) -> None:
    (folder / "__transaction_state-1").symlink_to(folder / "gone")


def _misnamed(folder: Path) -> None:
    (folder / ORDERS).rename(folder / "orders_0")


def _two_markers(folder: Path) -> None:
    (abort,) = batches(log_of(folder))[2].records
    key, value = encode_marker("COMMIT", 0)
    both = abort, replace(abort, offset_delta=1, key=key, value=value)
    altered(4, records=both, last_offset_delta=1)(folder)


def decided(
    *more: tuple[str, int, int, *tuple[int, ...]],
    name: str = "t",
    at: int = 6,
    forgets: bool = False,
) -> Callable[[Path], None]:
    """Puts records of a transactional id behind the first ones of the transaction log: each with
    its state, its producer id and epoch, and partitions of orders (0 if it is ongoing); at last a
    tombstone, if it `forgets`."""

    def damage(folder: Path) -> None:
        path = log_of(folder, DECISIONS)
        kept = batches(path)[:at]
        for state, producer_id, epoch, *parts in more:
            parts = parts or [0] * (state == "ONGOING")
            value = encode_as_coordinator(
                state=state, partitions=[("orders", part) for part in parts],
                producer_id=producer_id, producer_epoch=epoch, timeout_ms=60_000,
                last_update_ms=0, start_ms=0,
            )  # fmt: skip
            record = Record(offset_delta=0, key=encode_key(name), value=value)
            kept.append(replace(kept[-1], base_offset=len(kept), records=(record,)))
        if forgets:
            record = replace(kept[-1].records[0], value=None)
            kept.append(replace(kept[-1], base_offset=len(kept), records=(record,)))
        write(path, kept)

    return damage


def _decisions_twice(folder: Path) -> None:
    shutil.copytree(folder / DECISIONS, folder / "__transaction_state-7")


def _decided_by_a_producer(folder: Path) -> None:
    path = log_of(folder, DECISIONS)
    first, *others = batches(path)
    write(path, [replace(first, producer_id=PID, producer_epoch=0, base_sequence=0), *others])


def _decisions_gone(folder: Path) -> None:
    without(5)(folder)
    without(6)(folder)
    snapshot_of(folder).unlink()
    for path in (folder / DECISIONS).iterdir():
        path.unlink()
    (folder / DECISIONS).rmdir()
    log = Log(5)
    log.data(1, 0)
    path = log_of(folder)
    path.write_bytes(path.read_bytes() + log.bytes)


DAMAGE: dict[str, tuple[Callable[[Path], None], int, str]] = {
    "a batch": (without(5), 12, "byte 232: offset 5 is missing: a leader leaves out no offset"),
    "a producer": (without(0, 3, 4), 20, "offsets 0 to 4 are missing, as compaction leaves it"),
    "a record": (_record_lost, 12, "1 of 3 records from offset 0 on are missing"),
    "the end": (without(5, 6), 12, "is of an offset behind the log, which ends at 5"),
    "another producer id": (
        altered(5, producer_id=OTHER), 12,
        f"byte 232: producer {OTHER}'s transaction from offset 5 will get no end: epoch 1, last "
        "written at 1970-01-01T00:00:00.001Z; no transactional id has had this producer",
    ),
    "a marker of another producer id": (
        altered(6, producer_id=OTHER), 12, "COMMIT was not decided: no transactional id has had",
    ),
    "no epoch": (
        altered(0, producer_epoch=-1), 12, "epoch -1, sequence 0: a producer with an id has an",
    ),
    "no producer": (
        altered(0, producer_id=-1, producer_epoch=-1, base_sequence=-1), 12,
        "a transactional batch has a producer id",
    ),
    "no sequence": (altered(0, base_sequence=-1), 12, "a client's batch has a sequence"),
    "a marker outside of transactions": (
        altered(4, attributes=int(Flag.CONTROL)), 12, "ABORT: a marker's batch is transactional",
    ),
    "a marker's sequence": (altered(4, base_sequence=4), 12, "ABORT: a marker has no sequence"),
    "two markers in a batch": (_two_markers, 12, "a marker is the one record of a batch"),
    "an id that expires in a transaction": (
        decided(("ONGOING", PID, 2), forgets=True), 12, "t: a tombstone may not follow ONGOING",
    ),
    "a decision for more": (
        decided(("ONGOING", PID, 2), ("PREPARE_COMMIT", PID, 3, 0, 1)),
        12, "t: PREPARE_COMMIT names orders-1, which the record before doesn't",
    ),
    "an end with partitions": (
        decided(
            ("ONGOING", PID, 2), ("PREPARE_COMMIT", PID, 3, 0), ("COMPLETE_COMMIT", PID, 3, 0)
        ),
        12, "t: COMPLETE_COMMIT has partitions: they are all done then",
    ),
    "the largest epoch": (
        decided(("EMPTY", PID, 32_767)), 12, "t: EMPTY in epoch 32767, which no client gets",
    ),
    "a producer's batch among decisions": (
        _decided_by_a_producer, 12, "the batch at offset 0 has a producer",
    ),
    "an id in two partitions": (
        _decisions_twice, 12, "t: __transaction_state-7 has it as well",
    ),
    "a producer of two ids": (
        decided(("EMPTY", PID, 0), name="u"), 12,
        f"u: producer {PID} is another transactional id's as well",
    ),
    "the next producer too early": (
        decided(("EMPTY", OTHER, 0)), 12,
        f"t: producer {OTHER} follows producer {PID}, whose epoch 2 isn't the last",
    ),
    "a later epoch": (
        altered(5, producer_epoch=7), 12, "no record of the transaction log has this epoch",
    ),
    "an entry in a transaction": (
        _empty_inside_a_transaction, 12,
        "6.snapshot: lacks producer 4000, whose transaction is open from offset 5",
    ),
    "an entry": (entries(lambda _: []), 20, "lacks producer 4000: no file shows that it had ex"),
    "an entry twice": (entries(lambda entry: [entry] * 2), 12, "producer 4000 is there twice"),
    "an offset_delta": (one(offset_delta=1), 12, "has offset_delta 1, but the log gives 0"),
    "a coordinator_epoch": (
        one(coordinator_epoch=7), 12, "has coordinator_epoch 7, but the log gives 0",
    ),
    "a timestamp": (one(timestamp=2), 12, "has timestamp 2, but the log gives 1"),
    "a segment": (_middle_segment, 12, "offset 4 is missing"),
    "the first segment": (
        _first_segment, 20, "the log begins at offset 4, without a snapshot of its producers there",
    ),
    "a segment's snapshot": (
        _snapshot_of_a_segment, 20, "the segment has no snapshot of the producers before it",
    ),
    "an index's segment": (
        _index_alone, 20, "7.index: is an index without its segment 00000000000000000007.log",
    ),
    "all segments": (_no_segment, 12, "is of an offset behind the log"),
    "a name": (_no_such_name, 20, "abc.snapshot: isn't read: its name isn't an offset of 20 dig"),
    "a folder": (_no_file, 20, "9.log: isn't read: it isn't a file"),
    "a link": (_broken_link, 20, "9.log: isn't read: it isn't a file"),
    "a folder as an index": (
        _folder_for_an_index, 12, "0.txnindex: isn't read: it isn't a file",
    ),
    "a pipe as an index": (_pipe_for_an_index, 12, "0.txnindex: isn't read: it isn't a file"),
    "a snapshot of decisions": (
        lambda folder: _snapshot_of_decisions(folder, b""), 20, "6.snapshot, byte 0: can't be read",
    ),
    "a producer of decisions": (
        lambda folder: _snapshot_of_decisions(folder, encode_snapshot([entry()])), 12,
        "6.snapshot, byte 10: producer 4000 has nothing in the log",
    ),
    "no folder": (_no_folder, 20, "orders-7: isn't read: it isn't a folder"),
    "a link in its place": (
        _broken_link_of_a_partition, 20, "orders-7: isn't read: it isn't a folder",
    ),
    "a link to decisions": (
        _broken_link_of_decisions, 20, "__transaction_state-1: isn't read: it isn't a folder",
    ),
    "a folder's name": (
        _misnamed, 20, "orders_0: isn't read: its name isn't that of a partition, TOPIC-N",
    ),
    "the transaction log's batch": (
        without(3, topic=DECISIONS), 20, "offset 3 is missing, by compaction or by damage",
    ),
    "the transaction log": (
        _decisions_gone, 20, "transaction from offset 5 is open, and the transaction log isn't all",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_what_is_lost_is_found_and_named(name: str, tmp_path: Path) -> None:
    honest(broker := Broker(tmp_path))
    assert broker.judge().outcome.name == "EXPLAINED"
    damage, code, told = DAMAGE[name]
    damage(tmp_path)
    ended = epochfence("judge", "--segments", tmp_path)
    assert (ended.code, ended.err) == (code, "")
    assert told in ended.out


@pytest.mark.parametrize(
    "more",
    [
        decided(forgets=True),
        decided(("EMPTY", PID, 32_766), ("EMPTY", OTHER, 0)),
        # the tombstone's append failed, and yet it is in the log
        lambda folder: (decided(forgets=True)(folder), decided(("ONGOING", PID, 2), at=7)(folder)),
        lambda folder: (decided(forgets=True)(folder), decided(("EMPTY", OTHER, 0), at=7)(folder)),
    ],
)
def test_what_may_follow_in_the_transaction_log(
    more: Callable[[Path], object], tmp_path: Path
) -> None:
    honest(broker := Broker(tmp_path))
    broker.judge()
    more(tmp_path)
    assert epochfence("judge", "--segments", tmp_path).code == 0


@pytest.mark.parametrize("lacks", [None, ORDERS, DECISIONS])
def test_a_clean_shutdown_takes_a_snapshot_of_every_log(lacks: str | None, tmp_path: Path) -> None:
    """A running broker, or one that crashed, has no snapshot at the end of a log."""
    honest(broker := Broker(tmp_path))
    broker.judge()
    (tmp_path / DECISIONS / f"{6:020}.snapshot").write_bytes(encode_snapshot([]))
    clean = tmp_path / ".kafka_cleanshutdown"
    clean.touch()
    ended = epochfence("judge", "--segments", tmp_path)
    assert (ended.code, ended.err) == (0, "")
    if lacks is not None:
        (snapshot,) = (tmp_path / lacks).glob("*.snapshot")
        snapshot.unlink()
        ended = epochfence("judge", "--segments", tmp_path)
        end = int(snapshot.stem)
        assert ended.code == 20
        assert f"{lacks}: no snapshot of the producers is at its end, {end}, but" in ended.out
        clean.unlink()
        assert epochfence("judge", "--segments", tmp_path).code == 0


def test_a_rolled_log_is_explained(tmp_path: Path) -> None:
    honest(broker := Broker(tmp_path))
    broker.judge()
    _split(tmp_path)
    found = judge_segments([tmp_path])
    assert (found.every, found.outcome.name) == ([], "EXPLAINED")


@pytest.mark.parametrize(
    ("name", "code", "told"),
    [
        (".log.bak", 20, "isn't read: no broker gives a file this name"),
        (".LOG", 20, "isn't read: no broker gives a file this name"),
        (".log.swap", 20, "isn't read: a broker that starts puts it in the place of the segments"),
        (".log.deleted", 0, "EXPLAINED"),
        (".log.cleaned", 0, "EXPLAINED"),
    ],
)
def test_a_segment_of_another_name(name: str, code: int, told: str, tmp_path: Path) -> None:
    """A broker that starts removes what it was about to delete or hadn't finished to clean; the log
    begins behind it then, as after a deletion. It takes no other file for a segment."""
    honest(broker := Broker(tmp_path))
    broker.judge()
    _split(tmp_path)
    for index in (tmp_path / ORDERS).glob(f"{0:020}.*index"):
        index.unlink()
    log_of(tmp_path).rename(tmp_path / ORDERS / f"{0:020}{name}")
    ended = epochfence("judge", "--segments", tmp_path)
    assert (ended.code, ended.err) == (code, "")
    assert told in ended.out


@pytest.mark.parametrize("release", ["0.11.0.0", "2.5", "3.5", "4.1", None])
def test_no_release_has_a_batch_without_epoch(release: str | None, tmp_path: Path) -> None:
    """Nobody writes it, whatever the batches behind it are."""
    log = Log()
    log.data(-1, 0)
    log.data(0, 0)
    log.write(tmp_path / ORDERS)
    assert judge_segments([tmp_path], release).outcome.name == "UNEXPLAINED"


def test_a_log_that_begins_with_an_impossible_producer(tmp_path: Path) -> None:
    """A snapshot from which a leader can't start."""
    honest(broker := Broker(tmp_path))
    broker.judge()
    _split(tmp_path)
    log_of(tmp_path).unlink()
    assert judge_segments([tmp_path]).every == []  # as deletion of old segments leaves it
    path = snapshot_of(tmp_path, 4)
    (entry,) = decode_snapshot(path.read_bytes())
    for change, says in (
        ({"epoch": -255}, "producer 4000 can't have such an entry"),
        ({"producer_id": -4294967296}, "producer -4294967296 can't have such an entry"),
        ({"producer_id": 2**63 - 1}, f"producer {2**63 - 1} can't have such an entry"),
    ):
        path.write_bytes(encode_snapshot([replace(entry, **change)]))
        found = judge_segments([tmp_path])
        assert found.outcome.name == "UNEXPLAINED"
        assert f"byte 10: {says}" in str(found.every[0])


def test_a_name_beyond_all_offsets(tmp_path: Path) -> None:
    honest(broker := Broker(tmp_path))
    broker.judge()
    (tmp_path / ORDERS / f"{10**20 - 1}.log").write_bytes(b"")
    (finding,) = judge_segments([tmp_path]).every
    assert "isn't read: its name isn't an offset of 20 digits" in finding.what


@pytest.mark.parametrize("offset", [2**63 - 1, -5])
def test_an_offset_that_no_log_has(offset: int, tmp_path: Path) -> None:
    """The checksum doesn't cover it."""
    honest(broker := Broker(tmp_path))
    broker.judge()
    altered(4, base_offset=offset)(tmp_path)
    assert judge_segments([tmp_path]).outcome.name == "UNEXPLAINED"


def expired(folder: Path, *, after_ms: int, snapshot: list[ProducerEntry]) -> None:
    """Two producers, one of which writes this long after the other, and then a snapshot."""
    log = Log()
    log.data(0, 0)
    log.marker(0, "COMMIT")
    log.data(0, 0, producer=OTHER)
    log.marker(0, "COMMIT", producer=OTHER)
    path = log.write(folder / ORDERS)
    later = [
        replace(batch, base_timestamp=1 + after_ms, max_timestamp=1 + after_ms)
        if batch.producer_id == OTHER
        else batch
        for batch in batches(path)
    ]
    write(path, later)
    snapshot_of(folder, 4).write_bytes(encode_snapshot(snapshot))
    for file in (path, snapshot_of(folder, 4)):
        os.utime(file, (1, 1))  # written at one moment


@pytest.mark.parametrize(
    ("after_ms", "keeps", "told"),
    [
        (DAY_MS, OTHER, ""),  # the other one has been idle for too long
        (DAY_MS - 1, OTHER, "lacks producer 4000: no file shows that it had expired"),
        (0, PID, "lacks producer 4100, but has one that was idle for longer"),
    ],
)
def test_an_idle_producer_may_have_expired(
    after_ms: int, keeps: int, told: str, tmp_path: Path
) -> None:
    entry = ProducerEntry(
        producer_id=keeps, epoch=0, last_sequence=0, last_offset=0 if keeps == PID else 2,
        offset_delta=0, timestamp=1 if keeps == PID else 1 + after_ms, coordinator_epoch=0,
        current_txn_first_offset=-1,
    )  # fmt: skip
    expired(tmp_path, after_ms=after_ms, snapshot=[entry])
    complaints = [str(each) for each in judge_segments([tmp_path]).every]
    assert len(complaints) == bool(told)
    assert all(told in complaint for complaint in complaints)


def test_a_producer_may_have_gone_with_its_records(tmp_path: Path) -> None:
    """Before 2.4, deleting records made a leader forget their producers (KAFKA-7190)."""
    honest(broker := Broker(tmp_path))
    broker.judge()
    _empty_inside_a_transaction(tmp_path)
    for release, is_doubtful in (("2.3", True), ("2.4", False)):
        told = [each for each in judge_segments([tmp_path], release).every if "lacks" in each.what]
        assert [each.is_damage for each in told] == [is_doubtful]


def test_a_broker_that_stood_for_a_day_has_forgotten_all(tmp_path: Path) -> None:
    """The times of the files show how long nothing was written before the snapshot."""
    expired(tmp_path, after_ms=0, snapshot=[])
    assert [each.is_damage for each in judge_segments([tmp_path]).every] == [True, True]
    at = log_of(tmp_path).stat().st_mtime + DAY_MS / 1000
    os.utime(snapshot_of(tmp_path, 4), (at, at))
    assert judge_segments([tmp_path]).every == []


def test_which_bug_may_have_left_a_transaction_open(tmp_path: Path) -> None:
    """A batch that comes behind its marker, one of a partition that nobody added, and a marker that
    was left out."""
    late, added, left = (tmp_path / name for name in ("late", "added", "left"))
    for folder in (late, added, left):
        broker = Broker(folder)
        broker.orders.data(0, 0)
        for state in ("ONGOING", "PREPARE_ABORT", "COMPLETE_ABORT"):
            broker.transactions.state("t", state, 0, "orders-0")
        if folder != left:
            broker.orders.marker(0, "ABORT")
        if folder == late:
            broker.orders.data(0, 1)
        if folder == added:
            other = Log()
            other.data(0, 0)
            other.write(folder / "others-0")
        broker.judge()
    for folder, bug in (
        (late, "KAFKA-14402 (0.11 to 3.5)"),
        (added, "KAFKA-12671 (0.11 to 3.5"),
        (left, "KAFKA-20734"),
    ):
        found = judge_segments([folder])
        told = [str(each) for each in found.every if "will get no end" in each.what]
        assert len(told) == 1
        assert bug in told[0]
        assert "t is COMPLETE_ABORT in epoch 0 since 1970-01-01T00:00:00.000Z" in told[0]
        decided = "nothing was decided for others-0" if folder == added else "t decided ABORT in"
        assert decided in told[0]


@pytest.mark.parametrize("producer", [PID, OTHER])
def test_a_hanging_transaction_beside_a_compacted_transaction_log(
    producer: int, tmp_path: Path
) -> None:
    """Compaction keeps the newest record of each transactional id, and so what is still to end."""
    broker = Broker(tmp_path)
    broker.aborted()
    broker.committed()
    broker.orders.data(2, 0, producer=producer)
    broker.judge()
    without(0, 1, 3, topic=DECISIONS)(tmp_path)
    found = judge_segments([tmp_path])
    (wrong,) = [each for each in found.every if "will get no end" in each.what]
    assert f"producer {producer}'s transaction from offset 7 will get no end" in wrong.what
    path = log_of(tmp_path, DECISIONS)
    path.rename(path.with_name(f"{2:020}.log"))  # what was before may have the newest of others
    found = judge_segments([tmp_path])
    assert any("nothing shows whether its end comes" in each.what for each in found.every)


def test_an_index_has_the_transactions_of_its_segment(tmp_path: Path) -> None:
    honest(broker := Broker(tmp_path))
    broker.judge()
    _split(tmp_path)
    index = tmp_path / ORDERS / f"{4:020}.txnindex"
    index.rename(index.with_name(f"{0:020}.txnindex"))
    told = [str(each) for each in judge_segments([tmp_path]).every]
    assert len(told) == 2
    assert "0.txnindex, byte 0: no transaction of the segment is aborted at 4" in told[0]
    assert "4.txnindex: lacks producer 4000's, aborted at offset 4" in told[1]


def test_a_marker_that_ends_nothing_is_counted(tmp_path: Path) -> None:
    """A partition that was added and never written to gets one: no contradiction."""
    broker = Broker(tmp_path)
    broker.aborted()
    for state in ("ONGOING", "PREPARE_COMMIT"):
        broker.transactions.state("t", state, 1, "orders-0")
    broker.transactions.state("t", "COMPLETE_COMMIT", 1)
    broker.orders.marker(1, "COMMIT")
    broker.judge()
    (tmp_path / ORDERS / f"{0:020}.txnindex").write_bytes(
        encode_index(
            [
                AbortedTransaction(
                    producer_id=PID, first_offset=0, last_offset=4, last_stable_offset=5
                )
            ]
        )
    )
    ended = epochfence("judge", "--segments", tmp_path)
    assert "1 commit, 1 abort, 1 marker ends nothing; 1 index entry" in ended.out
    assert ended.code == 0


def test_a_copy_that_lags_says_nothing_of_what_is_missing(tmp_path: Path) -> None:
    honest(broker := Broker(tmp_path / "leader"))
    broker.judge()
    kept = [batch for batch in batches(log_of(broker.folder)) if batch.base_offset < 6]
    follower = tmp_path / "follower" / ORDERS
    follower.mkdir(parents=True)
    write(follower / f"{0:020}.log", kept)
    directories = [broker.folder, tmp_path / "follower"]
    told = [each.what for each in judge_segments(directories).every]
    assert [what for what in told if "txnindex" not in what and "lacks" not in what] == []


@pytest.mark.parametrize(
    ("logs", "are_whole"),
    [
        ([("__transaction_state-0", 116)], True),
        ([("__transaction_state-0", 100)], False),  # it fits the default number, too
        ([("__transaction_state-1", 116)], False),
        ([("__transaction_state-0", 116), ("__transaction_state-1", 7)], False),
        ([("__transaction_state-0", 116), ("__transaction_state-1", 8)], True),
        ([(f"__transaction_state-{at}", 0) for at in range(50)], True),
        ([(f"__transaction_state-{at}", 0) for at in range(49)], False),
        ([], False),
    ],
)
def test_whether_the_transaction_log_is_all_here(
    logs: list[tuple[str, int]], *, are_whole: bool
) -> None:
    assert are_all(logs) == are_whole


def test_a_time_that_no_calendar_has() -> None:
    assert time_of(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert time_of(2**63 - 1) == "9223372036854775807 ms"
    assert time_of(-1) == "1969-12-31T23:59:59.999Z"
