"""Packed states and records of them: hashed, compared and copied a word at a time."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false
# pyright: reportCallIssue=false

from __future__ import annotations

import numpy as np
from numpy import uint64

from .compiled import compiled
from .memory import load64, store64

SHORT = 16  # bytes of a state or a record up to which two words have all of it

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_MIXER = np.uint64(0xD6E8FEB86659FD93)


@compiled(inline="always")
def low_bytes(count):
    """A mask of so many bytes of a word, fewer than 8."""
    return (uint64(1) << uint64(8 * count)) - uint64(1)


@compiled(inline="always")
def first_word(stride):
    """A mask of the bytes of the first word that a state has."""
    return ~uint64(0) if stride >= 8 else low_bytes(stride)


@compiled(inline="always")
def hash_state(address, stride):
    """64 bits from a packed state, or a record."""
    mixed = uint64(0)
    offset = 0
    if stride < 8:
        mixed = (load64(address) & low_bytes(stride)) * _MULTIPLIER
        mixed ^= mixed >> uint64(29)
        offset = stride
    while offset + 8 <= stride:
        mixed = (mixed ^ load64(address + offset)) * _MULTIPLIER
        mixed ^= mixed >> uint64(29)
        offset += 8
    if offset < stride:
        mixed = (mixed ^ load64(address + stride - 8)) * _MULTIPLIER
        mixed ^= mixed >> uint64(29)
    mixed *= _MIXER
    return mixed ^ (mixed >> uint64(32))


@compiled(inline="always")
def hash_short(address, stride, mask):
    """The same of a state of up to 16 bytes, where the mask has the bytes of the first word."""
    mixed = (load64(address) & mask) * _MULTIPLIER
    mixed ^= mixed >> uint64(29)
    if stride > 8:
        mixed = (mixed ^ load64(address + stride - 8)) * _MULTIPLIER
        mixed ^= mixed >> uint64(29)
    mixed *= _MIXER
    return mixed ^ (mixed >> uint64(32))


@compiled(inline="always")
def hashed(address, stride, is_short, mask):
    """The same, by whichever of the two is faster."""
    return hash_short(address, stride, mask) if is_short else hash_state(address, stride)


@compiled(inline="always")
def same_short(a, b, stride, mask):
    """Whether two states of up to 16 bytes are equal, where the mask has the bytes of the first
    word."""
    different = (load64(a) ^ load64(b)) & mask
    if stride > 8:
        different |= load64(a + stride - 8) ^ load64(b + stride - 8)
    return different == uint64(0)


@compiled(inline="always")
def same_state(a, b, stride):
    """Whether two packed states, or records, are equal."""
    if stride < 8:
        return (load64(a) ^ load64(b)) & low_bytes(stride) == uint64(0)
    offset = 0
    while offset + 8 <= stride:
        if load64(a + offset) != load64(b + offset):
            return False
        offset += 8
    return offset == stride or load64(a + stride - 8) == load64(b + stride - 8)


@compiled(inline="always")
def same(a, b, stride, is_short, mask):
    """The same, by whichever of the two is faster."""
    return same_short(a, b, stride, mask) if is_short else same_state(a, b, stride)


@compiled(inline="always")
def copy_state(source, target, stride):
    """Copies a packed state; up to 7 bytes behind it are written as well."""
    offset = 0
    while offset < stride:
        store64(target + offset, load64(source + offset))
        offset += 8


@compiled(inline="always")
def copy_exactly(source, target, stride):
    """Copies a packed state, of 8 bytes or more, and writes nothing behind it."""
    offset = 0
    while offset + 8 <= stride:
        store64(target + offset, load64(source + offset))
        offset += 8
    if offset < stride:
        store64(target + stride - 8, load64(source + stride - 8))
