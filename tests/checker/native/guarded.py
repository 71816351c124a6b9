"""Memory that ends where a page begins that nobody may touch: an access behind it ends the process.

What compiled functions read and write at addresses is reserved so here: regions, the parts of them
that shards and buckets have, and NumPy's arrays. Bytes before the beginning keep a pattern that is
looked at when the memory is given back; nobody may touch it from then on.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch
from weakref import finalize

import numpy as np

from epochfence.checker.native.jit import memory
from epochfence.checker.native.search import worker
from epochfence.checker.native.search.worker import Worker
from epochfence.checker.native.store import disk, parts, store
from epochfence.checker.native.store.store import SHARDS, SLACK
from epochfence.checker.spark.search import shards, tasks

PAGE = mmap.PAGESIZE
PATTERN = 0xA5
ARRAYS = (
    "zeros", "empty", "full", "zeros_like", "empty_like", "array", "arange", "concatenate",
    "ascontiguousarray", "vstack",
)  # fmt: skip
OF_ZEROS = ("zeros", "empty", "zeros_like", "empty_like")
OWNERS = "epochfence.checker"  # whose arrays are guarded

_NONE, _BOTH = 0, mmap.PROT_READ | mmap.PROT_WRITE
_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # without a reservation
_FIXED = 0x10
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.mprotect.argtypes = _libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_exact: dict[int, int] = {}  # the bytes of a part, by what is reserved for it
_touched: list[str] = []


def pages(size: int) -> int:
    """The bytes of the pages that so many bytes take."""
    return -(-size // PAGE) * PAGE


def _mapped(at: int | None, size: int, protection: int, flags: int, file: int = -1) -> int:
    found = _libc.mmap(at, size, protection, flags, file, 0)
    if found is None or found == ctypes.c_void_p(-1).value:
        raise MemoryError(os.strerror(ctypes.get_errno()))
    return int(found)


def _forbidden(at: int, size: int) -> None:
    assert _libc.mprotect(at, size, _NONE) == 0, os.strerror(ctypes.get_errno())


def _bytes(at: int, size: int) -> Any:
    return (ctypes.c_ubyte * size).from_address(at)


def reserve(size: int, file: int | None = None) -> Any:
    """Zeroed bytes between two forbidden pages, as ctypes has them. Of a file they begin with a
    page, else they end with one."""
    whole = pages(size)
    begin = _mapped(None, whole + 2 * PAGE, _NONE, _PRIVATE) + PAGE
    flags = _PRIVATE if file is None else mmap.MAP_SHARED
    _mapped(begin, whole, _BOTH, flags | _FIXED, -1 if file is None else file)
    before = whole - size if file is None else 0
    ctypes.memset(begin, PATTERN, before)
    held = _bytes(begin + before, size)
    finalize(held, _given_back, begin, whole, before).atexit = False
    return held


def _given_back(begin: int, whole: int, before: int) -> None:
    if bytes(_bytes(begin, before)) != bytes([PATTERN]) * before:
        _touched.append(f"bytes before {begin + before:#x} were written to")
    _mapped(begin, whole, _NONE, _PRIVATE | _FIXED)


class Guarded(memory.Region):
    """A region between forbidden pages."""

    def __init__(self, size: int, file: int | None = None) -> None:
        self.size = size
        if file is not None:
            os.ftruncate(file, size)
        self.array = np.frombuffer(reserve(size, file), dtype=np.uint8)
        self.address = self.array.ctypes.data

    def forget(self, start: int, size: int) -> None:
        first, last = pages(self.address + start), (self.address + start + size) // PAGE * PAGE
        if last > first:
            assert _libc.madvise(first, last - first, mmap.MADV_DONTNEED) == 0

    def bring(self, start: int, size: int) -> None:
        assert start >= 0
        assert start + size <= self.size


def _reserved(size: int) -> int:
    """What a store reserves for a part: its pages, and forbidden ones behind it."""
    whole = pages(size) + PAGE
    while _exact.setdefault(whole, size) != size:
        whole += PAGE
    return whole


def _divided(region: memory.Region, owned: range) -> Any:
    """The addresses of parts, each of which ends before forbidden pages."""
    addresses = np.zeros(SHARDS, dtype=np.int64)
    each = region.size // max(1, len(owned))
    size = _exact[each]
    for at, shard in enumerate(owned):
        begin = region.address + each * at
        _forbidden(begin + pages(size), each - pages(size))
        addresses[shard] = begin + pages(size) - size
    return addresses


def _with_buckets(made: Callable[..., None]) -> Callable[..., None]:
    """A worker whose buckets end before forbidden pages."""

    def init(self: Worker, *args: Any, **named: Any) -> None:
        made(self, *args, **named)
        size = (self.most_filled + self.burst) * self.stride + SLACK
        self.area = Guarded(SHARDS * _reserved(size))
        self.buckets[:] = _divided(self.area, range(SHARDS))

    return init


def _ending(make: Callable[..., Any]) -> Callable[..., Any]:
    """What makes an array, which ends before a forbidden page where the checker asked for it."""

    def made(*args: Any, **named: Any) -> Any:
        found = make(*args, **named)
        asked = str(sys._getframe(1).f_globals.get("__name__", ""))
        if not asked.startswith(OWNERS) or not found.size or found.dtype.hasobject:
            return found
        own = np.frombuffer(reserve(found.nbytes), dtype=found.dtype).reshape(found.shape)
        if make.__name__ not in OF_ZEROS:  # what is reserved is zero, and not touched for nothing
            own[...] = found
        return own

    return made


@contextmanager
def guarded() -> Generator[None]:
    """All that the checker reserves from now on is guarded."""
    with ExitStack() as patches:
        for module in (disk, memory, parts, shards, store, tasks, worker):
            if hasattr(module, "Region"):
                patches.enter_context(patch.object(module, "Region", Guarded))
        for name in ARRAYS:
            patches.enter_context(patch.object(np, name, _ending(getattr(np, name))))
        for owner, name, put in (
            (store, "_whole_pages", _reserved),
            (store, "_divided", _divided),
            (Worker, "__init__", _with_buckets(Worker.__init__)),
        ):
            patches.enter_context(patch.object(owner, name, put))
        yield
    assert not _touched, _touched
