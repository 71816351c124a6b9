"""A store on disk as another process takes it over: its form, and the contents of parts.

The file of records is kept as it is. Records are only added to it, so the first ones of each shard
are the states at the end of a level. Tables aren't kept: they are filled again.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ....checksums import DamagedError, checksum
from .part_plan import Plan
from .parts import BITS, FIRST, SIZE, USED, WORDS, Parts
from .store import MOST_PER_SHARD, SHARDS, Store

BLOCK = 1 << 12  # contents that are read or written at once
_COUNT = {"type": "integer", "minimum": 0}
_COUNTS = {"type": "array", "items": _COUNT}
FORM = {
    "type": "object",
    "required": ["since", "ends", "bits", "slots", "used", "most", "counts", "records"],
    "properties": {
        "since": _COUNT,
        "ends": _COUNTS,
        "bits": _COUNTS,
        "slots": _COUNTS,
        "used": _COUNTS,
        "most": {"type": "integer", "minimum": 1, "maximum": MOST_PER_SHARD},
        "counts": {
            "type": "array",
            "minItems": 1,
            "items": {**_COUNTS, "minItems": SHARDS, "maxItems": SHARDS},
        },
        "records": {"type": "string"},
    },
    "additionalProperties": False,
}
"""The schema of a form: the first level with states on disk; for each part its end, the bits of its
numbers, the slots of its table and the given numbers; the most states of a shard; each shard's
states at the end of each level; the checksum of these states' records.
"""


class Kept:
    """The parts of a store on disk that outlive this process, as of the end of a level."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._used = np.zeros(len(store.rows_of_parts), dtype=np.int64)
        self.restart()

    def restart(self) -> None:
        """Forgets the checksums: the records were rewritten."""
        self._sums = [hashlib.sha256() for _ in range(SHARDS)]
        self._summed = [0] * SHARDS

    def look_at(self, shard: int, count: int) -> None:
        """Adds a shard's records up to position `count` to the checksum."""
        for part in self._store.written(shard, self._summed[shard], count):
            self._sums[shard].update(part)
        self._summed[shard] = count

    @property
    def checksum(self) -> str:
        """The checksum of the records that were looked at."""
        return checksum("".join(each.hexdigest() for each in self._sums).encode())

    def contents(self) -> Iterator[bytes]:
        """The contents that are new since the last call, in blocks: the part, the number of
        contents, their numbers and they themselves. No thread may hold free numbers.
        """
        before, self._used = self._used, self._store.rows_of_parts[:, USED].copy()
        parts = self._store.parts
        for part in range(len(before)):
            assert parts is not None
            every = parts.numbers(part, int(before[part]))
            for at in range(0, len(every), BLOCK):
                numbers = every[at : at + BLOCK]
                yield np.array([part, len(numbers)], dtype="<i8").tobytes()
                yield numbers.astype("<i8").tobytes()
                yield parts.contents(part, numbers).tobytes()

    def form(self, levels: Sequence[Sequence[int]], since: int) -> dict[str, Any]:
        """The form, after the last of these levels. It waits until the records are on the disk.
        Raises OSError.
        """
        store = self._store
        assert store.disk is not None
        store.disk.sync()
        for shard, count in enumerate(levels[-1]):
            self.look_at(shard, count)
        rows = store.rows_of_parts
        return {
            "since": since,
            "ends": (rows[:, FIRST] + rows[:, WORDS]).tolist(),
            "bits": rows[:, BITS].tolist(),
            "slots": rows[:, SIZE].tolist(),
            "used": self._used.tolist(),
            "most": store.most,
            "counts": [*levels],
            "records": self.checksum,
        }

    def resume(self, form: dict[str, Any]) -> None:
        """Continues after the contents of another process."""
        self._used[:] = form["used"]


def fits(form: dict[str, Any], stride: int) -> bool:
    """Whether the numbers of a form fit together."""
    ends, used, slots = form["ends"], form["used"], form["slots"]
    counts = np.array([[0] * SHARDS, *form["counts"]], dtype=object)
    words = -(-stride // 8) if ends else 0
    return (
        {len(form["bits"]), len(slots), len(used)} == {len(ends)}
        and ends == sorted({*ends} - {0})
        and (ends[-1] if ends else 0) == words
        and all(8 <= bits <= 32 for bits in form["bits"])
        and sum(form["bits"]) <= 8 * 16
        and all(size == 1 << size.bit_length() - 1 for size in slots if size)
        and all(number < size for number, size in zip(used, slots, strict=True))
        and bool((counts[1:] >= counts[:-1]).all())
        and max(form["counts"][-1]) <= form["most"]
    )


def parts_of(
    form: dict[str, Any],
    blocks: Iterable[bytes],
    parts: Callable[[Plan], Parts],
    valid: Callable[[int, int, Any], bool],
) -> Parts | None:
    """The parts of a form, with the contents in `blocks`; None for whole states. `valid` gets some
    contents as rows of bytes, and the words where they begin and end.

    Raises DamagedError for something else than contents, MemoryError if there is no room.
    """
    ends = form["ends"]
    if not ends:
        return None
    made = parts(Plan(tuple(ends), tuple(form["used"])))
    made.restore(*(np.array(form[name], dtype=np.int64) for name in ("slots", "used", "bits")))
    for read in blocks:
        at = 0
        while at < len(read):
            part, count = np.frombuffer(read, "<i8", 2, at).tolist()
            numbers = np.array(np.frombuffer(read, "<i8", count, at + 16))
            first, words = made.rows[part, [FIRST, WORDS]].tolist()
            at += 16 + 8 * count
            contents = np.frombuffer(read, np.uint8, 8 * words * count, at)
            rows = contents.reshape(-1, 8 * words)
            at += contents.size
            given = (numbers >= 0) & (numbers < form["used"][part])
            if not given.all() or not valid(first, first + words, rows):
                raise DamagedError("it holds a value that is out of its range")
            made.put(part, numbers, rows)
    return made
