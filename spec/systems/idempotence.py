"""An idempotent client, the leaders that it writes to, and all that happens between them."""

from __future__ import annotations

from .. import partition_idempotent, sender
from ..features import KAFKA
from ..language import Channel, System, all_of
from ..messages import (
    CACHED_BATCHES,
    DELAYS,
    EXPIRIES,
    FAULTS,
    LARGEST_EPOCH,
    LARGEST_SEQUENCE,
    LOSSES,
    PARTITION,
    PARTITIONS,
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


system = System(
    name="idempotence",
    doc="An idempotent client without transactions, and the leaders of the partitions that it "
    "writes to.",
    tables=sender.TABLES + partition_idempotent.TABLES,
    properties=PROPERTIES,
    constants=(
        RECORDS,
        PARTITIONS,
        sender.IN_FLIGHT,
        CACHED_BATCHES,
        LARGEST_SEQUENCE,
        LARGEST_EPOCH,
        sender.FIRST_EPOCH,
        PRODUCER_IDS,
        FAULTS,
        LOSSES,
        DELAYS,
        EXPIRIES,
        partition_idempotent.REFUSALS,
        partition_idempotent.SHORTAGES,
    ),
    fixed={PRODUCERS: 1, TRANSACTIONS: 2},
    protocols=KAFKA,
    channels=(
        Channel(Produce, sender.IN_FLIGHT, ordered=True),
        Channel(ProduceResponse, sender.IN_FLIGHT, ordered=True),
        Channel(sender.DelayedProduce, FAULTS),
    ),
    budgets={sender.FAULTY_EVENTS + partition_idempotent.FAULTY_EVENTS: FAULTS},
    interchangeable=(PARTITION,),
    terminal=(sender.state.at(0) == sender.State.FATAL_ERROR)
    | ((sender.state.at(0) == sender.State.UNINITIALIZED) & ~sender.id_left.at(0))
    | all_of(_p, all_of(_r, ~sender.is_open(sender.batches.at(0)[_p][_r]))),
)
