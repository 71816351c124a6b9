"""Chain replication: the head takes writes, each server passes them on, the tail answers.

Of van Renesse and Schneider (2004). A server that fails is left out of the chain, and its
predecessor sends to the next one.

The mistake: the predecessor goes on behind what it sent last. What the failed server had, and had
not passed on, never arrives. In release 2 the new successor says first what it has.
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
    Sequence,
    System,
    Table,
    all_of,
    append,
    constant,
    event,
    failure,
    feature,
    invariant,
    is_prefix,
    message,
    position,
    size,
)

SERVERS = constant("servers", 3, 2, 5, meaning="servers in the chain")
WRITES = constant("writes", 2, 1, 4, meaning="writes in a run")
FAILURES = constant("failures", 1, 0, 4, meaning="servers that fail for good")

SERVER = Key("server", SERVERS)
WRITE = Int(1, WRITES, "write")

resends = feature("resends", "2", sentence="A server sends on from what its new successor has.")

client = Machine("client")
written = client.field("written", Int(0, WRITES), doc="How many writes it has asked for.")

server = Machine("server", SERVER)
is_up = server.field("is_up", Bool(), True)
history = server.field("history", Sequence(WRITE, WRITES))
successor = server.field("successor", Optional(SERVER), doc="To whom it sends.")
sent = server.field("sent", Int(0, WRITES), doc="How much of its history it has sent on.")

Update = message("Update", to=server, sender=server, write=WRITE)

me = server.this
one, other, between = (SERVER.variable(name) for name in ("one", "other", "between"))
fail = event("fail", other)


def is_next(after, before):
    """Whether a server follows another one in the chain, as failed ones are left out."""
    here = (position(before) < position(between)) & (position(between) < position(after))
    nobody_between = all_of(between, ~(here & is_up.at(between)))
    return is_up.at(after) & (position(before) < position(after)) & nobody_between


def table(on, when, *rows):
    """A table of a server that is up."""
    return Table(server, on, when=is_up & when, rows=rows, others=(server, client))


is_head = all_of(other, ~is_up.at(other) | (position(me) <= position(other)))

TABLES = (
    table(
        event("write"), is_head & (written < WRITES),
        Row("take", set={written: written + 1, history: append(history, written + 1)}),
    ),
    table(
        event("connect", other), is_next(other, me) & (successor != other),
        Row(
            "send what it lacks", set={successor: other, sent: size(history.at(other))},
            during=resends,
        ),
        Row("go on", set={successor: other}, during=~resends),
    ),
    table(
        event("pass on"), successor.is_set & history[sent].is_set,
        Row(
            "send", set={sent: sent + 1},
            send=(Update(to=successor.value, write=history[sent].value),),
        ),
    ),
    table(
        Update, True,
        Row("apply", set={history: append(history, Update.write)}),
    ),
    table(
        fail, (other != me) & is_up.at(other),  # the last one doesn't fail
        Row("stop", set={is_up: False}, drop=(Update,)),
    ),
)  # fmt: skip

both_up = is_up.at(one) & is_up.at(other) & (position(one) < position(other))

system = System(
    name="chain-replication",
    doc="Servers in a chain that copy writes from the head to the tail.",
    tables=TABLES,
    properties=(
        invariant(
            "UpdatePropagation",
            all_of(one, all_of(other, both_up.implies(
                is_prefix(history.at(other), history.at(one))
            ))),
            "A server has no write that one before it in the chain lacks, nor another order.",
            "van Renesse and Schneider: Update Propagation Invariant",
            failure=failure(
                "{} has the writes {}, and {} before it {}",
                other, history.at(other), one, history.at(one),
            ),
        ),
    ),
    constants=(SERVERS, WRITES, FAILURES),
    protocols=Protocols(("1", "2"), (resends,)),
    channels=(Channel(Update, WRITES, ordered=True),),
    budgets={fail: FAILURES},
    terminal=True,
    reach="Three servers, two writes and one failure.",
)  # fmt: skip
