"""Counts the lines of labels that arrows of a layout cross, by Graphviz's measures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from .dot import laid_out

WIDER, NEAR = 1.13, 3.0
"""How much wider a browser's letters are than Graphviz assumes, and the distance in points from its
text at which an arrow still crosses it."""
_SPACE = 0.278  # the width of a space, relative to the font size
_STEPS = 40  # tested points of an arrow's curve


class Box(NamedTuple):
    """The place of a line of text, in points from the bottom left."""

    left: float
    bottom: float
    right: float
    top: float

    def holds(self, x: float, y: float) -> bool:
        """Whether a point is in the box, or near it."""
        across = self.left - NEAR < x < self.right + NEAR
        return across and self.bottom - NEAR < y < self.top + NEAR


def crossings(dot: str) -> int:
    """The number of label lines that another label's arrow crosses. `dot` is a graph in Graphviz's
    language. Raises DrawingError if it can't be laid out."""
    laid: Any = json.loads(laid_out(dot, "json"))
    edges = [edge for edge in laid.get("edges", ()) if edge.get("style") != "invis"]
    curves = [list(_points(edge["pos"])) for edge in edges]
    return sum(
        any(box.holds(x, y) for x, y in curve)
        for at, edge in enumerate(edges)
        for box in _boxes(edge)
        for other, curve in enumerate(curves)
        if other != at
    )


def _boxes(edge: Any) -> Iterator[Box]:
    size = 0.0
    for part in edge.get("_ldraw_", ()):
        if part["op"] == "F":
            size = part["size"]
        elif part["op"] == "T" and (text := part["text"]).strip():
            x, y = part["pt"]
            blank = len(text) - len(text.strip())
            left = x + _SPACE * size * (len(text) - len(text.lstrip()))
            wide = WIDER * (part["width"] - _SPACE * size * blank)
            yield Box(left, y - 0.2 * size, left + wide, y + 0.75 * size)


def _points(position: str) -> Iterator[tuple[float, float]]:
    """Points of a curve in Graphviz's notation: Bézier points, and the end of the arrow's head as
    `e,x,y`."""
    parts = [part.split(",") for part in position.split(" ")]
    ends = {part[0]: (float(part[1]), float(part[2])) for part in parts if len(part) == 3}
    knots = [(float(x), float(y)) for x, y in (part for part in parts if len(part) == 2)]
    for at in range(0, len(knots) - 3, 3):
        curve = knots[at : at + 4]
        for step in range(_STEPS + 1):
            t = step / _STEPS
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
            yield (
                sum(w * x for w, (x, _) in zip(weights, curve, strict=True)),
                sum(w * y for w, (_, y) in zip(weights, curve, strict=True)),
            )
    if "e" in ends:
        (x1, y1), (x2, y2) = knots[-1], ends["e"]
        yield from ((x1 + (x2 - x1) * n / 4, y1 + (y2 - y1) * n / 4) for n in range(5))
