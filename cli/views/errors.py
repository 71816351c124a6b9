"""`explain-error`: an error code between a client and a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from ...language.declaration.errors import DeclarationError
from ..exits import fail, write_json
from ..options import Json
from ..screen import indented, screen

if TYPE_CHECKING:
    from ...diagrams.reference.errors import Answer, Handling, Meaning


def explain_error(
    error: Annotated[
        str,
        typer.Argument(metavar="ERROR", help="Kafka's name or number, as PRODUCER_FENCED or 90."),
    ],
    client: Annotated[
        str | None,
        typer.Option("--client", metavar="R", help="The client's release (default: the newest)."),
    ] = None,
    broker: Annotated[
        str | None,
        typer.Option("--broker", metavar="R", help="The brokers' release (default: the newest)."),
    ] = None,
    request: Annotated[
        str | None,
        typer.Option("--request", metavar="API", help="Only answers to this request, as EndTxn."),
    ] = None,
    output: Json = None,
) -> None:
    """Explain an error: the reasons for which a broker answers it, the reaction of Kafka's Java
    client, and the choices of the application."""
    from ...diagrams.reference.errors import meaning

    try:
        found = meaning(error, client, broker)
        found = found if request is None else found.of(request)
    except DeclarationError as wrong:
        fail(wrong)
    _print(found, screen())
    write_json(output, found.as_json())


def _print(found: Meaning, console: Console) -> None:
    title = f"[bold]{found.error}[/] ({found.code})"
    console.print(f"{title}, client {found.client}, broker {found.broker}")
    if not found.answers:
        console.print("No broker of this release answers a request of the protocol with it.")
    for request in found.requests:
        part = found.of(request)
        console.print(f"\n[bold]{request}[/]")
        if part.answers:
            console.print("  The broker gives this answer if:")
        for answer in part.answers:
            _print_row(console, answer)
        if part.handlings:
            console.print("  The client:")
        for handling in {each.place: each for each in part.handlings}.values():
            _print_row(console, handling)
        for sentence in part.advice:
            console.print(indented(sentence, 2, console.width))


def _print_row(console: Console, row: Answer | Handling) -> None:
    """A row in words, then its label and source."""
    places = "; ".join(filter(None, (row.place, row.source)))
    console.print(indented(row.sentence, 4, console.width))
    console.print(f"[dim]{indented(places, 6, console.width)}[/]")
