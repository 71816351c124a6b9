"""Operations on the slots of sequences and bags."""

from __future__ import annotations

from ...language import Bag, Sequence
from ...language.expressions import resolve
from ...language.types import Type
from .graph import Node
from .shapes import Maybe, Shape, Shapes, Slots


def slot_at(shapes: Shapes, of: Type, slots: tuple[Maybe, ...], place: Node) -> Maybe:
    """The element at a place, as an optional."""
    result = shapes.absent(of)
    for at, slot in enumerate(slots):
        here = shapes.graph.equal(place, shapes.graph.number(at))
        result = shapes.merge_maybe(here, slot, result)
    return result


def last(shapes: Shapes, of: Type, slots: tuple[Maybe, ...]) -> Maybe:
    """The last element, as an optional."""
    result = shapes.absent(of)
    for slot in slots:
        result = shapes.merge_maybe(slot.present, slot, result)
    return result


def sliced(
    shapes: Shapes, of: Type, slots: tuple[Maybe, ...], first: Node, end: Node | None
) -> tuple[Maybe, ...]:
    """The elements from place `first` up to, but without, place `end`."""
    g = shapes.graph
    if end is not None:
        inside = (g.less(g.number(at), end) for at in range(len(slots)))
        slots = tuple(
            Maybe(g.and_(slot.present, before), slot.value)
            for slot, before in zip(slots, inside, strict=True)
        )
    result = slots if first.low <= 0 else ()
    for dropped in range(max(1, first.low), min(first.high, len(slots)) + 1):
        shifted = slots[dropped:]
        if result:  # both need the same number of slots
            shifted += (shapes.absent(of),) * (len(result) - len(shifted))
        here = g.at_most(g.number(dropped), first)
        pairs = shapes.side_by_side(Slots(shifted), Slots(result))
        result = tuple(shapes.merge_maybe(here, a, b) for a, b in pairs)
    return result


def joined(
    shapes: Shapes, of: Type, slots: tuple[Maybe, ...], more: tuple[Maybe, ...]
) -> tuple[Maybe, ...]:
    """The concatenation of two sequences."""
    for slot in more:
        slots = appended(shapes, (*slots, shapes.absent(of)), slot.value, slot.present)
    return slots


def without(
    shapes: Shapes, of: Type, slots: tuple[Maybe, ...], sought: Shape, at: Node | None
) -> tuple[Maybe, ...]:
    """The sequence without the first element that equals `sought`. `at` is its place, if known."""
    g = shapes.graph
    gone = g.false
    result: list[Maybe] = []
    for place, slot in enumerate(slots):
        if at is not None:
            gone = g.at_most(at, g.number(place))
        else:
            gone = g.or_(gone, g.and_(slot.present, shapes.equal(slot.value, sought)))
        following = slots[place + 1] if place + 1 < len(slots) else shapes.absent(of)
        result.append(shapes.merge_maybe(gone, following, slot))
    return tuple(result)


def appended(
    shapes: Shapes, slots: tuple[Maybe, ...], value: Shape, when: Node
) -> tuple[Maybe, ...]:
    """The slots with the value in the first absent one, if `when` holds."""
    g = shapes.graph
    result: list[Maybe] = []
    before = g.true
    for slot in slots:
        here = g.and_(when, before, g.not_(slot.present))
        result.append(shapes.merge_maybe(here, Maybe(g.true, value), slot))
        before = slot.present
    return tuple(result)


def pushed(
    shapes: Shapes, kind: Sequence | Bag, slots: tuple[Maybe, ...], value: Shape
) -> tuple[Maybe, ...]:
    """The slots with the value at the end. A full sequence drops its first element and doesn't
    grow.
    """
    g = shapes.graph
    capacity = resolve(kind.capacity, shapes.constants)
    empty = shapes.absent(kind.of)
    if len(slots) < capacity:
        return appended(shapes, (*slots, empty), value, g.true)
    if not slots:
        return ()
    full = slots[capacity - 1].present if capacity else g.true
    shifted = (*slots[1:], Maybe(g.true, value))
    if len(slots) > capacity:
        shifted = appended(shapes, (*slots[1:], empty), value, g.true)
    longer = appended(shapes, slots, value, g.true)
    return tuple(shapes.merge_maybe(full, a, b) for a, b in zip(shifted, longer, strict=True))


def put(
    shapes: Shapes, kind: Sequence | Bag, slots: tuple[Maybe, ...], value: Shape
) -> tuple[Maybe, ...]:
    """The slots with the value inserted in canonical order; there is one slot more."""
    g = shapes.graph
    empty, new = shapes.absent(kind.of), Maybe(g.true, value)
    result: list[Maybe] = []
    before = g.true  # whether all earlier elements stay before the new one
    for place, slot in enumerate((*slots, empty)):
        stays = (
            g.and_(before, slot.present, shapes.at_most(kind.of, slot.value, value))
            if place < len(slots)
            else g.false
        )
        moved = slots[place - 1] if place else new
        here = shapes.merge_maybe(before, new, moved)
        result.append(shapes.merge_maybe(stays, slot, here))
        before = stays
    return tuple(result)
