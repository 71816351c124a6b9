"""Anomalies in an application's history: results of producers against reads of consumers.

This needs no protocol: exactly-once is a promise about records. docs/judge.md has an example of
each anomaly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .histories import BadLine
from .judge import Finding

ANOMALIES = {
    "DUPLICATE": "A record that was sent once is at two offsets.",
    "LOSS": "An acknowledged record is missing; its transaction, if any, was committed.",
    "ORDER_BREAK": "Two records of one producer are not in the order in which they were sent.",
    "ABORTED_READ": "A record was read, but its producer knows that its transaction was aborted.",
    "TORN_TRANSACTION": "Some records of a transaction were read, but an acknowledged one is "
    "missing.",
    "PHANTOM": "A record was read that nobody sent.",
    "CONFLICT": "Two reads of one offset found different records.",
}
"""The names of anomalies, and their meanings."""


class Anomaly(NamedTuple):
    """An anomaly, its subject, and the line that shows it (if there is one)."""

    name: str
    subject: str
    partition: str
    line: int
    file: str = ""


class Unjudged(NamedTuple):
    """A part that can't be judged, and the line that lacks something."""

    reason: str
    line: int
    file: str = ""


@dataclass(frozen=True)
class View:
    """What an application's history comes to, and how much there was of what. Where there is an
    anomaly, nothing explains it; where nobody sent or nobody read, nothing was judged."""

    finding: Finding
    anomalies: Sequence[Anomaly]
    unjudged: Sequence[Unjudged]
    sends: int
    ends: int
    reads: int
    files: frozenset[str]


class _Sent(NamedTuple):
    producer: str
    transaction: str | None
    partition: str
    outcome: str
    at: int
    line: int
    file: str


class _Transaction:
    """A transaction: whose it is, and its outcome; both with the line that says so."""

    def __init__(self) -> None:
        self.producer: tuple[str, str, int] | None = None
        self.end: tuple[str, str, int] | None = None

    @property
    def outcome(self) -> str | None:
        return self.end and self.end[0]


class _History:
    """The lines of a history, each put where it belongs. Raises BadLine for what contradicts an
    earlier line: no order of lines says which of the two is so."""

    def __init__(self) -> None:
        self.sent: dict[str, _Sent] = {}
        self.transactions: dict[str, _Transaction] = defaultdict(_Transaction)
        self.reads: dict[str, dict[int, tuple[str, int, str]]] = defaultdict(dict)
        self.caught_up: set[str] = set()
        self.conflicts: list[Anomaly] = []
        self.files: set[str] = set()
        self.read_lines = 0

    def take(self, file: str, number: int, line: Mapping[str, Any]) -> None:
        """Takes one line."""
        self.files.add(file)
        match line["event"]:
            case "send":
                self._send(file, number, line)
            case "end":
                name = line["transaction"]
                ended = self.transactions[name]
                if ended.end is not None:
                    what = f"transaction {name} has ended before ({_place(ended.end)})"
                    raise BadLine(file, number, what, NAME_EACH.format("transaction"))
                ended.end = line["outcome"], file, number
            case "caught_up":
                self.caught_up.add(line["partition"])
            case _:
                self.read_lines += 1
                at, record = line["offset"], line["record"]
                known = self.reads[line["partition"]].setdefault(at, (record, number, file))
                if known[0] != record:
                    found = Anomaly("CONFLICT", record, line["partition"], number, file)
                    self.conflicts.append(found)

    def _send(self, file: str, number: int, line: Mapping[str, Any]) -> None:
        record, producer, name = line["record"], line["producer"], line.get("transaction")
        known = self.sent.get(record)
        if known is not None:
            what = f"record {record} was sent before ({known.file}, line {known.line})"
            raise BadLine(file, number, what, NAME_EACH.format("send"))
        if name is not None:
            one = self.transactions[name]
            one.producer = one.producer or (producer, file, number)
            if one.producer[0] != producer:
                what = f"transaction {name} is of {one.producer[0]} ({_place(one.producer)})"
                raise BadLine(file, number, what, NAME_EACH.format("transaction"))
            if one.end is not None and one.end[1] == file:
                what = f"transaction {name} has ended ({_place(one.end)})"
                raise BadLine(file, number, what, "write its sends first, its end behind them")
        self.sent[record] = _Sent(
            producer, name, line["partition"], line["outcome"], len(self.sent), number, file
        )

    def outcome(self, sent: _Sent) -> str | None:
        """The outcome of its transaction; committed if it is in none, None if it isn't known."""
        if sent.transaction is None:
            return "committed"
        return self.transactions[sent.transaction].outcome

    def unjudged(self, there: set[tuple[str, str]]) -> Iterator[Unjudged]:
        """The places where missing lines might show an anomaly. `there` is what was read, by
        partition."""
        told: set[str] = set()
        open_ones: set[str] = set()
        for record, sent in self.sent.items():
            name, partition = sent.transaction, sent.partition
            outcome = self.outcome(sent)
            if name is not None and outcome is None and name not in open_ones:
                open_ones.add(name)
                reason = f"transaction {name} has no end: write one, if need be with unknown"
                yield Unjudged(reason, sent.line, sent.file)
            if sent.outcome != "acknowledged" or outcome == "aborted" or partition in told:
                continue
            if partition in self.caught_up or (partition, record) in there:
                continue
            told.add(partition)
            reason = (
                f"{record} was acknowledged and nobody has read it, but no consumer has caught up "
                f"with {partition}: write caught_up when one has"
            )
            yield Unjudged(reason, sent.line, sent.file)


