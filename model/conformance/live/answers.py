"""Answers of brokers in the oracle's terms: identities, errors of partitions, batches.

A response may have any content that its schema allows. A response about something else counts as no
answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...broker.leader import Batch
from ...records import Flag, RecordError, decode_batch, decode_control_type
from ...wire.connection import NoAnswerError


def misshapen(request: str, wanted: str) -> NoAnswerError:
    """The exception for a response about something else than its request."""
    return NoAnswerError("the broker", request, f"its response isn't about {wanted}")


def only(request: str, entries: Sequence[Any] | None, **wanted: Any) -> dict[str, Any]:
    """The only entry of a list in a response. Raises NoAnswerError if there isn't exactly one
    entry, or its fields differ from `wanted`."""
    if entries is None or len(entries) != 1:
        what = f"its response has {len(entries or ())} entries instead of 1"
        raise NoAnswerError("the broker", request, what)
    if any(entries[0][name] != value for name, value in wanted.items()):
        raise misshapen(request, f"the {' and '.join(wanted).replace('_', ' ')} of the request")
    return entries[0]


def part_of(
    request: str, topics: Sequence[Any] | None, topic: Mapping[str, Any],
    partitions: str = "partitions", /, **wanted: int,
) -> dict[str, Any]:  # fmt: skip
    """The entry of a response about the only requested partition. Raises NoAnswerError."""
    return only(request, only(request, topics, **topic)[partitions], **wanted)


def refusal_of(partition: Mapping[str, Any]) -> dict[str, Any]:
    """The error of a partition in a response, as a field; empty without an error."""
    error = partition.get("error_code", "NONE")
    return {} if error == "NONE" else {"error": error}


def identity(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The producer id and epoch in the answer, with the error."""
    return {
        "error": answer["error_code"],
        "producer_id": answer["producer_id"],
        "producer_epoch": answer["producer_epoch"],
    }


def batches_of(request: str, data: bytes) -> list[Batch]:
    """The batches of a fetch. Raises NoAnswerError if they can't be read."""
    try:
        return _batches_of(data)
    except RecordError as error:
        what = f"the batches of its response can't be read: {error}"
        raise NoAnswerError("the broker", request, what) from None


def _batches_of(data: bytes) -> list[Batch]:
    found: list[Batch] = []
    at = 0
    while at < len(data):
        batch, at = decode_batch(data, at)
        last = batch.base_offset + batch.last_offset_delta
        kind, result = "data", "ABORT"
        if Flag.CONTROL in batch.flags:
            if not batch.records:
                raise RecordError("records", "a marker without its record")
            kind = "marker"
            result = "COMMIT" if decode_control_type(batch.records[0].key or b"") else "ABORT"
        found.append(
            Batch(
                kind, batch.base_offset, last, batch.producer_id, batch.producer_epoch,
                batch.base_sequence, transactional=Flag.TRANSACTIONAL in batch.flags, result=result,
            )
        )  # fmt: skip
    return found
