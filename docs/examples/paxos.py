"""Paxos, for a single decision: acceptors vote in numbered ballots, and a majority decides.

The protocol of Lamport, "The Part-Time Parliament" (1998), as the TLA+ examples have it
(PaxosHowToWinATuringAward/Paxos.tla). What was sent stays, and may be read at any time.

The mistake: the leader of a ballot that finds older votes proposes its own value all the same. In
release 1 it does, and two values are chosen.
"""

from epochfence.language import (
    Int,
    Key,
    Machine,
    Map,
    Optional,
    Protocols,
    Row,
    Set,
    System,
    Table,
    all_of,
    any_of,
    constant,
    event,
    failure,
    feature,
    invariant,
    majority,
    position,
    record,
    set_of,
    those,
)

ACCEPTORS = constant("acceptors", 3, 1, 7, meaning="acceptors")
VALUES = constant("values", 2, 1, 4, meaning="values that may be proposed")
BALLOTS = constant("ballots", 2, 1, 6, meaning="ballots")

ACCEPTOR, VALUE, BALLOT = Key("acceptor", ACCEPTORS), Key("value", VALUES), Key("ballot", BALLOTS)
NUMBER = Int(0, BALLOTS)  # of a ballot, from 1 on; 0: none
Vote = record("Vote", number=NUMBER, voted_for=Optional(VALUE))

votes_respected = feature(
    "votes_respected", "2", sentence="A leader proposes the value of the newest vote that it has."
)

acceptor = Machine("acceptor", ACCEPTOR)
promised = acceptor.field("promised", NUMBER, doc="It takes no part in ballots before this one.")
newest = acceptor.field("newest", Vote, doc="Its vote in the newest ballot.")

messages = Machine("messages", doc="All messages that were ever sent.")
asked = messages.field("asked", Set(BALLOT), doc="1a: who leads a ballot has asked for promises.")
promise = messages.field(
    "promise", Map(BALLOT, Map(ACCEPTOR, Optional(Vote))), doc="1b: with the newest vote before."
)
proposed = messages.field("proposed", Map(BALLOT, Optional(VALUE)), doc="2a: the ballot's value.")
voted = messages.field("voted", Map(BALLOT, Set(ACCEPTOR)), doc="2b: who voted in the ballot.")

me, a, c = acceptor.this, ACCEPTOR.variable("a"), ACCEPTOR.variable("c")
b, d = BALLOT.variable("b"), BALLOT.variable("d")
v, w = VALUE.variable("v"), VALUE.variable("w")


def number(ballot):
    """A ballot's number."""
    return position(ballot) + 1


def told(who):
    """The newest vote that an acceptor sent with its promise in ballot `b`."""
    return promise[b][who].value


# A majority has promised. Of the votes that its members told of, the newest settles the value.
has_promised = promise[b][c].is_set
not_newer = has_promised & (told(c).number <= told(a).number)
gave = promise[b][a].is_set & told(a).voted_for.is_set
by_newest = gave & majority(those(c, not_newer), ACCEPTOR)
is_free = majority(those(c, has_promised & (told(c).number == 0)), ACCEPTOR)
is_settled = any_of(a, by_newest & (told(a).voted_for == v))

TABLES = (
    Table(messages, event("phase 1a", b), rows=(Row("ask", set={asked: asked | set_of(b)}),)),
    Table(
        acceptor, event("phase 1b", b), others=(messages,),
        when=b.is_in(asked) & (promised < number(b)),
        rows=(Row("promise", set={promised: number(b), promise[b][me]: newest}),),
    ),
    Table(
        messages, event("phase 2a", b, v),
        when=~proposed[b].is_set & majority(those(c, has_promised), ACCEPTOR),
        rows=(
            Row("propose", when=is_free | is_settled, set={proposed[b]: v}),
            Row("propose what it likes", during=~votes_respected, set={proposed[b]: v}),
        ),
    ),
    Table(
        acceptor, event("phase 2b", b), others=(messages,),
        when=proposed[b].is_set & (promised <= number(b)),
        rows=(
            Row("vote", set={
                promised: number(b), newest: Vote(number=number(b), voted_for=proposed[b]),
                voted[b]: voted[b] | set_of(me),
            }),
        ),
    ),
)  # fmt: skip


def is_chosen(ballot, value):
    """Whether a majority has voted for a value in a ballot."""
    return (proposed[ballot] == value) & majority(voted[ballot], ACCEPTOR)


both = is_chosen(b, v) & is_chosen(d, w)

system = System(
    name="paxos",
    doc="Acceptors decide on one value, whoever leads.",
    tables=TABLES,
    properties=(
        invariant(
            "OneValue", all_of(b, all_of(d, all_of(v, all_of(w, both.implies(v == w))))),
            "At most one value is ever chosen.", "Lamport, Paxos Made Simple (2001)",
            failure=failure("{} is chosen in {}, and {} in {}", v, b, w, d),
        ),
    ),
    constants=(ACCEPTORS, VALUES, BALLOTS),
    protocols=Protocols(("1", "2"), (votes_respected,)),
    terminal=True,
    reach="Three acceptors, two values and two ballots.",
)  # fmt: skip
