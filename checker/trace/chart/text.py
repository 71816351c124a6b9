"""Sequence charts for a terminal: lanes on the left, events on the right."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as TypingSequence

from .chart import Arrow, Chart, ChartStep
from .logs import Logs
from .logs import to_lines as logs_to_lines

WIDTH = 100
LEAST, WIDEST = 56, 14
"""Columns: of the text beside the lanes at least, of a lane at most."""

_JOINED = "\xa0"  # a no-break space


def to_lines(chart: Chart, width: int = WIDTH, logs: TypingSequence[Logs] = ()) -> list[str]:
    """The chart in lines of `width` characters. Names aren't broken, and the name of a lane is cut
    if there is no room. With the `logs` of each state, logs that a step changes are below the step.
    """
    return [line.rstrip() for line in _Text(chart, width, logs).lines()]


class _Text:
    def __init__(self, chart: Chart, width: int, logs: TypingSequence[Logs]) -> None:
        self.logs = logs
        self.chart = chart
        self.width = width
        self.number = len(str(len(chart.steps)))
        longest = max(map(len, chart.lanes), default=1) + 1
        share = (width - LEAST - self.number) // max(1, len(chart.lanes))
        self.lane = max(6, min(WIDEST, longest, share))
        self.places = {name: at * self.lane + self.lane // 2 for at, name in enumerate(chart.lanes)}

    def lines(self) -> Iterator[str]:
        yield from self._names()
        for step in self.chart.steps:
            if step.number - 1 == self.chart.loop:
                yield "from here on, again and again:"
            lanes = self._drawn(step)
            number = str(step.number)
            for line in self._beside(step):
                yield f"{number:>{self.number}} {lanes}  {line}"
                number, lanes = "", self._lanes()
            if step.number < len(self.logs):
                before, now = self.logs[step.number - 1 : step.number + 1]
                for line in logs_to_lines(now, before):
                    yield from textwrap.wrap(
                        line,
                        self.width,
                        initial_indent="  ═ ",
                        subsequent_indent="    ",
                        break_on_hyphens=False,
                    )
        yield from self.chart.left_over()

    def _names(self) -> Iterator[str]:
        """The names above their lanes. Every other one is on a second line if there is no room."""
        rows = 2 if any(len(name) >= self.lane for name in self.chart.lanes) else 1
        for row in range(rows):
            line = ""
            for name in self.chart.lanes[row::rows]:
                room = rows * self.lane - 1
                shown = name[:room]
                begin = self.places[name] - len(shown) // 2
                line = f"{line:{max(begin, len(line) + bool(line))}}{shown}"
            yield f"{'':{self.number}} {line}"

    def _lanes(self, marks: Iterable[tuple[int, str]] = ()) -> str:
        drawn = [" "] * (self.lane * len(self.chart.lanes))
        for place in self.places.values():
            drawn[place] = "│"
        for place, mark in marks:
            drawn[place] = mark
        return "".join(drawn)

    def _drawn(self, step: ChartStep) -> str:
        """The lanes where a step is taken, with the arrow of the message that it takes."""
        here = self.places[step.lane]
        if step.took is None or step.took.source == step.lane:
            return self._lanes([(here, "●")])
        there = self.places[step.took.source]
        way = 1 if there < here else -1
        line = [(place, "─") for place in range(there + way, here, way)]
        head = ("▶" if way > 0 else "◀") if not step.took.fate else "✗"
        start = "├" if way > 0 else "┤"
        return self._lanes([*line, (there, start), (here - way, head), (here, "●")])

    def _beside(self, step: ChartStep) -> Iterator[str]:
        """The event, and indented below it the message's fields, the changes, and sent messages
        without an arrow to the next step.
        """
        inside = f"({step.detail})" if step.detail else ""
        late = f", sent at step {step.took.sent}" if step.took and step.took.is_late else ""
        yield from self._wrapped([f"{step.event}{inside}", f"[{step.row}]{late}"], "")
        if step.took is not None:
            yield from self._wrapped([f"{name}={value}" for name, value in step.took.fields])
        yield from self._wrapped([f"{change};" for change in step.changes])
        for arrow in step.sent:  # the next step shows its message, unless the sender takes it
            to, at_once = step.receiver(arrow), arrow.taken == step.number + 1
            if to or not at_once or arrow.target == step.lane:
                yield from self._wrapped([f"sends {arrow.message}{to}, {_taken(arrow)}"])

    def _wrapped(self, parts: list[str], indent: str = "  ") -> list[str]:
        """The parts in lines. A part that fits into a line isn't broken."""
        room = self.width - self.number - 3 - self.lane * len(self.chart.lanes)
        whole = (part.replace(" ", _JOINED) if len(part) < room - 2 else part for part in parts)
        lines = textwrap.wrap(
            " ".join(whole).rstrip(";"),
            room,
            initial_indent=indent,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        return [line.replace(_JOINED, " ") for line in lines]


def _taken(arrow: Arrow) -> str:
    if arrow.taken is None:
        return "which stays in flight"
    return f"{arrow.fate or 'taken'} at step {arrow.taken}"
