"""A bounded queue between threads: who finds it full, or empty, sleeps until somebody wakes it.

The mistake: a put or a take wakes one sleeper, whoever that is (`notify` in place of `notifyAll`).
In release 1 the wake-up of a put may go to another producer. It finds the queue full and sleeps
again, until all sleep for ever. Few threads don't show it: it takes more than twice the capacity.
"""

from epochfence.language import (
    Int,
    Key,
    Machine,
    Protocols,
    Row,
    Set,
    System,
    Table,
    any_of,
    constant,
    event,
    failure,
    feature,
    invariant,
    position,
    set_of,
    size,
)

PRODUCERS = constant("producers", 2, 1, 4, meaning="threads that put")
CONSUMERS = constant("consumers", 1, 1, 4, meaning="threads that take")
CAPACITY = constant("capacity", 1, 1, 4, meaning="items that the queue holds")

THREAD = Key("thread", PRODUCERS + CONSUMERS)  # the producers come first
wakes_all = feature("wakes_all", "2", sentence="A put or a take wakes every sleeper.")

queue = Machine("queue", doc="The queue, and the threads that it puts to sleep.")
held = queue.field("held", Int(0, CAPACITY), doc="How many items are in it.")
asleep = queue.field("asleep", Set(THREAD))

t, woken = THREAD.variable("t"), THREAD.variable("woken")
produces = position(t) < PRODUCERS


def rows(held_then):
    """A put or a take: the items change, and sleepers wake up."""
    return (
        Row("wake all", set={held: held_then, asleep: set_of()}, during=wakes_all),
        Row("wake one", set={held: held_then, asleep: asleep - set_of(woken)}, during=~wakes_all),
    )


def table(name, condition, *over, then):
    """What a thread that is awake does; the environment chooses who wakes up, if anybody sleeps."""
    may_wake = woken.is_in(asleep) | ((size(asleep) == 0) & (woken == t))
    may_happen = ~t.is_in(asleep) & condition & (may_wake if over else True)
    return Table(queue, event(name, t, *over), when=may_happen, rows=then)


fall_asleep = (Row("sleep", set={asleep: asleep | set_of(t)}),)

TABLES = (
    table("put", produces & (held < CAPACITY), woken, then=rows(held + 1)),
    table("take", ~produces & (held > 0), woken, then=rows(held - 1)),
    table("find it full", produces & (held == CAPACITY), then=fall_asleep),
    table("find it empty", ~produces & (held == 0), then=fall_asleep),
)

system = System(
    name="bounded-queue",
    doc="Producers and consumers that share a bounded queue.",
    tables=TABLES,
    properties=(
        invariant(
            "SomebodyIsAwake",
            any_of(t, ~t.is_in(asleep)),
            "Not all threads sleep at once.",
            failure=failure("{} sleep, and the queue holds {} of {} items", asleep, held, CAPACITY),
        ),
    ),
    constants=(PRODUCERS, CONSUMERS, CAPACITY),
    protocols=Protocols(("1", "2"), (wakes_all,)),
    reach="Two producers and one consumer, which go on for ever.",
)
