"""Lamport's distributed mutual exclusion: processes with logical clocks take turns.

The algorithm of "Time, Clocks, and the Ordering of Events in a Distributed System" (1978), as in
the TLA+ examples (lamport_mutex/MCLamportMutex.tla). There is a first-in first-out queue of
messages in each direction between any two processes.

The clocks are bounded, and steps beyond the bound are left out. A separate row counts them, because
TLC counts such a step before it drops the next state.
"""

from epochfence.language import (
    Expression,
    Int,
    Key,
    Machine,
    Map,
    Row,
    Sequence,
    Set,
    System,
    Table,
    all_of,
    append,
    constant,
    each,
    enum,
    event,
    first,
    if_,
    invariant,
    maximum,
    position,
    record,
    set_of,
    size,
    without_first,
)
from epochfence.language.expressions import Operand

N = constant("N", 3, 1, 8, meaning="processes")
MAX_CLOCK = constant("MAX_CLOCK", 6, 1, 100, meaning="the clocks' bound")

PROCESS = Key("process", N)
CLOCK = Int(0, MAX_CLOCK, "clock (0: none)")
KIND = enum("message kind", "request", "acknowledge", "release")
MESSAGE = record("message", kind=KIND, clock=CLOCK)

mutex = Machine("mutex")
clock = mutex.field("clock", Map(PROCESS, Int(1, MAX_CLOCK, "clock")))
request = mutex.field(
    "request", Map(PROCESS, Map(PROCESS, CLOCK)), doc="[p][q]: when q asked, as far as p knows"
)
acknowledged = mutex.field("acknowledged", Map(PROCESS, Set(PROCESS)), doc="[p]: by whom")
network = mutex.field(
    "network", Map(PROCESS, Map(PROCESS, Sequence(MESSAGE, 3))), doc="[p][q]: from p to q"
)
critical = mutex.field("critical", Set(PROCESS), doc="who is in the critical section")

p, q, r = (PROCESS.variable(name) for name in "pqr")
head = first(network[q][p])
sent_at = head.value.clock
next_clock = maximum(sent_at, clock[p]) + 1
TAKE: dict[Expression, Operand] = {network[q][p]: without_first(network[q][p])}


def arrives(kind: Expression) -> Expression:
    """Whether a message of this kind from q is the next that p receives."""
    return (p != q) & head.is_set & (head.value.kind == kind)


def to_others(**content: Operand) -> dict[Expression, Operand]:
    """p sends a message to every other process."""
    longer = append(network[p][r], MESSAGE(**content))
    return {network[p]: each(r, if_(r == p, network[p][r], longer))}


def action(name: str, *over: Expression, rows: tuple[Row, ...]) -> Table:
    """One action of the algorithm, for every value of `over`."""
    return Table(mutex, event(name, *over), rows)


goes_first = (request[p][p] < request[p][q]) | (
    (request[p][p] == request[p][q]) & (position(p) < position(q))
)
may_enter = all_of(q, q.is_in(acknowledged[p])) & all_of(
    q, (q == p) | (request[p][q] == 0) | goes_first
)

TABLES = (
    action("Request", p, rows=(
        Row(
            "ask all others", when=request[p][p] == 0,
            set={request[p][p]: clock[p], acknowledged[p]: set_of(p)}
            | to_others(kind=KIND.request, clock=clock[p]),
        ),
    )),
    action("ReceiveRequest", p, q, rows=(
        Row(
            "acknowledge", when=arrives(KIND.request) & (next_clock <= MAX_CLOCK),
            set=TAKE | {
                request[p][q]: sent_at,
                clock[p]: next_clock,
                network[p][q]: append(network[p][q], MESSAGE(kind=KIND.acknowledge)),
            },
        ),
        Row("beyond the clock bound", when=arrives(KIND.request)),
    )),
    action("ReceiveAck", p, q, rows=(
        Row(
            "note it", when=arrives(KIND.acknowledge),
            set=TAKE | {acknowledged[p]: acknowledged[p] | set_of(q)},
        ),
    )),
    action("ReceiveRelease", p, q, rows=(
        Row("note it", when=arrives(KIND.release), set=TAKE | {request[p][q]: 0}),
    )),
    action("Enter", p, rows=(
        Row("first of all", when=may_enter, set={critical: critical | set_of(p)}),
    )),
    action("Exit", p, rows=(
        Row(
            "release", when=p.is_in(critical),
            set={critical: critical - set_of(p), request[p][p]: 0, acknowledged[p]: set_of()}
            | to_others(kind=KIND.release),
        ),
    )),
)  # fmt: skip

system = System(
    name="lamport_mutex",
    doc="Lamport's mutual exclusion among N processes with logical clocks.",
    tables=TABLES,
    properties=(
        invariant(
            "Mutex",
            size(critical) <= 1,
            "At most one process is in the critical section.",
            "Lamport (1978): the conditions of the mutual exclusion problem",
        ),
    ),
    constants=(N, MAX_CLOCK),
    terminal=True,
    reach="The algorithm until a clock would pass MAX_CLOCK.",
)
