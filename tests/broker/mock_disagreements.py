"""Where librdkafka's mock cluster answers otherwise than 2.7, each as the shortest run to it.

The release is that of the request versions that the mock takes (InitProducerId 4, KIP-588).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

RELEASE = "2.7"
Line = Mapping[str, Any]


class Disagreement(NamedTuple):
    """A run whose last answer differs: an error, or what there is with none."""

    what: str
    lines: tuple[Line, ...]
    mock: str
    allowed: str
    why: str


OWN = {"producer_id": 0, "producer_epoch": 0}


def init(
    name: str | None = "a", *, timeout_ms: int = 60_000, held: Mapping[str, int] | None = None
) -> Line:
    asked = {"transactional_id": name, "transaction_timeout_ms": timeout_ms}
    return {"request": "InitProducerId", **asked, **(held or {})}


def add(producer_id: int = 0, producer_epoch: int = 0) -> Line:
    who = {"producer_id": producer_id, "producer_epoch": producer_epoch}
    return {"request": "AddPartitionsToTxn", "transactional_id": "a", **who, "partitions": ["t-0"]}


def end(result: str = "COMMIT", producer_id: int = 0, producer_epoch: int = 0) -> Line:
    who = {"producer_id": producer_id, "producer_epoch": producer_epoch}
    return {"request": "EndTxn", "transactional_id": "a", **who, "result": result}


def batch(
    base_sequence: int,
    count: int = 1,
    name: str | None = "a",
    producer_id: int = 0,
    producer_epoch: int = 0,
) -> Line:
    who = {"producer_id": producer_id, "producer_epoch": producer_epoch}
    sent = {"partition": "t-0", **who, "base_sequence": base_sequence, "count": count}
    return {"request": "Produce", **sent, **({} if name is None else {"transactional_id": name})}


NOBODY = 2**62

NEW_IDS = (
    "each InitProducerId without a producer id makes a new one, and ignores the state of the "
    "transactional id"
)
CODES = "one check serves all requests, with a leader's error codes"
NO_NEW = "a new transactional id is checked as a known one; a coordinator gives it a producer id"
NO_STATE = "an end is taken whether there is a transaction or not"
NO_IDEMPOTENCE = "a batch without a transactional id isn't checked at all"
COORDINATOR_S = "the epoch is compared with the coordinator's, which a leader doesn't know"
LAST_SEQUENCE = "one sequence is remembered for each producer and partition, no batch"

DISAGREEMENTS = (
    Disagreement(
        "a second instance gets its own id, and doesn't fence the first",
        (init(), init()), "NONE, producer_epoch 0", "NONE, producer_epoch 1", NEW_IDS,
    ),
    Disagreement(
        "a second instance doesn't wait for the first one's transaction",
        (init(), add(), init()), "NONE", "CONCURRENT_TRANSACTIONS", NEW_IDS,
    ),
    Disagreement(
        "a transaction's timeout may be 0",
        (init(timeout_ms=0),), "NONE", "INVALID_TRANSACTION_TIMEOUT", "the timeout isn't checked",
    ),
    Disagreement(
        "a bump that was answered can't be asked for again",
        (init(), init(held=OWN), init(held=OWN)), "INVALID_PRODUCER_EPOCH",
        "NONE, producer_epoch 1", "the epoch before isn't remembered",
    ),
    Disagreement(
        "a bump leaves an open transaction as it is",
        (init(), add(), init(held=OWN)), "NONE", "CONCURRENT_TRANSACTIONS", NEW_IDS,
    ),
    Disagreement(
        "a bump of nobody's id",
        (init(), init(held=OWN | {"producer_id": NOBODY})), "UNKNOWN_PRODUCER_ID",
        "PRODUCER_FENCED", CODES,
    ),
    Disagreement(
        "a bump of another transactional id's producer id",
        (init(), init("b"), init("b", held=OWN)), "INVALID_PRODUCER_ID_MAPPING", "PRODUCER_FENCED",
        CODES,
    ),
    Disagreement(
        "a bump of another's producer id, of a new transactional id",
        (init(), init("b", held=OWN)), "INVALID_PRODUCER_ID_MAPPING", "NONE, producer_epoch 0",
        NO_NEW,
    ),
    Disagreement(
        "a bump of nobody's id, of a new transactional id",
        (init(held=OWN | {"producer_id": NOBODY}),), "UNKNOWN_PRODUCER_ID",
        "NONE, producer_epoch 0", NO_NEW,
    ),
    Disagreement(
        "a bump of another epoch",
        (init(), init(held=OWN | {"producer_epoch": 1})), "INVALID_PRODUCER_EPOCH",
        "PRODUCER_FENCED", CODES,
    ),
    Disagreement(
        "another epoch, to the coordinator",
        (init(), add(producer_epoch=1)), "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", CODES,
    ),
    Disagreement(
        "nobody's id, to the coordinator",
        (init(), add(producer_id=NOBODY)), "UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_ID_MAPPING",
        CODES,
    ),
    Disagreement(
        "a commit of nothing",
        (init(), end()), "NONE", "INVALID_TXN_STATE", NO_STATE,
    ),
    Disagreement(
        "an abort behind a commit",
        (init(), add(), end(), end("ABORT")), "NONE", "INVALID_TXN_STATE", NO_STATE,
    ),
    Disagreement(
        "a batch of several records is repeated",
        (init(), batch(0, 3), batch(0, 3)), "DUPLICATE_SEQUENCE_NUMBER", "NONE, base_offset 0",
        LAST_SEQUENCE,
    ),
    Disagreement(
        "a batch overlaps with the one before",
        (init(), batch(0, 3), batch(0, 1)), "DUPLICATE_SEQUENCE_NUMBER",
        "OUT_OF_ORDER_SEQUENCE_NUMBER", LAST_SEQUENCE,
    ),
    Disagreement(
        "a first batch in mid-sequence",
        (init(), batch(1)), "OUT_OF_ORDER_SEQUENCE_NUMBER", "NONE, base_offset 0",
        "a producer starts at 0, as of 4.1 with version 2",
    ),
    Disagreement(
        "a batch of the next epoch",
        (init(), batch(0, producer_epoch=1)), "INVALID_PRODUCER_EPOCH", "NONE, base_offset 0",
        COORDINATOR_S,
    ),
    Disagreement(
        "a transactional batch of nobody's id",
        (init(), batch(0, producer_id=NOBODY)), "UNKNOWN_PRODUCER_ID", "NONE, base_offset 0",
        COORDINATOR_S,
    ),
    Disagreement(
        "an idempotent batch is repeated",
        (init(None), batch(0, name=None), batch(0, name=None)), "NONE, base_offset 1",
        "NONE, base_offset 0", NO_IDEMPOTENCE,
    ),
    Disagreement(
        "an idempotent batch leaves a gap",
        (init(None), batch(0, name=None), batch(5, name=None)), "NONE",
        "OUT_OF_ORDER_SEQUENCE_NUMBER", NO_IDEMPOTENCE,
    ),
    Disagreement(
        "an idempotent batch of a stale epoch",
        (init(None), batch(0, name=None, producer_epoch=1), batch(0, name=None)), "NONE",
        "INVALID_PRODUCER_EPOCH", NO_IDEMPOTENCE,
    ),
)  # fmt: skip


def table() -> str:
    """All of them, as the page on findings shows them."""
    rows = ["| case | the mock answers | 2.7 answers | why |", "|---|---|---|---|"]
    rows += [f"| {d.what} | {d.mock} | {d.allowed} | {d.why} |" for d in DISAGREEMENTS]
    return "\n".join(rows)
