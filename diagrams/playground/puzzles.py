"""The gallery "Break exactly-once": known bugs and findings as puzzles, the shorter ones first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from ...language import DeclarationError, Instance, instantiate
from ...spec.bugs import Bug, bug_of
from ...spec.bugs.findings import FINDINGS


@dataclass(frozen=True)
class Puzzle:
    """A known bug with a goal in a sentence, and the meaning for an application."""

    of: str
    goal: str
    meaning: str

    @cached_property
    def bug(self) -> Bug:
        """The bug that a solution shows."""
        return bug_of(self.of)

    @property
    def broken(self) -> str:
        """The goal of a run."""
        return f"{self.bug.property} is broken"

    @property
    def finding(self) -> int | None:
        """The number of the finding, if the puzzle is a finding."""
        return next((found.number for found in FINDINGS if found.bug == self.of), None)

    @property
    def remedy(self) -> str:
        """The release or the features that fix it, in words."""
        bug = self.bug
        if bug.shown_at != bug.fixed_at:
            return bug.fixed_at
        return f"{bug.fixed_at} and {', '.join(bug.fix)}"

    def instance(self, *, mended: bool = False) -> Instance:
        """The system with the bug, or without it, and with all properties."""
        bug = self.bug
        on, off = (bug.fix, ()) if mended else ((), bug.fix)
        return instantiate(
            bug.declared,
            bug.fixed_at if mended else bug.shown_at,
            bug.constants,
            switch_on=(*bug.on, *on),
            switch_off=(*bug.off, *off),
        )


PUZZLES: Final = (
    Puzzle(
        "KAFKA-9807",
        "Let a read_committed consumer read a record of an open transaction.",
        "A service acts on an order that is rolled back a moment later.",
    ),
    Puzzle(
        "KAFKA-18137",
        "Let a broker answer for a coordinator partition that it has resigned from.",
        "A client gets an answer from a state that another broker has changed since.",
    ),
    Puzzle(
        "KAFKA-8351",
        "Have the cleaner remove a marker while records of its transaction are still there.",
        "Consumers of a compacted topic stop for good before a transaction that has ended.",
    ),
    Puzzle(
        "KAFKA-5793",
        "Get a late batch appended a second time, after its records were deleted.",
        "With a short retention, an idempotent producer writes a payment twice.",
    ),
    Puzzle(
        "librdkafka-1.9.0",
        "Lose an acknowledged record: hide a partition from the client for a moment.",
        "The application counts a record as written, and no consumer ever reads it.",
    ),
    Puzzle(
        "KAFKA-20634",
        "Have an offset commit acknowledged, and lose it.",
        "After the next rebalance a group reads records again that it had committed.",
    ),
    Puzzle(
        "KAFKA-8522",
        "Keep a tombstone in the log for good.",
        "A compacted topic grows with every key that was ever deleted.",
    ),
    Puzzle(
        "KAFKA-14694",
        "Make a broker ask for two blocks of producer ids at once.",
        "Producer ids are used up faster. No record is harmed.",
    ),
    Puzzle(
        "KAFKA-14034",
        "Get one record into the log twice, though its producer is idempotent.",
        "A sum counts a payment twice. Transactions, or one request in flight, prevent it.",
    ),
    Puzzle(
        "KAFKA-12671",
        "Write to a partition that the transaction doesn't contain.",
        "Consumers of the partition wait for ever: no timeout ends such a transaction.",
    ),
    Puzzle(
        "KAFKA-4545",
        "Let a reader in time miss a deletion.",
        "A cache that is built from a compacted topic keeps a deleted customer.",
    ),
    Puzzle(
        "KAFKA-19367",
        "Make one abort of a fenced producer use two epochs.",
        "A producer id is used up twice as fast. No record is harmed.",
    ),
    Puzzle(
        "KAFKA-5494",
        "Outrun the memory of a leader: get a batch appended twice.",
        "An idempotent producer with several requests in flight writes a record twice.",
    ),
    Puzzle(
        "KAFKA-13727",
        "Stop the cleaner within a segment, so that a reader gets aborted records.",
        "A read_committed consumer reads an order that was rolled back.",
    ),
    Puzzle(
        "KAFKA-9666",
        "Use up the epochs of a producer id by fences that are never written.",
        "A transactional id gets new producer ids while its log can't be written.",
    ),
    Puzzle(
        "KAFKA-12620",
        "Hand out one producer id to two producers.",
        "The records of two applications are taken for duplicates of each other.",
    ),
    Puzzle(
        "KAFKA-15784",
        "Commit an offset for a group member that has been replaced.",
        "Two instances process the same input, and both commit their results.",
    ),
    Puzzle(
        "KIP-588",
        "Make a producer fail for good, though it has no rival.",
        "A slow batch job dies on a transaction timeout and has to be restarted.",
    ),
    Puzzle(
        "KAFKA-18019",
        "Bring a fenced producer back to life.",
        "An old instance writes on beside the one that has replaced it.",
    ),
    Puzzle(
        "KAFKA-14402",
        "Make the last stable offset stand still for good.",
        "All read_committed consumers of the partition stop, until an operator ends the "
        "transaction by kafka-transactions.sh.",
    ),
    Puzzle(
        "KAFKA-5231",
        "Slip a late batch behind the end of a fenced producer's transaction.",
        "All read_committed consumers of the partition stop before that batch.",
    ),
    Puzzle(
        "franz-go-42b3d833",
        "Have a commit reported as done that has failed.",
        "The application goes on to its next input, and the results of this one are gone.",
    ),
    Puzzle(
        "KAFKA-8483",
        "Swap two batches of one producer.",
        "A consumer reads an update before the record that it changes.",
    ),
    Puzzle(
        "KAFKA-6119",
        "Commit one half of a transaction, and abort the other.",
        "Money is taken from one account and never arrives at the other.",
    ),
    Puzzle(
        "KIP-890b",
        "Get a record of an aborted transaction committed with the next one.",
        "An order that was rolled back is delivered, as part of another transaction.",
    ),
)


def puzzle_of(name: str) -> Puzzle:
    """The puzzle of this bug. Raises DeclarationError if there is none."""
    for puzzle in PUZZLES:
        if puzzle.of == name:
            return puzzle
    raise DeclarationError("there is no puzzle of that name")
