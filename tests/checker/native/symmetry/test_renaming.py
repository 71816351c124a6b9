"""States counted up to renaming are as many as there are orbits, counted without any cleverness."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from math import factorial
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings

from epochfence import language as lang
from epochfence.checker.check import Options, check
from epochfence.checker.ground import ground
from epochfence.checker.native.symmetry.renaming import transpositions
from epochfence.checker.native.symmetry.symmetry import MOST_RENAMINGS, Symmetry, find_symmetry
from epochfence.checker.prepare import prepare
from epochfence.checker.slicing import sliced, without_constants
from epochfence.checker.verdict.result import Verdict
from epochfence.language import Instance, Key, instantiate
from epochfence.language.terms.values import canonical
from epochfence.language.types import Type, Value
from epochfence.model.engine.interpreter import FullState, Interpreter
from epochfence.spec.systems import shipped
from epochfence.tests.checker import raft_election as raft
from epochfence.tests.checker.drawn_systems import instances
from epochfence.tests.checker.plain_search import search


def reachable(instance: Instance, most: int) -> set[FullState]:
    """Every state, found by the plain interpreter."""
    machine = Interpreter(instance)
    seen = set(machine.initial_states())
    frontier = list(seen)
    while frontier:
        if len(seen) > most:
            raise ValueError(f"more than {most} states")
        found = {step.state for state in frontier for step in machine.steps(state)}
        frontier = [state for state in found if state is not None and state not in seen]
        seen.update(frontier)
    return seen


def renamed(kind: Type, value: Any, names: dict[Key, tuple[int, ...]], instance: Instance) -> Value:
    """The value with every instance called as `names` say."""

    def within(of: Type, part: Any) -> Value:
        return renamed(of, part, names, instance)

    match kind:
        case Key():
            return names[kind][value] if kind in names else value
        case lang.Optional():
            return None if value is None else within(kind.of, value)
        case lang.Set():
            return frozenset(within(kind.of, part) for part in value)
        case lang.Sequence():
            return tuple(within(kind.of, part) for part in value)
        case lang.Bag():
            parts = tuple(within(kind.of, part) for part in value)
            return canonical(kind.of, parts, instance.constants)
        case lang.Record():
            fields = zip(kind.fields, value, strict=True)
            return tuple(within(of, part) for (_, of), part in fields)
        case lang.Map():
            parts = [within(kind.of, part) for part in value]
            if kind.key not in names:
                return tuple(parts)
            order = names[kind.key]
            return tuple(parts[order.index(at)] for at in range(len(parts)))
        case _:
            return value


def images(instance: Instance, state: FullState, keys: list[Key]) -> Iterator[FullState]:
    """What all renamings of the keys' instances make of a state."""
    ways = [permutations(range(key.count(instance.constants))) for key in keys]
    for orders in product(*ways):
        names = dict(zip(keys, orders, strict=True))
        pairs = zip(instance.variables, state, strict=True)
        yield tuple(renamed(v.type, value, names, instance) for v, value in pairs)


def alike_at_first(instance: Instance, keys: list[Key]) -> bool:
    """Whether instances differ in no initial state, not even in what nothing looks at."""
    initial = set(instance.initial_states())
    return all(image in initial for state in initial for image in images(instance, state, keys))


def orbits(instance: Instance, states: set[FullState], keys: list[Key]) -> int:
    """How many states there are that no renaming makes of each other."""
    left, found = set(states), 0
    while left:
        found += 1
        for image in images(instance, left.pop(), keys):
            assert image in states  # else the system tells its instances apart
            left.discard(image)
    return found


def keys_of(instance: Instance, names: list[str]) -> list[Key]:
    return [key for key in instance.system.interchangeable if key.name in names]


