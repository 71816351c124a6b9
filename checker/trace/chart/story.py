"""A trace in sentences, one for each step, with the source of its row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ....language import Instance
from ...verdict.constant_folding import declared_rows
from .chart import Arrow, Chart, ChartStep

MOST = 4  # most changes in a sentence; the chart has all
IN_BRIEF = 8
"""The most sentences of a run in brief."""


def in_brief(chart: Chart, instance: Instance, states: Mapping[str, str], reason: str) -> list[str]:
    """The run in at most IN_BRIEF sentences: the last state of each actor and the message that it
    took last, the harmful step, and the `reason` of the verdict. `states` are the actors' states at
    the end.
    """
    shown = chart.titled()
    untitled = dict(zip(shown.lanes, chart.lanes, strict=True))
    actors: list[str] = []
    for lane in shown.lanes:
        taken = [step for step in shown.steps if step.lane == lane and step.took is not None]
        state = states.get(untitled[lane], "")
        known = [f"is in {state}"] if state else []
        if taken and taken[-1].took is not None:
            took = taken[-1].took
            error = dict(took.fields).get("error", "")
            heard = f"{took.message} {error}".rstrip()
            known.append(f"has last heard {heard} from {took.source}, in step {taken[-1].number}")
        if known:
            actors.append(f"{lane} {' and '.join(known)}.")
    ends = [reason]
    if chart.harmful is not None and chart.steps:
        step = shown.steps[chart.harmful - 1]
        name = sentences(chart, instance)[chart.harmful - 1]
        event = f"takes {step.took.message}" if step.took is not None else f"does {step.event}"
        late = ""
        if step.took is not None and step.took.is_late:
            late = f", which was sent in step {step.took.sent}"
        ends.insert(0, f"The harmful step is {step.number}: {step.lane} {event}{late}. {name}")
    return [*actors[: IN_BRIEF - len(ends)], *ends]


def story(chart: Chart, instance: Instance) -> Iterator[str]:
    """The steps of a chart as numbered sentences."""
    declared = declared_rows(instance)
    for step in chart.steps:
        if step.number - 1 == chart.loop:
            yield "From here on, again and again:"
        row = declared.get((step.table, step.row))
        end = f" ({row.source})" if row is not None and row.source else ""
        yield f"{step.number}. {' '.join(_sentences(step))}{end}"
    for arrow in chart.in_flight:
        yield f"{arrow.message} of step {arrow.sent} is still in flight to {arrow.target}."


def sentences(chart: Chart, instance: Instance) -> list[str]:
    """For each step of a chart, the name of its row as a sentence."""
    declared = declared_rows(instance)
    found: list[str] = []
    for step in chart.steps:
        row = declared.get((step.table, step.row))
        text = step.row if row is None else row.name or row.id
        found.append(f"{text[:1].upper()}{text[1:]}.")
    return found


def _sentences(step: ChartStep) -> Iterator[str]:
    yield f"{_begin(step)}: {step.row}."
    if step.changes:
        more = f" and {len(step.changes) - MOST} more" if len(step.changes) > MOST else ""
        yield f"{'; '.join(step.changes[:MOST])}{more}."
    for arrow in step.sent:
        yield f"It sends {arrow.message} to {arrow.target}{_fate(arrow, step.number)}."


def _begin(step: ChartStep) -> str:
    took = step.took
    if took is None:
        detail = f"({step.detail})" if step.detail else ""
        return f"{step.lane}: {step.event}{detail}"
    late = f", sent at step {took.sent}" if took.is_late else ""
    again = " once more" if took.again else ""
    if took.fate:
        return f"{took.message} from {took.source} to {step.lane} is {took.fate}{late}"
    return f"{step.lane} takes {took.message} from {took.source}{again}{late}"


def _fate(arrow: Arrow, number: int) -> str:
    if arrow.taken is None:
        return ", which stays in flight"
    if arrow.taken == number + 1 and not arrow.fate:
        return ""
    return f", which is {arrow.fate or 'taken'} at step {arrow.taken}"
