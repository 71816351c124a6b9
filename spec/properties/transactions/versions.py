"""Properties where transaction.version changes within a run."""

from __future__ import annotations

from ....language import after, any_of, failure, step_property
from ...coordinator import entry as coordinator
from ...coordinator.entry import TransactionState
from ...messages import PRODUCER

i = PRODUCER.variable("i")
_STATE = TransactionState

ends_as_it_began = step_property(
    "EndsAsItBegan",
    (
        (coordinator.state == _STATE.ONGOING)
        & after(coordinator.is_prepared)
        & (coordinator.coordinator_epoch == after(coordinator.coordinator_epoch))
        & any_of(i, coordinator.asked_by[i].is_set)
    ).implies(
        after(coordinator.client_transaction_version) == coordinator.client_transaction_version
    ),
    "A client's EndTxn ends a transaction that began under the EndTxn's own version.",
    "KAFKA-18227",
    failure=failure(
        "a transaction that began under version {} ends under version {}",
        coordinator.client_transaction_version,
        after(coordinator.client_transaction_version),
    ),
)

PROPERTIES = (ends_as_it_began,)
