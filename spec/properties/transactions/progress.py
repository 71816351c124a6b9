"""Progress properties: decisions are completed, and requests are answered."""

from __future__ import annotations

from ....language import (
    Expression,
    Property,
    all_of,
    all_true,
    always_possible,
    failure,
    leads_to,
    size,
)
from ...client import state as client
from ...client.batches.epochs import id_left
from ...coordinator import entry as coordinator
from ...coordinator import markers
from ...leader import state as leader
from ...messages import PARTITION, PRODUCER, RECORD, offered_id
from .rivals import has_no_rival

i, p, r = PRODUCER.variable("i"), PARTITION.variable("p"), RECORD.variable("r")

waits_for_nothing = all_of(
    i,
    client.state.at(i).is_in(client.READY, client.FATAL_ERROR) | client.can_only_close.at(i),
)
"""Every request of a client is answered, and no application is in a transaction."""
owes_nothing = all_true(
    ~coordinator.is_prepared,
    ~coordinator.pending.is_set,
    ~coordinator.fence_to_come,
    size(markers.marker_sent) == 0,
)
"""The coordinator has nothing to write or to end, and no marker to send or to wait for."""
is_ended_by_timeout = ~leader.asks_coordinator | all_of(
    p,
    leader.is_open.at(p).implies(
        (coordinator.state == coordinator.ONGOING) & p.is_in(coordinator.partitions)
    ),
)
"""A transaction that is open at a leader is one that the coordinator will end: if nobody asks, when
it is older than its timeout, which is a fault in a bounded run. If leaders don't ask, a transaction
may hang for good (KAFKA-14402). NoHangingTransaction and StableOffsetPasses report that; the end of
a run, which all others need, doesn't."""


no_id_is_left = ~offered_id.is_set
"""A bounded run has used up its producer ids, and whoever needs one asks for ever."""


def _answered(name: str, waits: Expression, sentence: str, source: str) -> Property:
    waits = waits.at(i) & ~client.can_only_close.at(i)
    return leads_to(
        name, waits, ~waits | no_id_is_left, sentence, source, each=(i,),
        failure=failure("{} is still in {}", i, client.state.at(i)),
    )  # fmt: skip


is_in_a_call = (client.state.at(i) == client.INITIALIZING) | client.is_completing(
    client.state.at(i)
)
TRANSACTIONS = (
    leads_to(
        "PrepareCompletes", coordinator.is_prepared, ~coordinator.is_prepared,
        "What the coordinator has decided is completed eventually.",
        "KIP-98, TransactionState",
        failure=failure("the coordinator is still in {}", coordinator.state),
    ),
    leads_to(
        "StableOffsetPasses", leader.is_open.at(p) & coordinator.is_prepared, ~leader.is_open.at(p),
        "Once a transaction is decided, the last stable offset passes it on every partition.",
        "KIP-98, read_committed", each=(p,),
        failure=failure(
            "the transaction in {} is still open, and the coordinator is in {}",
            p, coordinator.state,
        ),
    ),
    _answered(
        "GetsEpoch", client.waits_for_id,
        "A client that asks for its epoch gets it, or an error that says why not.",
        "KIP-98, InitProducerId",
    ),
    _answered(
        "EndIsAnswered", client.is_completing(client.state),
        "A client that ends its transaction learns how it ended, or gets an error that says why "
        "not.",
        "KIP-98, EndTxn",
    ),
    leads_to(
        "NeverStuck", is_in_a_call & has_no_rival(i) & ~client.can_only_close.at(i),
        ~is_in_a_call | ~has_no_rival(i) | no_id_is_left,
        "Each call of a client without a rival ends, whatever comes after its first answer.",
        "KIP-98; KIP-360", each=(i,), failure=failure("{} is still in {}", i, client.state.at(i)),
    ),
    leads_to(
        "ProduceIsAnswered", client.is_open(client.batches.at(i)[p][r]),
        ~client.is_open(client.batches.at(i)[p][r]),
        "An application learns the outcome of each record that its client has sent.",
        "KIP-98, Produce; KIP-91", each=(i, p, r),
        failure=failure("{} still waits for the outcome of {} in {}", i, r, p),
    ),
    always_possible(
        "CanComeToRest",
        (waits_for_nothing & owes_nothing & is_ended_by_timeout) | no_id_is_left,
        "From every state, clients can still get their answers, and the coordinator can finish "
        "its work.",
        "KIP-98",
        failure=failure(
            "some call isn't answered, or the coordinator, in {}, isn't done", coordinator.state,
        ),
    ),
)  # fmt: skip

gets_no_id = (client.state.at(i) == client.UNINITIALIZED) & ~id_left.at(i)
IDEMPOTENCE = (
    leads_to(
        "ProduceIsAnswered",
        client.is_open(client.batches.at(i)[p][r]),
        ~client.is_open(client.batches.at(i)[p][r]) | gets_no_id,
        "An application learns the outcome of each record that its client has sent.",
        "KIP-98, Produce; KIP-91",
        each=(i, p, r),
        failure=failure("{} still waits for the outcome of {} in {}", i, r, p),
    ),
)
