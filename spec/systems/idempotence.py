"""An idempotent client, the leaders that it writes to, and all that happens between them."""

from __future__ import annotations

from ...language import DEFAULT, Channel, System, all_of, strong_fairness, weak_fairness
from ..client import state as client
from ..client.batches import accumulator, expiry, sender
from ..client.batches import epochs as epoch_bump
from ..client.transactions.transaction_manager import (
    BUMPING_VERSION,
    OLDEST_COORDINATOR_VERSION,
    OLDEST_TRANSACTION_VERSION,
)
from ..errors import ERROR_CODES, OF_BROKERS
from ..leader import idempotent as leader
from ..leader.state import GUARDS, PRODUCER_ID_EXPIRATION, log
from ..lemmas.sequences import LEMMAS
from ..messages import (
    CACHED_BATCHES,
    DELAYS,
    DELETIONS,
    EXPIRIES,
    FAULTS,
    IN_FLIGHT,
    LARGEST_DELTA,
    LARGEST_EPOCH,
    LARGEST_SEQUENCE,
    LATEST,
    LEADER_CHANGES,
    LOSSES,
    NO_NUMBER,
    PARTITION,
    PARTITIONS,
    PRODUCER_EXPIRIES,
    PRODUCER_IDS,
    PRODUCERS,
    RECORD,
    RECORDS,
    SPARE,
    TRANSACTIONS,
    Produce,
    ProduceResponse,
)
from ..properties.idempotence import PROPERTIES
from ..properties.transactions.progress import IDEMPOTENCE as PROGRESS
from ..releases.features import CLIENT, KAFKA, LEADER, transactional
from . import logs
from .coverage.recorded_runs import reached
from .coverage.unreached_rows import IDEMPOTENCE as UNREACHED
from .reductions import client as client_reductions
from .reductions.leader import IDEMPOTENT

_p, _r = PARTITION.variable("p"), RECORD.variable("r")
_ME = 0
client_state = client.state.at(_ME)

system = System(
    name="idempotence",
    doc="A client without transactional id and the leaders of the partitions that it writes to: "
    "requests are held up, refused or sent again, answers are lost, batches expire, leaders change "
    "and forget, and the client goes on with new epochs and a new producer id.",
    tables=sender.TABLES + expiry.TABLES + epoch_bump.TABLES + leader.TABLES,
    reductions=(*client_reductions.BATCHES, *IDEMPOTENT),
    properties=PROPERTIES,
    lemmas=LEMMAS,
    constants=(
        PARTITIONS,
        RECORDS,
        IN_FLIGHT,
        CACHED_BATCHES,
        LARGEST_SEQUENCE,
        LARGEST_EPOCH,
        client.FIRST_EPOCH,
        PRODUCER_IDS,
        FAULTS,
        LOSSES,
        DELAYS,
        EXPIRIES,
        leader.REFUSALS,
        leader.SHORTAGES,
        LEADER_CHANGES,
        DELETIONS,
        PRODUCER_EXPIRIES,
    ),
    fixed={
        PRODUCERS: 1,
        TRANSACTIONS: 1,
        SPARE: 3,
        NO_NUMBER: 0,
        LATEST: 0,
        **sender.SETTINGS,
        LARGEST_DELTA: 0,
        GUARDS: 0,
        PRODUCER_ID_EXPIRATION: 0,
        ERROR_CODES: OF_BROKERS,
        OLDEST_COORDINATOR_VERSION: BUMPING_VERSION,
        OLDEST_TRANSACTION_VERSION: 2,
    },
    bounds={
        DEFAULT: {
            RECORDS: 3,
            CACHED_BATCHES: 2,
            PRODUCER_IDS: 1,
            FAULTS: 3,
            PRODUCER_EXPIRIES: 0,
        },
        "small": {PARTITIONS: 1, FAULTS: 2},
        # deleted records matter before 2.4 only, when producers went with them
        "large": {
            RECORDS: 4,
            IN_FLIGHT: 3,
            CACHED_BATCHES: 3,
            LARGEST_SEQUENCE: 4,
            FAULTS: 4,
            DELETIONS: 0,
        },
        "real": {
            PARTITIONS: 4,
            RECORDS: 5,
            IN_FLIGHT: 5,
            PRODUCER_IDS: 4,
            LARGEST_EPOCH: 32767,
            LARGEST_SEQUENCE: 7,
            CACHED_BATCHES: 5,
            FAULTS: 10,
            PRODUCER_EXPIRIES: 0,
        },
    },
    protocols=KAFKA.settling({transactional: False}).of_parts(CLIENT, LEADER),
    channels=(
        Channel(Produce, IN_FLIGHT, ordered=True),
        Channel(ProduceResponse, IN_FLIGHT, ordered=True),
        Channel(epoch_bump.DelayedProduce, FAULTS),
    ),
    budgets={
        sender.FAULTY_EVENTS
        + expiry.FAULTY_EVENTS
        + epoch_bump.FAULTY_EVENTS
        + leader.FAULTY_EVENTS: FAULTS
    },
    interchangeable=(PARTITION,),
    terminal=((client_state == client.UNINITIALIZED) & ~epoch_bump.id_left.at(_ME))
    | all_of(_p, all_of(_r, ~client.is_open(client.batches.at(_ME)[_p][_r]))),
    progress=PROGRESS,
    observed=(log,),
    logs=(logs.LEADER,),
    fairness=weak_fairness(
        accumulator.drain, expiry.resolve, epoch_bump.bump, epoch_bump.give_producer_id
    )
    + strong_fairness(Produce, ProduceResponse, epoch_bump.DelayedProduce),
    unreached=UNREACHED,
    reached=reached(),
    reach="on two partitions three faults of any kinds, each at any step: an epoch that is used "
    "up, a request that arrives after its retry, a batch that expires and arrives, a leader that "
    "starts from a snapshot. They don't reach a cache smaller than what is in flight "
    "(cached_batches=1), a new producer id (producer_ids=2), a sequence that wraps "
    "(largest_sequence below records, but more than what is in flight, and no delays), or a leader "
    "that forgets an idle producer (producer_expiries=1). A late request is one of the same "
    "epoch, or of an older one, not one from before a wrap. The large bounds reach any four faults "
    "but the deletion of records, four records to a partition and three batches in flight.",
)
