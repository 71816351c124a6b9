"""Python's search for garbage: rare where it would find none, often where a program runs long."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

BY_DEFAULT: Final = (700, 10, 10)
"""So many objects more, and so many looks at younger ones, make Python look for garbage."""


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


@contextmanager
def collected() -> Generator[None]:
    """Python looks for garbage as often as by default meanwhile, but not among the objects that
    are there already."""
    before, alone = gc.get_threshold(), not _others_have_frozen()
    if alone:
        gc.collect()
        gc.freeze()
    gc.set_threshold(*BY_DEFAULT)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if alone:
            gc.unfreeze()


def _others_have_frozen() -> bool:
    """Whether there are frozen objects, which stay so. Python counts them one by one, a million in
    tens of milliseconds: once it has found some, it isn't asked again."""
    if not _Frozen.by_others:
        _Frozen.by_others = gc.get_freeze_count() > 0
    return _Frozen.by_others


class _Frozen:
    by_others = False
