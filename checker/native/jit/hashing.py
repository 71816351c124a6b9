"""Mixes words into hashes of 64 bits."""

# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from numpy import uint64

from .functions import compiled

MULTIPLIER = uint64(0x9E3779B97F4A7C15)
MIXER = uint64(0xD6E8FEB86659FD93)


@compiled(inline="always")
def mix(mixed, word):
    """The hash with one more word."""
    mixed = (mixed ^ word) * MULTIPLIER
    return mixed ^ (mixed >> uint64(29))


@compiled(inline="always")
def mixed_well(mixed):
    """A hash in which every bit depends on all mixed words."""
    mixed *= MIXER
    return mixed ^ (mixed >> uint64(32))
