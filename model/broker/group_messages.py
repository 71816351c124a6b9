"""The messages between a group's coordinator and its clients."""

from __future__ import annotations

from typing import Any, NamedTuple

from .transactions.transaction_log import partition_for

NO_GENERATION = -1


def offsets_partition(group_id: str) -> str:
    """The partition of `__consumer_offsets` that has the group's offsets."""
    return f"__consumer_offsets-{partition_for(group_id)}"


class JoinGroupResponse(NamedTuple):
    """The answer to JoinGroup. The leader's answer has the `members` with their instance ids and
    their metadata for the chosen protocol. If the request `waits`, only the member id is set."""

    error: str
    generation_id: int = NO_GENERATION
    member_id: str = ""
    leader: str = ""
    protocol_type: str = ""
    protocol_name: str | None = None
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    skip_assignment: bool = False
    waits: bool = False


class SyncGroupResponse(NamedTuple):
    """The answer to SyncGroup. If the request `waits`, the other fields are empty."""

    error: str
    protocol_type: str = ""
    protocol_name: str | None = None
    assignment: bytes = b""
    waits: bool = False


class Answered(NamedTuple):
    """The answer to a request that waited."""

    group_id: str
    member_id: str
    response: JoinGroupResponse | SyncGroupResponse


class Committed(NamedTuple):
    """OffsetFetch's answer for a partition: the error, the committed offset (-1: none), and the
    offset of its record in `__consumer_offsets`."""

    error: str
    offset: int = -1
    appended: int = -1


class Identity(NamedTuple):
    """The sender of a group request: member id ("": none), generation (-1: none) and instance
    id."""

    member_id: str = ""
    generation_id: int = NO_GENERATION
    group_instance_id: str | None = None

    @property
    def _member(self) -> dict[str, Any]:
        return {"member": self.member_id or None, "instance": self.group_instance_id}

    @property
    def fields(self) -> dict[str, Any]:
        """The parameters of an event of the group's machine."""
        return {**self._member, "generation": self.generation_id}

    @property
    def without_generation(self) -> dict[str, Any]:
        """The parameters of an event that has no generation."""
        return self._member
