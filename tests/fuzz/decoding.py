"""Inputs for `decode`: a broker's files, made up, changed and damaged, by kind of file."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from random import Random

from crc32c import crc32c

from epochfence.model.records import (
    AbortedTransaction,
    Flag,
    Kind,
    ProducerEntry,
    Record,
    RecordBatch,
    RecordError,
    TransactionLogValue,
    TransactionPartitions,
    encode_batch,
    encode_index,
    encode_key,
    encode_marker,
    encode_snapshot,
    encode_value,
    kind_of,
)
from epochfence.model.records.files import read_stream
from epochfence.model.records.report import json_line
from epochfence.tests.fuzz.harness import REFUSED, Case, Ended, Surface, caught, command
from epochfence.tests.fuzz.mutations import INTERESTING, mutated

BROKER = Path(__file__).parents[2] / "docs" / "examples" / "broker"
CRC_AT, CRC_FROM = 17, 21  # in a batch; in a snapshot 2 and 6
ARRAY_AT = 17  # in a transaction's value of version 0
NAMES = {
    Kind.LOG: "00000000000000000000.log",
    Kind.TRANSACTION_LOG: "__transaction_state-7/00000000000000000000.log",
    Kind.OFFSETS_LOG: "__consumer_offsets-3/00000000000000000000.log",
    Kind.METADATA_LOG: "__cluster_metadata-0/00000000000000000000.log",
    Kind.SNAPSHOT: "00000000000000000000.snapshot",
    Kind.TRANSACTION_INDEX: "00000000000000000000.txnindex",
}


@cache
def _examples(kind: Kind) -> tuple[bytes, ...]:
    found: list[bytes] = []
    for path in sorted(BROKER.rglob("*.*")):
        if kind_of(path) is kind:
            found.append(path.read_bytes())
    return tuple(found)


def number(random: Random, bits: int) -> int:
    """A whole number of so many bits, often small or at an edge."""
    found = random.choice((-1, 0, 1, random.randrange(100), random.choice(INTERESTING)))
    found = random.getrandbits(bits) if random.random() < 0.2 else found
    return (found + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def _bytes(random: Random) -> bytes | None:
    return random.choice((None, b"", b"value", random.randbytes(random.randrange(40))))


def _record(random: Random, kind: Kind, control: bool) -> Record:
    key, value = _bytes(random), _bytes(random)
    if control and random.random() < 0.8:
        key, value = encode_marker(random.choice(("COMMIT", "ABORT")), number(random, 32))
    elif kind is Kind.TRANSACTION_LOG and random.random() < 0.9:
        key = encode_key(random.choice(("", "orders", "é😀", "x" * 200)))
        if random.random() < 0.8:
            value = _transaction(random)
    elif kind is Kind.OFFSETS_LOG and random.random() < 0.9:
        key, value = random.choice(_of_groups())
    elif kind is Kind.METADATA_LOG and random.random() < 0.9:
        key, value = None, _of_controllers(random)
    if random.random() < 0.2:
        key = None if key is None else mutated(random, key)
        value = None if value is None else mutated(random, value)
    headers = tuple(("h", _bytes(random)) for _ in range(random.choice((0, 0, 0, 2))))
    return Record(
        offset_delta=number(random, 32),
        timestamp_delta=number(random, 64),
        key=key,
        value=value,
        headers=headers,
    )


@cache
def _of_groups() -> tuple[tuple[bytes, bytes], ...]:
    """Keys and values of groups and offsets, as Kafka writes them, in any pairs."""
    lines = (Path(__file__).parents[1] / "model" / "offsets.tsv").read_text().splitlines()
    written = {what: bytes.fromhex(data) for what, _, data in (x.partition("\t") for x in lines)}
    keys = [data for what, data in written.items() if what.startswith(("key", "type"))]
    values = [data for what, data in written.items() if what.startswith(("offset", "group"))]
    return tuple((key, value) for key in keys for value in values)


def _of_controllers(random: Random) -> bytes:
    """A frame of any type: a feature's level or a block of ids, whole or not, or any bytes."""
    level = b"\x0c\x00" + b"\x14transaction.version" + random.randbytes(2) + b"\x00"
    block = b"\x0f\x00" + random.randbytes(20) + b"\x00"
    other = bytes((random.randrange(128), random.choice((0, 1, 2)))) + random.randbytes(9)
    value = b"\x01" + random.choice((level, block, other))
    return value if random.random() < 0.7 else value[: random.randrange(len(value))]


def _transaction(random: Random) -> bytes:
    partitions = TransactionPartitions(topic="orders", partition_ids=(0, number(random, 32)))
    value = TransactionLogValue(
        producer_id=number(random, 64),
        producer_epoch=number(random, 16),
        transaction_timeout_ms=number(random, 32),
        transaction_status=random.randrange(9),
        transaction_partitions=random.choice((None, (), (partitions,))),
        transaction_last_update_timestamp_ms=number(random, 64),
        transaction_start_timestamp_ms=number(random, 64),
    )
    data = encode_value(value, 0)
    if random.random() < 0.1:  # an array of any length, some of which is there
        count = abs(number(random, 32)) % 2**32
        there = bytes(6) * random.choice((0, 1, min(count, 100_000)))
        return data[:ARRAY_AT] + count.to_bytes(4) + there + data[ARRAY_AT + 4 :]
    return random.choice((data, encode_value(value, 1)))


