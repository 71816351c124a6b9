"""The offsets of consumer groups: OffsetCommit, OffsetFetch, TxnOffsetCommit and DeleteGroups.

Whether an offset that was committed in a transaction counts is read in the log of the offsets'
partition, where the oracle's leader has taken it and a marker ends it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..cluster import Cluster, offsets_partition
from .groups import COMPLETING, EMPTY, GroupApis
from .partitions import Partitions
from .wire import Answer, Request

Place = tuple[str, int]


class Committed(NamedTuple):
    """An offset of a group, and where in the log it stands."""

    offset: int
    leader_epoch: int
    metadata: str | None
    at: int


@dataclass
class _Log:
    """What a partition of offsets has come to, read up to batch `read`: by group and place, and by
    producer id what is open."""

    read: int = 0
    stable: dict[str, dict[Place, Committed]] = field(
        default_factory=dict[str, dict[Place, Committed]]
    )
    open: dict[int, dict[tuple[str, Place], Committed]] = field(
        default_factory=dict[int, dict[tuple[str, Place], Committed]]
    )

    def keep(self, group_id: str, place: Place, committed: Committed) -> None:
        """An offset counts from now on, unless a later one does."""
        of = self.stable.setdefault(group_id, {})
        if place not in of or of[place].at < committed.at:
            of[place] = committed


class OffsetApis:
    """The answers of the brokers that keep offsets."""

    def __init__(self, cluster: Cluster, partitions: Partitions, groups: GroupApis) -> None:
        self._cluster, self._partitions, self._groups = cluster, partitions, groups
        self._logs: dict[str, _Log] = {}
        self.answers: Mapping[str, Callable[[Request], Answer]] = {
            "OffsetCommit": self.commit,
            "OffsetFetch": self.fetch,
            "TxnOffsetCommit": self.commit_in_transaction,
            "DeleteGroups": self.delete,
        }

    def _log(self, group_id: str) -> _Log:
        """The log that has a group's offsets, read to its end."""
        partition = offsets_partition(group_id)
        log = self._logs.setdefault(partition, _Log())
        batches = self._cluster.leader(partition).batches
        for batch in batches[log.read :]:
            if batch.kind == "marker":
                for (name, place), committed in log.open.pop(batch.producer_id, {}).items():
                    if batch.result == "COMMIT":
                        log.keep(name, place, committed)
        log.read = len(batches)
        return log

    def delete_topic(self, topic: str) -> None:
        """The offsets of a topic that is gone are gone."""
        for log in self._logs.values():
            for stable in log.stable.values():
                for place in [place for place in stable if place[0] == topic]:
                    del stable[place]
            for open_ in log.open.values():
                for name, place in [key for key in open_ if key[1][0] == topic]:
                    del open_[name, place]

    def commit(self, request: Request) -> Answer:
        """OffsetCommit."""
        asked = request.fields
        group_id = asked["group_id"]
        refused = self._cluster.use_of_group(request.principal, group_id, "READ")

        def decide() -> str:
            return self._groups.elsewhere(request, group_id) or self._refusal(asked)

        def keep(place: Place, part: Mapping[str, Any]) -> None:
            leader = self._cluster.leader(offsets_partition(group_id))
            at = leader.log_end_offset
            leader.append_plain(1)
            leader.move_high_watermark(leader.log_end_offset)
            self._log(group_id).keep(group_id, place, _committed(part, at))

        return self._answer(request, refused, decide, keep)

    def _refusal(self, asked: Mapping[str, Any], *, in_transaction: bool = False) -> str:
        """What is told to who may not commit for a group (GroupMetadata.validateOffsetCommit)."""
        member_id, generation = asked.get("member_id", ""), _generation(asked)
        group = self._groups.groups.get(asked["group_id"])
        is_plain = generation < 0 and not member_id
        if group is None:
            return "NONE" if generation < 0 else "ILLEGAL_GENERATION"
        if is_plain and (in_transaction or group.state == EMPTY):
            return "NONE"
        error = group.refusal(member_id, generation, asked.get("group_instance_id"))
        if error == "NONE":
            group.members[member_id].seen = time.monotonic()
            if group.state == COMPLETING and not in_transaction:
                return "REBALANCE_IN_PROGRESS"
        return error

    def commit_in_transaction(self, request: Request) -> Answer:
        """TxnOffsetCommit: the oracle says whether the transaction may."""
        asked = request.fields
        group_id = asked["group_id"]
        at = self._cluster.leader(offsets_partition(group_id)).log_end_offset
        name = asked["transactional_id"]
        refused = self._cluster.may_commit_offsets(request.principal, name, group_id)

        def decide() -> str:
            error = self._groups.elsewhere(request, group_id)
            error = error or self._refusal(asked, in_transaction=True)
            if error != "NONE":
                return error
            return self._cluster.commit_offsets(
                name, asked["producer_id"], asked["producer_epoch"], group_id,
                api_version=request.version,
            )  # fmt: skip

        def keep(place: Place, part: Mapping[str, Any]) -> None:
            mine = self._log(group_id).open.setdefault(asked["producer_id"], {})
            mine[group_id, place] = _committed(part, at)

        return self._answer(request, refused, decide, keep)

    def _answer(
        self, request: Request, refused: str, decide: Callable[[], str],
        keep: Callable[[Place, Mapping[str, Any]], None],
    ) -> Answer:  # fmt: skip
        """The answer to a commit, by partition: who may not commit at all is `refused`; where there
        is a partition that he may read, `decide` is asked of the group; what has no error is
        kept."""
        asked = request.fields
        parts = [(topic["name"], part) for topic in asked["topics"] for part in topic["partitions"]]
        errors = {
            (name, part["partition_index"]): refused
            if refused != "NONE"
            else self._unread(request, name, part["partition_index"])
            for name, part in parts
        }
        decided = decide() if "NONE" in errors.values() else "NONE"
        told: dict[str, list[dict[str, Any]]] = {topic["name"]: [] for topic in asked["topics"]}
        for name, part in parts:
            place = name, part["partition_index"]
            error = decided if errors[place] == "NONE" else errors[place]
            if error == "NONE":
                keep(place, part)
            told[name].append({"partition_index": place[1], "error_code": error})
        return Answer({"topics": [{"name": n, "partitions": p} for n, p in told.items()]})

    def _unread(self, request: Request, topic: str, number: int) -> str:
        """Why nobody commits an offset of a partition, or NONE: it may not be read, or isn't
        there."""
        error = self._cluster.use_of(request.principal, topic, "READ")
        is_there = self._partitions.has(topic, number)
        return error if error != "NONE" or is_there else "UNKNOWN_TOPIC_OR_PARTITION"

    def fetch(self, request: Request) -> Answer:
        """OffsetFetch. With `require_stable` what a transaction may still change isn't told."""
        asked = request.fields
        group_id, wanted = asked["group_id"], asked["topics"]
        error = self._groups.refusal(request, group_id)
        if error is not None:
            return Answer({"error_code": error})
        log = self._log(group_id)
        stable = log.stable.get(group_id, {})
        is_open = {place for of in log.open.values() for name, place in of if name == group_id}
        unseen = {
            topic: error
            for topic in {place[0] for place in (*stable, *is_open)} | _topics(wanted)
            if (error := self._cluster.use_of(request.principal, topic, "DESCRIBE")) != "NONE"
        }
        if wanted is None:
            places = sorted(place for place in {*stable, *is_open} if place[0] not in unseen)
        else:
            places = [(t["name"], number) for t in wanted for number in t["partition_indexes"]]
        topics: dict[str, list[dict[str, Any]]] = {}
        for place in places:
            waits = asked.get("require_stable", False) and place in is_open
            known = stable.get(place, Committed(-1, -1, "", -1))
            error = unseen.get(place[0], "UNSTABLE_OFFSET_COMMIT" if waits else "NONE")
            if error != "NONE":
                known = Committed(-1, -1, "", -1)
            topics.setdefault(place[0], []).append(
                {"partition_index": place[1], "committed_offset": known.offset,
                 "committed_leader_epoch": known.leader_epoch, "metadata": known.metadata,
                 "error_code": error}
            )  # fmt: skip
        return Answer({"topics": [{"name": n, "partitions": p} for n, p in topics.items()]})

    def delete(self, request: Request) -> Answer:
        """DeleteGroups."""
        told: list[dict[str, Any]] = []
        for name in request.fields["groups_names"]:
            group, log = self._groups.groups.get(name), self._log(name) if name else _Log()
            error = self._groups.refusal(request, name)
            if error is None and group is not None and group.state != EMPTY:
                error = "NON_EMPTY_GROUP"
            if error is None and group is None and name not in log.stable:
                error = "GROUP_ID_NOT_FOUND"
            if error is None:
                self._groups.groups.pop(name, None)
                log.stable.pop(name, None)
            told.append({"group_id": name, "error_code": error or "NONE"})
        return Answer({"results": told})


def _topics(wanted: Iterable[Mapping[str, Any]] | None) -> set[str]:
    return {topic["name"] for topic in wanted or ()}


def _generation(asked: Mapping[str, Any]) -> int:
    """Of OffsetCommit it has a longer name than of TxnOffsetCommit."""
    return asked.get("generation_id_or_member_epoch", asked.get("generation_id", -1))


def _committed(part: Mapping[str, Any], at: int) -> Committed:
    epoch = part.get("committed_leader_epoch", -1)
    return Committed(part["committed_offset"], epoch, part["committed_metadata"], at)
