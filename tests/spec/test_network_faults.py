"""What the network loses, doubles and keeps in order, and what the environment chooses of a set."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from epochfence import language as lang
from epochfence.checker.check import Options, check
from epochfence.checker.verdict.result import Verdict
from epochfence.language import Channel, DeclarationError, Machine, Row, System, Table
from epochfence.tests.checker.plain_search import search

PEER = lang.Key("peer", 2)
NUMBER = lang.Int(0, 3)
peer = Machine("peer", PEER)
me = peer.this
sent = peer.field("sent", lang.Int(0, 2))
heard = peer.field("heard", lang.Sequence(lang.Int(0, 3), 2))
Note = lang.message("Note", to=peer, sender=peer, number=lang.Int(0, 3))
say, crash = lang.event("say"), lang.event("crash")
p, q = PEER.variable("p"), PEER.variable("q")

saying = Table(
    peer,
    say,
    when=(sent < 2) & (lang.position(me) == 0),
    rows=(Row("say", set={sent: sent + 1}, send=(lang.to_others(Note(number=sent + 1)),)),),
)
hearing = Table(
    peer,
    Note,
    when=lang.size(heard) < 2,
    rows=(Row("hear", set={heard: lang.append(heard, Note.number)}),),
)
e = lang.element("e", heard.at(1))
in_order = lang.invariant(
    "InOrder",
    lang.first_of(e, e == 2).is_set.implies(lang.first(heard.at(1)) == 1),
    "The second isn't heard first.",
)
once = lang.invariant("Once", lang.count_of(e, e == 1) <= 1, "The first isn't heard twice.")
anything = lang.invariant("Anything", lang.lift(True), "It holds.")


def system(channel: Channel, *properties: lang.Property, **parts: Any) -> System:
    """Peer 0 tells peer 1 two numbers."""
    given: dict[str, Any] = {"tables": (saying, hearing), "channels": (channel,), "terminal": True}
    return System("notes", properties=properties or (anything,), **(given | parts))


CHANNELS = {
    f"{'ordered' if ordered else 'unordered'}{' lossy' * lossy}{' doubled' * copies}": Channel(
        Note, 2, ordered, lossy, copies
    )
    for ordered in (False, True)
    for lossy in (False, True)
    for copies in (0, 1)
}


@pytest.mark.parametrize("name", CHANNELS)
def test_each_kind_of_channel_between_peers(name: str) -> None:
    channel = CHANNELS[name]
    instance = lang.instantiate(system(channel))
    wanted, found = search(instance), check(instance, Options(symmetry=False, slicing=False))
    assert (found.states, found.transitions) == (wanted.states, wanted.transitions)
    broken = search(lang.instantiate(system(channel, in_order, once))).broken
    lossy, copies = channel.lossy, channel.duplicates
    expected = {"InOrder": not channel.ordered or lossy, "Once": copies == 1}
    assert {n: n in broken for n in expected} == expected


def test_what_is_lost_or_doubled_is_told_by_name() -> None:
    lossy = system(Channel(Note, 2, lossy=True), lang.invariant(
        "All", (sent.at(0) < 2) | lang.any_of(lang.in_flight("m", Note, sender=0, to=1), True)
        | (lang.size(heard.at(1)) == 2), "Something is in flight."))  # fmt: skip
    trace = check(lang.instantiate(lossy)).trace
    assert trace is not None
    assert ("network", "Note(peer0 → peer1, number=1)", "lost") in [
        (step.actor, step.action, step.row) for step in trace.steps
    ]
    trace = check(lang.instantiate(system(Channel(Note, 2, duplicates=1), once))).trace
    assert trace is not None
    doubled = next(step for step in trace.steps if step.row == "duplicated")
    assert doubled.action == "Note again(peer0 → peer1, number=1)"
    assert doubled.sends == ("Note(peer0 → peer1, number=1)",)


# A crash ------------------------------------------------------------------------------------------


def crashing(*drop: lang.Message | lang.Dropping) -> System:
    """Peer 0 may crash, and drops something then."""
    crashed = Table(peer, crash, when=lang.position(me) == 0, rows=(Row("crash", drop=drop),))
    return system(Channel(Note, 2), tables=(saying, hearing, crashed), budgets={crash: 1})


@pytest.mark.parametrize(
    ("drop", "loses"),
    [
        ((Note,), 1),
        ((lang.dropping(Note, sender=me),), 1),
        ((lang.dropping(Note, to=1),), 1),
        ((lang.dropping(Note),), 1),
        ((lang.dropping(Note, to=me),), 0),
        ((), 0),
    ],
)
def test_a_crash_drops_what_is_in_flight(drop: tuple[Any, ...], loses: int) -> None:
    wanted = lang.invariant(
        "Kept",
        (sent.at(0) == 0)
        | (lang.size(heard.at(1)) > 0)
        | lang.any_of(lang.in_flight("m", Note, sender=0, to=1), True),
        "What is said is in flight or heard.",
    )
    instance = lang.instantiate(replace(crashing(*drop), properties=(wanted,)))
    result = check(instance)
    assert (result.verdict is Verdict.BROKEN) == bool(loses)
    if result.trace is not None:
        last = result.trace.steps[-1]
        assert (last.row, last.loses) == ("crash", ("Note(peer0 → peer1, number=1)",))
    reference = search(lang.instantiate(crashing(*drop)))
    found = check(lang.instantiate(crashing(*drop)), Options(symmetry=False, slicing=False))
    assert (found.states, found.transitions) == (reference.states, reference.transitions)


def test_drops_that_cannot_be() -> None:
    with pytest.raises(DeclarationError, match="row 'r': the address of Note has no peer"):
        Table(peer, crash, (Row("r", drop=(lang.dropping(Note, peer=me),)),))
    other = Machine("other", lang.Key("other", 2))
    with pytest.raises(DeclarationError, match="no part of the address of Note names an instance"):
        Table(other, crash, (Row("r", drop=(Note,)),))
    with pytest.raises(DeclarationError, match=r"Note \(table peer.crash\) has no channel"):
        System("s", (Table(peer, crash, (Row("r", drop=(Note,)),)),), (anything,))


# Chosen of a set ----------------------------------------------------------------------------------

JOB = lang.record("Job", of=PEER, size=lang.Int(0, 1))
desk = Machine("desk")
waiting = desk.field("waiting", lang.Set(PEER))
queue = desk.field("queue", lang.Sequence(JOB, 3))
held = desk.field("held", lang.Optional(PEER))
come = lang.event("come", peer=PEER, size=lang.Int(0, 1))
serve, work = lang.event("serve", peer=waiting), lang.event("work", job=queue)
coming = Table(desk, come, when=lang.size(queue) < 3, rows=(
    Row("come", set={
        waiting: waiting | lang.set_of(come.peer),
        queue: lang.append(queue, JOB(of=come.peer, size=come.size)),
    }),
))  # fmt: skip
serving = Table(
    desk,
    serve,
    rows=(Row("serve", set={held: serve.peer, waiting: waiting - lang.set_of(serve.peer)}),),
)
working = Table(
    desk,
    work,
    when=work.job.size == 1,
    rows=(Row("work", set={held: work.job.of, queue: lang.sequence_of(work.job)}),),
)


@pytest.mark.parametrize("table", [serving, working])
def test_an_event_over_what_a_collection_holds(table: Table) -> None:
    instance = lang.instantiate(System("desk", (coming, table), (anything,), terminal=True))
    wanted, found = search(instance), check(instance, Options(symmetry=False, slicing=False))
    assert (found.states, found.transitions) == (wanted.states, wanted.transitions)
    assert wanted.taken[1] > 0
    from epochfence.model.engine.compiler.stepper import Stepper
    from epochfence.model.engine.interpreter import Interpreter

    state = (frozenset({1}), ((0, 1), (1, 0), (0, 1)), None)
    steps = [s.state for s in Interpreter(instance).steps(state)]
    assert Counter(steps) == Counter(s.state for s in Stepper(instance).steps(state))
    assert len(steps) == 1  # of equal elements, one


def test_what_is_chosen_is_shown() -> None:
    never = lang.invariant("Never", ~held.is_set, "Nobody is served.")
    for table, said in ((serving, "serve(peer0)"), (working, "work((of=peer0, size=1))")):
        result = check(lang.instantiate(System("desk", (coming, table), (never,), terminal=True)))
        assert result.trace is not None
        assert result.trace.steps[-1].action == said


def test_collections_that_cannot_be_chosen_from() -> None:
    with pytest.raises(DeclarationError, match="e: `held` is optional peer: it has no elements"):
        lang.event("e", x=held)
    with pytest.raises(DeclarationError, match="event e: a and b are both no plain values"):
        lang.event("e", a=queue, b=queue)
    with pytest.raises(DeclarationError, match="is a field of desk, not of peer"):
        Table(peer, lang.event("serve", another=waiting), (Row("r"),))
