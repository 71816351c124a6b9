"""`semantics` and `window`: print the delivery guarantees of settings of producer, brokers and
consumer."""

from __future__ import annotations

import dataclasses
from contextlib import closing, nullcontext
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...language import DeclarationError
from ...language.declaration.arguments import question
from ...spec.delivery.cells import (
    CHOICES,
    CLIENTS,
    COMMITS,
    REPLICAS,
    Cell,
    cell_of,
    every_cell,
    fits,
    refusal,
)
from ...spec.delivery.promises import MOST_CACHED, MOST_IN_FLIGHT, NOT_PROMISED, WINDOW
from ...spec.delivery.promises import window as window_constants
from ...spec.releases.features import KAFKA
from ...spec.systems import shipped
from ..exits import INCONCLUSIVE, UNDECIDED, fail, internal, needing, write_json
from ..options import EngineOptions, Jobs, Json, MemoryOfEach, Protocol, Results, memory_of
from ..screen import beside, screen

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...checker.many.several_bounds import Answer
    from ...checker.many.sweep import Piece

BOUNDS = (CLIENTS, REPLICAS)
_ONE_RECORD = "InOrder"  # this needs two records; REPLICAS has one
COLUMNS = {
    "AtMostOnce": "at most once",
    "AtLeastOnce": "at least once",
    "": "exactly once",
    "NoSilentLoss": "no silent loss",
    "InOrder": "in order",
}
"""The table's columns, by property. Exactly once means at most and at least once."""


def pieces(cell: Cell, protocol: str, memory: int = 0) -> list[Piece]:
    """The runs that decide a cell: one with clients' faults, then one with three replicas."""
    from ...checker.many.sweep import Piece

    system = shipped("delivery")
    names = tuple(item.name for item in system.properties if item.name in COLUMNS)
    return [
        Piece(
            system,
            protocol,
            tuple(cell.constants(bounds).items()),
            memory=memory,
            properties=names if bounds == CLIENTS else tuple(n for n in names if n != _ONE_RECORD),
            deadlock=False,
        )
        for bounds in BOUNDS
    ]


def semantics(
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=VALUE]...", help="Kafka's settings, and commit=."),
    ] = None,
    show: Annotated[
        str | None,
        typer.Option(
            "--show", metavar="CELL", help="Print the shortest runs of a cell of the table."
        ),
    ] = None,
    protocol: Protocol = None,
    jobs: Jobs = None,
    memory: MemoryOfEach = None,
    results: Results = None,
    output: Json = None,
) -> None:
    """Print which settings give which delivery guarantee: at most once, at least once, exactly
    once, in order."""
    release = protocol or KAFKA.newest
    try:
        KAFKA.features_at(release)
        if show is not None:
            for other, value in {
                "settings": settings,
                "--jobs": jobs,
                "--results": results,
                "--json": output,
            }.items():
                if value:
                    fail(f"--show names a cell: leave {other} out")
            _show(show, release, memory_of(memory))
            return
        cells = _chosen(settings or [], release)
    except DeclarationError as error:
        fail(error)
    with needing("check"):
        from ...checker.many.journal import Journal, JournalError
        from ...checker.many.several_bounds import asked
        from ...checker.many.sweep import digest
    console, stderr = screen(), beside()
    questions = [pieces(cell, release, memory_of(memory) or 0) for cell in cells]
    try:
        file = None if results is None else Journal(results, digest(questions[0][0]))
        with closing(file) if file else nullcontext() as journal:
            workers = EngineOptions().workers(jobs)
            with workers.together("semantics") as together:
                answers = asked(
                    questions, together, journal, _counted(stderr, sum(map(len, questions)))
                )
    except (DeclarationError, JournalError) as error:
        fail(error)
    _tell(cells, answers, console)
    write_json(
        output,
        [
            {"cell": cell.id, "settings": cell.settings, **_as_json(found)}
            for cell, found in zip(cells, answers, strict=True)
        ],
    )
    _end(answers)


