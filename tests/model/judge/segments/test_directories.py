"""Data directories as histories: an honest one is explained, and no slip in it stays unseen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from epochfence.model.judge.segments import directories
from epochfence.model.judge.segments.directories import Segments, judge_segments
from epochfence.model.judge.segments.partition import Partition
from epochfence.model.judge.segments.report import lines
from epochfence.model.judge.segments.transactions import TransactionLog, may_follow
from epochfence.model.records import (
    AbortedTransaction,
    Flag,
    ProducerEntry,
    Record,
    RecordBatch,
    Row,
    encode_as_coordinator,
    encode_batch,
    encode_index,
    encode_key,
    encode_marker,
    encode_snapshot,
    read_file,
)
from epochfence.spec.coordinator.entry import TransactionState
from epochfence.tests.cli.test_cli import epochfence

NAMES = [name for name, _ in TransactionState.members]
PID = 4000


class Log:
    """A log that is written batch by batch."""

    def __init__(self, start: int = 0) -> None:
        self.start = self.end = start
        self.bytes = b""

    def data(self, epoch: int, sequence: int, count: int = 1, *, producer: int = PID) -> None:
        """A transactional batch."""
        records = tuple(Record(offset_delta=at, value=b"v") for at in range(count))
        self.add(records, epoch, sequence, Flag.TRANSACTIONAL, producer)

    def marker(self, epoch: int, result: str, *, producer: int = PID) -> None:
        """What ends a transaction."""
        key, value = encode_marker(result, 0)
        record = Record(offset_delta=0, key=key, value=value)
        self.add((record,), epoch, -1, Flag.TRANSACTIONAL | Flag.CONTROL, producer)

    def state(self, name: str, state: str, epoch: int, *partitions: str) -> None:
        """A record of the transaction log."""
        named = [(part.rpartition("-")[0], int(part.rpartition("-")[2])) for part in partitions]
        value = encode_as_coordinator(
            state=state, partitions=named, producer_id=PID, producer_epoch=epoch,
            timeout_ms=60_000, last_update_ms=0, start_ms=0,
        )  # fmt: skip
        record = Record(offset_delta=0, key=encode_key(name), value=value)
        self.add((record,), -1, -1, Flag(0), -1)

    def add(
        self, records: tuple[Record, ...], epoch: int, sequence: int, flags: Flag, producer: int
    ) -> None:
        """A batch of these records."""
        last = len(records) - 1
        batch = RecordBatch(
            base_offset=self.end, records=records, last_offset_delta=last, attributes=int(flags),
            base_timestamp=1, max_timestamp=1, producer_id=producer, producer_epoch=epoch,
            base_sequence=sequence,
        )  # fmt: skip
        self.bytes += encode_batch(batch)
        self.end += last + 1

    def write(self, folder: Path) -> Path:
        """Writes it as a segment."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.start:020}.log"
        path.write_bytes(self.bytes)
        return path


def entry(last_sequence: int = 2, last_offset: int = 5, first: int = -1) -> ProducerEntry:
    """What a snapshot has of the producer."""
    return ProducerEntry(
        producer_id=PID, epoch=1, last_sequence=last_sequence, last_offset=last_offset,
        offset_delta=0, timestamp=1, coordinator_epoch=0, current_txn_first_offset=first,
    )  # fmt: skip


