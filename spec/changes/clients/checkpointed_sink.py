"""A sink that writes each checkpoint's records in a transaction, and draws its ids from a pool.

It is Flink's KafkaSink with TransactionNamingStrategy.POOLING. A writer opens a transaction for
each checkpoint, and a committer commits it once the checkpoint is complete. The id then returns to
the pool. After a failure the job is restored from the last complete checkpoint. Its writer aborts
what the broker lists as open, and its committer commits once more what the checkpoint has
precommitted.

Brokers are what a sink sees of them: an epoch for each id, and whether a transaction is open.
InitProducerId takes the next epoch, and aborts what is open. An id that was never used has epoch 0.
"""

from __future__ import annotations

from dataclasses import replace

from ....language import (
    Bool,
    Int,
    Key,
    Machine,
    Map,
    Optional,
    Row,
    System,
    Table,
    after,
    all_of,
    constant,
    each,
    event,
    failure,
    if_,
    invariant,
    record,
    some,
    step_property,
)
from ...releases.features import KAFKA
from ...releases.release import CLIENT
from ..rules import rule

superseded_aborted = rule(
    "superseded_aborted",
    "A restored writer also aborts a transaction of a precommitted id if the broker has a newer "
    "epoch than the checkpoint. Otherwise it leaves each id alone that the checkpoint names.",
    "FLINK-40626, apache/flink-connector-kafka pull request 314",
)
IDS = constant("pooled_ids", 2, 1, 3, meaning="transactional ids of the pool")
LARGEST = constant("largest_epoch", 4, 2, 6, meaning="the largest epoch; a run ends there")
RESTORES = constant("restores", 1, 0, 2, meaning="failures after which the job is restored")
POOLED = Key("pooled_id", IDS)
EPOCH = Int(0, LARGEST, "epoch")
Transaction = record("SinkTransaction", id=POOLED, epoch=EPOCH)

sink = Machine("sink", doc="A job with a writer and a committer, and the brokers as it sees them.")
epoch = sink.field("epoch", Map(POOLED, EPOCH), doc="The broker's epoch of an id.")
is_open = sink.field("is_open", Map(POOLED, Bool()), doc="The broker has a transaction open.")
current = sink.field("current", Optional(Transaction), doc="The writer's open transaction.")
precommitted = sink.field(
    "precommitted", Optional(Transaction), doc="The committer's, of the checkpoint before."
)
is_complete = sink.field("is_complete", Bool(), doc="That checkpoint is complete.")
kept = sink.field(
    "kept", Optional(Transaction), doc="What the last complete checkpoint has precommitted."
)

open_transaction = event("open", pooled_id=POOLED)
take_checkpoint = event("checkpoint")
complete = event("checkpoint complete")
commit = event("commit")
restore = event("restore", event_doc="The job fails, and begins at the last complete checkpoint.")

p = POOLED.variable("p")
opened = open_transaction.pooled_id
opens = Table(
    sink,
    on=open_transaction,
    when=~current.is_set
    & ~(precommitted.is_set & (precommitted.value.id == opened))
    & (epoch[opened] < LARGEST),
    rows=(
        Row(
            "open",
            "InitProducerId for an id of the pool, and a transaction begins",
            set={
                epoch[opened]: epoch[opened] + 1,
                is_open[opened]: True,
                current: some(Transaction(id=opened, epoch=epoch[opened] + 1)),
            },
            source="TransactionNamingStrategy.POOLING, ExactlyOnceKafkaWriter.startTransaction",
        ),
    ),
)
checkpoints = Table(
    sink,
    on=take_checkpoint,
    when=current.is_set & ~precommitted.is_set,
    rows=(
        Row(
            "precommit",
            "The writer flushes, and hands its transaction to the committer",
            set={precommitted: current, current: None, is_complete: False},
            source="ExactlyOnceKafkaWriter.prepareCommit",
        ),
    ),
)
completes = Table(
    sink,
    on=complete,
    when=precommitted.is_set & ~is_complete,
    rows=(
        Row(
            "complete",
            "The checkpoint is complete, with the transaction that it has precommitted",
            set={is_complete: True, kept: precommitted},
            source="KafkaCommitter.commit",
        ),
    ),
)
its_id = precommitted.value.id
commits = Table(
    sink,
    on=commit,
    when=precommitted.is_set & is_complete,
    rows=(
        Row(
            "fenced",
            "Another epoch has the id: the commit is fenced, and that is ignored",
            when=epoch[its_id] != precommitted.value.epoch,
            set={precommitted: None},
            source="KafkaCommitter.commit",
        ),
        Row(
            "committed",
            "The transaction is committed, or was before; its id returns to the pool",
            set={precommitted: None, is_open[its_id]: False},
            source="KafkaCommitter.commit",
        ),
    ),
)
is_kept = kept.is_set & (kept.value.id == p)
is_superseded = is_kept & (kept.value.epoch != epoch[p])
is_aborted = is_open[p] & (~is_kept | (superseded_aborted & is_superseded))
restores = Table(
    sink,
    on=restore,
    when=all_of(p, epoch[p] < LARGEST),
    rows=(
        Row(
            "restore",
            "The writer aborts what is listed as open, and the committer has its commit again",
            set={
                current: None,
                precommitted: kept,
                is_complete: kept.is_set,
                epoch: each(p, if_(is_aborted, epoch[p] + 1, epoch[p])),
                is_open: each(p, is_open[p] & ~is_aborted),
            },
            source="TransactionAbortStrategyImpl.LISTING",
        ),
    ),
)

own = some(Transaction(id=p, epoch=epoch[p]))
system = System(
    name="checkpointed-sink",
    doc="Flink's KafkaSink with pooled transactional ids: checkpoints, commits, and restores.",
    tables=(opens, checkpoints, completes, commits, restores),
    properties=(
        invariant(
            "OpenIsOwned",
            all_of(p, is_open[p].implies((current == own) | (precommitted == own))),
            "Each open transaction is the writer's or the committer's. Another one holds readers "
            "of committed records up until its timeout.",
            source="FLINK-40626",
            failure=failure("the writer has {} and the committer {}", current, precommitted),
        ),
        invariant(
            "PrecommittedStays",
            (precommitted.is_set & ~is_complete).implies(
                is_open[its_id] & (epoch[its_id] == precommitted.value.epoch)
            ),
            "Nobody ends a transaction before its checkpoint is complete.",
            source="KafkaCommitter.commit",
            failure=failure("the transaction of {} is over", precommitted),
        ),
        step_property(
            "CommitsItsOwn",
            all_of(
                p,
                (is_open[p] & ~after(is_open[p]) & (after(epoch[p]) == epoch[p])).implies(
                    precommitted == own
                ),
            ),
            "A commit ends the transaction of its checkpoint, and no later one of the id.",
            source="FLINK-8132",
            failure=failure("the commit of {} ends another transaction", precommitted),
        ),
    ),
    constants=(IDS, LARGEST, RESTORES),
    budgets={restore: RESTORES},
    protocols=replace(KAFKA.of_parts(CLIENT), features=(superseded_aborted,), settled=()),
    terminal=True,
    reach="two ids, and one restore at any step.",
)
