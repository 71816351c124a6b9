"""Raw memory for Numba code: loads, stores, prefetches and calls at addresses.

Packed states are byte strings of any length from 8 on, read as whole words where they fit and as
one word that ends where the state ends.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportPrivateImportUsage=false

from __future__ import annotations

import mmap
import os
import resource
import sys
from typing import Any

import numpy as np
import psutil
from llvmlite import ir  # pyright: ignore[reportMissingTypeStubs]
from numba import types
from numba.extending import intrinsic

_POINTER = ir.PointerType()
# without it, a process that holds large regions may be refused a child; Python names it since 3.13
_NO_RESERVE = 0x4000 if sys.platform == "linux" else 0


def _load(kind: Any, bits: int) -> Any:
    def typed(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = builder.inttoptr(args[0], _POINTER)
            return builder.load(pointer, typ=ir.IntType(bits), align=1)

        return kind(types.int64), generate

    return typed


def _store(kind: Any) -> Any:
    def typed(typing_context: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = builder.inttoptr(args[0], _POINTER)
            builder.store(args[1], pointer, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, kind), generate

    return typed


load64 = intrinsic(_load(types.uint64, 64))
load32 = intrinsic(_load(types.uint32, 32))
store64 = intrinsic(_store(types.uint64))
store32 = intrinsic(_store(types.uint32))
store8 = intrinsic(_store(types.uint8))


@intrinsic
def load32_acquire(typing_context: Any, address: Any) -> Any:
    """A word that other threads may write, and what they wrote before it."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], _POINTER)
        return builder.load_atomic(pointer, "acquire", 4, typ=ir.IntType(32))

    return types.uint32(types.int64), generate


@intrinsic
def compare_exchange32(typing_context: Any, address: Any, expected: Any, new: Any) -> Any:
    """Stores a word where another one is expected, in one go; returns the one that was there."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], _POINTER)
        pair = builder.cmpxchg(pointer, args[1], args[2], "acq_rel", "acquire")
        return builder.extract_value(pair, 0)

    return types.uint32(types.int64, types.uint32, types.uint32), generate


@intrinsic
def fetch_add(typing_context: Any, address: Any, number: Any) -> Any:
    """Adds to a word of 64 bits in one go; returns what was there."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], _POINTER)
        return builder.atomic_rmw("add", pointer, args[1], "monotonic")

    return types.int64(types.int64, types.int64), generate


@intrinsic
def prefetch(typing_context: Any, address: Any) -> Any:
    """Asks for the cache line at the address, to be read soon."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        i32 = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [_POINTER, i32, i32, i32])
        function = builder.module.declare_intrinsic("llvm.prefetch", (_POINTER,), kind)
        pointer = builder.inttoptr(args[0], _POINTER)
        builder.call(function, [pointer, i32(0), i32(3), i32(1)])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic
def trailing_zeros(typing_context: Any, word: Any) -> Any:
    """The zeros below the lowest bit that is set in a word; 64 of a word that is 0."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@intrinsic
def call_expand(
    typing_context: Any, function: Any, states: Any, count: Any, out: Any, rows: Any, bad: Any,
    bad_count: Any,
) -> Any:  # fmt: skip
    """Calls a compiled system's `expand` (see `lower`) at an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        i64 = ir.IntType(64)
        kind = ir.FunctionType(i64, [i64] * 6)
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), list(args[1:]))

    return types.int64(*[types.int64] * 7), generate


def available() -> int:
    """The bytes that this process may still take: what the machine has free, or a seventh of what a
    limit on its address space (`ulimit -v`) leaves it, as regions are reserved for more than their
    use: states twice, their tables up to three times, buckets half.
    """
    free = psutil.virtual_memory().available
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return free
    return min(free, max(1, (limit - psutil.Process().memory_info().vms) // 7))


def fair_limit(processes: int = 1) -> int:
    """The bytes that each of so many processes may take in all, if nobody says: its part of three
    quarters of what is available, beyond what it has."""
    return psutil.Process().memory_info().rss + available() * 3 // (4 * processes)


def _refused(size: int, error: Exception) -> str:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    limited = f"; ulimit -v is {limit >> 10}: raise it" if limit != resource.RLIM_INFINITY else ""
    return f"can't reserve {size / 2**30:.3g} GiB: {error}{limited}, or give --memory less"


class Region:
    """Zeroed memory of a given size that takes real memory only where it was touched.

    With a `file` (a descriptor, open for writing) it is that file's content, which takes disk only
    where it was touched and which other processes see. Raises MemoryError where the system won't
    reserve it.
    """

    def __init__(self, size: int, file: int | None = None) -> None:
        self.size = max(size, mmap.PAGESIZE)
        try:
            if file is None:
                flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
                self._map = mmap.mmap(-1, self.size, flags=flags)
            else:
                os.ftruncate(file, self.size)
                self._map = mmap.mmap(file, self.size, flags=mmap.MAP_SHARED | _NO_RESERVE)
                # else a touch may bring in megabytes around it
                self._map.madvise(mmap.MADV_RANDOM)
        except (OSError, ValueError) as error:
            raise MemoryError(_refused(self.size, error)) from None
        self.array = np.frombuffer(self._map, dtype=np.uint8)
        self.address = int(self.array.ctypes.data)

    def forget(self, start: int, size: int) -> None:
        """Gives back the memory of whole pages. What a file has stays there; else it is zero."""
        if sys.platform == "linux":
            self._map.madvise(mmap.MADV_DONTNEED, start, size)
