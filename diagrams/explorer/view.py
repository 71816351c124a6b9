"""The page's view of a path: the run as a chart, the state, the possible steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path as File
from typing import Any

from ...checker.trace.chart.chart import chart_of
from ...checker.trace.chart.logs import logs_of
from ...checker.trace.trace import Trace, TraceStep, differences
from ...checker.verdict.constant_folding import declared_rows
from ...checker.verdict.violation import harmful_step
from ...language import Instance, Row
from ...language.types import show_value
from ...model.engine.interpreter import FullState, Step
from ..drawing.runs.log import logs_address
from ..report.page import steps_of
from ..report.state import laid_out
from ..templates import templates
from .session import BlockedTable, Run, Session, as_text

MOST_SHOWN = 60  # shown possible steps; the filter finds others

HERE = File(__file__).parent


@dataclass(frozen=True)
class Offer:
    """A possible step: its number in the path and its effect. With `stays`, the state doesn't
    change; `is_fault` says whether it is one of the environment, and `out_of_range` why it reaches
    no state. `other` has the differences in the second release, if one is shown."""

    number: int
    step: TraceStep
    source: str
    out_of_range: str
    stays: bool
    is_fault: bool
    other: tuple[str, ...] = ()

    @property
    def event(self) -> str:
        """The event's name."""
        return self.step.action.partition("(")[0]

    @property
    def inside(self) -> str:
        """The text after the event, in brackets."""
        return self.step.action.removeprefix(self.event)

    @property
    def changes(self) -> list[str]:
        """The fields that the step changes, each with its value before and after."""
        return [f"{where}: {f'{a} → ' if a else ''}{b}" for where, a, b in self.step.changes]


@dataclass(frozen=True)
class Views:
    """Views of a session, with a comparison to another release if there is one."""

    session: Session

    @cached_property
    def _rows(self) -> dict[tuple[str, str], Row]:
        return declared_rows(self.session.instance)

    def of(
        self, run: Run, beside: Session | None, find: str, searched: Mapping[str, str]
    ) -> dict[str, Any]:
        """The view of a run as data for the page. It has only the possible steps with the words
        `find`. `searched` has the results of searches for goals from the first state."""
        session, state = self.session, run.state
        possible = session.steps(state)
        offers = sorted(
            self._offers(state, possible, beside), key=lambda item: (item.is_fault, item.stays)
        )
        words = find.casefold().split()
        wanted = [item for item in offers if all(w in _text(item) for w in words)]
        taken = zip(run.states, run.steps, strict=False)
        shown_steps = tuple(session.shown(before, step) for before, step in taken)
        logs = logs_of(session.instance, run.states)
        trace = Trace((), shown_steps, run.states, "", logs=logs)
        chart = chart_of(trace)
        states = laid_out(session.instance, (run.states[0], *run.states[-2:]))
        broken = list(session.broken(run))
        wrong = {each.item.name for each in broken}
        marked = [harmful_step(trace, session.instance, name) for name in sorted(wrong)]
        stuck = not possible and not session.is_end(state)
        return {
            "path": as_text(run.path),
            "length": len(run.steps),
            "broken": [each.item.name for each in broken],
            "lanes": len(chart.lanes),
            "chart": part(
                "run", chart=chart, steps=steps_of(chart, self._rows),
                marked=min(marked, default=None),
            ),
            "state": part(
                "state", sections=states.sections, length=len(run.steps),
                log=logs_address(logs[-1]),
                texts=_texts(states.first, states.changes),
                changed={cell for cell, _ in states.changes[-1]} if run.steps else set[int](),
            ),
            "told": part(
                "told", broken=broken, stuck=stuck, ended=not possible and not stuck,
                initials=len(session.initials), first=run.path[0],
            ),
            "properties": part(
                "properties", searched=searched, broken=wrong,
                properties=sorted(
                    session.instance.properties, key=lambda item: item.name not in wrong
                ),
            ),
            "steps": part(
                "steps", offers=wanted[:MOST_SHOWN], found=len(wanted), every=len(offers),
                beside=None if beside is None else beside.instance.protocol,
                own=session.instance.protocol,
                lost=[] if beside is None else list(_only_beside(session, beside, state)),
            ),
        }  # fmt: skip

    def blocked(self, run: Run) -> str:
        """The reasons for which impossible steps are impossible."""
        by_machine: dict[str, list[BlockedTable]] = {}
        for table in self.session.blocked(run.state):
            by_machine.setdefault(table.table.partition(".")[0], []).append(table)
        return part("blocked", machines=by_machine.items())

    def _offers(
        self, state: FullState, possible: Sequence[Step], beside: Session | None
    ) -> Iterator[Offer]:
        session, others = self.session, {} if beside is None else _by_event(beside, state)
        for number, step in enumerate(possible):
            shown = session.shown(state, step)
            row = self._rows.get((shown.table, shown.row))
            other: tuple[str, ...] = ()
            if beside is not None:
                other = tuple(_otherwise(step, others.get(_event(step)), session, beside))
            source, stays = "" if row is None else row.source, step.state == state
            is_fault = session.is_fault(step)
            yield Offer(number, shown, source, step.out_of_range, stays, is_fault, other)


