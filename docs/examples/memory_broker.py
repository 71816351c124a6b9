"""A broker in memory, and the adapter that puts it beside the oracle.

It was written from Kafka's documents, without the tables, as a system under test would be: one
coordinator and a log for each partition, as of 2.7, 3.6 or 4.1. Markers are written when a
transaction ends, and what is on disk survives a restart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from epochfence.model.conformance.session import System

MAX_EPOCH = 32767
SEQUENCES = 2**31
MAX_TIMEOUT_MS = 900_000


@dataclass
class Transaction:
    """What the coordinator knows of a transactional id."""

    producer_id: int
    timeout_ms: int
    epoch: int = -1
    last_epoch: int = -1
    previous_id: int = -1
    next_id: int = -1
    state: str = "Empty"  # Ongoing, COMMIT or ABORT
    is_stuck: bool = False  # a leader has refused the marker
    started_ms: int = 0
    partitions: set[str] = field(default_factory=set)


@dataclass
class Batch:
    """A batch or a marker in the log; a marker's `result` says how the transaction ended."""

    producer_id: int
    epoch: int
    base_sequence: int
    base_offset: int
    last_offset: int
    transactional: bool
    result: str = ""

    @property
    def count(self) -> int:
        return self.last_offset - self.base_offset + 1

    @property
    def next_sequence(self) -> int:
        return (self.base_sequence + self.count) % SEQUENCES


@dataclass
class Producer:
    """What a leader knows of a producer id."""

    epoch: int
    recent: deque[Batch] = field(default_factory=lambda: deque(maxlen=5))
    first_offset: int | None = None  # of its open transaction


@dataclass
class Question:
    """What the coordinator was asked about a producer, and hasn't led to a batch."""

    epoch: int
    lowest_sequence: int


class Refused(Exception):
    """The request is answered with an error."""