class Broker:
    """A data directory with one transactional id, which has aborted a transaction of epoch 0 and
    committed one of epoch 1; each of them may be written otherwise."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.orders, self.transactions = Log(), Log()

    def aborted(self, result: str = "ABORT", decided: str = "ABORT", *, sequence: int = 3) -> None:
        """The first transaction: offsets 0 to 3, the marker at 4."""
        self.orders.data(0, 0, 3)
        self.orders.data(0, sequence)
        self.orders.marker(1, result)
        self._coordinator(1, decided)

    def committed(self, *, partition: str = "orders-0", complete: str = "COMPLETE_COMMIT") -> None:
        """The second one: offset 5, the marker at 6."""
        self.orders.data(1, 0)
        self.orders.marker(2, "COMMIT")
        self._coordinator(2, "COMMIT", partition, complete)

    def _coordinator(
        self, epoch: int, result: str, partition: str = "orders-0", complete: str = ""
    ) -> None:
        log = self.transactions
        log.state("t", "ONGOING", epoch - 1, partition)
        log.state("t", f"PREPARE_{result}", epoch, partition)
        log.state("t", complete or f"COMPLETE_{result}", epoch)

    def files(self, *, index: int = 0, last_sequence: int = 0, last_offset: int = 5) -> None:
        """The index and a snapshot behind both transactions."""
        folder = self.folder / "orders-0"
        folder.mkdir(parents=True, exist_ok=True)
        aborted = AbortedTransaction(
            producer_id=PID, first_offset=index, last_offset=4, last_stable_offset=5
        )
        (folder / f"{0:020}.txnindex").write_bytes(encode_index([aborted]))
        snapshot = encode_snapshot(
            [
                ProducerEntry(
                    producer_id=PID, epoch=2, last_sequence=last_sequence, last_offset=last_offset,
                    offset_delta=0, timestamp=1, coordinator_epoch=0, current_txn_first_offset=-1,
                )
            ]
        )  # fmt: skip
        (folder / f"{7:020}.snapshot").write_bytes(snapshot)

    def judge(self) -> Segments:
        """Writes the logs, and judges it all."""
        self.orders.write(self.folder / "orders-0")
        self.transactions.write(self.folder / "__transaction_state-0")
        return judge_segments([self.folder])


def honest(broker: Broker) -> None:
    broker.aborted()
    broker.committed()
    broker.files(last_sequence=-1, last_offset=-1)


def test_an_honest_directory_is_explained(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    honest(broker)
    found = broker.judge()
    assert list(map(str, found.every)) == []
    assert (found.outcome.name, found.matched, found.unknown) == ("EXPLAINED", 2, 0)
    (part,) = found.partitions
    assert (part.start, part.end, part.batches, part.open) == (0, 7, 5, {})
    assert (part.index_entries, part.snapshots) == (1, 1)
    *_, last = lines(found)
    assert last == "1 partition, 5 batches; 2 of 2 markers have a decision: EXPLAINED (exit 0)"


def _gap(broker: Broker) -> None:
    broker.aborted(sequence=4)


def _swapped(broker: Broker) -> None:
    broker.aborted(decided="COMMIT")


def _elsewhere(broker: Broker) -> None:
    broker.aborted()
    broker.committed(partition="orders-1")


def _not_completed(broker: Broker) -> None:
    broker.aborted()
    broker.committed(complete="COMPLETE_ABORT")


def _no_marker(broker: Broker) -> None:
    broker.aborted()
    broker.orders.data(1, 0)
    broker._coordinator(2, "COMMIT")  # pyright: ignore[reportPrivateUsage]


def _hangs(broker: Broker) -> None:
    broker.aborted()
    broker.orders.data(1, 0)


def _stale(broker: Broker) -> None:
    broker.aborted()
    broker.orders.data(0, 4)


def _index(broker: Broker) -> None:
    honest(broker)
    broker.files(index=1, last_sequence=-1, last_offset=-1)


def _no_index(broker: Broker) -> None:
    honest(broker)
    (broker.folder / "orders-0" / f"{0:020}.txnindex").write_bytes(b"")


def _snapshot(broker: Broker) -> None:
    broker.aborted()
    broker.committed()
    broker.files(last_sequence=7)


def _epochs(broker: Broker) -> None:
    broker.transactions.state("t", "EMPTY", 3)
    broker.transactions.state("t", "EMPTY", 2)


SLIPS: dict[str, tuple[Callable[[Broker], None], str]] = {
    "a sequence": (_gap, "epoch 0, sequence 4: a leader answers OUT_OF_ORDER_SEQUENCE_NUMBER"),
    "a result": (_swapped, "offset 4, producer 4000, epoch 1: ABORT, where t decided COMMIT"),
    "a partition": (
        _elsewhere,
        "offset 6, producer 4000, epoch 2: COMMIT was not decided for orders-0",
    ),
    "a state": (_not_completed, "t: COMPLETE_ABORT may not follow PREPARE_COMMIT"),
    "no marker": (
        _no_marker,
        "t: COMMIT of producer 4000, epoch 2, is completed, and orders-0 has",
    ),
    "no end": (_hangs, "producer 4000's transaction from offset 5 will get no end"),
    "an epoch": (_stale, "epoch 0, sequence 4: a leader answers INVALID_PRODUCER_EPOCH"),
    "an index": (_index, "producer 4000's from offset 1 is producer 4000's from offset 0"),
    "no entry": (_no_index, "lacks producer 4000's, aborted at offset 4"),
    "a snapshot": (_snapshot, "producer 4000 has last_sequence 7, but the log gives"),
    "epochs": (_epochs, "t: epoch 2 follows epoch 3"),
}


@pytest.mark.parametrize("name", SLIPS)
def test_a_slip_is_found_and_named(name: str, tmp_path: Path) -> None:
    write, told = SLIPS[name]
    broker = Broker(tmp_path)
    write(broker)
    found = broker.judge()
    assert found.outcome.name == "UNEXPLAINED"
    assert any(told in str(finding) for finding in found.every), "\n".join(map(str, found.every))


LEADER_EPOCH = range(12, 16)  # bytes of a batch that nothing covers or compares


@pytest.mark.slow(1)
def test_damage_never_makes_it_better(tmp_path: Path) -> None:
    """A byte changed anywhere: what is explained is so no more, and what isn't never becomes so."""
    for write, is_explained in ((honest, True), (_swapped, False)):
        broker = Broker(tmp_path / write.__name__)
        write(broker)
        assert (broker.judge().outcome.name == "EXPLAINED") == is_explained
        for path in sorted(broker.folder.rglob("*.*")):
            data = path.read_bytes()
            rows = [item for item in read_file(path) if isinstance(item, Row)]
            epochs = {row.byte + at for row in rows if row.what == "batch" for at in LEADER_EPOCH}
            for at in {*range(0, len(data), 5)} - epochs:
                path.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
                assert judge_segments([broker.folder]).outcome.name != "EXPLAINED", (path, at)
            path.write_bytes(data)


