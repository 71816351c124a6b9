"""Random walks through the states of a compiled system.

A walk is a function of a seed, its number and the weights of rows: any thread may take it. Each
state on it is expanded, so all invariants, all steps that lead from it and deadlocks are checked,
not only the step that the walk takes.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false
# pyright: reportCallIssue=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy import uint64

from ..cache.kernel import Kernel
from ..codegen.property_groups import HELD, KNOWN, NOTES, WATCHED
from ..codegen.sharing import RANGE
from ..codegen.simd import LANES
from ..jit.functions import Passed, compiled
from ..jit.memory import Region, call_expand, load64
from ..search.worker import ALL
from ..store.packed_records import copy_exactly, same_state
from ..store.store import SLACK

GAMMA = uint64(0x9E3779B97F4A7C15)
UNIFORM, RARE, SCHEDULED, PRIORITY = range(4)
"""How a walk chooses a step: each successor alike; rarely taken rows more often; faults at drawn
steps only; or, besides, tables in a drawn order of priority."""
MOST_FAULTS = 8  # in the schedule of a walk
CHANGES = 3  # steps at which a walk draws a new order of priority
BEAM = 64  # states in which rows are followed at once


@compiled(inline="always")
def splitmix(state):
    """The number that a state of the generator SplitMix64 gives (Steele, Lea and Flood)."""
    mixed = (state ^ (state >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> uint64(27))) * uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> uint64(31))


@compiled(inline="always")
def below(drawn, limit):
    """A number below the limit, which has fewer than 32 bits, from 64 random bits."""
    return np.int64(((drawn >> uint64(32)) * uint64(limit)) >> uint64(32))


@compiled(inline="always")
def points(schedule, first, several, span, step):
    """How many of `several` drawn points, numbered from `first` on, are at this step."""
    found = 0
    for each in range(several):
        found += below(splitmix(schedule + uint64(first + each)), span) == step
    return found


@compiled(inline="always")
def weight(way, row, weights, faults, due, tables, order, highest):
    """How much a row counts among those that a step is chosen from."""
    if way == RARE:
        return weights[row]
    if (faults[row] != 0) != (due > 0):
        return np.int64(0)
    return np.int64(way == SCHEDULED or splitmix(order + uint64(tables[row])) == highest)


@compiled(inline="always")
def guided(way, drawn, new, rows, weights, faults, due, tables, order, place):
    """The place of the successor that a guided walk takes, of `new` ones; `place` if none fits."""
    here, highest = way, uint64(0)
    if way == PRIORITY:
        if drawn & uint64(3) == uint64(0):  # else a table may be taken for ever
            here = SCHEDULED
        for each in range(new):
            row = rows[each]
            if (faults[row] != 0) == (due > 0):
                highest = max(highest, splitmix(order + uint64(tables[row])))
    total = 0
    for each in range(new):
        total += weight(here, rows[each], weights, faults, due, tables, order, highest)
    if total:  # else all successors are faults that aren't due, or none is one that is
        left = below(drawn, total)
        for each in range(new):
            left -= weight(here, rows[each], weights, faults, due, tables, order, highest)
            if left < 0:
                return each
    return place


@compiled
def walk(
    expand, initials, count, stride, depth, seed, number, way, weights, faults, most_faults, tables,
    span, path, out, rows, bad, notes, groups, taken, chosen,
):  # fmt: skip
    """Takes the walk of that number, of up to `depth` steps, from one of `count` initial states.

    Writes its packed states to `path` and its rows to `chosen`, and counts these in `taken`.
    `weights` are those of rows in a RARE walk. A SCHEDULED or PRIORITY walk takes `faults` at up to
    `most_faults` drawn steps below `span`; `tables` has the number of each row's table. `groups`
    are the words that each group of properties reads (see `property_groups`). Returns the number of
    steps, and the violations that were found in the last state.
    """
    draws = splitmix(uint64(seed) + GAMMA * splitmix(uint64(number) + GAMMA))
    schedule, order, due, planned = draws, draws, 0, 0
    if way >= SCHEDULED:
        planned = below(splitmix(schedule ^ GAMMA), most_faults + 1)
    draws += GAMMA
    copy_exactly(initials + below(splitmix(draws), count) * stride, path, stride)
    steps, known, state = 0, np.int64(0), path
    while True:
        notes[0], notes[KNOWN], notes[HELD] = 0, known, 0
        new = call_expand(
            expand, state, 1, out, rows.ctypes.data, bad.ctypes.data, notes.ctypes.data
        )
        if notes[0]:
            return steps, np.int64(bad[0] & uint64(ALL))
        if new == 0 or steps == depth:
            return steps, np.int64(0)
        draws += GAMMA
        drawn = splitmix(draws)
        place = below(drawn, new)
        if way != UNIFORM:
            if way >= SCHEDULED:
                due += points(schedule, 0, planned, span, steps)
                if points(schedule, MOST_FAULTS, CHANGES, span, steps):
                    order = draws
            place = guided(way, drawn, new, rows, weights, faults, due, tables, order, place)
            due -= due > 0 and faults[rows[place]] != 0
        row = rows[place]
        taken[row] += 1
        chosen[steps] = row
        steps += 1
        source, known = out + place * stride, known | notes[HELD]
        for group in range(groups.shape[0]):
            same = True
            for word in range(8 * groups[group, 0], 8 * groups[group, 1], 8):
                same &= load64(state + word) == load64(source + word)
            if not same:
                known &= ~(np.int64(1) << group)
        state += stride
        copy_exactly(source, state, stride)


@compiled
def walks(
    expand, initials, count, stride, depth, seed, first, several, ways, weights, faults,
    most_faults, tables, span, path, out, rows, bad, notes, groups, taken, chosen,
):  # fmt: skip
    """Takes `several` walks, one after the other, up to one that finds a violation. Each takes the
    next of the `ways`. Returns the number of walks, of all steps and of those of the last walk, and
    the violations in its last state."""
    total, steps = 0, 0
    for done in range(several):
        number = first + done
        steps, flags = walk(
            expand, initials, count, stride, depth, seed, number, ways[number % ways.size],
            weights, faults, most_faults, tables, span, path, out, rows, bad, notes, groups, taken,
            chosen,
        )  # fmt: skip
        total += steps
        if flags:
            return done + 1, total, steps, flags
    return several, total, steps, np.int64(0)


@compiled
def follow(
    expand, initials, count, stride, wanted, flags, beam, parents, sizes, out, rows, bad, notes
):  # fmt: skip
    """Takes the `wanted` rows, one after the other, from any of the initial states, to up to BEAM
    states by each. Writes these to `beam`, and for each the place of the one before to `parents`.

    Returns after how many rows a state has one of the violations, its place, and its violations;
    -1 first where none has.
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
                expand, here + at * stride, 1, out, rows.ctypes.data, bad.ctypes.data,
                notes.ctypes.data,
            )  # fmt: skip
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


