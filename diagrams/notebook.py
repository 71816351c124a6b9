"""The display of a system, a trace, a result and states in a notebook: as diagram, chart and table.

`StatesTable` is for tables of other libraries; Epochfence's tables have their own display.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import singledispatch
from html import escape
from itertools import islice
from typing import Any, cast

from ..checker.output.report import TITLES, named, settings
from ..checker.output.summary import BROKEN
from ..checker.trace.chart.chart import chart_of, text_of
from ..checker.trace.chart.text import to_lines
from ..checker.trace.trace import Trace
from ..checker.verdict.result import Outcome, Result
from ..language import System
from .drawing.graph import Graph
from .drawing.overview import overview
from .drawing.render import to_same_svg
from .drawing.runs.log import logs_svg
from .drawing.runs.sequence import to_svg
from .drawing.state import state_diagram
from .drawing.system import system_graph

MOST = 20
"""The number of shown rows of a table."""
WIDTH = 100  # of text
_STYLE = """<style>
.epochfence svg { max-width: 100%; height: auto; }
.epochfence table { border-collapse: collapse; font-size: 13px; margin: .4em 0; }
.epochfence th, .epochfence td {
  border: 1px solid #8886; padding: .15em .6em; text-align: left; white-space: nowrap;
}
.epochfence .scrolls { overflow-x: auto; }
</style>"""


@singledispatch
def html(shown: object) -> str | None:
    """The markup of a value in a notebook. A value without a picture is shown as states."""
    return _table_of(shown, MOST)


@singledispatch
def text(shown: object) -> str:
    """The same in lines."""
    found: Any = shown
    return f"{found.count:,} states"


@html.register
def _(shown: Trace) -> str:
    return _whole(_chart(shown), *_log(shown))


@text.register
def _(shown: Trace) -> str:
    return "\n".join([*to_lines(chart_of(shown), width=WIDTH), shown.conclusion, *shown.why])


@html.register
def _(shown: System) -> str:
    newest = shown.protocols.newest
    parts = [f"<p><b>{escape(shown.name)}</b>: {escape(shown.doc)}</p>"]
    parts.append(_part("Messages between the machines", _drawn(system_graph(shown, [newest]))))
    for machine in (each for each in shown.machines if each.state is not None):
        graph = overview(state_diagram(shown, machine, [newest]), alone=False)
        parts.append(_part(f"The states of {machine.name} in {newest}", _drawn(graph)))
    return _whole(*parts)


@text.register
def _(shown: System) -> str:
    machines = ", ".join(machine.name for machine in shown.machines)
    return f"System {shown.name}: {machines}; {len(shown.properties)} properties"


@html.register
def _(shown: Outcome) -> str:
    title = shown.reason if shown.verdict in BROKEN else TITLES[shown.verdict]
    said = [f"<b>{escape(title)}</b>", *([] if title == shown.reason else [escape(shown.reason)])]
    figures = [escape(named(shown, settings(shown.constants))), f"depth {shown.depth:,}"]
    if isinstance(shown, Result):
        figures += [f"{shown.states:,} states", f"{shown.transitions:,} transitions"]
    parts = [f"<p>{' '.join(said)}</p><p>{', '.join(figures)}</p>"]
    rows = [(item.name, item.verdict, item.trace_length, item.note) for item in shown.properties]
    if rows:
        parts.append(_table(("property", "verdict", "steps", "known"), rows))
    if shown.trace is not None:
        parts.append(_part("The run, as a sequence chart", _chart(shown.trace)))
        parts += _log(shown.trace)
    return _whole(*parts)


@text.register
def _(shown: Outcome) -> str:
    lines = [f"{named(shown)}: {TITLES[shown.verdict]}", shown.reason]
    return "\n".join(filter(None, lines))


class StatesTable:
    """States or steps as a table: the first rows of a run's result (`Result.data`), of a
    table of Arrow, or of a data frame of pandas or Spark, with a column for each instance."""

    def __init__(self, data: Any, most: int = MOST) -> None:
        self.data = data
        self.most = most

    def _repr_html_(self) -> str:
        """The markup. With Spark, this runs a job that fetches the shown rows."""
        return _table_of(self.data, self.most)

    def __repr__(self) -> str:
        return f"The first {self.most} rows: a notebook shows them as a table."


# Parts -------------------------------------------------------------------------------------------


def _whole(*parts: str) -> str:
    return f'<div class="epochfence">{_STYLE}{"".join(parts)}</div>'


def _part(title: str, content: str) -> str:
    return f"<details open><summary>{escape(title)}</summary>{content}</details>"


def _drawn(graph: Graph) -> str:
    return _inner(to_same_svg(graph))


def _chart(trace: Trace) -> str:
    return _inner(to_svg(chart_of(trace), trace.conclusion, trace.why))


def _log(trace: Trace) -> Iterator[str]:
    """The log in the last state, if the system declares one."""
    if trace.logs and trace.logs[-1]:
        yield _part("The log at the end", _inner(logs_svg(trace.logs[-1])))


def _inner(svg: bytes) -> str:
    """A drawing without the header of a file."""
    return svg[svg.index(b"<svg") :].decode()


def _table_of(data: Any, most: int) -> str:
    count = None
    if hasattr(data, "state_batches"):
        rows = (row for batch in data.state_batches() for row in batch.to_pylist())
        return _whole(_states(islice(rows, most), data.count))
    if hasattr(data, "to_dict"):  # of pandas
        return _whole(_states(data.head(most).to_dict("records"), len(data)))
    if hasattr(data, "toArrow"):  # of Spark
        data = data.limit(most).toArrow()
    else:
        count = data.num_rows
    return _whole(_states(data.slice(0, most).to_pylist(), count))


def _states(rows: Iterable[Mapping[str, Any]], count: int | None) -> str:
    """Rows with a column for each instance; `count` is of all rows."""
    shown = list(rows)
    heads: dict[str, list[str]] = {}
    for row in shown:
        for name, value in row.items():
            inner = cast(Mapping[str, Any], value) if isinstance(value, Mapping) else [""]
            heads.setdefault(name, [*inner])
    above = "".join(
        f'<th colspan="{len(inner)}">{escape(name)}</th>'
        if any(inner)
        else f'<th rowspan="2">{escape(name)}</th>'
        for name, inner in heads.items()
    )
    below = "".join(f"<th>{escape(one)}</th>" for inner in heads.values() for one in inner if one)
    body = "".join(f"<tr>{''.join(_cells(row, heads))}</tr>" for row in shown)
    rows_of = f"the first {len(shown):,}" if count is None else f"{len(shown):,} of {count:,}"
    return (
        f'<div class="scrolls"><table><thead><tr>{above}</tr><tr>{below}</tr></thead>'
        f"<tbody>{body}</tbody></table></div><p>{rows_of} rows</p>"
    )


def _cells(row: Mapping[str, Any], heads: Mapping[str, list[str]]) -> Iterator[str]:
    for name, inner in heads.items():
        value: Any = row.get(name)
        each: list[Any] = [value]
        if inner != [""]:
            parts: Mapping[str, Any] = value or {}
            each = [parts.get(one) for one in inner]
        for one in each:
            listed = one.tolist() if hasattr(one, "tolist") else one  # NumPy's, in pandas
            yield f"<td>{escape(text_of(listed))}</td>"


def _table(heads: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    above = "".join(f"<th>{escape(head)}</th>" for head in heads)
    cells = (["" if one is None else escape(str(one)) for one in row] for row in rows)
    body = "".join(f"<tr>{''.join(map('<td>{}</td>'.format, row))}</tr>" for row in cells)
    return f"<table><thead><tr>{above}</tr></thead><tbody>{body}</tbody></table>"
