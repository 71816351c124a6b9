"""A trace as a sequence chart: lanes, steps in them, and messages between them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..trace import Trace, TraceStep

if TYPE_CHECKING:
    from ....language import System


@dataclass(frozen=True)
class Arrow:
    """A message between two steps, which are numbered from 1. `sent` is 0 if the message was in
    flight at first; `taken` is None if it is still in flight at the end. `fate` is set if it wasn't
    just taken (`lost`, `refused`). `again`: it had been taken before.
    """

    message: str
    fields: tuple[tuple[str, str], ...]
    source: str
    target: str
    sent: int
    taken: int | None = None
    fate: str = ""
    again: bool = False

    @property
    def is_late(self) -> bool:
        """Whether there are other steps between `sent` and `taken`."""
        return self.taken is not None and self.taken > self.sent + 1


@dataclass(frozen=True)
class ChartStep:
    """The event of one lane, its row, and the changes."""

    number: int
    lane: str
    event: str
    detail: str
    row: str
    changes: tuple[str, ...]
    took: Arrow | None
    sent: tuple[Arrow, ...]
    table: str = ""

    def receiver(self, arrow: Arrow) -> str:
        """The addressee of a message, if the step sends several of the kind; else empty."""
        alike = sum(other.message == arrow.message for other in self.sent)
        return f" to {arrow.target}" if alike > 1 else ""


@dataclass(frozen=True)
class Chart:
    """A trace to draw. The steps after step `loop` repeat for ever."""

    lanes: tuple[str, ...]
    steps: tuple[ChartStep, ...]
    in_flight: tuple[Arrow, ...]
    """Messages that nobody took."""
    loop: int | None = None
    titles: Mapping[str, str] = field(default_factory=dict[str, str])
    """The names of lanes and messages in pictures, if they differ."""
    harmful: int | None = None
    """The number of the harmful step, if a property doesn't hold at the end."""

    @property
    def marked(self) -> int:
        """The number of the step to mark: the harmful one, or the last."""
        return self.harmful or len(self.steps)

    def titled(self) -> Chart:
        """The chart with its names in pictures."""

        def name(known: str) -> str:
            return self.titles.get(known, known)

        def arrow(of: Arrow) -> Arrow:
            return replace(
                of, message=name(of.message), source=name(of.source), target=name(of.target)
            )

        def step(of: ChartStep) -> ChartStep:
            took = None if of.took is None else arrow(of.took)
            return replace(of, lane=name(of.lane), took=took, sent=tuple(map(arrow, of.sent)))

        return replace(
            self,
            lanes=tuple(map(name, self.lanes)),
            steps=tuple(map(step, self.steps)),
            in_flight=tuple(map(arrow, self.in_flight)),
        )

    def left_over(self) -> Iterator[str]:
        """A line for each message that nobody took."""
        for arrow in self.in_flight:
            to = self.steps[arrow.sent - 1].receiver(arrow) if arrow.sent else ""
            yield f"{arrow.message} of step {arrow.sent}{to} is still in flight."


def in_brief(chart: Chart, system: System) -> Chart:
    """The chart in brief: the actors and their steps, without changes except the machines' new
    states.
    """
    states = {
        machine.name: machine.state.data.name
        for machine in system.machines
        if machine.state is not None
    }

    def left(step: ChartStep) -> tuple[str, ...]:
        state = states.get(_machine(step.lane))
        return tuple(change for change in step.changes if change.partition(":")[0] == state)

    return replace(chart, steps=tuple(replace(step, changes=left(step)) for step in chart.steps))


