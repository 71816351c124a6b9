"""Declarations that a notebook shows as a picture or a table."""

from __future__ import annotations

from importlib import import_module
from typing import Any

RENDERER = "epochfence.diagrams.notebook"
"""Given by name: the drawing code imports what it draws, and is only loaded if something is
shown."""


class Rendered:
    """Shown by Jupyter and by whatever else asks as IPython does: as HTML, and as a few lines of
    text, where the packages that draw are installed."""

    def __init_subclass__(cls) -> None:
        # IPython takes a class's own __repr__, as a dataclass has one, before what it inherits.
        cls._repr_pretty_ = Rendered._repr_pretty_

    def _repr_html_(self) -> str | None:
        """The markup, whatever a declaration has for names; none where a package is missing."""
        renderer = _renderer()
        return None if renderer is None else renderer.html(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The text: the whole declaration would be some megabytes."""
        renderer = None if cycle else _renderer()
        printer.text(object.__repr__(self) if renderer is None else renderer.text(self))


def _renderer() -> Any:
    try:
        return import_module(RENDERER)
    except ModuleNotFoundError:
        return None
