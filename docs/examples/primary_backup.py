"""A leader and a follower of a log, as Kafka's replicas were before and after KIP-101.

Both have to have an entry before producers are told. The leader knows it first: the follower learns
the high watermark, up to which both logs agree, with the answer to its next fetch.

The mistake: a replica that restarts cuts its log back to its own high watermark. What it cuts off
may have been acknowledged. When the leader fails before the replica has fetched it again, it is
lost. In release 2 the replica asks the leader where its last epoch ends, and cuts there.
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
    append,
    constant,
    count_of,
    element,
    event,
    failure,
    feature,
    if_,
    invariant,
    is_prefix,
    last,
    maximum,
    message,
    minimum,
    record,
    size,
)

ENTRIES = constant("entries", 2, 1, 4, meaning="entries that a log holds")
CRASHES = constant("crashes", 2, 0, 5, meaning="crashes in a run")

REPLICA = Key("replica", 2)
OFFSET = Int(0, ENTRIES, "offset")
EPOCH = Int(0, CRASHES, "epoch")  # a leader that fails gives way to the next epoch
Entry = record("Entry", epoch=EPOCH)

leader_epochs = feature("leader_epochs", "2", sentence="A replica cuts where its last epoch ends.")

controller = Machine("controller")
leader = controller.field("leader", REPLICA)
epoch = controller.field("epoch", EPOCH)
acknowledged = controller.field(
    "acknowledged", Sequence(Entry, ENTRIES), doc="Entries that were acknowledged to producers."
)

replica = Machine("replica", REPLICA)
is_up = replica.field("is_up", Bool(), True)
log = replica.field("log", Sequence(Entry, ENTRIES))
high_watermark = replica.field("high_watermark", OFFSET, doc="Entries that both are known to have.")

Fetched = message(
    "Fetched", to=replica, sender=replica, entry=Optional(Entry), high_watermark=OFFSET
)
me, other = replica.this, REPLICA.variable("other")
crash = event("crash", other)

# That a follower fetches from an offset tells the leader that it has all before it.
offset = size(log.at(other))
agreed = maximum(high_watermark, minimum(offset, size(log)))

older = element("older", log.at(leader))
end_of_epoch = count_of(older, older.epoch <= last(log).value.epoch)
kept = if_(size(log) == 0, 0, minimum(size(log), end_of_epoch))


def cut_to(length):
    """The updates of a restart that keeps a log's first entries."""
    return {is_up: True, log: log[:length], high_watermark: minimum(high_watermark, length)}


def table(on, when, *rows):
    """A table of a replica, which may read its peer and the controller."""
    return Table(replica, on, when=when, rows=rows, others=(controller, replica))


TABLES = (
    table(
        event("produce"), (leader == me) & is_up & (size(log) < ENTRIES),
        Row("append", set={log: append(log, Entry(epoch=epoch))}),
    ),
    table(
        event("fetch", other), (leader == me) & is_up & (other != me) & is_up.at(other),
        Row(
            "serve", set={high_watermark: agreed, acknowledged: log[:agreed]},
            send=(Fetched(to=other, entry=log[offset], high_watermark=agreed),),
        ),
    ),
    table(
        Fetched, True,
        Row("append", when=Fetched.entry.is_set, set={
            log: append(log, Fetched.entry.value), high_watermark: Fetched.high_watermark,
        }),
        Row("learn the high watermark", set={high_watermark: Fetched.high_watermark}),
    ),
    table(
        crash, is_up & (other != me),
        Row(
            "the follower takes over", when=(leader == me) & is_up.at(other), drop=(Fetched,),
            set={is_up: False, leader: other, epoch: epoch + 1},
        ),
        Row("no new leader", set={is_up: False}, drop=(Fetched,)),
    ),
    table(
        event("restart"), ~is_up & ((leader == me) | is_up.at(leader)),
        Row("lead on", when=leader == me, set={is_up: True}),
        Row("cut to the high watermark", set=cut_to(high_watermark), during=~leader_epochs),
        Row("cut where the epoch ends", set=cut_to(kept), during=leader_epochs),
    ),
)  # fmt: skip

system = System(
    name="primary-backup",
    doc="A replicated log with a leader and a follower that restart.",
    tables=TABLES,
    properties=(
        invariant(
            "NothingLost", is_prefix(acknowledged, log.at(leader)),
            "The leader has every entry that was acknowledged.",
            "KIP-101, scenario 1: high watermark truncation followed by immediate leader election",
            failure=failure(
                "the acknowledged entries are {}, and {}, which leads, has {}",
                acknowledged, leader, log.at(leader),
            ),
        ),
    ),
    constants=(ENTRIES, CRASHES),
    protocols=Protocols(("1", "2"), (leader_epochs,)),
    channels=(Channel(Fetched, 1),),
    budgets={crash: CRASHES},
    terminal=True,
    reach="Two replicas, two entries and two crashes.",
)  # fmt: skip
