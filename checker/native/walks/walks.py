"""Random walks through the states of a compiled system.

A walk is a function of a seed, its number and the weights of rows, and doesn't depend on the
thread. Each of its states is expanded: all invariants, all steps from the state and deadlocks are
checked, not only the step that the walk takes.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false
# pyright: reportCallIssue=false

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import uint64

from ..cache.kernel import Kernel
from ..codegen.property_groups import HELD, KNOWN, NOTES, WATCHED
from ..codegen.sharing import RANGE
from ..codegen.simd import LANES
from ..jit.functions import compiled
from ..jit.memory import Region, call_expand, load64, prefetch, store64
from ..search.worker import ALL
from ..store.packed_records import copy_exactly, hash_state, same_state
from ..store.store import SLACK

GAMMA = uint64(0x9E3779B97F4A7C15)
UNIFORM, RARE, SCHEDULED, PRIORITY, NEW = range(5)
"""How a walk chooses a step: each successor with the same probability; rarely taken pairs of rows
more often; faults at drawn steps only; the same, with tables in a drawn order of priority; or new
states first."""
MOST_FAULTS = 8  # faults in the schedule of a walk
CHANGES = 3  # steps at which a walk draws a new order of priority
SEEN_BITS = 28  # bits of a hash that select a bit in the table of seen states
LATE_BITS = 15  # bits of a hash that select a place in the table of recent states
BEAM = 64  # most states from which rows are followed at once
STEPS, LENGTH, FRESH, BEGUN, PICKED = range(5)
"""What is kept of a walk: its steps, those of its path, how many of its states were new, the prefix
that it began with (-1 - n: the initial state n), and from PICKED on the steps of its path whose
states were picked to begin other walks (0: none)."""
PICKS = 8
KEPT = PICKED + PICKS


@compiled(inline="always")
def splitmix(state):
    """The output of the generator SplitMix64 for a state (Steele, Lea and Flood)."""
    mixed = (state ^ (state >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> uint64(27))) * uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> uint64(31))


@compiled(inline="always")
def below(drawn, limit):
    """A number below `limit`, which has fewer than 32 bits, from 64 random bits."""
    return np.int64(((drawn >> uint64(32)) * uint64(limit)) >> uint64(32))


@compiled(inline="always")
def points(schedule, first, several, span, step):
    """The number of `several` drawn points, from number `first` on, that are at this step."""
    found = 0
    for each in range(several):
        found += below(splitmix(schedule + uint64(first + each)), span) == step
    return found


@compiled(inline="always")
def word_of(h):
    """The offset of a hash's word in the table of seen states."""
    return np.int64(h >> uint64(64 - SEEN_BITS + 6)) << 3


@compiled(inline="always")
def bit_of(h):
    """The bit of a hash in its word."""
    return uint64(1) << ((h >> uint64(64 - SEEN_BITS)) & uint64(63))


@compiled
def mark(seen, hashes):
    """Adds hashes to the table of seen states. Returns the number of bits that weren't set."""
    new = 0
    for each in range(hashes.size):
        word, bit = seen + word_of(hashes[each]), bit_of(hashes[each])
        old = load64(word)
        if not old & bit:
            new += 1
            store64(word, old | bit)
    return new


@compiled(inline="always")
def weight(way, row, weights, before, faults, due, tables, order, highest):
    """The weight of a row in the choice of a step. The weights after the previous row begin at
    `before`.
    """
    if way == RARE:
        return np.int64(weights[before + row])
    if (faults[row] != 0) != (due > 0):
        return np.int64(0)
    return np.int64(way == SCHEDULED or splitmix(order + uint64(tables[row])) == highest)


