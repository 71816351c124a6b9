"""The native explorer and the plain Python search agree on random systems."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, reject, settings

from epochfence.checker.check import Options, check
from epochfence.checker.native.codegen import lower
from epochfence.checker.native.store import pack
from epochfence.checker.native.symmetry import renaming
from epochfence.checker.verdict.result import Outcome as Ran
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.checker.verdict.violation import DEADLOCK, RANGE
from epochfence.language import Action, Expression, Instance, expressions, instantiate
from epochfence.language.expressions import children_first, rewrite
from epochfence.language.terms.derived import DERIVED, definition
from epochfence.model.engine.interpreter import Interpreter
from epochfence.tests.checker.drawn_systems import instances
from epochfence.tests.checker.native.grouping import by_parts, in_lanes
from epochfence.tests.checker.plain_search import Reference, search

MOST_STATES = 1_500
# An example takes half a second; what is too large for the plain search is passed over.
unhurried = [HealthCheck.too_slow, HealthCheck.filter_too_much]


@dataclass(frozen=True)
class Outcome:
    """A verdict, and the number of steps of the counterexample."""

    verdict: Verdict
    steps: int | None = None


def expected(reference: Reference, instance: Instance) -> Outcome:
    """The first fault by level; in a level, of a state before a deadlock before of a step."""
    found: list[tuple[int, int, Outcome]] = []
    for item in instance.properties:
        length = reference.broken.get(item.name)
        if length is not None and item.kind == "invariant":
            found.append((length, 0, Outcome(Verdict.BROKEN, length - 1)))
        elif length is not None:
            found.append((length - 1, 2, Outcome(Verdict.BROKEN, length - 1)))
    if reference.deadlock is not None:
        outcome = Outcome(Verdict.DEADLOCK, reference.deadlock - 1)
        found.append((reference.deadlock, 1, outcome))
    if reference.out_of_range is not None:
        outcome = Outcome(Verdict.BROKEN, reference.out_of_range - 1)
        found.append((reference.out_of_range - 1, 2, outcome))
    return min(found, key=lambda f: f[:2])[2] if found else Outcome(Verdict.HOLDS)


def outcome(result: Result) -> Outcome:
    """What the explorer found."""
    return Outcome(verdict_of(result), None if result.trace is None else len(result.trace.steps))


def verdict_of(result: Result) -> Verdict:
    """The verdict as of engines that don't ask whether what holds does so vacuously."""
    every = len(result.properties)
    vacuous = result.verdict is Verdict.INCONCLUSIVE and len(result.untested) == every > 0
    return Verdict.HOLDS if vacuous else result.verdict


def replay(instance: Instance, result: Ran) -> None:
    """The trace is a run of the model, and ends in what the result says."""
    assert result.trace is not None
    machine = Interpreter(instance)
    states = result.trace.states
    assert states[0] in set(machine.initial_states())
    for before, after in pairwise(states):
        assert after in [step.state for step in machine.steps(before)]
    last = list(machine.steps(states[-1]))
    properties = {item.name: item for item in instance.properties}
    broken = [p.name for p in result.properties if p.verdict == "broken"]
    if result.verdict is Verdict.DEADLOCK:
        assert not last
        assert broken in ([], [DEADLOCK])
    elif broken == [RANGE]:
        assert any(step.out_of_range for step in last)
        assert len(states) == len(result.trace.steps)
    elif properties[broken[0]].kind == "invariant":
        assert not machine.holds(properties[broken[0]].expression, states[-1])
    else:
        assert not machine.step_holds(properties[broken[0]], states[-2], states[-1])


