"""The application on top of a transactional client: its calls and their outcomes."""

from __future__ import annotations

from ....language import Machine, Map, Set, enum, event
from ...messages import PARTITION, RECORD, TRANSACTION

Outcome = enum("Outcome", "NOT_BEGUN", "BEGUN", "COMMITTING", "COMMITTED", "ABORTED")
application = Machine("application", TRANSACTION, doc="The applications' view of a transaction.")
outcome = application.field(
    "outcome",
    Outcome,
    doc="The call that the application made, and the outcome that the client reported.",
)
acknowledged = application.field(
    "acknowledged",
    Map(PARTITION, Set(RECORD)),
    doc="The records that were acknowledged, of a transaction reported committed.",
)

init_transactions = event("initTransactions")
begin_transaction = event("beginTransaction", txn=TRANSACTION)
commit_transaction = event("commitTransaction")
abort_transaction = event("abortTransaction")
