"""The calls of an application that makes them in turn, where no request waits in a queue.

Most systems check this: a call and the request behind it are one step. The rows are those
of `calls` for a client in the right state, joined with those of `TransactionManager.nextRequest`.
"""

from __future__ import annotations

import dataclasses

from ....language import Row, Table, all_of, constant, if_, position, set_of, size
from ...messages import TRANSACTION, Result, connection, producer
from ...releases.features import client_epoch_bump, transaction_version_2
from ..state import (
    ABORTABLE_ERROR,
    ABORTING,
    COMMITTING,
    IN_TRANSACTION,
    INITIALIZING,
    NO_BATCHES,
    READY,
    UNINITIALIZED,
    added,
    adding,
    batches,
    bump_asked,
    ending,
    must_bump,
    settled,
    started,
    state,
    txn,
)
from ..transactions.add_partitions import add
from ..transactions.end_txn import end
from ..transactions.init_producer_id import init
from ..transactions.transaction_manager import (
    client_side_epoch_bump_required,
    end_version,
    next_transaction_version,
    transaction_version,
)
from .application import (
    Outcome,
    abort_transaction,
    application,
    begin_transaction,
    commit_transaction,
    init_transactions,
    outcome,
)
from .calls import call_offsets, call_send, is_in_transaction

EARLY_ENDS = constant(
    "early_ends",
    0,
    0,
    1,
    meaning="1: a commit or abort may be asked for before the batches in flight are done",
)

initialize = Table(
    producer,
    on=init_transactions,
    when=state == UNINITIALIZED,
    rows=(
        Row(
            "initialize",
            "InitProducerId is sent",
            goto=INITIALIZING,
            send=(init(connection),),
            source="TransactionManager.initializeTransactions",
        ),
    ),
)

t = TRANSACTION.variable("t")
begin = Table(
    producer,
    on=begin_transaction,
    others=(application,),
    when=(state == READY)
    & (outcome.at(begin_transaction.txn) == Outcome.NOT_BEGUN)
    & all_of(
        t,
        (position(t) < position(begin_transaction.txn)).implies(outcome.at(t) != Outcome.NOT_BEGUN),
    ),
    doc="Applications' transactions are numbered in the order in which they begin.",
    rows=(
        Row(
            "begin",
            "The transaction begins",
            goto=IN_TRANSACTION,
            set={
                txn: begin_transaction.txn,
                outcome.at(begin_transaction.txn): Outcome.BEGUN,
            },
            source="TransactionManager.beginTransaction",
        ),
    ),
)

send = Table(
    producer,
    on=call_send,
    when=~transaction_version_2
    & is_in_transaction
    & ~call_send.partition.is_in(adding | added)
    & (size(adding) == 0),
    doc="One partition is asked for at a time. With transactions of version 2 none is.",
    rows=(
        Row(
            "to-be-added",
            "AddPartitionsToTxn is sent",
            set={adding: set_of(call_send.partition)},
            send=(add(call_send.partition, connection),),
            source="TransactionManager.maybeAddPartition, addPartitionsToTransactionHandler",
        ),
    ),
)

send_offsets = Table(
    producer,
    on=call_offsets,
    doc="The requests about a group's offsets are the group's matter.",
    rows=(
        Row(
            "commit-offsets",
            "Transactions of version 2: TxnOffsetCommit is next",
            during=transaction_version_2,
            source="TransactionManager.sendOffsetsToTransaction, KIP-890",
        ),
        Row(
            "add-offsets",
            "AddOffsetsToTxn is next",
            during=~transaction_version_2,
            source="TransactionManager.sendOffsetsToTransaction",
        ),
    ),
)

may_end = (size(adding) == 0) & (settled | (EARLY_ENDS > 0))

