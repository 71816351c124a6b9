"""Strongly connected components of the explored steps, and the components in which a fair run can
stay.

Components by D. J. Pearce, A space-efficient algorithm for finding strongly connected components
(2016): Tarjan's, in twelve bytes a state. Fairness by repeatedly removing states in which no fair
run stays (E. A. Emerson and C.-L. Lei, 1987). A component is removed if a weakly fair step is
always possible in it but never taken. If a strongly fair step is possible but never taken, the
states where it is possible are removed.

`region` has a number for each state: 0 for a removed state, a number from FAIR on for a component
in which a fair run can stay, any other number for a set that is still to be divided. `masks` has a
row for each kind of step, with a bit for each fairness assumption about the step.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false
# pyright: reportCallIssue=false

from __future__ import annotations

import numpy as np

from ..jit.functions import compiled
from ..jit.memory import prefetch
from .transitions import BLOCK_BITS

FAIR = 1 << 31
BEGINS, WITHIN, WANTED = 1, 2, 4  # of a state: a bad run may begin, may stay, may end here
NONE = 0xFFFFFFFF  # no state
FIRST = np.uint32(1 << 31)  # in an order: marks the first state of a component
NUMBER = np.uint32(FIRST - np.uint32(1))
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
FAR, NEAR = 32, 16  # how many states ahead offsets, and then steps, are prefetched


@compiled(inline="always")
def _first(bases, offsets, state):
    block = state >> BLOCK_BITS
    return bases[block] + offsets[state + block]


@compiled(inline="always")
def _end(bases, offsets, state):
    block = state >> BLOCK_BITS
    return bases[block] + offsets[state + block + 1]


@compiled(inline="always")
def _ask_for_steps(bases, offsets, steps, order, far, near):
    """Prefetches the offset of the state at place `far` of an order, and the steps of the one at
    place `near`: neighbours in an order aren't adjacent in memory.
    """
    if 0 <= far < len(order):
        state = np.int64(order[far] & NUMBER)
        prefetch(offsets.ctypes.data + 4 * (state + (state >> BLOCK_BITS)))
    if 0 <= near < len(order):
        state = np.int64(order[near] & NUMBER)
        prefetch(steps.ctypes.data + steps.itemsize * _first(bases, offsets, state))


@compiled(inline="always")
def _ask_for_targets(bases, offsets, targets, rindex, region, state):
    """Prefetches the entries of a state's successors."""
    for at in range(_first(bases, offsets, state), _end(bases, offsets, state)):
        target = np.int64(targets[at])
        prefetch(rindex.ctypes.data + 4 * target)
        prefetch(region.ctypes.data + 4 * target)
        prefetch(offsets.ctypes.data + 4 * (target + (target >> BLOCK_BITS)))


@compiled
def reach(bases, offsets, targets, flags, region, stack):
    """Puts the states that are reached from BEGINS through WITHIN into region 1; returns their
    number.
    """
    found = 0
    for start in range(len(flags)):
        if not flags[start] & BEGINS or region[start]:
            continue
        region[start] = 1
        found += 1
        stack[0] = start
        top = 1
        while top:
            top -= 1
            state = np.int64(stack[top])
            for at in range(_first(bases, offsets, state), _end(bases, offsets, state)):
                target = targets[at]
                if flags[target] & WITHIN and not region[target]:
                    region[target] = 1
                    found += 1
                    stack[top] = target
                    top += 1
    return found


@compiled(inline="always")
def _idles(bases, offsets, kinds, masks, state):
    """Whether no fair step is possible in a state."""
    fair = np.uint64(0)
    for at in range(_first(bases, offsets, state), _end(bases, offsets, state)):
        for word in range(masks.shape[1]):
            fair |= masks[kinds[at], word]
    return fair == np.uint64(0)


@compiled
def idle(bases, offsets, kinds, flags, region, masks):
    """Marks as WANTED the states of regions in which no fair step is possible: a run may end there.
    Returns their number.
    """
    found = 0
    for state in range(len(flags)):
        if not region[state]:
            continue
        if _idles(bases, offsets, kinds, masks, state):
            flags[state] |= WANTED
            found += 1
    return found


