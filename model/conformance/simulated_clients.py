"""Right and wrong requests of simulated clients."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..requests import LARGEST_EPOCH, Answer

LARGEST_SEQUENCE = 2**31 - 1
UNKNOWN_ID = 2**62
"""A producer id that no system gives out."""


@dataclass
class Client:
    """An instance of a producer: its producer id and epoch, and its sent batches by partition, as
    base sequences and counts."""

    transactional_id: str | None
    producer_id: int
    producer_epoch: int
    sent: dict[str, list[tuple[int, int]]] = field(default_factory=dict[str, list[tuple[int, int]]])

    def next_sequence(self, partition: str) -> int:
        """The sequence of the next record."""
        if not self.sent.get(partition):
            return 0
        base, count = self.sent[partition][-1]
        return (base + count) % (LARGEST_SEQUENCE + 1)

    def learn(self, answer: Answer | None) -> None:
        """Takes a new producer id or epoch from an answer. Sequences then start again."""
        if answer is None or answer["error"] != "NONE" or answer.get("producer_epoch", -1) < 0:
            return
        new_identity = (answer["producer_id"], answer["producer_epoch"])
        if new_identity != (self.producer_id, self.producer_epoch):
            self.producer_id, self.producer_epoch = new_identity
            self.sent.clear()


def identity(who: str, client: Client, others: list[Client]) -> dict[str, int]:
    """The producer id and epoch for a value of WHO."""
    producer_id, epoch = client.producer_id, client.producer_epoch
    match who:
        case "STALE_EPOCH":
            epoch = max(epoch - 1, 0)
        case "NEXT_EPOCH":
            epoch = min(epoch + 1, LARGEST_EPOCH)
        case "LARGEST_EPOCH":
            epoch = LARGEST_EPOCH
        case "OTHER_ID":
            known = [c.producer_id for c in others if c.producer_id != producer_id]
            producer_id = known[-1] if known else UNKNOWN_ID
        case "UNKNOWN_ID":
            producer_id = UNKNOWN_ID
        case _:
            pass
    return {"producer_id": producer_id, "producer_epoch": epoch}


def batch(sequence: str, count: int, client: Client, partition: str) -> dict[str, int]:
    """The base sequence and count for a value of SEQUENCES."""
    following = client.next_sequence(partition)
    base = following
    match sequence:
        case "GAP":
            base = (following + 1) % (LARGEST_SEQUENCE + 1)
        case "OVERLAP":
            base, count = (following - 1) % (LARGEST_SEQUENCE + 1), count + 1
        case "ZERO":
            base = 0
        case "LARGEST":
            base = LARGEST_SEQUENCE - 1
        case _:
            pass
    return {"base_sequence": base, "count": count}
