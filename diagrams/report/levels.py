"""Plots of the number of states of each level, and of the rows that walks took by number of
steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

WIDTH, HEIGHT = 1000, 200
"""The size of the plot without its labels, in points."""
TICKS = 12  # the most depths below the plot
BARS, CURVE_TICKS = 40, 8  # the most for a curve: its numbers below are wider


@dataclass(frozen=True)
class Bar:
    """A level: the position of its bar in points, and its text."""

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
    """The plot of these levels; None for fewer than two."""
    if len(levels) < 2:
        return None
    step = WIDTH / len(levels)
    most = max(levels)
    bars: list[Bar] = []
    for depth, (states, so_far) in enumerate(zip(levels, accumulate(levels), strict=True)):
        height = max(1.0 if states else 0.0, HEIGHT * states / most)
        title = f"depth {depth}: {states:,} states, {so_far:,} so far"
        bars.append(
            Bar(
                round(depth * step, 2),
                round(HEIGHT - height, 2),
                round(step * 0.82, 2),
                round(height, 2),
                title,
            )
        )
    every = next(n for n in (1, 2, 5, 10, 20, 50, 100, 10**9) if len(levels) / n <= TICKS)
    middle = step * 0.41
    ticks = tuple((round(at * step + middle, 2), str(at)) for at in range(0, len(levels), every))
    fullest = levels.index(most)
    label = f"{most:,} states at depth {fullest}"
    return Plot(tuple(bars), ticks, (round(fullest * step + middle, 2), label))


def curve_of(curve: Sequence[tuple[int, int]], rows: int) -> Plot | None:
    """The plot of the number of taken rows after each number of steps; None without a point. Bars
    have the same width, because walks take most rows early."""
    if not curve or not rows:
        return None
    last = len(curve) - 1
    points = [curve[at] for at in sorted({round(n * last / (BARS - 1)) for n in range(BARS)})]
    step = WIDTH / len(points)
    bars: list[Bar] = []
    for at, (steps, taken) in enumerate(points):
        height = HEIGHT * taken / rows
        title = f"after {steps:,} steps: {taken:,} of {rows:,} rows"
        bars.append(
            Bar(
                round(at * step, 2),
                round(HEIGHT - height, 2),
                round(step * 0.82, 2),
                round(height, 2),
                title,
            )
        )
    every = -(-len(points) // CURVE_TICKS)
    ticks = tuple(
        (round((at + 0.41) * step, 2), f"{points[at][0]:,}") for at in range(0, len(points), every)
    )
    label = f"{curve[-1][1]:,} of {rows:,} rows"
    return Plot(tuple(bars), ticks, (round((len(points) - 0.59) * step, 2), label))
