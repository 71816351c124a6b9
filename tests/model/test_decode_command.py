"""`epochfence decode` and `epochfence config`: what they print, and how they end."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cramjam
import pytest
from crc32c import crc32c
from typer.testing import CliRunner, Result

from epochfence.cli import app
from epochfence.model.records import (
    AbortedTransaction,
    BatchTooLargeError,
    Kind,
    ProducerEntry,
    Record,
    RecordBatch,
    RecordError,
    decode_batch,
    encode_as_coordinator,
    encode_batch,
    encode_index,
    encode_key,
    encode_snapshot,
    read_file,
)
from epochfence.model.records.files import read_stream

ENTRY = ProducerEntry(
    producer_id=7, epoch=1, last_sequence=4, last_offset=9, offset_delta=4, timestamp=1000,
    coordinator_epoch=-1, current_txn_first_offset=5,
)  # fmt: skip


def epochfence(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def transaction_log(tmp_path: Path) -> Path:
    path = tmp_path / "__transaction_state-3" / "00000000000000000000.log"
    path.parent.mkdir()
    value = encode_as_coordinator(
        state="PREPARE_COMMIT", partitions=[("t", 0)], producer_id=7, producer_epoch=1,
        timeout_ms=60_000, last_update_ms=2, start_ms=1,
    )  # fmt: skip
    records = (
        Record(offset_delta=0, key=encode_key("a"), value=value),
        Record(offset_delta=1, key=encode_key("b")),
    )
    path.write_bytes(
        encode_batch(RecordBatch(base_offset=40, records=records, last_offset_delta=1))
    )
    return path


def test_a_transaction_log_is_told_by_its_folder(transaction_log: Path) -> None:
    done = epochfence("decode", transaction_log, "--json", "-")
    assert done.exit_code == 0
    batch, transaction, tombstone = map(json.loads, done.stdout.splitlines())
    assert (batch["what"], batch["byte"], batch["records"]) == ("batch", 0, 2)
    assert (transaction["byte"], transaction["offset"]) == (61, 40)
    assert transaction["state"] == "PREPARE_COMMIT"
    assert transaction["partitions"] == ["t-0"]
    assert (tombstone["what"], tombstone["transactional_id"]) == ("tombstone", "b")
    shown = epochfence("decode", transaction_log).stdout
    assert "state PREPARE_COMMIT" in shown
    assert "partitions [t-0]" in " ".join(shown.split())


def test_as_overrides_the_name(transaction_log: Path) -> None:
    rows = epochfence("decode", transaction_log, "--as", "log", "--json", "-").stdout.splitlines()
    assert json.loads(rows[1])["key"] == encode_key("a").hex()


def test_a_broken_file_shows_what_is_good_and_ends_with_2(transaction_log: Path) -> None:
    good = transaction_log.read_bytes()
    transaction_log.write_bytes(good + good[:-1])
    shown = epochfence("decode", transaction_log)
    size, left = len(good) - 12, len(good) - 13
    reason = f"{size} bytes, where {left} are left in the file"
    told = f"byte {len(good) + 8}, batch_length: {reason}"
    assert shown.exit_code == 2
    assert shown.stderr == f"epochfence: {transaction_log}: {told}\n"
    assert "tombstone" in shown.stdout
    *rows, error = epochfence("decode", transaction_log, "--json", "-").stdout.splitlines()
    assert len(rows) == 3
    assert json.loads(error) == {
        "what": "error",
        "byte": len(good) + 8,
        "field": "batch_length",
        "reason": reason,
    }


def test_a_snapshot_and_an_index(tmp_path: Path) -> None:
    snapshot = tmp_path / "00000000000000000010.snapshot"
    snapshot.write_bytes(encode_snapshot([ENTRY]))
    (row,) = epochfence("decode", snapshot, "--json", "-").stdout.splitlines()
    assert json.loads(row)["current_txn_first_offset"] == 5
    data = bytearray(snapshot.read_bytes())
    data[-1] ^= 1
    snapshot.write_bytes(data)
    done = epochfence("decode", snapshot)
    assert (done.exit_code, "producer_id 7" in done.stdout) == (2, True)
    assert "byte 2, crc: " in done.stderr

    index = tmp_path / "00000000000000000000.txnindex"
    entry = AbortedTransaction(producer_id=7, first_offset=1, last_offset=3, last_stable_offset=1)
    index.write_bytes(encode_index([entry, entry]))
    assert epochfence("decode", index).stdout.count("last_stable_offset 1") == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("y.txt",), "y.txt: its name doesn't show its kind: add --as with one of log, "),
        (("x.txt",), "can't read x.txt: No such file or directory"),
        (("x.log", "--as", "y"), "--as y: unknown kind: choose one of log, transaction-log, "),
        (("x.log",), "can't read x.log: No such file or directory"),
        ((".", "--as", "log"), "--as log: . is a folder"),
    ],
)
def test_wrong_usage_is_one_line(
    arguments: tuple[str, ...], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "y.txt").touch()
    done = epochfence("decode", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"epochfence: {told}")
    assert done.stderr.count("\n") == 1


def test_settings_are_resolved() -> None:
    done = epochfence("config", "transactional.id=id", "--protocol", "2.7", "--json", "-")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert (found["enable.idempotence"], found["acks"]) == (True, -1)
    shown = epochfence("config").stdout.splitlines()
    assert "enable.idempotence true" in [" ".join(line.split()) for line in shown]


def test_settings_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "producer.properties"
    path.write_text("# a remark\nacks = 1\n\n! another\nretries:3\n", encoding="utf-8")
    found = json.loads(epochfence("config", path, "retries=4", "--json", "-").stdout)
    assert (found["acks"], found["retries"], found["enable.idempotence"]) == (1, 4, False)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("acks=1", "transactional.id=id"),
            "ConfigException: Cannot set a transactional.id without also enabling idempotence.",
        ),
        (("--protocol", "9.9"), "unknown protocol 9.9"),
        (("no-such-file",), "can't read no-such-file: No such file or directory"),
    ],
)
def test_settings_that_a_client_refuses(arguments: tuple[str, ...], told: str) -> None:
    done = epochfence("config", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"epochfence: {told}")


# Pipes, and batches that are too large -----------------------------------------------------------


def piped(data: bytes, *arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own, with standard input from a pipe."""
    command = [sys.executable, "-m", "epochfence.cli", "decode", *map(str, arguments)]
    return subprocess.run(command, input=data, capture_output=True, check=False)


