"""Sizes for readers: an input, and one four times as large, which may take four times as long.

A reader whose time grows faster than its input lets a stranger stop a served cluster, or a judge,
with a small file. `LIMIT` leaves room for start-up costs, caches and a busy machine.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from epochfence.model.records import (
    AbortedTransaction,
    ProducerEntry,
    Record,
    RecordBatch,
    encode_batch,
    encode_index,
    encode_snapshot,
)
from epochfence.tests.fuzz.harness import Case, Ended, Surface, command

FACTOR = 4
LIMIT = 3 * FACTOR
"""The most that the larger input may take, in the time of the smaller one."""
SHORT = 0.3  # seconds of processor time that are never too many
Lines = list[dict[str, Any]]


def _wide(count: int) -> bytes:
    """An object of many names, of which the last stands twice."""
    names = [f'"name {at}": {at}' for at in range(count)]
    return ("{" + ", ".join([*names, names[-1]]) + "}\n").encode()


def _lines(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def _ids(count: int) -> bytes:
    """A history of many transactional ids."""
    return _lines(
        *(
            {
                "request": "InitProducerId",
                "client": "c",
                "transactional_id": f"t{at}",
                "start": at,
                "end": at + 0.5,
                "transaction_timeout_ms": 60_000,
                "response": {"error": "NONE", "producer_id": at, "producer_epoch": 0},
            }
            for at in range(count)
        )
    )


def _batches_of_producer(count: int) -> bytes:
    """A history of many batches of one producer. (A search with many producers keeps all of them
    in each state: `--limit` counts that, and no size test.)"""
    return _lines(
        *(
            {
                "request": "Produce", "client": "c", "partition": "p-0", "start": at,
                "end": at + 0.5, "producer_id": 0, "producer_epoch": 0,
                "base_sequence": at, "count": 1, "transactional": False,
                "response": {"error": "NONE", "base_offset": at},
            }
            for at in range(count)
        )
    )  # fmt: skip


def _partitions(count: int) -> bytes:
    """A history of one request with many partitions."""
    identity = {"producer_id": 0, "producer_epoch": 0}
    return _ids(1) + _lines(
        {
            "request": "AddPartitionsToTxn", "client": "c", "transactional_id": "t0", "start": 2,
            "end": 3, **identity, "partitions": [f"p-{at}" for at in range(count)],
            "response": {"error": "NONE"},
        }
    )  # fmt: skip


def _application(count: int, in_one: bool) -> bytes:
    """An application's log of many records, in one transaction or one each."""
    lines: Lines = []
    for at in range(count):
        transaction = "t" if in_one else f"t{at}"
        lines.append(
            {
                "event": "send",
                "producer": "p",
                "transaction": transaction,
                "partition": "p-0",
                "record": f"r{at}",
                "outcome": "acknowledged",
            }
        )
        if not in_one:
            lines.append({"event": "end", "transaction": transaction, "outcome": "committed"})
    if in_one:
        lines.append({"event": "end", "transaction": "t", "outcome": "committed"})
    lines += [
        {"event": "read", "consumer": "c", "partition": "p-0", "offset": at, "record": f"r{at}"}
        for at in range(count)
    ]
    return _lines(*lines, {"event": "caught_up", "consumer": "c", "partition": "p-0"})


def _requests(count: int) -> bytes:
    """A trace of many requests, for `diff`."""
    return _lines(
        *({"request": "InitProducerId", "transactional_id": f"t{at % 7}"} for at in range(count))
    )


def _batches(count: int) -> bytes:
    record = Record(offset_delta=0, timestamp_delta=0, key=None, value=b"v", headers=())
    return b"".join(
        encode_batch(
            RecordBatch(
                base_offset=at, records=(record,), last_offset_delta=0, attributes=0,
                base_timestamp=0, max_timestamp=0, producer_id=1, producer_epoch=0,
                base_sequence=at,
            )
        )
        for at in range(count)
    )  # fmt: skip


