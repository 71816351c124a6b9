"""The command line: thin commands that call the other packages."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import warnings
from typing import Annotated

from ..garbage import nothing_to_collect

with nothing_to_collect():
    import typer

    from .commands import Commands
    from .exits import INTERRUPTED, printed, show_warning, whole_errors

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    epilog="epochfence COMMAND --help shows examples.",
    pretty_exceptions_enable=False,
)


def _version(is_given: bool) -> None:
    if is_given:
        from importlib.metadata import version

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


def main() -> None:
    """Runs the command line: the entry point of the process."""
    gc.set_threshold(200_000)  # commands load hundreds of modules, which all stay
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy would start threads for nothing
    # Without it Numba lets colorama, if that is installed, reset the terminal's colours at exit.
    os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")
    warnings.showwarning = show_warning
    if sys.argv[1:2] == ["check"]:  # libraries of others may need a look for garbage at the end
        atexit.register(gc.freeze)  # else Python takes three, at all that ends with the process
    try:
        with printed(), whole_errors():
            app()
    except KeyboardInterrupt:  # before a command began
        print("epochfence: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    finally:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing is left to report
