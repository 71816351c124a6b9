"""What commands print to: as wide as the terminal, and plain where NO_COLOR asks for that."""

from __future__ import annotations

import os
import shutil
import sys
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


class Command(TyperCommand):
    """A command."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Prints its help."""
        heed_in_help()
        super().format_help(ctx, formatter)