@pytest.mark.parametrize("folder", ["orders-0", "__transaction_state-0"])
def test_of_a_running_broker_nothing_is_said_that_may_change(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are read one after another: a marker may be there whose decision wasn't yet."""
    honest(broker := Broker(tmp_path / "whole"))
    broker.judge()
    whole = {path: path.read_bytes() for path in broker.folder.rglob("*.log")}
    assert judge_segments([broker.folder]).outcome.name == "EXPLAINED"
    other = Log()
    other.data(0, 0)
    other.data(0, 0)  # which no leader takes
    other.write(broker.folder / "others-0")
    late = broker.folder / folder / f"{0:020}.log"
    read = directories.read_transactions

    def while_it_writes(given: Path, protocol: str | None) -> TransactionLog:
        late.write_bytes(whole[late][: len(whole[late]) // 2])
        found = read(given, protocol)
        late.write_bytes(whole[late])
        return found

    monkeypatch.setattr(directories, "read_transactions", while_it_writes)
    late.write_bytes(whole[late][: len(whole[late]) // 2])
    found = judge_segments([broker.folder])
    told = [str(finding) for finding in found.every if finding.is_damage]
    assert told == [
        f"{broker.folder / folder}: 1 folder was changed during the run, as by a running broker: "
        "not judged, nor are markers and decisions; stop the broker, or judge a copy"
    ]
    (kept,) = [finding for finding in found.every if not finding.is_damage]
    assert kept.file.parent.name == "others-0"
    (broker.folder / "others-0" / late.name).unlink()
    (broker.folder / "others-0").rmdir()
    late.write_bytes(whole[late][: len(whole[late]) // 2])
    assert judge_segments([broker.folder]).outcome.name == "UNJUDGED"


def test_the_controllers_log_goes_on_and_says_nothing_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker with KRaft writes to it twice a second, transactions or not."""
    honest(broker := Broker(tmp_path))
    broker.judge()
    log = broker.folder / "__cluster_metadata-0" / f"{0:020}.log"
    log.parent.mkdir()
    log.write_bytes(b"")
    read = directories.read_partition

    def while_it_writes(
        given: Path, protocol: str | None, policies: Mapping[str, str]
    ) -> Partition:
        with log.open("ab") as file:
            file.write(b"\0" * 20)  # half a batch
        return read(given, protocol, policies)

    monkeypatch.setattr(directories, "read_partition", while_it_writes)
    found = judge_segments([broker.folder])
    assert list(map(str, found.every)) == []
    assert (found.outcome.name, found.unknown) == ("EXPLAINED", 0)
    assert found.matched > 0
    monkeypatch.undo()
    assert judge_segments([broker.folder]).outcome.name == "UNJUDGED"  # it is damaged for good


def test_a_log_that_begins_later_is_judged_by_what_is_known(tmp_path: Path) -> None:
    """Without the producers as they were, a first batch may have any sequence; with them, not."""
    log = Log(12)
    log.data(1, 3)
    log.marker(2, "COMMIT")
    log.write(tmp_path / "orders-0")
    found = judge_segments([tmp_path])
    assert (found.outcome.name, found.unknown) == ("UNJUDGED", 1)
    assert [finding.what for finding in found.every] == [
        "the log begins at offset 12, without a snapshot of its producers there"
    ]
    snapshot = tmp_path / "orders-0" / f"{12:020}.snapshot"
    snapshot.write_bytes(encode_snapshot([entry(last_sequence=2, last_offset=11)]))
    assert list(map(str, judge_segments([tmp_path]).every)) == []
    snapshot.write_bytes(encode_snapshot([entry(last_sequence=1, last_offset=11)]))
    (finding,) = judge_segments([tmp_path]).every
    assert "sequence 3: a leader answers OUT_OF_ORDER_SEQUENCE_NUMBER" in str(finding)


def test_offsets_of_groups_have_no_sequence(tmp_path: Path) -> None:
    log = Log()
    log.data(0, 0)
    log.data(0, 0)
    log.write(tmp_path / "__consumer_offsets-3")
    found = judge_segments([tmp_path])
    assert not [finding for finding in found.every if not finding.is_damage]
    log.write(tmp_path / "orders-3")
    assert judge_segments([tmp_path]).outcome.name == "UNEXPLAINED"


def test_a_commit_that_is_left_out_among_others_of_its_epoch(tmp_path: Path) -> None:
    """Before version 2 of transactions all of an instance's have one epoch: they are counted, and
    each copy of the transaction log by itself."""
    brokers = [tmp_path / "one", tmp_path / "other"]
    for markers, told in ((3, ""), (4, ""), (2, "is completed 3 times, and orders-0 has 2 such")):
        orders, transactions = Log(), Log()
        for at in range(3):
            orders.data(0, at)
            for state in ("ONGOING", "PREPARE_COMMIT"):
                transactions.state("t", state, 0, "orders-0")
            transactions.state("t", "COMPLETE_COMMIT", 0)
        for _ in range(markers):
            orders.marker(0, "COMMIT")
        orders.write(brokers[0] / "orders-0")
        for broker in brokers:
            transactions.write(broker / "__transaction_state-0")
        found = judge_segments(brokers)
        assert found.matched == markers
        assert (found.outcome.name == "EXPLAINED") == (not told)
        complaints = [str(finding) for finding in found.every]
        assert len(complaints) == (2 if told else 0)
        assert all(told in complaint for complaint in complaints)


def test_a_compacted_transaction_log_says_less(tmp_path: Path) -> None:
    """What was decided may have been cleaned away: a marker without a decision isn't known."""
    broker = Broker(tmp_path)
    honest(broker)
    broker.transactions.start = broker.transactions.end = 5
    broker.transactions.bytes = b""
    broker.transactions.state("t", "COMPLETE_COMMIT", 1)
    found = broker.judge()
    (finding,) = found.every
    assert "offsets 0 to 4 are missing, by compaction or by damage" in finding.what
    assert (found.outcome.name, found.unknown) == ("UNJUDGED", 2)


def test_nothing_is_nothing_to_judge(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")
    ended = epochfence("judge", "--segments", tmp_path)
    assert ended.code == 20
    first, last = ended.out.splitlines()
    assert first == "no partition is there: a data directory has a folder for each, TOPIC-N"
    assert last.startswith("0 partitions, 0 batches; ")
    missing = epochfence("judge", "--segments", tmp_path / "none")
    assert (missing.code, missing.out) == (2, "")
    assert missing.err == f"epochfence: can't read {tmp_path / 'none'}: No such file or directory\n"


@pytest.mark.parametrize(
    ("before", "allowed"),
    [
        ("EMPTY", "EMPTY ONGOING PREPARE_ABORT"),
        ("ONGOING", "ONGOING PREPARE_COMMIT PREPARE_ABORT"),
        ("PREPARE_COMMIT", "PREPARE_COMMIT COMPLETE_COMMIT"),
        ("PREPARE_ABORT", "PREPARE_ABORT COMPLETE_ABORT"),
        ("COMPLETE_COMMIT", "EMPTY ONGOING PREPARE_ABORT COMPLETE_COMMIT"),
        ("COMPLETE_ABORT", "EMPTY ONGOING PREPARE_ABORT COMPLETE_ABORT"),
    ],
)
def test_which_state_may_follow(before: str, allowed: str) -> None:
    """As TransactionState.validPreviousStates says at version 2."""
    assert {name for name in NAMES if may_follow(name, before, None)} == {*allowed.split()}
    old = {name for name in NAMES if may_follow(name, before, "3.6")}
    settled = before in ("EMPTY", "COMPLETE_COMMIT", "COMPLETE_ABORT")
    assert old == {*allowed.split()} - ({"PREPARE_ABORT"} if settled else set())
