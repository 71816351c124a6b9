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
    Bug(
        "KAFKA-5494",
        "a leader that remembers fewer batches than are in flight appends one again",
        "0.11 with more than one request in flight",
        "NoDuplicate",
        "4.3",
        "4.3",
        ("batches_kept",),
        idempotence(
            faults=3, losses=1, records=4, largest_sequence=7, in_flight=2, cached_batches=2
        ),
        ("lost ProduceResponse/queue again", "bump epoch/bump", "Produce/append"),
        "KAFKA-5494, 1.0; redpanda issues 3038 and 3077",
        system="idempotence",
        also=("redpanda-3038",),
        note="Clients from 2.5 on append it again; those of 1.0 take a new producer id.",
    ),
    Bug(
        "KAFKA-8483",
        "batches in flight that start again at sequence 0 do so in the order of a heap",
        "1.0 to 2.2",
        "Order",
        "2.1",
        "2.3",
        ("renumbered_in_order",),
        idempotence(
            deletions=1, faults=1, records=4, in_flight=4, cached_batches=4, largest_sequence=7
        ),
        (
            "drain/the next in sequence",
            "drain/the next in sequence",
            "drain/the next in sequence",
            "drain/the next in sequence",
            "ProduceResponse/unknown at the leader: new sequences",
        ),
        "commit af280103; KAFKA-8483 and KAFKA-8484",
        system="idempotence",
        also=("KAFKA-8484",),
    ),
    Bug(
        "KAFKA-5793",
        "a producer that is forgotten with its records starts again at 0: a late batch is taken",
        "1.0 to 2.4",
        "NoDuplicate",
        "2.3",
        "2.4",
        ("state_outlives_records",),
        idempotence(deletions=1, delays=1, records=3),
        ("records are deleted/producers go with their records", "DelayedProduce/append"),
        "KIP-360; KAFKA-5793, KAFKA-7298 and KAFKA-7190",
        system="idempotence",
        on=("idempotent_starts_at_0",),
        also=("KAFKA-7190", "KAFKA-7298"),
    ),
)
