"""The index of a log's aborted transactions, in the order of their markers (TransactionIndex)."""

from __future__ import annotations

from typing import NamedTuple

from ..engine.errors import ModelError


class AbortedTxn(NamedTuple):
    """An aborted transaction: its first and last offset, and the last stable offset after its
    end."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class NotBehindError(ModelError):
    """An appended entry isn't after the last one."""


class TransactionIndex:
    """The aborted transactions in answers to read_committed fetches."""

    def __init__(self) -> None:
        self.entries: list[AbortedTxn] = []

    def copy(self) -> TransactionIndex:
        """An index with the same entries."""
        made = TransactionIndex()
        made.entries = list(self.entries)
        return made

    def append(self, txn: AbortedTxn) -> None:
        """Appends an entry. Raises NotBehindError."""
        if self.entries and self.entries[-1].last_offset >= txn.last_offset:
            raise NotBehindError(
                f"{txn.last_offset} does not lie behind {self.entries[-1].last_offset}"
            )
        self.entries.append(txn)

    def collect(self, from_offset: int, to_offset: int) -> tuple[tuple[AbortedTxn, ...], bool]:
        """The aborted transactions in a fetch of these offsets, and whether later entries can't be
        in it."""
        found: list[AbortedTxn] = []
        for txn in self.entries:
            if txn.last_offset >= from_offset and txn.first_offset < to_offset:
                found.append(txn)
            if txn.last_stable_offset >= to_offset:
                return tuple(found), True
        return tuple(found), False

    def truncate(self, offset: int) -> None:
        """Removes the transactions that end at this offset or later."""
        self.entries = [txn for txn in self.entries if txn.last_offset < offset]

    def delete_below(self, offset: int) -> None:
        """Removes the transactions that end before this offset: their segments are deleted."""
        self.entries = [txn for txn in self.entries if txn.last_offset >= offset]