def _event(step: Step) -> tuple[str, tuple[Any, ...]]:
    """The event and its instances, under the same name in any release."""
    return step.action.table, tuple(value for _, value in step.bound)


def _by_event(session: Session, state: FullState) -> dict[tuple[str, tuple[Any, ...]], Step]:
    return {_event(step): step for step in session.steps(state)}


def _otherwise(step: Step, other: Step | None, session: Session, beside: Session) -> Iterator[str]:
    """The step of another release on the same event in the same state, if it differs."""
    if other is None:
        yield "can't happen"
        return
    ours, theirs = _row(session.instance, step), _row(beside.instance, other)
    if ours != theirs:
        yield f"row {theirs}"
    if step.state is None or other.state is None:
        if step.out_of_range != other.out_of_range:
            yield other.out_of_range or "reaches a state"
        return
    if step.state == other.state:
        if ours != theirs:
            yield "with the same result"
        return
    yield from between(session.instance, step.state, other.state)


def between(instance: Instance, ours: FullState, theirs: FullState) -> Iterator[str]:
    """The parts of a state that differ in another release."""
    for variable, a, b in zip(instance.variables, ours, theirs, strict=True):
        for where, mine, other in differences(variable.type, variable.name, a, b):
            yield f"{where}: {other}" + (f" (here {mine})" if mine else "")


def _only_beside(session: Session, beside: Session, state: FullState) -> Iterator[str]:
    """The steps that are possible only in the other release."""
    ours = {_event(step) for step in session.steps(state)}
    for event, step in _by_event(beside, state).items():
        if event not in ours:
            shown = beside.shown(state, step)
            yield f"{shown.actor}: {shown.action} [{shown.row}]"


def _row(instance: Instance, step: Step) -> str:
    return instance.row_names[step.row].partition("/")[2]


def _text(offer: Offer) -> str:
    return f"{offer.step.actor} {offer.step.action} {offer.step.row}".casefold()


def _texts(first: Sequence[str], changes: Sequence[Sequence[tuple[int, str]]]) -> list[str]:
    texts = list(first)
    for each in changes:
        for cell, text in each:
            texts[cell] = text
    return texts


def comparable(a: Instance, b: Instance) -> bool:
    """Whether both instances have the same variables, so that their states are comparable."""
    return [(v.name, str(v.type)) for v in a.variables] == [
        (v.name, str(v.type)) for v in b.variables
    ]


def first_states(session: Session) -> list[str]:
    """The values in which the first states differ, if there are several."""
    chosen = [
        at for at, variable in enumerate(session.instance.variables) if len(variable.initials) > 1
    ]
    found: list[str] = []
    for state in session.initials:
        shown = (
            f"{session.instance.variables[at].name}: "
            f"{show_value(session.instance.variables[at].type, state[at])}"
            for at in chosen
        )
        found.append("; ".join(shown))
    return found


def part(name: str, *rooms: File, **values: Any) -> str:
    """A template of this folder or of other `rooms`, filled in."""
    return templates(*rooms, HERE).get_template(f"{name}.html").render(**values)


def page(**values: Any) -> str:
    """The page around all views."""
    return part("page", **values)
