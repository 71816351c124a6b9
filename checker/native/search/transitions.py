"""The steps between the found states, in compact form.

A state has a number: the number of states before it, shard by shard. Its steps are contiguous: four
bytes for the next state of each, and the kind of its label, in a byte if possible. Each state has
an offset of its first step in four bytes, relative to its block of states.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false
# pyright: reportCallIssue=false

from __future__ import annotations

from itertools import count, takewhile
from threading import Lock
from typing import Any

import numpy as np
from numpy import uint64

from ..jit.functions import compiled
from ..jit.memory import call_expand, equal_bytes, prefetch, trailing_zeros
from ..store.packed_records import hash_state, owner_of_whole, same_state
from ..store.parts import begin_fold, end_fold, owner_of, write_record
from ..store.store import (
    GROUP,
    STRIDE,
    WIDTH,
    group_of,
    packed_states,
    position_in,
    tag_of,
)
from .explore import Explorer
from .worker import SLICE, Worker

BLOCK_BITS = 12
IN_BLOCK = 1 << BLOCK_BITS  # states of a block
MOST_STATES = 1 << 31


@compiled
def locate(record, h, width, states, table, groups):
    """The position of a record in its shard, or -1."""
    tag = tag_of(h)
    group = group_of(h, table, groups)
    while True:
        likely = equal_bytes(group, tag)
        while likely:
            position = position_in(group, trailing_zeros(likely))
            if same_state(record, states + position * width, width):
                return position
            likely &= likely - uint64(1)
        if equal_bytes(group, uint64(0)):
            return -1
        group += GROUP
        if group == table + GROUP * groups:
            group = table


@compiled
def link(
    expand, first, count, shard, form, parts, own, room, known, numbers, sought, out, rows,
    bad, bad_count, starts, states, tables, groups, kind_of, targets, kinds, offsets, owners,
    hashes, written,
):  # fmt: skip
    """Appends the steps from `count` states of a shard, from position `first` on, to the `written`
    ones of their block. Returns the new number of steps, or -1 if a step leads to an unknown state.
    """
    stride, width, several = form[STRIDE], form[WIDTH], parts.shape[0]
    apart = width if several else stride  # the distance of the records that are looked up
    done = 0
    while done < count:
        part = min(SLICE, count - done)
        packed_states(states[shard], first + done, part, shard, form, parts, known, 0, room)
        total, left = 0, np.int64(0)
        for i in range(part):
            bad_count[0] = 0
            offsets[done + i] = written + total
            state, successors = room + i * stride, out + total * stride
            new = call_expand(
                expand,
                state,
                1,
                successors,
                rows.ctypes.data + 4 * total,
                bad.ctypes.data,
                bad_count.ctypes.data,
            )
            left = begin_fold(
                successors, new, stride, state, known[several * i :], parts, numbers,
                several * total, sought, left,
            )  # fmt: skip
            total += new
        if not end_fold(stride, parts, own, sought, left):
            return -1
        for j in range(total):
            record = out + j * apart
            if several:
                found = numbers.ctypes.data + 8 * several * j
                owners[j] = owner_of(found, several)
                write_record(found, parts, record)
            hashes[j] = hash_state(record, width)
            if several == 0:
                owners[j] = owner_of_whole(hashes[j], record, stride)
            prefetch(group_of(hashes[j], tables[owners[j]], groups[owners[j]]))
        for j in range(total):
            owner = owners[j]
            position = locate(
                out + j * apart, hashes[j], width, states[owner], tables[owner], groups[owner]
            )
            if position < 0:
                return -1
            targets[written + j] = starts[owner] + position
            kinds[written + j] = kind_of[rows[j]]
        written += total
        done += part
    return written


class Transitions:
    """The steps between the states of an explorer after a complete search.

    `targets` and `kinds` have a place for each step: the number of its next state, and `kind_of` of
    the kernel's label of the step. The steps of state `i` begin at `bases[i >> BLOCK_BITS] +
    offsets[i + (i >> BLOCK_BITS)]` and end at the next offset. Raises MemoryError if they exceed
    the explorer's limit.
    """

    def __init__(self, explorer: Explorer, kind_of: Any) -> None:
        self.explorer = explorer
        counts = explorer.store.counts
        self.states = int(counts.sum())
        self.count = explorer.found.transitions
        self.kind_of = kind_of
        self.starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        blocks = -(-self.states // IN_BLOCK)
        if self.states >= MOST_STATES:
            raise MemoryError(f"more than {MOST_STATES:,} states")
        size = self.count * (4 + kind_of.itemsize) + 4 * (self.states + blocks) + 8 * blocks
        if not explorer.may_take(size):
            raise MemoryError(f"{size:,} bytes for the steps between states")
        self.targets = np.zeros(self.count, dtype=np.uint32)
        self.kinds = np.zeros(self.count, dtype=kind_of.dtype)
        self.offsets = np.zeros(self.states + blocks, dtype=np.uint32)
        self.bases = np.zeros(blocks, dtype=np.int64)
        self._lock, self._used = Lock(), 0
        explorer.improve(one_by_one=True)
        turns = count()
        explorer.each(self._fill, [(each, turns) for each in explorer.workers])
        if self._used != self.count:
            raise RuntimeError("a search's states have other steps than it counted")

    @property
    def bytes(self) -> int:
        """The bytes of the steps."""
        parts = (self.targets, self.kinds, self.offsets, self.bases)
        return sum(part.nbytes for part in parts)

    @property
    def arrays(self) -> tuple[Any, Any, Any, Any]:
        """The bases and offsets of states' steps, their next states and their kinds."""
        return self.bases, self.offsets, self.targets, self.kinds

    def _fill(self, worker: Worker, turns: count[int]) -> None:
        """Writes the steps of one block after the other."""
        most = IN_BLOCK * max(1, worker.kernel.most_successors)
        targets = np.empty(most, dtype=np.uint32)
        kinds = np.empty(most, dtype=self.kinds.dtype)
        for block in takewhile(len(self.bases).__gt__, turns):
            first, end = block * IN_BLOCK, min((block + 1) * IN_BLOCK, self.states)
            written, at = 0, first
            while at < end:
                part = min(end, int(self.starts[self._shard(at) + 1])) - at
                offsets = self.offsets[at + block :]
                written = self._link(
                    worker, at, part, self.kind_of, targets, kinds, offsets, written
                )
                at += part
            self.offsets[end + block] = written
            with self._lock:
                here = self._used
                self._used += written
            if here + written <= self.count:
                self.bases[block] = here
                self.targets[here : here + written] = targets[:written]
                self.kinds[here : here + written] = kinds[:written]

    def _link(
        self, worker: Worker, state: int, part: int, kind_of: Any, targets: Any, kinds: Any,
        offsets: Any, written: int,
    ) -> int:  # fmt: skip
        """Appends the steps of `part` states of a shard to the `written` ones; returns their new
        number.
        """
        store = self.explorer.store
        shard = self._shard(state)
        written = link(
            worker.kernel.address, state - int(self.starts[shard]), part, shard, store.form,
            store.rows_of_parts, worker.own, worker.room.address, worker.known, worker.numbers,
            worker.sought, worker.out.address, worker.rows, worker.bad, worker.bad_count,
            self.starts, store.states, store.tables, store.groups, kind_of, targets, kinds,
            offsets, np.empty(worker.burst, dtype=np.int64),
            np.empty(worker.burst, dtype=np.uint64), written,
        )  # fmt: skip
        if written < 0:
            raise RuntimeError("a step of a search leads to a state that it hasn't found")
        return written

    def _shard(self, state: int) -> int:
        return int(np.searchsorted(self.starts, state, side="right")) - 1

    def labels(self, state: int) -> Any:
        """The labels of a state's steps, in their order."""
        worker = self.explorer.workers[0]
        every = np.arange(len(self.kind_of), dtype=np.uint32)
        most = max(1, worker.kernel.most_successors)
        targets, labels = np.empty(most, dtype=np.uint32), np.empty(most, dtype=np.uint32)
        offsets = np.empty(1, dtype=np.uint32)
        return labels[: self._link(worker, state, 1, every, targets, labels, offsets, 0)]

    def packed(self, number: int) -> bytes:
        """The packed state with this number."""
        shard = self._shard(number)
        position = number - int(self.starts[shard])
        return self.explorer.store.bytes_of(shard, position, position + 1)

    def initials(self) -> Any:
        """The numbers of the initial states."""
        ends = self.explorer.levels[0]
        parts = [
            np.arange(start, start + n) for start, n in zip(self.starts[:-1], ends, strict=True)
        ]
        return np.concatenate(parts).astype(np.uint32)