def compare(instance: Instance, reference: Reference) -> None:
    """The explorer in all its ways, against the search."""
    wanted = expected(reference, instance)
    plain: list[tuple[object, ...]] = []
    for threads in (1, 2):
        result = check(instance, Options(threads, symmetry=False, slicing=False))
        assert outcome(result) == wanted
        counts = (result.states, result.transitions, result.depth, [n for _, n in result.rows])
        if wanted.verdict is Verdict.HOLDS:
            assert counts == (
                reference.states,
                reference.transitions,
                reference.depth,
                reference.taken,
            )
            assert [*result.first_depths.values()] == reference.first
        else:
            replay(instance, result)
        plain.append((*counts, result.trace))
    assert plain[0] == plain[1]
    for options in (Options(symmetry=False), Options(slicing=False), Options(threads=2)):
        result = check(instance, options)
        assert outcome(result) == wanted
        if wanted.verdict is not Verdict.HOLDS:
            replay(instance, result)
            continue
        assert result.states <= reference.states
        assert result.depth <= reference.depth
        assert [n > 0 for _, n in result.rows] == [n > 0 for n in reference.taken]
        assert [*result.first_depths.values()] == reference.first


def compare_going_on(instance: Instance, reference: Reference) -> None:
    """A run that goes on finds the shortest counterexample of everything, and all states; unless a
    step leaves a range, where it ends with what there is up to then."""
    steps = {item.name for item in instance.properties if item.kind == "step"}
    wanted = {name: length - 1 for name, length in reference.broken.items()}
    if reference.deadlock is not None:
        wanted[DEADLOCK] = reference.deadlock - 1
    rest = "holds"
    if reference.out_of_range is not None:
        rest, last = "unknown", reference.out_of_range - 1
        wanted = {name: at for name, at in wanted.items() if at < last + (name in steps)}
        wanted[RANGE] = last
    plain = Options(symmetry=False, slicing=False, keep_going=True)
    brief = Options(keep_going=True, brief=True)
    for options in (plain, Options(threads=2, keep_going=True), brief):
        result = check(instance, options)
        found = {item.name: item for item in result.properties}
        assert set(found) == {item.name for item in instance.properties} | set(wanted)
        for name, item in found.items():
            verdict = "broken" if name in wanted else rest
            assert (item.verdict, item.trace_length) == (verdict, wanted.get(name))
            assert (item.trace is None) == (options is brief or name not in wanted)
            if item.trace is not None:
                alone = Verdict.DEADLOCK if name == DEADLOCK else Verdict.BROKEN
                replay(
                    instance, replace(result, properties=[item], trace=item.trace, verdict=alone)
                )
        assert (result.trace is not None) == (bool(wanted) and options is not brief)
        if options is plain and rest == "holds":
            counts = (result.states, result.transitions, result.depth, [n for _, n in result.rows])
            assert counts == (
                reference.states,
                reference.transitions,
                reference.depth,
                reference.taken,
            )


def compare_with_some_properties(instance: Instance) -> None:
    """The system with the properties that hold in it, and with one that takes longest to break."""
    try:
        reference = search(instance, MOST_STATES)
    except ValueError:
        reject()

    def only(names: list[str]) -> Instance:
        return instantiate(instance.system, instance.protocol, instance.constants, properties=names)

    names = [item.name for item in instance.properties]
    holding = [name for name in names if name not in reference.broken]
    compare(only(holding) if holding else instance, reference)
    compare_going_on(instance, reference)
    if holding and reference.broken:
        compare(only([max(reference.broken, key=lambda n: reference.broken[n])]), reference)


@pytest.mark.slow(10)
@settings(max_examples=6, suppress_health_check=unhurried)
@given(instances())
def test_native_code_finds_what_a_plain_search_finds(instance: Instance) -> None:
    compare_with_some_properties(instance)


@pytest.mark.slow
@settings(max_examples=3, suppress_health_check=unhurried)
@given(instances())
def test_in_many_words_and_parts_and_compiled_as_large_systems_are(instance: Instance) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module in (pack, renaming):
            patch.setattr(module, "WORD", 4)  # bits, of 64
        for name in ("INLINE", "PART", "COPIED"):
            patch.setattr(lower, name, 0)
        with by_parts():
            compare_with_some_properties(instance)


