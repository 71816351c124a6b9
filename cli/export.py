"""The command that writes a system for another checker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ..files import Output
from ..language import DEFAULT, DeclarationError
from ..language.instance import ending_anywhere
from .endings import fail
from .options import (
    Bounds,
    Constants,
    NoDeadlock,
    Off,
    On,
    Properties,
    Protocol,
    SystemName,
    checked_instance,
    make_folder,
)


def export(
    form: Annotated[Literal["tla"], typer.Argument(metavar="FORM", help="tla: for TLC.")],
    system: SystemName,
    folder: Annotated[Path, typer.Option("-o", metavar="DIR", help="Where the files go.")],
    protocol: Protocol = None,
    bounds: Bounds = DEFAULT,
    constants: Constants = None,
    properties: Properties = None,
    with_: On = None,
    without: Off = None,
    no_deadlock: NoDeadlock = False,
) -> None:
    """Write SYSTEM for another checker: in TLA+, a module and TLC's configuration."""
    instance = checked_instance(system, protocol, bounds, constants, with_, without, properties)
    if no_deadlock:
        instance = ending_anywhere(instance)
    from ..checker.tla.module import module
    from ..checker.tla.names import LIBRARY

    try:
        found = module(instance)
    except DeclarationError as error:
        fail(error)
    texts = {
        f"{found.name}.{form}": found.text,
        f"{found.name}.cfg": found.configuration,
        LIBRARY.name: LIBRARY.read_text(encoding="utf-8"),
    }
    make_folder("-o", folder)
    places = {name: Output(folder / name) for name in texts}
    for name, text in texts.items():
        places[name].write(text)
    rows, lines = len(instance.row_names), len(found.text.splitlines())
    print(f"{folder / found.name}.{form}: {rows} rows in {lines:,} lines")
