"""Known bugs of partition leaders, and of cases that they can't tell apart."""

from __future__ import annotations

from ..bug import Bug, transactions

BUGS = (
    Bug(
        "KAFKA-14402",
        "a batch that arrives behind the abort's marker opens a transaction that nobody ends",
        affected="0.11 to 3.5",
        property="NoHangingTransaction",
        shown_at="3.5",
        fixed_at="3.6",
        fix=("verification",),
        fixed_in=("3.6.0",),
        constants=transactions(faults=1, expiries=1),
        takes=(
            "batch expires/first-attempt-abortable",
            "EndTxn/prepare",
            "Produce/append",
        ),
        source="KIP-890 (a), commits 56dcb837 and ea0bb001",
        also=("KIP-890a", "KAFKA-14053"),
    ),
    Bug(
        "KIP-890b",
        "a late record of an aborted transaction joins the next one, and is committed",
        affected="0.11 to 3.5; with clients before 2.5 to 3.9",
        property="OutcomeAsReported",
        shown_at="3.5",
        fixed_at="3.6",
        fix=("verification",),
        fixed_in=("3.6.0",),
        constants=transactions(transactions=2, faults=1, expiries=1),
        takes=(
            "batch expires/first-attempt-abortable",
            "log append/abort-prepared",
            "Produce/append",
        ),
        source="KIP-890 (b)",
        note="With verification it takes a client that keeps its epoch after the abort.",
    ),
    Bug(
        "KAFKA-19446",
        "a late marker of a transaction ends the next one",
        affected="4.0 and 4.1",
        property="OutcomeAsReported",
        shown_at="4.1",
        fixed_at="4.2",
        fix=("strict_marker_epoch",),
        fixed_in=("4.2.0",),
        constants=transactions(transactions=2, faults=1, delays=1),
        takes=(
            "marker overtaken/send-again",
            "beginTransaction/begin",
            "WriteTxnMarkers/end-transaction",
        ),
        source="KIP-1228, commits faad21fc, 7ee5a2ac and c1ded050",
        also=("KIP-1228",),
        since="4.0.0",
    ),
)
