"""Known bugs of producer clients."""

from __future__ import annotations

from .bug import Bug, idempotence, transactions

BUGS = (
    Bug(
        "KAFKA-18019",
        "a fenced client comes back with a new producer id once the transactional id has expired",
        "2.5 to 3.9",
        "FencedForGood",
        "3.9",
        "4.0.0",
        ("unknown_id_fatal",),
        transactions(producers=2, faults=1, id_expiries=1, producer_ids=2),
        (
            "log append/transactional id forgotten",
            "AddPartitionsToTxn/unknown transactional id",
            "InitProducerIdResponse/initialized",
        ),
        "commit e4c00346",
        off=("transaction_version_2",),
        since="2.5",
    ),
    Bug(
        "KAFKA-14034",
        "a bump by the client itself sends a batch again that was appended",
        "2.5 and later",
        "NoDuplicate",
        "4.3",
        "4.3",
        ("bump_when_settled",),
        idempotence(losses=1, refusals=1),
        (
            "Produce/append",
            "bump epoch/bump",
            "Produce/append",
        ),
        "KAFKA-14034, open; redpanda issues 3039 and 5355",
        system="idempotence",
        on=("idempotent_starts_at_0", "renumbered_under_new_id"),
        also=("redpanda-3039",),
        since="2.5",
    ),
)
