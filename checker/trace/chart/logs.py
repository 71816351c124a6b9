"""The logs of a state for pictures and terminals: entries by offset, and their ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....language import Expression, Instance, LastRecord, Log
from ....language.declaration.typecheck import type_of
from ....language.expressions import Operand, lift
from ....language.terms.values import evaluate
from ....language.types import Key, Type, Value, show_value

DATA, COMMIT, ABORT = "data", "commit", "abort"


@dataclass(frozen=True)
class LogEntry:
    """An entry: its offset, whether it is data or a marker, and its text in up to three parts.

    `is_visible` is None if the declaration doesn't mention a read_committed consumer.
    """

    offset: int
    kind: str
    record: str
    producer: str
    is_open: bool
    is_visible: bool | None

    @property
    def title(self) -> str:
        """The first line: the record, or the marker."""
        return self.record if self.kind == DATA and self.record else self.kind


@dataclass(frozen=True)
class ShownLog:
    """A log in a state. The ends are offsets, or None if the system doesn't declare them."""

    title: str
    entries: tuple[LogEntry, ...]
    high_watermark: int | None = None
    last_stable_offset: int | None = None

    @property
    def end(self) -> int:
        """The log end offset."""
        return self.entries[-1].offset + 1 if self.entries else 0

    def below(self, offset: int) -> bool:
        """Whether a read_committed consumer may read this offset."""
        ends = (self.high_watermark, self.last_stable_offset)
        return all(end is None or offset < end for end in ends)

    @property
    def is_open(self) -> bool:
        """Whether entries wait for the end of a transaction."""
        return self.last_stable_offset is not None and self.last_stable_offset < self.end

    @property
    def consumer(self) -> tuple[str, ...]:
        """For each entry, the view of a read_committed consumer: read, skipped, waits, or empty if
        it isn't declared.
        """
        return tuple(self._view(entry) for entry in self.entries)

    def _view(self, entry: LogEntry) -> str:
        if entry.is_visible is None:
            return ""
        if not self.below(entry.offset):
            return "waits"
        return "read" if entry.is_visible else "skipped"


@dataclass(frozen=True)
class ShownRecords:
    """The records of a compacted log, whose last record is in the state: all records of the run so
    far, each as its fields. If the initial state has a record, it is the first one.
    """

    title: str
    records: tuple[tuple[tuple[str, str], ...], ...]


Logs = tuple[ShownLog | ShownRecords, ...]


def logs_of(instance: Instance, states: Sequence[Sequence[Value]]) -> tuple[Logs, ...]:
    """The logs in each state of a run. A state has a value for each variable of the instance."""
    found: list[Logs] = []
    for values in states:
        state = _State(instance, values)
        now = tuple(shown for log in instance.logs for shown in state.shown(log))
        if found:
            now = tuple(map(_continued, found[-1], now))
        found.append(now)
    return tuple(found)


def _continued(before: ShownLog | ShownRecords, now: ShownLog | ShownRecords) -> Any:
    """The records so far."""
    if isinstance(before, ShownLog) or isinstance(now, ShownLog):
        return now
    is_new = now.records and now.records != before.records[-1:]
    return replace(now, records=before.records + now.records if is_new else before.records)


