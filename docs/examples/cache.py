"""A cache beside a database: readers fill it, and a writer deletes what it has made out of date.

The mistake: a reader misses, reads the database, is slow, and fills the cache after the writer has
deleted the entry. The old value then stays for good. Leases mend it: a miss hands out a token, a
delete takes it back, and only a fill with the newest token counts (Nishtala et al., Scaling
Memcache at Facebook, 2013). A token is of one miss: the reader's name won't do. Release 1 is
without leases.
"""

from epochfence.language import (
    Channel,
    Int,
    Key,
    Machine,
    Optional,
    Protocols,
    Row,
    System,
    Table,
    any_of,
    constant,
    enum,
    event,
    failure,
    feature,
    in_flight,
    invariant,
    message,
)

READERS = constant("readers", 2, 1, 4, meaning="clients that read")
WRITES = constant("writes", 2, 1, 6, meaning="writes in a run")
MISSES = constant("most_misses", 3, 1, 9, meaning="misses in a run")

READER = Key("reader", READERS)
VERSION = Int(0, WRITES, "version")
TOKEN = Int(0, MISSES, "token")  # of a miss, from 1 on; 0: none
State = enum("State", "IDLE", "ASKING", "READING")

leases = feature("leases", "2", sentence="Only the reader of the last miss may fill.")

database = Machine("database")
stored = database.field("stored", VERSION, doc="The version of the value that is stored.")

cache = Machine("cache")
cached = cache.field("cached", Optional(VERSION))
token = cache.field("token", TOKEN, doc="With what the entry may be filled.")
misses = cache.field("misses", TOKEN, doc="The token given out last.")

reader = Machine("reader", READER)
state = reader.state_field("state", State)
lease = reader.field("lease", TOKEN, doc="The token of its last miss.")

Get = message("Get", cache, reader=READER)
Value = message("Value", reader, answers=Get, found=Optional(VERSION), token=TOKEN)
Read = message("Read", database, reader=READER)
Stored = message("Stored", reader, answers=Read, version=VERSION)
Fill = message("Fill", cache, reader=READER, version=VERSION, token=TOKEN)
Delete = message("Delete", cache)

me = reader.this

TABLES = (
    Table(reader, event("get"), when=state == State.IDLE, rows=(
        Row("ask the cache", goto=State.ASKING, send=(Get(reader=me),)),
    )),
    Table(cache, Get, response=Value, when=cached.is_set | (misses < MISSES), rows=(
        Row("hit", when=cached.is_set, reply=Value(found=cached)),
        Row(
            "miss", set={misses: misses + 1, token: misses + 1},
            reply=Value(found=None, token=misses + 1),
        ),
    )),
    Table(reader, Value, rows=(
        Row("found", when=Value.found.is_set, goto=State.IDLE),
        Row(
            "ask the database", goto=State.READING, set={lease: Value.token},
            send=(Read(reader=me),),
        ),
    )),
    Table(database, Read, response=Stored, rows=(Row("read", reply=Stored(version=stored)),)),
    Table(reader, Stored, rows=(
        Row(
            "fill the cache", goto=State.IDLE,
            send=(Fill(reader=me, version=Stored.version, token=lease),),
        ),
    )),
    Table(cache, Fill, rows=(
        Row("not the newest token", when=token != Fill.token, during=leases),
        Row("fill", set={cached: Fill.version, token: 0}),
    )),
    Table(database, event("write"), when=stored < WRITES, rows=(
        Row("write", set={stored: stored + 1}, send=(Delete(),)),
    )),
    Table(cache, Delete, rows=(Row("forget", set={cached: None, token: 0}),)),
)  # fmt: skip

delete = in_flight("delete", Delete)
is_stale = cached.is_set & (cached.value < stored)

system = System(
    name="cache",
    doc="Readers that look into a cache first, and a database that is written to.",
    tables=TABLES,
    properties=(
        invariant(
            "NotStaleForGood", is_stale.implies(any_of(delete, True)),
            "The cache has an old value only while the delete of it is on its way.",
            failure=failure(
                "the cache has version {}, the database {}, and no delete is on its way",
                cached, stored,
            ),
        ),
    ),
    constants=(READERS, WRITES, MISSES),
    protocols=Protocols(("1", "2"), (leases,)),
    channels=(*(Channel(m, 1) for m in (Get, Value, Read, Stored, Fill)), Channel(Delete, WRITES)),
    interchangeable=(READER,),
    terminal=misses == MISSES,
    reach="Two readers, two writes and three misses; nothing is lost.",
)  # fmt: skip
