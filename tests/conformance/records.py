"""The operations of txn_log_bytes.json, on the public functions of `epochfence.model.records`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from epochfence.model.records import (
    ProducerEntry,
    RecordError,
    TransactionLogValue,
    TransactionPartitions,
    UnknownVersionError,
    decode_key,
    decode_marker,
    decode_snapshot,
    decode_value,
    encode_as_coordinator,
    encode_key,
    encode_marker,
    encode_snapshot,
    encode_value,
)
from epochfence.model.records.transaction_log import (
    KEY_KINDS,
    STATES,
    VALUE_KINDS,
    as_json,
    dump_text,
    state_text,
)

Step = Mapping[str, Any]
Result = dict[str, Any]

# Before 4.3 the coordinator doesn't write the ids before and after; the cases are of a build
# between 3.9 and 4.0.
RELEASE = "4.0.0"
STATE_OF_TEXT = {state_text(name): name for name in STATES.values()}

# What a case calls a field, and what the schema calls it.
VALUE_FIELDS = {
    "producer_id": "producer_id",
    "prev_producer_id": "previous_producer_id",
    "next_producer_id": "next_producer_id",
    "producer_epoch": "producer_epoch",
    "txn_timeout_ms": "transaction_timeout_ms",
    "state_id": "transaction_status",
    "last_update_ms": "transaction_last_update_timestamp_ms",
    "txn_start_ms": "transaction_start_timestamp_ms",
    "client_transaction_version": "client_transaction_version",
}
ENTRY_FIELDS = {
    "pid": "producer_id",
    "epoch": "epoch",
    "last_seq": "last_sequence",
    "last_offset": "last_offset",
    "offset_delta": "offset_delta",
    "timestamp": "timestamp",
    "coordinator_epoch": "coordinator_epoch",
    "current_txn_first_offset": "current_txn_first_offset",
}


def _encode_key(step: Step) -> Result:
    return {"hex": encode_key(step["txn_id"]).hex()}


def _decode_key(step: Step) -> Result:
    try:
        return {"version": 0, "txn_id": decode_key(bytes.fromhex(step["hex"]))}
    except UnknownVersionError as unknown:
        return {"unknown_version": unknown.version}
    except RecordError:
        return {"raises": "RUNTIME"}


def _encode_value(step: Step) -> Result:
    fields = step["fields"]
    topics = fields["partitions"]
    value = TransactionLogValue(
        transaction_partitions=None
        if topics is None
        else tuple(
            TransactionPartitions(topic=t["topic"], partition_ids=tuple(t["partitions"]))
            for t in topics
        ),
        **{ours: fields[theirs] for theirs, ours in VALUE_FIELDS.items() if theirs in fields},
    )
    return {"hex": encode_value(value, step["version"]).hex()}


def _encode_metadata(step: Step) -> Result:
    metadata = step["metadata"]
    partitions = (name.rpartition("-") for name in metadata["partitions"])
    try:
        data = encode_as_coordinator(
            state=STATE_OF_TEXT[metadata["state"]],
            partitions=[(topic, int(number)) for topic, _, number in partitions],
            producer_id=metadata["producer_id"],
            producer_epoch=metadata["producer_epoch"],
            timeout_ms=metadata["txn_timeout_ms"],
            last_update_ms=metadata["last_update_ms"],
            start_ms=metadata["txn_start_ms"],
            previous_producer_id=metadata["prev_producer_id"],
            next_producer_id=metadata["next_producer_id"],
            client_transaction_version=metadata["client_transaction_version"],
            transaction_version=step["broker_transaction_version"],
            protocol=RELEASE,
        )
    except ValueError:
        return {"raises": "ILLEGAL_STATE"}
    except RecordError:
        return {"raises": "UNSUPPORTED_VERSION"}
    return {"hex": data.hex(), "version": int.from_bytes(data[:2])}


def _decode_value(step: Step) -> Result:
    if step["hex"] is None:
        return {"tombstone": True}
    try:
        found = decode_value(bytes.fromhex(step["hex"]))
    except RecordError as error:
        known = error.field not in ("version", "transaction_status")
        return {"raises": "RUNTIME" if known else "ILLEGAL_STATE"}
    return {
        "tombstone": False,
        "version": found.version,
        **{theirs: getattr(found.value, ours) for theirs, ours in VALUE_FIELDS.items()},
        "last_producer_epoch": -1,  # no record has it
        "state": state_text(found.state),
        "partitions": list(found.partitions),
        "unknown_tags": [tag.tag for tag in found.unknown_tags if not tag.path],
        "partition_unknown_tags": [tag.tag for tag in found.unknown_tags if tag.path],
    }


def _format_record(step: Step) -> Result:
    key, value = (
        None if step[name] is None else bytes.fromhex(step[name])
        for name in ("key_hex", "value_hex")
    )
    if step["style"] == "json":
        return {"key_json": as_json(key, KEY_KINDS), "value_json": as_json(value, VALUE_KINDS)}
    assert key is not None
    key_text, value_text = dump_text(key, value)
    return {"key_text": key_text, "value_text": value_text}


def _encode_marker(step: Step) -> Result:
    try:
        key, value = encode_marker(step["type"], step["coordinator_epoch"])
    except ValueError:
        return {"raises": "ILLEGAL_ARGUMENT"}
    return {"key_hex": key.hex(), "value_hex": value.hex()}


def _decode_marker(step: Step) -> Result:
    try:
        marker = decode_marker(step["type"], bytes.fromhex(step["value_hex"] or ""))
    except ValueError:
        return {"raises": "ILLEGAL_ARGUMENT"}
    except RecordError:
        return {"error": "INVALID_RECORD"}
    return {"error": "NONE", "coordinator_epoch": marker.coordinator_epoch}


def _encode_snapshot(step: Step) -> Result:
    entries = (
        ProducerEntry(**{ours: entry[theirs] for theirs, ours in ENTRY_FIELDS.items()})
        for entry in step["entries"]
    )
    return {"hex": encode_snapshot(entries).hex()}


def _decode_snapshot(step: Step) -> Result:
    try:
        entries = decode_snapshot(bytes.fromhex(step["hex"]))
    except RecordError:
        return {"raises": "RUNTIME"}
    return {
        "entries": [
            {theirs: getattr(entry, ours) for theirs, ours in ENTRY_FIELDS.items()}
            for entry in entries
        ]
    }


OPERATIONS: dict[str, Callable[[Step], Result]] = {
    "encode_key": _encode_key,
    "decode_key": _decode_key,
    "encode_value": _encode_value,
    "encode_metadata": _encode_metadata,
    "decode_value": _decode_value,
    "format_record": _format_record,
    "encode_marker": _encode_marker,
    "decode_marker": _decode_marker,
    "encode_producer_snapshot": _encode_snapshot,
    "decode_producer_snapshot": _decode_snapshot,
}
