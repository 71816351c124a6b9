"""Packed states and records of them: hashed, compared and copied a word at a time.

The record of a whole state has all bytes except the last one, which follows from the others and the
shard that owns the state.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false
# pyright: reportCallIssue=false

from __future__ import annotations

import numpy as np
from numpy import uint64

from ..jit.functions import compiled
from ..jit.hashing import mix, mixed_well
from ..jit.memory import load64, store8, store64

SHORT = 16  # most bytes of a record in two words
SHARD_BITS = 8  # bits of a shard's number; a record is shorter than its state by them


@compiled(inline="always")
def low_bytes(count):
    """A mask of the lowest `count` bytes of a word, fewer than 8."""
    return (uint64(1) << uint64(8 * count)) - uint64(1)


@compiled(inline="always")
def first_word(stride):
    """A mask of the bytes of a state's first word."""
    return ~uint64(0) if stride >= 8 else low_bytes(stride)


@compiled(inline="always")
def hash_state(address, stride):
    """64 bits from a packed state, or a record."""
    mixed = uint64(0)
    offset = 0
    if stride < 8:
        mixed = mix(mixed, load64(address) & low_bytes(stride))
        offset = stride
    while offset + 8 <= stride:
        mixed = mix(mixed, load64(address + offset))
        offset += 8
    if offset < stride:
        mixed = mix(mixed, load64(address + stride - 8))
    return mixed_well(mixed)


@compiled(inline="always")
def hash_short(address, stride, mask):
    """The same hash of a state of up to 16 bytes; `mask` has the bytes of its first word."""
    mixed = mix(uint64(0), load64(address) & mask)
    if stride > 8:
        mixed = mix(mixed, load64(address + stride - 8))
    return mixed_well(mixed)


@compiled(inline="always")
def hashed(address, stride, is_short, mask):
    """The same function, by the faster of the two above."""
    return hash_short(address, stride, mask) if is_short else hash_state(address, stride)


@compiled(inline="always")
def owner_of_whole(h, state, stride):
    """The shard that owns a packed state; `h` is the hash of its record."""
    return np.int64((h ^ load64(state + stride - 8)) >> uint64(64 - SHARD_BITS))


@compiled(inline="always")
def same_short(a, b, stride, mask):
    """Whether two records of up to 16 bytes are equal; `mask` has the bytes of the first word."""
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
    """The same function, by the faster of the two above."""
    return same_short(a, b, stride, mask) if is_short else same_state(a, b, stride)


@compiled(inline="always")
def copy_state(source, target, stride):
    """Copies a packed state. It may overwrite up to 7 bytes after the target."""
    offset = 0
    while offset < stride:
        store64(target + offset, load64(source + offset))
        offset += 8


@compiled(inline="always")
def copy_short(source, target, stride):
    """Copies a state or record of up to 16 bytes."""
    store64(target, load64(source))
    if stride > 8:
        store64(target + stride - 8, load64(source + stride - 8))


@compiled(inline="always")
def copy_exactly(source, target, stride):
    """Copies a packed state, or a record, and overwrites nothing after the target."""
    if stride < 8:
        mask = low_bytes(stride)
        store64(target, (load64(source) & mask) | (load64(target) & ~mask))
        return
    offset = 0
    while offset + 8 <= stride:
        store64(target + offset, load64(source + offset))
        offset += 8
    if offset < stride:
        store64(target + stride - 8, load64(source + stride - 8))


@compiled(inline="always")
def restore(record, width, shard, state, is_short, mask):
    """Writes the packed state of a shard's record. It may overwrite up to 7 bytes after the
    state.
    """
    if is_short:
        copy_short(record, state, width)
    else:
        copy_state(record, state, width)
    h = hashed(record, width, is_short, mask)
    store8(state + width, np.uint8(np.int64(h >> uint64(64 - SHARD_BITS)) ^ shard))
