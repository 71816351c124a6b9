"""The command line: thin commands that call the rooms."""

from __future__ import annotations

import typer

from . import explore, oracle, solve, tables

app = typer.Typer(
    help="Kafka's exactly-once protocol as tables: explored, checked, drawn.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

for _command in (
    explore.check,
    explore.sweep,
    solve.bound,
    solve.prove,
    solve.lint,
    oracle.decode,
    oracle.judge,
    oracle.config,
    tables.diagram,
    tables.diff,
):
    app.command()(_command)
app.command("list")(tables.list_)


def main() -> None:
    """Runs the command line."""
    app()
