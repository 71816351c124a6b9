"""Anomalies in an application's history: results of producers against reads of consumers.

This judges only records, without the protocol. docs/judge.md has an example of each anomaly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..histories import BadLineError
from ..judge import Finding
from .inputs import Inputs, Place, Reads, Take

ANOMALIES = {
    "DUPLICATE": "A record that was sent once is at two offsets.",
    "LOSS": "An acknowledged record is missing; its transaction, if any, was committed.",
    "ORDER_BREAK": "Two records of one producer are not in the order in which they were sent.",
    "ABORTED_READ": "A record was read, but its producer knows that its transaction was aborted.",
    "TORN_TRANSACTION": "Some records of a transaction were read, but an acknowledged one is "
    "missing.",
    "PHANTOM": "A record was read that nobody sent.",
    "CONFLICT": "Two reads of one offset found different records.",
    "PROCESSED_TWICE": "An input is counted twice: two committed transactions took it, or the "
    "record that stands for it was read twice.",
    "SKIPPED": "The committed offset has passed an input that no committed transaction took.",
}
"""The names of anomalies, and their meanings."""


class Anomaly(NamedTuple):
    """An anomaly: its name, its subject, the line that shows it, and other lines about it."""

    name: str
    subject: str
    partition: str
    line: int
    file: str = ""
    others: tuple[Place, ...] = ()


class Unjudged(NamedTuple):
    """The reason why a part can't be judged, with its line."""

    reason: str
    line: int
    file: str = ""


@dataclass(frozen=True)
class View:
    """The verdict on an application's history, and its counts. It is UNEXPLAINED with any anomaly,
    and UNJUDGED if nobody sent or nobody read."""

    finding: Finding
    anomalies: Sequence[Anomaly]
    unjudged: Sequence[Unjudged]
    sends: int
    ends: int
    reads: int
    inputs: int
    files: frozenset[str]


class _Sent(NamedTuple):
    producer: str
    transaction: str | None
    partition: str
    outcome: str
    at: int
    place: Place


class _Transaction:
    """A transaction: its producer and its outcome, each with its line."""

    def __init__(self, place: Place) -> None:
        self.begun = place
        self.producer: tuple[str, Place] | None = None
        self.end: tuple[str, Place] | None = None

    @property
    def outcome(self) -> str | None:
        return self.end and self.end[0]


