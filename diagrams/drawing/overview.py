"""A machine's states at a glance: one arrow for each pair of states, named by its events.

A line below a picture lists the parts that it leaves out.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

from .graph import Edge, Graph, Node, span
from .state import ENOUGH, State, StateDiagram, Transition

NAMES = 3
"""The most events that an arrow names."""
WORDS = 6
"""The most words of these names together. A longer first name is there alone."""
ROWS_ELSEWHERE = "Each arrow's rows: --detail rows"
_NOTE_WIDTH = 90
_INSIDE_WIDTH = 30


_Line: TypeAlias = tuple[str, frozenset[str]]  # with the releases that it is of


@dataclass
class _Arrow:
    """The arrow from one state to another: the names of its events, each with its releases."""

    names: dict[str, set[str]]
    """The events that aren't faults."""
    faults: dict[str, set[str]]

    def without(self, common: Iterable[str]) -> _Arrow:
        """The arrow without these events."""
        gone = set(common)
        kept = ({n: r for n, r in of.items() if n not in gone} for of in (self.names, self.faults))
        return _Arrow(*kept)

    @property
    def releases(self) -> set[str]:
        """The releases in which an event other than a fault leads there, or else those in which a
        fault does."""
        return {release for of in (self.names or self.faults).values() for release in of}


def overview(diagram: StateDiagram, *, past: bool = False, alone: bool = True) -> Graph:
    """The first level of a state diagram; `StateDiagram.graph` has the rows.

    It leaves out unreached states, and the effects of a fault on a pending transition. Without
    `past` it also leaves out the arrows that the newest release doesn't have. Arrows that come
    from all other states are written as text inside their target. The same holds for arrows from
    three or more states, if they are faults or in some releases only. A picture that stands `alone`
    says which command draws the rows.
    """
    graph = _Overview(diagram, past=past).graph()
    return replace(graph, notes=(*graph.notes, ROWS_ELSEWHERE)) if alone else graph