@pytest.mark.slow(1)
@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_a_pipe_is_decoded_as_the_file_is(transaction_log: Path, name: str) -> None:
    done = piped(transaction_log.read_bytes(), name, "--as", "transaction-log", "--json", "-")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == epochfence("decode", transaction_log, "--json", "-").stdout


def test_a_fifo_is_waited_for(transaction_log: Path, tmp_path: Path) -> None:
    fifo = tmp_path / "pipe.log"
    os.mkfifo(fifo)
    with ThreadPoolExecutor() as threads:
        threads.submit(fifo.write_bytes, transaction_log.read_bytes())
        rows = list(read_file(fifo, Kind.TRANSACTION_LOG))
    assert rows == list(read_file(transaction_log))
    assert len(rows) == 3


def test_a_pipe_that_ends_within_a_batch_says_so(transaction_log: Path) -> None:
    done = piped(transaction_log.read_bytes()[:-1], "-", "--as", "transaction-log")
    assert done.returncode == 2
    assert b"epochfence: -: byte 8, batch_length: " in done.stderr


class Growing(io.BytesIO):
    """A file that somebody adds to once it was read to its end."""

    more = b""

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        if not found and self.more:
            self.write(self.more)
            self.seek(-len(self.more), io.SEEK_END)
            self.more = b""
            return super().read(size)
        return found


def test_what_is_added_while_it_is_read_is_decoded(transaction_log: Path) -> None:
    data = transaction_log.read_bytes()
    file = Growing(data)
    file.more = data
    assert len(list(read_stream(file, Kind.TRANSACTION_LOG))) == 6


