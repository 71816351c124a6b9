"""Where a declaration is written: for messages of other programs, which open the line."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType
from typing import NamedTuple

_SHIPPED = str(Path(__file__).parents[2] / "spec") + os.sep
_LANGUAGE = __name__.removesuffix("declaration.places")
_GENERATED = "<"  # what a program makes by itself has a name like this, not a file's


class Place(NamedTuple):
    """A line of a file, the first one being 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def is_shipped(self) -> bool:
        """Whether it is in a shipped system, which isn't the user's to mend."""
        return self.file.startswith(_SHIPPED)


def here() -> Place | None:
    """The line of the declaration that is being made: the nearest one outside of the language."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        file = frame.f_code.co_filename
        within = frame.f_globals.get("__name__", "").startswith(_LANGUAGE)
        if not within and not file.startswith(_GENERATED):
            return Place(file, frame.f_lineno)
        frame = frame.f_back
    return None
