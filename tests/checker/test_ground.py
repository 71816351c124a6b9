"""What rows and properties are grounded to means what they mean, in any state, reached or not."""

from __future__ import annotations

import gc
import random
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epochfence import language as lang
from epochfence.checker.ground import Grounded, GroundRow, choice_leaf, ground
from epochfence.checker.ground.graph import Graph, Node
from epochfence.checker.slicing import sliced, without_constants
from epochfence.language import DeclarationError, Expression, Instance, Row, System, Table
from epochfence.language.expressions import Operand
from epochfence.language.types import Type, Value
from epochfence.model.engine.interpreter import FullState, Interpreter
from epochfence.tests.checker.drawn_expressions import Drawing
from epochfence.tests.checker.drawn_systems import instances


class Evaluation:
    """The values of nodes where the leaves have certain numbers, and choices are made."""

    def __init__(self, leaves: tuple[int, ...], choice: dict[int, int] | None = None) -> None:
        self.leaves = dict(enumerate(leaves)) | (choice or {})
        self.known: dict[int, int] = {}

    def __call__(self, node: Node) -> int:
        """The node's number; a truth's is 0 or 1."""
        if node.number not in self.known:
            self.known[node.number] = self.computed(node)
            assert node.low <= self.known[node.number] <= node.high
        return self.known[node.number]

    def computed(self, node: Node) -> int:
        if node.op == "const":
            return node.value
        if node.op == "leaf":
            return self.leaves[node.value]
        v = [self(arg) for arg in node.args]
        match node.op:
            case "not":
                return 1 - v[0]
            case "and":
                return int(all(v))
            case "or":
                return int(any(v))
            case "eq":
                return int(v[0] == v[1])
            case "lt":
                return int(v[0] < v[1])
            case "add":
                return v[0] + v[1]
            case "sub":
                return v[0] - v[1]
            case "mul":
                return v[0] * v[1]
            case "div":
                return v[0] // node.value
            case "mod":
                return v[0] % node.value
            case "ite":
                return v[1] if v[0] else v[2]
            case _:
                raise AssertionError(f"no operator is called {node.op}")


Steps = Counter[tuple[int, tuple[int, ...] | None]]


def ground_steps(grounded: Grounded, vector: tuple[int, ...]) -> Steps:
    """The rows taken, each with the numbers of the next state's leaves, or none for a fault."""
    found: Steps = Counter()
    for row, value in taken_rows(grounded, vector):
        if value(row.out_of_range):
            found[row.row, None] += 1
            continue
        after = list(vector)
        for index, node in row.updates.items():
            after[index] = value(node)
        found[row.row, tuple(after)] += 1
    return found


def taken_rows(
    grounded: Grounded, vector: tuple[int, ...]
) -> Iterator[tuple[GroundRow, Evaluation]]:
    """The rows that are taken, with the values that they see."""
    for action in grounded.actions:
        for place, possible in enumerate(action.possible):
            if not Evaluation(vector)(possible):
                continue
            value = Evaluation(vector, {choice_leaf(len(action.possible)): place})
            taken = [row for row in action.rows if value(row.guard)]
            assert len(taken) <= 1
            yield from ((row, value) for row in taken)


def model_steps(grounded: Grounded, state: FullState) -> Steps:
    """The same of the executable model."""
    found: Steps = Counter()
    for step in Interpreter(grounded.instance).steps(state):
        after = None if step.state is None else grounded.vector(step.state)
        found[step.row, after] += 1
    return found


def any_states(instance: Instance, seed: random.Random, count: int) -> list[FullState]:
    """Random states, which need not be reachable."""
    drawing = Drawing(seed, instance.constants)
    return [tuple(drawing.value(v.type) for v in instance.variables) for _ in range(count)]


@pytest.mark.slow(6)
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(instances(room=3_000), st.randoms(use_true_random=True))
def test_rows_and_properties_mean_the_same_in_any_state(
    instance: Instance, seed: random.Random
) -> None:
    grounded = ground(instance)
    machine = Interpreter(instance)
    invariants = [p for p in instance.properties if p.kind == "invariant"]
    step_properties = [p for p in instance.properties if p.kind == "step"]
    for state in any_states(instance, seed, 12):
        vector = grounded.vector(state)
        value = Evaluation(vector)
        assert ground_steps(grounded, vector) == model_steps(grounded, state)
        for item, node in zip(invariants, grounded.invariants, strict=True):
            assert value(node) == machine.holds(item.expression, state)
        assert value(grounded.terminal) == machine.holds(instance.terminal, state)
        broken = Counter(
            row.row
            for row, seen in taken_rows(grounded, vector)
            if not seen(row.out_of_range) and any(map(seen, row.broken))
        )
        assert broken == Counter(
            step.row
            for step in machine.steps(state)
            if step.state is not None
            and not all(machine.step_holds(p, state, step.state) for p in step_properties)
        )