@compiled(inline="always")
def guided(way, drawn, new, rows, weights, before, faults, due, tables, order, place):
    """The place of the successor that a guided walk takes, of `new` successors; `place` if no
    weight is positive.
    """
    here, highest = way, uint64(0)
    if way == PRIORITY:
        if drawn & uint64(3) == uint64(0):  # otherwise a walk may take one table for ever
            here = SCHEDULED
        for each in range(new):
            row = rows[each]
            if (faults[row] != 0) == (due > 0):
                highest = max(highest, splitmix(order + uint64(tables[row])))
    total = 0
    for each in range(new):
        total += weight(here, rows[each], weights, before, faults, due, tables, order, highest)
    if total:  # 0 if all successors are faults and none is due, or one is due and there is none
        left = below(drawn, total)
        for each in range(new):
            left -= weight(here, rows[each], weights, before, faults, due, tables, order, highest)
            if left < 0:
                return each
    return place


@compiled(inline="always")
def is_known(h, seen, lately):
    """Whether the state with this hash is in the table of seen states or of recent states."""
    return (
        load64(seen + word_of(h)) & bit_of(h) != uint64(0)
        or lately[np.int64(h >> uint64(64 - LATE_BITS))] == h
    )


@compiled(inline="always")
def to_new(drawn, new, out, stride, hashes, seen, lately, rows, weights, before):
    """The place of an unknown successor, chosen by the weights of rows, or -1; and the number of
    unknown successors.
    """
    for each in range(new):
        h = hash_state(out + each * stride, stride)
        hashes[each] = h
        prefetch(seen + word_of(h))
    total, unknown = 0, 0
    for each in range(new):
        if is_known(hashes[each], seen, lately):
            hashes[each] = 0
        else:
            unknown += 1
            total += np.int64(weights[before + rows[each]])
    if total:
        left = below(drawn, total)
        for each in range(new):
            if hashes[each]:
                left -= np.int64(weights[before + rows[each]])
                if left < 0:
                    return each, unknown
    return -1, 0


@compiled(inline="always")
def still_known(known, groups, state, source):
    """The groups of properties, of those known to hold in `source`, that hold in its successor as
    well: both states have the same content in the words that the group reads.
    """
    for group in range(groups.shape[0]):
        same = True
        for word in range(8 * groups[group, 0], 8 * groups[group, 1], 8):
            same &= load64(state + word) == load64(source + word)
        if not same:
            known &= ~(np.int64(1) << group)
    return known


@compiled
def walk(
    expand, start, stride, depth, draws, way, weights, before, faults, most_faults, tables,
    span, seen, lately, path, out, rows, bad, notes, groups, trail, chosen, befores, places, marks,
    kept,
):  # fmt: skip
    """Takes a walk of up to `depth` steps from a packed state.

    It writes the packed states to `path`, the rows to `trail` and `chosen`, the offset of each
    step's weights to `befores`, and the place of each state among its siblings to `places`.
    `weights` has the weights of each row after each row, at the start of a run, and equal ones; the
    first step has those at `before`. A SCHEDULED or PRIORITY walk takes `faults` at up to
    `most_faults` drawn steps below `span`; `tables` has the number of each row's table. `groups`
    are the words that each group of properties reads (see `property_groups`). For a RARE walk it
    writes the hashes of unknown states to `marks`, 0 for others. It writes a summary of the walk to
    `kept`. Returns the violations in the last state.
    """
    schedule, order, due, planned = draws, draws, 0, 0
    if way >= SCHEDULED:
        planned = below(splitmix(schedule ^ GAMMA), most_faults + 1)
    copy_exactly(start, path, stride)
    steps, known, state = 0, np.int64(0), path
    fresh, best, flags = 0, np.int64(0), np.int64(0)
    while True:
        notes[0], notes[KNOWN], notes[HELD] = 0, known, 0
        new = call_expand(
            expand, state, 1, out, rows.ctypes.data, bad.ctypes.data, notes.ctypes.data
        )
        if notes[0]:
            flags = np.int64(bad[0] & uint64(ALL))
            break
        if new == 0 or steps == depth:
            break
        draws += GAMMA
        drawn = splitmix(draws)
        place = below(drawn, new)
        if way != UNIFORM:
            if way >= SCHEDULED:
                due += points(schedule, 0, planned, span, steps)
                if points(schedule, MOST_FAULTS, CHANGES, span, steps):
                    order = draws
            place = guided(
                way, drawn, new, rows, weights, before, faults, due, tables, order, place
            )
            due -= due > 0 and faults[rows[place]] != 0
        row, source = rows[place], out + place * stride
        chosen[steps], befores[steps], marks[steps] = row, before, 0
        places[steps], trail[steps] = place, row
        steps += 1
        if way == RARE:
            h = hash_state(source, stride)
            if not is_known(h, seen, lately):
                marks[steps - 1] = h
                lately[np.int64(h >> uint64(64 - LATE_BITS))] = h
                fresh += 1
                if weights[before + row] > best:
                    best = np.int64(weights[before + row])
                    kept[PICKED] = steps
        known = still_known(known | notes[HELD], groups, state, source)
        before = np.int64(row) * faults.size
        state += stride
        copy_exactly(source, state, stride)
    kept[STEPS], kept[LENGTH], kept[FRESH] = steps, steps, fresh
    return flags


