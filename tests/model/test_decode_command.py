"""`epochfence decode` and `epochfence config`: what they print, and how they end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from epochfence.cli import app
from epochfence.model.records import (
    AbortedTransaction,
    ProducerEntry,
    Record,
    RecordBatch,
    encode_as_coordinator,
    encode_batch,
    encode_index,
    encode_key,
    encode_snapshot,
)

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
    done = epochfence("decode", transaction_log, "--json")
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
    rows = epochfence("decode", transaction_log, "--as", "log", "--json").stdout.splitlines()
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
    *rows, error = epochfence("decode", transaction_log, "--json").stdout.splitlines()
    assert len(rows) == 3
    assert json.loads(error) == {
        "what": "error", "byte": len(good) + 8, "field": "batch_length", "reason": reason,
    }  # fmt: skip


def test_a_snapshot_and_an_index(tmp_path: Path) -> None:
    snapshot = tmp_path / "00000000000000000010.snapshot"
    snapshot.write_bytes(encode_snapshot([ENTRY]))
    (row,) = epochfence("decode", snapshot, "--json").stdout.splitlines()
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
        (("x.txt",), "x.txt: its name says nothing of what is in it: take --as with one of log, "),
        (("x.log", "--as", "y"), "--as y: take one of log, transaction-log, "),
        (("x.log",), "can't read x.log: No such file or directory"),
        ((".", "--as", "log"), "can't read .: Is a directory"),
    ],
)
def test_wrong_usage_is_one_line(
    arguments: tuple[str, ...], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = epochfence("decode", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"epochfence: {told}")
    assert done.stderr.count("\n") == 1


def test_settings_are_resolved() -> None:
    done = epochfence("config", "transactional.id=id", "--protocol", "2.7", "--json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert (found["enable.idempotence"], found["acks"]) == (True, -1)
    shown = epochfence("config").stdout.splitlines()
    assert "enable.idempotence true" in [" ".join(line.split()) for line in shown]


def test_settings_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "producer.properties"
    path.write_text("# a remark\nacks = 1\n\n! another\nretries:3\n", encoding="utf-8")
    found = json.loads(epochfence("config", path, "retries=4", "--json").stdout)
    assert (found["acks"], found["retries"], found["enable.idempotence"]) == (1, 4, False)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("acks=1", "transactional.id=id"),
            "Cannot set a transactional.id without also enabling idempotence.",
        ),
        (("--protocol", "9.9"), "no protocol is called 9.9"),
        (("no-such-file",), "can't read no-such-file: No such file or directory"),
    ],
)
def test_settings_that_a_client_refuses(arguments: tuple[str, ...], told: str) -> None:
    done = epochfence("config", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"epochfence: {told}")