def batch(random: Random, kind: Kind) -> bytes:
    """A batch of any content."""
    control = random.random() < 0.2
    flags = [flag for flag in Flag if random.random() < 0.3 and flag is not Flag.CONTROL]
    codec = random.choice((0, 0, 0, 1, 2, 3, 4))
    return encode_batch(
        RecordBatch(
            base_offset=number(random, 64),
            records=tuple(_record(random, kind, control) for _ in range(random.randrange(4))),
            last_offset_delta=number(random, 32),
            attributes=sum(flags) | codec | (Flag.CONTROL if control else 0),
            base_timestamp=number(random, 64),
            max_timestamp=number(random, 64),
            producer_id=number(random, 64),
            producer_epoch=number(random, 16),
            base_sequence=number(random, 32),
        )
    )


def file(random: Random, kind: Kind) -> list[bytes]:
    """A file's content, batch by batch or entry by entry."""
    if (examples := _examples(kind)) and random.random() < 0.1:
        return [random.choice(examples)]
    count = random.choice((1, 1, 1, 2, 3))
    match kind:
        case Kind.SNAPSHOT:
            sizes = {"epoch": 16, "last_sequence": 32, "offset_delta": 32, "coordinator_epoch": 32}
            names = [*ProducerEntry.__dataclass_fields__]
            entries = [
                ProducerEntry(**{name: number(random, sizes.get(name, 64)) for name in names})  # type: ignore[reportArgumentType]
                for _ in range(count)
            ]
            return [encode_snapshot(entries)]
        case Kind.TRANSACTION_INDEX:
            return [
                encode_index([AbortedTransaction(
                    producer_id=number(random, 64), first_offset=number(random, 64),
                    last_offset=number(random, 64), last_stable_offset=number(random, 64),
                )])
                for _ in range(count)
            ]  # fmt: skip
        case _:
            return [batch(random, kind) for _ in range(count)]


def with_crc(data: bytes, kind: Kind) -> bytes:
    """A batch or snapshot whose checksum is right again, so that what is behind it is read."""
    at, start = (2, 6) if kind is Kind.SNAPSHOT else (CRC_AT, CRC_FROM)
    if kind is Kind.TRANSACTION_INDEX or len(data) < start:
        return data
    return data[:at] + crc32c(data[start:]).to_bytes(4) + data[start:]


def with_length(data: bytes) -> bytes:
    """A batch whose length is right again."""
    return data[:8] + (len(data) - 12).to_bytes(4) + data[12:] if len(data) > 12 else data


def generate(random: Random) -> Case:
    """A file, whole, changed or damaged, and a command line that decodes it."""
    kind = random.choice((Kind.LOG, Kind.LOG, *Kind))
    parts = file(random, kind)
    bound = None
    at = random.randrange(len(parts))
    one = parts[at]
    start = 6 if kind is Kind.SNAPSHOT else CRC_FROM
    match random.randrange(8):
        case 0:
            pass
        case 1 if kind is not Kind.TRANSACTION_INDEX and len(parts) == 1 and len(one) < 4_000:
            # what a checksum is over: up to three bits are always noticed
            damaged = bytearray(one)
            first = random.randrange(start, len(one)) if len(one) > start else 0
            if first and _is_one_batch(one, kind):
                damaged[first] ^= 1 << random.randrange(8)
                one, bound = bytes(damaged), REFUSED
        case 2 if _is_one_batch(one, kind):
            one, bound = one[: random.randrange(1, len(one))], REFUSED
            parts = [*parts[: at + 1]]
        case 3:
            one = mutated(random, one, random.choice(_examples(kind) or (b"",)))
        case 4 if kind not in (Kind.SNAPSHOT, Kind.TRANSACTION_INDEX):
            one = with_crc(with_length(one[:start] + mutated(random, one[start:])), kind)
        case _:
            one = with_crc(one[:start] + mutated(random, one[start:]), kind)
    parts[at] = one
    words = ["decode", NAMES[kind]]
    if random.random() < 0.2:
        words += ["--limit", "1"]
    if random.random() < 0.7:
        words += ["--json", "-"]
    files = {NAMES[kind]: b"".join(parts)}
    return Case(tuple(words), files, bound=bound, place=NAMES[kind], many_lines=True)


def _is_one_batch(data: bytes, kind: Kind) -> bool:
    if kind is Kind.TRANSACTION_INDEX or kind is Kind.SNAPSHOT:
        return kind is Kind.SNAPSHOT
    return len(data) > 12 and int.from_bytes(data[8:12]) == len(data) - 12


def run(case: Case, folder: Path) -> Ended:
    """As the command does it, without the command: the rows as JSON, 2 if anything is wrong."""
    if "--json" not in case.words or "--limit" in case.words:
        return command(case, folder)
    ((name, data),) = case.files.items()
    kind = next(kind for kind, known in NAMES.items() if known == name)
    wrong: list[str] = []

    def read() -> None:
        for item in read_stream(io.BytesIO(data), kind):
            json_line(item).encode()
            if isinstance(item, RecordError):
                wrong.append(f"epochfence: {name}: {item}\n")
        if wrong:
            raise SystemExit(REFUSED)

    ended = caught(read)
    return Ended(ended.code, "".join(wrong), ended.error)


SURFACE = Surface("decode", generate, run, weight=3)
