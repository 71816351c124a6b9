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
        if not _others_have_frozen():
            gc.freeze()
            gc.unfreeze()  # into the oldest generation
        if enabled:
            gc.enable()


def _others_have_frozen() -> bool:
    """Whether there are frozen objects, which stay so. Python counts them one by one, a million in
    tens of milliseconds: once it has found some, it isn't asked again."""
    if not _Frozen.by_others:
        _Frozen.by_others = gc.get_freeze_count() > 0
    return _Frozen.by_others


class _Frozen:
    by_others = False
