"""What brokers tell, as the oracle says it: identities, errors of partitions, batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..broker.leader import Batch
from ..records import Flag, decode_batch, decode_control_type


def refusal_of(partition: Mapping[str, Any]) -> dict[str, Any]:
    """The error of a partition in a response that has none where all is well; empty for none."""
    error = partition.get("error_code", "NONE")
    return {} if error == "NONE" else {"error": error}


def identity(told: Mapping[str, Any]) -> dict[str, Any]:
    """The producer id and epoch in the answer, with the error."""
    return {
        "error": told["error_code"],
        "producer_id": told["producer_id"],
        "producer_epoch": told["producer_epoch"],
    }


def batches_of(data: bytes) -> list[Batch]:
    """The batches of a fetch."""
    found: list[Batch] = []
    at = 0
    while at < len(data):
        batch, at = decode_batch(data, at)
        last = batch.base_offset + batch.last_offset_delta
        kind, result = "data", "ABORT"
        if Flag.CONTROL in batch.flags:
            kind = "marker"
            result = "COMMIT" if decode_control_type(batch.records[0].key or b"") else "ABORT"
        found.append(
            Batch(
                kind, batch.base_offset, last, batch.producer_id, batch.producer_epoch,
                batch.base_sequence, transactional=Flag.TRANSACTIONAL in batch.flags, result=result,
            )
        )  # fmt: skip
    return found
