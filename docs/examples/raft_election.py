"""Raft's election of a leader: in each term a server has one vote, and a majority elects.

The mistake: a server keeps its vote in memory alone. It crashes, forgets, and votes once more in
the same term: two leaders. In release 1 votes aren't written to disk.
"""

from epochfence.language import (
    Bool,
    Channel,
    Int,
    Key,
    Machine,
    Optional,
    Protocols,
    Row,
    Set,
    System,
    Table,
    Unreached,
    after,
    all_of,
    constant,
    enum,
    event,
    failure,
    feature,
    invariant,
    majority,
    message,
    set_of,
    step_property,
    to_others,
)

SERVERS = constant("servers", 3, 2, 5, meaning="servers")
TERMS = constant("terms", 2, 1, 5, meaning="terms in a run")
CRASHES = constant("crashes", 1, 0, 5, meaning="crashes in a run")

SERVER = Key("server", SERVERS)
TERM = Int(0, TERMS, "term")
Role = enum("Role", "FOLLOWER", "CANDIDATE", "LEADER")

durable_votes = feature("durable_votes", "2", sentence="A vote is on disk before it is sent.")

server = Machine("server", SERVER)
role = server.state_field("role", Role)
term = server.field("term", TERM, doc="The newest term that it knows, on disk.")
voted_for = server.field("voted_for", Optional(SERVER), doc="Its vote in this term.")
votes = server.field("votes", Set(SERVER), doc="Who has voted for it.")

RequestVote = message("RequestVote", to=server, sender=server, term=TERM)
Vote = message("Vote", to=server, answers=RequestVote, term=TERM, granted=Bool())

crash = event("crash")

me, i, j = server.this, SERVER.variable("i"), SERVER.variable("j")
is_newer = RequestVote.term > term
may_vote = is_newer | ((RequestVote.term == term) & voted_for.is_in(None, RequestVote.sender))
is_counted = (role == Role.CANDIDATE) & (Vote.term == term) & Vote.granted
in_favour = votes | set_of(Vote.sender)

TABLES = (
    Table(server, event("timeout"), when=(role != Role.LEADER) & (term < TERMS), rows=(
        Row(
            "stand for election", goto=Role.CANDIDATE,
            set={term: term + 1, voted_for: me, votes: set_of(me)},
            send=(to_others(RequestVote(term=term + 1)),),
        ),
    )),
    Table(server, RequestVote, rows=(
        Row(
            "grant", when=may_vote, goto=Role.FOLLOWER,
            set={term: RequestVote.term, voted_for: RequestVote.sender, votes: set_of()},
            reply=Vote(term=RequestVote.term, granted=True),
        ),
        Row("refuse", reply=Vote(term=term, granted=False)),
    )),
    Table(server, Vote, rows=(
        Row("newer term", when=Vote.term > term, goto=Role.FOLLOWER, set={
            term: Vote.term, voted_for: None, votes: set_of(),
        }),
        Row(
            "elected", when=is_counted & majority(in_favour, SERVER), goto=Role.LEADER,
            set={votes: in_favour},
        ),
        Row("count", when=is_counted, set={votes: in_favour}),
        Row("of no use"),
    )),
    Table(server, crash, rows=(
        Row(
            "restart", goto=Role.FOLLOWER, set={votes: set_of()}, drop=(RequestVote, Vote),
            during=durable_votes,
        ),
        Row(
            "restart without the vote", goto=Role.FOLLOWER,
            set={votes: set_of(), voted_for: None}, drop=(RequestVote, Vote),
            during=~durable_votes,
        ),
    )),
)  # fmt: skip

leads = role == Role.LEADER
both_lead = leads.at(i) & leads.at(j) & (term.at(i) == term.at(j))

system = System(
    name="raft-election",
    doc="Servers that elect a leader, term by term.",
    tables=TABLES,
    properties=(
        invariant(
            "OneLeader", all_of(i, all_of(j, both_lead.implies(i == j))),
            "A term has at most one leader.", "Ongaro and Ousterhout, Raft (2014): Election Safety",
            failure=failure("{} and {} lead in term {}", i, j, term.at(i)),
        ),
        step_property(
            "TermForward", all_of(i, after(term.at(i)) >= term.at(i)), "A term never goes back.",
            failure=failure("{} goes from term {} to {}", i, term.at(i), after(term.at(i))),
        ),
    ),
    constants=(SERVERS, TERMS, CRASHES),
    protocols=Protocols(("1", "2"), (durable_votes,)),
    channels=(Channel(RequestVote, 1, lossy=True), Channel(Vote, 1, lossy=True)),
    budgets={crash: CRASHES},
    interchangeable=(SERVER,),
    unreached=(
        Unreached("two votes elect of three servers", ("server.Vote/count",), SERVERS <= 3),
    ),
    terminal=all_of(i, (term.at(i) == TERMS) | leads.at(i)),
    reach="Three servers, two terms and one crash; any message may be lost.",
)  # fmt: skip