def _end(answers: list[dict[str, Answer]]) -> None:
    """Exits with the code for inconclusive if a result is."""
    if any(answer.verdict == "inconclusive" for found in answers for answer in found.values()):
        raise typer.Exit(INCONCLUSIVE)


def _chosen(settings: list[str], release: str) -> list[Cell]:
    """The cells with these settings; exits with one line if Kafka refuses the settings or no cell
    has them. Raises DeclarationError for an unknown release."""
    from ...model.client.config import ConfigError, resolve, unknown

    choices: dict[str, str] = {}
    producer: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            fail(f"{setting}: write NAME=VALUE, as acks=all")
        if name in choices or name in producer:
            fail(f"{name} is set twice: leave one of them out")
        (choices if name in CHOICES else producer)[name] = value
    for name, value in choices.items():
        choices[name] = value = _parsed(name, value, release)
        why = refusal(name, value, release)
        if why is not None:
            fail(why)
    for name, near in unknown(producer).items():
        fail(f"{name}: no such setting; {question(near)}".rstrip("; "))
    try:
        resolved = resolve(producer, release) if producer else {}
    except ConfigError as error:
        fail(f"ConfigException: {error}")
    cells = [cell for cell in every_cell() if fits(cell, choices, dict(resolved))]
    if not cells:
        fail(f"no cell has {' '.join(settings)}: epochfence semantics lists all cells")
    return cells


def _parsed(name: str, value: str, release: str) -> str:
    """A setting of consumer, topic or brokers as Kafka parses it; exits with one line if Kafka
    refuses it."""
    from ...model.client.config import ConfigError, resolve_broker, resolve_consumer

    try:
        if name == "isolation.level":
            return str(resolve_consumer({name: value}, release)[name])
        found = resolve_broker({name: value}, release).get(name, value)
    except ConfigError as error:
        error_class = error.name if name == "isolation.level" else "InvalidConfigurationException"
        fail(f"{error_class}: {error}")
    return str(found).lower()


def sign(found: dict[str, Answer], name: str) -> str:
    """A cell's entry in a column: `yes`, or `no` with the number of steps of the shortest run."""
    if not name:
        both = [found["AtMostOnce"], found["AtLeastOnce"]]
        if any(answer.verdict == "broken" for answer in both):
            return "no"
        return "yes" if all(answer.holds for answer in both) else "?"
    answer = found[name]
    if answer.verdict == "broken":
        return f"no, {answer.steps}"
    return "yes" if answer.holds else "?"


def _counted(console: Console, most: int) -> Callable[[dict[str, Any]], None]:
    """Prints the number of finished runs after every tenth. There are at most `most` runs."""
    runs = count(1)

    def tell(_: dict[str, Any]) -> None:
        done = next(runs)
        if done % 10 == 0:
            console.print(f"{done} of at most {most} runs done")

    return tell


def _as_json(found: dict[str, Answer]) -> dict[str, object]:
    properties = [
        {
            "name": answer.name,
            "verdict": answer.verdict,
            "steps": answer.steps,
            "bounds": BOUNDS[answer.run],
        }
        for answer in found.values()
    ]
    return {"exactly_once": sign(found, ""), "properties": properties}


def _tell(cells: list[Cell], answers: list[dict[str, Answer]], console: Console) -> None:
    """Prints a table for each way to commit offsets, with a row for each cell."""
    for commit in COMMITS:
        table = Table(box=None, pad_edge=False)
        table.add_column("cell", no_wrap=True)
        for heading in COLUMNS.values():
            table.add_column(heading, min_width=6)
        for cell, found in zip(cells, answers, strict=True):
            if cell.commit == commit:
                signs = [sign(found, name) for name in COLUMNS]
                table.add_row(Text(cell.id), *(Text(s, _colour(s)) for s in signs))
        if table.row_count:
            console.print(table)
            console.print()
    console.print("no, N: the shortest run that breaks it has N steps. --show CELL prints it.")


def _colour(sign: str) -> str:
    return "green" if sign == "yes" else "red" if sign.startswith("no") else "yellow"


