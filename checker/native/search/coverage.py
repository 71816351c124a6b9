"""Finds the probes of a run that a found state, or a step from one, meets."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain, compress, islice
from typing import Any

import numpy as np

from ...ground import GroundAction, Grounded, Steps, choice_leaf
from ...ground.graph import Node, leaves_of
from ...verdict.probes import Probe
from ..store.pack import Packing
from .pair_conditions import Seeker
from .vectors import COMPILED_FROM, Formula, formula, gathered, in_words


@dataclass(frozen=True)
class Sought:
    """A condition on sought states: both formulas of one of the `cases` hold. The second formula is
    evaluated only where the first one holds.
    """

    cases: tuple[tuple[Formula, Formula], ...]

    def among(self, words: Any, known: dict[int, Any]) -> bool:
        """Whether one of the states, given as rows of words, is sought. `known` caches the values
        of first formulas in these states, by the formulas' identities.
        """
        for first, second in self.cases:
            there = known.get(id(first))
            if there is None:
                there = known[id(first)] = first(words)
            if there.any() and second(words[there]).any():
                return True
        return False


def sought(
    grounded: Grounded,
    probes: Sequence[tuple[Probe, Node]],
    taken: Sequence[int],
    packing: Packing,
) -> list[Sought]:
    """For each probe, the states that meet it, or that have a step that meets it. `taken` counts
    how often each row was taken. States with a message that none of the taken rows sends aren't
    sought.
    """
    always = formula(grounded.graph.true, packing)
    of_steps = [node for probe, node in probes if probe.of == "step"]
    sent = _changed(grounded, taken)
    choices = Choices(grounded)
    by_step = iter(_before_steps(grounded, choices, of_steps, packing))
    by_table = _enabled(grounded, choices)
    enabled: dict[str, Formula] = {}
    conditions: dict[Node, Formula] = {}

    def of(probe: Probe, node: Node) -> Sought:
        """The states of the probe's kind in which a node holds."""
        if node is grounded.graph.false or (probe.of == "way" and probe.about not in by_table):
            return Sought(())
        if probe.kind == "message" and leaves_of([node]).isdisjoint(sent):
            return Sought(())  # no row sends it, and channels are empty at first
        if node not in conditions:
            conditions[node] = formula(node, packing)
        if probe.of == "state":
            return Sought(((conditions[node], always),))
        where = probe.about if probe.of == "way" else probe.of
        if where not in enabled:
            any_step = graph.or_(*by_table.values())
            every = {**by_table, "start": any_step, "end": graph.not_(any_step)}
            enabled[where] = formula(every[where], packing)
        return Sought(((conditions[node], enabled[where]),))

    graph = grounded.graph
    return [next(by_step) if probe.of == "step" else of(probe, node) for probe, node in probes]


def _changed(grounded: Grounded, taken: Sequence[int]) -> set[int]:
    """The leaves that a taken row changes."""
    rows = (row for action in grounded.actions for row in action.rows if taken[row.row])
    return set(chain.from_iterable(row.updates for row in rows))


def _enabled(grounded: Grounded, choices: Choices) -> dict[str, Node]:
    """For each table, the condition under which one of its rows can be taken. Tables without
    actions are missing.
    """
    graph, names = grounded.graph, grounded.instance.row_names
    found: dict[str, list[Node]] = {}
    for action in grounded.actions:
        table = names[action.rows[0].row].partition("/")[0]
        whole = graph.or_(*(row.guard for row in action.rows))
        for chosen, possible in choices(action):
            found.setdefault(table, []).append(graph.and_(possible, chosen(whole)))
    return {table: graph.or_(*nodes) for table, nodes in found.items()}


def _before_steps(
    grounded: Grounded, choices: Choices, nodes: list[Node], packing: Packing
) -> list[Sought]:
    """For each node, the states with a step for which the node holds."""
    if not nodes:
        return []
    graph = grounded.graph
    every_step = Steps(graph, nodes, grounded.next_leaves)
    behind = {
        old.value: at for at, old in grounded.next_leaves.items() if old.op == "leaf"
    }  # a leaf's place in the next state
    found: list[dict[Node, list[Node]]] = [{} for _ in nodes]
    for action in grounded.actions:
        for row in action.rows:
            updates = {behind[at]: node for at, node in row.updates.items() if at in behind}
            held = every_step.by(updates)
            if all(node is graph.false for node in held):
                continue
            for chosen, possible in choices(action):
                guard = graph.and_(possible, chosen(row.guard))
                for at, node in enumerate(held):
                    if node is not graph.false:
                        found[at].setdefault(chosen(node), []).append(guard)
    return [
        Sought(
            tuple(
                (formula(holds, packing), formula(graph.or_(*guards), packing))
                for holds, guards in sorted(cases.items(), key=lambda case: len(case[1]))
                if holds is not graph.false
            )
        )
        for cases in found
    ]


class Choices:
    """The alternatives of actions. Nodes that are rebuilt for one are cached for the next."""

    def __init__(self, grounded: Grounded) -> None:
        self.graph = grounded.graph
        self.done: dict[tuple[int, int], dict[int, Node]] = {}

    def __call__(self, action: GroundAction) -> Iterator[tuple[Callable[[Node], Node], Node]]:
        """For each alternative, a function that puts it into a node, and the condition under which
        it exists.
        """
        leaf = choice_leaf(len(action.possible))
        for place, possible in enumerate(action.possible):
            leaves = {leaf: self.graph.number(place)}
            done = self.done.setdefault((leaf, place), {})
            yield partial(self.graph.substitute, leaves=leaves, done=done), possible


def met(
    every: Sequence[Sought], packing: Packing, states: Iterable[Any], threads: int = 1
) -> list[bool]:
    """Whether each of the states sought is among the packed states, given as rows of bytes.

    Most are among the first states. For the rest, the conditions are compiled, and `threads`
    threads evaluate them on the other states.
    """
    left = {at: one for at, one in enumerate(every) if one.cases}
    parts = (in_words(part, packing) for part in gathered(states))
    evaluated = 0
    while left and evaluated < COMPILED_FROM and (words := next(parts, None)) is not None:
        known: dict[int, Any] = {}
        left = {at: one for at, one in left.items() if not one.among(words, known)}
        evaluated += len(words)
    if left and (words := next(parts, None)) is not None:
        seeker = Seeker([case for one in left.values() for case in one.cases], packing)
        found = _met_in(seeker, chain([words], parts), threads)
        owners = chain.from_iterable([at] * len(one.cases) for at, one in left.items())
        for at in set(compress(owners, found)):
            del left[at]
    return [at not in left and bool(one.cases) for at, one in enumerate(every)]


def _met_in(seeker: Seeker, parts: Iterator[Any], threads: int) -> Any:
    """For each pair of conditions, whether a state in some part meets both."""
    found = np.zeros(seeker.count, dtype=np.bool_)
    with ThreadPoolExecutor(threads) as pool:
        while futures := [pool.submit(seeker, part) for part in islice(parts, 2 * threads)]:
            found |= np.logical_or.reduce([one.result() for one in futures])
            if found.all():
                break
    return found