@pytest.mark.slow
@settings(max_examples=3, suppress_health_check=unhurried)
@given(instances())
def test_several_states_at_once(instance: Instance) -> None:
    with in_lanes():
        compare_with_some_properties(instance)


def written_out(e: Expression) -> Expression | None:
    """A derived operator's definition, of core operators alone."""
    made = definition(e)
    return None if made is None else rewrite(made, written_out)


def in_core_operators(instance: Instance) -> Instance:
    """The instance with every derived operator written out."""

    def core(e: Expression) -> Expression:
        return rewrite(e, written_out)

    def acted(action: Action) -> Action:
        rows = tuple(
            replace(
                row,
                guard=core(row.guard),
                rooms=tuple((message, core(room)) for message, room in row.rooms),
                updates=tuple((core(target), core(value)) for target, value in row.updates),
            )
            for row in action.rows
        )
        taken = None if action.taken is None else core(action.taken)
        return replace(action, when=core(action.when), rows=rows, taken=taken)

    return replace(
        instance,
        actions=tuple(map(acted, instance.actions)),
        properties=tuple(item.changed(core) for item in instance.properties),
        terminal=core(instance.terminal),
    )


@pytest.mark.slow(4)
@settings(max_examples=12, suppress_health_check=unhurried)
@given(instances())
def test_derived_operators_mean_their_definitions(instance: Instance) -> None:
    core = in_core_operators(instance)
    assert not {node.op for part in parts(core) for node in children_first(part)} & DERIVED
    try:
        reference, other = (search(each, MOST_STATES) for each in (instance, core))
    except ValueError:
        reject()
    assert replace(other, met=reference.met) == reference  # probes are of declared operators
    for each in (instance, core):
        found = check(each, Options(symmetry=False, slicing=False))
        assert outcome(found) == expected(reference, instance)
        if outcome(found).verdict is Verdict.HOLDS:
            assert (found.states, found.transitions) == (reference.states, reference.transitions)


# What the examples are made of --------------------------------------------------------------------

# A system's protocol and rows settle these.
SETTLED = {"feature", "constant", "parameter", "this"}


def all_operators() -> set[str]:
    """The operators that the language's own source names."""
    sources = (file.read_text() for file in Path(expressions.__file__).parent.rglob("*.py"))
    found = re.findall(r'Expression\(\n? *"(\w+)"', "".join(sources))
    return set(found) | expressions.QUANTIFIERS


def parts(instance: Instance) -> Iterator[Expression]:
    """Every expression that an engine reads."""
    for action in instance.actions:
        yield action.when
        for row in action.rows:
            yield from (row.guard, row.room, *(part for pair in row.updates for part in pair))
    yield from (item.expression for item in instance.properties)
    yield instance.terminal


def declared(instance: Instance) -> Iterator[Expression]:
    """Every expression as it is declared."""
    for table in instance.system.tables:
        for row in table.rows:
            yield from (
                row.guard,
                row.during,
                *(part for pair in table.updates(row) for part in pair),
            )


@pytest.mark.slow(1)
def test_the_examples_use_every_operator() -> None:
    read: Counter[str] = Counter()
    written: Counter[str] = Counter()

    @settings(max_examples=250, database=None, derandomize=True, suppress_health_check=unhurried)
    @given(instances())
    def count(instance: Instance) -> None:
        read.update({node.op for part in parts(instance) for node in children_first(part)})
        written.update({node.op for part in declared(instance) for node in children_first(part)})

    count()
    wanted = all_operators() - {"in_flight", "any_value"}  # an instance has others in their place
    assert {"eq", "insert_by", "after", "wrap", "first_of"} <= wanted
    rare = {op: read[op] for op in wanted - SETTLED if read[op] < 3}
    rare |= {op: written[op] for op in SETTLED & wanted if written[op] < 3}
    assert rare == {}