@compiled
def seek(
    expand, start, stride, depth, budget, patience, draws, weights, before, faults, seen, lately,
    path, out, rows, bad, notes, groups, hashes, opened, trail, chosen, befores, places,
    marks, kept,
):  # fmt: skip
    """Takes a NEW walk of up to `budget` steps, by the weights of rows or by equal weights. If all
    successors are known, it takes up to `patience` steps to them, and then returns to the last
    state on its path with unknown successors. Arguments and result are those of `walk`, but `trail`
    and `places` have only the path's entries.
    """
    alike, balanced = weights.size - faults.size, draws & uint64(1) == uint64(0)
    copy_exactly(start, path, stride)
    steps, level, many, fresh, first = 0, 0, 0, 0, before
    known, flags = np.int64(0), np.int64(0)
    while True:
        state = path + level * stride
        notes[0], notes[KNOWN], notes[HELD] = 0, known, 0
        new = call_expand(
            expand, state, 1, out, rows.ctypes.data, bad.ctypes.data, notes.ctypes.data
        )
        if notes[0]:
            flags = np.int64(bad[0] & uint64(ALL))
            break
        if steps == budget:
            break
        draws += GAMMA
        drawn = splitmix(draws)
        place, unknown = -1, 0
        if level < depth and new:
            place, unknown = to_new(
                drawn, new, out, stride, hashes, seen, lately, rows, weights,
                alike if balanced else before,
            )  # fmt: skip
            if place < 0 and patience:
                place = below(drawn, new)
                patience -= 1
        if place < 0:
            if many == 0:
                break
            many -= 1
            level, known = opened[many], np.int64(0)
            before = np.int64(trail[level - 1]) * faults.size if level else first
            continue
        if unknown > 1:
            opened[many] = level
            many += 1
        row, source, h = rows[place], out + place * stride, hashes[place]
        chosen[steps], befores[steps], marks[steps] = row, before, h
        places[level], trail[level] = place, row
        steps, level = steps + 1, level + 1
        if h:
            fresh += 1
            lately[np.int64(h >> uint64(64 - LATE_BITS))] = h
        known = still_known(known | notes[HELD], groups, state, source)
        before = np.int64(row) * faults.size
        copy_exactly(source, state + stride, stride)
    kept[STEPS], kept[LENGTH], kept[FRESH] = steps, level, fresh
    for each in range(min(many, PICKS)):
        kept[PICKED + each] = opened[many * (2 * each + 1) // (2 * min(many, PICKS))]
    return flags


@compiled
def walks(
    expand, initials, count, prefixes, lengths, lasts, stride, depth, budget, seed, first, several,
    ways, weights, faults, most_faults, tables, span, seen, lately, path, out, rows, bad, notes,
    groups, hashes, opened, trail, chosen, befores, places, marks, kept, picked, lasts_picked,
):  # fmt: skip
    """Takes `several` walks, one after the other, up to the first violation. Each has the next of
    the `ways`. It begins in one of `count` initial states; three of four RARE and NEW walks begin
    at the end of a prefix, given by its packed state, number of steps and last row. Returns the
    number of walks, of all steps and of steps on paths, and the violations in the last state.
    """
    total, kept_places = 0, 0
    lately[:] = 0
    for done in range(several):
        number = first + done
        way = ways[number % ways.size]
        draws = splitmix(uint64(seed) + GAMMA * splitmix(uint64(number) + GAMMA))
        first_state = below(splitmix(draws + GAMMA), count)
        at, begun = initials + first_state * stride, -1 - first_state
        length, before = np.int64(0), weights.size - 2 * faults.size
        if lengths.size and (way in (RARE, NEW)):
            drawn = splitmix(draws ^ GAMMA)
            if drawn & uint64(3):
                begun = number % lengths.size
                at = prefixes + begun * stride
                length, before = lengths[begun], lasts[begun] * faults.size
        for each in range(KEPT):
            kept[done, each] = 0
        kept[done, BEGUN] = begun
        draws += GAMMA
        if way == NEW:
            flags = seek(
                expand, at, stride, depth - length, budget, budget if begun < 0 else 0, draws,
                weights, before, faults, seen, lately, path, out, rows, bad, notes, groups, hashes,
                opened, trail, chosen[total:], befores[total:], places[kept_places:],
                marks[total:], kept[done],
            )  # fmt: skip
        else:
            flags = walk(
                expand, at, stride, depth - length, draws, way, weights, before, faults,
                most_faults, tables, span, seen, lately, path, out, rows, bad, notes, groups,
                trail, chosen[total:], befores[total:], places[kept_places:], marks[total:],
                kept[done],
            )  # fmt: skip
        for each in range(PICKS):
            step = kept[done, PICKED + each]
            if step:
                copy_exactly(path + step * stride, picked + (done * PICKS + each) * stride, stride)
                lasts_picked[done * PICKS + each] = trail[step - 1]
        total += kept[done, STEPS]
        kept_places += kept[done, LENGTH]
        if flags:
            return done + 1, total, kept_places, flags
    return several, total, kept_places, np.int64(0)


@compiled
def retrace(expand, path, stride, places, out, rows, bad, notes, chosen):
    """Follows a run from the state at `path` through the successors at these places. Writes their
    packed states after it, and their rows to `chosen`.
    """
    for step in range(places.size):
        notes[0], notes[KNOWN] = 0, 0
        call_expand(
            expand,
            path + step * stride,
            1,
            out,
            rows.ctypes.data,
            bad.ctypes.data,
            notes.ctypes.data,
        )
        chosen[step] = rows[places[step]]
        copy_exactly(out + np.int64(places[step]) * stride, path + (step + 1) * stride, stride)


@compiled
def follow(
    expand, initials, count, stride, wanted, flags, beam, parents, sizes, out, rows, bad, notes
):
    """Takes the `wanted` rows, one after the other, from all initial states, and keeps up to BEAM
    states after each. Writes the states to `beam`, and the place of each one's predecessor to
    `parents`.

    Returns the number of rows after which a state has one of the violations (-1: none), its place,
    and its violations.
    """
    sizes[0] = min(count, BEAM)
    for each in range(sizes[0]):
        copy_exactly(initials + each * stride, beam + each * stride, stride)
    for level in range(wanted.size + 1):
        here = beam + level * BEAM * stride
        following = here + BEAM * stride
        filled = 0
        for at in range(sizes[level]):
            notes[0], notes[KNOWN] = 0, 0
            new = call_expand(
                expand,
                here + at * stride,
                1,
                out,
                rows.ctypes.data,
                bad.ctypes.data,
                notes.ctypes.data,
            )
            if notes[0] and np.int64(bad[0]) & flags:
                return level, at, np.int64(bad[0] & uint64(ALL))
            if level == wanted.size:
                continue
            for each in range(new):
                if rows[each] != wanted[level] or filled == BEAM:
                    continue
                is_new = True
                for other in range(filled):
                    if same_state(following + other * stride, out + each * stride, stride):
                        is_new = False
                        break
                if is_new:
                    copy_exactly(out + each * stride, following + filled * stride, stride)
                    parents[(level + 1) * BEAM + filled] = at
                    filled += 1
        if filled == 0:
            break
        sizes[level + 1] = filled
    return np.int64(-1), np.int64(0), np.int64(0)


@dataclass(frozen=True)
class Guidance:
    """The guidance of the walks of a round.

    `ways` take turns. `weights` has the weights of rows in a RARE or NEW walk, in one list: after
    each row, at the start of a run, and equal ones. A SCHEDULED walk draws the steps of its faults
    below `span`. A NEW walk has up to `budget` steps. `seen` is the table of states of earlier
    rounds. A RARE or NEW walk may begin at the end of a prefix: `prefixes` are packed states,
    `lengths` and `lasts` the number of steps and the last row of each.
    """

    ways: Any
    weights: Any
    span: int
    budget: int
    seen: Region
    prefixes: Region
    lengths: Any
    lasts: Any


@dataclass(frozen=True)
class Taken:
    """The walks up to the first violation: their number, and the flags of the violation.

    `rows` are the rows of all steps, one walk after the other, and `befores` the offsets of their
    weights. `places` are the places on paths, `hashes` the hashes of new states. `kept` has a
    summary of each walk, `picked` the packed states to begin other walks with, and `lasts` the rows
    that lead to them.
    """

    walks: int
    flags: int
    rows: Any
    befores: Any
    places: Any
    hashes: Any
    kept: Any
    picked: Any
    lasts: Any


class Walker:
    """One thread's buffers for walks of up to `depth` steps from contiguous packed initial states.
    `faults` has 1 for each row that is a fault, and `tables` the number of each row's table; rows
    have the kernel's numbers. A walk plans up to `most_faults` faults. `most` is the number of
    walks of one call.

    Raises MemoryError if a walk's states take too much memory.
    """

    def __init__(
        self, kernel: Kernel, stride: int, initials: bytes, depth: int, faults: Any, tables: Any,
        most_faults: int = MOST_FAULTS, most: int = 1,
    ) -> None:  # fmt: skip
        self.kernel = kernel
        self.stride = stride
        self.depth = depth
        self.faults = faults
        self.tables = tables
        self.most_faults = most_faults
        self.count = len(initials) // stride
        self.initials = Region(len(initials) + SLACK)
        self.initials.array[: len(initials)] = np.frombuffer(initials, dtype=np.uint8)
        successors = max(1, kernel.most_successors)
        self.path_region = Region((depth + 1) * stride + SLACK)
        self.out = Region(successors * stride + SLACK)
        self.rows = np.zeros(successors + LANES, dtype=np.uint32)
        self.bad = np.zeros(1, dtype=np.uint64)
        self.notes = np.zeros(NOTES, dtype=np.int64)
        self.notes[WATCHED] = ALL
        self.groups = np.array(kernel.spans, dtype=np.int64).reshape(-1, 2)
        self.hashes = np.zeros(successors, dtype=np.uint64)
        self.opened = np.zeros(depth + 1, dtype=np.int64)
        self.trail = np.zeros(depth + 1, dtype=np.uint32)
        self.lately = np.zeros(1 << LATE_BITS, dtype=np.uint64)
        self.chosen = _zeros(most * max(1, depth), np.uint32)
        self.befores = _zeros(most * max(1, depth), np.uint32)
        self.lasts = np.zeros(most * PICKS, dtype=np.uint32)
        self.places = _zeros(most * max(1, depth), np.uint32)
        self.marks = _zeros(most * max(1, depth), np.uint64)
        self.kept = np.zeros((most, KEPT), dtype=np.int64)
        self.picked = Region(most * PICKS * stride + SLACK)

    def take(self, seed: int, first: int, several: int, by: Guidance) -> Taken:
        """Takes walks (see the function `walks`)."""
        done, steps, placed, flags = walks(
            self.kernel.address, self.initials.address, self.count, by.prefixes.address, by.lengths,
            by.lasts, self.stride, self.depth, by.budget, seed, first, several, by.ways, by.weights,
            self.faults, self.most_faults, self.tables, by.span, by.seen.address, self.lately,
            self.path_region.address, self.out.address, self.rows, self.bad, self.notes,
            self.groups, self.hashes, self.opened, self.trail, self.chosen, self.befores,
            self.places, self.marks, self.kept, self.picked.address, self.lasts,
        )  # fmt: skip
        hashes = self.marks[:steps]
        picked = self.picked.array[: done * PICKS * self.stride].reshape(done, PICKS, self.stride)
        return Taken(
            done,
            flags,
            self.chosen[:steps].copy(),
            self.befores[:steps].copy(),
            self.places[:placed].copy(),
            hashes[hashes != 0],
            self.kept[:done].copy(),
            picked.copy(),
            self.lasts[: done * PICKS].reshape(done, PICKS).copy(),
        )

    def traced(self, initial: int, places: Any) -> tuple[list[bytes], list[int]]:
        """The packed states and the rows of the run from initial state number `initial` through the
        successors at these places.
        """
        path = Region((len(places) + 1) * self.stride + SLACK)
        start = self.initials.array[initial * self.stride :][: self.stride]
        path.array[: self.stride] = start
        rows = np.zeros(max(1, len(places)), dtype=np.uint32)
        retrace(
            self.kernel.address, path.address, self.stride, places, self.out.address, self.rows,
            self.bad, self.notes, rows,
        )  # fmt: skip
        whole = path.array[: (len(places) + 1) * self.stride].tobytes()
        states = [whole[at : at + self.stride] for at in range(0, len(whole), self.stride)]
        return states, rows[: len(places)].tolist()

    def shrunk(
        self, states: list[bytes], rows: list[int], flags: int
    ) -> tuple[list[bytes], list[int], int]:
        """A shorter run to one of the violations: it takes some of these rows, in their order.
        Returns its packed states, its rows, and the violations of its last state.

        Rows are left out as long as a violation is found without them: first half of all, then
        smaller parts, single rows, and in a short run every pair. If the rows lead to too many
        states to find the violation again, the run is unchanged.
        """
        flags |= RANGE
        beam = Region((len(rows) + 1) * BEAM * self.stride + SLACK)
        parents = np.zeros((len(rows) + 1) * BEAM, dtype=np.int64)
        sizes = np.zeros(len(rows) + 1, dtype=np.int64)

        def followed(some: list[int]) -> tuple[int, int, int]:
            wanted = np.array(some, dtype=np.uint32)
            return follow(
                self.kernel.address, self.initials.address, self.count, self.stride, wanted, flags,
                beam.address, parents, sizes, self.out.address, self.rows, self.bad, self.notes,
            )  # fmt: skip

        def violated(some: list[int]) -> int:
            return followed(some)[0]

        if violated(rows) < 0:
            return states, rows, flags
        kept = _fewest([*rows], violated)
        level, place, found = followed(kept)
        path: list[bytes] = []
        for at in range(level, -1, -1):
            begin = (at * BEAM + place) * self.stride
            path.insert(0, beam.array[begin : begin + self.stride].tobytes())
            place = int(parents[at * BEAM + place])
        return path, kept[:level], found


MOST_PAIRS = 64  # most steps of a run in which every pair is tried


def _zeros(count: int, kind: Any) -> Any:
    """An array of zeros. Untouched pages take no memory."""
    return Region(count * np.dtype(kind).itemsize).array.view(kind)[:count]


def _fewest(rows: list[int], violated: Callable[[list[int]], int]) -> list[int]:
    """Deletes rows as long as the violation remains. `violated` returns the number of rows after
    which there is a violation, or -1.
    """
    size = max(1, len(rows) // 2)
    while rows:
        at, shorter = 0, False
        while at < len(rows):
            some = rows[:at] + rows[at + size :]
            level = violated(some)
            if level < 0:
                at += size
            else:
                rows, shorter = some[:level], True
        if size > 1:
            size = max(1, size // 2)
        elif not shorter:
            break
    pairs = ((a, b) for b in range(len(rows)) for a in range(b)) if len(rows) <= MOST_PAIRS else ()
    for a, b in pairs:
        some = rows[:a] + rows[a + 1 : b] + rows[b + 1 :]
        level = violated(some)
        if level >= 0:
            return _fewest(some[:level], violated)
    return rows
