"""A partition with its replicas, and the answers that clients got.

A log is a sequence of entries, each with the leader epoch of the leader that appended it. A
broker's leader epoch cache follows from its log: an epoch without a record is unknown there. Disks
keep the log, but a power loss may take its last entry.
"""

from __future__ import annotations

from ...language import (
    Bool,
    Expression,
    Int,
    Key,
    Machine,
    Map,
    Optional,
    Refusal,
    Sequence,
    Set,
    constant,
    count_of,
    element,
    enum,
    if_,
    keep,
    max_of,
    minimum,
    record,
    set_of,
    size,
)
from ..leader.state import Kind
from ..messages import RECORDS
from ..releases.replication_features import (
    eligible_leader_replicas,
    leader_epoch_checked,
    min_isr_capped,
)

REPLICAS = constant("replicas", 3, 1, 5, meaning="replicas of the partition")
SESSIONS = constant(
    "sessions",
    1,
    1,
    3,
    meaning="producer ids, or transactions, under which an application sends its records",
)
EXTRA_ENTRIES = constant(
    "extra_entries", 0, 0, 8, meaning="entries that a log has room for beyond one for each record"
)
LEADER_EPOCHS = constant("leader_epochs", 3, 1, 8, meaning="elections, the first one counted")
ACKS = constant("acks", -1, -1, 1, meaning="acks of the producers; -1 is all")
MIN_ISR = constant("min_insync_replicas", 2, 1, 5, meaning="min.insync.replicas")
min_isr = if_(min_isr_capped, minimum(MIN_ISR, REPLICAS), MIN_ISR)
NOT_ENOUGH_REPLICAS = Refusal(
    "NOT_ENOUGH_REPLICAS: with acks=all (-1) every append is refused, as min.insync.replicas is "
    "above the number of replicas; from 3.7 on it counts as that number",
    (ACKS == -1) & (MIN_ISR > REPLICAS) & ~min_isr_capped,
)
CRASHES = constant("crashes", 1, 0, 6, meaning="brokers that crash, their disks intact")
POWER_LOSSES = constant(
    "power_losses", 0, 0, 6, meaning="brokers that crash and lose their log's last entry"
)
UNCLEAN_ELECTIONS = constant(
    "unclean_elections",
    0,
    0,
    6,
    meaning="elections from outside the in-sync set (unclean.leader.election.enable)",
)

REPLICA = Key("replica", REPLICAS)
LEADER_EPOCH = Int(0, LEADER_EPOCHS, "leader epoch")  # 0: before the first election
LOG_SIZE = RECORDS + EXTRA_ENTRIES
OFFSET = Int(0, LOG_SIZE, "offset")
UNKNOWN = -1
RECORD = Int(0, RECORDS - 1, "record")
SESSION = Int(0, SESSIONS - 1, "producer id")
Entry = record("Entry", leader_epoch=LEADER_EPOCH, record=RECORD, producer_id=SESSION, kind=Kind)

registration = Machine(
    "registration",
    doc="The controller's record of the partition, in ZooKeeper or in the metadata log.",
)
elected = registration.field("leader", Optional(REPLICA), doc="None: there is no leader.")
newest_epoch = registration.field("leader_epoch", LEADER_EPOCH, doc="Of the newest election.")
in_sync = registration.field("isr", Set(REPLICA), doc="Replicas from which a leader is elected.")
eligible = registration.field(
    "elr",
    Set(REPLICA),
    doc="Eligible leader replicas: they left an in-sync set below min.insync.replicas, and lead if "
    "nobody in it runs.",
)
last_known_leader = registration.field(
    "last_known_leader",
    Optional(REPLICA),
    doc="The last one in sync, where an unclean shutdown has left nobody (lastKnownElr).",
)

State = enum("ReplicaState", "OFFLINE", "STARTED", "LEADER", "TRUNCATING", "FETCHING")

replica = Machine(
    "replica",
    REPLICA,
    doc="A broker's replica of the partition: its log, and what it does in its leader epoch. A "
    "broker that has STARTED hasn't heard yet who leads.",
)
state = replica.state_field("state", State, State.STARTED)
leader_epoch = replica.field("leader_epoch", LEADER_EPOCH, doc="The epoch that it has heard of.")
log = replica.field("log", Sequence(Entry, LOG_SIZE), doc="Its size is the log end offset.")
high_watermark = replica.field(
    "high_watermark", OFFSET, doc="As it knows it; also its checkpoint, which a crash keeps."
)
isr = replica.field("isr", Set(REPLICA), doc="A leader's in-sync set.")
fetched = replica.field(
    "fetched",
    Map(REPLICA, Int(UNKNOWN, LOG_SIZE, "fetch offset")),
    doc="A leader's: the log end offset of each other replica, -1 until it fetches in this epoch.",
)
epoch_start = replica.field(
    "epoch_start", OFFSET, doc="A leader's: its log end offset when it became leader."
)
following = replica.field(
    "following",
    Optional(REPLICA),
    doc="A follower's leader. Only before 2.1: from then on, the leader epoch says it.",
)
unclean_shutdown = replica.field(
    "unclean_shutdown",
    Bool(),
    doc="It has lost power, and no leader has heard since then where its log ends.",
)

clients = Machine("clients", doc="Producers, each record from one without retries, and consumers.")
produced = clients.field("produced", Int(0, RECORDS, "count"), doc="How many records were sent.")
session = clients.field("producer_id", SESSION, doc="Under which records are sent.")
acknowledged = clients.field("acknowledged", Set(RECORD), doc="Records that producers rely on.")
consumed = clients.field(
    "consumed", Sequence(Entry, LOG_SIZE), doc="The records that consumers were given, by offset."
)

acks_all = ACKS == -1
NOBODY = set_of()
me = replica.this


def leads(leader: Expression, epoch: Expression) -> Expression:
    """Whether a replica is the leader of an epoch, as far as it knows."""
    return (state.at(leader) == State.LEADER) & (leader_epoch.at(leader) == epoch)


def answers(leader: Expression) -> Expression:
    """Whether the replica that a follower asks is a leader. Before 2.1 the follower asks only the
    leader of its epoch, as no other request changes anything."""
    is_asked = (leader_epoch.at(leader) == leader_epoch) | (following == leader)
    return (state.at(leader) == State.LEADER) & (leader_epoch_checked | is_asked)


def eligible_after(members: Expression, unclean: Expression = NOBODY) -> Expression:
    """The eligible leader replicas once the controller has recorded an in-sync set.

    A replica that leaves the set below min.insync.replicas is eligible, unless it is `unclean`
    (PartitionChangeBuilder.maybePopulateTargetElr).
    """
    is_below = eligible_leader_replicas & (size(members) < min_isr)
    left = (in_sync | eligible) - members - unclean
    return if_(is_below, left, set_of())


def end_offset(entries: Expression, epoch: Expression) -> Expression:
    """The end of the entries of an epoch, and of those before it, in a log."""
    entry = element("entry", entries)
    return count_of(entry, entry.leader_epoch <= epoch)


def newest_up_to(entries: Expression, epoch: Expression) -> Expression:
    """The largest epoch in a log that isn't above `epoch`; 0 where there is none."""
    entry = element("entry", entries)
    kept = element("kept", keep(entry, entry.leader_epoch <= epoch))
    return max_of(kept, kept.leader_epoch, default=0)
