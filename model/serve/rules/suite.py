"""Tests a client's program on each rule, each time with a new served cluster."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple
from xml.etree import ElementTree

from ....junit import suite_text
from ...records import (
    Flag,
    Record,
    RecordBatch,
    decode_batch,
    decode_control_type,
    encode_batch,
)
from ...wire.listener import Request
from ..history import History
from ..server import Server
from .book import INPUT, RULES, Rule, Step, Wanted, number_of
from .checks import Line, broken
from .program import OK, UNSUPPORTED, HungError, Program

TOPIC: Final = "orders"
PARTITIONS: Final = 2
SETTLING_S: Final = 5.0
"""The time in s after the last call for waiting faults and markers."""
_TOPICS: Final = {TOPIC: PARTITIONS, INPUT: 1}
_COMMIT: Final = 1


class Verdict(Enum):
    """The outcome of a rule."""

    PASSED = "pass"
    FAILED = "fail"
    SKIPPED = "not tried"


class Finding(NamedTuple):
    """A rule with its verdict, and the reason if it isn't a pass."""

    rule: Rule
    verdict: Verdict
    why: str = ""

    def as_json(self) -> dict[str, Any]:
        """The finding as plain data."""
        return {
            "number": number_of(self.rule),
            "rule": self.rule.id,
            "verdict": self.verdict.value,
            "why": self.why,
        }


class NoOccasionError(Exception):
    """A client's program lacks a call that the rule needs."""


@dataclass
class _Transaction:
    """The records of a transaction, and its reported outcome."""

    sent: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    outcome: str | None = None


@dataclass
class _Loose:
    """A record without a transaction. `answer` is the answer of the first `flush` after it."""

    partition: int
    value: str
    answer: str | None = None


@dataclass
class _Run:
    """The application's knowledge of its run."""

    programs: Mapping[str, Program]
    transactions: dict[str, list[_Transaction]]
    wrong: list[str] = field(default_factory=list[str])
    read: list[tuple[int, list[str]]] = field(default_factory=list[tuple[int, list[str]]])
    """The answers to `values`, each with the number of values that were committed by then."""
    loose: list[_Loose] = field(default_factory=list["_Loose"])


def tried(command: Sequence[str], wanted: Sequence[Rule] = RULES) -> Iterator[Finding]:
    """The findings of a program on these rules, one after another. Raises NoProgramError if it
    doesn't start."""
    for rule in wanted:
        yield _tried(command, rule)


def _tried(command: Sequence[str], rule: Rule) -> Finding:
    recorded = io.BytesIO()
    with ExitStack() as stack:
        server = stack.enter_context(
            Server(rule.release, brokers=2, topics=_TOPICS, settings=rule.settings)
        )
        server.record_in(History(recorded))
        for fault in rule.faults:
            server.faults.add(dict(fault))
        names = dict.fromkeys(step.by for step in rule.steps)
        programs = {
            name: stack.enter_context(_program(command, server, rule, name)) for name in names
        }
        run = _Run(programs, {name: [] for name in names})
        try:
            for step in rule.steps:
                _make(run, step, server)
        except NoOccasionError as error:
            return Finding(rule, Verdict.SKIPPED, str(error))
        except HungError as error:
            return Finding(rule, Verdict.FAILED, str(error))
        _settle(server)
        for program in programs.values():
            program.end()
        unfired = [fault for fault in server.faults.unfired if not fault.waiting]
        for fault in server.faults.all.values():
            fault.release()
        lines: list[Line] = [json.loads(line) for line in recorded.getvalue().splitlines()]
        why = [*run.wrong, *broken(lines, rule.checks), *_in_the_log(run, server)]
    if why:
        return Finding(rule, Verdict.FAILED, "; ".join(dict.fromkeys(why)))
    if unfired:
        return Finding(rule, Verdict.SKIPPED, "the fault has no occasion: " + unfired[0].text())
    return Finding(rule, Verdict.PASSED)


def _program(command: Sequence[str], server: Server, rule: Rule, name: str) -> Program:
    settings = [f"bootstrap.servers={server.bootstrap}", f"topic={TOPIC}", f"client.id={name}"]
    if rule.is_transactional:
        settings.append(f"transactional.id=id-{name}")
    settings += (f"{name}={value}" for name, value in rule.client.items())
    return Program(command, settings)


def _make(run: _Run, step: Step, server: Server) -> None:
    """Makes a call, and keeps its result. Raises HungError, NoOccasionError."""
    name, _, rest = step.call.partition(" ")
    if name == "wait":
        time.sleep(int(rest) / 1000)
        return
    if name == "append":
        _append(server, rest)
        return
    mine = run.transactions[step.by]
    if name == "beginTransaction":
        mine.append(_Transaction())
    if name == "send":
        partition, _, value = rest.partition(" ")
        if mine:
            mine[-1].sent.append((int(partition), value))
        else:
            run.loose.append(_Loose(int(partition), value))
    try:
        said = run.programs[step.by].call(step.call)
    except HungError as error:
        raise HungError(f"{name}: {error}") from None
    if said == UNSUPPORTED:
        raise NoOccasionError(f"the program has no {name}")
    if name == "values":
        known = [value for _, value in _committed(server, int(rest))[0]]
        if [value for value in said.split(",") if value] != known:
            run.wrong.append(f"a reader gets {said!r}, and committed are {','.join(known)!r}")
        return
    if step.gives is not None:
        if said != step.gives:
            run.wrong.append(f"{name} gives {said[:200]!r}, not {step.gives!r}")
        return
    _keep(run, step, name, said)