def compare(instance: Instance, most: int = 1_000) -> list[str]:
    """The explorer's count of states against that of orbits; answers the keys reduced by."""
    try:
        states = reachable(instance, most)
    except ValueError:
        reject()
    held = instantiate(
        instance.system,
        instance.protocol,
        instance.constants,
        properties=[p.name for p in instance.properties if p.name not in search(instance).broken],
    )
    result = check(held, Options(slicing=False))
    keys = keys_of(held, result.symmetry)
    if result.verdict is not Verdict.HOLDS or not alike_at_first(held, keys):
        return []
    assert result.states == orbits(held, states, keys)
    return result.symmetry


@pytest.mark.slow
@settings(max_examples=4, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(instances())
def test_random_systems(instance: Instance) -> None:
    compare(instance)


@pytest.mark.slow(1)
@pytest.mark.parametrize("servers", [1, 2, 3])
def test_an_election(servers: int) -> None:
    instance = instantiate(raft.election(), constants={"servers": servers})
    assert compare(instance, 1_500) == (["server"] if servers > 1 else [])


def test_an_election_with_messages_that_wait_side_by_side() -> None:
    """Two keys in an address, and two messages of one address in a bag."""
    channels = (lang.Channel(raft.RequestVote, 2, duplicates=1), lang.Channel(raft.Vote, 2))
    instance = instantiate(raft.election(channels=channels), constants={"servers": 2, "terms": 1})
    assert compare(instance, 3_000) == ["server"]


# Bags of keys, and what an absent value is stored as ----------------------------------------------

PEER = Key("peer", 3)
CARD = lang.record("Card", of=PEER, other=lang.Optional(PEER), seen=lang.Set(PEER))
desk = lang.Machine("desk")
bag = desk.field("bag", lang.Bag(CARD, 2))
queue = desk.field("queue", lang.Sequence(CARD, 1))
kept = desk.field("kept", lang.Bag(PEER, 2))
peer = lang.Machine("peer", PEER)
friend = peer.field("friend", lang.Optional(PEER))
come = lang.event("come", of=PEER, other=lang.Optional(PEER))
move, leave, like = lang.event("move", card=bag), lang.event("leave", who=kept), lang.event("like")
TABLES = (
    lang.Table(desk, come, when=lang.size(bag) < 2, rows=(lang.Row("come", set={
        bag: lang.put(bag, CARD(of=come.of, other=come.other, seen=lang.set_of(come.of))),
    }),)),
    lang.Table(desk, move, when=(lang.size(queue) < 1) & (lang.size(kept) < 2), rows=(
        lang.Row("move", set={
            bag: lang.take(bag, move.card), queue: lang.sequence_of(move.card),
            kept: lang.put(kept, move.card.of),
        }),
    )),
    lang.Table(desk, leave, rows=(
        lang.Row("leave", set={kept: lang.take(kept, leave.who), queue: lang.sequence_of()}),
    )),
)  # fmt: skip
anything = lang.invariant(
    "Anything", lang.size(bag) + lang.size(queue) + lang.size(kept) >= 0, "It holds."
)


def cards(*tables: lang.Table, **parts: Any) -> lang.System:
    given: dict[str, Any] = {"interchangeable": (PEER,), "terminal": True}
    return lang.System("cards", (*TABLES, *tables), (anything,), **(given | parts))


@pytest.mark.slow(1)
def test_bags_of_what_names_instances() -> None:
    assert compare(instantiate(cards()), 20_000) == ["peer"]


# Several keys at once -----------------------------------------------------------------------------

CLIENTS, SHELVES = (lang.constant(n, 2, 1, 6, meaning=n) for n in ("clients", "shelves"))
CLIENT, SHELF = Key("client", CLIENTS), Key("shelf", SHELVES)
client, shelf = lang.Machine("client", CLIENT), lang.Machine("shelf", SHELF)
put_there = client.field("put_there", lang.Map(SHELF, lang.Bool()))
liked = client.field("liked", lang.Optional(SHELF))
filled = shelf.field("filled", lang.Bool())
last = shelf.field("last", lang.Optional(CLIENT))
Put = lang.message("Put", to=shelf, sender=client)
begin, prefer = lang.event("begin", of=SHELF), lang.event("prefer", of=SHELF)
PUTTING = (
    lang.Table(
        client,
        begin,
        when=~put_there[begin.of],
        rows=(lang.Row("begin", set={put_there[begin.of]: True}, send=(Put(to=begin.of),)),),
    ),
    lang.Table(shelf, Put, rows=(lang.Row("put", set={filled: True}),)),
)
REFERRING = (
    PUTTING[0],
    lang.Table(shelf, Put, rows=(lang.Row("put", set={filled: True, last: Put.sender}),)),
    lang.Table(
        client, prefer, when=liked == None, rows=(lang.Row("prefer", set={liked: prefer.of}),)
    ),
)


def library(tables: tuple[lang.Table, ...], **constants: int) -> Instance:
    """Clients that put things on shelves: each client has something by each shelf."""
    system = lang.System(
        "library",
        tables,
        (lang.invariant("Any", lang.lift(True), "It holds."),),
        constants=(CLIENTS, SHELVES),
        channels=(lang.Channel(Put),),
        interchangeable=(CLIENT, SHELF),
        terminal=True,
    )
    return instantiate(system, constants=constants)


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    ("tables", "clients", "shelves"),
    [(PUTTING, 2, 2), (PUTTING, 3, 2), (PUTTING, 2, 3), (REFERRING, 2, 2), (REFERRING, 1, 3)],
)
def test_keys_with_instances_in_common(
    tables: tuple[lang.Table, ...], clients: int, shelves: int
) -> None:
    instance = library(tables, clients=clients, shelves=shelves)
    assert sorted(compare(instance, 2_000)) == ["client", "shelf"][clients == 1 :]


