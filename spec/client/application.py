"""The application on top of a transactional client: its calls and their outcomes."""

from __future__ import annotations

from ...language import Expression, Machine, Map, Set, each, enum, event, if_, those
from ...language.expressions import Operand
from ..messages import PARTITION, RECORD, TRANSACTION
from .state import ACKNOWLEDGED as _ACKNOWLEDGED
from .state import COMMITTING, batches, q, s, state, txn

Outcome = enum("Outcome", "NOT_BEGUN", "BEGUN", "COMMITTING", "COMMITTED", "ABORTED")
application = Machine("application", TRANSACTION, doc="The applications' view of a transaction.")
outcome = application.field(
    "outcome",
    Outcome,
    doc="The call that the application made, and the outcome that the client reported.",
)
acknowledged = application.field(
    "acknowledged", Map(PARTITION, Set(RECORD)),
    doc="The records that were acknowledged, of a transaction reported committed.",
)  # fmt: skip

init_transactions = event("initTransactions")
begin_transaction = event("beginTransaction", txn=TRANSACTION)
commit_transaction = event("commitTransaction")
abort_transaction = event("abortTransaction")


def asked(result: Expression) -> dict[Expression, Operand]:
    """The application asks for its transaction's commit."""
    return {outcome.at(txn.value): result}


def end_reported() -> dict[Expression, Operand]:
    """The client reports the outcome of the transaction that it was ending."""
    committed = state == COMMITTING
    records = each(q, those(s, batches[q][s].status == _ACKNOWLEDGED))
    return {
        outcome.at(txn.value): if_(committed, Outcome.COMMITTED, Outcome.ABORTED),
        acknowledged.at(txn.value): if_(committed, records, acknowledged.at(txn.value)),
    }