@compiled
def _possible(bases, offsets, kinds, masks, state, found):
    """Writes the fair steps that are possible in a state to `found`."""
    found[:] = 0
    for at in range(_first(bases, offsets, state), _end(bases, offsets, state)):
        for word in range(masks.shape[1]):
            found[word] |= masks[kinds[at], word]


@compiled
def judge(
    bases, offsets, targets, kinds, masks, weak, strong, region, rindex, mine, members, room, new,
    fair,
):  # fmt: skip
    """Decides which members of a component, those with the index `mine`, remain: none; all, as the
    region `fair`; or a part, as the region `new`. `room` is scratch memory of five rows of masks.
    Returns 0 for none, 1 for a fair component, 2 for one that is still to be divided.
    """
    words = masks.shape[1]
    anywhere, everywhere, taken, here, unfair = room[0], room[1], room[2], room[3], room[4]
    anywhere[:] = 0
    everywhere[:] = ALL
    taken[:] = 0
    has_step = False
    for state in members:
        here[:] = 0
        for at in range(_first(bases, offsets, state), _end(bases, offsets, state)):
            inside = rindex[targets[at]] == mine
            has_step |= inside
            for word in range(words):
                here[word] |= masks[kinds[at], word]
                if inside:
                    taken[word] |= masks[kinds[at], word]
        for word in range(words):
            anywhere[word] |= here[word]
            everywhere[word] &= here[word]
    lost = not has_step
    divided = False
    for word in range(words):
        lost |= (weak[word] & everywhere[word] & ~taken[word]) != np.uint64(0)
        unfair[word] = strong[word] & anywhere[word] & ~taken[word]
        divided |= unfair[word] != np.uint64(0)
    if lost:
        for state in members:
            region[state] = 0
        return 0
    if not divided:
        for state in members:
            region[state] = fair
        return 1
    left = 0
    for state in members:
        _possible(bases, offsets, kinds, masks, state, here)
        out = False
        for word in range(words):
            out |= (here[word] & unfair[word]) != np.uint64(0)
        region[state] = 0 if out else new
        left += 0 if out else 1
    return 2 if left else 0


@compiled(inline="always")
def _repeats(targets, first, end, state):
    """Whether a state is its own successor."""
    found = False
    for at in range(first, end):
        found |= targets[at] == state
    return found


@compiled(inline="always")
def _unnumber(rindex, starts):
    """Clears the index of the states `starts`, or of all states if that is empty."""
    if len(starts):
        for start in starts:
            rindex[start & NUMBER] = 0
    else:
        rindex[:] = 0


@compiled(inline="always")
def _enter(stack, iterators, rindex, path, state, index):
    """Appends a state to the path, and sets its index."""
    stack[path] = state
    iterators[path] = 0
    rindex[state] = index


@compiled(inline="always")
def _follow(targets, first, end, region, rindex, state, iterator):
    """Follows a state's steps within its region from its iterator on, up to the first successor
    without an index. Returns that successor, or the state itself if there is none, and the new
    iterator.
    """
    at, below = first + (iterator >> 1), iterator & 1
    following = state
    while at < end:
        target = np.int64(targets[at])
        if region[target] == region[state]:
            if rindex[target] == 0:
                following = target
                break
            if rindex[target] < rindex[state]:
                rindex[state] = rindex[target]
                below = 1
        at += 1
    return following, (at - first) << 1 | below


@compiled(inline="always")
def _close(rindex, stack, back, root, mine):
    """Gives the members of a component the index `mine`: its root, and its members on the stack
    from `back` on. Puts the root before them. Returns the place of the next component on the stack.
    """
    low = back
    while back < len(rindex) and rindex[root] <= rindex[stack[back]]:
        rindex[stack[back]] = mine
        back += 1
    rindex[root] = mine
    stack[low - 1] = root
    return back


@compiled(inline="always")
def _put(order, ordered, members):
    """Appends a component to the ordered states."""
    for at in range(len(members)):  # assignment to a slice takes seconds to compile
        order[ordered + at] = members[at]
    order[ordered] |= FIRST


