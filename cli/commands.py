"""All commands of the command line; the module of a command is loaded when it is called."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from importlib import import_module
from inspect import Parameter, Signature, cleandoc, signature
from typing import Any, NoReturn, get_type_hints

import typer
from typer.core import TyperGroup

from ..files import CantWriteError
from ..language.declaration.errors import TOO_DEEP
from .examples import shown
from .exits import INTERRUPTED, USAGE, in_a_line
from .screen import Command, WrongUsage, heed_in_help, hide_kinds

PANELS: dict[str, dict[str, str]] = {
    "Check a protocol": {
        "new": "views.new",
        "check": "checking.check",
        "sweep": "checking.check",
        "simulate": "checking.simulate",
        "bound": "checking.solve",
        "prove": "checking.solve",
        "lint": "checking.solve",
        "explore": "views.browse",
    },
    "Read a counterexample": {
        "replay": "checking.traces",
        "explain": "checking.traces",
        "export": "checking.export",
    },
    "Look at Kafka's protocol": {
        "list": "views.tables",
        "diagram": "views.tables",
        "diff": "views.tables",
        "drift": "views.drift",
        "matrix": "checking.matrix",
        "bugs": "checking.bugs",
        "semantics": "checking.semantics",
        "window": "checking.semantics",
        "config": "oracle.oracle",
        "explain-error": "views.errors",
        "advise": "views.advise",
        "findings": "oracle.findings",
    },
    "Test brokers and clients": {
        "doctor": "oracle.doctor",
        "conform": "oracle.conform",
        "serve": "oracle.serve",
        "proxy": "oracle.serve",
        "judge": "oracle.oracle",
        "decode": "oracle.oracle",
        "vectors": "oracle.vectors",
    },
}
"""The panels that help shows: each command, and the module of its function."""

NAMES = tuple(name for commands in PANELS.values() for name in commands)


NO_THREAD = "can't start new thread"  # as Python's threading has it


class Commands(TyperGroup):
    """The commands by name. A wrong command line, or an output that can't be written, is a one-line
    error."""

    def main(self, *arguments: Any, **named: Any) -> NoReturn:
        """Runs the command that the arguments name, and exits."""
        message = ""
        try:
            code = super().main(*arguments, **named | {"standalone_mode": False})
        except WrongUsage as error:
            context = error.ctx
            path = "epochfence" if context is None else context.command_path
            message = in_a_line(" ".join(error.format_message().split()))
            if message:  # it is empty after help was shown
                message = f"{message.rstrip('.')} (see {path} --help)"
            code = USAGE
        except (CantWriteError, ChildProcessError) as error:
            code, message = USAGE, in_a_line(error)
        except MemoryError as error:
            code, message = USAGE, f"not enough memory{f': {error}' if str(error) else ''}"
        except RecursionError:
            code, message = USAGE, TOO_DEEP
        except BrokenExecutor:
            why = "it was killed, or ran out of memory; the file of --results is intact"
            code, message = USAGE, f"a worker process died: {why}"
        except RuntimeError as error:
            if NO_THREAD not in str(error):
                raise
            code, message = USAGE, f"not enough memory: {NO_THREAD}"
        if message:  # printed here, where the memory that an error held is free again
            print(f"epochfence: {message}", file=sys.stderr)
        sys.exit(code)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Prints the help of all commands."""
        heed_in_help()
        hide_kinds(self.get_params(ctx))
        super().format_help(ctx, formatter)

    def invoke(self, ctx: Any) -> Any:
        """Runs the command; prints `interrupted` on a Ctrl-C that it doesn't handle."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            print(" ".join(["epochfence: interrupted", *map(str, error.args)]), file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None

    def list_commands(self, ctx: Any) -> list[str]:
        """The commands' names, in the order of help."""
        return list(NAMES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, or None. An unknown name loads all commands: Typer suggests a similar
        one."""
        for name in [cmd_name] if cmd_name in NAMES else NAMES:
            if name not in self.commands:
                self.add_command(loaded(name))
        return super().get_command(ctx, cmd_name)


def loaded(name: str) -> Any:
    """Typer's object for the command, from its module."""
    panel, module = next((p, commands[name]) for p, commands in PANELS.items() if name in commands)
    home = vars(import_module(f".{module}", __package__))
    written = name.replace("-", "_")
    function = home.get(written) or home[f"{written}_"]
    # Typer breaks the lines of a help text itself.
    help_text = "\n\n".join(
        " ".join(each.split()) for each in cleandoc(function.__doc__ or "").split("\n\n")
    )
    alone = typer.Typer(add_completion=False)
    alone.command(name, cls=Command, help=help_text, epilog=shown(name), rich_help_panel=panel)(
        grouped(function)
    )
    return typer.main.get_command(alone)


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A function that Typer accepts for the command. A dataclass among the command's parameters
    groups options: each of its fields becomes a parameter, with the type and default of its
    option."""
    groups: dict[str, Any] = {}
    options: list[Parameter] = []
    types = get_type_hints(command, include_extras=True)
    for name, parameter in signature(command).parameters.items():
        kind = types[name]
        if is_dataclass(kind):
            groups[name] = kind
            own = get_type_hints(kind, include_extras=True)
            options += [_option(f.name, own[f.name], f.default) for f in fields(kind)]
        else:
            options.append(_option(name, kind, parameter.default))

    @wraps(command)
    def flat(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        command(**given)

    flat.__signature__ = Signature(options)  # type: ignore[attr-defined]
    flat.__annotations__ = {option.name: option.annotation for option in options}
    return flat


def _option(name: str, kind: Any, default: Any) -> Parameter:
    """A keyword-only parameter, so that parameters with and without a default may mix."""
    given = Parameter.empty if default is MISSING else default
    return Parameter(name, Parameter.KEYWORD_ONLY, default=given, annotation=kind)