def chart_of(trace: Trace) -> Chart:
    """The chart of a trace. Lanes are grouped by machine, in the order in which the machines first
    act, send or receive.
    """
    arrows = _Arrows()
    taken = [arrows.step(number, step) for number, step in enumerate(trace.steps, 1)]
    steps = [
        ChartStep(
            number,
            step.actor,
            *_event(step),
            step.row,
            tuple(_changes(step)),
            None if took is None else arrows.found[took],
            tuple(arrows.found[at] for at in sent),
            step.table,
        )
        for (number, step), (took, sent) in zip(enumerate(trace.steps, 1), taken, strict=True)
    ]
    left = tuple(arrow for arrow in arrows.found if arrow.taken is None)
    lanes = dict.fromkeys(lane for step in steps for lane in _lanes(step))
    machines = list(dict.fromkeys(map(_machine, lanes)))
    ordered = sorted(lanes, key=lambda lane: (machines.index(_machine(lane)), lane))
    return Chart(tuple(ordered), tuple(steps), left, trace.loop, trace.titles, trace.harmful)


def _lanes(step: ChartStep) -> Iterator[str]:
    if step.took is not None:
        yield step.took.source
    yield step.lane
    for arrow in step.sent:
        yield arrow.target


def _machine(lane: str) -> str:
    return lane.rstrip("0123456789")


def _event(step: TraceStep) -> tuple[str, str]:
    """The event's name, and the text in its brackets unless it is a message."""
    name, _, inside = step.action.partition("(")
    return name, "" if step.about is not None else inside.removesuffix(")")


def _changes(step: TraceStep) -> Iterator[str]:
    """The changes. After a field of a record, the record's next field is shown as `.field`."""
    last = ""
    for where, before, after in step.changes:
        record, dot, name = where.rpartition(".")
        shown = f".{name}" if dot and record == last else where
        last = record
        yield f"{shown}: {before} → {after}" if before else f"{shown}: {after}"


class _Arrows:
    """The messages of a run, with the steps that sent and took them. Of equal messages in flight,
    the one that was sent first is taken first.
    """

    def __init__(self) -> None:
        self.found: list[Arrow] = []
        self._waiting: defaultdict[str, list[int]] = defaultdict(list)

    def step(self, number: int, step: TraceStep) -> tuple[int | None, list[int]]:
        """The indices in `found` of the arrow that a step takes, and of those that it sends."""
        verb = step.action.partition("(")[0]
        took = None
        if step.about is not None:
            fate = verb.removesuffix(step.about["message"]).strip()
            took = self._take(number, step.about, step.actor, fate)
        for message in step.dropped:
            self._take(number, message, step.actor, "lost")
        sent: list[int] = []
        for message in step.sent:
            if step.about is not None and took is not None and _key(message) == _key(step.about):
                # it stays in flight: a second arrow from the same step
                first = self.found[took]
                self._wait(message, replace(first, taken=None, fate="", again=True))
                continue
            sent.append(len(self.found))
            self._wait(message, _arrow(message, step.actor, number))
        return took, sent

    def _wait(self, message: Mapping[str, Any], arrow: Arrow) -> None:
        self._waiting[_key(message)].append(len(self.found))
        self.found.append(arrow)

    def _take(self, number: int, message: Mapping[str, Any], actor: str, fate: str) -> int:
        waiting = self._waiting[_key(message)]
        if not waiting:  # it was in flight at first
            self._wait(message, _arrow(message, message["from"] or actor, 0))
        at = waiting.pop(0)
        self.found[at] = replace(self.found[at], taken=number, fate=fate)
        return at


def _key(message: Mapping[str, Any]) -> str:
    return json.dumps([message["message"], message["from"], message["to"], message["fields"]])


def _arrow(message: Mapping[str, Any], source: str, number: int) -> Arrow:
    fields = tuple((name, text_of(value)) for name, value in message["fields"].items())
    source = message["from"] or source
    return Arrow(message["message"], fields, source, message["to"], number)


def text_of(value: Any) -> str:
    """The text of a JSON value."""
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case Mapping():
            return f"({', '.join(f'{name}={text_of(part)}' for name, part in _pairs(value))})"
        case str():
            return value
        case Sequence():
            return f"[{', '.join(map(text_of, value))}]"  # pyright: ignore
        case _:
            return str(value)


def _pairs(value: Any) -> Iterator[tuple[str, Any]]:
    yield from value.items()