@pytest.mark.parametrize("tables", [PUTTING, REFERRING])
def test_states_of_one_representative_are_an_orbit(tables: tuple[lang.Table, ...]) -> None:
    instance = library(tables)
    prepared, states = prepare(instance, slicing=False), reachable(instance, 2_000)
    orbits: dict[bytes, set[FullState]] = {}
    for state in states:
        orbits.setdefault(prepared.pack(state), set()).add(state)
    for orbit in orbits.values():
        assert orbit == set(images(instance, next(iter(orbit)), [CLIENT, SHELF]))
    assert len(orbits) == check(instance, Options(slicing=False)).states
    assert len(orbits) < len(states) / 2


def test_the_key_with_the_most_instances_is_sorted() -> None:
    """As many renamings are tried as the others have."""

    def found(clients: int, shelves: int) -> Symmetry:
        instance = library(PUTTING, clients=clients, shelves=shelves)
        return find_symmetry(sliced(without_constants(ground(instance))))

    for symmetry, most in ((found(6, 2), CLIENT), (found(2, 6), SHELF)):
        assert [orbit.key for orbit in symmetry.orbits] == [most]
        assert len(symmetry.renamings) == 1
    assert found(6, 6).refused == (
        "shelf: client.put_there[0][0] belongs to an instance of another key that is reduced "
        f"already, and there are {factorial(6)} renamings, more than {MOST_RENAMINGS}",
    )


@pytest.mark.slow(2)
def test_orbits_of_a_shipped_system_add_up() -> None:
    """The states that differ by renaming from those kept are all that there are, each once."""
    constants = {"block_size": 1, "largest_producer_id": 1, "faults": 0}
    instance = instantiate(shipped("producer-ids"), constants=constants)
    prepared = prepare(instance, slicing=False)
    kept = check(instance, Options(slicing=False, keep_states=True))
    whole = check(instance, Options(slicing=False, symmetry=False))
    assert kept.symmetry == ["broker", "handler"]
    assert (kept.verdict, kept.depth) == (whole.verdict, whole.depth)
    assert kept.found is not None
    explorer, leaves = kept.found.explorer, prepared.grounded.initials[0]
    stride, total = prepared.packing.stride, 0
    for level in range(explorer.depth):
        packed = b"".join(explorer.level_bytes(level))
        for at in range(0, len(packed), stride):
            numbers = prepared.packing.unpack(packed[at : at + stride], leaves)
            state = prepared.grounded.plain(numbers)
            keys = keys_of(instance, kept.symmetry)
            total += len(set(images(instance, state, keys)))
    assert kept.states < whole.states / 3
    assert total == whole.states