@pytest.mark.slow(1)
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(instances())
def test_leaves_left_out_make_no_difference_to_those_kept(instance: Instance) -> None:
    whole = ground(instance)
    for part in (without_constants(whole), sliced(without_constants(whole)), sliced(whole)):
        kept = sorted(part.kept)
        machine = Interpreter(instance)
        frontier, seen = list(machine.initial_states()), set(machine.initial_states())
        for state in frontier[:40]:
            steps = Counter(
                (row, after and tuple(after[i] for i in kept))
                for (row, after), n in ground_steps(part, part.vector(state)).items()
                for _ in range(n)
            )
            assert steps == Counter(
                (row, after and tuple(after[i] for i in kept))
                for (row, after), n in model_steps(whole, state).items()
                for _ in range(n)
            )
            for step in machine.steps(state):
                if step.state is not None and step.state not in seen:
                    seen.add(step.state)
                    frontier.append(step.state)


# Single operators, where they were wrong once or are easily so ------------------------------------

N = lang.constant("N", 2)
KEY = lang.Key("key", 3)
BIT, SMALL = lang.Int(0, 1), lang.Int(0, 3)
PAIR = lang.record("pair", first=lang.Optional(SMALL), second=SMALL)
OWNED = lang.record("owned", of=lang.Set(KEY), n=SMALL)

tick = lang.event("tick")
k = KEY.variable("k")


def one_field(kind: Type, change: Callable[[Expression], Operand]) -> Grounded:
    """A system with a field `f` of the type that is set to what `change` makes of it."""
    machine = lang.Machine("m")
    f = machine.field("f", kind)
    machine.field("spare", SMALL)
    row = Row("r", set={f: change(f)})
    system = System("one field", (Table(machine, tick, (row,)),), (), constants=(N,))
    return ground(lang.instantiate(system))


PAIRS = lang.Bag(PAIR, 3)
BITS2, BITS3 = lang.Sequence(BIT, 2), lang.Sequence(BIT, 3)
COLOUR = lang.enum("colour", "red", "green", "blue")
SHADES = lang.record("shades", one=lang.Optional(COLOUR), all=lang.Set(COLOUR))
HOLDER = lang.record("holder", short=BITS2, long=BITS3, pairs=PAIRS, bag=lang.Bag(BIT, 2))

