"""How many states each level has, and how many rows walks took after how many steps, as plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

WIDTH, HEIGHT = 1000, 200
"""Points of the plot, without what stands around it."""
TICKS = 12  # depths that are written below it, at most
BARS, CURVE_TICKS = 40, 8  # of a curve, at most: its numbers below are wider


@dataclass(frozen=True)
class Bar:
    """A level: the place of its bar, in points, and its text."""

    x: float
    y: float
    width: float
    height: float
    title: str


@dataclass(frozen=True)
class Plot:
    """The bars, the numbers below them with their places, and the highest one."""

    bars: tuple[Bar, ...]
    ticks: tuple[tuple[float, str], ...]
    peak: tuple[float, str]


def plot_of(levels: Sequence[int]) -> Plot | None:
    """The plot of these levels, none where there are fewer than two."""
    if len(levels) < 2:
        return None
    step = WIDTH / len(levels)
    most = max(levels)
    bars: list[Bar] = []
    for depth, (states, so_far) in enumerate(zip(levels, accumulate(levels), strict=True)):
        height = max(1.0 if states else 0.0, HEIGHT * states / most)
        told = f"depth {depth}: {states:,} states, {so_far:,} so far"
        bars.append(
            Bar(
                round(depth * step, 2),
                round(HEIGHT - height, 2),
                round(step * 0.82, 2),
                round(height, 2),
                told,
            )
        )
    every = next(n for n in (1, 2, 5, 10, 20, 50, 100, 10**9) if len(levels) / n <= TICKS)
    middle = step * 0.41
    ticks = tuple((round(at * step + middle, 2), str(at)) for at in range(0, len(levels), every))
    fullest = levels.index(most)
    label = f"{most:,} states at depth {fullest}"
    return Plot(tuple(bars), ticks, (round(fullest * step + middle, 2), label))


def curve_of(curve: Sequence[tuple[int, int]], rows: int) -> Plot | None:
    """The plot of how many of all rows were taken after how many steps; none without a point. Bars
    are equally wide, as most rows are taken early."""
    if not curve or not rows:
        return None
    last = len(curve) - 1
    points = [curve[at] for at in sorted({round(n * last / (BARS - 1)) for n in range(BARS)})]
    step = WIDTH / len(points)
    bars: list[Bar] = []
    for at, (steps, taken) in enumerate(points):
        height = HEIGHT * taken / rows
        told = f"after {steps:,} steps: {taken:,} of {rows:,} rows"
        bars.append(
            Bar(
                round(at * step, 2),
                round(HEIGHT - height, 2),
                round(step * 0.82, 2),
                round(height, 2),
                told,
            )
        )
    every = -(-len(points) // CURVE_TICKS)
    ticks = tuple(
        (round((at + 0.41) * step, 2), f"{points[at][0]:,}") for at in range(0, len(points), every)
    )
    label = f"{curve[-1][1]:,} of {rows:,} rows"
    return Plot(tuple(bars), ticks, (round((len(points) - 0.59) * step, 2), label))