commit = Table(
    producer,
    on=commit_transaction,
    others=(application,),
    when=(state == IN_TRANSACTION) & may_end,
    rows=(
        Row(
            "wait-for-batches",
            "EndTxn waits for the batches in flight",
            when=~settled,
            goto=COMMITTING,
            set={
                outcome.at(txn.value): Outcome.COMMITTING,
                end_version: transaction_version,
                transaction_version: next_transaction_version,
                must_bump: client_side_epoch_bump_required,
                bump_asked: client_side_epoch_bump_required,
                ending: True,
            },
            source="TransactionManager.beginCommit, nextRequest",
        ),
        Row(
            "commit",
            "EndTxn is sent",
            when=started,
            goto=COMMITTING,
            set={
                outcome.at(txn.value): Outcome.COMMITTING,
                end_version: transaction_version,
                transaction_version: next_transaction_version,
                must_bump: client_side_epoch_bump_required,
                bump_asked: client_side_epoch_bump_required,
            },
            send=(end(Result.COMMIT, connection),),
            source="TransactionManager.beginCommit, nextRequest",
        ),
        Row(
            "nothing-to-commit",
            "The transaction is empty: no EndTxn is sent",
            goto=if_(client_side_epoch_bump_required, INITIALIZING, READY),
            set={
                outcome.at(txn.value): Outcome.COMMITTED,
                txn: None,
                batches: NO_BATCHES,
                adding: set_of(),
                added: set_of(),
                ending: False,
                end_version: transaction_version,
                transaction_version: next_transaction_version,
                must_bump: False,
                bump_asked: client_side_epoch_bump_required,
            },
            send=(dataclasses.replace(init(connection), when=client_side_epoch_bump_required),),
            source="TransactionManager.beginCommit, nextRequest, completeTransaction",
        ),
    ),
)

abort = Table(
    producer,
    on=abort_transaction,
    others=(application,),
    when=state.is_in(IN_TRANSACTION, ABORTABLE_ERROR) & txn.is_set & may_end,
    rows=(
        Row(
            "wait-for-batches",
            "EndTxn waits for the batches in flight",
            when=~settled,
            goto=ABORTING,
            set={
                end_version: transaction_version,
                transaction_version: next_transaction_version,
                must_bump: client_side_epoch_bump_required,
                bump_asked: client_side_epoch_bump_required,
                ending: True,
            },
            source="TransactionManager.beginAbort, nextRequest",
        ),
        Row(
            "abort",
            "EndTxn is sent",
            when=started,
            goto=ABORTING,
            set={
                end_version: transaction_version,
                transaction_version: next_transaction_version,
                must_bump: client_side_epoch_bump_required,
                bump_asked: client_side_epoch_bump_required,
            },
            send=(end(Result.ABORT, connection),),
            source="TransactionManager.beginAbort, nextRequest",
        ),
        Row(
            "nothing-to-abort-bump",
            "The transaction is empty, and a new epoch is needed: InitProducerId is sent",
            when=client_side_epoch_bump_required,
            during=client_epoch_bump & ~transaction_version_2,
            goto=INITIALIZING,
            set={
                outcome.at(txn.value): Outcome.ABORTED,
                txn: None,
                batches: NO_BATCHES,
                adding: set_of(),
                added: set_of(),
                ending: False,
                end_version: transaction_version,
                transaction_version: next_transaction_version,
                must_bump: False,
                bump_asked: client_side_epoch_bump_required,
            },
            send=(init(connection),),
            source="TransactionManager.beginAbort, nextRequest, completeTransaction",
        ),
        Row(
            "nothing-to-abort",
            "The transaction is empty: no EndTxn is sent",
            goto=READY,
            set={
                outcome.at(txn.value): Outcome.ABORTED,
                txn: None,
                batches: NO_BATCHES,
                adding: set_of(),
                added: set_of(),
                ending: False,
                end_version: transaction_version,
                transaction_version: next_transaction_version,
                must_bump: client_side_epoch_bump_required,
                bump_asked: False,
            },
            source="TransactionManager.beginAbort, nextRequest, completeTransaction",
        ),
    ),
)
