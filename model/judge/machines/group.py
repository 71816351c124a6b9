"""The coordinator that judges histories of a group's offset of one partition, with its own steps
between requests.

The rows have Kafka's behaviour. A history leaves open the group's members, and other records of its
log: a producer may have committed offsets of other partitions and groups before.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, Final

from ....spec.coordinator import tables
from ....spec.groups.tables import DRIVEN, DRIVEN_OFFSETS
from ....spec.leader.tables import DRIVEN as LEADER_TABLES
from ....spec.leader.verification import asks_about_offsets_now
from ....spec.releases import api_versions
from ....spec.releases.features import KAFKA
from ....spec.releases.group_features import group_coordinator_service
from ...broker.group_coordinator import KNOWS_NOT_FOUND
from ...broker.leader import PartitionLeader
from ...broker.producer_state_manager import TxnMetadata
from ...engine.machine import Machine, Taken, watched
from ..operations import Operation, Rest, Settings, matches
from .coordinator import LARGEST_EPOCH, answers_of, frozen, shallow, versions_of
from .decisions import RESULTS, AtPartition
from .unjudged_answers import from_around

_MEMBERS: Final = {
    "OffsetCommit": "OffsetCommit",
    "TxnOffsetCommit": "TxnOffsetCommit for the group",
}
"""The events that check the sender of a commit."""
_END: Final = 1  # the offset of each appended batch: no answer depends on it


@lru_cache(maxsize=1_000)
def of_members(
    protocol: str, request: str, member: str, instance: str | None, generation: int, knows: bool
) -> frozenset[str]:
    """The answers to a commit of this sender, in all possible states of the group."""
    machine = Machine(DRIVEN, KAFKA, protocol=protocol)
    sender: dict[str, Any] = {
        "member": member or None,
        "instance": instance,
        "generation": generation,
        "knows_not_found": knows,
    }
    me, other = member or "(a member)", "(another member)"
    found: set[str] = set()
    states = product(
        (False, True),
        ("EMPTY", "PREPARING_REBALANCE", "COMPLETING_REBALANCE", "STABLE"),
        ({me}, {other}, {me, other}),
        (max(generation, 1), max(generation, 1) - 1),
        (None, me, other),
    )
    for is_known, status, members, now, holder in states:
        there = frozenset[str]() if status == "EMPTY" or not is_known else frozenset(members)
        machine.put(
            is_known=is_known,
            status=status if is_known else "EMPTY",
            members=there,
            generation=now if is_known else 0,
        )
        if instance is not None:
            machine.put(static_members={} if holder is None else {instance: holder})
        found.add(str(machine.copy().handle(_MEMBERS[request], **sender).reply.error))
    return frozenset(found)


class Offset:
    """A group's offset of one partition at its coordinator.

    Its own steps: markers end transactions, a thread completes their offsets, another broker takes
    over, and producers or the offset of an empty group expire. `staged` is a commit whose record is
    being appended; OffsetFetch sees that one is.
    """

    def __init__(
        self, operations: Sequence[Operation], settings: Settings, about: AtPartition | None = None
    ) -> None:
        self.about, self.protocol = about, settings.protocol
        self.offset = Machine(DRIVEN_OFFSETS, KAFKA, protocol=settings.protocol)
        self.log = self.offset.copy()
        self.leader = PartitionLeader(
            protocol=settings.protocol,
            verification=settings.verification,
            producer_id_expiration_ms=settings.producer_id_expiration_ms,
            max_transaction_timeout_ms=settings.transaction_max_timeout_ms,
        )
        machine = self.leader.machine
        self.verifies = settings.verification
        self.asks = bool(machine.value(asks_about_offsets_now))
        self.adds = "transaction_version_2" in machine.features
        self.stages = not self.offset.value(group_coordinator_service) and any(
            (o.response or {}).get("error") == "UNSTABLE_OFFSET_COMMIT" for o in operations
        )
        self.producers: Mapping[int, Any] = {}
        self.staged: Operation | None = None
        epochs: dict[int, set[int]] = {}
        commits = [o for o in operations if o.request == "TxnOffsetCommit"]
        for operation in commits:
            fields = operation.fields
            epochs.setdefault(fields["producer_id"], set()).add(fields["producer_epoch"])
        self.epochs = epochs
        self.versions = list(dict.fromkeys(map(_version, commits)))
        self.began = min((o.start for o in operations), default=0)
        self.expiration_ms = settings.producer_id_expiration_ms
        self.retention_ms = settings.offsets_retention_ms
        self._key: Hashable = None

    def is_decided(self, request: str, error: str) -> bool:
        """See Judged."""
        return error not in from_around(request, self.protocol)

    def errors(self, request: str) -> frozenset[str]:
        """See Judged."""
        found = from_around(request, self.protocol) | {"NONE"}
        if request == "OffsetFetch":
            return found | answers_of(DRIVEN_OFFSETS, self.protocol, request)
        found |= answers_of(DRIVEN, self.protocol, request, _MEMBERS[request])
        if request == "TxnOffsetCommit":
            found |= answers_of(LEADER_TABLES, self.protocol, "Produce")
            found |= {e for v in self._versions() for e in _relayed(self.protocol, v)}
        return found

    def _versions(self) -> tuple[int | None, ...]:
        return versions_of("TxnOffsetCommit", self.leader.machine.features)

    def open(self) -> Iterable[str]:
        """See Judged."""
        return ()

    def against(self, operation: Operation) -> str:
        """See Judged."""
        if self.about is None or operation.request != "TxnOffsetCommit":
            return ""
        is_added = not (self.asks and self.verifies) or self._may_be_added(operation)
        return "" if is_added else self.about.against_batch(operation)

    def rank(self, operation: Operation) -> float:
        """See Judged."""
        return 0

    def is_idle(self, operation: Operation) -> bool:
        """See Judged. A sender that isn't a member is refused before any other check."""
        response = operation.response
        if response is None or response["error"] == "NONE" or operation.request == "OffsetFetch":
            return False
        return response["error"] in self._of_members(operation)

    def may_still(self, operations: Iterable[Operation]) -> bool:
        """See Judged."""
        return True

    @property
    def size(self) -> int:
        """See Judged."""
        return 1

    def read(self, operation: Operation) -> Operation:
        """See Judged."""
        return operation

    def key(self) -> Hashable:
        """See Judged."""
        if self._key is None:
            producers = frozenset(self.producers.items())
            here, log = (m.kept(frozenset(), frozen) for m in (self.offset, self.log))
            self._key = here, log, producers, None if self.staged is None else id(self.staged)
        return self._key

    def outcomes(self, operation: Operation) -> Iterator[tuple[Offset, bool]]:
        """See Judged."""
        for after, answer in self._all(operation):
            if matches(operation.response, answer):
                yield after, True
        if self.stages and self.staged is None and operation.request != "OffsetFetch":
            after = self._copy()
            after.staged = operation
            yield after, False

    def answers(self, operation: Operation) -> Iterator[Mapping[str, Any]]:
        """See Judged."""
        return (answer for _, answer in self._all(operation))

    def rows(self, operation: Operation | None, answer: Mapping[str, Any]) -> Sequence[Taken]:
        """See Judged."""
        operation = operation or self.staged
        with watched() as taken:
            for _, given in self._all(operation) if operation is not None else ():
                if given == answer:
                    break
                taken.clear()
        return taken

    # Requests -----------------------------------------------------------------------------------

    def _all(self, operation: Operation) -> Iterator[tuple[Offset, Mapping[str, Any]]]:
        fields = operation.fields
        if operation.request == "OffsetFetch":
            stable = bool(fields.get("require_stable", False))
            if self.staged is not None and stable and self._hides_staged():
                yield self, {"error": "UNSTABLE_OFFSET_COMMIT", "offset": -1}
            here = self.offset.copy()  # without the `staged` commit
            fetched = here.handle("OffsetFetch", require_stable=stable, is_writing=False).reply
            offset = -1 if fetched.committed is None else fetched.committed.offset
            yield self, {"error": fetched.error, "offset": offset}
            return
        if operation.request == "OffsetCommit":
            if "NONE" in self._of_members(operation):
                after = self._copy()
                after._append("offset appended", offset=fields["offset"])
                yield after, {"error": "NONE"}
        else:
            yield from self._in_transaction(operation)
        for error in sorted(self._of_members(operation) - {"NONE"}):
            yield self, {"error": error}

    def _hides_staged(self) -> bool:
        """Whether a staged commit makes OffsetFetch unstable, as a transaction's pending offset
        does."""
        probe = self.offset.copy()
        probe.handle("offset of a transaction appended", producer_id=0, offset=0, appended=0)
        fetched = probe.handle("OffsetFetch", require_stable=True, is_writing=False).reply
        return fetched.error != "NONE"

    def _of_members(self, operation: Operation) -> frozenset[str]:
        fields = operation.fields
        version = fields.get("api_version")
        return of_members(
            self.protocol,
            operation.request,
            fields.get("member_id", ""),
            fields.get("group_instance_id"),
            fields.get("generation_id", -1),
            version is None or version >= KNOWS_NOT_FOUND[operation.request],
        )

    def _in_transaction(self, operation: Operation) -> Iterator[tuple[Offset, Mapping[str, Any]]]:
        """TxnOffsetCommit: a batch in the log of the group's offsets. The leader may verify it at
        the transaction's coordinator."""
        yield from self._by_leader(operation, self._leader())
        until = float("inf") if operation.end is None else operation.end
        if until - self.began >= self.expiration_ms and self.producers:
            leader = self._leader()
            leader.expire_producers()
            yield from self._by_leader(operation, leader)

    def _by_leader(
        self, operation: Operation, leader: PartitionLeader
    ) -> Iterator[tuple[Offset, Mapping[str, Any]]]:
        fields, version = operation.fields, _version(operation)
        held = {"producer_id": fields["producer_id"], "producer_epoch": fields["producer_epoch"]}
        guard, is_added = None, True
        if self.asks:
            error, guard = leader.maybe_start_transaction_verification(
                **held, base_sequence=-1, transaction_version=version
            )
            if error != "NONE":
                yield self, {"error": error}
                return
            if guard is not None:
                is_added = self._may_be_added(operation)
                for error in _relayed(self.protocol, fields.get("api_version")):
                    yield self, {"error": error}
        if is_added and "NONE" in self._of_members(operation):
            answer = leader.append(
                **held, base_sequence=-1, count=1, guard=guard, transactional=True,
                origin="COORDINATOR", transaction_version=version,
            )  # fmt: skip
            yield self._after(leader, answer.error, fields), {"error": answer.error}
        if self._may_be_fenced(operation):
            yield from ((self, {"error": error}) for error in self._fenced(held, version))

    def _after(self, leader: PartitionLeader, error: str, fields: Mapping[str, Any]) -> Offset:
        after = self._copy()
        if error == "NONE":
            after._keep(leader)
            after._append(
                "offset of a transaction appended",
                producer_id=fields["producer_id"],
                offset=fields["offset"],
            )
        else:
            refused = "offset of a transaction refused"
            after.offset.handle(refused, producer_id=fields["producer_id"])
        return self if after.key() == self.key() else after

    def _fenced(self, held: Mapping[str, int], version: int | None) -> Iterator[str]:
        """The answers of a leader that knows a later epoch of the producer."""
        leader = self._leader()
        later = {**held, "producer_epoch": held["producer_epoch"] + 1}
        leader.append(**later, base_sequence=-1, count=1, transactional=True, origin="REPLICATION")
        if self.asks:
            error, guard = leader.maybe_start_transaction_verification(
                **held, base_sequence=-1, transaction_version=version
            )
            if error != "NONE":
                yield error
                return
        else:
            guard = None
        yield leader.append(
            **held, base_sequence=-1, count=1, guard=guard, transactional=True,
            origin="COORDINATOR", transaction_version=version,
        ).error  # fmt: skip

    def _may_be_fenced(self, operation: Operation) -> bool:
        """Whether the leader may know a later epoch of the producer, from a request of another
        key."""
        fields = operation.fields
        held = fields["producer_id"], fields["producer_epoch"]
        if held[1] >= LARGEST_EPOCH:
            return False
        until = float("inf") if operation.end is None else operation.end
        return self.about is None or self.about.may_be_later(*held, until)

    def _may_be_added(self, operation: Operation) -> bool:
        """Whether the coordinator may confirm that the partition of offsets is in the transaction.
        In version 2 the request itself adds it. The transaction may have begun long before."""
        version = _version(operation)
        if self.about is None or (self.adds if version is None else version >= 2):
            return True
        held = operation.fields["producer_id"], operation.fields["producer_epoch"]
        return self.about.may_be_added(*held, float("-inf"), operation.end)

    # State ----------------------------------------------------------------------------------------

    def _copy(self) -> Offset:
        made = shallow(self)
        made.offset, made.log, made._key = self.offset.copy(), self.log.copy(), None
        return made

    def _leader(self) -> PartitionLeader:
        """The leader of the partition of offsets, as far as this key's requests show it."""
        leader = self.leader.copy()
        leader.machine.put(producers=dict(self.producers), log_end_offset=_END)
        leader.producer_state_manager.ongoing_txns = [
            TxnMetadata(0, producer_id)
            for producer_id, entry in self.producers.items()
            if entry.current_txn_first_offset is not None
        ]
        return leader

    def _keep(self, leader: PartitionLeader) -> None:
        """Keeps the producers of this leader, without the offsets of their batches."""
        self.producers = {
            producer_id: entry._replace(
                current_txn_first_offset=None if entry.current_txn_first_offset is None else 0,
                last_timestamp=0,
                batch_metadata=(),
                coordinator_epoch=-1,
            )
            for producer_id, entry in leader.producers.items()
        }
        self._key = None

    def _append(self, event: str, **fields: Any) -> None:
        """Appends an offset after all others in the log. Places in the log count from 0."""
        places = sorted({place for m in (self.offset, self.log) for place in _places(m)})
        numbers = {place: at for at, place in enumerate(places)}
        for machine in (self.offset, self.log):
            _renumber(machine, numbers)
            machine.handle(event, **fields, appended=len(places))
        self._key = None

    # Own steps ------------------------------------------------------------------------------------

    def events(
        self, since: float, until: float, rest: Rest | None = None
    ) -> Iterator[tuple[Offset, Mapping[str, Any] | None] | None]:
        """See Judged."""
        if self.staged is not None:
            before = self._copy()
            before.staged = None
            yield from before._all(self.staged)
        for after in self._steps(until):
            yield None if after is None or after.key() == self.key() else (after, None)

    def _steps(self, until: float) -> Iterator[Offset | None]:
        for producer_id, seen in self.epochs.items():
            entry = self.producers.get(producer_id)
            lowest = min(seen) if entry is None else entry.producer_epoch
            later = sorted(epoch for epoch in seen if epoch > lowest)
            highest = min(max(seen) + 1, LARGEST_EPOCH)  # later ones fence alike
            for epoch in sorted({lowest, lowest + 1, *later[:2], *(e + 1 for e in later[:1])}):
                if epoch <= highest:
                    yield from self._marked(producer_id, epoch, until)
        after = self._copy()
        if after.offset.attempt("complete pending offsets") is not None:
            yield after
        after = self._copy()
        after.offset = after.log.copy()
        yield after
        if until - self.began >= self.retention_ms:
            after = self._copy()
            for machine in (after.offset, after.log):
                machine.put(committed=None)
            yield after

    def _marked(self, producer_id: int, epoch: int, until: float) -> Iterator[Offset | None]:
        """The states after a marker, for each result that may have been decided."""
        for result in RESULTS:
            if self.about and not self.about.may_mark(producer_id, epoch, until, (result,)):
                continue
            for version in self.versions:
                leader = self._leader()
                answer = leader.append_marker(
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    result=result,
                    transaction_version=version,
                )
                if answer.error != "NONE":
                    continue
                after = self._copy()
                after._keep(leader)
                # a marker that ends nothing changes no later answer
                if after.producers != self.producers or self.log.at("pending", producer_id):
                    said: dict[str, Any] = {"producer_id": producer_id, "result": result}
                    after.log.handle("transaction ended", **said, heard="READ")
                    after.offset.handle("transaction ended", **said, heard="REPLICATED")
                    yield after
                break


