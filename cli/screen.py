"""The consoles that commands print to: as wide as the terminal, plain text with NO_COLOR."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, redirect_stdout
from itertools import pairwise
from textwrap import fill
from typing import Any, Final, Literal

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperCommand

from ..files import CantWriteError, Output
from .exits import refuse_full_output

WIDTH, NARROWEST = 100, 60  # columns
WrongUsage: Final[Any] = typer.BadParameter.__base__  # Typer exports no more of its errors


def styled() -> Literal["auto"] | None:
    """Rich's colour system; none with NO_COLOR. (Rich itself would still print bold text then.)"""
    return None if os.environ.get("NO_COLOR") else "auto"


def screen() -> Console:
    """The console for results: at most 100 columns, fewer on a narrow terminal.

    The variable COLUMNS sets another width, for a file and a pipe as well.
    """
    width = WIDTH
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        width = max(NARROWEST, int(columns))
    elif sys.stdout.isatty():
        width = max(NARROWEST, min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns))
    return Console(
        width=width, highlight=False, soft_wrap=False, emoji=False, color_system=styled()
    )


def indented(text: str, columns: int, width: int, *, hanging: int = 0) -> str:
    """Plain text as Rich's markup, in lines of this width, indented by `columns`, and by `hanging`
    more from the second line on."""
    first = " " * columns
    return escape(fill(text, width, initial_indent=first, subsequent_indent=first + " " * hanging))


@contextmanager
def within_columns() -> Generator[None]:
    """Wraps the output of the block to COLUMNS columns, if this variable is set. Keeps the indent
    of lines."""
    columns = os.environ.get("COLUMNS", "")
    if not (columns.isdecimal() and int(columns) > 0):
        yield
        return
    width = max(NARROWEST, int(columns))
    with redirect_stdout(io.StringIO()) as printed:
        yield
    for line in printed.getvalue().splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        print(fill(line, width, subsequent_indent=f"{indent}  ", break_long_words=False))


def beside() -> Console:
    """The console for progress lines: standard error."""
    return Console(stderr=True, emoji=False, color_system=styled())


def heed_in_help() -> None:
    """Makes Typer's help follow NO_COLOR, as results do."""
    from typer import rich_utils

    rich_utils.COLOR_SYSTEM = styled()


def hide_kinds(parameters: Iterable[Any]) -> None:
    """Makes Typer's help show no type for a switch, which takes no value."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""


def _without_empty(words: list[str]) -> None:
    """Raises WrongUsage for an empty argument. It would mean the current folder or the newest
    release, but usually comes from a shell variable that isn't set."""
    for before, word in zip(["", *words], words, strict=False):
        option, equals, value = word.partition("=")
        if not word:
            where = before if before.startswith("--") or before == "-o" else "an argument"
        elif option.startswith("--") and equals and not value:
            where = option
        else:
            continue
        raise WrongUsage(f"{where} is empty: give it a value, or leave it out")


def _without_options_as_values(words: list[str], parameters: Iterable[Any]) -> None:
    """Raises WrongUsage if an option stands where a value belongs: `--json --strict` would write a
    file called --strict."""
    options = {name: each for each in parameters for name in (*each.opts, *each.secondary_opts)}
    for before, word in pairwise(words[: words.index("--")] if "--" in words else words):
        option = options.get(before) if before.startswith("-") else None
        takes = option is not None and not getattr(option, "is_flag", False)
        if takes and (word.startswith("--") or (word.startswith("-") and word in options)):
            raise WrongUsage(f"{before} has no value: the next word is {word}")


def _without_repetition(order: Iterable[Any], parameters: Iterable[Any]) -> None:
    """Raises WrongUsage for a repeated option that takes one value: Typer would use only the last
    one. `order` has a parameter once for each time that it is given."""
    given = Counter(each.name for each in order)
    for each in parameters:
        several = each.multiple if each.param_type_name == "option" else each.nargs != 1
        if given[each.name] > 1 and not several and not getattr(each, "is_flag", False):
            names = " or ".join(each.opts)
            raise WrongUsage(f"{names} is given {given[each.name]} times: give it once")


def _without_overwriting(parameters: Iterable[Any], values: Mapping[str, Any]) -> None:
    """Raises WrongUsage if a result would replace an input, such as SYSTEM's file, or another
    result."""
    read: list[str] = []
    journal = values.get("results")  # of --results: the command appends each result to it
    written: set[str] = set() if journal is None else {os.path.realpath(journal)}
    for parameter in parameters:
        value: Any = values.get(parameter.name)
        if parameter.param_type_name == "argument" and value is not None:
            several = parameter.nargs != 1
            read += map(str, value if several else [value])
    read += [each.partition(":")[0] for each in read]
    for output in (value for value in values.values() if isinstance(value, Output)):
        place = "-" if output.is_standard_output else os.path.realpath(output.path)
        if output.path.is_file() and place in map(os.path.realpath, read):
            raise WrongUsage(
                f"this command reads {output.path}, and its result would overwrite it: choose "
                "another file"
            )
        is_device = output.path.exists() and not output.path.is_file()
        if place in written and (output.is_standard_output or not is_device):
            raise WrongUsage(f"two results go to {output.path}: give each a different file")
        written.add(place)


def _without_contradiction(values: Mapping[str, Any]) -> None:
    """Raises WrongUsage for a feature that is switched both on and off."""
    for name in values.get("with_") or ():
        if name in (values.get("without") or ()):
            raise WrongUsage(f"--with {name} and --without {name}: leave one of them out")


class Command(TyperCommand):
    """A command."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Prints its help."""
        heed_in_help()
        hide_kinds(self.get_params(ctx))
        super().format_help(ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the words after the command's name. An error has the command's context, for the
        right help."""
        try:
            _without_empty(args)
            _without_options_as_values(args, self.get_params(ctx))
            _, _, order = self.make_parser(ctx).parse_args(list(args))
            _without_repetition(order, self.get_params(ctx))
            left = super().parse_args(ctx, args)
            _without_overwriting(self.get_params(ctx), ctx.params)
            _without_contradiction(ctx.params)
            return left
        except WrongUsage as error:
            error.ctx = error.ctx or ctx
            ctx.close()  # otherwise standard output would stay silenced for --json -
            raise
        except CantWriteError:
            ctx.close()
            raise

    def invoke(self, ctx: Any) -> Any:
        """Runs the command, unless standard output can't be written to."""
        refuse_full_output()
        return super().invoke(ctx)
