"""Prints matrices, and differences of behaviour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from string import ascii_lowercase, ascii_uppercase

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid
from rich.text import Text

from ...language.protocols import MIXED
from ..many.behaviour import Answer, Behaviour
from ..many.matrix import DEADLOCK, Cell, Matrix
from ..verdict.result import Verdict
from .report import show_trace

_SIGNS = {"holds": "\u00b7", "vacuous": "-", "inconclusive": "?"}
_MEANINGS = {
    "\u00b7": "holds",
    "-": "holds vacuously within these bounds",
    "?": "inconclusive",
    "!": "broken by a run that no listed bug explains",
}
_LETTERS = ascii_lowercase + ascii_uppercase
CLIENT = "client="
_MOST = 4  # most releases in a list


def print_matrix(found: Matrix, console: Console) -> None:
    """Prints a line for each property that doesn't hold at every release, with a sign for each
    release. For pairs of releases it prints a line for each client, with a sign for each broker.
    """
    console.print(f"[bold]{escape(found.system)}[/bold]")
    pairs = any(MIXED in name for name in found.protocols)
    used, letters = (_pairs if pairs else _releases)(found, console)
    for sign, meaning in _MEANINGS.items():
        if sign in used:
            console.print(f"  {sign} {meaning}")
    for what, letter in letters.items():
        console.print(Text(f"  {letter} broken by {what}"))
    _unexplained(found, console)
    if DEADLOCK not in found.properties:
        console.print("  deadlocks: not checked")


def _releases(found: Matrix, console: Console) -> tuple[set[str], dict[str, str]]:
    """Prints the table; returns the used signs, and the bug of each letter."""
    table = _grid(found.protocols)
    letters = dict(zip(_bugs(found.every_cell), _LETTERS, strict=False))
    used: set[str] = set()
    everywhere = 0
    for name in found.properties:
        cells = [found.cell(protocol, name) for protocol in found.protocols]
        if all(cell.verdict == "holds" for cell in cells):
            everywhere += 1
            continue
        signs = [_sign(cell, letters) for cell in cells]
        used.update(*signs)
        table.add_row(name, *signs)
    if table.row_count:
        console.print(table)
    console.print(
        f"  {everywhere} of {len(found.properties)} properties hold at all these releases"
    )
    return used, letters


def _pairs(found: Matrix, console: Console) -> tuple[set[str], dict[str, str]]:
    """The signs in use, and the meaning of each letter: the bugs and properties that are broken at
    a pair. A capital letter has a broken property that no listed bug explains."""
    places = {protocol: _pair(protocol) for protocol in found.protocols}
    clients = dict.fromkeys(client for client, _ in places.values())
    brokers = list(dict.fromkeys(broker for _, broker in places.values()))
    at = {place: protocol for protocol, place in places.items()}
    table = _grid(brokers, "client \\ broker")
    order, small, large = _bugs(found.every_cell), iter(ascii_lowercase), iter(ascii_uppercase)
    used, letters = set[str](), dict[str, str]()
    for client in clients:
        signs: list[str] = []
        for broker in brokers:
            cells = [found.cell(at[client, broker], name) for name in found.properties]
            what, alone = _broken(cells, order)
            if what and what not in letters:
                letters[what] = next(large if alone else small, "+")
            used.update("!" if alone else "")
            unclear = any(cell.verdict == "inconclusive" for cell in cells)
            fine = _SIGNS["holds"] if not what and not unclear else ""
            signs.append(letters.get(what, fine) + _SIGNS["inconclusive"] * unclear)
        used.update(*signs)
        table.add_row(client, *signs)
    console.print(table)
    return used, letters


def _broken(cells: Sequence[Cell], order: Iterable[str]) -> tuple[str, bool]:
    """The text for the broken properties of a pair: bugs in this order, then properties that no bug
    explains; and whether there are such properties."""
    named = {bug for cell in cells for bug in cell.bugs}
    alone = [f"! {cell.name}" for cell in cells if cell.is_unexplained]
    return ", ".join([*(bug for bug in order if bug in named), *alone]), bool(alone)


def _pair(protocol: str) -> tuple[str, str]:
    """The releases of the client and of the brokers."""
    broker, *parts = protocol.split(MIXED)
    own = [part.removeprefix(CLIENT) for part in parts if part.startswith(CLIENT)]
    return (own[0] if own else broker), broker


def _grid(names: Sequence[str], first: str = "") -> Grid:
    """A table with a narrow column for each release: the parts of its number are in separate
    lines.
    """
    table = Grid(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first, no_wrap=True, vertical="bottom")
    for name in names:
        table.add_column(name.replace(".", "\n"), justify="center", vertical="bottom")
    return table


def _bugs(cells: Iterable[Cell]) -> list[str]:
    """Each bug, in the order of the releases."""
    return list(dict.fromkeys(bug for cell in cells for bug in cell.bugs))


def _sign(cell: Cell, letters: dict[str, str]) -> str:
    if cell.verdict == "broken":
        return "".join(letters.get(bug, "+") for bug in cell.bugs) or "!"
    return _SIGNS[cell.verdict]


def _unexplained(found: Matrix, console: Console) -> None:
    """Prints the cells that no listed bug explains: a line for each property, with run lengths."""
    rest: dict[str, dict[int | None, list[str]]] = {}
    for cell in found.every_cell:
        if cell.is_unexplained:
            rest.setdefault(cell.name, {}).setdefault(cell.steps, []).append(cell.protocol)
    for name, by_steps in rest.items():
        runs = (f"{_listed(places)} after {steps} steps" for steps, places in by_steps.items())
        console.print(Text(f"  ! {name}: {'; '.join(runs)}"))


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST])
    return shown if len(names) <= _MOST else f"{shown} and {len(names) - _MOST} more"


def print_outcome(found: Sequence[Matrix], verdict: Verdict, console: Console) -> None:
    """Prints how many cells hold, are explained by bugs, and are unexplained."""
    cells = [cell for each in found for cell in each.every_cell]
    counts = {
        "hold": sum(cell.verdict == "holds" for cell in cells),
        "hold vacuously": sum(cell.verdict == "vacuous" for cell in cells),
        "are broken by listed bugs": sum(bool(cell.bugs) for cell in cells),
        "are broken by runs that no listed bug explains": sum(
            cell.is_unexplained for cell in cells
        ),
        "are inconclusive": sum(cell.verdict == "inconclusive" for cell in cells),
    }
    parts = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    colour = "green" if verdict is Verdict.HOLDS else "red"
    code = f"exit {verdict.value}" + (f", {verdict.name}" if verdict.value else "")
    console.print(f"[bold {colour}]{len(cells):,} cells: {parts}.[/] ({code})")


def print_behaviour(found: Behaviour, before: str, after: str, console: Console) -> None:
    """Prints the shortest run in which two protocols differ, then the rows of each difference."""
    for first in found.found[:1]:
        show_trace(first.run, console, f"The shortest run in which {before} and {after} differ")
    for item in found.found:
        console.print(Text(f"after {len(item.run.steps)} steps: {item.action}"))
        for release, answer in ((before, item.before), (after, item.after)):
            console.print(Text(f"  {release}: {_answer(answer)}"))
    looked = f"{found.pairs:,} pairs of states, {found.depth} steps deep"
    rest = "no others within the bounds" if found.exhaustive else "there may be others"
    console.print(f"{len(found.found)} differences in {looked}: {rest}.")


def _answer(answer: Answer | None) -> str:
    if answer is None:
        return "can't happen"
    return f"[{answer.row}] " + (
        "; ".join(f"sends {text}" for text in answer.sends) or "sends nothing"
    )
