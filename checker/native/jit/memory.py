"""Raw memory: loads, stores and copies at addresses for compiled functions, and regions.

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

import numpy as np
import psutil

from .functions import Instruction

# otherwise a process with large regions may fail to fork; Python has the name since 3.13
_NO_RESERVE = 0x4000 if sys.platform == "linux" else 0
_READ_AHEAD = 1 << 17  # bytes that Linux reads for one request; it ignores the rest


(
    load64, load32, load32_acquire, equal_bytes, store64, store32, store8, compare_exchange32,
    fetch_add, prefetch, trailing_zeros, call_expand, scratch,
) = map(
    Instruction,
    (
        "load64", "load32", "load32_acquire", "equal_bytes", "store64", "store32", "store8",
        "compare_exchange32", "fetch_add", "prefetch", "trailing_zeros", "call_expand", "scratch",
    ),
)  # fmt: skip


def available() -> int:
    """The bytes that this process may still take: the machine's free memory, or a seventh of the
    remaining address space under a limit (`ulimit -v`). Regions reserve more than they use: twice
    the states, up to three times their tables, half of the buckets.
    """
    free = psutil.virtual_memory().available
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return free
    return min(free, max(1, (limit - psutil.Process().memory_info().vms) // 7))


def fair_limit(processes: int = 1) -> int:
    """The default memory limit of each of `processes` processes, in bytes: its present memory, and
    its share of three quarters of the available memory.
    """
    return psutil.Process().memory_info().rss + available() * 3 // (4 * processes)


def _refused(size: int, error: Exception) -> str:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    limited = f"; ulimit -v is {limit >> 10}: raise it" if limit != resource.RLIM_INFINITY else ""
    return f"can't reserve {size / 2**30:.3g} GiB: {error}{limited}, or give --memory less"


class Region:
    """Zeroed memory of a given size. Only touched pages take real memory.

    With a `file` (a descriptor, open for writing) it is that file's content. Only touched pages
    take disk, and other processes see the content. Raises MemoryError if the system can't reserve
    it.
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
                # otherwise a touch may read megabytes around it
                self._map.madvise(mmap.MADV_RANDOM)
        except (OSError, ValueError) as error:
            raise MemoryError(_refused(self.size, error)) from None
        self.array = np.frombuffer(self._map, dtype=np.uint8)
        self.address = int(self.array.ctypes.data)

    def forget(self, start: int, size: int) -> None:
        """Releases the memory of whole pages. The content of a file stays on disk; other content
        becomes zero.
        """
        if sys.platform == "linux":
            self._map.madvise(mmap.MADV_DONTNEED, start, size)

    def bring(self, start: int, size: int) -> None:
        """Reads `size` bytes of the file into memory at once. A disk takes far longer for page by
        page, on touches.
        """
        if sys.platform == "linux":
            end = start + size
            for first in range(start // mmap.PAGESIZE * mmap.PAGESIZE, end, _READ_AHEAD):
                self._map.madvise(mmap.MADV_WILLNEED, first, min(_READ_AHEAD, end - first))
