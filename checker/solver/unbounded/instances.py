"""How many instances of a key a proof by induction needs, to hold for any number of them.

A step acts for so many instances, and a part of a property mentions so many. A step that needs some
instance to be such, whichever, acts for that one as well. A violation by a step in a larger system
occurs also with only these instances, if nothing else of the larger system is visible there. That
is checked part by part, on a system with one instance more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ....language import Key, System
from ...ground import GroundAction, Grounded, GroundRow, PathPart
from ...ground.graph import Graph, Node, leaves_of
from ...native.symmetry.symmetry import find_symmetry
from ..proofs.digest import Forms
from .numbers import lifted, relevant


@dataclass(frozen=True)
class Cutoff:
    """That so many `instances` are enough for any number of them, unless there are `objections`:
    those that a step acts for (`acting`) and those in a part of a property (`mentioned`)."""

    acting: int
    mentioned: int
    objections: tuple[str, ...]

    @property
    def instances(self) -> int:
        """How many are enough."""
        return self.acting + self.mentioned


def cutoff(
    system: System,
    key: Key,
    properties: Sequence[str],
    protocol: str | None = None,
    constants: Mapping[str, int] | None = None,
    *,
    switch_on: Iterable[str] = (),
) -> Cutoff:
    """How many instances of `key` are enough to prove these invariants by induction, lemmas among
    them, and these properties of steps. Raises DeclarationError as `instantiate` does."""

    def of(count: int) -> _Projected:
        sizes = {**(constants or {}), str(key.size): count}
        instance = lifted(system, protocol, sizes, switch_on=switch_on, properties=properties)
        return _Projected(relevant(instance), key)

    some = of(3)
    acting, mentioned = some.acting, some.mentioned
    small, large = of(acting + mentioned), of(acting + mentioned + 1)
    return Cutoff(acting, mentioned, tuple(_objections(small, large, mentioned)))


def _objections(small: _Projected, large: _Projected, mentioned: int) -> Iterator[str]:
    key, count = large.key, len(small.own)
    if any(reason.startswith(f"{key.name}:") for reason in large.refused):
        yield f"instances of {key} can't take each other's place"
    if large.mentioned > mentioned:
        yield f"a part of a property mentions {large.mentioned} instances of {key}"
    yield from large.entangled()
    if small.starts(count) != large.starts(count):
        yield "the start isn't the same"
    if small.facts(count) != large.facts(count):
        yield "the proved properties aren't the same"
    steps, others = small.steps(count), large.steps(count)
    for name in {**steps, **others}:
        if steps.get(name) != others.get(name):
            yield f"{name} isn't the same"


class _Projected:
    """A system restricted to the view of a key's first instances. `form` is the same for nodes of
    one form, so that two systems' can be compared."""

    def __init__(self, grounded: Grounded, key: Key) -> None:
        self.grounded = grounded
        self.key = key
        self.form = Forms({leaf.index: leaf.name for leaf in grounded.leaves}).of
        self.owners = {leaf.index: self._owner(leaf.path) for leaf in grounded.leaves}
        self.own = sorted({owner for owner in self.owners.values() if owner is not None})
        self.refused = find_symmetry(grounded, renaming=False).refused
        self.parts = [
            part
            for node in (*grounded.invariants, *grounded.well_formed)
            for part in _conjuncts(grounded.graph, node)
        ]

    def _owner(self, path: Iterable[PathPart]) -> int | None:
        of_key = (part[1] for part in path if not isinstance(part, str) and part[0] == self.key)
        return next(of_key, None)

    def about(self, *nodes: Node) -> set[int]:
        """The instances that nodes look at."""
        owners = {self.owners[index] for index in leaves_of(nodes)}
        return {owner for owner in owners if owner is not None}

    @property
    def acting(self) -> int:
        """For how many instances a step acts."""
        return max(
            (
                len(self.acts_for(action)) + sum(len(c) > 1 for c in self.taken(action, row))
                for action in self.grounded.actions
                for row in action.rows
            ),
            default=0,
        )

    @property
    def mentioned(self) -> int:
        """The number of instances that a part of a property is about; for a step, without those
        that act."""
        of_states = (len(self.about(part)) for part in self.parts)
        of_steps = (
            len(self.about(part) - self.acts_for(action))
            for action in self.grounded.actions
            for row in action.rows
            for node in row.broken
            for part in _disjuncts(self.grounded.graph, node)
        )
        return max((*of_states, *of_steps), default=0)

    def acts_for(self, action: GroundAction) -> set[int]:
        """The instances that the action binds."""
        return {number for of, number in action.instances if of == self.key}

    def taken(self, action: GroundAction, row: GroundRow) -> Iterator[tuple[Node, ...]]:
        """The conditions under which a row is taken, all of which must hold. One that some instance
        is such, whichever, is in parts, of which one is enough."""
        graph, acting = self.grounded.graph, self.acts_for(action)
        for node in _all_of((*action.possible, row.guard)):
            choices = _disjuncts(graph, node)
            apart = all(len(self.about(each) - acting) <= 1 for each in choices)
            if apart and len(self.about(node) - acting) > 1:
                yield choices
            else:
                yield from ((part,) for part in _conjuncts(graph, node))

    def entangled(self) -> Iterator[str]:
        """Steps in which one instance depends on another that the step doesn't act for."""
        for action in self.grounded.actions:
            acting = self.acts_for(action)
            for row in action.rows:
                name = self.grounded.instance.row_names[row.row]
                parts = (part for parts in self.taken(action, row) for part in parts)
                if any(len(self.about(part) - acting) > 1 for part in parts):
                    yield f"the guard of {name} depends on several at once"
                for index, node in row.updates.items():
                    if self.about(node) - acting - {self.owners[index]}:
                        yield f"{self.grounded.leaves[index].name} depends on others in {name}"

    def sees(self, count: int, *nodes: Node) -> bool:
        """Whether nodes look at the first instances only."""
        return all(owner < count for owner in self.about(*nodes))

    def starts(self, count: int) -> set[tuple[tuple[str, int], ...]]:
        """The initial states."""
        seen = [
            leaf
            for leaf in self.grounded.leaves
            if leaf.index in self.grounded.kept and (self.owners[leaf.index] or 0) < count
        ]
        return {
            tuple((leaf.name, vector[leaf.index]) for leaf in seen)
            for vector in self.grounded.initials
        }

    def facts(self, count: int) -> set[str]:
        """The parts of the properties, and of the facts of all states."""
        return {self.form(part) for part in self.parts if self.sees(count, part)}

    def steps(self, count: int) -> dict[str, tuple[object, ...]]:
        """For each row and bindings: when it is taken, its updates, where they leave a range, and
        when it breaks a step property."""
        found: dict[str, tuple[object, ...]] = {}
        for action in self.grounded.actions:
            if any(number >= count for number in self.acts_for(action)):
                continue
            bound = ", ".join(f"{of}{number}" for of, number in action.instances)
            for row in action.rows:
                guard = {
                    frozenset(self.form(part) for part in parts if self.sees(count, part))
                    for parts in self.taken(action, row)
                    if len(parts) > 1 or self.sees(count, *parts)
                }
                updates = {
                    self.grounded.leaves[index].name: self.form(node)
                    for index, node in row.updates.items()
                    if (self.owners[index] or 0) < count
                }
                wrong = [
                    {
                        self.form(part)
                        for part in _disjuncts(self.grounded.graph, node)
                        if self.sees(count, part)
                    }
                    for node in (row.out_of_range, *row.broken)
                ]
                name = f"{self.grounded.instance.row_names[row.row]} ({bound})"
                found[name] = guard, updates, wrong
        return found