class _State:
    def __init__(self, instance: Instance, values: Sequence[Value]) -> None:
        self.instance = instance
        names = (variable.name for variable in instance.variables)
        self.state = dict(zip(names, values, strict=True))

    def shown(self, log: Log | LastRecord) -> Iterator[ShownLog | ShownRecords]:
        if isinstance(log, LastRecord):
            there = self.value(lift(log.when), {})
            fields = ((name, self.short(value, {}, "")) for name, value in log.fields.items())
            yield ShownRecords(_capital(log.title), (tuple(fields),) if there else ())
        elif log.each is None:
            yield self.log(log, {}, "")
        else:
            key = log.each.data.type
            assert isinstance(key, Key)
            for number in range(key.count(self.instance.constants)):
                yield self.log(log, {log.each: number}, f" {number}")

    def log(self, log: Log, scope: Mapping[Expression, Value], which: str) -> ShownLog:
        entries: list[LogEntry] = []
        sequence: Any = self.value(log.entry.args[0], scope)
        place = Expression("position", (log.entry,))
        for at, value in enumerate(sequence):
            here = {**scope, log.entry: value, place: at}
            entries.append(self.entry(log, here))
        return ShownLog(
            f"{_capital(log.title)}{which}",
            tuple(entries),
            self.number(log.high_watermark, scope),
            self.number(log.last_stable_offset, scope),
        )

    def entry(self, log: Log, here: Mapping[Expression, Value]) -> LogEntry:
        kind = "" if log.kind is None else self.text(log.kind, here)
        marker = next((name for name in (COMMIT, ABORT) if name.upper() in kind), DATA)
        record = ""
        if marker == DATA and log.record is not None:
            record = self.short(log.record, here, f"{log.called} ")
        producer = [] if log.producer is None else [f"id {self.short(log.producer, here, '')}"]
        if log.epoch is not None:
            producer.append(f"epoch {self.short(log.epoch, here, '')}")
        visible = None if log.is_visible is None else bool(self.value(lift(log.is_visible), here))
        is_open = log.is_open is not None and bool(self.value(lift(log.is_open), here))
        offset = self.number(log.offset, here)
        assert offset is not None
        return LogEntry(offset, marker, record, ", ".join(producer), is_open, visible)

    def short(self, value: Operand, scope: Mapping[Expression, Value], name: str) -> str:
        """A number, or the number of a key's instance, after `name`."""
        found = self.value(lift(value), scope)
        is_number = isinstance(found, int) and not isinstance(found, bool)
        return f"{name}{found}" if is_number else self.text(value, scope)

    def text(self, value: Operand, scope: Mapping[Expression, Value]) -> str:
        kind: Type | None = type_of(lift(value))
        found = self.value(lift(value), scope)
        return "none" if kind is None else show_value(kind, found)

    def number(self, value: Operand, scope: Mapping[Expression, Value]) -> int | None:
        if value is None:
            return None
        found: Any = self.value(lift(value), scope)
        return None if found is None else int(found)

    def value(self, expression: Expression, scope: Mapping[Expression, Value]) -> Value:
        return evaluate(expression, self.state, self.instance.constants, dict(scope))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def to_lines(logs: Logs, before: Logs | None = None) -> Iterator[str]:
    """The logs as lines of text; with `before`, only logs that differ from it."""
    for at, log in enumerate(logs):
        if before is not None and before[at] == log:
            continue
        if isinstance(log, ShownRecords):
            last = log.records[-1] if log.records else ()
            text = ", ".join(f"{name} {value}" for name, value in last)
            yield f"{log.title}: {text or 'empty'}"
        else:
            yield f"{log.title}: {_entries(log)}"


def _entries(log: ShownLog) -> str:
    """The entries in one line: `0:record 0 (id 0)  1:commit`, with the ends between them."""
    parts = [_ends(log, 0)]
    signs = {"read": "", "skipped": " skipped", "waits": " waits", "": ""}
    for entry, view in zip(log.entries, log.consumer, strict=True):
        producer = f" ({entry.producer})" if entry.producer else ""
        view = signs[view] if entry.kind == DATA else ""
        parts.append(f"{entry.offset}:{entry.title}{producer}{view}")
        parts.append(_ends(log, entry.offset + 1))
    return "  ".join(filter(None, parts)) or "empty"


def _ends(log: ShownLog, offset: int) -> str:
    ends = (("LSO", log.last_stable_offset), ("HW", log.high_watermark))
    names = "=".join(name for name, end in ends if end == offset)
    return f"|{names}|" if names and log.entries else ""
