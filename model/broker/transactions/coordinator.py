"""A transaction coordinator that takes requests.

The rows are those of `spec.coordinator`. This module and the managers have the rest of the broker:
the entries by transactional id, the queues of markers by leader, and the order of steps (an abort
follows a fence; an appended record takes effect; a decided end sends its markers).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any, NamedTuple, cast

from ....spec.coordinator import entry as transaction
from ....spec.releases import api_versions
from ...engine.errors import ModelError, NotNowError, refusal
from ...engine.machine import Machine
from .marker_channel_manager import Leaders, TransactionMarkerChannelManager
from .transaction_log import partition_for
from .transaction_metadata import (
    NEW_ENTRY,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
)
from .transaction_state_manager import PENDING

_NOTHING: Mapping[str, Any] = {}
_IN_LOG = ("append", "completion")
"""The places where a held thread has already appended its record to the log."""


class ProducerIdAndEpoch(NamedTuple):
    """The answer to InitProducerId and EndTxn; -1: no producer id, no epoch."""

    error: str
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class IllegalArgumentError(ModelError):
    """Kafka throws an IllegalArgumentException here."""


class Held(NamedTuple):
    """A thread that is held in a request about a transactional id, with the values that it
    continues with."""

    transactional_id: str
    token: int
    switch_off: tuple[str, ...] | None
    own: Mapping[str, Any]


class ThreadHeldError(Exception):
    """The thread of a request is held before its answer: see `TransactionCoordinator.holds`."""


def each_once(partitions: Any) -> frozenset[Any]:
    """A set of the given partitions. Raises WrongTypeError if they are no collection, or a
    string."""
    if isinstance(partitions, str) or not isinstance(partitions, Iterable):
        raise refusal("partitions", "a collection of partitions", partitions, of_type=False)
    return frozenset(cast("Iterable[Any]", partitions))


class TransactionCoordinator(TransactionMarkerChannelManager):
    """A broker that coordinates transactional ids.

    `protocol` is the release, `transaction_version` the finalized feature level. `now_ms` is the
    time, which only the caller changes. `producer_ids` returns a new producer id; None: there is
    none at present. `leader_of` returns the broker that leads a partition; None: the partition
    doesn't exist, `UNAVAILABLE`: the leader isn't known. `state_partition_of` is Kafka's rule for
    50 partitions by default. With `holds_completions` the completion of an end that needs no marker
    is `PENDING`. A new coordinator owns nothing: see `elect`.

    Requests are methods; each takes `append`, the transaction log's answer to its record: NONE, an
    error, or `PENDING` (see `acknowledge`). `appends` counts the records of requests that were
    tried; `records` lists all records since it was cleared, where `keeps_records` is set.

    If `log_refuses`, the log refuses each request's record as too large. If the coordinator
    `lacks_ids`, it gets no new producer id.

    `holds` is the place at which the thread of the next request stops, if it gets there: "fence"
    (between the two halves of a fence), "append" (the record is in the log), "decision" (before the
    completion begins). The request then raises ThreadHeldError, and `release` continues it. At
    "completion" only the record of the completion is held, not the answer.
    """

    def __init__(
        self, *, protocol: str | None = None, transaction_version: int | None = None,
        now_ms: int = 0, producer_ids: Callable[[], int | None] | None = None,
        leader_of: Leaders | None = None, holds_completions: bool = False,
        state_partition_of: Callable[[str], int] = partition_for,
        transaction_max_timeout_ms: int = 900_000,
        transactional_id_expiration_ms: int = 604_800_000,
        transaction_two_phase_commit_enable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(
            protocol=protocol,
            transaction_version=transaction_version,
            now_ms=now_ms,
            leader_of=leader_of,
            holds_completions=holds_completions,
            state_partition_of=state_partition_of,
            transactional_id_expiration_ms=transactional_id_expiration_ms,
            transaction_max_timeout_ms=transaction_max_timeout_ms,
            transaction_two_phase_commit_enable=int(transaction_two_phase_commit_enable),
        )
        ids = count()
        self.producer_ids = producer_ids or (lambda: next(ids))
        self.appends = 0
        self.log_refuses, self.lacks_ids = False, False
        self.holds: str | None = None
        self.held: dict[str, Held] = {}

    def copy(self) -> TransactionCoordinator:
        """Another coordinator in the same state. New producer ids come from one source for both."""
        made = object.__new__(type(self))  # copy.copy takes three times as long
        made.__dict__.update(self.__dict__)
        made._lookup, made._epochs = self._lookup.copy(), dict(self._epochs)
        made.entries = {name: entry.copy() for name, entry in self.entries.items()}
        made.records = list(self.records)
        made._markers, made.held = self._markers.copy(), dict(self.held)
        return made

    # Elections --------------------------------------------------------------------------------

    def resign(self, state_partition: int, coordinator_epoch: int | None = None) -> None:
        """Makes the coordinator resign from this partition, if the epoch is new enough."""
        self._hears(state_partition, coordinator_epoch, leads=False)
        self._forget(state_partition)

    def _forget(self, state_partition: int) -> None:
        """Removes the entries and the markers of a partition."""
        for name in list(self.entries):
            if self.state_partition_of(name) == state_partition:
                del self.entries[name]
        self.remove_markers(state_partition)

    def load(
        self,
        state_partition: int,
        coordinator_epoch: int,
        records: Iterable[tuple[str, TransactionMetadata | None]],
    ) -> list[str]:
        """Takes over a partition at once: `elect` and `end_load`."""
        self.elect(state_partition, coordinator_epoch, is_loading=True)
        return self.end_load(state_partition, coordinator_epoch, records)

    def end_load(
        self,
        state_partition: int,
        coordinator_epoch: int,
        records: Iterable[tuple[str, TransactionMetadata | None]],
    ) -> list[str]:
        """Ends a load under this epoch with the log's records; None is a tombstone. If the load is
        still current, the coordinator answers from now on, and continues the ends that were
        decided. Returns the ids of these.

        Raises NotNowError if no load began under the epoch.
        """
        if not self._load_ends(state_partition, coordinator_epoch):
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

    def _load_ends(self, state_partition: int, coordinator_epoch: int) -> bool:
        taken = self._lookup.handle(
            "load ends", state_partition=state_partition, coordinator_epoch=coordinator_epoch
        ).reply.is_taken
        self._note_epoch(state_partition)
        return taken

    def restart(self) -> None:
        """Restarts the coordinator: it loads each partition with ids under a new epoch, and
        continues the ends that were decided. Requests that waited for an append get no answer. A
        record whose append was held is in the log."""
        in_log = {self.held[at].transactional_id for at in _IN_LOG if at in self.held}
        self.holds, self.held = None, {}
        for partition in {self.state_partition_of(name) for name in self.entries}:
            self.remove_markers(partition)
            epoch = self._epochs[partition] + 1
            self.elect(partition, epoch, is_loading=True)
            self._load_ends(partition, epoch)
        for name, entry in self.entries.items():
            entry.handle("coordinator failover", record_kept=name in in_log)
            if entry.value(transaction.is_prepared):
                self.send_markers(name, self.owner_epoch(name) or 0)

    # Threads that are held --------------------------------------------------------------------

    def _holds(
        self, place: str, name: str, token: int, off: tuple[str, ...] | None,
        own: Mapping[str, Any] = _NOTHING,
    ) -> bool:  # fmt: skip
        """Whether the thread is held at this place. If it is, stores it in `held`."""
        if self.holds != place:
            return False
        self.holds = None
        self.held[place] = Held(name, token, off, own)
        return True

    def is_held(self, transactional_id: str) -> bool:
        """Whether the thread that appended the id's pending record is held."""
        waiting = (self.held[at].transactional_id for at in _IN_LOG if at in self.held)
        return transactional_id in waiting

    def _completion(self, transactional_id: str) -> str:
        return PENDING if self.is_held(transactional_id) else super()._completion(transactional_id)

    def release(self, place: str) -> list[Any]:
        """Continues the thread that is held at this place. Returns the answers to its client.
        Raises NotNowError if no thread is held there."""
        if place not in self.held:
            raise NotNowError(f"no thread is held at {place}")
        held = self.held.pop(place)
        name = held.transactional_id
        if place == "completion":
            self.entries[name].attempt("log append")
            return []
        if place == "fence":
            found = self.lookup("OTHER", name)
            if found.step == "ANSWER":
                return [ProducerIdAndEpoch(found.error)]
        entry = self._at_now(self.entries[name])
        if place == "fence":
            entry.put(**held.own)
            sent = self._end_fence(name, entry, "NONE", held.switch_off or (), held.token)
        else:
            off, is_append = held.switch_off, place == "append"
            sent = self._go_on(name, entry, "NONE", off, is_tried=is_append)
        return [message for message in sent if message.producer == held.token]

    # Requests ---------------------------------------------------------------------------------

    def init_producer_id(
        self, transactional_id: str | None, transaction_timeout_ms: int,
        expected: tuple[int, int] | None = None, *, append: str = "NONE",
        before_abort: Callable[[], None] | None = None, enable_2pc: bool = False,
        keep_prepared_txn: bool = False, api_version: int | None = None,
    ) -> ProducerIdAndEpoch | None:  # fmt: skip
        """InitProducerId; None: the log hasn't acknowledged its record yet.

        `expected` is the producer id and epoch in the request. `before_abort` is called between the
        choice of a fencing epoch and the abort with it. `api_version` is the request's version,
        here and in the other methods (default: that of a client of the broker's release).
        """
        older = api_versions.without("InitProducerId", api_version)
        answer = self.lookup(
            "INIT_PRODUCER_ID", transactional_id, transaction_timeout_ms, expected,
            enable_2pc=enable_2pc, keep_prepared_txn=keep_prepared_txn,
        )  # fmt: skip
        if answer.step == "ANSWER":
            return ProducerIdAndEpoch(answer.error)
        new_id: int | None = None
        if answer.step in ("PRODUCER_ID_ALONE", "NEW_ENTRY"):
            new_id = self._new_id()
            if new_id is None:
                return ProducerIdAndEpoch(self._blank.value(transaction.no_id_error))
        if new_id is not None and answer.step == "PRODUCER_ID_ALONE":
            return ProducerIdAndEpoch("NONE", new_id, 0)
        assert transactional_id is not None
        if new_id is not None:
            fresh = NEW_ENTRY._replace(
                transactional_id=transactional_id,
                producer_id=new_id,
                txn_timeout_ms=answer.timeout_ms,
                txn_last_update_timestamp=self.now_ms,
            )
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
        if sent:
            return _first(sent, token)
        off = (*older, *self._older())
        if entry["pending"] != "PREPARE_EPOCH_FENCE":
            return _first(self._go_on(transactional_id, entry, append, off, token=token), token)
        own = {name: entry[name] for name in ("fence_end", "fenced_for")}
        if self._holds("fence", transactional_id, token, off, own):
            raise ThreadHeldError
        if before_abort is not None:
            before_abort()
            found = self.lookup("OTHER", transactional_id)
            if found.step == "ANSWER":
                return ProducerIdAndEpoch(found.error)
            entry = self._at_now(self.entries[transactional_id])
            entry.put(**own)
        return _first(self._end_fence(transactional_id, entry, append, off, token), token)

    def add_partitions(
        self, transactional_id: str | None, producer_id: int, producer_epoch: int,
        partitions: Iterable[Any], *, api_version: int | None = None, append: str = "NONE",
    ) -> str | None:  # fmt: skip
        """AddPartitionsToTxn, from a client or (from version 4 on) from a leader. Returns the
        error; None: the log hasn't acknowledged its record yet."""
        answer = self.lookup("OTHER", transactional_id)
        if answer.step == "ANSWER":
            return answer.error
        assert transactional_id is not None
        entry = self._at_now(self.entries[transactional_id])
        token = next(self._tokens)
        sent = entry.handle(
            "AddPartitionsToTxn",
            switch_off=api_versions.without("AddPartitionsToTxn", api_version), producer=token,
            connection=0, partition=None, partitions=each_once(partitions),
            producer_id=producer_id, producer_epoch=producer_epoch,
            client_transaction_version=2 if api_versions.is_from_broker(api_version) else 0,
        ).sent  # fmt: skip
        if not sent and entry["pending"] is not None:
            sent = self._go_on(transactional_id, entry, append, token=token)
        found = [m.error for m in sent if m.producer == token]
        return found[0] if found else None

    def verify_partitions(
        self,
        transactional_id: str | None,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[Any],
    ) -> dict[Any, str]:
        """AddPartitionsToTxn that only verifies; returns an error for each partition."""
        wanted = sorted(each_once(partitions), key=str)
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
        """EndTxn with result COMMIT or ABORT; None: the log hasn't acknowledged its record yet."""
        answer = self.lookup("OTHER", transactional_id)
        if answer.step == "ANSWER":
            return ProducerIdAndEpoch(answer.error)
        assert transactional_id is not None
        entry = self._at_now(self.entries[transactional_id])
        off = self._older() if api_version is None else api_versions.without("EndTxn", api_version)
        token = next(self._tokens)
        fields: dict[str, Any] = {
            "producer": token,
            "connection": 0,
            "producer_id": producer_id,
            "producer_epoch": producer_epoch,
            "result": result,
        }
        self._offer_id(entry, "EndTxn", fields, off)
        sent = entry.handle("EndTxn", switch_off=off, **fields).sent
        if not any(m.producer == token for m in sent):
            sent = [*sent, *self._go_on(transactional_id, entry, append, off, token=token)]
        return _first(sent, token)

    def describe(self, transactional_id: str | None) -> tuple[str, TransactionMetadata | None]:
        """DescribeTransactions; returns the error and the entry. Raises IllegalArgumentError
        without an id."""
        answer = self.lookup("DESCRIBE", transactional_id)
        if answer.step == "ILLEGAL_ARGUMENT":
            raise IllegalArgumentError("a transactional id is needed", "transactional_id")
        if answer.step == "ANSWER":
            return answer.error, None
        assert transactional_id is not None
        return "NONE", self.metadata(transactional_id)

    def abort_timed_out(self, *, append: str = "NONE") -> list[str]:
        """Aborts every transaction that is older than its timeout. Returns their ids."""
        return [name for name in list(self.entries) if self._aborts(name, self.now_ms, append)]

    def time_out(self, transactional_id: str, *, append: str = "NONE") -> bool:
        """Aborts the id's transaction as if it were older than its timeout. Returns whether there
        was a transaction to abort."""
        entry = self.entries.get(transactional_id)
        if entry is None:
            return False
        return self._aborts(transactional_id, self.now_ms + entry["txn_timeout_ms"] + 1, append)

    def _aborts(self, name: str, now_ms: int, append: str) -> bool:
        entry = self.entries[name]
        entry.outside(clock__now=now_ms)
        if entry.attempt("transaction timeout") is None:
            return False
        self._end_fence(name, entry, append, self._older())
        return True

    # What follows from a transition -------------------------------------------------------------

    def acknowledge(self, transactional_id: str, error: str = "NONE") -> list[Any]:
        """Takes the log's answer to a `PENDING` record. Returns the answers to clients."""
        entry = self._at_now(self.entries[transactional_id])
        return self._go_on(transactional_id, entry, error, is_tried=True)

    def _older(self) -> tuple[str, ...]:
        """The features that the finalized transaction version lacks."""
        return api_versions.before(self.transaction_version)

    def _new_id(self) -> int | None:
        return None if self.lacks_ids else self.producer_ids()

    def _offer_id(
        self, entry: Machine, event: str, fields: Mapping[str, Any], off: tuple[str, ...] = ()
    ) -> None:
        """Gets a producer id if the event's outcome depends on having one."""
        if not entry.value(transaction.exhausted):
            return
        rows: list[str | None] = []
        for offered in (0, None):
            entry.outside(producer_id_manager__offered_id=offered)
            rows.append(entry.may(event, switch_off=off, **fields))
        if rows[0] != rows[1]:
            entry.outside(producer_id_manager__offered_id=self._new_id())

    def _end_fence(
        self, name: str, entry: Machine, append: str, off: tuple[str, ...], token: int = -1
    ) -> list[Any]:
        """Does the second half of a fence. Returns the sent messages."""
        self._offer_id(entry, "continue the fence", {}, off)
        before = entry["pending"]
        sent = list(entry.handle("continue the fence", switch_off=off).sent)
        is_ending = entry["pending"] == "PREPARE_ABORT" != before
        if not is_ending:
            return sent
        return [*sent, *self._go_on(name, entry, append, off, token=token)]

    def _go_on(
        self, name: str, entry: Machine, append: str, off: tuple[str, ...] | None = None, *,
        is_tried: bool = False, token: int = -1,
    ) -> list[Any]:  # fmt: skip
        """Continues a transition as far as possible, for the request with this token. Returns the
        sent messages."""
        sent: list[Any] = []
        if append == "NONE" and self.log_refuses and not is_tried:
            append = self.append_error("MESSAGE_TOO_LARGE")
        if off is None:
            off = api_versions.before(entry["pending_version"])
        pending = entry["pending"]
        if pending is not None and pending not in ("COMPLETE_COMMIT", "COMPLETE_ABORT"):
            if self.keeps_records and not is_tried:
                self.records.append(self.pending_record(name))
            self.appends += 1
            if self._holds("append", name, token, off):
                raise ThreadHeldError
            if append == PENDING:
                return sent
            if append != "NONE":
                return sent + self._refuse(entry, append)
            sent += entry.handle("log append").sent
            if entry.value(transaction.is_prepared) and self._holds("decision", name, token, off):
                raise ThreadHeldError
        completion = entry.attempt("begin completion", switch_off=off)
        if completion is not None:
            sent += completion.sent
            self._holds("completion", name, token, off)
            self.send_markers(name, self.owner_epoch(name) or 0)
        return sent


def _first(sent: Iterable[Any], token: int) -> ProducerIdAndEpoch | None:
    for message in sent:
        if message.producer == token:
            if message.producer_epoch == NO_PRODUCER_EPOCH:
                return ProducerIdAndEpoch(message.error)
            return ProducerIdAndEpoch(message.error, message.producer_id, message.producer_epoch)
    return None
