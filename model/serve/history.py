"""Records requests and answers as a history for `epochfence judge`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, BinaryIO, Final

from ...spec import api_versions
from ..cluster import offsets_partition
from ..records import Flag, RecordError, decode_batch
from .partitions import partition_name
from .wire import Answer, Request

Line = dict[str, Any]
RECORDED: Final = frozenset(
    ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "Produce")
)
"""The requests that a history has."""


class History:
    """A history that is written to `file` line by line, as requests are over."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def record(
        self, request: Request, start_ms: float, end_ms: float, answer: Answer | None
    ) -> None:
        """A request that came at `start_ms`; the `answer`, or none where it was lost."""
        if request.name not in RECORDED:
            return
        for line, told in _lines(request, None if answer is None else answer.fields):
            line |= {"start": round(start_ms, 3), "api_version": request.version, **line}
            if request.client_id:
                line["client"] = request.client_id
            if told is not None:
                line |= {"end": round(end_ms, 3), "response": told}
            self._file.write(json.dumps(line).encode() + b"\n")


def _lines(request: Request, told: Mapping[str, Any] | None) -> Iterator[tuple[Line, Line | None]]:
    """The lines of a request, each with its response."""
    fields = request.fields
    match request.name:
        case "InitProducerId":
            if fields["transactional_id"]:
                line = _who(fields, request.name)
                timeout_ms = fields["transaction_timeout"]
                yield line | {"transaction_timeout_ms": timeout_ms}, _identity(told)
        case "EndTxn":
            result = "COMMIT" if fields["committed"] else "ABORT"
            if told is not None and request.version < 5:  # which has no epoch
                response = {"error": told["error_code"]}
            else:
                response = _identity(told)
            yield _who(fields, request.name) | {"result": result}, response
        case "AddOffsetsToTxn":
            line = _who(fields, "AddPartitionsToTxn")
            line["partitions"] = [offsets_partition(fields["group_id"])]
            line["api_version"] = min(request.version, api_versions.OF_BROKERS - 1)
            yield line, None if told is None else {"error": told["error_code"]}
        case "AddPartitionsToTxn":
            yield from _added(request, told)
        case _:
            yield from _produced(fields, told)


def _who(fields: Mapping[str, Any], name: str) -> Line:
    about = ("transactional_id", "producer_id", "producer_epoch")
    found = {key: fields[key] for key in about if key in fields}
    return {"request": name, **found}


def _identity(told: Mapping[str, Any] | None) -> Line | None:
    if told is None:
        return None
    return {
        "error": told["error_code"],
        "producer_id": told["producer_id"],
        "producer_epoch": told["producer_epoch"],
    }


def _added(request: Request, told: Mapping[str, Any] | None) -> Iterator[tuple[Line, Line | None]]:
    fields = request.fields
    if request.version < api_versions.OF_BROKERS:
        asked = [{key.removeprefix("v3_and_below_"): value for key, value in fields.items()}]
        answers = [None if told is None else told["results_by_topic_v3_and_below"]]
    else:
        asked = fields["transactions"]
        results = () if told is None else told["results_by_transaction"]
        answers = [one["topic_results"] for one in results] or [None] * len(asked)
    for one, topics in zip(asked, answers, strict=True):
        if one.get("verify_only"):
            continue
        line = _who(one, request.name)
        line["partitions"] = [
            partition_name(topic["name"], number)
            for topic in one["topics"]
            for number in topic["partitions"]
        ]
        errors = [
            part["partition_error_code"]
            for topic in topics or ()
            for part in topic["results_by_partition"]
        ]
        if line["partitions"]:
            yield line, None if topics is None else {"error": min(errors)}


def _produced(
    fields: Mapping[str, Any], told: Mapping[str, Any] | None
) -> Iterator[tuple[Line, Line | None]]:
    answers = {
        (topic["name"], part["index"]): part
        for topic in (() if told is None else told["responses"])
        for part in topic["partition_responses"]
    }
    for topic in fields["topic_data"]:
        for part in topic["partition_data"]:
            with suppress(RecordError):
                batch, _ = decode_batch(part["records"] or b"")
                line = {
                    "request": "Produce",
                    "partition": partition_name(topic["name"], part["index"]),
                    "producer_id": batch.producer_id, "producer_epoch": batch.producer_epoch,
                    "base_sequence": batch.base_sequence, "count": batch.last_offset_delta + 1,
                    "transactional": Flag.TRANSACTIONAL in batch.flags,
                }  # fmt: skip
                answer = answers.get((topic["name"], part["index"]))
                yield (
                    line,
                    answer
                    and {
                        "error": answer["error_code"],
                        "base_offset": answer["base_offset"],
                    },
                )