def _disjuncts(graph: Graph, node: Node) -> tuple[Node, ...]:
    """The parts of which one must hold."""
    if node.op == "or":
        return tuple(part for arg in node.args for part in _disjuncts(graph, arg))
    if node.op == "not" and node.args[0].op == "and":
        return tuple(
            part for arg in node.args[0].args for part in _disjuncts(graph, graph.not_(arg))
        )
    return (node,)


def _all_of(nodes: Iterable[Node]) -> Iterator[Node]:
    """The parts that must all hold."""
    for node in nodes:
        yield from _all_of(node.args) if node.op == "and" else (node,)


def _conjuncts(graph: Graph, node: Node) -> Iterator[Node]:
    """The parts that must all hold; of everything below a condition, each with the condition."""
    parts = _parts(graph, node)
    if parts:
        for part in parts:
            yield from _conjuncts(graph, part)
        return
    choices = _disjuncts(graph, node)
    several = next((choice for choice in choices if _parts(graph, choice)), None)
    if several is not None:
        rest = graph.or_(*(choice for choice in choices if choice is not several))
        for part in _parts(graph, several):
            yield from _conjuncts(graph, graph.or_(rest, part))
    elif not node.is_constant:
        yield node


def _parts(graph: Graph, node: Node) -> tuple[Node, ...]:
    """The parts of a node that must all hold: of "none of these", that each isn't so. None where
    it isn't made of several."""
    if node.op == "and":
        return node.args
    if node.op == "not" and node.args[0].op == "or":
        return tuple(map(graph.not_, node.args[0].args))
    return ()