def _keep(run: _Run, step: Step, name: str, said: str) -> None:
    """Keeps the answer to a producer's call."""
    mine = run.transactions[step.by]
    if name == "send" and said != OK and run.loose:
        run.loose[-1].answer = said
    if name == "flush":
        for one in run.loose:
            one.answer = one.answer or said
    if name in ("commitTransaction", "abortTransaction") and mine and mine[-1].outcome is None:
        mine[-1].outcome = {"commitTransaction": "committed", "abortTransaction": "aborted"}[name]
        if said != OK:
            mine[-1].outcome = "unknown" if name == "commitTransaction" else None
    if step.wanted is Wanted.OK and said != OK:
        run.wrong.append(f"{name} fails: {said[:200]}")
    if step.wanted is Wanted.FAILS and said == OK:
        run.wrong.append(f"{name} says ok, but it can't have succeeded")


def _append(server: Server, value: str) -> None:
    """Appends a record to the topic that groups read."""
    record = Record(offset_delta=0, value=value.encode())
    batch = encode_batch(RecordBatch(base_offset=0, records=(record,), last_offset_delta=0))
    data = [{"name": INPUT, "partition_data": [{"index": 0, "records": batch}]}]
    fields = {"acks": -1, "transactional_id": None, "topic_data": data}
    version = server.brokers.versions["Produce"][1]
    request = Request("Produce", version, fields, None, -1, server.nodes.leader(0))

    async def produce() -> None:
        server.logs.produce(request)

    server.brokers.do(produce())


def _settle(server: Server) -> None:
    """Waits until no fault waits, and no ended transaction is open at a leader."""
    until = time.monotonic() + SETTLING_S
    while time.monotonic() < until:
        if not any(fault.waiting for fault in server.faults.all.values()) and not any(
            _committed(server, number)[1] for number in range(PARTITIONS)
        ):
            return
        time.sleep(0.05)


def _batches(server: Server, partition: int) -> Iterator[RecordBatch]:
    """All batches of a partition."""
    end = server.partitions.leader(TOPIC, partition).log_end_offset
    data = server.partitions.read(TOPIC, partition, 0, end, 2**30, at_least_one=True).data
    at = 0
    while at < len(data):
        batch, at = decode_batch(data, at)
        yield batch


def _committed(server: Server, partition: int) -> tuple[list[tuple[int, str]], set[int]]:
    """The committed records by offset, and the producer ids with an open transaction."""

    async def look() -> list[RecordBatch]:
        return list(_batches(server, partition))

    found: dict[int, str] = {}
    pending: dict[int, dict[int, str]] = {}
    for batch in server.brokers.do(look()):
        if batch.attributes & Flag.CONTROL:
            ended = pending.pop(batch.producer_id, {})
            if decode_control_type(batch.records[0].key or b"") == _COMMIT:
                found |= ended
            continue
        values = {
            batch.base_offset + record.offset_delta: (record.value or b"").decode()
            for record in batch.records
        }
        if batch.attributes & Flag.TRANSACTIONAL:
            pending.setdefault(batch.producer_id, {}).update(values)
        else:
            found |= values
    return sorted(found.items()), set(pending)


def _in_the_log(run: _Run, server: Server) -> Iterator[str]:
    """The differences between the log and the client's reports."""
    committed: dict[int, list[str]] = {}
    is_open = False
    for partition in range(PARTITIONS):
        there, pending = _committed(server, partition)
        committed[partition] = [value for _, value in there]
        is_open = is_open or bool(pending)
    every = [each for those in run.transactions.values() for each in those]
    for partition, values in committed.items():
        for value in dict.fromkeys(values):
            if values.count(value) > 1:
                yield f"record {value[:20]} is in the log {values.count(value)} times"
        sent = [value for each in every for place, value in each.sent if place == partition]
        sent += [one.value for one in run.loose if one.partition == partition]
        ranks = [sent.index(value) for value in dict.fromkeys(values) if value in sent]
        if ranks != sorted(ranks) and len(run.transactions) == 1:
            yield "the records aren't in the order of sending"
    for one in every:
        there = [value in committed[partition] for partition, value in one.sent]
        names = ", ".join(value[:20] for _, value in one.sent)
        if one.outcome == "committed" and not all(there):
            yield f"a transaction is reported committed, and not all of it is read ({names})"
        if one.outcome == "aborted" and any(there):
            yield f"a transaction is reported aborted, and is read ({names})"
        if any(there) and not all(there):
            yield f"a transaction is committed in part ({names})"
        if one.outcome is None and any(there):
            yield f"a transaction that the application didn't commit is read ({names})"
    for one in run.loose:
        if one.answer == OK and one.value not in committed[one.partition]:
            yield f"record {one.value[:20]} is acknowledged, and isn't in the log"
    if is_open and all(each.outcome in ("committed", "aborted") for each in every):
        yield "a transaction hangs: its end is reported, and a leader has it open"


def to_junit(command: str, findings: Sequence[Finding]) -> bytes:
    """The findings as a JUnit report with a test case for each rule."""
    suite = ElementTree.Element("testsuite", name=f"rules: {command}")
    for each in findings:
        name = f"{number_of(each.rule)} {each.rule.id}"
        case = ElementTree.SubElement(suite, "testcase", classname="rules", name=name, time="0")
        if each.verdict is Verdict.FAILED:
            text = ElementTree.SubElement(case, "failure", message=each.why, type="FAILED")
            text.text = each.rule.text
        elif each.verdict is Verdict.SKIPPED:
            ElementTree.SubElement(case, "skipped", message=each.why)
    return suite_text(suite).encode()