NAME_EACH = "give each {} a name of its own"


def _place(said: tuple[str, str, int]) -> str:
    return f"{said[1]}, line {said[2]}"


def find_anomalies(lines: Iterable[tuple[str, int, Mapping[str, Any]]]) -> View:
    """The anomalies in an application's history: file, number and content of each line.

    A record's name stands for one send, that of a transaction for one transaction. That a record
    isn't there is said only of partitions that some consumer has read to their end (`caught_up`).
    Raises BadLine for a line that contradicts an earlier one.
    """
    history = _History()
    for file, number, line in lines:
        history.take(file, number, line)
    sent, found = history.sent, history.conflicts
    ends = {name: one.outcome for name, one in history.transactions.items()}
    for partition, offsets in history.reads.items():
        found += _in_log(partition, sorted(offsets.items()), sent, ends)
    there = {(p, record) for p, offsets in history.reads.items() for record, *_ in offsets.values()}
    found += _not_in_log(there, history.caught_up, sent, ends)
    unjudged = list(history.unjudged(there))
    is_read = bool(history.reads or history.caught_up)
    finding = Finding.EXPLAINED if sent and is_read and not unjudged else Finding.UNJUDGED
    return View(
        finding=Finding.UNEXPLAINED if found else finding,
        anomalies=found,
        unjudged=unjudged,
        sends=len(sent),
        ends=sum(outcome is not None for outcome in ends.values()),
        reads=history.read_lines,
        files=frozenset(history.files),
    )


def _in_log(
    partition: str, log: Iterable[tuple[int, tuple[str, int, str]]],
    sent: Mapping[str, _Sent], ends: Mapping[str, str | None],
) -> Iterator[Anomaly]:  # fmt: skip
    seen: set[str] = set()
    latest: dict[str, int] = {}
    for _, (record, line, file) in log:
        origin = sent.get(record)
        if origin is None or origin.partition != partition:
            yield Anomaly("PHANTOM", record, partition, line, file)
            continue
        if record in seen:
            yield Anomaly("DUPLICATE", record, partition, line, file)
            continue
        seen.add(record)
        if origin.at < latest.get(origin.producer, -1):
            yield Anomaly("ORDER_BREAK", record, partition, line, file)
        latest[origin.producer] = max(origin.at, latest.get(origin.producer, -1))
        if origin.transaction is not None and ends.get(origin.transaction) == "aborted":
            yield Anomaly("ABORTED_READ", record, partition, line, file)


def _not_in_log(
    there: set[tuple[str, str]], caught_up: set[str],
    sent: Mapping[str, _Sent], ends: Mapping[str, str | None],
) -> Iterator[Anomaly]:  # fmt: skip
    shown = {o.transaction for record, o in sent.items() if (o.partition, record) in there}
    torn: set[str] = set()
    for record, origin in sent.items():
        is_there = (origin.partition, record) in there
        if is_there or origin.outcome != "acknowledged" or origin.partition not in caught_up:
            continue
        name = origin.transaction
        if name is None or ends.get(name) == "committed":
            yield Anomaly("LOSS", record, origin.partition, origin.line, origin.file)
        if name is not None and name in shown and name not in torn:
            torn.add(name)
            yield Anomaly("TORN_TRANSACTION", name, origin.partition, origin.line, origin.file)