class Partition:
    """A leader's log."""

    def __init__(self, broker: MemoryBroker) -> None:
        self.broker = broker
        self.log: list[Batch] = []
        self.producers: dict[int, Producer] = {}
        self.questions: dict[int, Question] = {}
        self.aborted: list[tuple[int, int]] = []  # producer ids, and where each transaction starts

    @property
    def end(self) -> int:
        return self.log[-1].last_offset + 1 if self.log else 0

    @property
    def stable(self) -> int:
        """Behind it, some transaction is open."""
        firsts = [p.first_offset for p in self.producers.values() if p.first_offset is not None]
        return min(firsts, default=self.end)

    def is_ongoing(self, producer_id: int, epoch: int) -> bool:
        known = self.producers.get(producer_id)
        if known is None or known.first_offset is None:
            return False
        return known.epoch == epoch or not self.broker.version_2

    def ask(self, producer_id: int, epoch: int, sequence: int) -> None:
        """Remembers that the coordinator is asked."""
        known = self.producers.get(producer_id)
        if self.broker.version_2 and known is not None and epoch < known.epoch:
            raise Refused("INVALID_PRODUCER_EPOCH")
        question = self.questions.get(producer_id)
        if question is None or question.epoch < epoch:
            self.questions[producer_id] = Question(epoch, sequence)
        elif question.epoch == epoch:
            question.lowest_sequence = min(question.lowest_sequence, sequence)

    def append(self, batch: Batch) -> int:
        """Appends a producer's batch, if it is the next one; its base offset."""
        known = self.producers.get(batch.producer_id)
        question = self.questions.get(batch.producer_id)
        if known is not None and known.epoch == batch.epoch:
            for old in known.recent:
                if (old.base_sequence, old.count) == (batch.base_sequence, batch.count):
                    return old.base_offset
        if known is not None and batch.epoch < known.epoch:
            raise Refused("INVALID_PRODUCER_EPOCH")
        fresh = known is None or not known.recent
        if self.broker.version_2 and question and fresh and batch.base_sequence != 0:
            raise Refused("OUT_OF_ORDER_SEQUENCE_NUMBER")
        if question is not None and batch.base_sequence > question.lowest_sequence:
            raise Refused("OUT_OF_ORDER_SEQUENCE_NUMBER")
        if known is not None:
            following = 0
            if known.epoch == batch.epoch and known.recent:
                following = known.recent[-1].next_sequence
            if batch.base_sequence != following:
                raise Refused("OUT_OF_ORDER_SEQUENCE_NUMBER")
            if known.first_offset is not None and not batch.transactional:
                raise Refused("INVALID_TXN_STATE")
        self.replay(batch)
        return batch.base_offset

    def replay(self, batch: Batch) -> None:
        """Takes what is in the log, or is to be."""
        known = self.producers.setdefault(batch.producer_id, Producer(batch.epoch))
        if known.epoch != batch.epoch:
            known.epoch = batch.epoch
            known.recent.clear()
        if batch.result:
            if known.first_offset is not None and batch.result == "ABORT":
                self.aborted.append((batch.producer_id, known.first_offset))
            known.first_offset = None
            question = self.questions.get(batch.producer_id)
            if question and not (self.broker.version_2 and question.epoch == batch.epoch):
                del self.questions[batch.producer_id]
        else:
            known.recent.append(batch)
            if batch.transactional:
                self.questions.pop(batch.producer_id, None)
                if known.first_offset is None:
                    known.first_offset = batch.base_offset
        self.log.append(batch)

    def mark(self, producer_id: int, epoch: int, result: str) -> bool:
        """Ends the producer's transaction here, unless the producer has a newer epoch."""
        known = self.producers.get(producer_id)
        if known is not None and epoch < known.epoch:
            return False
        self.replay(Batch(producer_id, epoch, -1, self.end, self.end, True, result))
        return True

    def recover(self) -> None:
        """Reads the log again."""
        log, self.log = self.log, []
        self.producers, self.questions, self.aborted = {}, {}, []
        for batch in log:
            self.replay(batch)
        for known in self.producers.values():
            while len(known.recent) > 1:  # a snapshot has the newest
                known.recent.popleft()

    def read(self, offset: int, committed: bool) -> list[Batch]:
        """The data from an offset on, without what was aborted if only committed is wanted."""
        end = self.stable if committed else self.end
        found: list[Batch] = []
        aborted = {
            (producer_id, batch.base_offset)
            for producer_id, first in self.aborted
            for batch in self._of_transaction(producer_id, first)
        }
        for batch in self.log:
            is_kept = not committed or (batch.producer_id, batch.base_offset) not in aborted
            if offset <= batch.last_offset < end and not batch.result and is_kept:
                found.append(batch)
        return found

    def _of_transaction(self, producer_id: int, first: int) -> list[Batch]:
        found: list[Batch] = []
        for batch in self.log:
            if batch.producer_id == producer_id and batch.base_offset >= first:
                if batch.result:
                    break
                found.append(batch)
        return found


