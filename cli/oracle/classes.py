"""`conform --classes`: compares Kafka's own classes with the tables."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NoReturn

import typer

from ...files import Output
from ...language.declaration.arguments import one_of
from ...model.conformance.classes.versions import VERSIONS
from ..exits import BROKEN, INCONCLUSIVE, fail, in_a_line, needing, write_json
from ..options import EngineOptions

if TYPE_CHECKING:
    from ...model.conformance.classes.comparison import Comparison, Disagreement
    from ...model.conformance.classes.steps import LocalSteps

SMALL = 20  # states whose steps run


@dataclass(frozen=True, kw_only=True)
class ClassOptions:
    """Kafka's classes, instead of a broker."""

    classes: Annotated[
        str | None,
        typer.Option(
            "--classes",
            metavar="RELEASES",
            help="Compare Kafka's own classes of these releases (R,R,...), without a broker. "
            "Needs a JDK.",
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
            "--bounds", help="classes: all local states, or the first of many (default), or 20."
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


class _Piece(NamedTuple):
    """A machine of a release, with the maximum of explored states (None: all), and its jars."""

    release: str
    name: str
    most: int | None
    jars: Path | None

    @property
    def key(self) -> list[object]:
        """The inputs of its result, except the code of the package."""
        jars = sorted(self.jars.glob("*.jar")) if self.jars else []
        return [*self[:3], [[jar.name, jar.stat().st_size] for jar in jars]]


def on_classes(
    options: ClassOptions,
    where: EngineOptions,
    results: Path | None,
    output: Output | None,
    *,
    is_alone: bool,
) -> NoReturn:
    """Compares each machine, and ends with the exit code. Exits with one line if another option is
    given too (not `is_alone`)."""
    if options.classes is None:
        fail("--machine, --bounds, --jars, --results and --engine are for --classes")
    if not is_alone:
        fail("--classes takes --machine, --bounds, --jars, --results, --engine and --json alone")
    where.heed()
    pieces = _pieces(options)
    found: dict[_Piece, dict[str, Any]] = {}
    for piece, comparison in _results(pieces, where, results):
        if why := comparison["unavailable"]:
            fail(f"the executor on {comparison['host']}: {why}" if where.on_spark else why)
        print("\n".join(comparison["lines"]), flush=True)
        found[piece] = comparison
    codes = {comparison["exit_code"] for comparison in found.values()}
    machines = [found[piece]["result"] for piece in pieces]
    write_json(output, {"release": options.classes, "machines": machines})
    raise typer.Exit(BROKEN if BROKEN in codes else max(codes))


def _results(
    pieces: list[_Piece], where: EngineOptions, results: Path | None
) -> Iterator[tuple[_Piece, dict[str, Any]]]:
    """Each machine's result. A file of results and Spark need the extra `check`."""
    if results is None and not where.on_spark:
        yield from ((piece, _compared(piece)) for piece in pieces)
        return
    with needing("check"):
        from ...checker.many.journal import Journal, JournalError
        from ...checker.many.sweep import code
        from ...checker.spark.options import SparkError
    try:
        file = None if results is None else Journal(results, code(("py", "java", "xml")))
        with needing("check", "spark"), closing(file) if file else nullcontext() as journal:
            known = {piece: journal.get(piece.key) if journal else None for piece in pieces}
            left = [piece for piece in pieces if known[piece] is None]
            workers = where.workers(None if where.on_spark else 1)
            done = workers.each(_compared, left, "classes") if left else ()
            yield from (
                (piece, comparison) for piece, comparison in known.items() if comparison is not None
            )
            for at, comparison in done:
                if journal and comparison.get("exit_code", INCONCLUSIVE) != INCONCLUSIVE:
                    journal.add(left[at].key, comparison)
                yield left[at], comparison
    except (JournalError, SparkError) as error:
        fail(error)


def _pieces(options: ClassOptions) -> list[_Piece]:
    """The machines to compare. Exits with one line for an unknown release, for a machine that a
    release lacks, or if --jars doesn't fit."""
    from ...model.conformance.classes.machines import MACHINES, has

    assert options.classes is not None
    if options.jars is not None and not options.jars.is_dir():
        fail(f"--jars {options.jars}: no such folder")
    found = list[_Piece]()
    for release in dict.fromkeys(options.classes.split(",")):
        if release not in VERSIONS:
            fail(f"--classes {release}: {one_of(release, VERSIONS)}")
        for name in [options.machine] if options.machine else MACHINES:
            if has(name, release):
                most = SMALL if options.bounds == "small" else MACHINES[name].most
                found.append(_Piece(release, name, most, options.jars))
            elif options.machine:
                until = MACHINES[name].until
                end = "on" if until is None else f"to {until}"
                fail(f"--machine {name} is from {MACHINES[name].since} {end}")
    if options.jars is not None and len({piece.release for piece in found}) > 1:
        fail("--jars has the jars of one release: --classes takes one with it")
    return found


def _compared(piece: _Piece) -> dict[str, Any]:
    """The result of a machine as plain data, or the reason if this host lacks a JDK or jars."""
    from ...model.conformance.classes.comparison import compare
    from ...model.conformance.classes.host import Host, UnavailableError, jars_in, jars_of
    from ...model.conformance.classes.machines import MACHINES

    release, name, most, jars = piece
    try:
        path = jars_of(VERSIONS[release]) if jars is None else jars_in(jars)
        machine = MACHINES[name](release)
        with Host(machine.java, path) as host:
            result = compare(machine, machine.steps(most), host)
    except UnavailableError as error:
        return {"unavailable": str(error), "host": socket.gethostname()}
    return {
        "unavailable": "",
        "lines": _lines(result, machine, release, most),
        "result": {"release": release, **_as_json(result, machine)},
        "exit_code": _code(result),
    }


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
    """A disagreement in lines: the path to the state, the step, its rows, and the class's
    differences."""
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