def compressed(codec: int, body: bytes, count: int) -> bytes:
    """A batch with these bytes where its compressed records stand."""
    plain = RecordBatch(base_offset=0, records=(), last_offset_delta=0, attributes=codec)
    whole = bytearray(encode_batch(dataclasses.replace(plain, attributes=0)) + body)
    whole[8:12] = (len(whole) - 12).to_bytes(4)
    whole[21:23] = codec.to_bytes(2)
    whole[57:61] = count.to_bytes(4)
    whole[17:21] = crc32c(whole[21:]).to_bytes(4)
    return bytes(whole)


def zstd_bomb(blocks: int) -> bytes:
    """A zstd frame that claims, and has, 128 KiB for each block of four bytes."""
    claimed = (blocks << 17).to_bytes(8, "little")
    heads = [(i == blocks - 1) | 1 << 1 | 1 << 20 for i in range(blocks)]
    body = b"".join(head.to_bytes(3, "little") + b"a" for head in heads)
    return b"\x28\xb5\x2f\xfd\xc0\x58" + claimed + body


AFTER = encode_batch(
    RecordBatch(base_offset=9, records=(Record(offset_delta=0),), last_offset_delta=0)
)
RECORD = bytes([12, 0, 0, 0, 1, 1, 0])
BOMBS = {
    "zstd": (4, zstd_bomb(1 << 16), 1),
    "gzip": (1, bytes(cramjam.gzip.compress(bytes(2 << 20))), 1),
    "lz4": (3, bytes(cramjam.lz4.compress(bytes(2 << 20))), 1),
    "snappy": (2, bytes(cramjam.snappy.compress_raw(bytes(2 << 20))), 1),
    "snappy that claims 4 GiB": (2, b"\xff\xff\xff\xff\x0f\x00a", 1),
    "snappy in blocks": (
        2,
        b"\x82SNAPPY\x00"
        + (1).to_bytes(4) * 2
        + 2
        * (lambda block: len(block).to_bytes(4) + block)(
            bytes(cramjam.snappy.compress_raw(bytes(900_000)))
        ),
        1,
    ),
    "many records": (4, bytes(cramjam.zstd.compress(RECORD * 3_000)), 3_000),
    "uncompressed": (0, bytes(2 << 20), 1),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_batch_above_the_limit_is_passed_over(name: str, tmp_path: Path) -> None:
    path = tmp_path / "1.log"
    path.write_bytes(compressed(*BOMBS[name]) + AFTER)
    done = epochfence("decode", path, "--limit", "1", "--json", "-")
    assert done.exit_code == 2
    assert "more than the limit of 1 MiB (raise --limit)" in done.stderr
    assert done.stderr.count("\n") == 1
    error, batch, _ = map(json.loads, done.stdout.splitlines())
    assert (error["what"], batch["offset"]) == ("error", 9)
    with pytest.raises(RecordError, match="more than the limit of 1 MiB"):
        decode_batch(path.read_bytes(), 0, 1 << 20)


def test_at_the_limit_it_is_decoded() -> None:
    batch = RecordBatch(
        base_offset=0,
        records=(Record(offset_delta=0, value=bytes(5_000)),),
        last_offset_delta=0,
        attributes=4,
    )
    data = encode_batch(batch)
    body = 5_000 + 9  # with the record's other fields
    assert decode_batch(data, 0, body)[0] == batch
    with pytest.raises(BatchTooLargeError):
        decode_batch(data, 0, body - 1)


def metadata(number: int, body: bytes, frame: int = 1) -> Record:
    """A record of the controllers' log."""
    return Record(offset_delta=0, value=bytes((frame, number, 0)) + body)


LEVEL = metadata(12, b"\x14transaction.version\0\2\0")
METADATA = {
    "level": (
        LEVEL,
        {"type": "FeatureLevelRecord", "name": "transaction.version", "feature_level": 2},
    ),
    "block": (
        metadata(15, bytes(3) + b"\1" + bytes(8) + (1000).to_bytes(8) + b"\0"),
        {"type": "ProducerIdsRecord", "broker_id": 1, "next_producer_id": 1000},
    ),
    "named": (metadata(20, b"\0"), {"type": "NoOpRecord", "value": "00"}),
    "unknown": (metadata(99, b"\7"), {"type": 99, "value": "07"}),
    "secret": (metadata(11, b"hush"), {"type": "UserScramCredentialRecord"}),
}


def metadata_log(folder: Path, record: Record) -> Path:
    path = folder / "__cluster_metadata-0" / f"{0:020}.log"
    path.parent.mkdir(parents=True)
    batch = RecordBatch(base_offset=0, records=(record,), last_offset_delta=0)
    path.write_bytes(encode_batch(batch))
    return path


@pytest.mark.parametrize("name", METADATA)
def test_a_record_of_the_controllers_log_is_named(name: str, tmp_path: Path) -> None:
    record, told = METADATA[name]
    done = epochfence("decode", metadata_log(tmp_path, record), "--json", "-")
    assert done.exit_code == 0
    found = json.loads(done.stdout.splitlines()[1])
    assert found["what"] == "metadata"
    assert found | told == found
    assert b"hush".hex() not in done.stdout


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (metadata(20, b"", frame=2), "frame"),
        (metadata(12, b"\x14trans"), "name"),
        (Record(offset_delta=0, value=None), "value, frame version"),
    ],
)
def test_what_is_none_of_its_records_is_told(record: Record, told: str, tmp_path: Path) -> None:
    done = epochfence("decode", metadata_log(tmp_path, record))
    assert done.exit_code == 2
    assert told in done.stderr


