"""Known bugs of partition leaders, and of what they have no means to tell apart."""

from __future__ import annotations

from .bug import Bug, transactions

BUGS = (
    Bug(
        "KAFKA-14402",
        "a batch that arrives behind the abort's marker opens a transaction that nobody ends",
        "0.11 to 3.5",
        "NoHangingTransaction",
        "3.5",
        "3.6",
        ("verification",),
        transactions(faults=1, expiries=1),
        (
            "batch expires/at its first attempt: abortable",
            "EndTxn/end",
            "Produce/append",
        ),
        "KIP-890 (a), commits 56dcb837 and ea0bb001",
        also=("KIP-890a", "KAFKA-14053"),
    ),
    Bug(
        "KIP-890b",
        "a late record of an aborted transaction joins the next one, and is committed",
        "0.11 to 3.5; with clients before 2.5 to 3.9",
        "OutcomeAsTold",
        "3.5",
        "3.6",
        ("verification",),
        transactions(transactions=2, faults=1, expiries=1),
        (
            "batch expires/at its first attempt: abortable",
            "log append/abort decided",
            "Produce/append",
        ),
        "KIP-890 (b)",
        note="With verification it takes a client that keeps its epoch after the abort.",
    ),
    Bug(
        "KAFKA-19446",
        "a late marker of a transaction ends the next one",
        "4.0 and 4.1",
        "OutcomeAsTold",
        "4.1",
        "4.2",
        ("strict_marker_epoch",),
        transactions(transactions=2, faults=1, delays=1),
        (
            "marker overtaken/send again on a new connection",
            "beginTransaction/begin",
            "WriteTxnMarkers/end the transaction",
        ),
        "KIP-1228, commits faad21fc, 7ee5a2ac and c1ded050",
        also=("KIP-1228",),
        since="4.0.0",
    ),
)
