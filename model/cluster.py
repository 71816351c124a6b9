"""Brokers in memory: a coordinator, a leader for each partition, and the messages between them.

Every append is replicated at once. Markers are sent when a transaction ends, unless the caller
holds them. Only the caller moves the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..spec.access.acls import Acls
from ..spec.leader.state import asks_coordinator
from ..spec.leader.verification import asks_about_offsets
from ..spec.releases import api_versions
from .batches import GroupOffsets, ProduceResponse, VerifiedBatch, data, kept
from .broker.group_messages import Identity, offsets_partition
from .broker.leader import Batch, PartitionLeader
from .broker.transactions.coordinator import (
    ProducerIdAndEpoch,
    ThreadHeldError,
    TransactionCoordinator,
)
from .broker.transactions.marker_channel_manager import Marker
from .broker.transactions.transaction_state_manager import PENDING
from .client.accumulator import topic_of
from .client.requests import Produce, Request
from .engine.machine import Machine
from .group_requests import GroupRequests
from .permissions import REFUSED_WITH_OTHERS

if TYPE_CHECKING:
    from .client.producer import ProducerClient

STATE_PARTITIONS = 50
OF_BATCHES = VERIFICATION, UNASKED = "verification", "unasked"
"""The places where a batch can be held: see `Cluster.hold`."""


class Cluster(GroupRequests):
    """A coordinator that owns the whole transaction log, and leaders by partition. The first use of
    a partition creates its leader.

    `protocol` is the release, `transaction_version` the finalized feature level (default: the
    release's). With `holds_markers`, markers wait for `deliver_markers` or `deliver`, and a
    transaction without partitions waits for `complete`.

    `hold` stops the thread of the next request at a place, until `release`.

    With `acls`, requests of a `principal` need the same permissions as in Kafka. Requests without a
    principal need none.
    """

    def __init__(
        self, *, protocol: str | None = None, transaction_version: int | None = None,
        now_ms: int = 0, holds_markers: bool = False, acls: Acls | None = None,
    ) -> None:  # fmt: skip
        self.coordinator = TransactionCoordinator(
            protocol=protocol,
            transaction_version=transaction_version,
            now_ms=now_ms,
            holds_completions=holds_markers,
        )
        for partition in range(STATE_PARTITIONS):
            self.coordinator.elect(partition, 0)
        self.protocol = self.coordinator.protocol
        self.transaction_version = self.coordinator.transaction_version
        self.holds_markers = holds_markers
        self.leaders: dict[Any, PartitionLeader] = {}
        self._due: list[tuple[Marker, Any]] = []
        self._held: dict[str, Any] = {}
        self._holds: str | None = None
        self._terms: dict[int, int] = {}
        self._now_ms = now_ms
        self.group_settings = {}
        self.acls = acls

    def copy(self) -> Cluster:
        """Another cluster in the same state. New producer ids come from one source for both."""
        made = object.__new__(type(self))  # copy.copy takes three times as long
        made.__dict__.update(self.__dict__)
        made.coordinator = self.coordinator.copy()
        made.leaders = {partition: leader.copy() for partition, leader in self.leaders.items()}
        made._groups = None if self._groups is None else self._groups.copy()
        made._due, made._terms = list(self._due), dict(self._terms)
        made._held = dict(self._held)
        return made

    @property
    def now_ms(self) -> int:
        """The time in ms."""
        return self._now_ms

    def sleep(self, ms: int) -> None:
        """Moves the clock. Aborts transactions that are older than their timeout, and removes group
        members whose session timeout is over."""
        self.pass_time(ms)
        self.coordinator.abort_timed_out()
        if self._groups is not None:
            self._groups.expire()
        self._after_end()

    def pass_time(self, ms: int) -> None:
        """Moves the clock, without the effects of timeouts."""
        self._now_ms += ms
        self.coordinator.now_ms = self._now_ms
        if self._groups is not None:
            self._groups.now_ms = self._now_ms
        for leader in self.leaders.values():
            leader.now_ms = self._now_ms

    def update_features(self, *, transaction_version: int) -> None:
        """Upgrades or downgrades transaction.version, from 0 to 2. The brokers know it at once;
        requests keep the version that they have. Raises ModelError for another value.

        KIP-584, UpdateFeatures
        """
        self.coordinator.update_features(transaction_version=transaction_version)
        self.transaction_version = transaction_version

    def log_refuses(self, refuses: bool) -> None:
        """Sets whether the transaction log refuses the records of requests, as if max.message.bytes
        of __transaction_state were too small."""
        self.coordinator.log_refuses = refuses

    def withhold_ids(self, withheld: bool) -> None:
        """Sets whether the controller refuses to allocate producer ids."""
        self.coordinator.lacks_ids = withheld

    def expire_producers(self) -> None:
        """Makes the leaders forget all producers without a transaction
        (producer.id.expiration.ms)."""
        for leader in self.leaders.values():
            leader.expire_producers()

    def delete_records(self, partition: Any) -> None:
        """DeleteRecords: deletes the replicated records of a partition."""
        leader = self.leader(partition)
        leader.delete_records(leader.high_watermark)

    def restart(self, *, clean: bool = True) -> None:
        """Restarts the brokers: all state that was only in memory is lost. Partitions keep their
        leaders. `clean`: the brokers took snapshots of the producers before."""
        self._due.clear()
        self._held.clear()
        self.coordinator.restart()
        if self._groups is not None:
            self._groups.restart()
        for leader in self.leaders.values():
            leader.reopen(clean=clean)
            leader.move_high_watermark(leader.log_end_offset)
        self._after_end()

    def hold_markers(self, holds: bool) -> None:
        """Sets whether markers are held. If not, sends those that were held."""
        self.holds_markers = self.coordinator.holds_completions = holds
        if not holds:
            self.deliver_markers()
            for transactional_id in self.to_complete():
                self.complete(transactional_id)

    def time_out(self, transactional_id: str) -> bool:
        """Aborts the id's transaction as if it were older than its timeout. Returns whether there
        was one."""
        done = self.coordinator.time_out(transactional_id)
        self._after_end()
        return done

    def fail_over(self, transactional_id: str) -> Callable[[], None]:
        """Moves the id's partition of the transaction log to another broker, which loads it until
        the returned function is called. It then continues the ends that were decided."""
        coordinator = self.coordinator
        partition = coordinator.state_partition_of(transactional_id)
        now = coordinator.owner_epoch(transactional_id) or 0
        term = self._terms[partition] = max(now, self._terms.get(partition, 0)) + 1
        records = [
            (name, record._replace(pending_state=None))
            for name in coordinator.entries
            if coordinator.state_partition_of(name) == partition
            and (record := coordinator.metadata(name)) is not None
        ]
        coordinator.resign(partition)
        coordinator.elect(partition, term, is_loading=True)

        def end() -> None:
            coordinator.end_load(partition, term, records)
            self._after_end()

        return end

    def skip_to_epoch(self, transactional_id: str, producer_epoch: int) -> None:
        """Raises the id's epoch to this one, as repeated InitProducerId requests would."""
        self.coordinator.skip_to_epoch(transactional_id, producer_epoch)

    def leader(self, partition: Any) -> PartitionLeader:
        """The leader of a partition."""
        if partition not in self.leaders:
            self.leaders[partition] = PartitionLeader(protocol=self.protocol, now_ms=self._now_ms)
        return self.leaders[partition]

    def machines(self) -> tuple[Machine, ...]:
        """The machines of a coordinator, of an entry and of a leader, in their initial states."""
        leader = PartitionLeader(protocol=self.protocol)
        return (*self.coordinator.machines(), leader.machine)

    # Requests ---------------------------------------------------------------------------------

    def init_producer_id(
        self, transactional_id: str | None, transaction_timeout_ms: int = 60_000,
        expected: tuple[int, int] | None = None, *, api_version: int | None = None,
        enable_2pc: bool = False, keep_prepared_txn: bool = False, principal: str | None = None,
        coordinator: TransactionCoordinator | None = None,
    ) -> ProducerIdAndEpoch:  # fmt: skip
        """InitProducerId. `api_version` is the request's version, here and in the other methods
        (default: that of a client of the release, at the finalized transaction version).
        `coordinator` replaces the cluster's coordinator."""
        refusal = self.authorize(
            principal,
            "InitProducerId asks",
            transactional_id=transactional_id,
            has_id=transactional_id is not None,
            enable_2pc=enable_2pc,
        )
        if refusal != "NONE":
            return ProducerIdAndEpoch(refusal)
        answer = (coordinator or self.coordinator).init_producer_id(
            transactional_id, transaction_timeout_ms, expected, api_version=api_version,
            enable_2pc=enable_2pc, keep_prepared_txn=keep_prepared_txn,
        )  # fmt: skip
        self._after_end()
        return _there(answer)

    def add_partitions(
        self, transactional_id: str | None, producer_id: int, producer_epoch: int,
        partitions: Iterable[Any], *, api_version: int | None = None, verify_only: bool = False,
        principal: str | None = None, coordinator: TransactionCoordinator | None = None,
    ) -> str:  # fmt: skip
        """AddPartitionsToTxn; returns the error. `verify_only` is for the versions that leaders
        send. Of several partitions' errors, returns the first that names a reason, in the order of
        the partitions' names."""
        refused = self.unauthorized(principal, transactional_id, partitions, api_version)
        for error in refused.values():
            if error != REFUSED_WITH_OTHERS:
                return error
        about = (transactional_id, producer_id, producer_epoch, partitions)
        recipient = coordinator or self.coordinator
        if verify_only:
            return next(iter(recipient.verify_partitions(*about).values()), "NONE")
        return recipient.add_partitions(*about, api_version=api_version) or "NONE"

    def add_offsets(
        self, transactional_id: str | None, producer_id: int, producer_epoch: int, group_id: str,
        *, api_version: int | None = None, principal: str | None = None,
        coordinator: TransactionCoordinator | None = None,
    ) -> str:  # fmt: skip
        """AddOffsetsToTxn; returns the error."""
        refusal = self.authorize(
            principal, "AddOffsetsToTxn asks", transactional_id=transactional_id, group_id=group_id
        )
        if refusal != "NONE":
            return refusal
        partition = offsets_partition(group_id)
        about = (transactional_id, producer_id, producer_epoch)
        return self.add_partitions(
            *about, [partition], api_version=api_version, coordinator=coordinator
        )

    def end_txn(
        self, transactional_id: str | None, producer_id: int, producer_epoch: int, result: str,
        *, api_version: int | None = None, principal: str | None = None,
        coordinator: TransactionCoordinator | None = None,
    ) -> ProducerIdAndEpoch:  # fmt: skip
        """EndTxn."""
        refusal = self.authorize(principal, "EndTxn asks", transactional_id=transactional_id)
        if refusal != "NONE":
            return ProducerIdAndEpoch(refusal)
        answer = (coordinator or self.coordinator).end_txn(
            transactional_id, producer_id, producer_epoch, result, api_version=api_version
        )
        self._after_end()
        return _there(answer)

    def produce(
        self, partition: Any, *, producer_id: int, producer_epoch: int, base_sequence: int,
        count: int = 1, transactional_id: str | None = None, api_version: int | None = None,
        principal: str | None = None,
    ) -> ProduceResponse:  # fmt: skip
        """Produce with a batch of `count` records; the batch is transactional if there is a
        transactional id.

        The leader verifies a transaction's first batch at the coordinator, if its release does so.
        """
        refusal = self.may_produce(
            principal,
            transactional_id,
            is_transactional=transactional_id is not None,
            is_idempotent=producer_id >= 0,
        )
        if refusal == "NONE":
            refusal = self.use_of(principal, topic_of(partition), "WRITE")
        if refusal != "NONE":
            return ProduceResponse(refusal)
        leader, version = self.leader(partition), api_version
        if version is None:
            version = _newest("Produce", leader.machine.features, self.transaction_version)
        producer: dict[str, int] = {"producer_id": producer_id, "producer_epoch": producer_epoch}
        asks = transactional_id is not None and leader.machine.value(asks_coordinator)
        about = (partition, transactional_id, version, producer, base_sequence, count)
        return self._batch(VerifiedBatch("Produce", *about), asks=asks)

    def _batch(self, batch: VerifiedBatch, *, asks: bool) -> ProduceResponse:
        """Appends a batch. If the leader asks the coordinator, it is verified before."""
        leader = self.leader(batch.partition)
        error, guard = batch.question(leader) if asks else ("NONE", None)
        if error != "NONE":
            return ProduceResponse(error)
        coordinator_error = "NONE" if guard is None else self._coordinator_error(batch)
        place = UNASKED if guard is None else VERIFICATION
        if asks and self._holds == place:
            self._holds = None
            self._held[place] = batch, coordinator_error, guard
            raise ThreadHeldError
        return self._verified(batch, coordinator_error, guard)

    def _verified(
        self, batch: VerifiedBatch, coordinator_error: str, guard: int | None
    ) -> ProduceResponse:
        """Appends a batch after its verification. `coordinator_error` is the coordinator's answer,
        or NONE without a question."""
        leader, commits = self.leader(batch.partition), batch.commits
        error = batch.verdict(leader, coordinator_error)
        if error == "NONE" and commits is not None:
            error = self.groups.may_commit_in_transaction(
                commits.group_id, commits.of, api_version=batch.api_version
            )
        if commits is not None:
            error = self.groups.told(error, batch.api_version)
        if error != "NONE":
            return ProduceResponse(error)
        answer = batch.append(leader, guard)
        if commits is not None:
            about, producer_id = (commits.group_id, commits.offsets), batch.producer["producer_id"]
            if answer.error == "NONE":
                self.groups.appended(*about, answer.base_offset, producer_id)
            else:
                self.groups.not_appended(*about, producer_id)
        return answer

    def _coordinator_error(self, batch: VerifiedBatch) -> str:
        """The coordinator's answer to a leader about a transaction's first batch."""
        name, wanted = batch.transactional_id, [batch.partition]
        held = batch.producer["producer_id"], batch.producer["producer_epoch"]
        if batch.transaction_version >= 2:
            return self.add_partitions(name, *held, wanted, api_version=api_versions.OF_BROKERS)
        return self.coordinator.verify_partitions(name, *held, wanted)[batch.partition]

    def fetch(self, partition: Any, offset: int = 0, *, committed: bool = True) -> list[Batch]:
        """The data batches from an offset on that a read_committed (`committed`) or
        read_uncommitted consumer keeps."""
        leader = self.leader(partition)
        end = leader.last_stable_offset if committed else leader.high_watermark
        batches = (b for b in leader.batches if b.last_offset >= offset and b.last_offset < end)
        return list(kept(batches, leader.aborted(offset, end)) if committed else data(batches))

    def write_marker(
        self, partition: Any, producer_id: int, producer_epoch: int, result: str,
        coordinator_epoch: int = 0, *, transaction_version: int = 0,
        api_version: int | None = None, principal: str | None = None,
    ) -> str:  # fmt: skip
        """WriteTxnMarkers for one partition; returns the error. The request has the transaction's
        version from API version 2 on (KIP-1228)."""
        refusal = self.may_write_markers(principal)
        if refusal != "NONE":
            return refusal
        if api_version is not None and api_version < api_versions.MARKERS_TELL_VERSION:
            transaction_version = 0
        return self._append_marker(
            partition, producer_id=producer_id, producer_epoch=producer_epoch, result=result,
            coordinator_epoch=coordinator_epoch, transaction_version=transaction_version,
        )  # fmt: skip

    def _append_marker(
        self, partition: Any, *, producer_id: int, result: str, **marker: int
    ) -> str:
        """Appends a marker, replicates it, and applies it to the pending offsets of groups."""
        if not self.takes_markers(partition):
            return "NOT_LEADER_OR_FOLLOWER"
        leader = self.leader(partition)
        error = leader.append_marker(producer_id=producer_id, result=result, **marker).error
        leader.move_high_watermark(leader.log_end_offset)
        if error == "NONE" and self._groups is not None:
            self._groups.transaction_ended(partition, producer_id, result)
        return error

    # A client ---------------------------------------------------------------------------------

    def serve(
        self, client: ProducerClient, *, rounds: int = 1000, principal: str | None = None
    ) -> None:
        """Answers a client's requests until it sends none, at most `rounds` times. The requests are
        those of a principal. The cluster's clock follows the client's."""
        for _ in range(rounds):
            sent = client.run()
            if client.now_ms > self._now_ms:
                self.sleep(client.now_ms - self._now_ms)
            for request in sent:
                self.answer(client, request, principal=principal)
            if not sent:
                return

    def answer(
        self, client: ProducerClient, sent: Request | Produce, *, principal: str | None = None
    ) -> None:
        """Processes a client's request, and gives the client the answer."""
        if isinstance(sent, Produce):
            produced = self.produce(
                sent.partition,
                producer_id=sent.producer_id,
                producer_epoch=sent.producer_epoch,
                base_sequence=sent.base_sequence,
                count=len(sent.records),
                transactional_id=client.transactional_id if sent.is_transactional else None,
                api_version=_sent_by(client, "Produce", sent.transaction_version),
                principal=principal,
            )
            start = self.leader(sent.partition).log_start_offset
            client.answer(
                sent, produced.error, base_offset=produced.base_offset, log_start_offset=start
            )
            return
        fields = sent.fields
        name, held = fields["transactional_id"], (fields["producer_id"], fields["producer_epoch"])
        match sent.api:
            case "INIT_PRODUCER_ID":
                given = self.init_producer_id(
                    name,
                    fields["transaction_timeout_ms"],
                    held if sent.is_bump else None,
                    api_version=_sent_by(client, "InitProducerId"),
                    principal=principal,
                )
                client.answer(sent, **given._asdict())
            case "ADD_PARTITIONS_TO_TXN":
                version = _sent_by(client, "AddPartitionsToTxn")
                wanted = fields["partitions"]
                errors = self.unauthorized(principal, name, wanted, version)
                if not errors:
                    error = self.add_partitions(name, *held, wanted, api_version=version)
                    errors = dict.fromkeys(wanted, error)
                client.answer(sent, partition_errors=errors)
            case "ADD_OFFSETS_TO_TXN":
                version = _sent_by(client, "AddOffsetsToTxn")
                about = (name, *held, fields["group_id"])
                error = self.add_offsets(*about, api_version=version, principal=principal)
                client.answer(sent, error)
            case "TXN_OFFSET_COMMIT":
                version = _sent_by(client, "TxnOffsetCommit", fields["transaction_version"])
                about = (name, *held, fields["group_id"])
                errors = self._committed(about, fields, version, principal)
                client.answer(sent, partition_errors=errors)
            case "END_TXN":
                version = _sent_by(client, "EndTxn", fields["transaction_version"])
                about = (name, *held, fields["result"])
                ended = self.end_txn(*about, api_version=version, principal=principal)
                client.answer(sent, **ended._asdict())
            case _:
                of_group = fields["key_type"] == "GROUP"
                client.answer(sent, self.may_find(principal, fields["key"], of_group=of_group))

    def _committed(
        self,
        about: tuple[str | None, int, int, str],
        fields: Mapping[str, Any],
        version: int,
        principal: str | None,
    ) -> dict[Any, str]:
        """TxnOffsetCommit's error for each partition in it."""
        name, _, _, group_id = about
        offsets = fields["offsets"]
        error = self.may_commit_offsets(principal, name, group_id)
        if error != "NONE":
            return dict.fromkeys(offsets, error)
        errors = {each: self.use_of(principal, topic_of(each), "READ") for each in offsets}
        left = {place: offsets[place] for place, refusal in errors.items() if refusal == "NONE"}
        if left:
            commit_error = self.commit_offsets(
                *about,
                offsets=left,
                member_id=fields["member_id"],
                generation_id=fields["generation"],
                group_instance_id=fields["group_instance_id"],
                api_version=version,
            )
            errors |= dict.fromkeys(left, commit_error)
        return errors

    # Groups -----------------------------------------------------------------------------------

    def commit_offsets(
        self, transactional_id: str | None, producer_id: int, producer_epoch: int, group_id: str,
        *, offsets: Mapping[Any, int] | None = None, topic: str | None = None,
        member_id: str = "", generation_id: int = -1, group_instance_id: str | None = None,
        api_version: int | None = None, principal: str | None = None,
    ) -> str:  # fmt: skip
        """TxnOffsetCommit of `offsets` by partition; returns the error. If `topic` is given, the
        principal needs READ on it. The group coordinator appends a transactional batch without
        sequence."""
        refusal = self.may_commit_offsets(principal, transactional_id, group_id)
        if refusal == "NONE" and topic is not None:
            refusal = self.use_of(principal, topic, "READ")
        if refusal == "NONE":
            refusal = self.groups.validate("TxnOffsetCommit", group_id)
        if refusal != "NONE":
            return self.groups.told(refusal, api_version)
        partition = offsets_partition(group_id)
        leader = self.leader(partition)
        if api_version is None:
            api_version = _newest(
                "TxnOffsetCommit", leader.machine.features, self.transaction_version
            )
        producer = {"producer_id": producer_id, "producer_epoch": producer_epoch}
        asks = leader.machine.value(asks_about_offsets)
        name = str(transactional_id)
        of = Identity(member_id, generation_id, group_instance_id)
        commits = GroupOffsets(group_id, of, offsets or {})
        about = (partition, name, api_version, producer, -1, 1, commits)
        return self._batch(VerifiedBatch("TxnOffsetCommit", *about), asks=asks).error

    # Threads that are held --------------------------------------------------------------------

    def hold(self, place: str, request: str) -> None:
        """Holds the thread of the next `request` at this place, if it gets there.

        The places are those of TransactionCoordinator.holds, and two more. "verification": the
        coordinator has verified a batch, and the leader hasn't received the answer. "unasked": the
        transaction is open, the leader doesn't ask the coordinator, and it hasn't appended the
        batch yet.
        """
        if place in OF_BATCHES:
            self._holds = place
        else:
            self.coordinator.holds = place
            self._held[place] = request

    def not_held(self, place: str) -> None:
        """Ends a `hold` whose place no thread has reached."""
        self._holds = self.coordinator.holds = None
        if place not in (*OF_BATCHES, *self.coordinator.held):
            self._held.pop(place, None)

    def held(self) -> tuple[str, ...]:
        """The places where threads are held."""
        return tuple(sorted(self._held))

    def release(self, place: str) -> tuple[str, Any]:
        """Continues the thread that is held at this place. Returns the name of its request and the
        answer; None: it was answered before. Raises NotNowError if no thread is held there."""
        if place in OF_BATCHES and place in self._held:
            batch, coordinator_error, guard = self._held.pop(place)
            return batch.request, self._verified(batch, coordinator_error, guard)
        sent = self.coordinator.release(place)
        self._after_end()
        return self._held.pop(place), sent[0] if sent else None

    # Markers ------------------------------------------------------------------------------------

    def _after_end(self) -> None:
        if not self.holds_markers:
            self.deliver_markers()

    def deliver_markers(self) -> None:
        """Sends all due markers to their leaders, and completes the transactions that wait for
        nothing else. From 4.0 on, markers to a loading partition of `__consumer_offsets` wait."""
        while due := [each for each in self.due() if self.takes_markers(each[1])]:
            for marker, partition in due:
                self.deliver(marker, partition)
        for transactional_id in self.to_complete() if self.holds_markers else ():
            self.complete(transactional_id)

    def due(self) -> list[tuple[Marker, Any]]:
        """The markers that wait to be written, each with one of its partitions."""
        for markers in self.coordinator.drain_markers().values():
            self._due += ((m, part) for m in markers for part in sorted(m.partitions, key=str))
        return list(self._due)

    def deliver(self, marker: Marker, partition: Any, *, completes: bool = True) -> None:
        """Sends a marker of `due`. The last marker of a transaction also completes the transaction
        if `completes`; else `complete` does."""
        self._due.remove((marker, partition))
        error = self._append_marker(
            partition,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            result=marker.result,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
        )
        is_held = self.coordinator.is_held(marker.transactional_id)
        append = "NONE" if completes and not is_held else PENDING
        self.coordinator.markers_answered(marker, {partition: error}, append=append)

    def to_complete(self) -> list[str]:
        """The ids whose transaction has all markers and isn't completed yet."""
        entries = self.coordinator.entries.items()
        is_held = self.coordinator.is_held
        return [
            name
            for name, entry in entries
            if entry.may("log append") is not None and not is_held(name)
        ]

    def complete(self, transactional_id: str) -> None:
        """Completes the transaction of an id in `to_complete`."""
        self.coordinator.entries[transactional_id].handle("log append")


def _sent_by(client: ProducerClient, request: str, transaction_version: int = 0) -> int:
    """The newest version of a request that the client knows."""
    return _newest(request, client.machine.features, transaction_version)


def _newest(request: str, features: frozenset[str], transaction_version: int) -> int:
    older = api_versions.before(transaction_version)
    return api_versions.newest(request, features.difference(older))


def _there(answer: ProducerIdAndEpoch | None) -> ProducerIdAndEpoch:
    assert answer is not None  # every record is acknowledged at once
    return answer