class Walker:
    """One thread's buffers for walks of up to `depth` steps from packed initial states, which lie
    one behind the other. By the kernel's numbers of rows, `faults` has 1 for each one that is a
    fault, of which a walk plans up to `most_faults`, and `tables` the number of its table.

    Raises MemoryError where a walk's states take too much.
    """

    def __init__(
        self, kernel: Kernel, stride: int, initials: bytes, depth: int, faults: Any, tables: Any,
        most_faults: int = MOST_FAULTS,
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
        most = max(1, kernel.most_successors)
        self.path_region = Region((depth + 1) * stride + SLACK)
        self.out = Region(most * stride + SLACK)
        self.rows = np.zeros(most + LANES, dtype=np.uint32)
        self.bad = np.zeros(1, dtype=np.uint64)
        self.notes = np.zeros(NOTES, dtype=np.int64)
        self.notes[WATCHED] = ALL
        self.groups = np.array(kernel.spans, dtype=np.int64).reshape(-1, 2)
        self.chosen = np.zeros(max(1, depth), dtype=np.uint32)
        self.passed = Passed(self.rows, self.bad, self.notes, self.groups)

    def take(
        self, seed: int, first: int, several: int, ways: Any, weights: Any, span: int, taken: Any
    ) -> tuple[int, int, int, int]:
        """Takes walks (see the function `walks`)."""
        return walks(
            self.kernel.address, self.initials.address, self.count, self.stride, self.depth, seed,
            first, several, ways, weights, self.faults, self.most_faults, self.tables, span,
            self.path_region.address, self.out.address, self.rows, self.bad, self.notes,
            self.groups, taken, self.chosen,
        )  # fmt: skip

    def path(self, steps: int) -> list[bytes]:
        """The packed states of the walk taken last, which had so many steps."""
        whole = self.path_region.array[: (steps + 1) * self.stride].tobytes()
        return [whole[at : at + self.stride] for at in range(0, len(whole), self.stride)]

    def shrunk(self, rows: Sequence[int], flags: int) -> tuple[list[bytes], list[int], int]:
        """A run that takes some of these rows, in their order, to a state with one of the
        violations: its packed states, its rows, and the violations of its last state.

        Rows are left out as long as a violation is found without them: half of all, then smaller
        parts, and single ones, and of a short run every two.
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

        kept = _fewest([*rows], violated)
        level, place, found = followed(kept)
        path: list[bytes] = []
        for at in range(level, -1, -1):
            begin = (at * BEAM + place) * self.stride
            path.insert(0, beam.array[begin : begin + self.stride].tobytes())
            place = int(parents[at * BEAM + place])
        return path, kept[:level], found


MOST_PAIRS = 64  # steps up to which every two of them are left out together


def _fewest(rows: list[int], violated: Callable[[list[int]], int]) -> list[int]:
    """As few of the rows as deleting finds. `violated` says after how many of some rows there is a
    violation, -1 for none."""
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