@lru_cache(maxsize=100)
def _relayed(protocol: str, api_version: int | None) -> tuple[str, ...]:
    """The answers to a TxnOffsetCommit of this version that the transaction's coordinator has
    refused."""
    leader = PartitionLeader(protocol=protocol)
    refusals = answers_of(tables.DRIVEN, protocol, "TxnOffsetCommit", "AddPartitionsByLeader")
    found = {
        leader.verdict(error, origin="COORDINATOR", api_version=api_version)
        for error in refusals - {"NONE"}
    }
    return tuple(sorted(found - from_around("TxnOffsetCommit", protocol)))


def _version(operation: Operation) -> int | None:
    """The transaction version of a TxnOffsetCommit; None if its API version isn't recorded."""
    api_version = operation.fields.get("api_version")
    return (
        None
        if api_version is None
        else api_versions.transaction_version("TxnOffsetCommit", api_version)
    )


def _places(machine: Machine) -> Iterator[int]:
    """The places in the log of all offsets in a machine."""
    held = [machine["committed"], *machine["pending"].values()]
    return (one.appended for one in held if one is not None and one.appended is not None)


def _renumber(machine: Machine, numbers: Mapping[int, int]) -> None:
    def moved(one: Any) -> Any:
        if one is None or one.appended is None:
            return one
        return one._replace(appended=numbers[one.appended])

    pending = {key: moved(one) for key, one in machine["pending"].items()}
    machine.put(committed=moved(machine["committed"]), pending=pending)