@pytest.mark.slow(4)
def test_each_orbit_of_transactions_has_one_of_its_states_for_it(seed: int) -> None:
    """Along random runs at the default bounds, of two clients that write to two partitions."""
    instance = instantiate(shipped("transactions"))
    prepared, machine = prepare(instance, slicing=False), Interpreter(instance)
    keys = keys_of(instance, list(prepared.symmetry.keys))
    assert [key.name for key in keys] == ["producer", "partition"]
    random, leaves, moved = Random(seed), prepared.grounded.initials[0], 0
    for _ in range(3):
        (state,) = machine.initial_states()
        for _ in range(40):
            following = [step.state for step in machine.steps(state) if step.state is not None]
            if not following:
                break
            state = random.choice(following)
            every, packed = [*images(instance, state, keys)], prepared.pack(state)
            assert {prepared.pack(image) for image in every} == {packed}
            assert prepared.grounded.plain(prepared.packing.unpack(packed, leaves)) in every
            moved += len(set(every)) > 2
    assert moved


# What prevents it ---------------------------------------------------------------------------------


def refused(system: lang.System, **constants: int) -> tuple[str, ...]:
    return find_symmetry(ground(instantiate(system, constants=constants))).refused


def test_what_prevents_renaming_is_said() -> None:
    first = lang.Table(
        desk,
        lang.event("f"),
        (lang.Row("f", when=lang.first(queue).value.of.is_in(lang.set_of()), set={kept: kept}),),
    )
    assert refused(cards(first)) == ("peer: `first(queue).value` distinguishes them",)
    drawn = lang.element("drawn", bag)
    chosen = lang.first_of(drawn, lang.lift(True)).is_set  # of a bag in the order of its values
    some = lang.Table(desk, lang.event("f"), (lang.Row("f", when=chosen, set={kept: kept}),))
    assert refused(cards(some)) == ("peer: `first_of(drawn in bag: True)` distinguishes them",)
    numbered = lang.Table(peer, like, (lang.Row("like", set={friend: 0}),))
    assert refused(cards(numbered)) == ("peer: `0` distinguishes them",)
    assert refused(raft.election(), servers=5, terms=1) == ()
    many = Key("many", 6)
    crowd = lang.Machine("crowd", many)
    chosen = crowd.field("chosen", lang.Optional(many))
    pick = lang.event("pick", who=many)
    system = lang.System(
        "crowd",
        (lang.Table(crowd, pick, (lang.Row("r", set={chosen: pick.who}),)),),
        (lang.invariant("Any", lang.lift(True), "It holds."),),
        interchangeable=(many,),
    )
    assert refused(system) == (
        f"many: they refer to each other, and there are {factorial(6)} renamings, more than "
        f"{MOST_RENAMINGS}",
    )


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_neighbours_exchanged_come_through_every_order(count: int) -> None:
    order = list(range(count))
    seen = {tuple(order)}
    for at in transpositions(count):
        order[at], order[at + 1] = order[at + 1], order[at]
        seen.add(tuple(order))
    assert len(seen) == len(transpositions(count)) + 1 == factorial(count)


@pytest.mark.slow(1)
def test_a_representative_is_its_own() -> None:
    instance = instantiate(raft.election())
    prepared = prepare(instance)
    states = sorted(reachable(instance, 1_500), key=repr)[::7]
    once = {prepared.pack(state) for state in states}
    for state in states:
        pairs = zip(instance.variables, state, strict=True)
        other: Any = tuple(renamed(v.type, x, {raft.SERVER: (2, 0, 1)}, instance) for v, x in pairs)
        assert prepared.pack(other) == prepared.pack(state)
    assert len(once) < len(states)
