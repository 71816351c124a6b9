"""`matrix`: prints which property holds at which release."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ...checker.named_systems import load_system
from ...language import DeclarationError, System
from ...spec.bugs import BUGS
from ...spec.systems import SHIPPED
from ..exits import fail, needing, write_json
from ..options import (
    EngineOptions,
    Jobs,
    Json,
    MemoryOfEach,
    NoDeadlock,
    Properties,
    Results,
    bounds_of,
    memory_of,
    settings_of,
    with_property,
)
from ..screen import beside, screen

if TYPE_CHECKING:
    from ...checker.many.sweep import Piece


@dataclass(frozen=True, kw_only=True)
class MatrixOptions:
    """The systems to check, and the releases."""

    protocols: Annotated[
        str | None,
        typer.Option(
            "--protocols", metavar="A..B", help="Releases, as 2.0..4.3 or 2.5,4.3 (default: all)."
        ),
    ] = None
    clients: Annotated[
        str | None,
        typer.Option(
            "--clients",
            metavar="A..B",
            help="Releases of clients; --protocols then names brokers'.",
        ),
    ] = None
    bounds: Annotated[
        str | None,
        typer.Option(
            "--bounds", metavar="NAME", help="Named bounds (default: small, if it has them)."
        ),
    ] = None
    constants: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Set a constant.")
    ] = None
    properties: Properties = None
    progress: Annotated[bool, typer.Option("--progress", help="Check progress properties too.")] = (
        False
    )
    no_deadlock: NoDeadlock = False
    jobs: Jobs = None
    memory: MemoryOfEach = None


def matrix(
    systems: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SYSTEM...", help="Shipped systems, or FILE.py[:NAME] (default: all)."
        ),
    ] = None,
    *,
    options: MatrixOptions,
    where: EngineOptions,
    results: Results = None,
    output: Json = None,
) -> None:
    """Print which properties of the SYSTEMs hold at which releases, and which known bugs break the
    others."""
    where.heed()
    with needing("check"):
        from ...checker.many import matrix as matrices
        from ...checker.many import sweep as sweeps
        from ...checker.many.journal import Journal, JournalError
        from ...checker.output import report, tables
        from ...checker.spark.options import SparkError
    workers = where.workers(options.jobs)
    console, stderr = screen(), beside()
    found: list[matrices.Matrix] = []
    interrupted = False
    try:
        pieces = _pieces(systems or SHIPPED, options)
        with needing("check", "spark"), workers.together("matrix") as together:
            for piece, names in pieces:
                file = None if results is None else Journal(results, sweeps.digest(piece))
                with closing(file) if file else nullcontext() as journal:
                    releases = {*piece.system.first_alike(names).values()}
                    show = report.show_piece(len(releases), stderr, constants=False)
                    one = matrices.matrix(
                        piece, names, BUGS, together, journal, show, progress=options.progress
                    )
                if one.cells or not one.interrupted:
                    found.append(one)
                    tables.print_matrix(one, console)
                if one.interrupted:
                    raise KeyboardInterrupt  # no other system starts, and the workers end
    except (DeclarationError, SparkError, JournalError) as error:
        fail(error)
    except KeyboardInterrupt:
        if not found:
            raise
        interrupted = True
    verdict = matrices.outcome(found, interrupted=interrupted)
    tables.print_outcome(found, verdict, console)
    write_json(output, {"exit_code": verdict.value, "systems": [each.as_json() for each in found]})
    raise typer.Exit(verdict.value)


def _pieces(systems: Iterable[str], options: MatrixOptions) -> list[tuple[Piece, list[str]]]:
    """For each system: its run and its releases. Exits with one line if a system has no property.
    Raises DeclarationError."""
    from ...checker.many.sweep import Piece

    most = memory_of(options.memory)
    given = settings_of(options.constants, int, "NAME=VALUE with a whole number")
    found: list[tuple[Piece, list[str]]] = []
    for system in [load_system(name, most) for name in systems]:
        names = _protocols(system, options)
        piece = Piece(
            system,
            names[0],
            tuple(given.items()),
            bounds=bounds_of(system, options.bounds),
            properties=tuple(options.properties) if options.properties else None,
            deadlock=not options.no_deadlock,
            memory=most or 0,
        )
        with_property(system.name, piece.instance(progress=options.progress))
        found.append((piece, names))
    return found


def _protocols(system: System, options: MatrixOptions) -> list[str]:
    """The releases to check, or pairs of client and broker. Raises DeclarationError."""
    from ...checker.many.sweep import releases

    known = system.protocols
    brokers = (
        list(known.releases) if options.protocols is None else releases(options.protocols, known)
    )
    if options.clients is None:
        return brokers
    return [
        known.mixed(broker, {"client": client})
        for client in releases(options.clients, known)
        for broker in brokers
    ]
