"""The command that writes a system for another checker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ..files import Output
from ..language import DEFAULT, DeclarationError
from ..language.instance import ending_anywhere
from .endings import fail
from .options import (
    Bounds,
    Constants,
    NoDeadlock,
    Off,
    On,
    Properties,
    Protocol,
    checked_instance,
    make_folder,
)
from .traces import scheduled


def export(
    form: Annotated[
        Literal["tla", "junit"],
        typer.Argument(metavar="FORM", help="tla: for TLC; junit: of a trace, for a real broker."),
    ],
    system: Annotated[
        str, typer.Argument(metavar="SYSTEM|TRACE", help="A system, or a trace in ITF for junit.")
    ],
    folder: Annotated[Path, typer.Option("-o", metavar="DIR", help="Where the files go.")],
    protocol: Protocol = None,
    bounds: Bounds = DEFAULT,
    constants: Constants = None,
    properties: Properties = None,
    with_: On = None,
    without: Off = None,
    no_deadlock: NoDeadlock = False,
) -> None:
    """Write SYSTEM for another checker, in TLA+, or TRACE as a test of Kafka, in Java."""
    if form == "junit":
        given = (protocol, constants, properties, with_, without, no_deadlock)
        if any(given) or bounds != DEFAULT:
            fail(f"{system} says of which system, release and constants it is: leave them to it")
        _junit(Path(system), folder)
        return
    instance = checked_instance(system, protocol, bounds, constants, with_, without, properties)
    if no_deadlock:
        instance = ending_anywhere(instance)
    from ..checker.tla.module import module
    from ..checker.tla.names import LIBRARY

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


def _junit(file: Path, folder: Path) -> None:
    """Writes a Maven project with the run of a trace as a test."""
    instance, outcome, schedule = scheduled(file, by_clock=True)
    from ..model.serve.java_test import java_test
    from ..model.serve.schedule import NoSchedule

    assert outcome.trace is not None
    broken = next((item.name for item in outcome.properties if item.verdict == "broken"), "")
    steps = len(outcome.trace.steps)
    reason = (
        f"{outcome.reason} The run is one of {instance.system.name} at {instance.protocol}, in "
        f"{steps} steps."
    )
    try:
        name, files = java_test(schedule, broken, reason, instance.constants.get("partitions", 1))
    except NoSchedule as error:
        fail(f"{file}: {error}")
    places: dict[str, Output] = {}
    for path in files:
        make_folder("-o", (folder / path).parent)
        places[path] = Output(folder / path)
    for path, text in files.items():
        places[path].write(text)
    print(f"{folder}: {name}, {steps} steps, {len(schedule.faults)} faults")
    print(f"mvn -f {folder} test -Dkafka.version=V -Dkafka.bootstrap=HOST:PORT")
