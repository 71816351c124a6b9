"""The offsets of consumer groups: OffsetCommit, OffsetFetch, OffsetDelete and TxnOffsetCommit.

The cluster decides the answers. This module keeps the other data of an offset on the wire, by the
offset's place in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ....spec.releases.features import RELEASED
from ...broker.group_messages import Committed, Identity
from ...cluster import Cluster, offsets_partition
from ...wire.listener import Answer, Request
from ..settings import Settings
from .consumer_groups import ConsumerGroupApis
from .groups import GroupApis, identity
from .partitions import Partitions

Place = tuple[str, int]


class Details(NamedTuple):
    """A client's data with a committed offset."""

    leader_epoch: int = -1
    metadata: str = ""


class OffsetApis:
    """The answers of group coordinators about offsets."""

    def __init__(
        self, cluster: Cluster, partitions: Partitions, groups: GroupApis,
        consumer_groups: ConsumerGroupApis, settings: Settings,
    ) -> None:  # fmt: skip
        self._consumer_groups = consumer_groups
        self._cluster, self._partitions, self._groups = cluster, partitions, groups
        self._settings = settings
        self._drops_empty = RELEASED.index(cluster.protocol) < RELEASED.index("4.0.0")
        """Whether a group without members is removed with its last offset
        (GroupMetadataManager.cleanupGroupMetadata)."""
        self.details: dict[tuple[str, Place], dict[int, Details]] = {}
        """The details by group and partition, then by the offset's place in the log."""
        self.answers: Mapping[str, Callable[[Request], Answer]] = {
            "OffsetCommit": self.commit,
            "OffsetFetch": self.fetch,
            "OffsetDelete": self.delete,
            "TxnOffsetCommit": self.commit_in_transaction,
        }

    def delete_topic(self, topic: str) -> None:
        """Removes the offsets of a deleted topic."""
        self._forget(lambda place: place[0] == topic)

    def _forget(self, is_gone: Callable[[Place], bool], group_id: str | None = None) -> None:
        """Removes the offsets of these partitions, for one group or all."""
        self._cluster.groups.forget(is_gone, group_id)
        for group, place in [*self.details]:
            if group_id in (None, group) and is_gone(place):
                del self.details[group, place]

    def commit(self, request: Request) -> Answer:
        """OffsetCommit."""
        body = request.fields
        refused = self._cluster.use_of_group(request.principal, body["group_id"], "READ")

        def kept(offsets: Mapping[Place, int]) -> str:
            error, of = self._consumer_groups.check(body["group_id"], identity(body), request)
            if error != "NONE":
                return error
            return self._cluster.commit_group_offsets(
                body["group_id"],
                offsets,
                **of._asdict(),
                api_version=request.version,
            )

        return self._committed(request, refused, kept)

    def commit_in_transaction(self, request: Request) -> Answer:
        """TxnOffsetCommit."""
        body = request.fields
        name, group_id = body["transactional_id"], body["group_id"]
        refused = self._cluster.may_commit_offsets(request.principal, name, group_id)

        def kept(offsets: Mapping[Place, int]) -> str:
            error, of = self._consumer_groups.check(group_id, identity(body), request)
            if error != "NONE":
                return error
            return self._cluster.commit_offsets(
                name, body["producer_id"], body["producer_epoch"], group_id, offsets=offsets,
                **of._asdict(), api_version=request.version,
            )  # fmt: skip

        return self._committed(request, refused, kept)

    def _committed(
        self, request: Request, refused: str, kept: Callable[[Mapping[Place, int]], str]
    ) -> Answer:
        """The answer to a commit, by partition. `refused` is an error for every partition, or NONE.
        A partition that doesn't exist or may not be read has its own error. The group decides about
        the others."""
        body, group_id = request.fields, request.fields["group_id"]
        given = {
            (topic["name"], part["partition_index"]): part
            for topic in body["topics"]
            for part in topic["partitions"]
        }
        topics = {topic["name"]: topic for topic in body["topics"]}
        longest = self._settings.number("offset.metadata.max.bytes")
        errors = {
            place: refused if refused != "NONE" else self._unread(request, topics[place[0]], place)
            for place in given
        }
        for place, part in given.items():
            is_long = len((part["committed_metadata"] or "").encode()) > longest
            if errors[place] == "NONE" and is_long:
                errors[place] = "OFFSET_METADATA_TOO_LARGE"
        left = {place: part for place, part in given.items() if errors[place] == "NONE"}
        if left:
            at = self._cluster.leader(offsets_partition(group_id)).log_end_offset
            error = self._groups.elsewhere(request, group_id)
            if error == "NONE":
                error = kept({place: part["committed_offset"] for place, part in left.items()})
            errors |= dict.fromkeys(left, error)
            for place, part in left.items() if error == "NONE" else ():
                epoch = part.get("committed_leader_epoch", -1)
                details = Details(epoch, part["committed_metadata"] or "")
                self._remember(group_id, place, at, details)
        answer: dict[str, list[dict[str, Any]]] = {name: [] for name in topics}
        for (name, number), error in errors.items():
            answer[name].append({"partition_index": number, "error_code": error})
        return Answer(
            {
                "topics": [
                    {"name": name, "topic_id": topics[name].get("topic_id"), "partitions": parts}
                    for name, parts in answer.items()
                ]
            }
        )

    def _remember(self, group_id: str, place: Place, at: int, details: Details) -> None:
        """Keeps the details of the committed offset and of pending ones, which come after it in the
        log."""
        before = self.details.get((group_id, place), {})
        since = self._cluster.groups.fetch(group_id, place).appended
        left = {appended: old for appended, old in before.items() if appended >= since}
        self.details[group_id, place] = {**left, at: details}

    def _unread(self, request: Request, topic: Mapping[str, Any], place: Place) -> str:
        """The error of a commit for a partition that may not be read or doesn't exist, or NONE."""
        if self._partitions.is_unknown(topic):
            return "UNKNOWN_TOPIC_ID"
        error = self._cluster.use_of(request.principal, place[0], "READ")
        is_there = 0 <= place[1] < self._partitions.count(place[0])
        return error if error != "NONE" or is_there else "UNKNOWN_TOPIC_OR_PARTITION"

    def fetch(self, request: Request) -> Answer:
        """OffsetFetch; from version 8 on for several groups. With `require_stable`, offsets that a
        transaction may still change have an error."""
        body = request.fields
        if "groups" not in body:
            return Answer(self._of_group(request, body))
        groups = [
            {"group_id": each["group_id"], **self._of_group(request, each)}
            for each in body["groups"]
        ]
        return Answer({"groups": groups})

    def _of_group(self, request: Request, group: Mapping[str, Any]) -> dict[str, Any]:
        """The offsets of one group."""
        group_id, wanted = group["group_id"], group["topics"]
        stable = request.fields.get("require_stable", False)
        error = self._groups.refusal(request, group_id)
        if error == "NONE" and group.get("member_epoch", -1) >= 0:
            of = Identity(group["member_id"] or "", group["member_epoch"])
            error, _ = self._consumer_groups.check(group_id, of, request)
        if error != "NONE":
            return {"error_code": error, "topics": []}
        if wanted is not None:
            places = [(t["name"], number) for t in wanted for number in t["partition_indexes"]]
        else:
            known = sorted(self._cluster.groups.places(group_id))
            places = [place for place in known if self._unseen(request, place[0]) == "NONE"]
        by_id = {t["name"]: t for t in wanted or ()}
        topics: dict[str, list[dict[str, Any]]] = {}
        for place in places:
            error = "UNKNOWN_TOPIC_ID"
            if not self._partitions.is_unknown(by_id.get(place[0], {})):
                error = self._unseen(request, place[0])
            found = Committed(error)
            if error == "NONE":
                found = self._cluster.fetch_offset(group_id, place, require_stable=stable)
            said = self.details.get((group_id, place), {}).get(found.appended, Details())
            topics.setdefault(place[0], []).append(
                {"partition_index": place[1], "committed_offset": found.offset,
                 "committed_leader_epoch": said.leader_epoch, "metadata": said.metadata,
                 "error_code": found.error}
            )  # fmt: skip
        return {
            "topics": [
                {
                    "name": name,
                    "partitions": parts,
                    "topic_id": by_id.get(name, {}).get("topic_id", self._partitions.ids.get(name)),
                }
                for name, parts in topics.items()
            ]
        }

    def delete(self, request: Request) -> Answer:
        """OffsetDelete for partitions that no member subscribes to (GroupCoordinator
        .handleDeleteOffsets)."""
        group_id = request.fields["group_id"]
        if not self._cluster.allows(request.principal, "DELETE", "GROUP", group_id):
            return Answer({"error_code": "GROUP_AUTHORIZATION_FAILED"})
        error = self._groups.elsewhere(request, group_id)
        if error == "NONE" and self._groups.known(group_id) is None:
            error = "GROUP_ID_NOT_FOUND"
        if error != "NONE":
            return Answer({"error_code": error})
        used = self._groups.subscribed(group_id)
        if used is None:
            return Answer({"error_code": "NON_EMPTY_GROUP"})
        topics: list[dict[str, Any]] = []
        gone: set[Place] = set()
        for topic in request.fields["topics"]:
            name, answer = topic["name"], list[dict[str, Any]]()
            for part in topic["partitions"]:
                place = name, part["partition_index"]
                error = self._cluster.use_of(request.principal, name, "READ")
                if error == "NONE" and not self._partitions.has(*place):
                    error = "UNKNOWN_TOPIC_OR_PARTITION"
                if error == "NONE" and name in used:
                    error = "GROUP_SUBSCRIBED_TO_TOPIC"
                if error == "NONE":
                    gone.add(place)
                answer.append({"partition_index": place[1], "error_code": error})
            topics.append({"name": name, "partitions": answer})
        self._forget(gone.__contains__, group_id)
        if self._drops_empty and not self._cluster.groups.places(group_id):
            self._cluster.groups.delete(group_id)  # if the group has no members
        return Answer({"topics": topics})

    def _unseen(self, request: Request, topic: str) -> str:
        return self._cluster.use_of(request.principal, topic, "DESCRIBE")
