"""The command that prints what delivery comes to, by the settings of producer, brokers and
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

from ..language import DeclarationError
from ..spec.delivery.cells import (
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
from ..spec.delivery.promised import MOST_CACHED, MOST_IN_FLIGHT, NOT_PROMISED, WINDOW
from ..spec.delivery.promised import window as window_constants
from ..spec.features import KAFKA
from ..spec.systems import shipped
from .endings import fail, internal, needing, write_json
from .options import Jobs, Json, MemoryOfEach, Protocol, Results, memory_of, spread_of
from .screen import beside, screen

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..checker.asked import Answer
    from ..checker.sweep import Piece

BOUNDS = (CLIENTS, REPLICAS)
_ONE_RECORD = "InOrder"  # says nothing of one record, which is what REPLICAS has
COLUMNS = {
    "AtMostOnce": "at most once",
    "AtLeastOnce": "at least once",
    "": "exactly once",
    "NoSilentLoss": "no silent loss",
    "InOrder": "in order",
}
"""Of the table, by the property; exactly once is at most and at least once."""


def pieces(cell: Cell, protocol: str, memory: int = 0) -> list[Piece]:
    """The runs that say what a cell comes to: with the faults of clients, then with three
    replicas."""
    from ..checker.sweep import Piece

    system = shipped("delivery")
    names = tuple(item.name for item in system.properties if item.name in COLUMNS)
    return [
        Piece(
            system, protocol, tuple(cell.constants(bounds).items()), memory=memory,
            properties=names if bounds == CLIENTS else tuple(n for n in names if n != _ONE_RECORD),
            deadlock=False,
        )
        for bounds in BOUNDS
    ]  # fmt: skip


def semantics(
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=VALUE]...", help="Settings by Kafka's names, and commit=."),
    ] = None,
    show: Annotated[
        str | None, typer.Option("--show", metavar="CELL", help="Print a cell's shortest runs.")
    ] = None,
    protocol: Protocol = None,
    jobs: Jobs = None,
    memory: MemoryOfEach = None,
    results: Results = None,
    output: Json = None,
) -> None:
    """Print which settings give which delivery: at most once, at least once, exactly once, in
    order."""
    release = protocol or KAFKA.newest
    try:
        KAFKA.features_at(release)
        if show is not None:
            if settings:
                fail("--show is for one cell: leave the settings out")
            _show(show, release, memory)
            return
        cells = _chosen(settings or [], release)
    except DeclarationError as error:
        fail(error)
    with needing("check"):
        from ..checker.asked import asked
        from ..checker.journal import Kept, KeptError
        from ..checker.sweep import digest
    console, told = screen(), beside()
    questions = [pieces(cell, release, memory_of(memory) or 0) for cell in cells]
    try:
        file = None if results is None else Kept(results, digest(questions[0][0]))
        with closing(file) if file else nullcontext() as kept:
            spread = spread_of(jobs, "local", None, None)
            with spread.together("semantics") as together:
                answers = asked(questions, together, kept, _counted(told))
    except (DeclarationError, KeptError) as error:
        fail(error)
    _tell(cells, answers, console)
    write_json(
        output,
        [
            {"cell": cell.id, "settings": cell.settings, **_as_json(found)}
            for cell, found in zip(cells, answers, strict=True)
        ],
    )
    if any(answer.verdict == "inconclusive" for found in answers for answer in found.values()):
        raise typer.Exit(20)


def _chosen(settings: list[str], release: str) -> list[Cell]:
    """The cells with these settings; ends with one line where Kafka refuses them, or none has
    them. Raises DeclarationError for an unknown release."""
    from ..model.client.config import ConfigError, resolve, unknown

    choices: dict[str, str] = {}
    producer: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            fail(f"{setting}: give a setting and its value, as acks=all")
        (choices if name in CHOICES else producer)[name] = value
    for name, value in choices.items():
        choices[name] = value = _parsed(name, value, release)
        why = refusal(name, value, release)
        if why is not None:
            fail(why)
    for name, near in unknown(producer).items():
        fail(f"{name}: no such setting" + (f"; did you mean {near}?" if near else ""))
    try:
        resolved = resolve(producer, release) if producer else {}
    except ConfigError as error:
        fail(f"ConfigException: {error}")
    cells = [cell for cell in every_cell() if fits(cell, choices, dict(resolved))]
    if not cells:
        fail(f"no cell has {' '.join(settings)}: epochfence semantics prints those that there are")
    return cells


def _parsed(name: str, value: str, release: str) -> str:
    """A setting of consumer, topic or brokers as Kafka takes it; ends with one line where its class
    of settings refuses it."""
    from ..model.client.config import ConfigError, resolve_broker, resolve_consumer

    try:
        if name == "isolation.level":
            return str(resolve_consumer({name: value}, release)[name])
        found = resolve_broker({name: value}, release).get(name, value)
    except ConfigError as error:
        error_class = error.name if name == "isolation.level" else "InvalidConfigurationException"
        fail(f"{error_class}: {error}")
    return str(found).lower()


def sign(found: dict[str, Answer], name: str) -> str:
    """What a column says of a cell: that it holds, or after how many steps it is broken."""
    if not name:
        both = [found["AtMostOnce"], found["AtLeastOnce"]]
        if any(answer.verdict == "broken" for answer in both):
            return "no"
        return "yes" if all(answer.holds for answer in both) else "?"
    answer = found[name]
    if answer.verdict == "broken":
        return f"no, {answer.steps}"
    return "yes" if answer.holds else "?"


def _counted(console: Console) -> Callable[[dict[str, Any]], None]:
    """Tells how many runs are done, after every tenth."""
    runs = count(1)

    def tell(_: dict[str, Any]) -> None:
        done = next(runs)
        if done % 10 == 0:
            console.print(f"{done} runs are done")

    return tell


def _as_json(found: dict[str, Answer]) -> dict[str, object]:
    properties = [
        {
            "name": answer.name, "verdict": answer.verdict, "steps": answer.steps,
            "bounds": BOUNDS[answer.run],
        }
        for answer in found.values()
    ]  # fmt: skip
    return {"exactly_once": sign(found, ""), "properties": properties}


def _tell(cells: list[Cell], answers: list[dict[str, Answer]], console: Console) -> None:
    """A table for each way to commit offsets, a row for each cell."""
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
    console.print("no, N: the shortest run that breaks it has N steps; --show CELL prints it")


def _colour(sign: str) -> str:
    return "green" if sign == "yes" else "red" if sign.startswith("no") else "yellow"


def _show(name: str, release: str, memory: float | None) -> None:
    """Prints a cell's settings, or what isn't promised, and the shortest run that breaks each
    property that is broken. Raises DeclarationError where there is no such cell."""
    console = screen()
    for item in NOT_PROMISED:
        if item.name == name:
            console.print(Text(item.title))
            with needing("check"):
                from ..checker.sweep import Piece
            constants = tuple(item.constants.items())
            piece = Piece(item.system(), release, constants, properties=(item.property,))
            _show_run(piece, item.property, console)
            return
    cell = cell_of(name)
    with needing("check"):
        from ..checker.asked import asked
    runs = pieces(cell, release, memory_of(memory) or 0)
    (found,) = asked([runs])
    console.print(Text(cell.id, "bold"))
    for setting, value in cell.settings.items():
        console.print(Text(f"  {setting}={value}"))
    for asked_for, answer in found.items():
        told = sign(found, asked_for)
        console.print(Text(f"{asked_for}: {told}", _colour(told)))
        if answer.verdict == "broken":
            _show_run(runs[answer.run], asked_for, console)


def _show_run(piece: Piece, name: str, console: Console) -> None:
    """Prints the shortest run that breaks a property."""
    from ..checker import report
    from ..checker.check import Options, check
    from ..checker.trace import Disagreement

    instance = dataclasses.replace(piece, properties=(name,)).instance()
    try:
        result = check(instance, Options(deadlock=False))
    except Disagreement as error:
        internal(error)
    if result.trace is None:
        console.print(f"{name}: {result.verdict.name}: {result.reason}", markup=False)
    else:
        report.show_trace(result.trace, console)


def window(
    protocol: Protocol = None,
    output: Json = None,
) -> None:
    """Print how many requests in flight are safe, by how many batches a leader remembers of an
    idempotent producer (Kafka's: 5 and 5)."""
    release = protocol or KAFKA.newest
    with needing("check"):
        from ..checker.asked import asked
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
        "yes: no duplicate, and in order; no, N: the shortest run with a duplicate has N steps"
    )
    write_json(
        output,
        [
            {
                "cached_batches": cached, "in_flight": in_flight,
                **{answer.name: answer.verdict for answer in found[cached, in_flight].values()},
            }
            for cached, in_flight in sizes
        ],
    )  # fmt: skip


def window_piece(cached: int, in_flight: int, protocol: str) -> Piece:
    """The run for a leader that remembers so many batches, and so many requests in flight."""
    from ..checker.sweep import Piece

    constants = tuple(window_constants(cached, in_flight).items())
    return Piece(shipped("idempotence"), protocol, constants, properties=WINDOW)


def window_sign(found: dict[str, Answer]) -> str:
    """Whether all of the window's properties hold, or after how many steps the first breaks."""
    broken = [answer.steps for answer in found.values() if answer.verdict == "broken"]
    if broken:
        return f"no, {min(steps for steps in broken if steps is not None)}"
    return "yes" if all(answer.holds for answer in found.values()) else "?"
