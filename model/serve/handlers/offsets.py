"""The offsets of consumer groups: OffsetCommit, OffsetFetch and TxnOffsetCommit.

The cluster decides who may commit, and the answers. This module keeps the details that go with an
offset on the wire, by the offset's place in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...broker.group_messages import Committed
from ...cluster import Cluster, offsets_partition
from ...wire.listener import Answer, Request
from .groups import GroupApis, identity
from .partitions import Partitions

Place = tuple[str, int]


class Details(NamedTuple):
    """A client's data about an offset that it committed."""

    leader_epoch: int = -1
    metadata: str | None = ""


class OffsetApis:
    """The answers of the brokers that keep offsets."""

    def __init__(self, cluster: Cluster, partitions: Partitions, groups: GroupApis) -> None:
        self._cluster, self._partitions, self._groups = cluster, partitions, groups
        self._details: dict[tuple[str, Place, int], Details] = {}
        self.answers: Mapping[str, Callable[[Request], Answer]] = {
            "OffsetCommit": self.commit,
            "OffsetFetch": self.fetch,
            "TxnOffsetCommit": self.commit_in_transaction,
        }

    def delete_topic(self, topic: str) -> None:
        """The offsets of a topic that is gone are gone."""
        self._cluster.groups.forget(lambda place: place[0] == topic)

    def commit(self, request: Request) -> Answer:
        """OffsetCommit."""
        asked = request.fields
        refused = self._cluster.use_of_group(request.principal, asked["group_id"], "READ")

        def kept(offsets: Mapping[Place, int]) -> str:
            return self._cluster.commit_group_offsets(
                asked["group_id"], offsets, **identity(asked)._asdict(),
                api_version=request.version,
            )  # fmt: skip

        return self._committed(request, refused, kept)

    def commit_in_transaction(self, request: Request) -> Answer:
        """TxnOffsetCommit."""
        asked = request.fields
        name, group_id = asked["transactional_id"], asked["group_id"]
        refused = self._cluster.may_commit_offsets(request.principal, name, group_id)

        def kept(offsets: Mapping[Place, int]) -> str:
            return self._cluster.commit_offsets(
                name, asked["producer_id"], asked["producer_epoch"], group_id, offsets=offsets,
                **identity(asked)._asdict(), api_version=request.version,
            )  # fmt: skip

        return self._committed(request, refused, kept)

    def _committed(
        self, request: Request, refused: str, kept: Callable[[Mapping[Place, int]], str]
    ) -> Answer:
        """The answer to a commit, by partition. `refused` is the error of every partition, or NONE.
        A partition that doesn't exist or may not be read has its own error. The group decides about
        the rest."""
        asked, group_id = request.fields, request.fields["group_id"]
        given = {
            (topic["name"], part["partition_index"]): part
            for topic in asked["topics"]
            for part in topic["partitions"]
        }
        errors = {
            place: refused if refused != "NONE" else self._unread(request, *place)
            for place in given
        }
        left = {place: part for place, part in given.items() if errors[place] == "NONE"}
        if left:
            at = self._cluster.leader(offsets_partition(group_id)).log_end_offset
            error = self._groups.elsewhere(request, group_id)
            if error == "NONE":
                error = kept({place: part["committed_offset"] for place, part in left.items()})
            errors |= dict.fromkeys(left, error)
            for place, part in left.items() if error == "NONE" else ():
                epoch = part.get("committed_leader_epoch", -1)
                self._details[group_id, place, at] = Details(epoch, part["committed_metadata"])
        told: dict[str, list[dict[str, Any]]] = {topic["name"]: [] for topic in asked["topics"]}
        for (name, number), error in errors.items():
            told[name].append({"partition_index": number, "error_code": error})
        return Answer({"topics": [{"name": n, "partitions": p} for n, p in told.items()]})

    def _unread(self, request: Request, topic: str, number: int) -> str:
        """Why nobody commits an offset of a partition, or NONE: it may not be read, or isn't
        there."""
        error = self._cluster.use_of(request.principal, topic, "READ")
        is_there = self._partitions.has(topic, number)
        return error if error != "NONE" or is_there else "UNKNOWN_TOPIC_OR_PARTITION"

    def fetch(self, request: Request) -> Answer:
        """OffsetFetch. With `require_stable` the answer leaves out offsets that a transaction
        may still change."""
        asked = request.fields
        group_id, wanted = asked["group_id"], asked["topics"]
        error = self._groups.refusal(request, group_id)
        if error != "NONE":
            return Answer({"error_code": error})
        if wanted is not None:
            places = [(t["name"], number) for t in wanted for number in t["partition_indexes"]]
        else:
            known = sorted(self._cluster.groups.places(group_id))
            places = [place for place in known if self._unseen(request, place[0]) == "NONE"]
        topics: dict[str, list[dict[str, Any]]] = {}
        for place in places:
            error = self._unseen(request, place[0])
            found = Committed(error)
            if error == "NONE":
                stable = asked.get("require_stable", False)
                found = self._cluster.fetch_offset(group_id, place, require_stable=stable)
            said = self._details.get((group_id, place, found.appended), Details())
            topics.setdefault(place[0], []).append(
                {"partition_index": place[1], "committed_offset": found.offset,
                 "committed_leader_epoch": said.leader_epoch, "metadata": said.metadata,
                 "error_code": found.error}
            )  # fmt: skip
        return Answer({"topics": [{"name": n, "partitions": p} for n, p in topics.items()]})

    def _unseen(self, request: Request, topic: str) -> str:
        return self._cluster.use_of(request.principal, topic, "DESCRIBE")