class MemoryBroker:
    """A broker that coordinates all transactional ids and leads all partitions."""

    def __init__(self, release: str) -> None:
        self.verifies = release != "2.7"
        self.version_2 = release == "4.1"
        self.now_ms = 0
        self.next_id = 1000
        self.transactions: dict[str, Transaction] = {}
        self.partitions: dict[str, Partition] = {}

    def partition(self, name: str) -> Partition:
        return self.partitions.setdefault(name, Partition(self))

    def new_id(self) -> int:
        self.next_id += 1
        return self.next_id

    # Requests -------------------------------------------------------------------------------------

    def init_producer_id(
        self, transactional_id: str | None, transaction_timeout_ms: int = 60_000,
        producer_id: int = -1, producer_epoch: int = -1,
    ) -> dict[str, Any]:  # fmt: skip
        if transactional_id is None:
            return {"error": "NONE", "producer_id": self.new_id(), "producer_epoch": 0}
        if not 0 < transaction_timeout_ms <= MAX_TIMEOUT_MS:
            raise Refused("INVALID_TRANSACTION_TIMEOUT")
        if transactional_id not in self.transactions:
            new = Transaction(self.new_id(), transaction_timeout_ms)
            self.transactions[transactional_id] = new
        txn = self.transactions[transactional_id]
        self.check_is_free(txn)
        holds = producer_epoch >= 0
        is_retry = producer_id == txn.previous_id and producer_epoch >= MAX_EPOCH - 1
        if holds and txn.epoch >= 0 and producer_id != txn.producer_id and not is_retry:
            raise Refused("PRODUCER_FENCED")
        if txn.state == "Ongoing":
            if txn.epoch == MAX_EPOCH:
                raise Refused("UNKNOWN_SERVER_ERROR")
            self.abort_by_itself(txn)
            raise Refused("CONCURRENT_TRANSACTIONS")
        old_id, old_epoch = txn.producer_id, txn.epoch
        if txn.epoch >= MAX_EPOCH - 1:
            if holds and producer_epoch != txn.epoch:
                raise Refused("UNKNOWN_SERVER_ERROR")
            txn.producer_id, txn.epoch = self.new_id(), 0
            txn.last_epoch = old_epoch if holds else -1
        elif not holds:
            txn.epoch, txn.last_epoch = txn.epoch + 1, -1
        elif producer_epoch == txn.epoch or txn.epoch < 0:
            txn.epoch, txn.last_epoch = txn.epoch + 1, txn.epoch
        elif producer_epoch != txn.last_epoch:
            raise Refused("PRODUCER_FENCED")
        txn.previous_id = old_id
        txn.state, txn.timeout_ms = "Empty", transaction_timeout_ms
        return {
            "error": "NONE", "producer_id": txn.producer_id, "producer_epoch": txn.epoch
        }  # fmt: skip

    def held(self, transactional_id: str, producer_id: int, producer_epoch: int) -> Transaction:
        """The transaction, if this is its producer."""
        txn = self.transactions.get(transactional_id)
        if txn is not None and self.version_2:
            self.check_is_free(txn)
        if txn is None or txn.producer_id != producer_id:
            raise Refused("INVALID_PRODUCER_ID_MAPPING")
        if txn.epoch != producer_epoch:
            raise Refused("PRODUCER_FENCED")
        self.check_is_free(txn)
        return txn

    def check_is_free(self, txn: Transaction) -> None:
        """A transaction whose marker was refused never completes."""
        if txn.is_stuck:
            raise Refused("CONCURRENT_TRANSACTIONS")

    def add_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: list[str]
    ) -> dict[str, Any]:
        txn = self.held(transactional_id, producer_id, producer_epoch)
        if txn.state != "Ongoing":
            txn.state, txn.started_ms = "Ongoing", self.now_ms
        txn.previous_id = self.kept_previous(txn)
        txn.partitions.update(partitions)
        return {"error": "NONE"}

    def kept_previous(self, txn: Transaction) -> int:
        """The previous producer id, which 4.1 forgets sooner."""
        return txn.producer_id if self.version_2 else txn.previous_id

    def produce(
        self, partition: str, producer_id: int, producer_epoch: int, base_sequence: int,
        count: int = 1, transactional_id: str | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        leader = self.partition(partition)
        transactional = transactional_id is not None
        if transactional and self.verifies and not leader.is_ongoing(producer_id, producer_epoch):
            leader.ask(producer_id, producer_epoch, base_sequence)
            try:
                if self.version_2:
                    self.add_partitions(transactional_id, producer_id, producer_epoch, [partition])
                else:
                    txn = self.held(transactional_id, producer_id, producer_epoch)
                    if partition not in txn.partitions:
                        raise Refused("INVALID_TXN_STATE")
            except Refused as refused:
                error = str(refused)
                if error == "PRODUCER_FENCED":
                    error = "INVALID_PRODUCER_EPOCH"
                if error == "CONCURRENT_TRANSACTIONS" and not self.version_2:
                    error = "NOT_ENOUGH_REPLICAS"
                raise Refused(error) from None
        base = leader.end
        sent = Batch(
            producer_id, producer_epoch, base_sequence, base, base + count - 1, transactional
        )
        return {"error": "NONE", "base_offset": leader.append(sent)}

    def end_txn(
        self, transactional_id: str, producer_id: int, producer_epoch: int, result: str
    ) -> dict[str, Any]:
        if not self.version_2:
            txn = self.held(transactional_id, producer_id, producer_epoch)
            if txn.state == "Ongoing":
                self.end(txn, result)
            elif txn.state != result:
                raise Refused("INVALID_TXN_STATE")
            return {"error": "NONE"}
        txn = self.transactions.get(transactional_id)
        is_retry = False
        if txn is not None and not txn.is_stuck:
            before = (txn.producer_id, txn.epoch - 1)
            if txn.epoch == 0:
                before = (txn.previous_id, MAX_EPOCH - 1)
            is_retry = (producer_id, producer_epoch) == before
            if is_retry and txn.state not in ("COMMIT", "ABORT"):
                raise Refused("PRODUCER_FENCED")
        if txn is None or not is_retry:
            txn = self.held(transactional_id, producer_id, producer_epoch)
            if txn.state != "Ongoing" and result == "COMMIT":
                raise Refused("INVALID_TXN_STATE")
            if txn.epoch == MAX_EPOCH:
                raise Refused("UNKNOWN_SERVER_ERROR")
            told = self.end(txn, result, txn.epoch + 1)
        elif txn.state == result:
            told = (txn.producer_id, txn.epoch)
        else:
            raise Refused("INVALID_TXN_STATE")
        return {"error": "NONE", "producer_id": told[0], "producer_epoch": told[1]}

    def fetch(self, partition: str, offset: int = 0, committed: bool = True) -> dict[str, Any]:
        leader = self.partition(partition)
        batches = [
            [batch.producer_id, batch.base_offset, batch.last_offset]
            for batch in leader.read(offset, committed)
        ]
        return {"last_stable_offset": leader.stable, "batches": batches}

    # Ends -----------------------------------------------------------------------------------------

    def end(self, txn: Transaction, result: str, epoch: int | None = None) -> tuple[int, int]:
        """Decides and completes, with a new epoch if one is given; the next id and epoch."""
        txn.previous_id = self.kept_previous(txn)
        if epoch is not None:
            txn.last_epoch, txn.epoch = txn.epoch, epoch
        txn.state = result
        answered = (txn.producer_id, txn.epoch)
        if self.version_2 and epoch == MAX_EPOCH:
            txn.next_id = self.new_id()
            answered = (txn.next_id, 0)
        self.complete(txn)
        return answered

    def complete(self, txn: Transaction) -> None:
        """Writes the markers, and then takes the next producer id, if any."""
        marked = [
            self.partition(name).mark(txn.producer_id, txn.epoch, txn.state)
            for name in sorted(txn.partitions)
        ]
        txn.is_stuck = not all(marked)
        if txn.is_stuck:
            return
        txn.partitions.clear()
        if txn.next_id >= 0:
            txn.previous_id, txn.producer_id, txn.epoch = txn.producer_id, txn.next_id, 0
            txn.next_id = -1

    def abort_by_itself(self, txn: Transaction) -> None:
        """Aborts a transaction of a client that is gone, or is to be, while there are epochs."""
        if txn.epoch == MAX_EPOCH:
            return
        txn.last_epoch = txn.epoch if self.version_2 else -1
        txn.epoch += 1
        self.end(txn, "ABORT")

    def sleep(self, ms: int) -> None:
        self.now_ms += ms
        for txn in self.transactions.values():
            if txn.state == "Ongoing" and self.now_ms - txn.started_ms > txn.timeout_ms:
                self.abort_by_itself(txn)

    def restart(self) -> None:
        for txn in self.transactions.values():
            txn.last_epoch = txn.previous_id = txn.next_id = -1  # the log doesn't have them
        for partition in self.partitions.values():
            partition.recover()
        for txn in self.transactions.values():
            if txn.is_stuck:
                self.complete(txn)


class MemorySystem(System):
    """The adapter."""

    release = "4.1"

    def __init__(self) -> None:
        self.broker = MemoryBroker(self.release)

    def ask(self, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        handlers = {
            "InitProducerId": self.broker.init_producer_id,
            "AddPartitionsToTxn": self.broker.add_partitions,
            "Produce": self.broker.produce,
            "EndTxn": self.broker.end_txn,
            "Fetch": self.broker.fetch,
        }
        try:
            return handlers[request](**fields)
        except Refused as refused:
            return {"error": str(refused)}

    def sleep(self, ms: int) -> None:
        self.broker.sleep(ms)

    def restart(self) -> None:
        self.broker.restart()

    def skip_to_epoch(self, transactional_id: str, producer_epoch: int) -> None:
        txn = self.broker.transactions[transactional_id]
        txn.state, txn.previous_id = "Empty", txn.producer_id
        txn.epoch, txn.last_epoch = producer_epoch, -1
