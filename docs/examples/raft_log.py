"""Raft's log: a leader appends, copies its log to the others, and commits what a majority has.

The election is one step here (raft_election.py has its messages), and so is the copy of an entry.

The mistake: a leader commits an entry of an older term as soon as a majority has it. A server with
a newer last entry can still be elected, and overwrites what was committed (figure 8 of the paper).
In release 1 a leader counts entries of any term, in release 2 only of its own.
"""

from epochfence.language import (
    Bool,
    Int,
    Key,
    Machine,
    Map,
    Protocols,
    Row,
    Sequence,
    System,
    Table,
    all_of,
    append,
    constant,
    count_of,
    event,
    failure,
    feature,
    if_,
    invariant,
    is_prefix,
    last,
    majority,
    minimum,
    record,
    size,
    those,
    variable,
)

TERMS = constant("terms", 4, 1, 6, meaning="terms in a run")
ENTRIES = constant("entries", 2, 1, 4, meaning="entries that a log holds")

SERVER = Key("server", 3)
TERM = Int(0, TERMS, "term")
Entry = record("Entry", term=TERM)

own_term_only = feature(
    "own_term_only", "2", sentence="A leader counts copies of entries of its own term alone."
)

cluster = Machine("cluster")
term = cluster.field("term", Map(SERVER, TERM))
leads = cluster.field("leads", Map(SERVER, Bool()))
log = cluster.field("log", Map(SERVER, Sequence(Entry, ENTRIES)))
committed = cluster.field("committed", Map(SERVER, Int(0, ENTRIES)), doc="How many entries.")

leader, other, s = (SERVER.variable(name) for name in ("leader", "other", "s"))
newer = variable("newer", Int(1, TERMS))
index = variable("index", Int(0, ENTRIES - 1))


def last_term(server):
    """The term of a server's last entry; 0 of an empty log."""
    return if_(size(log[server]) > 0, last(log[server]).value.term, 0)


def may_vote(voter, candidate):
    """Whether the candidate's log is at least as new as the voter's."""
    same = (last_term(candidate) == last_term(voter)) & (size(log[candidate]) >= size(log[voter]))
    return (term[voter] < newer) & ((last_term(candidate) > last_term(voter)) | same)


def is_copied(server):
    """Whether a server has the leader's log up to the index."""
    return log[leader][index].is_set & is_prefix(log[leader][: index + 1], log[server])


in_common = count_of(index, is_copied(other))
counts = majority(those(s, is_copied(s)), SERVER)
of_own_term = log[leader][index].value.term == term[leader]

TABLES = (
    Table(
        cluster, event("election", leader, other, newer),
        when=(leader != other) & (term[leader] < newer) & may_vote(other, leader),
        rows=(
            Row("elected by the two", set={
                term[leader]: newer, term[other]: newer, leads[leader]: True, leads[other]: False,
            }),
        ),
    ),
    Table(
        cluster, event("append", leader), when=leads[leader] & (size(log[leader]) < ENTRIES),
        rows=(Row("append", set={log[leader]: append(log[leader], Entry(term=term[leader]))}),),
    ),
    Table(
        cluster, event("copy", leader, other),
        when=(leader != other) & leads[leader] & (term[other] <= term[leader])
        & (in_common < size(log[leader])),
        rows=(
            Row("write behind what is in common", set={
                log[other]: append(log[other][:in_common], log[leader][in_common].value),
                committed[other]: minimum(committed[leader], in_common + 1),
                term[other]: term[leader],
                leads[other]: False,
            }),
        ),
    ),
    Table(
        cluster, event("commit", leader, index),
        when=leads[leader] & (committed[leader] <= index) & counts,
        rows=(
            Row("not of its term", when=~of_own_term, during=own_term_only),
            Row("commit", set={committed[leader]: index + 1}),
        ),
    ),
)  # fmt: skip


def settled(server):
    """What a server has committed."""
    return log[server][: committed[server]]


agree = is_prefix(settled(s), settled(other)) | is_prefix(settled(other), settled(s))

system = System(
    name="raft-log",
    doc="Three servers that copy a log under changing leaders.",
    tables=TABLES,
    properties=(
        invariant(
            "CommittedAgree", all_of(s, all_of(other, agree)),
            "What two servers have committed is the same as far as both have it.",
            "Ongaro and Ousterhout, Raft (2014): State Machine Safety",
            failure=failure(
                "{} has committed {}, and {} has committed {}",
                s, settled(s), other, settled(other),
            ),
        ),
    ),
    constants=(TERMS, ENTRIES),
    protocols=Protocols(("1", "2"), (own_term_only,)),
    terminal=True,
    reach="Three servers, four terms and two entries.",
)  # fmt: skip
