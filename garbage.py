"""Python's search for garbage, kept from where it would find none."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def nothing_to_collect() -> Generator[None]:
    """Python looks for no garbage meanwhile: of many new objects that all stay, it would look
    through the same ones again and again. Afterwards they count as old."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():  # what others have frozen stays so
            gc.freeze()
            gc.unfreeze()  # into the oldest generation
        if enabled:
            gc.enable()