def _show(name: str, release: str, memory: int | None) -> None:
    """Prints the settings of a cell, or a guarantee that Kafka doesn't give, and the shortest run
    for each broken property. Raises DeclarationError for an unknown cell."""
    console = screen()
    for item in NOT_PROMISED:
        if item.name == name:
            console.print(Text(item.title))
            with needing("check"):
                from ...checker.many.sweep import Piece
            constants = tuple(item.constants.items())
            wanted = (item.property,)
            piece = Piece(item.system(), release, constants, properties=wanted, memory=memory or 0)
            _show_run(piece, item.property, console)
            return
    cell = cell_of(name)
    with needing("check"):
        from ...checker.many.several_bounds import asked
    runs = pieces(cell, release, memory or 0)
    (found,) = asked([runs])
    console.print(Text(cell.id, "bold"))
    for setting, value in cell.settings.items():
        console.print(Text(f"  {setting}={value}"))
    for guarantee, answer in found.items():
        shown = sign(found, guarantee)
        console.print(Text(f"{guarantee}: {shown}", _colour(shown)))
        if answer.verdict == "broken":
            _show_run(runs[answer.run], guarantee, console)
    _end([found])


def _show_run(piece: Piece, name: str, console: Console) -> None:
    """Prints the shortest run that breaks a property; exits with the code of a run that didn't
    finish."""
    from ...checker.check import Options, check
    from ...checker.output import report
    from ...checker.trace.trace import ReplayError

    instance = dataclasses.replace(piece, properties=(name,)).instance()
    try:
        result = check(instance, Options(deadlock=False, memory=piece.memory or None))
    except ReplayError as error:
        internal(error)
    if result.trace is None:
        why = result.reason and f": {result.reason}"
        console.print(f"{name}: {result.verdict.name}{why}", markup=False)
        if result.verdict.value in UNDECIDED:
            raise typer.Exit(result.verdict.value)
    else:
        report.show_trace(result.trace, console)


def window(
    protocol: Protocol = None,
    output: Json = None,
) -> None:
    """Print how many requests in flight are safe for an idempotent producer, by the number of its
    batches that a leader remembers (Kafka: 5 and 5)."""
    release = protocol or KAFKA.newest
    with needing("check"):
        from ...checker.many.several_bounds import asked
    sizes = [(c, n) for c in range(1, MOST_CACHED + 1) for n in range(1, MOST_IN_FLIGHT + 1)]
    try:
        answers = asked([[window_piece(*size, release)] for size in sizes])
    except DeclarationError as error:
        fail(error)
    found = dict(zip(sizes, answers, strict=True))
    table = Table(box=None, pad_edge=False)
    table.add_column("batches remembered")
    for in_flight in range(1, MOST_IN_FLIGHT + 1):
        table.add_column(f"{in_flight} in flight")
    for cached in range(1, MOST_CACHED + 1):
        signs = [
            window_sign(found[cached, in_flight]) for in_flight in range(1, MOST_IN_FLIGHT + 1)
        ]
        table.add_row(str(cached), *(Text(sign, _colour(sign)) for sign in signs))
    console = screen()
    console.print(table)
    console.print(
        "yes: no duplicate, and in order. no, N: the shortest run that breaks this has N steps."
    )
    write_json(
        output,
        [
            {
                "cached_batches": cached,
                "in_flight": in_flight,
                **{answer.name: answer.verdict for answer in found[cached, in_flight].values()},
            }
            for cached, in_flight in sizes
        ],
    )
    _end(answers)


def window_piece(cached: int, in_flight: int, protocol: str) -> Piece:
    """The run for `cached` batches that a leader remembers and `in_flight` requests."""
    from ...checker.many.sweep import Piece

    constants = tuple(window_constants(cached, in_flight).items())
    return Piece(shipped("idempotence"), protocol, constants, properties=WINDOW)


def window_sign(found: dict[str, Answer]) -> str:
    """`yes` if the window's properties hold, or `no` with the number of steps of the shortest
    run."""
    broken = [answer.steps for answer in found.values() if answer.verdict == "broken"]
    if broken:
        return f"no, {min(steps for steps in broken if steps is not None)}"
    return "yes" if all(answer.holds for answer in found.values()) else "?"
