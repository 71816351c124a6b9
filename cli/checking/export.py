"""`export`: writes a system for TLC, or a trace as a test in Java."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ...files import Output
from ...language import DeclarationError, Instance
from ...language.instances.instance import ending_anywhere
from ..exits import fail
from ..options import CheckOptions, NoDeadlock, make_folder
from .traces import taken

if TYPE_CHECKING:
    from ...checker.trace.chart.chart import Chart


def export(
    form: Annotated[
        Literal["tla", "junit"],
        typer.Argument(
            metavar="FORM", help="tla: a system in TLA+; junit: a trace as a test in Java."
        ),
    ],
    system: Annotated[
        str, typer.Argument(metavar="SYSTEM|TRACE", help="A system; for junit a trace (ITF).")
    ],
    folder: Annotated[Path, typer.Option("-o", metavar="DIR", help="Folder for the files.")],
    chosen: CheckOptions,
    no_deadlock: NoDeadlock = False,
    classes: Annotated[
        bool, typer.Option("--classes", help="junit: test Kafka's classes, without a broker.")
    ] = False,
) -> None:
    """Write SYSTEM in TLA+ for another checker, or TRACE as a test of Kafka in Java."""
    if form == "junit":
        if chosen.are_given or chosen.properties or no_deadlock:
            fail(f"{system} sets its own release and constants: leave out these options")
        _junit(Path(system), folder, classes)
        return
    if classes:
        fail("--classes needs export junit")
    instance = chosen.checked(system)
    if no_deadlock:
        instance = ending_anywhere(instance)
    from ...checker.tla.module import module
    from ...checker.tla.names import LIBRARY

    try:
        found = module(instance)
    except DeclarationError as error:
        fail(error)
    texts = {
        f"{found.name}.{form}": found.text,
        f"{found.name}.cfg": found.configuration,
        LIBRARY.name: LIBRARY.read_text(encoding="utf-8"),
    }
    make_folder("-o", folder)
    places = {name: Output(folder / name) for name in texts}
    for name, text in texts.items():
        places[name].write(text)
    rows, lines = len(instance.row_names), len(found.text.splitlines())
    print(f"{folder / found.name}.{form}: {rows} rows in {lines:,} lines")


def _junit(file: Path, folder: Path, classes: bool) -> None:
    """Writes a Maven project that tests the run of a trace: on a broker if possible, else on
    Kafka's classes."""
    from ...checker.trace.schedule.schedule import NoScheduleError

    _, instance, _ = taken(file)
    from ...checker.trace.chart.chart import chart_of
    from ...checker.trace.itf import read_trace
    from ...checker.trace.replay import breaking

    trace, broken = breaking(instance, read_trace(file.read_bytes()))
    run = _Run(instance, chart_of(trace), broken)
    maven = f"mvn -f {folder} test -Dkafka.version=V"
    try:
        try:
            if classes:
                raise NoScheduleError
            name, files, faults = _of_broker(run)
            how, maven = f"{faults} faults", f"{maven} -Dkafka.bootstrap=HOST:PORT"
        except NoScheduleError as outside:
            name, files = _of_classes(run, str(outside))
            how = "on Kafka's classes"
    except NoScheduleError as error:
        fail(f"{file}: {error}")
    places: dict[str, Output] = {}
    for path in files:
        make_folder("-o", (folder / path).parent)
        places[path] = Output(folder / path)
    for path, text in files.items():
        places[path].write(text)
    print(f"{folder}: {name}, {len(run.chart.steps)} steps, {how}")
    print(maven)


@dataclass(frozen=True)
class _Run:
    """A run that breaks a property, and a sentence about it for its test."""

    instance: Instance
    chart: Chart
    broken: Sequence[str]

    def seen(self, known: Container[str]) -> str:
        """The first broken property that a test can observe."""
        return next((name for name in self.broken if name in known), "".join(self.broken[:1]))

    def reason(self, broken: str) -> str:
        """A sentence about the run."""
        of = f"{self.instance.system.name} at {self.instance.protocol}"
        return f"{broken} doesn't hold. This is a run of {of}, in {len(self.chart.steps)} steps."


def _of_broker(run: _Run) -> tuple[str, dict[str, str], int]:
    """A test of a broker, and the number of its faults. Raises NoScheduleError."""
    from ...checker.trace.schedule.java_test import ENDS, java_test
    from ...checker.trace.schedule.schedule import schedule_of

    schedule = schedule_of(run.chart, by_clock=True)
    seen = run.seen(ENDS)
    partitions = run.instance.constants.get("partitions", 1)
    name, files = java_test(schedule, seen, run.reason(seen), partitions)
    return name, files, len(schedule.faults)


def _of_classes(run: _Run, outside: str) -> tuple[str, dict[str, str]]:
    """A test of Kafka's classes. Raises NoScheduleError. Its message includes `outside`, the reason
    why there is no test of a broker."""
    from ...checker.trace.schedule.java_classes import ENDS, class_test
    from ...checker.trace.schedule.schedule import NoScheduleError

    seen, instance = run.seen(ENDS), run.instance
    has_version_2 = "transaction_version_2" in instance.features
    try:
        return class_test(
            run.chart,
            seen,
            run.reason(seen),
            "" if instance.switched else instance.protocol,
            version=2 if has_version_2 else 1,
            largest=instance.constants.get("largest_epoch", 0),
        )
    except NoScheduleError as inside:
        raise NoScheduleError(f"{outside}; {inside}" if outside else str(inside)) from None
