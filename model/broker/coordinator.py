"""A transaction coordinator to send requests to: its entries, its ownership, its markers.

The rows are those of `spec.coordinator`. Kept here is what they leave to the broker: the entries by
their transactional ids, the queues of markers by leader, and what happens after what (a fence goes
on to an abort; a record that was appended takes effect; an end that was decided sends its markers).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import count
from typing import Any, ClassVar, NamedTuple, cast

from ...spec import api_versions
from ...spec.coordinator import entry as transaction
from ...spec.coordinator import log, markers, ownership, tables
from ...spec.coordinator.listing import is_listed
from ...spec.features import KAFKA
from ...spec.messages import Errors
from ..engine.errors import ModelError, NotNow, refusal, text, whole
from ..engine.machine import Machine, is_watched

NO_PRODUCER_ID = NO_PRODUCER_EPOCH = -1
PENDING = "PENDING"
"""In place of an error: an append that is neither acknowledged nor refused for now."""


class ProducerIdAndEpoch(NamedTuple):
    """The answer to InitProducerId and EndTxn; both are -1 where there is none."""

    error: str
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class TransactionMetadata(NamedTuple):
    """An entry, or a record of it, under Kafka's names; -1 for what is absent."""

    transactional_id: str
    producer_id: int
    previous_producer_id: int
    next_producer_id: int
    producer_epoch: int
    last_producer_epoch: int
    txn_timeout_ms: int
    state: str
    partitions: frozenset[Any]
    txn_start_timestamp: int
    txn_last_update_timestamp: int
    client_transaction_version: int
    pending_state: str | None = None
    has_failed_epoch_fence: bool = False


class IllegalState(ModelError):
    """Kafka throws an IllegalStateException here."""


class IllegalArgument(ModelError):
    """Kafka throws an IllegalArgumentException here."""