class _History:
    """The sorted content of a history's lines. Raises BadLineError for a line that contradicts an
    earlier one: neither is known to be right."""

    def __init__(self) -> None:
        self.sent: dict[str, list[_Sent]] = {}
        self.sent_to: dict[tuple[str, str], list[_Sent]] = {}  # by partition and record
        self._sent_in: dict[tuple[str, str | None], Place] = {}  # by record and transaction
        self.partitions: set[str] = set()
        self.sends = 0
        self.transactions: dict[str, _Transaction] = {}
        self.reads: dict[str, dict[int, tuple[str, int, str]]] = defaultdict(dict)
        self.caught_up: set[str] = set()
        self.conflicts: list[Anomaly] = []
        self.files: set[str] = set()
        self.read_lines = 0
        self.inputs = Inputs()
        self.names_inputs: set[str] = set()

    def take(self, file: str, number: int, line: Mapping[str, Any]) -> None:
        """Takes one line."""
        self.files.add(file)
        place = Place(file, number)
        match line["event"]:
            case "send":
                self._send(place, line)
            case "filter":
                self._within(place, line["transaction"], line["producer"])
                self.inputs.take(line, Take(line["transaction"], place))
            case "commit_offset":
                self._within(place, line["transaction"], line["producer"])
                self.inputs.commit(line, place)
            case "end":
                name = line["transaction"]
                ended = self.transactions.setdefault(name, _Transaction(place))
                if ended.end is not None:
                    what = f"transaction {name} has ended before ({ended.end[1]})"
                    raise BadLineError(file, number, what, NAME_EACH.format("transaction"))
                ended.end = line["outcome"], place
            case "caught_up":
                self.caught_up.add(line["partition"])
            case _:
                self._read(place, line)

    def _read(self, place: Place, line: Mapping[str, Any]) -> None:
        self.read_lines += 1
        at, record, partition = line["offset"], line["record"], line["partition"]
        known = self.reads[partition].setdefault(at, (record, place.line, place.file))
        if known[0] != record:
            found = Anomaly("CONFLICT", record, partition, place.line, place.file)
            self.conflicts.append(found)
        if "group" in line:
            self.inputs.start(line["group"], partition, at)

    def _send(self, place: Place, line: Mapping[str, Any]) -> None:
        record, producer, name = line["record"], line["producer"], line.get("transaction")
        sends = self.sent.setdefault(record, [])
        before = self._sent_in.setdefault((record, name), place)
        if sends and None in (name, sends[0].transaction):
            before = sends[0].place
        if before != place:
            what = f"record {record} was sent before ({before})"
            raise BadLineError(*place, what, NAME_EACH.format("record"))
        if name is not None:
            self._within(place, name, producer)
        if "inputs" in line:
            if name is None:
                what = f"record {record} has inputs and no transaction"
                raise BadLineError(*place, what, "only transactions are judged by input")
            take = Take(name, place, line["partition"], record, line["outcome"])
            self.names_inputs.add(record)
            self.inputs.take(line, take)
        elif name is not None:
            self.inputs.unnamed.add(name)
        sent = _Sent(producer, name, line["partition"], line["outcome"], self.sends, place)
        sends.append(sent)
        self.sent_to.setdefault((sent.partition, record), []).append(sent)
        self.partitions.add(sent.partition)
        self.sends += 1

    def _within(self, place: Place, name: str, producer: str) -> None:
        """Takes a line of a transaction. Raises BadLineError if the transaction is another
        producer's, or has ended."""
        one = self.transactions.setdefault(name, _Transaction(place))
        one.producer = one.producer or (producer, place)
        if one.producer[0] != producer:
            what = f"transaction {name} is of {one.producer[0]} ({one.producer[1]})"
            raise BadLineError(*place, what, NAME_EACH.format("transaction"))
        if one.end is not None and one.end[1].file == place.file:
            what = f"transaction {name} has ended ({one.end[1]})"
            raise BadLineError(*place, what, "write its lines first, its end behind them")

    def outcome(self, sent: _Sent) -> str | None:
        """The outcome of a send's transaction: committed without a transaction, None if it isn't
        known."""
        if sent.transaction is None:
            return "committed"
        return self.transactions[sent.transaction].outcome

    def possible(self, record: str, partition: str) -> list[_Sent]:
        """The sends of a record to a partition that aren't in an aborted transaction."""
        sends = self.sent_to.get((partition, record), ())
        return [sent for sent in sends if self.outcome(sent) != "aborted"]

    def unjudged(self, there: Mapping[tuple[str, str], Sequence[Place]]) -> Iterator[Unjudged]:
        """The places at which missing lines might show an anomaly. `there` has the reads of each
        partition and record."""
        for name, one in self.transactions.items():
            if one.outcome is None:
                reason = f"transaction {name} has no end: write one, if need be with unknown"
                yield Unjudged(reason, one.begun.line, one.begun.file)
        reported: set[str] = set()
        for (partition, record), (sent, *_) in self.sent_to.items():
            if partition in self.caught_up or partition in reported:
                continue
            possible = self.possible(record, partition)
            reads = len(there.get((partition, record), ()))
            if reads and (len(self.sent[record]) == 1 or reads >= len(possible)):
                continue
            if any(each.outcome == "acknowledged" for each in possible):
                reported.add(partition)
                reason = (
                    f"{record} was acknowledged and nobody has read it, but no consumer has caught "
                    f"up with {partition}: write caught_up when one has"
                )
                yield Unjudged(reason, sent.place.line, sent.place.file)


NAME_EACH = "give each {} a different name"


def find_anomalies(lines: Iterable[tuple[str, int, Mapping[str, Any]]]) -> View:
    """The anomalies in an application's history: file, number and content of each line.

    A record's name occurs in one send of each transaction. A transaction's name is unique. A
    missing record is only reported in a partition that some consumer has read to its end
    (`caught_up`). Raises BadLineError for a line that contradicts an earlier one.
    """
    history = _History()
    for file, number, line in lines:
        history.take(file, number, line)
    found = history.conflicts
    there: dict[tuple[str, str], list[Place]] = defaultdict(list)
    for partition, offsets in history.reads.items():
        for _, (record, number, file) in sorted(offsets.items()):
            there[partition, record].append(Place(file, number))
        if partition in history.inputs.partitions and partition not in history.partitions:
            continue  # another application wrote the inputs
        found += _in_log(partition, sorted(offsets.items()), history)
    found += _not_in_log(there, history)
    unjudged = list(history.unjudged(there))
    for one in _by_input(there, history):
        if isinstance(one, Anomaly):
            found.append(one)
        else:
            unjudged.append(one)
    is_read = bool(history.reads or history.caught_up)
    finding = Finding.EXPLAINED if history.sent and is_read and not unjudged else Finding.UNJUDGED
    return View(
        finding=Finding.UNEXPLAINED if found else finding,
        anomalies=found,
        unjudged=unjudged,
        sends=history.sends,
        ends=sum(one.outcome is not None for one in history.transactions.values()),
        reads=history.read_lines,
        inputs=len(history.inputs.takes),
        files=frozenset(history.files),
    )


