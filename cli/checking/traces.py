"""`replay` and `explain` repeat the steps of a trace. Other commands write traces with this
module."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...checker.named_systems import load_system
from ...files import Output
from ...language import DeclarationError, Instance, System, instantiate
from ..exits import announce_wait, fail, needing, write_json
from ..options import Json, RunOptions, output_of
from ..screen import screen

if TYPE_CHECKING:
    from ...checker.simulation.simulate import Simulation
    from ...checker.trace.itf import Settings
    from ...checker.trace.schedule.schedule import Schedule
    from ...checker.trace.trace import Trace
    from ...checker.verdict.result import Outcome, Result

CHARTS = (".svg", ".mmd")
ANIMATIONS = (".svg", ".html")


TraceArgument = Annotated[
    Path, typer.Argument(metavar="TRACE", help="A trace (ITF) from check --trace.")
]
OfSystem = Annotated[
    str | None,
    typer.Argument(metavar="SYSTEM", help="The system, if the trace doesn't name one."),
]

ChartFile = Annotated[
    Output | None,
    typer.Option(
        "--chart",
        metavar="FILE",
        parser=output_of,
        help="Draw a sequence chart: FILE.svg, or FILE.mmd (Mermaid).",
    ),
]


def replay(
    file: TraceArgument,
    system: OfSystem = None,
    *,
    chosen: RunOptions,
    chart: ChartFile = None,
    test: Annotated[
        Output | None,
        typer.Option(
            "--pytest",
            metavar="FILE",
            parser=output_of,
            help="Write a pytest file that repeats the run.",
        ),
    ] = None,
    title: Annotated[
        str | None,
        typer.Option("--title", metavar="TEXT", help="The title of the pictures."),
    ] = None,
    brief: Annotated[
        bool,
        typer.Option("--brief", help="In the chart, draw only changes of machines' states."),
    ] = False,
    log: Annotated[
        bool,
        typer.Option(
            "--log", help="Show the logs: after each step here, and at the end of the chart."
        ),
    ] = False,
    animate: Annotated[
        Output | None,
        typer.Option(
            "--animate",
            metavar="FILE",
            parser=output_of,
            help="Animate the run, with its logs: FILE.svg, or FILE.html with buttons.",
        ),
    ] = None,
    output: Json = None,
) -> None:
    """Repeat the steps of TRACE one by one, and report which property fails at its end, and why."""
    check_chart(chart)
    if animate is not None and animate.path.suffix.lower() not in ANIMATIONS:
        fail(f"{animate.path}: the name must end with .svg or .html")
    if brief and chart is None:
        fail("--brief needs --chart")
    if title is not None and chart is None and animate is None:
        fail("--title needs --chart or --animate")
    name, instance, outcome = taken(file, system, chosen)
    if log and not instance.logs:
        fail(f"--log: {instance.system.name} declares no log (System(logs=...))")
    from ...checker.output import report

    report.print_replayed(outcome, screen(), logs=log)
    if chart is not None:
        draw(outcome, chart, instance.system if brief else None, title, log=log)
    if animate is not None:
        _animate(outcome, animate, instance, title)
    if test is not None:
        from ...checker.trace.pytest_file import as_pytest

        test.write(as_pytest(name, instance, outcome))
    write_json(output, outcome.as_json())
    raise typer.Exit(outcome.verdict.value)


def explain(
    file: TraceArgument,
    system: OfSystem = None,
    *,
    chosen: RunOptions,
) -> None:
    """Tell TRACE in sentences, each with its source in Kafka, and which property fails."""
    _, instance, outcome = taken(file, system, chosen)
    from ...checker.output.lines import wrapped
    from ...checker.trace.chart.chart import chart_of
    from ...checker.trace.chart.story import in_brief, story
    from ...checker.trace.trace import actor_states

    trace = outcome.trace
    assert trace is not None
    chart = chart_of(trace)
    states = actor_states(instance, trace)[-1]
    lines = [*in_brief(chart, instance, states, trace.conclusion), "", "Step by step:"]
    lines += story(chart, instance)
    lines += [line if line.startswith(" ") else f"- {line}" for line in trace.why]
    width = screen().width
    for line in lines:
        print("\n".join(wrapped(line, width, then="   ")))
    raise typer.Exit(outcome.verdict.value)


def taken(
    file: Path, system: str | None = None, chosen: RunOptions | None = None
) -> tuple[str, Instance, Outcome]:
    """The name of the system, its instance, and the replayed trace of a file. Exits with a one-line
    error."""
    with needing("check"):
        from ...checker.trace.itf import read_trace
        from ...checker.trace.replay import replay as run
    with reading(file):
        found = read_trace(file.read_bytes())
        chosen = chosen or RunOptions()
        if found.settings is not None and (chosen.are_given or system is not None):
            fail(f"{file} sets its own system, release and constants: leave out these options")
        if found.settings is not None:
            system = found.settings.system
            instance = instance_of(load_system(system), found.settings)
        elif system is not None:
            instance = chosen.instance(load_system(system), progress=True)
        else:
            fail(f"{file} doesn't name its system: give SYSTEM after the file")
        return system, instance, run(instance, found)


def scheduled(file: Path, protocol: str | None = None, *, by_clock: bool) -> tuple[str, Schedule]:
    """As `schedule_in`, for a file. Exits with a one-line error."""
    announce_wait(file)
    try:
        return schedule_in(file.read_bytes(), protocol, by_clock=by_clock)
    except OSError as error:
        fail(f"can't read {file}: {error.strerror}")
    except ValueError as error:
        fail(f"{file}: {error}")


def schedule_in(
    data: bytes, protocol: str | None, *, by_clock: bool, only_shipped: bool = False
) -> tuple[str, Schedule]:
    """The release of a trace (ITF) and its schedule of faults. Raises ValueError, with a sentence
    for the user, if there is no schedule, or if the trace's release isn't `protocol`. With
    `only_shipped` it runs no file that the trace names as its system.
    """
    try:
        from ...checker.trace.chart.chart import chart_of
        from ...checker.trace.itf import TraceError, read_trace
        from ...checker.trace.replay import replay as run
        from ...checker.trace.schedule.schedule import schedule_of
    except ModuleNotFoundError as missing:
        raise ValueError(f"{missing.name} is missing: install 'epochfence[check]'") from None
    try:
        found = read_trace(data)
        of = found.settings
        if of is None:
            raise ValueError("the trace doesn't name its system")
        if protocol not in (None, of.protocol):
            raise ValueError(f"the trace is of release {of.protocol}, not {protocol}")
        if only_shipped and ".py" in of.system:
            raise ValueError("the trace is of a system in a file, and this runs only shipped ones")
        outcome = run(instance_of(load_system(of.system), of), found)
    except (TraceError, DeclarationError) as error:
        raise ValueError(str(error)) from None
    assert outcome.trace is not None
    return of.protocol, schedule_of(chart_of(outcome.trace), by_clock=by_clock)


def run_of(system: System, name: str, protocol: str | None, file: Path) -> tuple[Instance, Trace]:
    """The run of a trace of this system. `name` is the system's name on the command line. A trace
    without settings is replayed at release `protocol`. Exits with a one-line error if the trace
    can't be replayed, or is of another system, or of another release than the given one. It loads
    no file that the trace names.
    """
    from ...checker.trace.itf import read_trace
    from ...checker.trace.replay import replay as run

    with reading(file):
        found = read_trace(file.read_bytes())
        of = found.settings
        if of is not None and not is_called(of.system, name, system.name):
            fail(f"{file} is a trace of {of.system}, not of {system.name}")
        if of is not None and protocol not in (None, of.protocol):
            fail(f"{file} is a trace of release {of.protocol}, not {protocol}")
        instance = instantiate(system, protocol) if of is None else instance_of(system, of)
        outcome = run(instance, found)
    assert outcome.trace is not None
    return instance, outcome.trace


@contextmanager
def reading(file: Path) -> Generator[None]:
    """Exits with one line if the trace in the file can't be read or replayed."""
    from ...checker.trace.itf import TraceError

    announce_wait(file)
    try:
        yield
    except OSError as error:
        fail(f"can't read {file}: {error.strerror}")
    except (TraceError, DeclarationError) as error:
        fail(f"{file}: {error}")


