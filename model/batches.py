"""Batches that a leader verifies at the coordinator, and the consumer's filter of aborted
batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..spec.releases import api_versions
from .broker.group_messages import Identity
from .broker.leader import Batch, PartitionLeader


class ProduceResponse(NamedTuple):
    """The answer to a batch: an error, and the offset of its first record (-1: none)."""

    error: str
    base_offset: int = -1


class GroupOffsets(NamedTuple):
    """Offsets by partition that a member commits for its group."""

    group_id: str
    of: Identity
    offsets: Mapping[Any, int]


@dataclass(frozen=True)
class VerifiedBatch:
    """A partition's part of a Produce, or of a TxnOffsetCommit for a group's coordinator."""

    request: str
    partition: Any
    transactional_id: str | None
    api_version: int
    producer: dict[str, int]
    base_sequence: int
    count: int
    commits: GroupOffsets | None = None

    @property
    def transaction_version(self) -> int:
        """The transaction version that its request implies."""
        return api_versions.transaction_version(self.request, self.api_version)

    @property
    def _origin(self) -> str:
        return "CLIENT" if self.request == "Produce" else "COORDINATOR"

    def question(self, leader: PartitionLeader) -> tuple[str, int | None]:
        """The leader's error, or NONE with the verification guard. The guard is None if the leader
        doesn't ask the coordinator."""
        answer = leader.maybe_start_transaction_verification(
            **self.producer,
            base_sequence=self.base_sequence,
            transaction_version=self.transaction_version,
        )
        return answer.error, answer.guard

    def verdict(self, leader: PartitionLeader, coordinator_error: str) -> str:
        """The batch's error after the coordinator's answer; NONE: the leader may append the
        batch."""
        return leader.verdict(coordinator_error, origin=self._origin, api_version=self.api_version)

    def append(self, leader: PartitionLeader, guard: int | None) -> ProduceResponse:
        """Appends the batch with its verification guard."""
        answer = leader.append(
            **self.producer, base_sequence=self.base_sequence, count=self.count, guard=guard,
            transactional=self.transactional_id is not None, origin=self._origin,
            transaction_version=self.transaction_version,
        )  # fmt: skip
        leader.move_high_watermark(leader.log_end_offset)
        return ProduceResponse(answer.error, answer.first_offset)


def data(batches: Iterable[Batch]) -> Iterator[Batch]:
    """The batches without markers."""
    return (batch for batch in batches if batch.kind != "marker")


def kept(batches: Iterable[Batch], aborted: Iterable[Any]) -> Iterator[Batch]:
    """The batches of a fetch that a read_committed consumer keeps. `aborted` are the aborted
    transactions in the answer to the fetch.

    CompletedFetch.nextFetchedRecord
    """
    starts = sorted(aborted, key=lambda txn: txn.first_offset)
    active: set[int] = set()
    for batch in batches:
        while starts and starts[0].first_offset <= batch.last_offset:
            active.add(starts.pop(0).producer_id)
        if batch.kind == "marker":
            active.discard(batch.producer_id)
        elif not (batch.transactional and batch.producer_id in active):
            yield batch
