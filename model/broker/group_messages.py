"""The messages between a group's coordinator and its clients."""

from __future__ import annotations

from typing import Any, NamedTuple

from .transactions.transaction_log import partition_for

NO_GENERATION = -1


def offsets_partition(group_id: str) -> str:
    """The place of a consumer group's offsets."""
    return f"__consumer_offsets-{partition_for(group_id)}"


class JoinGroupResponse(NamedTuple):
    """The answer to JoinGroup; the `leader` gets the `members` with their instance ids and their
    metadata in the protocol that was chosen. If the request `waits`, only the member id is set."""

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
    """The answer to SyncGroup, unless it `waits`."""

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
    """OffsetFetch's answer for a partition: an error, the offset (-1: none), and its place in the
    log of offsets."""

    error: str
    offset: int = -1
    appended: int = -1


class Identity(NamedTuple):
    """As whom a request comes: "", -1 and None are for nobody, no generation and no instance."""

    member_id: str = ""
    generation_id: int = NO_GENERATION
    group_instance_id: str | None = None

    @property
    def _member(self) -> dict[str, Any]:
        return {"member": self.member_id or None, "instance": self.group_instance_id}

    @property
    def fields(self) -> dict[str, Any]:
        """As an event of the group's machine has them."""
        return {**self._member, "generation": self.generation_id}

    @property
    def without_generation(self) -> dict[str, Any]:
        """The same of an event that is of no generation."""
        return self._member
