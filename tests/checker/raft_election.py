"""Raft's election between servers that send each other messages, small enough for a plain search.

After D. Ongaro and J. Ousterhout, In Search of an Understandable Consensus Algorithm (2014), 5.2.
"""

from __future__ import annotations

from typing import Any

from epochfence.language import (
    Bool,
    Channel,
    Int,
    Key,
    Machine,
    Optional,
    Row,
    Set,
    System,
    Table,
    all_of,
    constant,
    enum,
    event,
    invariant,
    message,
    set_of,
    size,
    to_others,
)

SERVERS = constant("servers", 3, 1, 5, meaning="servers that elect a leader")
TERMS = constant("terms", 1, 1, 5, meaning="terms that a run may begin")

SERVER = Key("server", SERVERS)
TERM = Int(0, TERMS, "term")
Role = enum("Role", "FOLLOWER", "CANDIDATE", "LEADER")

server = Machine("server", SERVER)
role = server.state_field("role", Role)
term = server.field("term", TERM)
voted_for = server.field("voted_for", Optional(SERVER))
votes = server.field("votes", Set(SERVER))
me = server.this

RequestVote = message("RequestVote", to=server, sender=server, term=TERM)
Vote = message("Vote", to=server, answers=RequestVote, term=TERM, granted=Bool())
timeout = event("election timeout")

with_it = votes | set_of(Vote.sender)
counts = (role == Role.CANDIDATE) & (Vote.term == term) & Vote.granted
may_vote = (voted_for == None) | (voted_for == RequestVote.sender)

timing_out = Table(server, timeout, when=(role != Role.LEADER) & (term < TERMS), rows=(
    Row(
        "ask for votes", goto=Role.CANDIDATE,
        set={term: term + 1, voted_for: me, votes: set_of(me)},
        send=(to_others(RequestVote(term=term + 1)),),
    ),
))  # fmt: skip
grant = Row(
    "vote",
    when=(RequestVote.term == term) & may_vote,
    set={voted_for: RequestVote.sender},
    reply=Vote(term=term, granted=True),
)
grant_to_anyone = Row(
    "vote",
    when=RequestVote.term == term,
    set={voted_for: RequestVote.sender},
    reply=Vote(term=term, granted=True),
)


def asked(vote: Row) -> Table:
    """What a server does with a request for its vote."""
    return Table(server, RequestVote, rows=(
        Row(
            "vote in a newer term", when=RequestVote.term > term, goto=Role.FOLLOWER,
            set={term: RequestVote.term, voted_for: RequestVote.sender, votes: set_of()},
            reply=Vote(term=RequestVote.term, granted=True),
        ),
        vote,
        Row("refuse", reply=Vote(term=term, granted=False)),
    ))  # fmt: skip


answered = Table(server, Vote, rows=(
    Row(
        "newer term", when=Vote.term > term, goto=Role.FOLLOWER,
        set={term: Vote.term, voted_for: None, votes: set_of()},
    ),
    Row(
        "elected", when=counts & (size(with_it) + size(with_it) > SERVERS), goto=Role.LEADER,
        set={votes: with_it},
    ),
    Row("counted", when=counts, set={votes: with_it}),
    Row("ignored"),
))  # fmt: skip

i, j = SERVER.variable("i"), SERVER.variable("j")
both_lead = (role.at(i) == Role.LEADER) & (role.at(j) == Role.LEADER) & (term.at(i) == term.at(j))
ONE_LEADER = invariant(
    "OneLeader",
    all_of(i, all_of(j, (i != j).implies(~both_lead))),
    "A term has one leader at most.",
)


def election(vote: Row = grant, **parts: Any) -> System:
    """The system, with the row by which a server votes; `parts` go in place of the system's own."""
    given: dict[str, Any] = {
        "tables": (timing_out, asked(vote), answered),
        "properties": (ONE_LEADER,),
        "constants": (SERVERS, TERMS),
        "channels": (Channel(RequestVote), Channel(Vote)),
        "interchangeable": (SERVER,),
        "terminal": True,
    }
    return System("election", **(given | parts))
