"""The words of a packed state after updates."""

from __future__ import annotations

from collections.abc import Mapping

from ...ground.graph import Node
from ..store.pack import Place
from .instructions import Value, number
from .node_values import Values, moved, united


def updated(values: Values, words: list[Value], updates: Mapping[int, Node]) -> list[Value]:
    """A state's words after the updates, which read `values`."""
    b = values.b
    written: dict[int, list[tuple[Place, Node]]] = {}
    for index, node in updates.items():
        place = values.packing.places[index]
        written.setdefault(place.word, []).append((place, node))
    words = list(words)
    for at, items in written.items():
        kept = b.and_(words[at], number(~sum(place.mask for place, _ in items)))
        words[at] = b.or_(kept, _bits(values, items))
    return words


def _bits(values: Values, items: list[tuple[Place, Node]]) -> Value:
    """The new bits of a word, each at its place and all others 0.

    Leaves with the same shift are shifted together, and values with the same condition are selected
    together.
    """
    b = values.b
    constant = 0
    together: dict[tuple[int, int], int] = {}
    chosen: dict[int, list[tuple[Place, Node]]] = {}
    parts: list[Value] = []
    for place, node in items:
        source = values.packing.places.get(node.value) if node.op == "leaf" else None
        if node.is_constant:
            constant |= (node.value - place.low) << place.shift
        elif source is not None and (source.low, source.width) == (place.low, place.width):
            key = (source.word, place.shift - source.shift)
            together[key] = together.get(key, 0) | source.mask
        elif node.op == "ite":
            chosen.setdefault(node.args[0].number, []).append((place, node))
        else:
            parts.append(_placed(values, place, node))
    for (word, distance), mask in together.items():
        parts.append(moved(b, b.and_(values.words[word], number(mask)), distance))
    for group in chosen.values():
        condition = values.truth(group[0][1].args[0])
        then = _bits(values, [(place, node.args[1]) for place, node in group])
        otherwise = _bits(values, [(place, node.args[2]) for place, node in group])
        parts.append(b.select(condition, then, otherwise))
    if constant:
        parts.append(number(constant))
    return united(b, parts)


def _placed(values: Values, place: Place, node: Node) -> Value:
    """The bits of a value at its place. A value out of range, which is a fault, loses its upper
    bits.
    """
    b = values.b
    bits = values.number(node)
    if place.low:
        bits = b.sub(bits, number(place.low))
    if place.shift:
        bits = b.shl(bits, number(place.shift))
    if node.low < place.low or node.high - place.low >= 1 << place.width:
        bits = b.and_(bits, number(place.mask))
    return bits
