"""Declarations that a notebook shows as a picture or a table."""

from __future__ import annotations

from importlib import import_module
from typing import Any

RENDERER = "epochfence.diagrams.notebook"
"""Given by name: the drawing code imports what it draws, and is only loaded if something is
shown."""


class Rendered:
    """A base class with IPython's display methods: Jupyter shows a declaration as HTML, or as a few
    lines of text. The packages that draw must be installed.
    """

    def __init_subclass__(cls) -> None:
        # IPython prefers a class's own __repr__, such as a dataclass's, to an inherited method.
        cls._repr_pretty_ = Rendered._repr_pretty_

    def _repr_html_(self) -> str | None:
        """The HTML with all names escaped; None if a package is missing."""
        renderer = _renderer()
        return None if renderer is None else renderer.html(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Prints a short text: the repr of a whole declaration has some megabytes."""
        renderer = None if cycle else _renderer()
        printer.text(object.__repr__(self) if renderer is None else renderer.text(self))


def _renderer() -> Any:
    try:
        return import_module(RENDERER)
    except ModuleNotFoundError:
        return None
