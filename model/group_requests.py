"""A cluster's answers to requests about consumer groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .broker.group_messages import (
    Committed,
    Identity,
    JoinGroupResponse,
    SyncGroupResponse,
    offsets_partition,
)
from .broker.leader import PartitionLeader
from .client.accumulator import topic_of
from .permissions import Permissions

if TYPE_CHECKING:
    from .broker.group_coordinator import GroupCoordinator


class GroupRequests(Permissions):
    """The requests of a cluster that concern groups."""

    _groups: GroupCoordinator | None = None
    group_settings: dict[str, int]
    """The settings of the group coordinator that aren't the default."""

    @property
    def groups(self) -> GroupCoordinator:
        """The group coordinator, created at the first request."""
        if self._groups is None:
            from .broker.group_coordinator import GroupCoordinator

            self._groups = GroupCoordinator(
                protocol=self.protocol, now_ms=self.now_ms, **self.group_settings
            )
        return self._groups

    @property
    def now_ms(self) -> int:
        """The time in ms."""
        raise NotImplementedError

    def leader(self, partition: Any) -> PartitionLeader:
        """The leader of a partition."""
        raise NotImplementedError

    def _after_end(self) -> None:
        """Delivers the markers that can now be written."""
        raise NotImplementedError

    def fail_over_group(self, group_id: str) -> Callable[[], None]:
        """Moves the group's partition of `__consumer_offsets` to another broker, which loads it
        until the returned function is called."""
        partition = offsets_partition(group_id)
        self.groups.fail_over(partition)

        def end() -> None:
            self.groups.end_load(partition)
            self._after_end()

        return end

    def takes_markers(self, partition: Any) -> bool:
        """Whether a marker can be appended to a partition now. From 4.0 on the group coordinator
        appends markers to a partition of `__consumer_offsets`, and only after it has loaded it."""
        groups = self._groups
        return groups is None or partition not in groups.loading or groups.takes_markers

    def commit_group_offsets(
        self, group_id: str, offsets: Mapping[Any, int], *, member_id: str = "",
        generation_id: int = -1, group_instance_id: str | None = None,
        api_version: int | None = None, principal: str | None = None,
    ) -> str:  # fmt: skip
        """OffsetCommit of `offsets` by partition; returns the error."""
        refusal = self.use_of_group(principal, group_id, "READ")
        for partition in offsets:
            if refusal == "NONE":
                refusal = self.use_of(principal, topic_of(partition), "READ")
        if refusal == "NONE":
            of = Identity(member_id, generation_id, group_instance_id)
            refusal = self.groups.may_commit(group_id, of, api_version=api_version)
        if refusal != "NONE":
            return refusal
        leader = self.leader(offsets_partition(group_id))
        self.groups.writes(group_id, offsets)
        self.groups.appended(group_id, offsets, leader.log_end_offset)
        leader.append_plain(1)
        leader.move_high_watermark(leader.log_end_offset)
        return "NONE"

    def fetch_offset(
        self, group_id: str, partition: Any, *, require_stable: bool = False,
        principal: str | None = None,
    ) -> Committed:  # fmt: skip
        """OffsetFetch for one partition."""
        refusal = self.use_of_group(principal, group_id, "DESCRIBE")
        if refusal == "NONE":
            refusal = self.use_of(principal, topic_of(partition), "DESCRIBE")
        if refusal != "NONE":
            return Committed(refusal)
        return self.groups.fetch(group_id, partition, require_stable=require_stable)

    def join_group(
        self, group_id: str, member_id: str = "", *, protocols: Iterable[str] = ("range",),
        group_instance_id: str | None = None, session_timeout_ms: int = 45_000,
        api_version: int | None = None, principal: str | None = None,
    ) -> JoinGroupResponse:  # fmt: skip
        """JoinGroup with these assignment protocols, the preferred one first. If the answer waits
        for other members, the caller repeats the request to get the result."""
        refusal = self.use_of_group(principal, group_id, "READ")
        if refusal != "NONE":
            return JoinGroupResponse(refusal)
        return self.groups.join(
            group_id,
            member_id,
            group_instance_id=group_instance_id,
            protocols=dict.fromkeys(protocols, b""),
            session_timeout_ms=session_timeout_ms,
            api_version=api_version,
        )

    def sync_group(
        self, group_id: str, member_id: str, generation_id: int, *,
        group_instance_id: str | None = None, principal: str | None = None,
    ) -> SyncGroupResponse:  # fmt: skip
        """SyncGroup. If the answer waits for the leader's, the caller repeats the request to get
        the result."""
        refusal = self.use_of_group(principal, group_id, "READ")
        if refusal != "NONE":
            return SyncGroupResponse(refusal)
        return self.groups.sync(group_id, Identity(member_id, generation_id, group_instance_id))

    def heartbeat(
        self, group_id: str, member_id: str, generation_id: int, *,
        group_instance_id: str | None = None, principal: str | None = None,
    ) -> str:  # fmt: skip
        """Heartbeat; returns the error."""
        refusal = self.use_of_group(principal, group_id, "READ")
        if refusal != "NONE":
            return refusal
        of = Identity(member_id, generation_id, group_instance_id)
        return self.groups.heartbeat(group_id, of)

    def leave_group(
        self, group_id: str, member_id: str = "", *, group_instance_id: str | None = None,
        principal: str | None = None,
    ) -> str:  # fmt: skip
        """LeaveGroup for one member; returns the error."""
        refusal = self.use_of_group(principal, group_id, "READ")
        if refusal != "NONE":
            return refusal
        return self.groups.leave(group_id, member_id, group_instance_id=group_instance_id)
