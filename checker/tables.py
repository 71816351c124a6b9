"""Matrices and differences of behaviour, for a person to read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from string import ascii_lowercase, ascii_uppercase

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid
from rich.text import Text

from ..language.protocols import MIXED
from .behaviour import Answer, Behaviour
from .matrix import Cell, Matrix
from .report import show_trace
from .verdict import Verdict

_SIGNS = {"holds": "\u00b7", "vacuous": "-", "inconclusive": "?"}
_MEANINGS = {
    "\u00b7": "holds", "-": "nothing in these bounds could break it", "?": "inconclusive",
    "!": "breaks by a run that no listed bug explains",
}  # fmt: skip
_LETTERS = ascii_lowercase + ascii_uppercase
CLIENT = "client="


def tell_matrix(found: Matrix, console: Console) -> None:
    """Prints a line for each property that doesn't hold everywhere, with a sign for each release;
    of pairs a line for each client, with the signs of all that breaks at a broker."""
    console.print(f"[bold]{escape(found.system)}[/bold]")
    letters = _letters(found.every_cell)
    pairs = any(MIXED in name for name in found.protocols)
    used = _pairs(found, letters, console) if pairs else _releases(found, letters, console)
    for sign, meaning in _MEANINGS.items():
        if sign in used:
            console.print(f"  {sign} {meaning}")
    for bug, letter in letters.items():
        console.print(Text(f"  {letter} breaks by {bug}"))
    _unexplained(found, console)


def _releases(found: Matrix, letters: dict[str, str], console: Console) -> set[str]:
    table = _grid(found.protocols)
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
    console.print(f"  {everywhere} of {len(found.properties)} hold at each of these releases")
    return used


def _pairs(found: Matrix, letters: dict[str, str], console: Console) -> set[str]:
    places = {protocol: _pair(protocol) for protocol in found.protocols}
    clients = dict.fromkeys(client for client, _ in places.values())
    brokers = list(dict.fromkeys(broker for _, broker in places.values()))
    at = {place: protocol for protocol, place in places.items()}
    table = _grid(brokers, "client \\ broker")
    used: set[str] = set()
    for client in clients:
        signs = [_together(found, at[client, broker], letters) for broker in brokers]
        used.update(*signs)
        table.add_row(client, *signs)
    console.print(table)
    return used


def _pair(protocol: str) -> tuple[str, str]:
    """The releases of the client and of the brokers."""
    broker, *parts = protocol.split(MIXED)
    own = [part.removeprefix(CLIENT) for part in parts if part.startswith(CLIENT)]
    return (own[0] if own else broker), broker


def _together(found: Matrix, protocol: str, letters: dict[str, str]) -> str:
    """The signs of all that doesn't hold at a pair, each once."""
    every = {_sign(found.cell(protocol, name), letters) for name in found.properties}
    fine = {_SIGNS["holds"], _SIGNS["vacuous"]}
    return "".join(sorted(set("".join(every)) - fine)) or _SIGNS["holds"]


def _grid(names: Sequence[str], first: str = "") -> Grid:
    """A table with a narrow column for each release, whose numbers stand one below the other."""
    table = Grid(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first, no_wrap=True, vertical="bottom")
    for name in names:
        table.add_column(name.replace(".", "\n"), justify="center", vertical="bottom")
    return table


def _letters(cells: Iterable[Cell]) -> dict[str, str]:
    """A letter for each bug, in the order in which releases have them."""
    bugs = dict.fromkeys(bug for cell in cells for bug in cell.bugs)
    return dict(zip(bugs, _LETTERS, strict=False))


def _sign(cell: Cell, letters: dict[str, str]) -> str:
    if cell.verdict == "broken":
        return "".join(letters.get(bug, "+") for bug in cell.bugs) or "!"
    return _SIGNS[cell.verdict]


def _unexplained(found: Matrix, console: Console) -> None:
    """The cells that no listed bug explains: a line for each property, with how long runs are."""
    told: dict[str, list[str]] = {}
    for cell in found.every_cell:
        if cell.is_unexplained:
            told.setdefault(cell.name, []).append(f"{cell.protocol} after {cell.steps} steps")
    for name, places in told.items():
        console.print(Text(f"  ! {name}: {', '.join(places)}"))


def tell_outcome(found: Sequence[Matrix], verdict: Verdict, console: Console) -> None:
    """Prints how many cells hold, are explained, and aren't."""
    cells = [cell for each in found for cell in each.every_cell]
    counts = {
        "hold": sum(cell.verdict == "holds" for cell in cells),
        "hold for want of what could break them": sum(cell.verdict == "vacuous" for cell in cells),
        "break by listed bugs": sum(bool(cell.bugs) for cell in cells),
        "break by runs that no listed bug explains": sum(cell.is_unexplained for cell in cells),
        "are inconclusive": sum(cell.verdict == "inconclusive" for cell in cells),
    }
    parts = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    colour = "green" if verdict is Verdict.HOLDS else "red"
    code = f"exit {verdict.value}" + (f", {verdict.name}" if verdict.value else "")
    console.print(f"[bold {colour}]Of {len(cells):,} cells {parts}.[/] ({code})")


def tell_behaviour(found: Behaviour, before: str, after: str, console: Console) -> None:
    """Prints the shortest run in which two protocols differ, then each difference by its rows."""
    for first in found.found[:1]:
        show_trace(first.run, console, f"The shortest run in which {before} and {after} differ")
    for item in found.found:
        console.print(Text(f"after {len(item.run.steps)} steps: {item.action}"))
        for release, answer in ((before, item.before), (after, item.after)):
            console.print(Text(f"  {release}: {_answer(answer)}"))
    looked = f"{found.pairs:,} pairs of states, {found.depth} steps deep"
    rest = "there are no others within the bounds" if found.exhaustive else "others may differ"
    console.print(f"{len(found.found)} differences in {looked}: {rest}.")


def _answer(answer: Answer | None) -> str:
    if answer is None:
        return "can't happen"
    return f"[{answer.row}] " + (
        "; ".join(f"sends {text}" for text in answer.sends) or "sends nothing"
    )
