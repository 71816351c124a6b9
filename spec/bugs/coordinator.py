"""Known bugs of the transaction coordinator."""

from __future__ import annotations

from .bug import Bug, transactions

_VERSION_1 = ("transaction_version_2",)  # the cluster's transaction.version, left at 1

BUGS = (
    Bug(
        "KAFKA-6119",
        "a timeout aborts a transaction and its client commits the rest of it",
        "0.11.0.0 and 0.11.0.1",
        "Atomic",
        "2.0",
        "2.0",
        ("timeout_bumps_epoch",),
        transactions(partitions=2, faults=1, timeouts=1),
        ("transaction timeout/fence the open transaction", "EndTxn/end"),
        "commit 501a5e26",
    ),
    Bug(
        "KIP-360",
        "an InitProducerId that is sent again bumps the epoch again",
        "0.11 to 2.4",
        "BumpedOnce",
        "2.5",
        "2.5",
        ("expected_epoch",),
        transactions(faults=2, losses=1, expiries=1),
        (
            "lost InitProducerIdResponse/send again",
            "InitProducerIdResponse/initialized",
        ),
        "KIP-360, commit fecb977b",
        also=("KAFKA-8710", "KAFKA-8805"),
        note="Clients before 2.5 ask for no bump: this is one of 2.5 at a coordinator of 2.4.",
    ),
    Bug(
        "KAFKA-9666",
        "each fence that can't be written takes another epoch",
        "0.11 to 2.5",
        "EpochsNotWasted",
        "2.5",
        "2.7",
        ("failed_fence_kept",),
        transactions(producers=2, faults=2, append_failures=1),
        (
            "append failure/forget the transition",
            "continue the fence/abort with the bumped epoch",
        ),
        "commit 2eeae09c",
    ),
    Bug(
        "KAFKA-18660",
        "the end that uses up the epochs is answered with the pair before",
        "4.0 before its release",
        "ReservedEpoch",
        "4.0.0",
        "4.0.0",
        ("overflow_answered",),
        transactions(transactions=2, largest_epoch=2, producer_ids=2),
        ("EndTxn/end", "EndTxnResponse/ended, with a new epoch"),
        "KAFKA-18660",
        since="4.0.0",
    ),
    Bug(
        "KAFKA-20310",
        "the next producer id is not in the transaction log, and lost at a failover",
        "4.0 to 4.2",
        "AnswerStands",
        "4.2",
        "4.3",
        ("rotation_in_log",),
        transactions(transactions=2, largest_epoch=2, producer_ids=2, faults=1, failovers=1),
        ("EndTxn/end", "EndTxnResponse/ended, with a new epoch"),
        "commit eb111f66",
        since="4.0.0",
    ),
    Bug(
        "KAFKA-20357",
        "a bump that is asked for again across a failover is refused",
        "2.5 and later; merged after 4.4 was branched off",
        "NotFencedByItself",
        "4.3",
        "4.3",
        ("last_epoch_in_log",),
        transactions(faults=2, expiries=1, failovers=1),
        (
            "coordinator failover/the new epoch is in the log",
            "InitProducerId/stale producer",
            "InitProducerIdResponse/fenced",
        ),
        "pull request 22096",
        off=_VERSION_1,
        since="2.5",
    ),
)