class _Overview:
    def __init__(self, diagram: StateDiagram, *, past: bool) -> None:
        self.diagram = diagram
        self.bounded = diagram.faults | diagram.aftermath
        self.states = {state.name: state for state in diagram.states if state.releases}
        moving = [t for t in diagram.transitions if t.moves and self.shows(t)]
        omitted = [t for t in diagram.transitions if t.moves and not self.shows(t)]
        self.hidden = {t.event for t in omitted if t.event in self.bounded and t.source != t.target}
        happens = {release for t in moving for release in t.releases}
        self.base = tuple(r for r in diagram.releases if r in happens) or diagram.releases
        self.arrows: dict[tuple[str, str], _Arrow] = {}
        self.inside: dict[str, list[_Line]] = {name: [] for name in self.states}
        for transition in moving:
            self.add(transition)
        for name in self.states:
            self.gather(name)
        newest = self.base[-1]
        gone = [e for e, arrow in self.arrows.items() if not past and newest not in arrow.releases]
        self.past = {ends for ends in gone if ends[0] != ends[1]}
        for ends in gone:
            del self.arrows[ends]
        self.states = {n: s for n, s in self.states.items() if past or newest in s.releases}
        for name in self.states:
            self.fold(name)

    def shows(self, transition: Transition) -> bool:
        """Whether the overview shows the transition. It leaves out a step to the same state that
        puts nothing in force, an event that only follows a fault, and the effect of a fault on a
        pending transition."""
        if transition.source == transition.target and not transition.after:
            return False
        if transition.event in self.diagram.aftermath:
            return False
        pending = transition.after or self.states[transition.source].prepared
        return not (pending and self.cause(transition) in self.bounded)

    def cause(self, transition: Transition) -> str:
        """The event that the arrow names: the transition's own event, if it is a fault or if
        nothing was prepared; else the last event that prepared the state and isn't a fault, or the
        first one if all are faults."""
        if transition.event in self.bounded or not transition.after:
            return transition.event
        events = [event for event, _ in transition.after]
        return next((event for event in reversed(events) if event not in self.bounded), events[0])

    def add(self, transition: Transition) -> None:
        """Adds the transition to the arrow of its states."""
        ends = transition.source, transition.target
        arrow = self.arrows.setdefault(ends, _Arrow({}, {}))
        event = self.cause(transition)
        names = arrow.faults if event in self.diagram.faults else arrow.names
        names.setdefault(event, set()).update(transition.releases)

    def gather(self, target: str) -> None:
        """Writes events that lead to the state from all others once, as text inside it."""
        others = [n for n, s in self.states.items() if n != target and not s.prepared]
        ways = [self.arrows.get((other, target)) for other in others]
        if len(others) < ENOUGH or None in ways:
            return
        arrows = [arrow for arrow in ways if arrow is not None]
        both = [arrow.names | arrow.faults for arrow in arrows]
        common = [name for name in both[0] if all(name in names for names in both)]
        if not common:
            return
        gathered = _Arrow({}, {})
        for name in common:
            of = gathered.faults if name in self.diagram.faults else gathered.names
            of[name] = {release for names in both for release in names[name]}
        for other, arrow in zip(others, arrows, strict=True):
            rest = arrow.without(common)
            # A release's additional way to a state that every state leads to needs no arrow.
            if rest.names and set(self.base) <= rest.releases:
                self.arrows[other, target] = rest
            else:
                del self.arrows[other, target]
        self.tell(target, gathered, "any other state")

    def fold(self, target: str) -> None:
        """Writes arrows from several states as text inside their target, if only faults lead along
        them, only some releases have them, or they have more events than an arrow names."""
        alike: dict[tuple[str, ...], list[str]] = {}
        for (source, head), arrow in self.arrows.items():
            events = (*arrow.names, *arrow.faults)
            many = len(events) > NAMES
            if head == target != source and (many or not arrow.names or self.when(arrow)):
                alike.setdefault(events, []).append(source)
        for events, sources in alike.items():
            if len(sources) >= (2 if len(events) > NAMES else ENOUGH):
                arrows = [self.arrows.pop((source, target)) for source in sources]
                widest = max(arrows, key=lambda arrow: len(arrow.releases))
                names = [
                    source if arrow.releases == widest.releases else f"{source} {self.when(arrow)}"
                    for source, arrow in zip(sources, arrows, strict=True)
                ]
                self.tell(target, widest, ", ".join(names))

    def tell(self, target: str, arrow: _Arrow, sources: str) -> None:
        """Writes the incoming events into a state."""
        lines = self.inside[target]
        of = frozenset(arrow.releases)
        lines += [("", of)] if lines else []
        lines += [(text, of) for text in textwrap.wrap(f"from {sources}:", _INSIDE_WIDTH)]
        lines += self.label(arrow)

    def when(self, arrow: _Arrow) -> str:
        """The releases in which an event leads there, if not all."""
        when = span([r for r in self.base if r in arrow.releases], self.base)
        return when and f"in {when}"

    def label(self, arrow: _Arrow) -> list[_Line]:
        """The text on an arrow."""
        when = self.when(arrow)
        of = {**arrow.faults, **arrow.names}
        texts = [*named(arrow.names, arrow.faults), *([when] if when else [])]
        return [
            (self.titled(text), frozenset(of.get(text.rstrip(","), arrow.releases)))
            for text in texts
        ]

    def titled(self, text: str) -> str:
        """A line with Kafka's name of its event."""
        event = text.rstrip(",")
        return self.diagram.titles.get(event, event) + text[len(event) :]

    def graph(self) -> Graph:
        """The arrows and states to draw."""
        path = self.path()
        nodes = [self.node(state) for state in self.states.values()]
        edges = [
            replace(self.edge(ends, arrow), main=ends in path)
            for ends, arrow in self.arrows.items()
            if ends[0] != ends[1]
        ]
        edges.sort(key=lambda edge: not edge.main)  # Graphviz ranks by the first edges
        notes = tuple(self.notes(edges))
        return Graph(self.diagram.machine, "states", tuple(nodes), tuple(edges), notes)

    def node(self, state: State) -> Node:
        """The node of a state, with the events that set it again."""
        lines = (f"{' and '.join(state.prepared)} only",) if state.prepared else ()
        when = span([r for r in self.base if r in state.releases], self.base)
        again = self.arrows.get((state.name, state.name), _Arrow({}, {}))
        loop = self.label(_Arrow(again.names, {}))[: len([*named(again.names, ())])]
        inside = [("again:", frozenset(again.releases)), *loop] if loop else []
        inside += self.inside[state.name]
        return Node(
            state.name,
            (*lines, *((f"in {when}",) if when else ())),
            inside=tuple(text for text, _ in inside),
            when=tuple(of for _, of in inside),
            initial=state.initial,
            terminal=state.terminal,
            partial=bool(when),
            prepared=bool(state.prepared),
        )

    def edge(self, ends: tuple[str, str], arrow: _Arrow) -> Edge:
        """The arrow between two states."""
        label = self.label(arrow)
        return Edge(
            *ends,
            tuple(text for text, _ in label),
            when=tuple(of for _, of in label),
            partial=bool(self.when(arrow)),
            prepared=bool(self.states[ends[1]].prepared),
            faint=not arrow.names,
        )

    def path(self) -> set[tuple[str, str]]:
        """The normal path, from state to state, without the targets of shortcuts."""
        order = list(self.states)
        first = next((n for n, s in self.states.items() if s.initial), None)
        trail = [first] if first else []
        plain = {
            ends
            for ends, arrow in self.arrows.items()
            if arrow.names and arrow.releases >= set(self.base)
        }
        while trail:
            ahead = [
                name
                for name in order[order.index(trail[-1]) + 1 :]
                if (trail[-1], name) in plain
                and not any((before, name) in self.arrows for before in trail[:-1])
            ]
            if not ahead:
                break
            trail.append(ahead[0])
        return set(pairwise(trail))

    def notes(self, edges: list[Edge]) -> Iterator[str]:
        """The meaning of the styles, and the parts that aren't drawn."""
        diagram = self.diagram
        styles = [
            ("bold: the normal path", any(edge.main for edge in edges)),
            ("dotted: pending, not in force", any(edge.prepared for edge in edges)),
            ("grey: by a fault only", any(edge.faint for edge in edges)),
            ("dashed: in some releases", any(edge.partial for edge in edges)),
        ]
        legend = "; ".join(text for text, there in styles if there)
        yield from _wrapped(legend[:1].upper() + legend[1:])
        if len(self.base) < len(diagram.releases):
            yield f"There in {span(self.base, diagram.releases)} only."
        unused = [state.name for state in diagram.states if not state.releases]
        if unused:
            yield from _wrapped(f"Never reached: {', '.join(unused)}.")
        if self.hidden:
            names = ", ".join(sorted(self.hidden))
            yield from _wrapped(f"Left out: the effect of {names} on a pending transition.")
        if self.past:
            count = "an arrow" if len(self.past) == 1 else f"{len(self.past)} arrows"
            yield f"Left out: {count} of earlier releases (--protocol)."


def named(names: Collection[str], faults: Collection[str]) -> Iterator[str]:
    """A line for each named event, faults last; and a line with the number of the others."""
    every = [*names, *(name for name in faults if name not in names)]
    shown = every[:1]
    for name in every[1:NAMES]:
        if sum(len(each.split()) for each in (*shown, name)) > WORDS:
            break
        shown.append(name)
    more = len(every) - len(shown)
    yield from (f"{name}," for name in shown[:-1])
    yield from shown[-1:]
    if more:
        yield f"and {more} more"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _NOTE_WIDTH)
