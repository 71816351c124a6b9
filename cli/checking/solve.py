"""`bound`, `prove` and `lint`: the commands that use Z3."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...language import DeclarationError, instantiate
from ..exits import BROKEN, INTERRUPTED, fail, internal, needing, write_json
from ..options import (
    CheckOptions,
    Constants,
    EngineOptions,
    Jobs,
    Json,
    NoDeadlock,
    Protocol,
    Ranges,
    Results,
    RunOptions,
    SystemName,
    constants_of,
    make_folder,
    settings_of,
)
from ..screen import beside, screen

if TYPE_CHECKING:
    from ...checker.solver.prove import Options


DEADLINE = 120.0  # seconds of --suggest


def bound(
    system: SystemName,
    depth: Annotated[
        int, typer.Option("--depth", metavar="K", min=1, help="Maximum number of steps.")
    ],
    chosen: CheckOptions,
    integers: Annotated[
        bool,
        typer.Option("--integers", help="Leave unset constants that bound only numbers open."),
    ] = False,
    no_deadlock: NoDeadlock = False,
    output: Json = None,
) -> None:
    """Look for the shortest counterexample of up to K steps with Z3."""
    instance = chosen.checked(system)
    if instance.progress:
        fail(f"{instance.progress[0].name} is a progress property: use epochfence check")
    with needing("check"):
        from ...checker.output import report, summary
        from ...checker.solver.bound import bound as run
        from ...checker.solver.terms import SolverError
        from ...checker.solver.unbounded.numbers import lifted
        from ...checker.trace.trace import ReplayError
    try:
        show = report.show_depth(beside())
        if integers:
            instance = lifted(
                instance.system,
                chosen.protocol,
                constants_of(chosen.constants),
                bounds=chosen.bounds,
                properties=chosen.properties or None,
                **chosen.features,
            )
        named = bool(chosen.properties)
        result = run(instance, depth, show, only_properties=named, deadlock=not no_deadlock)
    except (DeclarationError, SolverError) as error:
        fail(error)
    except ReplayError as error:
        internal(error)
    summary.print_bounded(result, screen())
    write_json(output, result.as_json())
    raise typer.Exit(result.verdict.value)


@dataclass(frozen=True, kw_only=True)
class ProofOptions(RunOptions):
    """The properties to prove, and the method."""

    constants: Ranges = None
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "--property", metavar="P", help="Prove only this property (repeatable; default: all)."
        ),
    ] = None
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="S", help="Time limit of each obligation.")
    ] = 60.0
    jobs: Jobs = None
    no_lemmas: Annotated[
        bool, typer.Option("--no-lemmas", help="Don't use the declared lemmas.")
    ] = False
    suggest: Annotated[
        bool,
        typer.Option("--suggest", help="Search lemmas for properties that aren't inductive."),
    ] = False
    deadline: Annotated[
        float | None,
        typer.Option("--deadline", metavar="S", help="Time limit of --suggest (default: 120)."),
    ] = None
    certificate: Annotated[
        Path | None,
        typer.Option(
            "--certificate", metavar="DIR", help="Write each obligation to DIR as SMT-LIB."
        ),
    ] = None
    results: Results = None


def prove(
    name: Annotated[
        str,
        typer.Argument(
            metavar="SYSTEM|MACHINE",
            help="A shipped system, FILE.py[:NAME], or a shipped machine, for the properties that "
            "read it.",
        ),
    ],
    chosen: ProofOptions,
    where: EngineOptions,
    output: Json = None,
) -> None:
    """Prove properties without bounds on numbers: an unset constant that bounds only numbers may
    have any value."""
    for option, seconds in {"--timeout": chosen.timeout, "--deadline": chosen.deadline}.items():
        if seconds is not None and not 0 < seconds < 1e6:  # Z3 counts milliseconds in 32 bits
            fail(f"{option} {seconds:g}: must be above 0 and below 1,000,000 (seconds)")
    if chosen.deadline is not None and not chosen.suggest:
        fail("--deadline needs --suggest; --timeout is the time limit of each obligation")
    where.heed()
    with needing("check"):
        from ...checker.many import sweep as sweeps
        from ...checker.many.journal import JournalError
        from ...checker.solver.prove import Options
        from ...checker.solver.terms import SolverError
        from ...checker.spark.options import SparkError
        from ...checker.trace.trace import ReplayError
    options = Options(
        timeout=chosen.timeout,
        workers=where.workers(chosen.jobs),
        certificates=chosen.certificate,
        lemmas=not chosen.no_lemmas,
        spacer=not chosen.suggest,
    )
    try:
        found = _proved(name, chosen, options)
    except (DeclarationError, JournalError, SolverError, SparkError) as error:
        fail(error)
    except ReplayError as error:
        internal(error)
    verdict = sweeps.worst(found)
    write_json(
        output, found[0] if len(found) == 1 else {"exit_code": verdict.value, "results": found}
    )
    raise typer.Exit(verdict.value)


def _proved(name: str, chosen: ProofOptions, options: Options) -> list[dict[str, object]]:
    """Proves the properties for each combination of constants, and prints the results."""
    from ...checker.many import sweep as sweeps
    from ...checker.output import report
    from ...checker.solver.obligations import Answers
    from ...checker.solver.prove import prove as run
    from ...checker.solver.suggest.suggest import Settings
    from ...checker.solver.suggest.suggest import suggest as suggested
    from ...diagrams.find import find_system

    console = screen()
    found: list[dict[str, object]] = []
    system, wanted = find_system(name)
    given = settings_of(chosen.constants, sweeps.values, "NAME=1..3 or NAME=1,2,5")
    if chosen.certificate is not None:
        make_folder("--certificate", chosen.certificate)
    with closing(Answers(chosen.results, report.show_settled(beside()))) as known:
        for values in product(*given.values()):
            constants = dict(zip(given, values, strict=True))
            result = run(
                system,
                chosen.protocol,
                constants,
                bounds=chosen.bounds,
                properties=chosen.properties or wanted,
                options=options,
                known=known,
                **chosen.features,
            )
            report.print_proofs(result, console)
            extra: dict[str, object] = {}
            if chosen.suggest:
                settings = Settings(
                    system,
                    chosen.protocol,
                    constants,
                    chosen.bounds,
                    tuple(chosen.with_ or ()),
                    tuple(chosen.without or ()),
                    chosen.deadline or DEADLINE,
                )
                lemmas = suggested(settings, result, options)
                extra["suggestions"] = lemmas.as_json()
                report.print_suggestions(lemmas, console)
            found.append(result.as_json() | extra)
            if result.interrupted:
                break
    return found


def lint(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="MACHINE|SYSTEM",
            help="A shipped machine or system, or FILE.py[:SYSTEM] (default: all shipped ones).",
        ),
    ] = None,
    protocol: Protocol = None,
    constants: Constants = None,
    output: Json = None,
) -> None:
    """Check each table alone with Z3, in every state that its types allow, and find rows that no
    run can take."""
    from ...diagrams.find import find_tables

    with needing("check"):
        from ...checker.output import report
        from ...checker.solver.lint import Finding, findings
        from ...checker.verdict.static_vacuity import foreseen
    all_findings: list[object] = []
    vacuous: list[object] = []
    faults, interrupted = 0, False
    console = screen()
    try:
        for system, tables in find_tables(name):
            if tables and not interrupted:
                values, found = constants_of(constants), list[Finding]()
                never = foreseen(instantiate(system, protocol, values), tables)
                try:
                    for finding in findings(system, protocol, tables, values):
                        found.append(finding)
                except KeyboardInterrupt:
                    interrupted = True
                report.print_lint(system, tables, found, never, console, is_whole=not interrupted)
                vacuous += [{"system": system.name, **each.as_json()} for each in never]
                all_findings += [{"system": system.name, **finding.as_json()} for finding in found]
                faults += sum(finding.is_error for finding in found)
    except DeclarationError as error:
        fail(error)
    if interrupted:
        console.print(
            f"Interrupted: not every table was checked. (exit {BROKEN if faults else INTERRUPTED})"
        )
    write_json(output, {"findings": all_findings, "vacuous": vacuous, "interrupted": interrupted})
    raise typer.Exit(BROKEN if faults else INTERRUPTED if interrupted else 0)
