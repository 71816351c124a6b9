"""The releases at which a system differs."""

from __future__ import annotations

from epochfence.language import System
from epochfence.spec.releases.features import RELEASED


def differing(system: System) -> list[str]:
    """The first of the releases that are alike to the system: at the others it has the same rows,
    messages and properties, so that a run comes to the same."""
    return list(dict.fromkeys(system.first_alike(RELEASED).values()))
