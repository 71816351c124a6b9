"""What a drawing shows, whatever it is drawn with."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal


@dataclass(frozen=True)
class Node:
    """A state or a machine; `lines` stand below its name.

    `partial`: only some releases have it. `unused`: nothing leads here.
    """

    name: str
    lines: tuple[str, ...] = ()
    initial: bool = False
    terminal: bool = False
    partial: bool = False
    unused: bool = False


@dataclass(frozen=True)
class Edge:
    """An arrow between two nodes, by their names; `partial`: only some releases have it."""

    tail: str
    head: str
    lines: tuple[str, ...]
    partial: bool = False


@dataclass(frozen=True)
class Graph:
    """Nodes and edges: the states of a machine, or the machines of a system."""

    name: str
    kind: Literal["states", "machines"]
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def span(some: Collection[str], releases: Sequence[str]) -> str:
    """Which of the `releases` are meant, as ranges; empty where all are."""
    if len(some) == len(releases):
        return ""
    ranges: list[str] = []
    for inside, group in groupby(releases, lambda release: release in some):
        run = list(group)
        if inside:
            ranges.append(run[0] if len(run) == 1 else f"{run[0]}–{run[-1]}")
    return ", ".join(ranges) or "none"
