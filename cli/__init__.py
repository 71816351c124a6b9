"""The command line: thin commands that call the other packages."""

# ruff: noqa: E402

from __future__ import annotations

import gc
import os
from importlib.metadata import version
from inspect import cleandoc
from typing import Annotated

import typer

gc.disable()  # nothing of what is loaded is garbage

from . import (
    begin,
    browse,
    bugs,
    examples,
    explore,
    export,
    live,
    matrix,
    oracle,
    semantics,
    serve,
    solve,
    tables,
    traces,
    vectors,
)
from .endings import Commands, printed, whole_errors
from .grouped import grouped
from .screen import Command

gc.enable()

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    epilog="epochfence COMMAND --help shows examples.",
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        print(f"epochfence {version('epochfence')}")
        raise typer.Exit


@app.callback()
def common(
    _: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_version, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Check, prove, run and draw Kafka's exactly-once protocol, declared as tables.

    A SYSTEM that you give as FILE.py runs as a Python program: don't use one you don't trust.
    """


COMMANDS = {
    "Check a protocol": (
        begin.new,
        explore.check,
        explore.sweep,
        solve.bound,
        solve.prove,
        solve.lint,
        browse.explore,
    ),
    "Read a counterexample": (traces.replay, traces.explain, export.export),
    "Look at Kafka's protocol": (
        tables.list_,
        tables.diagram,
        tables.diff,
        matrix.matrix,
        bugs.bugs,
        semantics.semantics,
        semantics.window,
        oracle.config,
    ),
    "Test brokers and clients": (
        live.conform,
        serve.serve,
        serve.proxy,
        oracle.judge,
        oracle.decode,
        vectors.vectors,
    ),
}
for _panel, _commands in COMMANDS.items():
    for _command in _commands:
        _name = _command.__name__.rstrip("_")
        # Typer breaks the lines of a help text itself.
        _help = "\n\n".join(
            " ".join(each.split()) for each in cleandoc(_command.__doc__ or "").split("\n\n")
        )
        app.command(
            _name,
            cls=Command,
            help=_help,
            epilog=examples.shown(_name),
            rich_help_panel=_panel,
        )(grouped(_command))


def main() -> None:
    """Runs the command line: the entry point of the process."""
    gc.freeze()
    gc.set_threshold(50_000)  # commands load hundreds of modules, which all stay
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy would start threads for nothing
    # Without it Numba lets colorama, if that is installed, reset the terminal's colours at exit.
    os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")
    with printed(), whole_errors():
        app()
