"""A result of `check` or `simulate` as one HTML file: verdict, bounds, coverage, and an interactive
counterexample. It needs no network. Texts of a declaration are never markup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ...checker.output.report import TITLES
from ...checker.output.summary import BROKEN, enumeration_lines
from ...checker.trace.chart.chart import Chart, ChartStep, chart_of
from ...checker.trace.trace import Trace
from ...checker.verdict.constant_folding import declared_rows
from ...checker.verdict.result import Covered, PropertyVerdict, Result, Verdict
from ...checker.verdict.vacuity import ENDED_EARLY, NO_REASON
from ...language import Instance, Row
from ..drawing.runs.log import logs_address
from ..notation import readable
from ..templates import one_file, style
from .levels import Plot, curve_of, plot_of
from .state import laid_out

if TYPE_CHECKING:
    from ...checker.simulation.simulate import Simulation

GUARD = 64  # letters of a line of a guard
NOTHING = "Random walks found nothing."
NO_WALK = "taken by no walk"


@dataclass(frozen=True)
class CoveredRow:
    """A row of a table: the number of steps that took it, the smallest depth of such a step (0:
    none), its source, and the reason if no step took it."""

    table: str
    name: str
    taken: int
    first: int
    source: str
    why: str
    rest: str


@dataclass(frozen=True)
class Told:
    """A property with its meaning and its verdict."""

    name: str
    verdict: str
    steps: int | None
    sentence: str
    source: str
    note: str


def to_html(instance: Instance, result: Covered) -> str:
    """The page of a result of the instance."""
    rows = list(_rows(instance, result))
    explored, walked = _either(result)
    return one_file(
        Path(__file__).parent, style(),
        version=version("epochfence"), result=result, system=instance.system,
        title=_title(result), rule=_rule(result), tone=_tone(result.verdict),
        properties=_properties(instance, result),
        constants=_constants(instance), switches=_switches(instance),
        taken=_by_table(row for row in rows if row.taken),
        never=_by_reason(row for row in rows if not row.taken),
        rows=len(rows), unknown=NO_REASON,
        plot=_plot(explored, walked), walked=walked, traces=[*_traces(instance, result)],
        enumeration=[*enumeration_lines(explored)] if explored else [],
    )  # fmt: skip


def _either(result: Covered) -> tuple[Result | None, Simulation | None]:
    """The result as a search's result, or as a walk's result; the other one is None."""
    if isinstance(result, Result):
        return result, None
    return None, cast("Simulation", result)


def _plot(explored: Result | None, walked: Simulation | None) -> Plot | None:
    if walked is not None:
        return curve_of(walked.curve, len(walked.rows))
    return None if explored is None else plot_of(explored.levels)


def _title(result: Covered) -> str:
    """The headline: the verdict, or the broken property and the violation."""
    if not result.exit_code and result.verdict is Verdict.INCONCLUSIVE:
        return NOTHING
    if result.verdict not in BROKEN or not result.reason:
        return TITLES[result.verdict]
    event, is_filled, _ = result.reason.partition(". (")
    return f"{event}." if is_filled else event


def _rule(result: Covered) -> str:
    """The rest of the reason, under the headline."""
    if result.verdict not in BROKEN:
        return result.reason
    return result.reason.partition(". (")[2].removesuffix(")")


def _tone(verdict: Verdict) -> str:
    if verdict is Verdict.HOLDS:
        return "good"
    return "open" if verdict in (Verdict.INCONCLUSIVE, Verdict.INTERRUPTED) else "bad"


def _properties(instance: Instance, result: Covered) -> list[Told]:
    """The properties, broken ones first."""
    declared = {item.name: item for item in (*instance.properties, *instance.progress)}

    def described(item: PropertyVerdict) -> Told:
        of = declared.get(item.name)
        said = ("", "") if of is None else (of.sentence, of.source)
        return Told(item.name, item.verdict, item.trace_length, *said, item.note)

    order = ("broken", "unknown", "holds")
    return sorted(map(described, result.properties), key=lambda item: order.index(item.verdict))


def _constants(instance: Instance) -> list[tuple[str, int, str]]:
    infos = {info.name: info for info in instance.system.constant_infos}
    return [(name, value, infos[name].meaning) for name, value in instance.chosen.items()]


def _switches(instance: Instance) -> list[tuple[str, str, str]]:
    """The features that are switched on or off against the release, with their effects."""
    usual = instance.system.protocols.features_at(instance.protocol)
    infos = {info.name: info for info in instance.system.protocols.infos}
    return [
        (name, "on" if name in instance.features else "off", infos[name].sentence)
        for name in sorted(usual ^ instance.features)
    ]


# Coverage ----------------------------------------------------------------------------------------


def _rows(instance: Instance, result: Covered) -> Iterator[CoveredRow]:
    declared = declared_rows(instance)
    explored, _ = _either(result)
    seen = explored is not None and (result.verdict is Verdict.HOLDS or explored.seen_whole)
    rest_of = ENDED_EARLY if explored else NO_WALK
    reasons = {row: item.explained for item in result.vacuous for row in item.rows}
    for full_name, taken in result.rows:
        table, _, name = full_name.partition("/")
        row = declared.get((table, name))
        why, _, rest = reasons.get(full_name, "").partition(": ")
        why = why or (NO_REASON if seen else rest_of)
        first = result.first_depths.get(full_name, 0)
        yield CoveredRow(table, name, taken, first, "" if row is None else row.source, why, rest)


def _by_table(rows: Iterable[CoveredRow]) -> dict[str, list[CoveredRow]]:
    found: dict[str, list[CoveredRow]] = {}
    for row in rows:
        found.setdefault(row.table, []).append(row)
    return found


def _by_reason(rows: Iterable[CoveredRow]) -> dict[str, list[CoveredRow]]:
    """The rows by the reason why no step takes them; rows without a known reason come first."""
    found: dict[str, list[CoveredRow]] = {}
    for row in rows:
        found.setdefault(row.why, []).append(row)
    order = sorted(found, key=lambda why: (why != NO_REASON, -len(found[why])))
    return {why: found[why] for why in order}


# The counterexample ------------------------------------------------------------------------------


def _traces(instance: Instance, result: Covered) -> Iterator[dict[str, Any]]:
    """Each counterexample; `suffix` keeps the names of its parts on the page unique."""
    for number, item in enumerate(result.counterexamples, 1):
        suffix = f"-of-{number}" if number > 1 else ""
        yield _counterexample(instance, item.trace, suffix, item.without)


def _counterexample(
    instance: Instance, trace: Trace, suffix: str, without: tuple[str, ...]
) -> dict[str, Any]:
    chart = chart_of(trace)
    states = laid_out(instance, trace.states)
    return {
        "suffix": suffix,
        "without": without,
        "chart": chart,
        "steps": steps_of(chart, declared_rows(instance)),
        "states": states,
        "log": logs_address(trace.logs[-1]) if trace.logs else "",
        "begins": [(name, dict(trace.initial)[name]) for name in trace.chosen],
        "loop": trace.loop,
        "fair": trace.fair,
        "conclusion": trace.conclusion,
        "why": trace.why,
        "refused": _refused(instance, trace),
        "data": {"changes": states.changes, "first": states.first},
    }


def _refused(instance: Instance, trace: Trace) -> list[dict[str, str]]:
    """The rows that a deadlock waits for, each with its table, source and guard."""
    rows = declared_rows(instance)
    tables = {table.name: table.guard for table in instance.system.tables}
    found: list[dict[str, str]] = []
    for table, name in dict.fromkeys(trace.refused):
        row = rows.get((table, name))
        guard = tables[table] if row is None else row.guard
        shown = "" if guard.op == "const" else "\n".join(readable(guard, GUARD))
        source = "" if row is None else row.source
        found.append({"table": table, "row": name, "source": source, "guard": shown})
    return found


def steps_of(chart: Chart, rows: Mapping[tuple[str, str], Row]) -> list[dict[str, Any]]:
    """The steps for pages; `rows` are by their tables and names."""
    return [_step(chart, step, rows.get((step.table, step.row))) for step in chart.steps]


def _step(chart: Chart, step: ChartStep, row: Row | None) -> dict[str, Any]:
    """A step; its arrow begins and ends at lanes."""
    at = chart.lanes.index
    took = step.took
    here = at(step.lane)
    there = here if took is None else at(took.source)
    unguarded = row is None or row.guard.op == "const"
    return {
        "step": step,
        "here": here,
        "from": there,
        "source": "" if row is None else row.source,
        "note": "" if row is None else row.note,
        "guard": "" if unguarded or row is None else "\n".join(readable(row.guard, GUARD)),
        "waits": [
            arrow for arrow in step.sent if step.receiver(arrow) or arrow.taken != step.number + 1
        ],
    }
