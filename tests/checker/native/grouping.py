"""Small searches made to do what only some do for gain."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from epochfence.checker.native.codegen import property_groups, simd
from epochfence.checker.native.search import explore
from epochfence.checker.native.store import part_plan as planning
from epochfence.checker.native.store.parts import Parts


@contextmanager
def by_parts() -> Generator[list[Parts]]:
    """Keeps states by their parts from the first level on, with all properties in groups: yields
    the parts as they are made."""
    made: list[Parts] = []

    def noted(*args: Any, **named: Any) -> Parts:
        made.append(Parts(*args, **named))
        return made[-1]

    with ExitStack() as patches:
        for module, name, value in (
            (explore, "DIVIDED_FROM", 1),
            (planning, "WHOLE", 0),
            (planning, "WORTH", 1e9),
            (property_groups, "INLINE", -1),
            (property_groups, "LEAST", 0),
            (explore, "Parts", noted),
        ):
            patches.enter_context(patch.object(module, name, value))
        yield made


@contextmanager
def in_lanes(*, always: bool = True) -> Generator[None]:
    """Expands eight states at once wherever that can be done, on any processor; or never."""
    rows = range(1, 1 << 10) if always else ()
    with (
        patch.multiple(simd, MOST_WORDS=1 << 10, ROWS=rows, INLINE=1 << 20),
        patch.object(simd, "has_wide_vectors", lambda: True),
    ):
        yield
