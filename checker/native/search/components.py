"""Strongly connected components of the explored steps, and which of them a fair run can stay in.

Components by D. J. Pearce, A space-efficient algorithm for finding strongly connected components
(2016): Tarjan's, in twelve bytes a state. Fairness by repeatedly removing states in which no fair
run stays (E. A. Emerson and C.-L. Lei, 1987): a component in which a weakly fair step is always
possible and none is taken; and of one in which a strongly fair step is possible and none is taken,
the states where it is possible.

`region` has a number for each state: 0 for one that belongs to nothing any more, a number from FAIR
on for a component that a fair run can stay in, any other for a set that is still to be divided.
`masks` has a line for each kind of step: a bit for each fairness that the step counts for.
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
BEGINS, WITHIN, WANTED = 1, 2, 4  # of a state: a run may begin to be bad, may stay so, has proof
NONE = 0xFFFFFFFF  # the number of no state
FIRST = np.uint32(1 << 31)  # in an order, of the first state of a component
NUMBER = np.uint32(FIRST - np.uint32(1))
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
FAR, NEAR = 32, 16  # states ahead whose offset, and then steps, are prefetched from memory


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
    """Asks for the offset of the state at one place of an order, and for the steps of that at
    another: neighbours in an order are none in memory."""
    if 0 <= far < len(order):
        state = np.int64(order[far] & NUMBER)
        prefetch(offsets.ctypes.data + 4 * (state + (state >> BLOCK_BITS)))
    if 0 <= near < len(order):
        state = np.int64(order[near] & NUMBER)
        prefetch(steps.ctypes.data + steps.itemsize * _first(bases, offsets, state))


@compiled(inline="always")
def _ask_for_targets(bases, offsets, targets, rindex, region, state):
    """Prefetches the entries of the states that a state's steps lead to."""
    for at in range(_first(bases, offsets, state), _end(bases, offsets, state)):
        target = np.int64(targets[at])
        prefetch(rindex.ctypes.data + 4 * target)
        prefetch(region.ctypes.data + 4 * target)
        prefetch(offsets.ctypes.data + 4 * (target + (target >> BLOCK_BITS)))


@compiled
def reach(bases, offsets, targets, flags, region, stack):
    """Puts the states reached from BEGINS through WITHIN into region 1; returns how many that
    are."""
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
    """Marks as WANTED the states of a region in which no fair step is possible: a run may end
    there. Returns how many there are."""
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
    """Puts into `found` which fair steps are possible in a state."""
    found[:] = 0
    for at in range(_first(bases, offsets, state), _end(bases, offsets, state)):
        for word in range(masks.shape[1]):
            found[word] |= masks[kinds[at], word]


@compiled
def judge(
    bases, offsets, targets, kinds, masks, weak, strong, region, rindex, mine, members, room, new,
    fair,
):  # fmt: skip
    """Decides the rest of a component, whose members have the index `mine`: nothing; all of it, as
    the region `fair`; or a part, as the region `new`. `room` has five rows of masks. Returns 0 for
    nothing, 1 for a fair component, 2 for one that is still to be divided."""
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
    """Whether one of a state's steps leads back to it."""
    found = False
    for at in range(first, end):
        found |= targets[at] == state
    return found


@compiled(inline="always")
def _unnumber(rindex, starts):
    """Takes away the index of some states, of all without `starts`."""
    if len(starts):
        for start in starts:
            rindex[start & NUMBER] = 0
    else:
        rindex[:] = 0


@compiled(inline="always")
def _enter(stack, iterators, rindex, path, state, index):
    """Puts a state, with its index, at the end of the path."""
    stack[path] = state
    iterators[path] = 0
    rindex[state] = index


@compiled(inline="always")
def _follow(targets, first, end, region, rindex, state, iterator):
    """Follows a state's steps within its region from where its iterator is, up to the first to a
    state without an index. Returns that one, or the state itself if there is none, and the iterator
    of then."""
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
    """Gives the members of a component the index `mine`: its root, and those that wait from `back`
    on, before whom the root is put. Returns where the others begin."""
    low = back
    while back < len(rindex) and rindex[root] <= rindex[stack[back]]:
        rindex[stack[back]] = mine
        back += 1
    rindex[root] = mine
    stack[low - 1] = root
    return back


@compiled(inline="always")
def _put(order, ordered, members):
    """Writes a component behind the states that are in order."""
    for at in range(len(members)):  # a slice, assigned, takes seconds to compile
        order[ordered + at] = members[at]
    order[ordered] |= FIRST


@compiled
def components(
    bases, offsets, targets, kinds, masks, weak, strong, region, rindex, stack, iterators, starts,
    room, new, order,
):  # fmt: skip
    """Divides the regions of some states, of all without `starts`, into their components and judges
    them, with new regions from `new` on.

    With an `order`, instead, writes there the states by their components, the first of each with
    FIRST: nothing leads to a later one. `rindex`, `stack` and `iterators` have a place for each
    state; an iterator has the number of steps that were followed, and in its last bit whether the
    state isn't its component's root. Returns how many components are fair, how many are to be
    divided, and the next new region.
    """
    states, several = len(region), len(starts)
    _unnumber(rindex, starts)
    ordered, fair, open_ = 0, 0, 0
    mine = np.int64(NONE)
    back = states  # what is on the path lies below in the stack, what waits for its root above
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
                region[state] = 0  # as most are: no run stays in it
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
    """The end of the component that begins there."""
    end = first + 1
    while end < len(order) and not order[end] & FIRST:
        end += 1
    return end


@compiled
def come(bases, offsets, targets, order, flags):
    """Marks as WITHIN every state from which one that is WITHIN is reached."""
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
    """Adds to `reached`, where runs begin, the states that are reached from there through those
    `within`, for several aims at once: each has a bit. `rindex` still tells components apart."""
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
    """Returns the bits of the aims that a fair run breaks: it ends, or stays for ever, where the
    aim's bit is `reached`. Changes `region` and `rindex`."""
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
    """A shortest way from an initial state to one that is BEGINS, then through those WITHIN to one
    that is WANTED; returns that one's place in `parents`, -1 where there is none.

    The way is followed back in `parents`, which has two places for each state: one for before it
    begins, one, further by as many as there are states, for from then on.
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
            # a run that has reached its goal may begin once more
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
    """Looks in the component of `start` for the nearest state that is `goal`; without a goal (-1),
    for one from which a step with this bit stays inside or, if it `rests`, where no such step is
    possible.

    Returns the state and the step, -1 for no step; the way is followed back in `parents`.
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
