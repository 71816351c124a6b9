"""A drawing's content, independent of the output format."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

NONE = "none"


@dataclass(frozen=True)
class Node:
    """A state or a machine. `lines` are the text below its name, `inside` is a list in it. `when`
    has the releases of each line of that list (empty: all).

    `partial`: only some releases have it. `prepared`: a state that never comes into force.
    `unused`: it is never reached. `plain`: it stands for several nodes.
    """

    name: str
    lines: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    initial: bool = False
    terminal: bool = False
    partial: bool = False
    prepared: bool = False
    unused: bool = False
    plain: bool = False
    when: tuple[frozenset[str], ...] = ()


@dataclass(frozen=True)
class Edge:
    """An arrow between two nodes, by their names. `when` has the releases of each of its lines
    (empty: all).

    `partial`: only some releases have it. `silent`: it stands for no message. `prepared`: it leads
    to a state that never comes into force. `faint`: only faults cause it. `main`: it is on the
    normal path.
    """

    tail: str
    head: str
    lines: tuple[str, ...]
    partial: bool = False
    silent: bool = False
    prepared: bool = False
    faint: bool = False
    main: bool = False
    when: tuple[frozenset[str], ...] = ()


@dataclass(frozen=True)
class Graph:
    """Nodes and edges: the states of a machine, or the machines of a system; `notes` are lines
    below them."""

    name: str
    kind: Literal["states", "machines"]
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    notes: tuple[str, ...] = ()


def span(some: Collection[str], releases: Sequence[str]) -> str:
    """The selected `releases` as ranges: empty for all of them, NONE for none."""
    if len(some) == len(releases):
        return ""
    ranges: list[str] = []
    for inside, group in groupby(releases, lambda release: release in some):
        run = list(group)
        if inside:
            ranges.append(run[0] if len(run) == 1 else f"{run[0]}–{run[-1]}")
    return ", ".join(ranges) or NONE
