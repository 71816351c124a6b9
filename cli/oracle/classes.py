"""`conform --classes`: compares Kafka's own classes with the tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from ...files import Output
from ...language.declaration.arguments import one_of
from ...model.conformance.classes.versions import VERSIONS
from ..exits import BROKEN, INCONCLUSIVE, fail, in_a_line, write_json

if TYPE_CHECKING:
    from ...model.conformance.classes.comparison import Comparison, Disagreement
    from ...model.conformance.classes.steps import LocalSteps

SMALL = 20  # states whose steps are taken


@dataclass(frozen=True, kw_only=True)
class ClassOptions:
    """Kafka's classes, in the place of a broker."""

    classes: Annotated[
        str | None,
        typer.Option(
            "--classes",
            metavar="RELEASE",
            help="Compare Kafka's own classes of this release, without a broker. Needs a JDK.",
        ),
    ] = None
    machine: Annotated[
        Literal[
            "coordinator",
            "leader",
            "producer-ids",
            "controller",
            "zookeeper-ids",
            "group-offsets",
            "client",
        ]
        | None,
        typer.Option("--machine", help="classes: the machine to compare (default: each)."),
    ] = None
    bounds: Annotated[
        Literal["small", "all"] | None,
        typer.Option(
            "--bounds", help="classes: all local states, of many the first 2,000 (default), or 20."
        ),
    ] = None
    jars: Annotated[
        Path | None,
        typer.Option(
            "--jars",
            metavar="FOLDER",
            help="classes: Kafka's jars and Mockito's (default: from Maven).",
        ),
    ] = None


def on_classes(options: ClassOptions, output: Output | None, *, is_alone: bool) -> NoReturn:
    """Compares each machine, and ends with the exit code. No other option may be given beside."""
    from ...model.conformance.classes.comparison import compare
    from ...model.conformance.classes.host import Host, UnavailableError, jars_in, jars_of
    from ...model.conformance.classes.machines import MACHINES, has

    release = options.classes
    if release is None:
        fail("--machine, --bounds and --jars are for --classes")
    if not is_alone:
        fail("--classes takes --machine, --bounds, --jars and --json alone")
    if release not in VERSIONS:
        fail(f"--classes {release}: {one_of(release, VERSIONS)}")
    if options.jars is not None and not options.jars.is_dir():
        fail(f"--jars {options.jars}: no such folder")
    names = [options.machine] if options.machine else [n for n in MACHINES if has(n, release)]
    for name in names:
        if not has(name, release):
            until = MACHINES[name].until
            end = "on" if until is None else f"to {until}"
            fail(f"--machine {name} is from {MACHINES[name].since} {end}")
    found = list[dict[str, object]]()
    codes = set[int]()
    try:
        path = jars_of(VERSIONS[release]) if options.jars is None else jars_in(options.jars)
        for name in names:
            machine = MACHINES[name](release)
            most = SMALL if options.bounds == "small" else machine.most
            with Host(machine.java, path) as host:
                result = compare(machine, machine.steps(most), host)
            print("\n".join(_lines(result, machine, release, most)), flush=True)
            found.append(_as_json(result, machine))
            codes.add(_code(result))
    except UnavailableError as error:
        fail(error)
    write_json(output, {"release": release, "machines": found})
    raise typer.Exit(BROKEN if BROKEN in codes else max(codes))


def _code(result: Comparison) -> int:
    if result.disagreeing:
        return BROKEN
    return INCONCLUSIVE if result.died or not result.steps else 0


def _lines(result: Comparison, machine: LocalSteps, release: str, most: int | None) -> list[str]:
    states = "" if most is None else f" of the first {most:,} states"
    missing = result.missing(machine)
    rows = len(list(machine.rows()))
    lines = [
        f"{result.machine} at {release}: {result.steps:,} local steps{states} "
        f"on Kafka's classes, "
        f"{rows - len(missing)} of {rows} rows, {result.disagreeing:,} disagreements"
    ]
    for found in result.disagreements:
        lines += ["", *_shown(found, machine)]
    if missing:
        lines += ["", f"{len(missing)} rows didn't run:"]
        lines += [
            f"  {event}/{row}: {reason or 'no explored state has it'}"
            for (event, row), reason in missing.items()
        ]
    if result.lacking:
        lines.append(f"The class has no {', '.join(sorted(result.lacking))} in this release.")
    if result.died:
        lines += ["", in_a_line(f"Inconclusive: {result.died}")]
    return lines


def _shown(found: Disagreement, machine: LocalSteps) -> list[str]:
    """A disagreement: the path to the state, the step, its rows, and where the class differs."""
    lines = [f"{number}. {said}" for number, said in enumerate((*found.path, found.step.said), 1)]
    lines += [
        f"  row {event}/{row} ({machine.source(event, row)})" for event, row in found.step.rows
    ]
    return [*lines, *(f"  {place}" for place in found.places)]


def _as_json(result: Comparison, machine: LocalSteps) -> dict[str, object]:
    return {
        "machine": result.machine,
        "steps": result.steps,
        "rows": {f"{event}/{row}": count for (event, row), count in sorted(result.rows.items())},
        "not_run": {
            f"{event}/{row}": reason for (event, row), reason in result.missing(machine).items()
        },
        "fields": list(machine.fields),
        "fields_lacking": sorted(result.lacking),
        "fields_of_the_class_alone": dict(machine.of_the_class_alone),
        "disagreeing": result.disagreeing,
        "disagreements": [
            {
                "path": list(found.path),
                "step": found.step.said,
                "rows": [
                    {"row": f"{event}/{row}", "source": machine.source(event, row)}
                    for event, row in found.step.rows
                ],
                "places": list(found.places),
            }
            for found in result.disagreements
        ],
        "died": result.died,
    }