@compiled
def components(
    bases, offsets, targets, kinds, masks, weak, strong, region, rindex, stack, iterators, starts,
    room, new, order,
):  # fmt: skip
    """Divides the regions of the states `starts` (if empty: of all states) into components and
    judges them. New regions are numbered from `new` on.

    With an `order` it writes the states by their components there instead, the first state of each
    with FIRST; no step leads to a later component. `rindex`, `stack` and `iterators` have a place
    for each state. An iterator is the number of followed steps, and its last bit is 1 if the state
    isn't the root of its component. Returns the number of fair components, of those still to be
    divided, and the next new region.
    """
    states, several = len(region), len(starts)
    _unnumber(rindex, starts)
    ordered, fair, open_ = 0, 0, 0
    mine = np.int64(NONE)
    back = states  # bottom of the stack: the path; top: states that wait for their root
    for turn in range(several if several else states):
        start = np.int64(starts[turn] & NUMBER) if several else turn
        if region[start] == 0 or region[start] >= FAIR or rindex[start]:
            continue
        _enter(stack, iterators, rindex, 0, start, 1)
        path, index = 1, 2
        while path:
            state = np.int64(stack[path - 1])
            first, end = _first(bases, offsets, state), _end(bases, offsets, state)
            iterator = np.int64(iterators[path - 1])
            following, iterator = _follow(targets, first, end, region, rindex, state, iterator)
            iterators[path - 1] = iterator
            if following != state:
                _enter(stack, iterators, rindex, path, following, index)
                path, index = path + 1, index + 1
                _ask_for_targets(bases, offsets, targets, rindex, region, following)
                continue
            path -= 1
            if iterator & 1:
                back -= 1
                stack[back] = state
                continue
            low, back = back - 1, _close(rindex, stack, back, state, mine)
            members = stack[low:back]
            index -= len(members)
            if len(order):
                _put(order, ordered, members)
                ordered += len(members)
            elif len(members) == 1 and not _repeats(targets, first, end, state):
                region[state] = 0  # no run stays in it; most components are like this
            else:
                outcome = judge(
                    bases, offsets, targets, kinds, masks, weak, strong, region, rindex, mine,
                    members, room, new, FAIR + new,
                )  # fmt: skip
                fair += outcome == 1
                open_ += outcome == 2
                new += 1
            mine -= 1
    return fair, open_, new


@compiled(inline="always")
def _members_end(order, first):
    """The end of the component that begins at `first`."""
    end = first + 1
    while end < len(order) and not order[end] & FIRST:
        end += 1
    return end


@compiled
def come(bases, offsets, targets, order, flags):
    """Marks as WITHIN every state that reaches a state WITHIN."""
    first = 0
    while first < len(order):
        end = _members_end(order, first)
        found = False
        for place in range(first, end):
            _ask_for_steps(bases, offsets, targets, order, place + FAR, place + NEAR)
            state = np.int64(order[place] & NUMBER)
            found |= (flags[state] & WITHIN) != 0
            for at in range(_first(bases, offsets, state), _end(bases, offsets, state)):
                found |= (flags[targets[at]] & WITHIN) != 0
        if found:
            for place in range(first, end):
                flags[order[place] & NUMBER] |= WITHIN
        first = end


@compiled
def reach_all(bases, offsets, targets, order, rindex, within, reached):
    """Adds to `reached`, the states where runs begin, all states that they reach through states
    `within`, for several aims at once: each has a bit. `rindex` must still distinguish components.
    """
    end = len(order)
    while end:
        first = end - 1
        while first and not order[first] & FIRST:
            first -= 1
        _ask_for_steps(bases, offsets, targets, order, first - FAR, first - NEAR)
        again = True
        while again:
            again = False
            for place in range(first, end):
                state = np.int64(order[place] & NUMBER)
                here = reached[state]
                if not here:
                    continue
                for at in range(_first(bases, offsets, state), _end(bases, offsets, state)):
                    target = targets[at]
                    new = here & within[target] & ~reached[target]
                    if new:
                        reached[target] |= new
                        again |= rindex[target] == rindex[state]
        end = first


