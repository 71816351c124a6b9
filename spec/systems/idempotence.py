"""An idempotent client, the leaders that it writes to, and all that happens between them."""

from __future__ import annotations

from .. import partition_idempotent as leader
from .. import sender as client
from ..features import KAFKA
from ..language import Channel, System, all_of, defaulting
from ..messages import (
    CACHED_BATCHES,
    DELAYS,
    DELETIONS,
    EXPIRIES,
    FAULTS,
    LARGEST_EPOCH,
    LARGEST_SEQUENCE,
    LEADER_CHANGES,
    LOSSES,
    PARTITION,
    PARTITIONS,
    PRODUCER_EXPIRIES,
    PRODUCER_IDS,
    PRODUCERS,
    RECORD,
    RECORDS,
    TRANSACTIONS,
    Produce,
    ProduceResponse,
)
from ..properties_idempotence import PROPERTIES

_p, _r = PARTITION.variable("p"), RECORD.variable("r")
_ME = 0
_state = client.state.at(_ME)

system = System(
    name="idempotence",
    doc="A client without transactional id and the leaders of the partitions that it writes to: "
    "requests are held up, refused or sent again, answers are lost, batches expire, leaders change "
    "and forget, and the client goes on with new epochs and a new producer id.",
    tables=client.TABLES + leader.TABLES,
    properties=PROPERTIES,
    constants=(
        PARTITIONS,
        defaulting(RECORDS, 3),
        client.IN_FLIGHT,
        defaulting(CACHED_BATCHES, 2),
        LARGEST_SEQUENCE,
        LARGEST_EPOCH,
        client.FIRST_EPOCH,
        PRODUCER_IDS,
        defaulting(FAULTS, 3),
        LOSSES,
        DELAYS,
        EXPIRIES,
        leader.REFUSALS,
        leader.SHORTAGES,
        LEADER_CHANGES,
        DELETIONS,
        defaulting(PRODUCER_EXPIRIES, 0),
    ),
    fixed={PRODUCERS: 1, TRANSACTIONS: 2},
    protocols=KAFKA,
    channels=(
        Channel(Produce, client.IN_FLIGHT, ordered=True),
        Channel(ProduceResponse, client.IN_FLIGHT, ordered=True),
        Channel(client.DelayedProduce, FAULTS),
    ),
    budgets={client.FAULTY_EVENTS + leader.FAULTY_EVENTS: FAULTS},
    interchangeable=(PARTITION,),
    terminal=((_state == client.State.UNINITIALIZED) & ~client.id_left.at(_ME))
    | all_of(_p, all_of(_r, ~client.is_open(client.batches.at(_ME)[_p][_r]))),
    reach="",
)
