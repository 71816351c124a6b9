"""A broker's parts on their own: its manager of producer ids, what it makes of elections, and the
coordinator of a group's offsets."""

from __future__ import annotations

from dataclasses import replace

from epochfence.spec.systems import shipped
from epochfence.tests.spec.alone import Alone

BOUNDS = {"brokers": 1, "handlers": 1, "block_size": 2, "largest_producer_id": 9, "faults": 2}
ONE_BROKER = {"brokers": 1}
A_GROUP = {"producers": 2, "inputs": 2, "generations": 2}


class ProducerIdManager(Alone):
    """A manager with one thread, in blocks of two ids."""

    machine = "rpc_manager"
    system = shipped("producer-ids")
    bounds = BOUNDS


class Elected(Alone):
    """A broker that hears who leads the one partition of the transaction log."""

    machine = "coordinator"
    system = shipped("coordinators")
    bounds = ONE_BROKER


class OffsetsLeader(Alone):
    """The leader of a partition of `__consumer_offsets`, partition 1, with the group that it
    coordinates."""

    machine = "partition"
    system = shipped("exactly-once")
    bounds = A_GROUP


class Processor(Alone):
    """A client that reads, processes and writes: the offsets of its transaction, and its place in
    the input after an end."""

    machine = "producer"
    system = replace(shipped("exactly-once"), terminal=False)
    bounds = A_GROUP | {"producers": 1}
