"""Shell completion. It never runs a user's file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import typer

from ..language import System
from ..spec.systems import SHIPPED, shipped


def systems(incomplete: str) -> list[str]:
    """Shipped systems, folders and Python files."""
    folder, _, begin = incomplete.rpartition("/")
    try:
        found = sorted(Path(folder or ".").iterdir()) if folder or begin else []
    except OSError:
        found = []
    paths = [
        f"{folder}/{path.name}" if folder else path.name
        for path in found
        if not path.name.startswith(".") and (path.suffix == ".py" or path.is_dir())
    ]
    return _beginning([*SHIPPED, *paths], incomplete)


def protocols(context: typer.Context, incomplete: str) -> list[str]:
    """The releases of a shipped system."""
    system = _named(context)
    return [] if system is None else _beginning(system.protocols.releases, incomplete)


def bounds(context: typer.Context, incomplete: str) -> list[str]:
    """The named bounds of a shipped system."""
    system = _named(context)
    return [] if system is None else _beginning(system.bound_names, incomplete)


def properties(context: typer.Context, incomplete: str) -> list[str]:
    """The properties of a shipped system."""
    system = _named(context)
    every = () if system is None else (*system.properties, *system.progress)
    return _beginning([item.name for item in every], incomplete)


def features(context: typer.Context, incomplete: str) -> list[str]:
    """The features of a shipped system's releases."""
    system = _named(context)
    every = () if system is None else system.protocols.infos
    return _beginning([item.name for item in every], incomplete)


def constants(context: typer.Context, incomplete: str) -> list[str]:
    """The constants of a shipped system, each as `NAME=`."""
    system = _named(context)
    every = () if system is None else system.constant_infos
    return _beginning([f"{item.name}=" for item in every], incomplete)


def _named(context: typer.Context) -> System | None:
    """The shipped system on the command line so far. While an option's value is completed,
    arguments are still unparsed words."""
    words = [context.params.get("system"), *context.args]
    name = next((word for word in words if word in SHIPPED), None)
    return None if name is None else shipped(name)


def _beginning(every: Iterable[str], incomplete: str) -> list[str]:
    return [each for each in every if each.startswith(incomplete)]