def java_hash(text: str) -> int:
    """`String.hashCode()`, an int32."""
    value = 0
    data = text.encode("utf-16-be")
    for high, low in zip(data[::2], data[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


@lru_cache(maxsize=1 << 16)
def partition_for(transactional_id: str, partitions: int = 50) -> int:
    """The partition of the transaction log that an id belongs to.

    TransactionStateManager.partitionFor. Raises WrongType for what is no id.
    """
    value = java_hash(text("transactional_id", transactional_id))
    return (0 if value == -(2**31) else abs(value)) % partitions


def _each_once(partitions: Any) -> frozenset[Any]:
    """Partitions that somebody gave. Raises WrongType for one alone, which a string would be."""
    if isinstance(partitions, str) or not isinstance(partitions, Iterable):
        raise refusal("partitions", "a collection of partitions", partitions, of_type=False)
    return frozenset(cast("Iterable[Any]", partitions))


@dataclass
class Marker:
    """Markers of one transaction for one broker."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    result: str
    partitions: frozenset[Any]
    completion: int  # which completion it belongs to
    transaction_version: int  # that of the transaction: a leader's checks hang on it (KIP-1228)


@dataclass
class TombstoneBatch:
    """Tombstones that are appended together."""

    state_partition: int
    transactional_ids: list[str]
    size: int


def _add_tombstone(
    batches: list[TombstoneBatch], partition: int, name: str, max_bytes: int
) -> None:
    """Adds to the partition's last batch where there is room, else to a new one.

    MemoryRecordsBuilder.hasRoomFor
    """
    mine = [batch for batch in batches if batch.state_partition == partition]
    if mine:
        size = _record_size(len(mine[-1].transactional_ids), name)
        if mine[-1].size + size <= max_bytes:
            mine[-1].transactional_ids.append(name)
            mine[-1].size += size
            return
    batches.append(TombstoneBatch(partition, [name], BATCH_OVERHEAD + _record_size(0, name)))


BATCH_OVERHEAD = 61


def _record_size(offset_delta: int, name: str) -> int:
    key = 4 + len(name.encode())  # a version and a length, two bytes each
    body = 2 + _varint(offset_delta) + _varint(key) + key + 2
    return body + _varint(body)


def _varint(number: int) -> int:
    """The bytes of a zigzag varint."""
    return max(1, -(-(2 * number).bit_length() // 7))


@dataclass
class _Markers:
    """The markers that are to be sent, and the completions that wait for them."""

    queued: dict[Any, list[Marker]] = field(default_factory=dict[Any, list[Marker]])
    unknown: list[Marker] = field(default_factory=list[Marker])
    completions: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    retries: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])

    def copy(self) -> _Markers:
        """The same in collections of its own; nobody changes a marker."""
        queued = {broker: list(markers) for broker, markers in self.queued.items()}
        return _Markers(queued, list(self.unknown), dict(self.completions), list(self.retries))


UNAVAILABLE = "UNAVAILABLE"
"""In place of a leader: there is one, and it isn't known right now."""

Leaders = Callable[[Any], Any]


class TransactionCoordinator:
    """A broker that coordinates transactional ids.

    `protocol` is the release, `transaction_version` the finalized feature level, `now_ms` the time,
    which only the caller moves. `producer_ids` hands out producer ids; None is for now there is
    none. `leader_of` says which broker leads a partition: None where there is no such partition,
    `UNAVAILABLE` where the leader isn't known. `state_partition_of` is Kafka's rule over 50
    partitions. With `holds_completions` the completion of an end that needs no marker is `PENDING`.
    A new coordinator owns nothing: see `elect`.

    Requests are methods; each takes `append`, what the transaction log answers to the record that
    it brings about: NONE, an error, or `PENDING` (see `acknowledge`). `appends` counts the records
    of requests that were tried; `records` lists all records since it was cleared, where
    `keeps_records` is set.
    """

    tables: ClassVar = tables.DRIVEN
    """What an entry does."""

    def __init__(
        self, *, protocol: str | None = None, transaction_version: int | None = None,
        now_ms: int = 0, producer_ids: Callable[[], int | None] | None = None,
        leader_of: Leaders | None = None, holds_completions: bool = False,
        state_partition_of: Callable[[str], int] = partition_for,
        transaction_max_timeout_ms: int = 900_000,
        transactional_id_expiration_ms: int = 604_800_000,
        transaction_two_phase_commit_enable: bool = False,
    ) -> None:  # fmt: skip
        settings = {
            "transaction_max_timeout_ms": transaction_max_timeout_ms,
            "transaction_two_phase_commit_enable": int(transaction_two_phase_commit_enable),
        }
        self._lookup = Machine(
            ownership.COORDINATOR_TABLES, KAFKA, protocol=protocol, constants=settings, this=0
        )
        expiration = {"transactional_id_expiration_ms": transactional_id_expiration_ms}
        self._blank = Machine(self.tables, KAFKA, protocol=protocol, constants=expiration)
        self.protocol = self._lookup.protocol
        knows_2 = "transaction_version_2" in self._blank.features
        version = (2 if knows_2 else 0) if transaction_version is None else transaction_version
        self.transaction_version = whole("transaction_version", version, 0, 2)
        self.now_ms = now_ms
        ids = count()
        self.producer_ids = producer_ids or (lambda: next(ids))
        self.leader_of: Leaders = leader_of or (lambda _: 0)
        self._completion = PENDING if holds_completions else "NONE"
        self.state_partition_of = state_partition_of
        self.entries: dict[str, Machine] = {}
        self.keeps_records = False
        self.records: list[TransactionMetadata] = []
        self._epochs: dict[int, int] = {}
        self._said: dict[tuple[Any, ...], Any] = {}  # what was looked up since the last election
        self._markers = _Markers()
        self.appends = 0
        self.completion_appends = 0
        self.completion_coordinator_epoch: int | None = None
        self._tokens = count()

    def copy(self) -> TransactionCoordinator:
        """Another coordinator in the same state. New producer ids come from one source for both."""
        made = copy(self)
        made._lookup, made._epochs = self._lookup.copy(), dict(self._epochs)
        made.entries = {name: entry.copy() for name, entry in self.entries.items()}
        made.records = list(self.records)
        made._markers = self._markers.copy()
        return made

    # Ownership --------------------------------------------------------------------------------

    def elect(
        self, state_partition: int, coordinator_epoch: int, *, is_loading: bool = False
    ) -> None:
        """It leads this partition of the transaction log from now on; where it `is_loading`, it
        reads the log first, until `end_load`."""
        self._hears(state_partition, coordinator_epoch, leads=True, is_loading=is_loading)

    def _hears(
        self, state_partition: int, coordinator_epoch: int | None, *, leads: bool,
        is_loading: bool = False,
    ) -> None:  # fmt: skip
        self._lookup.handle(
            "LeaderAndIsr", broker=0, state_partition=state_partition, leads=leads,
            coordinator_epoch=coordinator_epoch, is_loading=is_loading,
        )  # fmt: skip
        self._note_epoch(state_partition)

    def _note_epoch(self, state_partition: int) -> None:
        self._said = {}
        home = self._lookup.at("owned", state_partition)
        if home is None or home.is_loading:
            self._epochs.pop(state_partition, None)
        else:
            self._epochs[state_partition] = home.coordinator_epoch

    def resign(self, state_partition: int, coordinator_epoch: int | None = None) -> None:
        """It leads this partition no longer; it depends on the epochs whether a load ends."""
        self._hears(state_partition, coordinator_epoch, leads=False)
        self._forget(state_partition)

    def _forget(self, state_partition: int) -> None:
        """The entries and the markers of a partition are gone."""
        for name in list(self.entries):
            if self.state_partition_of(name) == state_partition:
                del self.entries[name]
        self.remove_markers(state_partition)

    def owner_epoch(self, transactional_id: str) -> int | None:
        """The epoch in which it coordinates this id; None where it doesn't."""
        return self._epochs.get(self.state_partition_of(transactional_id))

    def lookup(
        self, request: str, transactional_id: str | None, timeout_ms: int = 1,
        expected: tuple[int, int] | None = None, *, enable_2pc: bool = False,
        keep_prepared_txn: bool = False,
    ) -> Any:  # fmt: skip
        """What is said of a request before the id's entry is looked at: error, step, timeout."""
        entry = self.entries.get(transactional_id or "")
        asked = (
            request,
            "GIVEN" if transactional_id else _KIND[transactional_id],
            self.state_partition_of(transactional_id) if transactional_id else 0,
            entry is not None,
            entry is not None and entry["state"] == "DEAD",
            timeout_ms,
            expected is not None and expected[0] != NO_PRODUCER_ID,
            expected is not None and expected[1] != NO_PRODUCER_EPOCH,
            enable_2pc,
            keep_prepared_txn,
        )
        said = None if is_watched() else self._said.get(asked)
        if said is None:
            if len(self._said) >= _MOST_SAID:
                self._said.clear()
            fields = dict(zip(_LOOKED_UP, asked, strict=True))
            said = self._said[asked] = self._lookup.handle("look up", **fields).reply
        return said

    def load(
        self, state_partition: int, coordinator_epoch: int,
        records: Iterable[tuple[str, TransactionMetadata | None]],
    ) -> list[str]:  # fmt: skip
        """Takes over a partition at once: `elect` and `end_load`."""
        self.elect(state_partition, coordinator_epoch, is_loading=True)
        return self.end_load(state_partition, coordinator_epoch, records)

    def end_load(
        self, state_partition: int, coordinator_epoch: int,
        records: Iterable[tuple[str, TransactionMetadata | None]],
    ) -> list[str]:  # fmt: skip
        """A load under this epoch has read the log's records, a tombstone being None. Where it is
        still awaited, the coordinator answers from now on and goes on with the ends that were
        decided: the ids of these.

        Raises NotNow where no load was begun under the epoch.
        """
        taken = self._lookup.handle(
            "load ends", state_partition=state_partition, coordinator_epoch=coordinator_epoch
        ).reply.is_taken
        self._note_epoch(state_partition)
        if not taken:
            return []
        self._forget(state_partition)
        loaded: dict[str, TransactionMetadata] = {}
        for name, record in records:
            loaded.pop(name, None)
            if record is not None:
                loaded[name] = record
        for record in loaded.values():
            self.put(record)
        decided = [name for name in loaded if self.entries[name].value(transaction.is_prepared)]
        for name in decided:
            self.send_markers(name, coordinator_epoch)
        return decided

    def restart(self) -> None:
        """It stops and starts again: each partition with ids in it is read from the log, under a
        new epoch, and the ends that were decided go on. Whoever waited for an append is left
        without an answer."""
        for partition in {self.state_partition_of(name) for name in self.entries}:
            self.remove_markers(partition)
            self.elect(partition, self._epochs[partition] + 1)
        for name, entry in self.entries.items():
            entry.handle("coordinator failover", record_kept=False)
            if entry.value(transaction.is_prepared):
                self.send_markers(name, self.owner_epoch(name) or 0)

    def is_loading(self) -> bool:
        """Whether it is loading a partition."""
        return any(home and home.is_loading for home in self._lookup["owned"].values())

    # Entries ----------------------------------------------------------------------------------

    def put(self, metadata: TransactionMetadata) -> None:
        """Puts an entry in place of the one that there is, if any."""
        self.entries[metadata.transactional_id] = self.new_entry(metadata)

    def new_entry(self, metadata: TransactionMetadata) -> Machine:
        """A machine in the state that `metadata` says."""
        entry = self._blank.copy()
        entry.put(
            producer_id=max(metadata.producer_id, 0),
            previous_id=_or_none(metadata.previous_producer_id),
            next_id=_or_none(metadata.next_producer_id),
            producer_epoch=metadata.producer_epoch,
            last_producer_epoch=metadata.last_producer_epoch,
            txn_timeout_ms=metadata.txn_timeout_ms,
            state=state_member(metadata.state),
            partitions=metadata.partitions,
            txn_start_timestamp=metadata.txn_start_timestamp,
            txn_last_update_timestamp=metadata.txn_last_update_timestamp,
            client_transaction_version=metadata.client_transaction_version,
            pending=metadata.pending_state and state_member(metadata.pending_state),
            failed_fence=metadata.has_failed_epoch_fence,
            logged_epoch=metadata.producer_epoch,
            logged_partitions=metadata.partitions,
        )
        entry.put(
            pending_epoch=metadata.producer_epoch,
            pending_last_epoch=metadata.last_producer_epoch,
            pending_id=max(metadata.producer_id, 0),
            pending_partitions=metadata.partitions,
            pending_start_timestamp=metadata.txn_start_timestamp,
            pending_update_timestamp=metadata.txn_last_update_timestamp,
            pending_version=metadata.client_transaction_version,
            pending_timeout_ms=metadata.txn_timeout_ms,
        )
        return entry

    def can_skip_to_epoch(self, transactional_id: str, producer_epoch: int) -> bool:
        """Whether the id is known, in a lower epoch and without a transaction."""
        entry = self.entries.get(transactional_id)
        return (
            entry is not None and entry.value(is_idle) and entry["producer_epoch"] < producer_epoch
        )

    def skip_to_epoch(self, transactional_id: str, producer_epoch: int) -> None:
        """The entry has come to this epoch, as if by so many InitProducerId. Raises NotNow."""
        if not self.can_skip_to_epoch(transactional_id, producer_epoch):
            raise NotNow(f"{transactional_id} can't skip to epoch {producer_epoch}")
        now = metadata_of(transactional_id, self.entries[transactional_id])
        self.put(
            now._replace(
                state="Empty", previous_producer_id=now.producer_id, producer_epoch=producer_epoch,
                last_producer_epoch=NO_PRODUCER_EPOCH,
            )
        )  # fmt: skip

    def metadata(self, transactional_id: str) -> TransactionMetadata | None:
        """The entry of an id, if there is one."""
        entry = self.entries.get(transactional_id)
        return None if entry is None else metadata_of(transactional_id, entry)

    def _version_1(self) -> tuple[str, ...]:
        """What the finalized transaction version does without."""
        return () if self.transaction_version >= 2 else api_versions.VERSION_1

    def _at_now(self, entry: Machine) -> Machine:
        entry.outside(clock__now=self.now_ms)
        return entry

    def _offer_id(
        self, entry: Machine, event: str, fields: Mapping[str, Any], off: tuple[str, ...] = ()
    ) -> None:
        """Gets a producer id where there being one decides what becomes of the event."""
        if not entry.value(transaction.exhausted):
            return
        rows: list[str | None] = []
        for offered in (0, None):
            entry.outside(producer_id_manager__offered_id=offered)
            rows.append(entry.may(event, switch_off=off, **fields))
        if rows[0] != rows[1]:
            entry.outside(producer_id_manager__offered_id=self.producer_ids())

    # Requests ---------------------------------------------------------------------------------

    def init_producer_id(
        self, transactional_id: str | None, transaction_timeout_ms: int,
        expected: tuple[int, int] | None = None, *, append: str = "NONE",
        before_abort: Callable[[], None] | None = None, enable_2pc: bool = False,
        keep_prepared_txn: bool = False, api_version: int | None = None,
    ) -> ProducerIdAndEpoch | None:  # fmt: skip
        """InitProducerId; None where its record is still to be acknowledged.

        `expected` is the producer id and epoch that the producer holds. `before_abort` is called
        between the choice of a fencing epoch and the abort under it. `api_version` is that of the
        request (none: its client is of the broker's release), here and of the other requests.
        """
        older = _without("InitProducerId", api_version)
        answer = self.lookup(
            "INIT_PRODUCER_ID", transactional_id, transaction_timeout_ms, expected,
            enable_2pc=enable_2pc, keep_prepared_txn=keep_prepared_txn,
        )  # fmt: skip
        if answer.step == "ANSWER":
            return ProducerIdAndEpoch(answer.error)
        if answer.step == "PRODUCER_ID_ALONE":
            new_id = self.producer_ids()
            if new_id is None:
                return ProducerIdAndEpoch(self._blank.value(transaction.no_id_error))
            return ProducerIdAndEpoch("NONE", new_id, 0)
        assert transactional_id is not None
        if answer.step == "NEW_ENTRY":
            new_id = self.producer_ids()
            if new_id is None:
                return ProducerIdAndEpoch(self._blank.value(transaction.no_id_error))
            fresh = NEW_ENTRY._replace(
                transactional_id=transactional_id, producer_id=new_id,
                txn_timeout_ms=answer.timeout_ms, txn_last_update_timestamp=self.now_ms,
            )  # fmt: skip
            self.put(fresh)
        entry = self._at_now(self.entries[transactional_id])
        token = next(self._tokens)
        fields: dict[str, Any] = {
            "producer": token,
            "connection": 0,
            "expected_id": 0 if expected is None else expected[0],
            "expected_epoch": -1 if expected is None else expected[1],
            "transaction_timeout_ms": answer.timeout_ms,
        }
        self._offer_id(entry, "InitProducerId", fields, older)
        sent = list(entry.handle("InitProducerId", switch_off=older, **fields).sent)
        if entry["pending"] == "PREPARE_EPOCH_FENCE" and not sent and before_abort is not None:
            fence = (entry["producer_id"], entry["pending_epoch"])
            before_abort()
            entry = self._at_now(self.entries[transactional_id])
            if entry["pending"] != "PREPARE_EPOCH_FENCE":
                off = (*older, *self._version_1())
                ended = self._end(transactional_id, entry, *fence, "ABORT", off, append=append)
                busy = ended is None or ended.error == "NONE"
                return ProducerIdAndEpoch("CONCURRENT_TRANSACTIONS") if busy else ended
        if not sent:
            sent = self._go_on(transactional_id, entry, append, (*older, *self._version_1()))
        return _first(sent, token)

    def add_partitions(
        self, transactional_id: str | None, producer_id: int, producer_epoch: int,
        partitions: Iterable[Any], *, api_version: int | None = None, append: str = "NONE",
    ) -> str | None:  # fmt: skip
        """AddPartitionsToTxn, from a client or (from version 4 of the API on) from a leader: an
        error, or None where its record is still to be acknowledged."""
        answer = self.lookup("OTHER", transactional_id)
        if answer.step == "ANSWER":
            return answer.error
        assert transactional_id is not None
        entry = self._at_now(self.entries[transactional_id])
        token = next(self._tokens)
        sent = entry.handle(
            "AddPartitionsToTxn", switch_off=_without("AddPartitionsToTxn", api_version),
            producer=token, connection=0, partition=None, partitions=_each_once(partitions),
            producer_id=producer_id, producer_epoch=producer_epoch,
            client_transaction_version=2 if api_versions.is_from_broker(api_version) else 0,
        ).sent  # fmt: skip
        if not sent and entry["pending"] is not None:
            sent = self._go_on(transactional_id, entry, append)
        found = [m.error for m in sent if m.producer == token]
        return found[0] if found else None

    def verify_partitions(
        self, transactional_id: str | None, producer_id: int, producer_epoch: int,
        partitions: Iterable[Any],
    ) -> dict[Any, str]:  # fmt: skip
        """AddPartitionsToTxn that only verifies: an error for each partition."""
        wanted = sorted(_each_once(partitions), key=str)
        answer = self.lookup("OTHER", transactional_id)
        if answer.step == "ANSWER":
            return dict.fromkeys(wanted, str(answer.error))
        assert transactional_id is not None
        entry = self._at_now(self.entries[transactional_id])
        fields: dict[str, Any] = {
            "producer": 0,
            "producer_id": producer_id,
            "producer_epoch": producer_epoch,
        }
        return {
            partition: str(
                entry.handle(
                    "AddPartitionsByLeader",
                    partition=partition,
                    switch_off=api_versions.VERSION_1,
                    **fields,
                ).reply.error
            )
            for partition in wanted
        }

    def end_txn(
        self, transactional_id: str | None, producer_id: int, producer_epoch: int, result: str,
        *, api_version: int | None = None, append: str = "NONE",
    ) -> ProducerIdAndEpoch | None:  # fmt: skip
        """EndTxn with result COMMIT or ABORT; None where its record is still to be acknowledged."""
        answer = self.lookup("OTHER", transactional_id)
        if answer.step == "ANSWER":
            return ProducerIdAndEpoch(answer.error)
        assert transactional_id is not None
        entry = self._at_now(self.entries[transactional_id])
        older = self._version_1() if api_version is None else _without("EndTxn", api_version)
        return self._end(
            transactional_id, entry, producer_id, producer_epoch, result, older, append=append,
            is_from_client=True,
        )  # fmt: skip

    def _end(
        self, name: str, entry: Machine, producer_id: int, producer_epoch: int, result: str,
        off: tuple[str, ...], *, append: str, is_from_client: bool = False,
    ) -> ProducerIdAndEpoch | None:  # fmt: skip
        """TransactionCoordinator.endTransaction"""
        token = next(self._tokens)
        fields: dict[str, Any] = {
            "producer": token,
            "connection": 0,
            "producer_id": producer_id,
            "producer_epoch": producer_epoch,
            "result": result,
            "is_from_client": is_from_client,
        }
        self._offer_id(entry, "EndTxn", fields, off)
        sent = entry.handle("EndTxn", switch_off=off, **fields).sent
        if not any(m.producer == token for m in sent):
            sent = [*sent, *self._go_on(name, entry, append, off)]
        return _first(sent, token)

    def describe(self, transactional_id: str | None) -> tuple[str, TransactionMetadata | None]:
        """DescribeTransactions: an error and the entry. Raises IllegalArgument without an id."""
        answer = self.lookup("DESCRIBE", transactional_id)
        if answer.step == "ILLEGAL_ARGUMENT":
            raise IllegalArgument("a transactional id is needed", "transactional_id")
        if answer.step == "ANSWER":
            return answer.error, None
        assert transactional_id is not None
        return "NONE", self.metadata(transactional_id)

    def abort_timed_out(self, *, append: str = "NONE") -> list[str]:
        """Aborts every transaction that is older than its timeout; their ids."""
        aborted: list[str] = []
        for name, entry in list(self.entries.items()):
            if self._at_now(entry).attempt("transaction timeout") is not None:
                aborted.append(name)
                self._go_on(name, entry, append)
        return aborted

    def timed_out(self) -> list[str]:
        """The ids whose transaction is older than its timeout."""
        entries = self.entries.items()
        return [n for n, entry in entries if self._at_now(entry).may("transaction timeout")]

    def list_transactions(
        self, producer_ids: Iterable[int] = (), states: Iterable[str] = (),
        min_duration_ms: int = -1,
    ) -> tuple[str, list[str], list[str]]:  # fmt: skip
        """ListTransactions: an error, the ids, and the states that there are none of. An empty
        filter, or a duration below 0, filters nothing."""
        if self.is_loading():
            return "COORDINATOR_LOAD_IN_PROGRESS", [], []
        wanted = list(states)
        unknown = [name for name in wanted if name not in STATE_NAMES]
        ids = frozenset(producer_ids)
        known = frozenset(state_member(name) for name in wanted if name not in unknown)
        found = [
            name
            for name, entry in self.entries.items()
            if is_listed(
                entry["state"], entry["producer_id"], self.now_ms - entry["txn_start_timestamp"],
                producer_ids=ids, states=known if wanted else None, min_duration_ms=min_duration_ms,
            )
        ]  # fmt: skip
        return "NONE", found, unknown

    def expirable(self) -> list[str]:
        """The ids that have not been in use for long."""
        entries = self.entries.items()
        return [n for n, entry in entries if self._at_now(entry).may("transactional id expiry")]

    def expire(
        self, *, append: str = "NONE", offline: Iterable[int] = (), max_batch_bytes: int = 1_048_588
    ) -> list[TombstoneBatch]:
        """Forgets the ids that have not been in use for long; the batches of tombstones that were
        tried. Nothing is tried for `offline` partitions of the log.

        Before 3.4.1 an id without an epoch ends it: ids that were to be in the same batch are
        pending until a failover. Ids come by partition, the older ones of it first, where Kafka's
        order is that of hashes.
        """
        apart, batches = set(offline), list[TombstoneBatch]()
        for name in sorted(self.expirable(), key=self.state_partition_of):
            partition, entry = self.state_partition_of(name), self.entries[name]
            if partition not in apart:
                _add_tombstone(batches, partition, name, max_batch_bytes)
                entry.handle("transactional id expiry")
                if entry["pending"] is None:
                    batches.pop()
                    break
        for batch in batches:
            for name in batch.transactional_ids:
                if append == "NONE":
                    del self.entries[name]
                else:
                    self._refuse(self.entries[name], append)
        return batches

    def append_error(self, error: str) -> str:
        """What an error of the log is passed on as."""
        return ownership.PASSED_ON.get(error, error)

    def acknowledge(self, transactional_id: str, error: str = "NONE") -> list[Any]:
        """The log's answer to a record that was `PENDING`; the answers that go out now."""
        entry = self._at_now(self.entries[transactional_id])
        return self._go_on(transactional_id, entry, error, is_tried=True)

    # What follows from a transition ---------------------------------------------------------------

    def _go_on(
        self, name: str, entry: Machine, append: str, off: tuple[str, ...] | None = None, *,
        is_tried: bool = False,
    ) -> list[Any]:  # fmt: skip
        """Takes a transition as far as it goes; the messages that were sent."""
        sent: list[Any] = []
        if off is None:
            off = self._version_1()
        if entry["pending"] == "PREPARE_EPOCH_FENCE":
            self._offer_id(entry, "continue the fence", {}, off)
            sent += entry.handle("continue the fence", switch_off=off).sent
        pending = entry["pending"]
        if pending is not None and pending not in ("COMPLETE_COMMIT", "COMPLETE_ABORT"):
            if self.keeps_records and not is_tried:
                self.records.append(record_of(name, entry))
            self.appends += 1
            if append == PENDING:
                return sent
            if append != "NONE":
                return sent + self._refuse(entry, append)
            sent += entry.handle("log append").sent
        completion = entry.attempt("begin completion", switch_off=off)
        if completion is not None:
            sent += completion.sent
            self.send_markers(name, self.owner_epoch(name) or 0)
        return sent

    def _refuse(self, entry: Machine, error: str) -> list[Any]:
        known = error if error in _ERRORS else "UNKNOWN_SERVER_ERROR"
        sent = entry.handle("append failure", record_kept=False, error=known).sent
        return [m._replace(error=error) for m in sent]

    # Markers ------------------------------------------------------------------------------------

    def send_markers(self, transactional_id: str, coordinator_epoch: int) -> frozenset[Any]:
        """Queues the markers of a transaction whose end is decided; the partitions that wait."""
        entry = self._at_now(self.entries[transactional_id])
        if entry["pending"] is None:
            entry.handle("begin completion")
        mark = next(self._tokens)
        self._markers.completions[transactional_id] = (mark, coordinator_epoch)
        self._enqueue(self._marker(transactional_id, entry, mark, coordinator_epoch))
        if not entry["partitions"]:
            self._maybe_complete(transactional_id, self._completion)
        return self.waiting_partitions(transactional_id)

    def waiting_partitions(self, transactional_id: str) -> frozenset[Any]:
        """The partitions without a written marker."""
        entry = self.entries.get(transactional_id)
        return frozenset() if entry is None else entry["partitions"]

    def _marker(self, name: str, entry: Machine, mark: int, coordinator_epoch: int) -> Marker:
        result = "COMMIT" if entry["state"] == "PREPARE_COMMIT" else "ABORT"
        return Marker(
            name, entry["producer_id"], entry["producer_epoch"], coordinator_epoch, result,
            entry["partitions"], mark, entry["client_transaction_version"],
        )  # fmt: skip

    def _enqueue(self, marker: Marker) -> None:
        """Puts a transaction's markers into the queues of their partitions' leaders."""
        by_broker: dict[Any, list[Any]] = {}
        for partition in sorted(marker.partitions, key=str):
            by_broker.setdefault(self.leader_of(partition), []).append(partition)
        for broker, partitions in by_broker.items():
            part = (
                marker if len(by_broker) == 1 else replace(marker, partitions=frozenset(partitions))
            )
            if broker == UNAVAILABLE:
                self._markers.unknown.append(part)
            elif broker is not None:
                self._markers.queued.setdefault(broker, []).append(part)
            elif self.owner_epoch(marker.transactional_id) != marker.coordinator_epoch:
                self._cancel(marker)
            else:  # deleted partitions need no marker
                for partition in partitions:
                    self._answer(marker, partition, "NONE")
                self._maybe_complete(marker.transactional_id, self._completion)

    def _answer(self, marker: Marker, partition: Any, error: str) -> str:
        entry = self._at_now(self.entries[marker.transactional_id])
        return entry.handle(
            "WriteTxnMarkersResponse", partition=partition,
            connection=entry.at("marker_connection", partition),
            error=error if error in _ERRORS else "UNKNOWN_SERVER_ERROR",
        ).reply.outcome  # fmt: skip

    def _cancel(self, marker: Marker) -> None:
        known = self._markers.completions.get(marker.transactional_id)
        own_only = self._blank.value(markers.cancels_own_only)
        if known is not None and (known[0] == marker.completion or not own_only):
            del self._markers.completions[marker.transactional_id]

    def _maybe_complete(self, name: str, append: str) -> bool:
        """Writes the completion of a transaction whose markers are all written."""
        known = self._markers.completions.get(name)
        if known is None or self.waiting_partitions(name):
            return False
        del self._markers.completions[name]
        if self.owner_epoch(name) == known[1]:
            self._complete(name, known[1], append)
        return True

    def _complete(self, name: str, coordinator_epoch: int, append: str) -> None:
        self.completion_appends += 1
        self.completion_coordinator_epoch = coordinator_epoch
        entry = self._at_now(self.entries[name])
        if self.keeps_records:
            self.records.append(record_of(name, entry))
        if append == PENDING:
            return
        if append == "NONE":
            entry.handle("log append")
            return
        outcome = markers.COMPLETION_REFUSED.get(append)
        if outcome == "RETRY":
            self._markers.retries.append((name, coordinator_epoch))
            return
        self._refuse(entry, append)
        if outcome is None:
            raise IllegalState(f"{append} for the completion of {name}")

    def drain_markers(self, *, append: str = "NONE") -> dict[Any, list[Marker]]:
        """The markers that are due now, by broker. Completions that couldn't be appended are tried
        again first."""
        retries, self._markers.retries = self._markers.retries, []
        for name, coordinator_epoch in retries:
            self._complete(name, coordinator_epoch, append)
        unknown, self._markers.unknown = self._markers.unknown, []
        for marker in unknown:
            self._enqueue(marker)
        queued, self._markers.queued = self._markers.queued, {}
        return {broker: markers for broker, markers in queued.items() if markers}

    def markers_answered(
        self, marker: Marker, errors: Mapping[Any, str] | None, *, append: str = "NONE"
    ) -> tuple[str, frozenset[Any]]:
        """A broker's answer to a marker, an error for each partition: COMPLETION_WRITTEN (nothing
        is left), WAITING, RETRY or CANCELLED, and the partitions that are tried again.

        Raises IllegalState for errors that can't be, and where the answer lacks the producer id.
        """
        if errors is None:
            raise IllegalState(f"no answer for producer id {marker.producer_id}")
        if self.owner_epoch(marker.transactional_id) != marker.coordinator_epoch:
            self._cancel(marker)
            return "CANCELLED", frozenset()
        outcomes: dict[Any, str] = {}
        for partition, error in errors.items():
            outcomes[partition] = self._answer(marker, partition, error)
            if outcomes[partition] == "ILLEGAL_STATE":
                raise IllegalState(f"{error} for a marker to {partition}")
        if "CANCEL" in outcomes.values():
            self._cancel(marker)
            return "CANCELLED", frozenset()
        again = frozenset(part for part, outcome in outcomes.items() if outcome == "RETRY")
        if again:
            self._enqueue(replace(marker, partitions=again))
            return "RETRY", again
        done = self._maybe_complete(marker.transactional_id, append)
        return ("COMPLETION_WRITTEN" if done else "WAITING"), frozenset()

    def marker_lost(self, marker: Marker) -> str:
        """The connection broke before the answer: RETRY or CANCELLED."""
        if self.owner_epoch(marker.transactional_id) != marker.coordinator_epoch:
            self._cancel(marker)
            return "CANCELLED"
        self._enqueue(marker)
        return "RETRY"

    def remove_markers(self, state_partition: int) -> None:
        """Markers of ids in this partition are no longer sent."""
        for queue in (self._markers.unknown, *self._markers.queued.values()):
            for marker in list(queue):
                if self.state_partition_of(marker.transactional_id) == state_partition:
                    queue.remove(marker)
                    self._cancel(marker)

    @property
    def pending_completions(self) -> frozenset[str]:
        """The transactional ids whose markers are not all written."""
        return frozenset(self._markers.completions)

    def queued_markers(self) -> dict[Any, int]:
        """How many entries wait for each broker; None is for leaders that aren't known."""
        counts = {broker: len(markers) for broker, markers in self._markers.queued.items()}
        return {None: len(self._markers.unknown), **counts}


def _without(request: str, api_version: int | None) -> tuple[str, ...]:
    """What a request does without; one without a version is of the broker's release."""
    return () if api_version is None else api_versions.without(request, api_version)


is_idle = transaction.is_settled & ~transaction.pending.is_set
_KIND = {None: "NONE", "": "EMPTY"}
_LOOKED_UP = (
    "request", "transactional_id", "state_partition", "is_known", "is_dead", "timeout_ms",
    "expects_id", "expects_epoch", "enable_2pc", "keep_prepared_txn",
)  # fmt: skip
_MOST_SAID = 1_000
_ERRORS = frozenset(Errors.names)
NEW_ENTRY = TransactionMetadata(
    "", 0, -1, -1, -1, -1, 0, "Empty", frozenset(), -1, -1, 0
)  # fmt: skip


def _or_none(producer_id: int) -> int | None:
    return None if producer_id < 0 else producer_id


def state_member(state: str) -> str:
    """EMPTY for Empty, PREPARE_COMMIT for PrepareCommit."""
    return "".join(f"_{c}" if c.isupper() else c for c in state).lstrip("_").upper()


def _camel(state: str) -> str:
    return "".join(part.capitalize() for part in state.split("_"))


STATE_NAMES = {_camel(name): number for name, number in transaction.TransactionState.members}
"""States as Kafka spells them, with their numbers in the log."""


def _first(sent: Iterable[Any], token: int) -> ProducerIdAndEpoch | None:
    for message in sent:
        if message.producer == token:
            if message.producer_epoch == NO_PRODUCER_EPOCH:
                return ProducerIdAndEpoch(message.error)
            return ProducerIdAndEpoch(message.error, message.producer_id, message.producer_epoch)
    return None


def metadata_of(name: str, entry: Machine) -> TransactionMetadata:
    """An entry under Kafka's names."""
    state = entry.state
    previous, following = state["previous_id"], state["next_id"]
    return TransactionMetadata(
        name, state["producer_id"], -1 if previous is None else previous,
        -1 if following is None else following, state["producer_epoch"],
        state["last_producer_epoch"], state["txn_timeout_ms"], _camel(state["state"]),
        state["partitions"], state["txn_start_timestamp"], state["txn_last_update_timestamp"],
        state["client_transaction_version"], state["pending"] and _camel(state["pending"]),
        entry.value(transaction.has_failed_epoch_fence),
    )  # fmt: skip


def record_of(name: str, entry: Machine) -> TransactionMetadata:
    """The record that the pending transition appends to the transaction log."""
    copy, pending = entry.copy(), entry["pending"]
    if pending == "PREPARE_EPOCH_FENCE":  # never appended
        return metadata_of(name, entry)._replace(
            state=_camel(pending), previous_producer_id=entry["producer_id"], pending_state=None,
            producer_epoch=entry["pending_epoch"], last_producer_epoch=NO_PRODUCER_EPOCH,
        )  # fmt: skip
    completes = pending in ("COMPLETE_COMMIT", "COMPLETE_ABORT")
    if completes:
        copy.put(partitions=frozenset())
    copy.handle("log append")
    appended = metadata_of(name, copy)
    last = entry.value(log.recorded_last_epoch)
    return appended._replace(
        previous_producer_id=entry["producer_id"],
        txn_start_timestamp=entry["pending_start_timestamp"],
        last_producer_epoch=last if completes else appended.last_producer_epoch,
    )
