"""Measures random reads from a large table that isn't in the processor's cache.

A breadth-first search looks up every successor in its visited set, at a random address. So the rate
of random reads alone is the reference for the rate of a search.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit, uint64

COUNT = 1 << 25
"""Reads per thread and turn."""
TURNS = 3


@njit(nogil=True, cache=True)
def read_at_random(table, count, seed):
    """The sum of `count` random elements of an array of fewer than 2**32; no read depends on
    another.
    """
    length = uint64(table.size)
    at = uint64(seed)
    total = uint64(0)
    for _ in range(count):
        at = at * uint64(6364136223846793005) + uint64(1442695040888963407)
        total += table[((at >> uint64(32)) * length) >> uint64(32)]
    return total


def probes_per_second(size: int, threads: int) -> float:
    """Random reads per second, of all threads together, from a table of `size` bytes.

    It is the best of several turns: interruptions don't count.
    """
    table = np.ones(max(1, size // 8), dtype=np.uint64)
    read_at_random(table, 1, 0)
    best = float("inf")
    with ThreadPoolExecutor(threads) as pool:
        for turn in range(TURNS):
            seeds = range(turn * threads, (turn + 1) * threads)
            begun = time.perf_counter()
            list(pool.map(lambda seed: read_at_random(table, COUNT, seed), seeds))
            best = min(best, time.perf_counter() - begun)
    return threads * COUNT / best