def is_called(system: str, *names: str) -> bool:
    """Whether one of these names is the system's, or another path to its file."""
    path = os.path.realpath(system.partition(":")[0])
    files = [os.path.realpath(name.partition(":")[0]) for name in names if ".py" in name]
    return system in names or path in files


def instance_of(declared: System, of: Settings) -> Instance:
    """The instance that a trace was made from, with progress properties."""
    usual = declared.protocols.features_at(of.protocol)
    return instantiate(
        declared,
        of.protocol,
        of.constants,
        progress=True,
        switch_on={*of.features} - usual,
        switch_off=usual - {*of.features},
    )


def check_chart(chart: Output | None) -> None:
    """Ends the command if a chart's name has another ending."""
    if chart is not None and chart.path.suffix.lower() not in CHARTS:
        fail(f"{chart.path}: the name must end with .svg or .mmd (Mermaid)")


def draw(
    outcome: Outcome,
    output: Output,
    in_brief_of: System | None = None,
    title: str | None = None,
    *,
    log: bool = False,
) -> None:
    """Draws an outcome's trace as a sequence chart."""
    from ...checker.trace.chart.chart import chart_of, in_brief
    from ...diagrams.drawing.runs.sequence import to_mermaid, to_svg

    trace = outcome.trace
    assert trace is not None
    chart, why = chart_of(trace), trace.why
    if in_brief_of is not None:
        chart, why = in_brief(chart, in_brief_of), ()
    if title is not None:  # the run is an example: no step is marked as harmful
        chart, why = replace(chart, harmful=None), ()
    if output.path.suffix.lower() == ".svg":
        logs = trace.logs[-1] if log and trace.logs else ()
        output.write(to_svg(chart, title or outcome.reason, why, logs))
    else:
        output.write(to_mermaid(chart, title or outcome.reason, why))