@compiled
def broken_aims(
    bases, offsets, targets, kinds, masks, weak, strong, region, rindex, stack, iterators, order,
    reached, room,
):  # fmt: skip
    """Returns the bits of the aims that a fair run breaks: it ends, or stays for ever, in states
    where the aim's bit is set in `reached`. Changes `region` and `rindex`.
    """
    broken, one = np.uint64(0), np.uint64(1)
    none = order[:0]
    region[:] = 0
    rindex[:] = 0
    first = 0
    while first < len(order):
        end = _members_end(order, first)
        owed = np.uint64(0)
        for place in range(first, end):
            _ask_for_steps(bases, offsets, kinds, order, place + FAR, place + NEAR)
            state = np.int64(order[place] & NUMBER)
            if not reached[state]:
                continue
            aims = np.uint64(reached[state])
            owed |= aims
            if _idles(bases, offsets, kinds, masks, state):
                broken |= aims
        state = np.int64(order[first] & NUMBER)
        begin, stop = _first(bases, offsets, state), _end(bases, offsets, state)
        owed &= ~broken
        if owed and (end - first > 1 or _repeats(targets, begin, stop, state)):
            members = order[first:end]
            bit = one
            while owed:
                if owed & bit:
                    owed &= ~bit
                    for member in members:
                        region[member & NUMBER] = (
                            1 if np.uint64(reached[member & NUMBER]) & bit else 0
                        )
                    new, open_ = np.int64(2), 1
                    while open_:
                        found, open_, new = components(
                            bases, offsets, targets, kinds, masks, weak, strong, region, rindex,
                            stack, iterators, members, room, new, none,
                        )  # fmt: skip
                        if found:
                            broken |= bit
                    for member in members:
                        region[member & NUMBER] = 0
                        rindex[member & NUMBER] = 0
                bit <<= one
        first = end
    return broken


@compiled
def stem(bases, offsets, targets, flags, initials, parents, queue):
    """Finds a shortest path from an initial state to a state BEGINS, then through states WITHIN to
    a state WANTED. Returns the place of the last state in `parents`, or -1 if there is no path.

    `parents` leads back along the path. It has two places for each state: one in the first half for
    the path before BEGINS, and one in the second half for the path after it.
    """
    states = len(flags)
    parents[:] = NONE
    head, tail = 0, 0
    for state in initials:
        place = np.int64(state)
        if flags[state] & BEGINS:
            place += states
        if parents[place] == NONE:
            parents[place] = place
            queue[tail] = place
            tail += 1
    while head < tail:
        place = np.int64(queue[head])
        head += 1
        state = place if place < states else place - states
        if place >= states and flags[state] & WANTED:
            return place
        for at in range(_first(bases, offsets, state), _end(bases, offsets, state)):
            target = np.int64(targets[at])
            # after its goal a run may begin again
            owes = flags[target] & (WITHIN if place >= states else BEGINS)
            following = target + states if owes else target
            if parents[following] == NONE:
                parents[following] = place
                queue[tail] = following
                tail += 1
    return -1


@compiled
def nearest(
    bases, offsets, targets, kinds, masks, region, start, goal, word, bit, rests, parents, queue
):
    """Finds the state `goal` in the component of `start`, by a shortest path. Without a goal (-1)
    it finds the nearest state from which a step with this bit stays inside or, if it `rests`, in
    which no such step is possible.

    Returns the state and the step (-1: no step); `parents` leads back along the path.
    """
    parents[:] = NONE
    parents[start] = start
    queue[0] = start
    head, tail = 0, 1
    while head < tail:
        state = np.int64(queue[head])
        head += 1
        if state == goal:
            return state, -1
        possible = False
        inside = -1
        for at in range(_first(bases, offsets, state), _end(bases, offsets, state)):
            stays = region[targets[at]] == region[start]
            if goal < 0 and masks[kinds[at], word] & np.uint64(bit):
                possible = True
                if stays and inside < 0:
                    inside = at
            if stays and parents[targets[at]] == NONE:
                parents[targets[at]] = state
                queue[tail] = targets[at]
                tail += 1
        if goal < 0 and (inside >= 0 or (rests != 0 and not possible)):
            return state, inside
    return -1, -1
