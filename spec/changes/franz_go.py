"""franz-go's transactional client, where its rules were its own."""

from __future__ import annotations

from ...language import Row, Table, all_of, any_of, invariant, lost, position, set_of
from ...language.variants import Variant
from ..client.application import Outcome, abort_transaction, application, asked, end_reported
from ..client.calls import call_send
from ..client.end_txn import COMPLETED
from ..client.state import (
    ACKNOWLEDGED,
    ENDED,
    READY,
    added,
    batches,
    is_completing,
    q,
    s,
    started,
    state,
    txn,
)
from ..client.transaction_manager import CallResponse, ClientStep, Reaction, react
from ..errors import Errors
from ..leader.isolation import is_aborted, is_filtered, log_entry
from ..leader.state import Kind, last_stable_offset, log_start_offset
from ..messages import PARTITION, EndTxn, EndTxnResponse, connection, producer
from .rules import rule

adds_first = rule(
    "adds_first",
    "A client adds a partition before it writes to it; with EndBeginTxnUnsafe it counted as added "
    "in every transaction but the first.",
    "KAFKA-12671, twmb/franz-go: EndBeginTxnUnsafe, withdrawn",
)
ends_confirmed = rule(
    "ends_confirmed",
    "A client whose EndTxn may not have arrived goes on with it; before, it forgot the "
    "transaction, and an abort did nothing.",
    "twmb/franz-go 6ecd2f9f",
)
attempts_counted = rule(
    "attempts_counted",
    "A transaction is ended if a produce was attempted in it; before, if one was acknowledged.",
    "twmb/franz-go de5af46a",
)
failed_end_reported = rule(
    "failed_end_reported",
    "An end that was answered UNKNOWN_SERVER_ERROR has failed; before, its retry did nothing and "
    "was reported as done.",
    "twmb/franz-go 07525c50, f25fe060, 42b3d833 and 351dd40a",
)
aborted_sorted = rule(
    "aborted_sorted",
    "A reader sorts the list of aborted transactions; before, it took it as it came: newest first, "
    "where a leader is Redpanda's.",
    "twmb/franz-go b9b50cce",
)

_p = PARTITION.variable("p")
_entry = log_entry("e", _p)
_is_read = (
    (_entry.kind == Kind.DATA)
    & (position(_entry) >= log_start_offset.at(_p))
    & (position(_entry) < last_stable_offset.at(_p))
)
filters_aborted = invariant(
    "FiltersAborted",
    all_of(
        _p,
        all_of(
            _entry,
            _is_read.implies(is_filtered(_entry, _p, aborted_sorted) == is_aborted(_entry, _p)),
        ),
    ),
    "A read_committed reader that goes by the list of aborted transactions drops their records and "
    "no others.",
    "KIP-98, isolation; twmb/franz-go b9b50cce",
)

_lost = lost(EndTxn)
_none_acknowledged = ~any_of(q, any_of(s, batches[q][s].status == ACKNOWLEDGED))
_no_call = CallResponse(raises=None, cause=None, continues=False)
_partition = call_send.partition

variant = Variant(
    "franz-go",
    "Clients are franz-go's.",
    (
        Table(
            producer,
            on=call_send,
            response=CallResponse,
            rows=(
                Row(
                    "counts as added",
                    when=txn.is_set & (position(txn.value) > 0),
                    during=~adds_first,
                    set={added: added | set_of(_partition)},
                    source=adds_first.data.source,
                ),
            ),
        ),
        Table(
            producer,
            on=_lost,
            others=(application,),
            rows=(
                Row(
                    "the transaction is forgotten, and its abort does nothing",
                    when=(_lost.connection == connection) & is_completing(state),
                    during=~ends_confirmed,
                    goto=READY,
                    set=asked(Outcome.ABORTED) | ENDED,
                    source=ends_confirmed.data.source,
                ),
            ),
        ),
        Table(
            producer,
            on=abort_transaction,
            response=CallResponse,
            others=(application,),
            rows=(
                Row(
                    "nothing was acknowledged: nothing to abort",
                    when=started & _none_acknowledged,
                    during=~attempts_counted,
                    goto=READY,
                    set=asked(Outcome.ABORTED) | ENDED,
                    reply=_no_call,
                    source=attempts_counted.data.source,
                ),
            ),
        ),
        Table(
            producer,
            on=EndTxnResponse,
            response=Reaction,
            others=(application,),
            rows=(
                Row(
                    "failed, and reported as done",
                    when=(EndTxnResponse.connection == connection)
                    & (EndTxnResponse.error == Errors.UNKNOWN_SERVER_ERROR),
                    during=~failed_end_reported,
                    goto=READY,
                    set=end_reported() | COMPLETED,
                    reply=react(ClientStep.DONE),
                    source=failed_end_reported.data.source,
                ),
            ),
        ),
    ),
    (adds_first, ends_confirmed, attempts_counted, failed_end_reported, aborted_sorted),
    properties=(filters_aborted,),
)