OPERATORS: dict[str, tuple[Type, Callable[[Expression], Operand], list[Value]]] = {
    "none in a record in a bag": (
        PAIRS, lambda f: lang.put(f, PAIR(second=1)), [((None, 0), (None, 2)), ((None, 2), (1, 0))]
    ),
    "taken by what is equal": (
        PAIRS, lambda f: lang.take(f, PAIR(first=1, second=0)), [((None, 1), (1, 0)), ((1, 0),)]
    ),
    "a bag of optionals in records, kept": (
        PAIRS,
        lambda f: lang.keep(lang.element("e", f), lang.element("e", f).first.is_set),
        [((None, 0), (1, 0), (2, 3))],
    ),
    "put beyond the capacity": (
        lang.Bag(BIT, 2), lambda f: lang.put(f, 1), [(), (0,), (0, 1), (1, 1)]
    ),
    "appended, one below its range": (
        BITS2, lambda f: lang.append(f, lang.size(f) - 1), [(), (0,), (0, 1)]
    ),
    "appended, and the excess dropped again": (
        BITS2, lambda f: lang.without_first(lang.append(f, 1)), [(0, 0), (0,), ()]
    ),
    "pushed twice": (BITS2, lambda f: lang.push(lang.push(f, 1), 0), [(0, 0), (0,), ()]),
    "pushed onto what has grown too far": (
        BITS2, lambda f: lang.without_first(lang.push(lang.append(f, 1), 0)), [(0, 0), (0,), ()]
    ),
    "the size of what has grown too far": (
        BITS2, lambda f: lang.if_(lang.size(lang.append(f, 1)) > 2, lang.sequence_of(), f),
        [(0, 0), (0,)],
    ),
    "sequences of two capacities": (
        HOLDER, lambda f: lang.replace(f, short=f.long, long=f.short),
        [((0,), (1, 1), (), ()), ((0,), (1, 1, 1), (), ())],
    ),
    "a choice between two capacities": (
        HOLDER,
        lambda f: lang.replace(f, long=lang.if_(f.short == f.long, f.short, f.long)),
        [((0,), (0,), (), ()), ((0, 1), (0, 1, 1), (), ())],
    ),
    "a set of computed numbers": (
        lang.Set(SMALL),
        lambda f: lang.those(lang.variable("i", SMALL), True) - lang.set_of(lang.size(f) + 0),
        [frozenset(), frozenset({1, 2})],
    ),
    "a set of numbers out of range": (
        lang.Set(SMALL), lambda f: f | lang.set_of(lang.size(f) + 2), [frozenset({0}),
        frozenset({0, 1})],
    ),
    "sets of two ranges": (
        lang.Set(SMALL),
        lambda f: f & lang.those(lang.variable("i", lang.Int(-1, 1)), True),
        [frozenset({0, 1, 2, 3})],
    ),
    "a set of keys by number": (
        lang.Set(KEY), lambda f: f | lang.set_of(2) - lang.set_of(0), [frozenset({0})]
    ),
    "a set in a record in a bag": (
        lang.Bag(OWNED, 2),
        lambda f: lang.put(f, OWNED(of=lang.set_of(1), n=1)),
        [((frozenset({2}), 0),), ((frozenset({0}), 3),)],
    ),
    "the value of an optional in a set": (
        SHADES, lambda f: lang.replace(f, all=f.all - lang.set_of(f.one.value)),
        [(None, frozenset({"red", "green"})), ("green", frozenset({"red", "green"}))],
    ),
    "a key among numbers": (
        lang.Map(KEY, SMALL), lambda f: lang.each(k, lang.if_(k.is_in(lang.set_of(0, 2)), 1, f[k])),
        [(0, 3, 3)],
    ),
    "a number that wraps": (lang.Int(-2, 1), lambda f: lang.wrap(f - 3, lang.Int(-2, 1)), [-2, 1]),
    "a number that leaves its range": (SMALL, lambda f: f + 1, [2, 3]),
    "an optional number one below its range": (
        lang.Optional(SMALL), lambda f: lang.some(f.value - 1), [None, 0, 3]
    ),
    "an optional truth": (lang.Optional(lang.Bool()), lambda f: ~f.value, [None, True, False]),
    "a plain value or none": (
        lang.Optional(SMALL), lambda f: lang.if_(f.is_set, None, 3), [None, 3]
    ),
    "maps of none": (
        lang.Map(KEY, lang.Optional(SMALL)), lambda f: lang.each(k, None), [(1, None, 2)]
    ),
    "the last of an empty sequence": (
        lang.Optional(PAIR), lambda f: lang.last(lang.sequence_of(f.value)), [None, (2, 1)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_means_the_same(name: str) -> None:
    kind, change, values = OPERATORS[name]
    grounded = one_field(kind, change)
    for value in values:
        state = (value, 0)
        assert ground_steps(grounded, grounded.vector(state)) == model_steps(grounded, state)


@pytest.mark.parametrize(
    "index",
    [
        lambda f: f[lang.size(lang.sequence_of(1)) + 2],
        lambda f: lang.updated(f, lang.lift(3), 0)[0],
        lambda f: f[f[0]],
    ],
)
def test_a_number_that_may_be_no_key_is_refused(
    index: Callable[[Expression], Expression],
) -> None:
    with pytest.raises(
        DeclarationError, match=r"table m.tick.*: .*(the 3 keys of the map are|they are) 0\.\.2"
    ):
        one_field(lang.Map(KEY, SMALL), lambda f: lang.each(k, index(f)))


def test_a_number_that_is_surely_a_key_is_one() -> None:
    grounded = one_field(lang.Map(KEY, SMALL), lambda f: lang.updated(f, lang.minimum(f[0], 2), 1))
    for state in (((0, 0, 0), 0), ((3, 0, 0), 0), ((2, 0, 0), 0)):
        assert ground_steps(grounded, grounded.vector(state)) == model_steps(grounded, state)


def test_a_set_of_too_many_numbers_is_refused() -> None:
    large = lang.Int(0, 2**20)
    machine = lang.Machine("m")
    x = machine.field("x", large)
    rows = (Row("r", when=lang.size(lang.set_of(x, x + 1)) == 1, set={x: x}),)
    system = System("large", (Table(machine, tick, rows),), ())
    with pytest.raises(DeclarationError, match="is too large"):
        ground(lang.instantiate(system))


# The graph ----------------------------------------------------------------------------------------


def test_equal_parts_are_one_node() -> None:
    g = Graph()
    a, b = g.leaf(0, 0, 3, False), g.leaf(1, 0, 3, False)
    assert g.add(a, b) is g.add(a, b)
    assert g.equal(a, b) is g.equal(b, a)
    assert g.not_(g.not_(g.less(a, b))) is g.less(a, b)


def test_what_an_interval_tells_is_known() -> None:
    g = Graph()
    low, high = g.leaf(0, 0, 3, False), g.leaf(1, 4, 6, False)
    assert g.less(low, high) is g.true
    assert g.less(high, low) is g.false
    assert g.equal(low, high) is g.false
    assert g.leaf(2, 5, 5, False) is g.number(5)
    assert g.modulo(low, 4) is low
    bit = g.less(low, g.number(2))
    assert g.and_(bit, g.not_(bit)) is g.false
    assert g.or_(bit, g.not_(bit)) is g.true


def test_numbers_beyond_native_ones_are_refused() -> None:
    g = Graph()
    large = g.leaf(0, 0, 2**62, False)
    assert g.add(large, g.number(1)).high == 2**62 + 1
    with pytest.raises(DeclarationError, match="beyond 64 bits"):
        g.add(g.add(large, large), large)


NODES = lang.Key("node", 1000)
i, j, k3 = (NODES.variable(name) for name in "ijk")
crowd = lang.Machine("crowd")
there = crowd.field("there", lang.Set(NODES))
some = lang.event("some", a=NODES, b=NODES, c=NODES)
pair = lang.event("pair", a=NODES, b=NODES)
other_pair = lang.event("other_pair", a=NODES, b=NODES)
tell = lang.event("tell")
Told = lang.message("Told", crowd, number=lang.Int(0, 10**6))
number = lang.variable("number", lang.Int(0, 10**6))
ALL_THREE = lang.all_of(i, lang.all_of(j, lang.all_of(k3, (i == j).implies(k3.is_in(there)))))
LARGE = {
    "a property": (
        (lang.Table(crowd, tell, (lang.Row("r"),)),), ALL_THREE,
        "property P: its expressions have 8,001,001,001 parts",
    ),
    "an event's parameters": (
        (lang.Table(crowd, some, (lang.Row("r", when=some.a.is_in(there)),)),),
        lang.all_of(i, i.is_in(there)),
        "table crowd.some: its expressions have 5,000,000,000 parts",
    ),
    "a row": (
        (lang.Table(crowd, tell, (lang.Row("r", when=ALL_THREE),)),),
        lang.all_of(i, i.is_in(there)),
        "table crowd.tell: its expressions have 8,001,001,003 parts",
    ),
    "the sum of two tables": (
        (lang.Table(crowd, pair, (lang.Row("r", when=pair.a.is_in(there)),)),
         lang.Table(crowd, other_pair, (lang.Row("r", when=other_pair.a.is_in(there)),))),
        lang.all_of(i, i.is_in(there)),
        "table crowd.other_pair: its expressions have 5,000,000 parts, for all values of "
        "parameters and variables, which takes the system over its limit of 10,000,000",
    ),
    "a row that sends": (
        (lang.Table(crowd, tell, (
            lang.Row("r", send=(lang.to_each(number, True, Told(number=number)),)),)),),
        lang.all_of(i, i.is_in(there)),
        "table crowd.tell, row 'r': Told is sent 1,000,001 times at once, and the limit is",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LARGE)
def test_what_is_too_much_to_ground_is_refused_at_once(case: str) -> None:
    tables, condition, said = LARGE[case]
    holds = lang.invariant("P", condition, "It holds.")
    parts = lang.System("s", tables, (holds,), channels=(lang.Channel(Told),), terminal=True)
    with pytest.raises(DeclarationError, match=f"{said}.*: use smaller bounds$"):
        ground(lang.instantiate(parts))


def test_the_constant_that_is_too_large_is_named() -> None:
    few, many = lang.constant("few", 2, 1, 9), lang.constant("many", 1000, 1, 1000)
    nodes, groups = lang.Key("node", many), lang.Key("group", few)
    a, b, c = (nodes.variable(name) for name in "abc")
    machine = lang.Machine("crowd")
    present = machine.field("present", lang.Set(nodes))
    machine.field("other", lang.Set(groups))
    everyone = lang.all_of(a, lang.all_of(b, lang.all_of(c, (a == b).implies(c.is_in(present)))))
    parts = lang.System(
        "s",
        (lang.Table(machine, tell, (lang.Row("r"),)),),
        (lang.invariant("P", everyone, "It holds."),),
        constants=(few, many),
        terminal=True,
    )
    with pytest.raises(DeclarationError, match=r"use smaller bounds, above all of many \(1000\)$"):
        ground(lang.instantiate(parts))


def test_substitutions_leave_nothing_for_the_garbage_collector() -> None:
    """Threads of pytest's workers leave a few objects meanwhile: fewer than one a substitution."""
    graph = Graph()
    leaf, two = graph.leaf(0, 0, 999, is_truth=False), graph.number(2)
    less, numbers = graph.less(graph.add(leaf, two), two), range(200, 400)
    gc.collect()
    gc.disable()
    try:
        found = {graph.substitute(less, {0: graph.number(number)}) for number in numbers}
        assert found == {graph.false}
        assert gc.collect() < len(numbers)
    finally:
        gc.enable()
