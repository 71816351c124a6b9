"""What Kafka's releases do differently, as far as this slice of the protocol goes."""

from __future__ import annotations

from .language import Protocols, feature

BEFORE, NEWEST = "2.5", "4.3"

strict_end_txn_epoch = feature(
    "strict_end_txn_epoch",
    NEWEST,
    sentence="A client's EndTxn must carry the current epoch; before 2.6 a higher one passed.",
    source="KAFKA-9600",
)
producer_fenced_error = feature(
    "producer_fenced_error",
    NEWEST,
    sentence="The coordinator says PRODUCER_FENCED (fatal); a leader's INVALID_PRODUCER_EPOCH is "
    "abortable. Before 2.7 both said INVALID_PRODUCER_EPOCH, always fatal.",
    source="KIP-588",
)
verification = feature(
    "verification",
    NEWEST,
    sentence="A leader asks the coordinator before the first append of a transaction, and an "
    "answer counts only as long as its question does (from 3.6; version 2 asks in any case).",
    source="KIP-890 part 1",
)
transaction_version_2 = feature(
    "transaction_version_2",
    NEWEST,
    sentence="Every transaction ends with a new epoch, and Produce adds its partition (from 4.0).",
    source="KIP-890 part 2",
)
pending_first = feature(
    "pending_first",
    NEWEST,
    sentence="A transition in flight is answered before id and epoch are compared (from 4.0).",
    source="KAFKA-18660",
)
strict_marker_epoch = feature(
    "strict_marker_epoch",
    NEWEST,
    sentence="A marker must have a newer epoch than the transaction that it ends (from 4.2).",
    source="KIP-1228, KAFKA-19446",
)

KAFKA = Protocols(
    releases=(BEFORE, NEWEST),
    features=(
        strict_end_txn_epoch,
        producer_fenced_error,
        verification,
        transaction_version_2,
        pending_first,
        strict_marker_epoch,
    ),
)
