"""What commands print to: as wide as the terminal, and plain where NO_COLOR asks for that."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from typing import Any, Literal

from rich.console import Console
from typer.core import TyperCommand

WIDTH, NARROWEST = 100, 60  # columns


def styled() -> Literal["auto"] | None:
    """Rich's colour system. Of NO_COLOR alone Rich would leave out colours, not bold print: here
    nothing is written but the text."""
    return None if os.environ.get("NO_COLOR") else "auto"


def screen() -> Console:
    """Where results are printed: as wide as a narrow terminal, else of 100 columns."""
    width = WIDTH
    if sys.stdout.isatty():
        width = max(NARROWEST, min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns))
    return Console(width=width, highlight=False, soft_wrap=False, color_system=styled())


def beside() -> Console:
    """Standard error, where a command tells how far it has come."""
    return Console(stderr=True, color_system=styled())


def heed_in_help() -> None:
    """Has Typer's help heed NO_COLOR as results do."""
    from typer import rich_utils

    rich_utils.COLOR_SYSTEM = styled()


def show_kinds(parameters: Iterable[Any]) -> None:
    """Has Typer's help show no type for a switch, which takes no value, and N for a number."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        elif parameter.metavar is None and parameter.type_descriptor.annotation in (int, float):
            parameter.metavar = "N"


class Command(TyperCommand):
    """A command."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Prints its help."""
        heed_in_help()
        show_kinds(self.get_params(ctx))
        super().format_help(ctx, formatter)
