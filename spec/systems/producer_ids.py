"""Brokers that take blocks of producer ids from a shared store and hand them out."""

from __future__ import annotations

from ...language import Channel, System, each, strong_fairness, weak_fairness
from ..lemmas.producer_ids import LEMMAS
from ..messages import LATEST, NO_NUMBER, now
from ..producer_ids import controller as rpc
from ..producer_ids import rpc_manager
from ..producer_ids import zookeeper as zk
from ..producer_ids.state import (
    BLOCK_SIZE,
    BROKER,
    BROKERS,
    FAULTS,
    HANDLER,
    HANDLERS,
    LARGEST_PRODUCER_ID,
    LONGEST_BLOCK,
    NO_BLOCK,
    PREFETCH_THRESHOLD,
    connection_loss,
    crash,
)
from ..properties.producer_ids import PROGRESS, PROPERTIES
from ..releases.features import KAFKA
from .coverage.recorded_runs import reached
from .coverage.unreached_rows import PRODUCER_ID_BLOCKS as UNREACHED
from .reductions.producer_ids import MANAGERS

b, h = BROKER.variable("b"), HANDLER.variable("h")
_SENT_AGAIN = FAULTS + 1  # each fault may leave a request behind

system = System(
    name="producer-ids",
    doc="Brokers that race for blocks of producer ids, from ZooKeeper or from the controller, and "
    "hand them out until there are none left.",
    tables=rpc_manager.TABLES + rpc.TABLES + zk.TABLES,
    reductions=MANAGERS,
    properties=PROPERTIES,
    progress=PROGRESS,
    # nobody has to ask for an id; a broker that is down may stay so
    fairness=weak_fairness(
        rpc_manager.take_prefetched,
        rpc_manager.set_current,
        rpc_manager.clear_in_flight,
        rpc_manager.request_block,
        rpc_manager.wait_ends,
        zk.read,
    )
    + strong_fairness(zk.SetData, zk.SetDataResponse),
    lemmas=LEMMAS,
    constants=(BROKERS, HANDLERS, BLOCK_SIZE, LARGEST_PRODUCER_ID, PREFETCH_THRESHOLD, FAULTS),
    fixed={NO_NUMBER: -1, LATEST: 0, LONGEST_BLOCK: 0, rpc_manager.RETRY_BACKOFF: 0},
    bounds={"large": {FAULTS: 2}},
    initials={
        now: 0,
        rpc.broker_epoch: 0,
        rpc.registered: each(b, 0),
        rpc.current_block: NO_BLOCK,
        rpc.taken: each(h, NO_BLOCK),
    },
    protocols=KAFKA.of_parts(),
    channels=(
        Channel(rpc.AllocateProducerIds, _SENT_AGAIN),
        Channel(rpc.AllocateProducerIdsResponse, 1),
        Channel(zk.SetData, _SENT_AGAIN),
        Channel(zk.SetDataResponse, 1),
    ),
    budgets={
        (
            crash,
            connection_loss,
            *rpc_manager.FAULTY_EVENTS,
            *rpc.FAULTY_EVENTS,
            *zk.FAULTY_EVENTS,
        ): FAULTS
    },
    interchangeable=(BROKER, HANDLER),
    unreached=UNREACHED,
    reached=reached(),
    reach="two brokers that race for three blocks until there are none left, two threads of each "
    "at any step of their calls, and one fault at any step (two with the large bounds): a crash, "
    "a new registration, a session that ends, a failover, a request that is sent again or given up "
    "and yet processed. They don't reach a third broker, one that isn't registered, a thread that "
    "claims from a block that has just been replaced, or a controller of ZooKeeper's time.",
)