def test_a_folder_is_decoded_whole(transaction_log: Path, tmp_path: Path) -> None:
    metadata_log(tmp_path, LEVEL)
    for name in ("replication-offset-checkpoint", "meta.properties"):
        (tmp_path / name).write_text("0")
    done = epochfence("decode", tmp_path, "--json", "-")
    assert done.exit_code == 0
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    files = {line["file"] for line in lines}
    assert files == {
        f"__cluster_metadata-0/{0:020}.log",
        str(transaction_log.relative_to(tmp_path)),
    }
    names = "meta.properties, replication-offset-checkpoint"
    assert done.stderr == f"not decoded (unknown file names): {names}\n"
    shown = epochfence("decode", tmp_path).stdout
    assert f"{transaction_log}:\n" in shown
    assert "feature_level 2" in shown
    transaction_log.write_bytes(transaction_log.read_bytes()[:-1])
    assert epochfence("decode", tmp_path).exit_code == 2


def test_an_empty_file_is_told(tmp_path: Path) -> None:
    """A broker's newest segment may be empty; a wrong file as well."""
    log = tmp_path / "00000000000000000000.log"
    log.touch()
    ended = epochfence("decode", log)
    assert (ended.exit_code, ended.stdout) == (0, "")
    assert ended.stderr == f"epochfence: {log} has nothing to decode\n"


def test_a_snapshot_without_producers_is_not_called_empty(tmp_path: Path) -> None:
    """Kafka writes such files."""
    snapshot = tmp_path / "00000000000000000010.snapshot"
    snapshot.write_bytes(encode_snapshot([]))
    ended = epochfence("decode", snapshot)
    assert (ended.exit_code, ended.stdout) == (0, "")
    assert ended.stderr == f"epochfence: {snapshot} has nothing to decode\n"


def test_a_folder_without_such_files_is_told(tmp_path: Path) -> None:
    done = epochfence("decode", tmp_path)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "no file name in this folder shows its kind" in done.stderr


@pytest.mark.slow(2)
def test_kio_is_loaded_without_hypothesis_which_would_leave_a_folder(tmp_path: Path) -> None:
    loads = (
        "import sys, epochfence.model.conformance.live.run as _; "
        "sys.exit('hypothesis' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", loads], cwd=tmp_path, check=False)
    assert done.returncode == 0
    assert list(tmp_path.iterdir()) == []