def _in_log(
    partition: str, log: Iterable[tuple[int, tuple[str, int, str]]], history: _History
) -> Iterator[Anomaly]:
    seen: set[str] = set()
    latest: dict[str, int] = {}
    for _, (record, line, file) in log:
        sends = history.sent_to.get((partition, record), ())
        if not sends:
            yield Anomaly("PHANTOM", record, partition, line, file)
            continue
        if record in seen:
            if len(history.sent[record]) == 1:
                yield Anomaly("DUPLICATE", record, partition, line, file)
            continue
        seen.add(record)
        possible = history.possible(record, partition) or sends
        if len(possible) == 1:
            (origin,) = possible
            if origin.at < latest.get(origin.producer, -1):
                yield Anomaly("ORDER_BREAK", record, partition, line, file)
            latest[origin.producer] = max(origin.at, latest.get(origin.producer, -1))
        if all(history.outcome(each) == "aborted" for each in sends):
            yield Anomaly("ABORTED_READ", record, partition, line, file)


def _not_in_log(
    there: Mapping[tuple[str, str], Sequence[Place]], history: _History
) -> Iterator[Anomaly]:
    each = [(record, sent) for record, sends in history.sent.items() for sent in sends]
    shown = {
        sent.transaction
        for record, sent in each
        if (sent.partition, record) in there and len(history.sent[record]) == 1
    }
    torn: set[str] = set()
    for record, sent in each:
        is_there = (sent.partition, record) in there
        is_to_come = sent.partition not in history.caught_up
        if is_there or is_to_come or sent.outcome != "acknowledged":
            continue
        name, (file, line) = sent.transaction, sent.place
        if history.outcome(sent) == "committed":
            yield Anomaly("LOSS", record, sent.partition, line, file)
        if name is not None and name in shown and name not in torn:
            torn.add(name)
            yield Anomaly("TORN_TRANSACTION", name, sent.partition, line, file)


def _by_input(
    there: Mapping[tuple[str, str], list[Place]], history: _History
) -> Iterator[Anomaly | Unjudged]:
    """Finds inputs that were processed twice or skipped. A record that was sent in several
    transactions and read more than once counts as processed twice."""
    inputs = history.inputs
    outcomes = {name: one.outcome for name, one in history.transactions.items()}
    reads = Reads(there, history.caught_up, outcomes)
    reported: set[Place] = set()
    by_record: dict[str, list[Take]] = defaultdict(list)
    read: dict[str, list[tuple[str, Place]]] = defaultdict(list)
    for (partition, record), sends in history.sent_to.items():
        takes = [
            Take(sent.transaction, sent.place, partition, record, sent.outcome)
            for sent in sends
            if sent.transaction is not None
        ]
        reads.compare(partition, record, takes)
        by_record[record] += takes
        read[record] += ((partition, place) for place in there.get((partition, record), ()))
    for record, takes in by_record.items():
        if len(takes) < 2:
            continue
        if record not in history.names_inputs:
            inputs.stands_for_itself(record, takes)
        if len(read[record]) > 1:
            reported.update(take.place for take in takes)
            *before, (partition, last) = read[record]
            others = (*(place for _, place in before), *(take.place for take in takes))
            yield Anomaly("PROCESSED_TWICE", record, partition, last.line, last.file, others)
    for found in inputs.findings(reads, history.reads):
        first, *others = found.lines
        if not found.name:
            yield Unjudged(found.reason, first.line, first.file)
        elif found.name != "PROCESSED_TWICE" or first not in reported:
            of = found.input
            subject, places = of.subject, tuple(others)
            yield Anomaly(found.name, subject, of.partition, first.line, first.file, places)
