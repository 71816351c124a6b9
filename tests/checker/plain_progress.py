"""Progress in plain Python, on the interpreter's steps: the second opinion on the native pass.

Two ways: every set of states by itself (`by_subsets`), and what is left of what is reached when
states that no fair run stays in are taken away (`by_removal`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, product

from epochfence.language import Expression, Instance, Key
from epochfence.language.types import Value, choices
from epochfence.model.engine.interpreter import FullState, Interpreter, Step

Fair = tuple[int, tuple[object, ...]]


@dataclass
class Graph:
    """States by number, those that are initial, and from each its steps: what each is fair by, and
    the state that it leads to."""

    states: list[FullState]
    initial: set[int]
    steps: list[list[tuple[frozenset[Fair], int]]]
    kinds: tuple[str, ...]

    def possible(self, state: int) -> set[Fair]:
        """What is fair of what is possible in a state."""
        return {fair for by, _ in self.steps[state] for fair in by}


def explored(instance: Instance, limit: int) -> Graph:
    """All states and steps. Raises ValueError where there are more than `limit` states."""
    machine = Interpreter(instance)
    numbers = {state: at for at, state in enumerate(dict.fromkeys(machine.initial_states()))}
    initial = set(numbers.values())
    states = list(numbers)
    steps: list[list[tuple[frozenset[Fair], int]]] = []
    for state in states:  # which grows
        here: list[tuple[frozenset[Fair], int]] = []
        for step in machine.steps(state):
            assert step.state is not None
            if step.state not in numbers:
                numbers[step.state] = len(states)
                states.append(step.state)
            here.append((frozenset(fair_by(instance, step)), numbers[step.state]))
        steps.append(here)
        if len(states) > limit:
            raise ValueError(f"more than {limit} states")
    return Graph(states, initial, steps, tuple(item.kind for item in instance.system.fairness))


def fair_by(instance: Instance, step: Step) -> Iterator[Fair]:
    """What a step counts for: fairness by its place, for what the event names."""
    row = step.action.rows[step.row - first_row(instance, step)].id
    keys = tuple(v for name, v in step.bound if isinstance(getattr(name.data, "type", 0), Key))
    tables = {table.name: table for table in instance.system.tables}
    for at, item in enumerate(instance.system.fairness):
        table = tables.get(step.action.table)
        if table is not None and table.on is item.event and (not item.rows or row in item.rows):
            yield at, keys


def first_row(instance: Instance, step: Step) -> int:
    """The index of the first row of a step's action."""
    count = 0
    for action in instance.actions:
        if action is step.action:
            return count
        count += len(action.rows)
    raise AssertionError(step)


def aims(instance: Instance) -> Iterator[tuple[str, int, dict[Expression, Value]]]:
    """Each property of progress for each value of its variables: a name, its place, the values."""
    for at, item in enumerate(instance.progress):
        for values in product(*(choices(v.data.type, instance.constants) for v in item.each)):
            bound = dict(zip(item.each, values, strict=True))
            yield f"{item.name} {list(values)}", at, bound


def broken(instance: Instance, graph: Graph, stays: Callable[[Graph, set[int]], bool]) -> set[str]:
    """The names of what doesn't hold, where `stays` says whether a fair run can stay for ever
    within some states."""
    machine = Interpreter(instance)
    found: set[str] = set()
    for name, at, bound in aims(instance):
        item = instance.progress[at]
        states = range(len(graph.states))

        def holds(condition: Expression, state: int, bound: dict[Expression, Value]) -> bool:
            return machine.holds(condition, graph.states[state], bound=bound.items())

        without = {state for state in states if not holds(item.expression, state, bound)}
        if item.kind == "always possible":
            everything = set(states)
            if any(reached(graph, {state}, everything) <= without for state in states):
                found.add(name)
            continue
        owing = {state for state in without if holds(item.premise, state, bound)}
        if stays(graph, reached(graph, owing, without)):
            found.add(name)
    return found


def reached(graph: Graph, starts: set[int], within: set[int]) -> set[int]:
    """What is reached from some states through others."""
    seen, todo = set(starts), list(starts)
    while todo:
        for _, target in graph.steps[todo.pop()]:
            if target in within and target not in seen:
                seen.add(target)
                todo.append(target)
    return seen


def is_fair(graph: Graph, states: set[int]) -> bool:
    """Whether a run that takes every step between these states again and again is fair."""
    everywhere = set.intersection(*map(graph.possible, states))
    anywhere = set[Fair]().union(*map(graph.possible, states))
    taken = {f for s in states for by, target in graph.steps[s] if target in states for f in by}
    for fair in anywhere - taken:
        if graph.kinds[fair[0]] == "strong" or fair in everywhere:
            return False
    return True


def is_connected(graph: Graph, states: set[int]) -> bool:
    """Whether there is a way, of a step at least, from each of them to each, within them."""
    behind = [reached(graph, {t for _, t in graph.steps[s] if t in states}, states) for s in states]
    return all(states <= found for found in behind)


def idles(graph: Graph, states: set[int]) -> bool:
    """Whether nothing fair is possible in one of them."""
    return any(not graph.possible(state) for state in states)


def by_subsets(graph: Graph, states: set[int]) -> bool:
    """Every set of states is looked at."""
    return idles(graph, states) or any(
        is_connected(graph, set(some)) and is_fair(graph, set(some))
        for size in range(1, len(states) + 1)
        for some in combinations(states, size)
    )


def by_removal(graph: Graph, states: set[int]) -> bool:
    """States of a component in which a fair step isn't taken are taken away, and so on."""
    if idles(graph, states):
        return True
    todo = [states]
    while todo:
        left = todo.pop()
        while left:
            one = next(iter(left))
            ahead = reached(graph, {t for _, t in graph.steps[one] if t in left}, left)
            component = {s for s in ahead if one in reached(graph, {s}, left)}
            left = left - component - {one}
            if not component:
                continue
            if is_fair(graph, component):
                return True
            taken = {f for s in component for by, t in graph.steps[s] if t in component for f in by}
            starved = {
                f
                for s in component
                for f in graph.possible(s) - taken
                if graph.kinds[f[0]] == "strong"
            }
            if all(
                f in taken or graph.kinds[f[0]] == "strong"
                for f in set.intersection(*map(graph.possible, component))
            ):
                todo.append({s for s in component if not graph.possible(s) & starved})
    return False