def _records(count: int) -> bytes:
    """One batch of many records with many headers."""
    records = tuple(
        Record(offset_delta=at, timestamp_delta=0, key=b"k", value=b"v", headers=(("h", b""),))
        for at in range(count)
    )
    return encode_batch(
        RecordBatch(
            base_offset=0, records=records, last_offset_delta=count - 1, attributes=0,
            base_timestamp=0, max_timestamp=0, producer_id=1, producer_epoch=0, base_sequence=0,
        )
    )  # fmt: skip


def _snapshot(count: int) -> bytes:
    return encode_snapshot(
        ProducerEntry(
            producer_id=at, epoch=0, last_sequence=0, last_offset=at, offset_delta=0, timestamp=0,
            coordinator_epoch=0, current_txn_first_offset=-1,
        )
        for at in range(count)
    )  # fmt: skip


def _index(count: int) -> bytes:
    return encode_index(
        AbortedTransaction(producer_id=at, first_offset=at, last_offset=at, last_stable_offset=at)
        for at in range(count)
    )


def _settings(count: int) -> bytes:
    return "".join(f"setting.{at}={at}\n" for at in range(count)).encode()


LOG = "00000000000000000000"
KINDS: dict[str, tuple[tuple[str, ...], Callable[[int], bytes], int]] = {
    "names": (("judge", "h.jsonl"), _wide, 20_000),
    "names of an application": (("judge", "--application", "h.jsonl"), _wide, 20_000),
    "names of a trace": (("diff", "--protocols", "3.6", "4.1", "h.jsonl"), _wide, 20_000),
    "names of a counterexample": (("replay", "h.itf.json"), _wide, 20_000),
    "names of ACLs": (("serve", "--port", "0", "--acls", "h.json"), _wide, 20_000),
    "names of faults": (("serve", "--port", "0", "--script", "h.json"), _wide, 20_000),
    "transactional ids": (("judge", "h.jsonl"), _ids, 700),
    "batches of a producer": (("judge", "h.jsonl"), _batches_of_producer, 700),
    "partitions": (("judge", "h.jsonl"), _partitions, 700),
    "a transaction": (("judge", "--application", "h.jsonl"), lambda n: _application(n, True), 700),
    "transactions": (("judge", "--application", "h.jsonl"), lambda n: _application(n, False), 700),
    "requests": (("diff", "--protocols", "3.6", "4.1", "h.jsonl"), _requests, 500),
    "batches": (("decode", f"{LOG}.log", "--json", "-"), _batches, 1_000),
    "records": (("decode", f"{LOG}.log", "--json", "-"), _records, 4_000),
    "a snapshot": (("decode", f"{LOG}.snapshot", "--json", "-"), _snapshot, 4_000),
    "an index": (("decode", f"{LOG}.txnindex", "--json", "-"), _index, 4_000),
    "settings": (("config", "h.properties"), _settings, 4_000),
}
"""The command, what makes its file by size, and the size of the smaller one."""


def case(kind: str, size: int) -> Case:
    """Both inputs of a kind."""
    words, made, _ = KINDS[kind]
    (name,) = (word for word in words if ("." in word and not word[0].isdigit()) or LOG in word)
    files = {f"{factor}/{name}": made(size * factor) for factor in (1, FACTOR)}
    return Case((*words,), files, place=name)


def generate(random: Random) -> Case:
    """Two inputs of one kind."""
    kind = random.choice([*KINDS])
    return case(kind, round(KINDS[kind][2] * random.uniform(0.5, 1.5)))


def run(case: Case, folder: Path) -> Ended:
    """Both inputs; an error if the larger one takes too long, in each of three attempts."""
    name = case.place
    slow = ""
    for _ in range(3):
        seconds: list[float] = []
        for factor in (1, FACTOR):
            begun = time.process_time()
            ended = command(Case(case.words, {name: case.files[f"{factor}/{name}"]}), folder)
            seconds.append(time.process_time() - begun)
            if ended.error:
                return ended
        small, large = seconds
        if large <= max(SHORT, LIMIT * small):
            return ended
        slow = f"{small:.2f} s, and {large:.2f} s for {FACTOR} times the input: {case.words}"
    return Ended(1, error=slow)


SURFACE = Surface("sizes", generate, run, weight=0.5, seconds=60)
