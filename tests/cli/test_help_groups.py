"""A command's options as dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from epochfence.cli.commands import grouped


@dataclass(frozen=True, kw_only=True)
class Size:
    width: Annotated[int, typer.Option("--width")]
    height: Annotated[int, typer.Option("--height")] = 3


@dataclass(frozen=True, kw_only=True)
class Box(Size):
    depth: Annotated[int | None, typer.Option("--depth")] = None


def draw(name: Annotated[str, typer.Argument()], box: Box, dry: bool = False) -> None:
    """Draws a box."""
    print(name, box, dry)


app = typer.Typer()
app.command()(grouped(draw))


def test_the_fields_of_a_dataclass_are_options() -> None:
    parameters = signature(grouped(draw)).parameters
    assert {name: each.default for name, each in parameters.items()} == {
        "name": Parameter.empty,
        "width": Parameter.empty,
        "height": 3,
        "depth": None,
        "dry": False,
    }
    done = CliRunner().invoke(app, ["a", "--width", "5", "--depth", "2"])
    assert done.output == f"a {Box(width=5, height=3, depth=2)} False\n"


@pytest.mark.parametrize("given", [["a"], ["a", "--width", "wide"], ["--width", "1"]])
def test_what_is_missing_or_wrong_is_refused_as_ever(given: list[str]) -> None:
    assert CliRunner().invoke(app, given).exit_code == 2