def _animate(outcome: Outcome, output: Output, instance: Instance, title: str | None) -> None:
    from ...checker.output.summary import BROKEN
    from ...checker.trace.chart.story import sentences
    from ...checker.trace.trace import actor_states
    from ...diagrams.drawing.runs.animation import Run, to_html, to_svg

    trace = outcome.trace
    assert trace is not None
    from ...checker.trace.chart.chart import chart_of

    chart = chart_of(trace)
    is_broken = outcome.verdict in BROKEN
    run = Run(
        chart,
        title or outcome.reason,
        sentences(chart, instance),
        actor_states(instance, trace),
        trace.logs,
        outcome.reason if title is not None and is_broken else "",
        chart.harmful,
    )
    output.write((to_svg if output.path.suffix.lower() == ".svg" else to_html)(run))


def numbered(output: Output | None, most: int) -> list[Output]:
    """The outputs of all traces: the first one's, and others in the same folder."""
    if output is None:
        return []
    if most > 1 and output.is_standard_output:
        fail("--trace -: give a file name, because --all-traces writes several files")
    return [output] + [Output(_beside(output.path, number)) for number in range(2, most + 1)]


def _beside(first: Path, number: int) -> Path:
    """The path of the n-th trace: x-2.itf.json next to x.itf.json."""
    name, dot, ending = first.name.partition(".")
    return first.with_name(f"{name}-{number}{dot}{ending}")


def write_traces(
    places: list[Output], result: Result | Simulation, instance: Instance, system: str
) -> None:
    """Writes each counterexample to its output, if there is one."""
    if not places:
        return
    from ...checker.trace.itf import Settings, as_itf

    if not result.counterexamples:
        print(f"epochfence: no counterexample: {places[0].path} not written", file=sys.stderr)
        return
    of = Settings(
        system, instance.protocol, tuple(sorted(instance.features)), dict(instance.chosen)
    )
    if len(places) > 1:
        _remove_earlier(places[0].path, len(result.counterexamples), system)
    variables = {variable.name: variable.type for variable in instance.variables}
    for place, item in zip(places, result.counterexamples, strict=False):
        place.write(as_itf(item.trace, variables, of, item.broken))


def _remove_earlier(first: Path, written: int, system: str) -> None:
    """Removes the additional traces of an earlier run, and prints their names. Keeps files that
    aren't traces of the system."""
    from ...checker.trace.itf import TraceError, read_trace

    for number in count(written + 1):
        path = _beside(first, number)
        try:
            settings = read_trace(path.read_bytes()).settings
        except (OSError, TraceError):
            return
        if settings is None or settings.system != system:
            return
        with suppress(OSError):
            path.unlink()
            print(f"epochfence: removed {path}, a trace of an earlier run", file=sys.stderr)
