"""Records requests and answers as a history for `epochfence judge`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, BinaryIO, Final

from ...spec.releases import api_versions
from ..records import Flag, RecordError, decode_batch
from ..wire.listener import Answer, Request
from .handlers.groups import identity
from .handlers.partitions import partition_name

Line = dict[str, Any]
RECORDED: Final = frozenset({
    "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "Produce",
    "TxnOffsetCommit", "OffsetCommit", "OffsetFetch",
})  # fmt: skip
"""The requests that a history records."""
_Answers = dict[tuple[str, int], Mapping[str, Any]]


class History:
    """Writes a history to `file`, a line for each finished request."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def record(
        self, request: Request, start_ms: float, end_ms: float, answer: Answer | None
    ) -> None:
        """Records a request that arrived at `start_ms`, with its `answer`; None: it was lost."""
        if request.name not in RECORDED:
            return
        for line, response in _lines(request, None if answer is None else answer.fields):
            line |= {"start": round(start_ms, 3), "api_version": request.version, **line}
            if request.client_id:
                line["client"] = request.client_id
            if response is not None:
                line |= {"end": round(end_ms, 3), "response": response}
            self._file.write(json.dumps(line).encode() + b"\n")


def _lines(
    request: Request, answer_fields: Mapping[str, Any] | None
) -> Iterator[tuple[Line, Line | None]]:
    """The lines of a request, each with its response."""
    fields = request.fields
    match request.name:
        case "InitProducerId":
            if fields["transactional_id"]:
                line = _who(fields, request.name)
                timeout_ms = fields["transaction_timeout"]
                yield line | {"transaction_timeout_ms": timeout_ms}, _identity(answer_fields)
        case "EndTxn":
            result = "COMMIT" if fields["committed"] else "ABORT"
            if answer_fields is not None and request.version < 5:  # this answer has no epoch
                response = {"error": answer_fields["error_code"]}
            else:
                response = _identity(answer_fields)
            yield _who(fields, request.name) | {"result": result}, response
        case "AddOffsetsToTxn":
            line = _who(fields, request.name) | {"group_id": fields["group_id"]}
            yield line, None if answer_fields is None else {"error": answer_fields["error_code"]}
        case "AddPartitionsToTxn":
            yield from _added(request, answer_fields)
        case "TxnOffsetCommit" | "OffsetCommit":
            yield from _committed(request, answer_fields)
        case "OffsetFetch":
            yield from _fetched(request, answer_fields)
        case _:
            yield from _produced(fields, answer_fields)


def _who(fields: Mapping[str, Any], name: str) -> Line:
    about = ("transactional_id", "producer_id", "producer_epoch")
    found = {key: fields[key] for key in about if key in fields}
    return {"request": name, **found}


def _identity(answer_fields: Mapping[str, Any] | None) -> Line | None:
    if answer_fields is None:
        return None
    return {
        "error": answer_fields["error_code"],
        "producer_id": answer_fields["producer_id"],
        "producer_epoch": answer_fields["producer_epoch"],
    }


def _added(
    request: Request, answer_fields: Mapping[str, Any] | None
) -> Iterator[tuple[Line, Line | None]]:
    fields = request.fields
    if request.version < api_versions.OF_BROKERS:
        transactions = [{key.removeprefix("v3_and_below_"): value for key, value in fields.items()}]
        answers = [
            None if answer_fields is None else answer_fields["results_by_topic_v3_and_below"]
        ]
    else:
        transactions = fields["transactions"]
        results = () if answer_fields is None else answer_fields["results_by_transaction"]
        answers = [one["topic_results"] for one in results] or [None] * len(transactions)
    for one, topics in zip(transactions, answers, strict=True):
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
    fields: Mapping[str, Any], answer_fields: Mapping[str, Any] | None
) -> Iterator[tuple[Line, Line | None]]:
    answers = {
        (topic["name"], part["index"]): part
        for topic in (() if answer_fields is None else answer_fields["responses"])
        for part in topic["partition_responses"]
    }
    for topic in fields["topic_data"]:
        for part in topic["partition_data"]:
            with suppress(RecordError):
                batch, _ = decode_batch(part["records"] or b"")
                line = {
                    "request": "Produce",
                    "partition": partition_name(topic["name"], part["index"]),
                    "producer_id": batch.producer_id,
                    "producer_epoch": batch.producer_epoch,
                    "base_sequence": batch.base_sequence,
                    "count": batch.last_offset_delta + 1,
                    "transactional": Flag.TRANSACTIONAL in batch.flags,
                }
                answer = answers.get((topic["name"], part["index"]))
                yield (
                    line,
                    answer
                    and {
                        "error": answer["error_code"],
                        "base_offset": answer["base_offset"],
                    },
                )


def _committed(
    request: Request, answer_fields: Mapping[str, Any] | None
) -> Iterator[tuple[Line, Line | None]]:
    """The lines of a commit of offsets, one for each partition."""
    fields = request.fields
    if request.name == "OffsetCommit" and request.version == 0:
        return  # this version commits to ZooKeeper
    about: Line = {"request": request.name, "group_id": fields["group_id"]}
    if request.name == "TxnOffsetCommit":
        names = "transactional_id", "producer_id", "producer_epoch"
        about |= {name: fields[name] for name in names}
    of = identity(fields)
    about |= {"member_id": of.member_id, "generation_id": of.generation_id}
    if of.group_instance_id is not None:
        about["group_instance_id"] = of.group_instance_id
    answers = _answers(answer_fields)
    for place, part in _answers(fields).items():
        answer = answers.get(place)
        line = about | {"partition": partition_name(*place), "offset": part["committed_offset"]}
        yield line, None if answer is None else {"error": answer["error_code"]}


def _fetched(
    request: Request, answer_fields: Mapping[str, Any] | None
) -> Iterator[tuple[Line, Line | None]]:
    """The lines of a fetch of offsets, one for each partition. A request for all partitions has
    those of the answer."""
    if request.version == 0:
        return  # this version reads ZooKeeper
    fields = request.fields
    stable = fields.get("require_stable", False)
    groups = fields.get("groups", [fields])
    results = (
        {}
        if answer_fields is None
        else {one.get("group_id"): one for one in answer_fields.get("groups", ())}
    )
    for group in groups:
        result = results.get(group["group_id"]) if "groups" in fields else answer_fields
        answers = _answers(result)
        requested = [
            (_topic(topic), number)
            for topic in group["topics"] or ()
            for number in topic["partition_indexes"]
        ]
        error = "NONE" if result is None else result.get("error_code", "NONE")
        for place in dict.fromkeys((*requested, *answers)):
            line: Line = {
                "request": request.name,
                "group_id": group["group_id"],
                "partition": partition_name(*place),
                "require_stable": stable,
            }
            answer = answers.get(place)
            if error != "NONE":
                yield line, {"error": error}
            elif answer is None:
                yield line, None
            else:
                offset = answer["committed_offset"]
                yield line, {"error": answer["error_code"], "offset": offset}


def _answers(fields: Mapping[str, Any] | None) -> _Answers:
    """The entry of each partition, by topic and number."""
    return {
        (_topic(topic), part["partition_index"]): part
        for topic in (() if fields is None else fields.get("topics") or ())
        for part in topic["partitions"]
    }


def _topic(topic: Mapping[str, Any]) -> str:
    """The name of a topic, or its id if the request has no name."""
    return topic.get("name") or str(topic["topic_id"])
