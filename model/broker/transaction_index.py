"""The index of a log's aborted transactions, in the order of their markers (TransactionIndex)."""

from __future__ import annotations

from typing import NamedTuple

from ..engine.errors import ModelError


class AbortedTxn(NamedTuple):
    """An aborted transaction: its first and last offset, and the last stable offset behind it."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class NotBehindError(ModelError):
    """An entry is to be appended that doesn't lie behind the last."""


class TransactionIndex:
    """The aborted transactions in answers to read_committed fetches."""

    def __init__(self) -> None:
        self.entries: list[AbortedTxn] = []

    def copy(self) -> TransactionIndex:
        """Another one of the same entries."""
        made = TransactionIndex()
        made.entries = list(self.entries)
        return made

    def append(self, txn: AbortedTxn) -> None:
        """An entry more. Raises NotBehindError."""
        if self.entries and self.entries[-1].last_offset >= txn.last_offset:
            raise NotBehindError(
                f"{txn.last_offset} does not lie behind {self.entries[-1].last_offset}"
            )
        self.entries.append(txn)

    def collect(self, from_offset: int, to_offset: int) -> tuple[tuple[AbortedTxn, ...], bool]:
        """The entries that matter to a fetch of these offsets, and whether no later one can."""
        found: list[AbortedTxn] = []
        for txn in self.entries:
            if txn.last_offset >= from_offset and txn.first_offset < to_offset:
                found.append(txn)
            if txn.last_stable_offset >= to_offset:
                return tuple(found), True
        return tuple(found), False

    def truncate(self, offset: int) -> None:
        """Removes the transactions that end there or later."""
        self.entries = [txn for txn in self.entries if txn.last_offset < offset]

    def delete_below(self, offset: int) -> None:
        """Removes the transactions that end before, as their segments are removed."""
        self.entries = [txn for txn in self.entries if txn.last_offset >= offset]
