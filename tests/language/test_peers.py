"""Messages between instances of one machine: who sends them, who gets them, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from epochfence import language as lang
from epochfence.checker.check import check
from epochfence.checker.verdict.result import Verdict
from epochfence.language import DeclarationError, Machine, Message, Row, Table
from epochfence.model.engine.interpreter import Interpreter
from epochfence.tests.checker import raft_election as raft
from epochfence.tests.checker.plain_search import search
from epochfence.tests.checker.raft_election import RequestVote, Vote, me, server

PEER = lang.Key("peer", 3)
CLIENT = lang.Key("client", 2)


def between(
    machine: Machine, note: Message, *tables: Table, rows: tuple[Row, ...] = (), **parts: Any
) -> lang.System:
    """A system in which `machine` takes `note`, and does nothing on it unless `rows` say more."""
    taking = Table(machine, note, rows or (Row("taken"),))
    held = lang.invariant("Anything", lang.lift(True), "It holds.")
    given: dict[str, Any] = {"channels": (lang.Channel(note),), "terminal": True}
    return lang.System("peers", (*tables, taking), (held,), **(given | parts))


def moves(system: lang.System, count: int) -> list[tuple[str, tuple[str, ...]]]:
    """What is done, and what is sent, along one run of so many steps."""
    found = lang.instantiate(system)
    machine = Interpreter(found)
    state = next(iter(machine.initial_states()))
    states, steps = [state], []
    for _ in range(count):
        step = next(iter(machine.steps(states[-1])))
        assert step.state is not None
        steps.append(step)
        states.append(step.state)
    from epochfence.checker.trace.trace import shown_trace

    trace = shown_trace(found, states, steps, "")
    return [(f"{s.actor}: {s.action}", s.sends) for s in trace.steps]


# Addresses ----------------------------------------------------------------------------------------


def test_sender_and_addressee_are_the_address() -> None:
    assert RequestVote.address == (("sender", raft.SERVER), ("to", raft.SERVER))
    assert [name for name, _ in RequestVote.content.fields] == ["term"]
    assert RequestVote.goes_to == lang.End("server", "to")
    assert RequestVote.comes_from == lang.End("server", "sender")


def test_a_response_goes_back() -> None:
    assert dict(Vote.address) == dict(RequestVote.address)
    assert (Vote.goes_to, Vote.comes_from) == (lang.End("server", "to"), RequestVote.comes_from)
    service, client = Machine("service"), Machine("client", CLIENT)
    ask = lang.message("Ask", to=service, sender=client)
    told = lang.message("Told", to=client, answers=ask, number=lang.Int(0, 1))
    assert dict(ask.address) == {"sender": CLIENT}
    assert dict(told.address) == {"to": CLIENT}
    assert told.comes_from == lang.End("service")


def test_a_key_beside_them_is_content() -> None:
    note = lang.message("Note", to=server, sender=server, about=raft.SERVER)
    assert [name for name, _ in note.content.fields] == ["about"]


service, client, other = Machine("service"), Machine("client", CLIENT), Machine("other", PEER)
ask = lang.message("Ask", to=service, sender=client)
REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "two fields of the addressee's key": (
        lambda: lang.message("M", server, one=raft.SERVER, two=raft.SERVER),
        "message M: one and two are both of key server, and each could name the receiver. Give",
    ),
    "a key for a machine": (
        lambda: lang.message("M", server, sender=raft.SERVER),  # type: ignore[arg-type]
        "message M: to= and sender= take a machine, not `server`",
    ),
    "a response to somebody else": (
        lambda: lang.message("M", to=other, answers=ask),
        "message M answers Ask: it goes from service to client, not to other",
    ),
    "a response from somebody else": (
        lambda: lang.message("M", to=client, sender=other, answers=ask),
        "message M answers Ask: it goes from service to client, not from other",
    ),
    "a response that knows more than its request": (
        lambda: lang.message(
            "M", to=client, sender=service, answers=lang.message("Q", service, client=CLIENT)
        ),
        "message M answers Q: give sender= in Q as well",
    ),
    "another machine sends it": (
        lambda: Table(other, lang.event("e"), (Row("r", send=(RequestVote(to=0),)),)),
        "table other.e, row 'r': RequestVote comes from server, not from other",
    ),
    "the sender is said": (
        lambda: Table(server, lang.event("e"), (Row("r", send=(RequestVote(to=0, sender=1),)),)),
        "row 'r': RequestVote: leave sender= out, it is filled in",
    ),
    "no addressee is said": (
        lambda: Table(server, lang.event("e"), (Row("r", send=(RequestVote(term=1),)),)),
        "row 'r': RequestVote: its address lacks to",
    ),
    "a reply to somebody else": (
        lambda: Table(server, RequestVote, (Row("r", reply=Vote(to=me, term=0)),)),
        "row 'r': Vote is a reply: leave to= out",
    ),
    "another machine takes it": (
        lambda: Table(other, RequestVote, (Row("r"),)),
        "table other.RequestVote: RequestVote goes to server",
    ),
    "the loss of it is told to another machine": (
        lambda: Table(other, lang.lost(RequestVote), (Row("r"),)),
        "table other.lost RequestVote: no part of the address of RequestVote names an instance of",
    ),
    "to the others of another machine": (
        lambda: lang.to_others(ask()),
        "to_others: Ask isn't declared as a message between instances of one machine",
    ),
    "to the others and to one": (
        lambda: lang.to_others(RequestVote(to=0)),
        r"to_others\(RequestVote\): leave to= out, it is filled in",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    wrong, said = REFUSED[case]
    with pytest.raises(DeclarationError, match=said):
        wrong()


# Rows ---------------------------------------------------------------------------------------------

peer = Machine("peer", PEER)
heard = peer.field("heard", lang.Optional(PEER))
this = peer.this
Note = lang.message("Note", to=peer, sender=peer, number=lang.Int(0, 1))
Reply = lang.message("Reply", to=peer, answers=Note, number=lang.Int(0, 1))
begin = lang.event("begin")
p = PEER.variable("p")


@pytest.mark.parametrize(
    "sent",
    [lang.to_others(Note(number=1)), lang.to_each(p, p != this, Note(to=p, number=1))],
)
def test_to_all_but_oneself(sent: lang.Sending) -> None:
    system = between(peer, Note, Table(peer, begin, (Row("say", send=(sent,)),)))
    assert moves(system, 1) == [
        ("peer0: begin", ("Note(peer0 → peer1, number=1)", "Note(peer0 → peer2, number=1)"))
    ]


def test_the_name_of_a_variable_of_the_row_is_no_matter() -> None:
    other = PEER.variable("other")
    named = lang.event("begin", other)
    carrying = lang.message("Note", to=peer, sender=peer, about=PEER)
    sent = Row("say", when=other != this, send=(lang.to_others(carrying(about=other)),))
    system = between(peer, carrying, Table(peer, named, (sent,)))
    assert moves(system, 1) == [
        (
            "peer0: begin(peer1)",
            ("Note(peer0 → peer1, about=peer1)", "Note(peer0 → peer2, about=peer1)"),
        )
    ]


def test_this_is_the_addressee_and_a_reply_goes_to_the_sender() -> None:
    say = Row("say", when=lang.position(this) == 2, send=(Note(to=0, number=1),))
    back = Table(peer, Reply, (Row("hear", set={heard: Reply.sender}),))
    system = between(
        peer,
        Note,
        back,
        Table(peer, begin, (say,)),
        rows=(Row("answer", set={heard: Note.sender}, reply=Reply(number=Note.number)),),
        channels=(lang.Channel(Note), lang.Channel(Reply)),
        budgets={begin: 1},
    )
    found = search(lang.instantiate(system))
    assert found.states == 4
    never = lang.invariant("Never", heard.at(2) != 0, "The first answer isn't heard.")
    from dataclasses import replace

    result = check(lang.instantiate(replace(system, properties=(never,))))
    assert result.trace is not None
    assert [(s.actor, s.action, s.sends) for s in result.trace.steps] == [
        ("peer2", "begin", ("Note(peer2 → peer0, number=1)",)),
        ("peer0", "Note(peer2 → peer0, number=1)", ("Reply(peer0 → peer2, number=1)",)),
        ("peer2", "Reply(peer0 → peer2, number=1)", ()),
    ]


@pytest.mark.parametrize(("message", "found_by"), [(Note, "peer1"), (Reply, "peer1")])
def test_who_asked_finds_out_that_something_is_lost(message: Message, found_by: str) -> None:
    """The note goes from 1 to 0: its sender asked; the reply goes from 0 to 1."""
    say = Row("say", when=lang.position(this) == 1, send=(Note(to=0, number=1),))
    gone = Table(peer, lang.lost(message), (Row("gone", set={heard: this}),))
    taking = Table(peer, Note, (Row("answer", reply=Reply(number=0)),))
    never = lang.invariant("Never", lang.all_of(p, ~heard.at(p).is_set), "Nobody finds out.")
    system = lang.System(
        "peers",
        (Table(peer, begin, (say,)), taking, gone),
        (never,),
        budgets={begin: 1},
        channels=(lang.Channel(Note), lang.Channel(Reply)),
        terminal=True,
    )
    result = check(lang.instantiate(system))
    assert result.trace is not None
    last = result.trace.steps[-1]
    way = "peer1 → peer0" if message is Note else "peer0 → peer1"
    number = 1 if message is Note else 0
    assert (last.actor, last.action) == (found_by, f"lost {message.name}({way}, number={number})")


def test_what_is_sent_on_keeps_its_sender() -> None:
    net = Machine("net")
    held = Table(net, lang.in_transit("held", Note), (Row("on", send=(Note(number=0),)),))
    say = Row("say", when=lang.position(this) == 1, send=(Note(to=0, number=1),))
    system = between(peer, Note, held, Table(peer, begin, (say,)), budgets={begin: 1})
    done = [
        ("peer1: begin", ("Note(peer1 → peer0, number=1)",)),
        ("net: held Note(peer1 → peer0, number=1)", ("Note(peer1 → peer0, number=0)",)),
    ]
    instance = lang.instantiate(system)
    assert search(instance).states == 4
    machine = Interpreter(instance)
    first = next(s for s in machine.steps(next(iter(machine.initial_states()))))
    assert first.state is not None
    from epochfence.checker.trace.trace import shown_trace

    second = next(s for s in machine.steps(first.state) if s.action.table.startswith("net"))
    assert second.state is not None
    start = next(iter(machine.initial_states()))
    trace = shown_trace(instance, [start, first.state, second.state], [first, second], "")
    assert [(f"{s.actor}: {s.action}", s.sends) for s in trace.steps] == done


# An election --------------------------------------------------------------------------------------


@pytest.mark.slow(1)
def test_an_election_has_one_leader() -> None:
    result = check(lang.instantiate(raft.election()))
    assert result.verdict is Verdict.HOLDS
    assert search(lang.instantiate(raft.election())).broken == {}


def test_a_server_that_votes_twice() -> None:
    result = check(lang.instantiate(raft.election(raft.grant_to_anyone)))
    assert result.verdict is Verdict.BROKEN
    assert result.trace is not None
    assert len(result.trace.steps) == 6
    elected = result.trace.steps[-1]
    sender = next(who for who in ("server0", "server1", "server2") if f"({who} →" in elected.action)
    assert elected.action == f"Vote({sender} → {elected.actor}, term=1, granted=yes)"


def test_a_vote_that_goes_to_the_candidate_itself_is_told_by_the_search() -> None:
    """Nobody is elected of requests that each server sends to itself alone."""
    own = Row(
        "ask oneself",
        goto=raft.Role.CANDIDATE,
        send=(RequestVote(to=me, term=1),),
        set={raft.term: 1, raft.votes: lang.set_of(me)},
    )
    tables = (Table(server, raft.timeout, (own,)), raft.asked(raft.grant), raft.answered)
    result = check(lang.instantiate(raft.election(tables=tables)))
    assert "server.Vote/elected" in result.never_taken
