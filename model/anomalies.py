"""What an application sees: what producers were told, against what read_committed consumers read.

This needs no protocol: exactly-once is a promise about records. docs/judge.md has an example of
each anomaly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

ANOMALIES = {
    "DUPLICATE": "A record was sent once and is at two offsets.",
    "LOSS": "An acknowledged record, of no transaction or a committed one, isn't there.",
    "ORDER_BREAK": "Two records of one producer are in another order than they were sent in.",
    "ABORTED_READ": "A record was read of a transaction that its producer was told is aborted.",
    "TORN_TRANSACTION": "Of a transaction some records were read, and an acknowledged one is not "
    "there.",
    "PHANTOM": "A record was read that nobody sent.",
    "CONFLICT": "Two reads of one offset found different records.",
}
"""The names of anomalies, and what each is."""


class Anomaly(NamedTuple):
    """What is wrong, with whom, and the line that shows it (where there is one)."""

    name: str
    subject: str
    partition: str
    line: int
    file: str = ""


class _Sent(NamedTuple):
    producer: str
    transaction: str | None
    partition: str
    outcome: str
    at: int
    line: int
    file: str


def find_anomalies(lines: Iterable[tuple[str, int, Mapping[str, Any]]]) -> list[Anomaly]:
    """The anomalies in an application's history: file, number and content of each line.

    A record's name stands for one send. That a record isn't there is said only of partitions that
    some consumer has read to their end (`caught_up`).
    """
    sent: dict[str, _Sent] = {}
    ends: dict[str, str] = {}
    reads: dict[str, dict[int, tuple[str, int, str]]] = defaultdict(dict)
    caught_up: set[str] = set()
    found: list[Anomaly] = []
    for file, number, line in lines:
        match line["event"]:
            case "send":
                sent[line["record"]] = _Sent(
                    line["producer"], line.get("transaction"), line["partition"],
                    line["outcome"], len(sent), number, file,
                )  # fmt: skip
            case "end":
                ends[line["transaction"]] = line["outcome"]
            case "caught_up":
                caught_up.add(line["partition"])
            case _:
                at, record = line["offset"], line["record"]
                known = reads[line["partition"]].setdefault(at, (record, number, file))
                if known[0] != record:
                    found.append(Anomaly("CONFLICT", record, line["partition"], number, file))
    for partition, offsets in reads.items():
        found += _in_log(partition, sorted(offsets.items()), sent, ends)
    there = {(p, record) for p, offsets in reads.items() for record, *_ in offsets.values()}
    found += _not_in_log(there, caught_up, sent, ends)
    return found


def _in_log(
    partition: str, log: Iterable[tuple[int, tuple[str, int, str]]],
    sent: Mapping[str, _Sent], ends: Mapping[str, str],
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
    sent: Mapping[str, _Sent], ends: Mapping[str, str],
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
