"""franz-go's transactional client, with the rules that it had of its own."""

from __future__ import annotations

from ....language import (
    Change,
    Row,
    all_of,
    any_of,
    each,
    failure,
    if_,
    invariant,
    lost,
    position,
    set_of,
    those,
)
from ...client.calls.application import Outcome, acknowledged, outcome
from ...client.calls.calls import call_send
from ...client.state import (
    ACKNOWLEDGED,
    COMMITTING,
    READY,
    Batch,
    added,
    adding,
    batches,
    ending,
    is_completing,
    must_bump,
    q,
    s,
    started,
    state,
    txn,
)
from ...client.transactions.end_txn import downgrade_waits
from ...client.transactions.transaction_manager import (
    finalized_version,
    transaction_version,
)
from ...errors import Errors
from ...leader.isolation import is_aborted, is_filtered, log_entry
from ...leader.state import Kind, last_stable_offset, log_start_offset
from ...messages import PARTITION, EndTxn, EndTxnResponse, connection
from ..rules import rule

adds_first = rule(
    "adds_first",
    "A client adds a partition before it writes to it. With EndBeginTxnUnsafe a partition counted "
    "as added in every transaction but the first.",
    "KAFKA-12671, twmb/franz-go: EndBeginTxnUnsafe, withdrawn",
)
ends_confirmed = rule(
    "ends_confirmed",
    "A client whose EndTxn may not have arrived goes on with it. Before, it forgot the "
    "transaction, and an abort did nothing.",
    "twmb/franz-go 6ecd2f9f",
)
attempts_counted = rule(
    "attempts_counted",
    "A transaction is ended if a produce was attempted in it. Before, only if one was "
    "acknowledged.",
    "twmb/franz-go de5af46a",
)
failed_end_reported = rule(
    "failed_end_reported",
    "An end that was answered UNKNOWN_SERVER_ERROR has failed. Before, its retry did nothing and "
    "was reported as done.",
    "twmb/franz-go 07525c50, f25fe060, 42b3d833 and 351dd40a",
)
aborted_sorted = rule(
    "aborted_sorted",
    "A reader sorts the list of aborted transactions. Before, it used the list's own order: newest "
    "first, from a leader of Redpanda.",
    "twmb/franz-go b9b50cce",
)

on_partition = PARTITION.variable("p")
entry = log_entry("e", on_partition)
is_read = (
    (entry.kind == Kind.DATA)
    & (position(entry) >= log_start_offset.at(on_partition))
    & (position(entry) < last_stable_offset.at(on_partition))
)
filters_aborted = invariant(
    "FiltersAborted",
    all_of(
        on_partition,
        entry,
        is_read.implies(
            is_filtered(entry, on_partition, aborted_sorted) == is_aborted(entry, on_partition)
        ),
    ),
    "A read_committed reader that uses the list of aborted transactions drops their records and "
    "no others.",
    "KIP-98, isolation; twmb/franz-go b9b50cce",
    failure=failure(
        "a reader of {} gets the record at offset {} of an aborted transaction, or drops it "
        "of a committed one",
        on_partition,
        position(entry),
    ),
)

end_txn_lost = lost(EndTxn)
none_acknowledged = ~any_of(q, s, batches[q][s].status == ACKNOWLEDGED)
without_batches = each(q, s, Batch())

franz_go = (
    Change(
        "franz-go",
        "Clients are franz-go's.",
        features=(
            adds_first,
            ends_confirmed,
            attempts_counted,
            failed_end_reported,
            aborted_sorted,
        ),
        properties=(filters_aborted,),
    )
    .table("producer.send")
    .before(
        "to-be-added",
        Row(
            "counts-as-added",
            "The partition counts as added since an earlier transaction",
            when=txn.is_set & (position(txn.value) > 0),
            during=~adds_first,
            set={added: added | set_of(call_send.partition)},
            source="KAFKA-12671, twmb/franz-go: EndBeginTxnUnsafe, withdrawn",
        ),
    )
    .table("producer.lost EndTxn")
    .before(
        "not-awaited",
        Row(
            "transaction-forgotten",
            "The transaction is forgotten, and its abort does nothing",
            when=(end_txn_lost.connection == connection) & is_completing(state),
            during=~ends_confirmed,
            goto=READY,
            set={
                outcome.at(txn.value): Outcome.ABORTED,
                txn: None,
                batches: without_batches,
                ending: False,
                adding: set_of(),
                added: set_of(),
            },
            source="twmb/franz-go 6ecd2f9f",
        ),
    )
    .table("producer.abortTransaction")
    .before(
        "wait-for-batches",
        Row(
            "nothing-acknowledged",
            "No record was acknowledged, and nothing is aborted",
            when=started & none_acknowledged,
            during=~attempts_counted,
            goto=READY,
            set={
                outcome.at(txn.value): Outcome.ABORTED,
                txn: None,
                batches: without_batches,
                ending: False,
                adding: set_of(),
                added: set_of(),
            },
            source="twmb/franz-go de5af46a",
        ),
    )
    .table("producer.EndTxnResponse")
    .before(
        "closed-connection",
        Row(
            "failed-and-reported-as-done",
            "The end has failed, and the client reports that it is done",
            when=(EndTxnResponse.connection == connection)
            & (EndTxnResponse.error == Errors.UNKNOWN_SERVER_ERROR),
            during=~failed_end_reported,
            goto=READY,
            set={
                outcome.at(txn.value): if_(state == COMMITTING, Outcome.COMMITTED, Outcome.ABORTED),
                acknowledged.at(txn.value): if_(
                    state == COMMITTING,
                    each(q, those(s, batches[q][s].status == ACKNOWLEDGED)),
                    acknowledged.at(txn.value),
                ),
                txn: None,
                batches: without_batches,
                ending: False,
                adding: set_of(),
                added: set_of(),
                must_bump: False,
                transaction_version: if_(downgrade_waits, finalized_version, transaction_version),
            },
            source="twmb/franz-go 07525c50, f25fe060, 42b3d833 and 351dd40a",
        ),
    )
)
