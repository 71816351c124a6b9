"""Loads kio without Hypothesis. If Hypothesis is installed, kio registers strategies with it. That
takes half a second, and creates a folder `.hypothesis` in the working directory of each command."""

from __future__ import annotations

import sys
from contextlib import suppress

_NAME = "hypothesis"

if _NAME not in sys.modules:
    sys.modules[_NAME] = None  # pyright: ignore[reportArgumentType]  # as the import system has it
    try:
        with suppress(ModuleNotFoundError):  # the caller reports that kio is missing
            import kio.static._phantom  # noqa: F401  # pyright: ignore[reportUnusedImport]
    finally:
        del sys.modules[_NAME]
