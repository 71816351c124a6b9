"""A lock service that lends its lock for a time, and a storage that the lock's holders write to.

A client that is slow may write after its lease has expired. What saves the storage is the number
that each lease has: it refuses a write under an older lease than it has seen.
"""

from epochfence.language import (
    Channel,
    Int,
    Key,
    Machine,
    Protocols,
    Row,
    Set,
    System,
    Table,
    after,
    all_of,
    any_of,
    constant,
    enum,
    event,
    failure,
    feature,
    in_flight,
    invariant,
    lost,
    message,
    set_of,
    size,
    step_property,
)

CLIENTS = constant("clients", 2, 1, 4, meaning="clients that want the lock")
LEASES = constant("leases", 3, 1, 100, meaning="leases granted in a run")
EXPIRIES = constant("expiries", 1, 0, 10, meaning="leases that expire in a run")

CLIENT = Key("client", CLIENTS)
LEASE = Int(0, LEASES, "lease")  # 0: none
Error = enum("Error", NONE=0, STALE_LEASE=1)
State = enum("State", "IDLE", "ASKING", "HOLDING", "WRITING")

fencing = feature(
    "fencing", "2", sentence="The storage refuses a write under an older lease than it has seen."
)

service = Machine("service", doc="The lock service.")
holders = service.field("holders", Set(CLIENT), doc="Whose lease hasn't ended.")
newest = service.field("newest", LEASE, doc="The lease granted last.")

storage = Machine("storage", doc="What the lock protects.")
written = storage.field("written", LEASE, doc="The lease of the last write.")

client = Machine("client", CLIENT, doc="A client that writes once under each lease.")
state = client.state_field("state", State)
lease = client.field("lease", LEASE)

Acquire = message("Acquire", service, client=CLIENT)
Granted = message("Granted", client, answers=Acquire, lease=LEASE)
Write = message("Write", storage, client=CLIENT, lease=LEASE)
Written = message("Written", client, answers=Write, error=Error)
Release = message("Release", service, client=CLIENT, lease=LEASE)

acquire = event("acquire")
write = event("write")
expire = event("lease expires")

me = client.this
ask = Acquire(client=me)
has_it = Acquire.client.is_in(holders)
is_free = size(holders) == 0

TABLES = (
    Table(client, acquire, when=state == State.IDLE, rows=(
        Row("ask for the lock", goto=State.ASKING, send=(ask,)),
    )),
    # a request that can't be granted yet waits
    Table(service, Acquire, response=Granted, when=has_it | (is_free & (newest < LEASES)), rows=(
        Row("granted before", when=has_it, reply=Granted(lease=newest)),
        Row(
            "grant", set={holders: set_of(Acquire.client), newest: newest + 1},
            reply=Granted(lease=newest + 1),
        ),
    )),
    Table(client, lost(Acquire), rows=(Row("ask again", send=(ask,)),)),
    Table(client, lost(Granted), rows=(Row("ask again", send=(ask,)),)),
    Table(client, Granted, rows=(
        Row("hold the lock", goto=State.HOLDING, set={lease: Granted.lease}),
    )),
    Table(client, write, when=state == State.HOLDING, rows=(
        Row("write", goto=State.WRITING, send=(Write(client=me, lease=lease),)),
    )),
    Table(storage, Write, response=Written, rows=(
        Row("stale lease", when=Write.lease < written, during=fencing, reply=Error.STALE_LEASE),
        Row("write", set={written: Write.lease}, reply=Error.NONE),
    )),
    Table(client, Written, rows=(
        Row("lock was lost", when=Written.error == Error.STALE_LEASE, goto=State.IDLE),
        Row("release", goto=State.IDLE, send=(Release(client=me, lease=lease),)),
    )),
    Table(service, Release, rows=(
        Row(
            "the holder's", when=(Release.lease == newest) & Release.client.is_in(holders),
            set={holders: set_of()},
        ),
        Row("of an expired lease"),
    )),
    Table(service, expire, when=~is_free, rows=(Row("take it back", set={holders: set_of()}),)),
)  # fmt: skip

i, j = CLIENT.variable("i"), CLIENT.variable("j")
waits = any_of(in_flight("request", Acquire, client=i), True)
releases = any_of(in_flight("release", Release, client=i), True)
is_same = (lease.at(i) == lease.at(j)) & (lease.at(i) != 0)

system = System(
    name="lease",
    doc="Clients that write to a storage under a lease from a lock service.",
    tables=TABLES,
    properties=(
        invariant(
            "OneHolder", size(holders) <= 1, "At most one lease is open at a time.",
            failure=failure("the leases of {} are open", holders),
        ),
        invariant(
            "OwnLease", all_of(i, all_of(j, (i != j).implies(~is_same))),
            "No two clients hold the same lease.",
            failure=failure("{} and {} hold lease {}", i, j, lease.at(i)),
        ),
        step_property(
            "NoStaleWrite", after(written) >= written,
            "A write under an older lease never comes after one under a newer lease.",
            "M. Kleppmann, How to do distributed locking (2016)",
            failure=failure(
                "a write under lease {} comes after one under lease {}", after(written), written
            ),
        ),
    ),
    constants=(CLIENTS, LEASES, EXPIRIES),
    protocols=Protocols(("1", "2"), (fencing,)),
    channels=tuple(Channel(m, 1) for m in (Acquire, Granted, Write, Written, Release)),
    budgets={expire: EXPIRIES, (lost(Acquire), lost(Granted)): 1},
    interchangeable=(CLIENT,),
    terminal=(newest == LEASES) & is_free & all_of(i, waits & ~releases),
    reach="Two clients, three leases, one of which expires, and one message lost.",
)  # fmt: skip
