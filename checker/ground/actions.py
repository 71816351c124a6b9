"""A system grounded: its state as scalar leaves, its rows as guards and updates over them."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from itertools import product

from ...language import (
    Action,
    DeclarationError,
    Expression,
    Instance,
    Ranking,
    Record,
    Sequence,
)
from ...language.declaration.errors import TOO_DEEP, declared_at
from ...language.declaration.places import Place
from ...language.declaration.typecheck import type_of
from ...language.terms.values import field_name
from ...language.types import choices
from ..verdict.probes import Probe, probes
from .cost import check_effort
from .expressions import Expressions, Scope
from .graph import Node, leaves_of
from .grounded import (
    Aim,
    GroundAction,
    Grounded,
    GroundHelp,
    GroundRanking,
    GroundRow,
    choice_leaf,
)
from .shapes import Shape, Shapes, Slots
from .state import State
from .steps import Steps


def ground(instance: Instance, *, probing: bool = True) -> Grounded:
    """The instance as leaves and nodes. Slicing comes later, so all leaves are kept. Without
    `probing` there are no `probes`: a proof needs none.

    Raises DeclarationError if an expression can't be grounded, or grounding would take too long.
    """
    check_effort(instance)
    return _Grounder(instance).run(probing)


class _Grounder:
    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.shapes = Shapes(instance)
        self.graph = self.shapes.graph
        self.state = State(instance, self.shapes)
        has_steps = any(item.kind == "step" for item in instance.properties)
        self.expressions = Expressions(self.state, self.state.following() if has_steps else {})
        # by leaf: upper bounds that contain open constants
        self.most = {
            leaf: self.expressions.node(bound, self.expressions.outermost)
            for leaf, bound in self.state.unsettled.items()
        }

    def run(self, probing: bool) -> Grounded:
        instance, state, graph = self.instance, self.state, self.graph
        steps = self.properties("step")
        probed = list(self.probed()) if probing else []
        constants = len(state.open)
        unchanged = {
            state.count - constants + leaf.index: state.read(leaf)
            for leaf in state.leaves[constants:]
        }
        every_step = Steps(graph, steps, unchanged)
        actions: list[GroundAction] = []
        row = 0
        for action in instance.actions:
            with _placed(f"table {action.table}", action.declared):
                actions += self.bound_actions(action, row, every_step)
            row += len(action.rows)
        invariants = self.properties("invariant")
        with _placed("terminal", instance.system.declared):
            terminal = self.expressions.node(instance.terminal, self.expressions.outermost)
        return Grounded(
            instance=instance,
            graph=graph,
            leaves=state.leaves,
            initials=sorted({state.vector(values) for values in instance.initial_states()}),
            actions=actions,
            invariants=invariants,
            terminal=terminal,
            vector=state.vector,
            plain=state.plain,
            kept=frozenset(range(state.count)),
            well_formed=list(self.well_formed()),
            open={node.value: name for name, node in state.open.items()},
            limits=sorted({state.leaves[leaf].name for leaf in leaves_of(self.most.values())}),
            probes=probed,
            next_leaves=unchanged,
            read=self.read,
            aims=list(self.aims()),
            rankings=list(self.rankings(actions)),
        )

    def read(self, expression: Expression, names: Mapping[Expression, Shape]) -> Shape:
        """The value of an expression, with these shapes for names."""
        return self.expressions.shape(expression, Scope(names))

    def well_formed(self) -> Iterator[Node]:
        """The conditions that the leaves of every state satisfy."""
        state = self.state
        for variable in self.instance.variables:
            for node in state.well_formed(variable.type, state.variables[variable.name]):
                if node is not self.graph.true:
                    yield node
        for index, most in self.most.items():
            if index < state.count:
                yield self.graph.at_most(state.read(state.leaves[index]), most)

    def bound_actions(
        self, action: Action, first: int, every_step: Steps
    ) -> Iterator[GroundAction]:
        """The action for each possible binding; `first` is the number of its first row."""
        for scope, possible in self.bindings(action):
            if all(node is self.graph.false for node in possible):
                continue
            rows = tuple(self.rows(action, first, scope, every_step))
            if rows:
                guards = tuple(
                    (first + at, self.expressions.node(each.guard, scope))
                    for at, each in enumerate(action.rows)
                )
                yield GroundAction(possible, rows, scope.instances, guards)

    def probed(self) -> Iterator[tuple[Probe, Node]]:
        """The conditions that a run should meet, as nodes."""
        for probe in probes(self.instance):
            with _placed(f"property {probe.about}", self.instance.system.declared):
                yield probe, self.expressions.node(probe.expression, self.expressions.outermost)

    def properties(self, kind: str) -> list[Node]:
        """The properties of a kind as nodes."""
        nodes: list[Node] = []
        for item in self.instance.properties:
            if item.kind == kind:
                with _placed(f"property {item.name}", item.declared):
                    nodes.append(self.expressions.node(item.expression, self.expressions.outermost))
        return nodes

    def aims(self) -> Iterator[Aim]:
        """The progress properties, for each value of their variables."""
        for item in self.instance.progress:
            domains = [choices(name.data.type, self.instance.constants) for name in item.each]
            for values in product(*domains):
                bound = tuple(zip(item.each, values, strict=True))
                shapes = {n: self.shapes.constant_shape(n.data.type, v) for n, v in bound}
                with _placed(f"property {item.name}", item.declared):
                    premise = self.expressions.node(item.premise, Scope(shapes))
                    goal = self.expressions.node(item.expression, Scope(shapes))
                yield Aim(item, bound, premise, goal)

    def rankings(self, actions: list[GroundAction]) -> Iterator[GroundRanking]:
        """The rankings of progress properties, for each value of their variables."""
        every = {item.name: item for item in self.instance.rankings}
        aims = [aim for aim in enumerate(self.aims()) if aim[1].of.name in every]
        for place, aim in aims if every else ():
            of = every[aim.of.name]
            bound = {n: self.shapes.constant_shape(n.data.type, v) for n, v in aim.bound}
            with _placed(f"ranking of {of.name}", self.instance.system.declared):
                rank = [self.expressions.node(part, Scope(bound)) for part in of.rank]
                yield GroundRanking(
                    place,
                    of,
                    tuple(map(self.graph.as_number, rank)),
                    tuple(self.helpful(of, actions, bound)),
                )

    def helpful(
        self, of: Ranking, actions: list[GroundAction], bound: Mapping[Expression, Shape]
    ) -> Iterator[GroundHelp]:
        """The events of a ranking, for the instances that have actions."""
        for place, item in enumerate(of.helpful):
            tables = {t.name for t in self.instance.system.tables if t.on is item.event}
            own = [action for action in actions if self.table_of(action) in tables]
            for instances in dict.fromkeys(action.instances for action in own):
                keys = [key for key, _ in instances]
                if item.each and [name.data.type for name in item.each] != keys:
                    known = ", ".join(str(key) for key in keys) or "no instances"
                    raise DeclarationError(f"helps {item.event.name}, each: it is of {known}")
                named = {
                    name: self.shapes.constant_shape(key, number)
                    for name, (key, number) in zip(item.each, instances, strict=False)
                }
                yield GroundHelp(
                    place, instances, self.expressions.node(item.when, Scope({**bound, **named}))
                )

    def table_of(self, action: GroundAction) -> str:
        """The table of an action."""
        return self.instance.row_names[action.rows[0].row].partition("/")[0]

    def bindings(self, action: Action) -> Iterator[tuple[Scope, tuple[Node, ...]]]:
        g = self.graph
        domains = [choices(bound.data.type, self.instance.constants) for bound in action.bounds]
        for values in product(*domains):
            bound: dict[Expression, Shape] = {
                name: self.shapes.constant_shape(name.data.type, value)
                for name, value in zip(action.bounds, values, strict=True)
            }
            if action.choice is None:
                scope = Scope(bound, around=self.expressions.outermost)
                yield scope, (self.expressions.node(action.when, scope),)
                continue
            outermost = self.expressions.outermost
            bag = self.expressions.shape(action.choice.args[0], Scope(bound, around=outermost))
            assert isinstance(bag, Slots)
            in_order = isinstance(type_of(action.choice.args[0]), Sequence)
            # the rows are grounded once, for the slot with the number `chosen`
            slots = bag.slots
            if not slots:
                continue  # a channel with capacity 0
            chosen = g.leaf(choice_leaf(len(slots)), 0, len(slots) - 1, False)
            content = slots[-1].value
            for place in range(len(slots) - 2, -1, -1):
                here = g.equal(chosen, g.number(place))
                content = self.shapes.merge(here, slots[place].value, content)
            names = {**bound, action.choice: content}
            scope = Scope(names, taken=(action.choice, chosen), around=outermost)
            when = self.expressions.node(action.when, scope)
            possible: list[Node] = []
            for place, slot in enumerate(slots):
                distinct = g.true
                if place:  # equal elements of a bag are adjacent: only the first one counts
                    before = slots[:place] if in_order else slots[place - 1 : place]
                    same = (self.shapes.equal(other.value, slot.value) for other in before)
                    distinct = g.not_(g.or_(*same))
                choice = {chosen.value: g.number(place)} if chosen.op == "leaf" else {}
                holds = g.substitute(when, choice)
                possible.append(g.and_(slot.present, distinct, holds))
            yield scope, tuple(possible)

    def rows(
        self, action: Action, first: int, scope: Scope, every_step: Steps
    ) -> Iterator[GroundRow]:
        g = self.graph
        earlier: list[Node] = []
        for offset, row in enumerate(action.rows):
            with _placed(f"row {row.id!r}", row.declared):
                own = self.expressions.node(row.guard, scope)
                room = self.expressions.node(row.room, scope)
                guard = g.and_(*(g.not_(node) for node in earlier), own, room)
                earlier.append(own)
                if guard is g.false:
                    continue
                updates, fault = self.updates(row.updates, scope)
            behind = len(self.state.leaves) - len(
                self.state.open
            )  # the next state doesn't repeat the open constants
            holding = every_step.by({behind + index: node for index, node in updates.items()})
            yield GroundRow(first + offset, guard, updates, fault, tuple(map(g.not_, holding)))

    def updates(
        self, pairs: tuple[tuple[Expression, Expression], ...], scope: Scope
    ) -> tuple[dict[int, Node], Node]:
        g = self.graph
        changed: dict[str, Shape] = {}
        for target, expression in pairs:
            value = self.expressions.typed(expression, self.expressions.known(target), scope)
            base, path = _path(target)
            name = field_name(base.data)
            whole = changed.get(name, self.state.variables[name])
            changed[name] = self.placed(whole, path, _records(target), value, scope)
        updates: dict[int, Node] = {}
        faults: list[Node] = []
        for variable in self.instance.variables:
            if variable.name not in changed:
                continue
            start = self.state.first_leaf[variable.name]
            encoded = self.state.encode(variable.type, changed[variable.name], faults)
            for index, node in enumerate(encoded, start):
                leaf = self.state.leaves[index]
                if node.op == "leaf" and node.value == index:
                    continue
                if node.low < leaf.low:
                    faults.append(g.less(node, g.number(leaf.low)))
                most = self.most.get(index)
                if most is not None:
                    held = node.op == "leaf" and self.most.get(node.value) is most
                    faults += [] if held else [g.less(most, node)]
                elif node.high > leaf.high:
                    faults.append(g.less(g.number(leaf.high), node))
                if leaf.low < leaf.high:
                    updates[index] = node
        return updates, g.or_(*faults)

    def placed(
        self,
        whole: Shape,
        path: list[str | Expression],
        records: list[Record | None],
        value: Shape,
        scope: Scope,
    ) -> Shape:
        if not path:
            return value
        assert isinstance(whole, list)
        here, record = path[0], records[0]

        def inside(part: Shape) -> Shape:
            return self.placed(part, path[1:], records[1:], value, scope)

        if isinstance(here, Expression):
            return self.shapes.put_in(whole, self.expressions.index(here, whole, scope), inside)
        assert record is not None
        at = [n for n, _ in record.fields].index(here)
        inner = inside(whole[at])
        return [*whole[:at], inner, *whole[at + 1 :]]


@contextmanager
def _placed(where: str, place: Place | None = None) -> Generator[None]:
    """Adds the place of the declaration to an error of grounding."""
    with declared_at(place, where):
        try:
            yield
        except RecursionError:
            raise DeclarationError(TOO_DEEP) from None


def _path(target: Expression) -> tuple[Expression, list[str | Expression]]:
    """The field of a target, and the keys and field names that lead to its part."""
    path: list[str | Expression] = []
    node = target
    while node.op != "field":
        path.append(node.args[1] if node.op == "index" else node.data)
        node = node.args[0]
    if node.args:
        path.append(node.args[0])
    return node, path[::-1]


def _records(target: Expression) -> list[Record | None]:
    """For every element of the path, the record that it selects a field of, or None."""
    records: list[Record | None] = []
    node = target
    while node.op != "field":
        kind = type_of(node.args[0])
        records.append(kind if node.op == "get" and isinstance(kind, Record) else None)
        node = node.args[0]
    if node.args:
        records.append(None)
    return records[::-1]
