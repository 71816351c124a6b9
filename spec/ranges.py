"""Whether a run is at real ranges."""

from __future__ import annotations

from ..language import constant

REAL = constant(
    "real", 0, 0, 1, real=1,
    meaning="1 at real ranges, and in a system that has fields of real ranges; 0 in any other "
    "bounded run, which leaves them out",
)  # fmt: skip
