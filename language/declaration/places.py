"""The file and line of a declaration: editors and other programs open it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType
from typing import NamedTuple

_SHIPPED = str(Path(__file__).parents[2] / "spec") + os.sep
_LANGUAGE = __name__.removesuffix("declaration.places")
_GENERATED = "<"  # generated code has a name such as <string> in the place of a file


class Place(NamedTuple):
    """A line of a file, counted from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def is_shipped(self) -> bool:
        """Whether it is in a shipped system, which the user doesn't edit."""
        return self.file.startswith(_SHIPPED)


def here() -> Place | None:
    """The line of the current declaration: the innermost caller outside of the language."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        file = frame.f_code.co_filename
        within = frame.f_globals.get("__name__", "").startswith(_LANGUAGE)
        if not within and not file.startswith(_GENERATED):
            return Place(file, frame.f_lineno)
        frame = frame.f_back
    return None
