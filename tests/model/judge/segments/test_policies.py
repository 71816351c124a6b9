"""Whether a topic is compacted decides what a gap in its log is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from epochfence.model.judge.segments.directories import judge_segments
from epochfence.model.judge.segments.policies import configured, given
from epochfence.model.records import Record, RecordBatch, encode_batch
from epochfence.model.records.codec.codec import encode
from epochfence.model.records.metadata_log import OF_BROKER, OF_TOPIC, ConfigRecord
from epochfence.tests.cli.test_cli import epochfence
from epochfence.tests.model.judge.segments.test_damage import batches, log_of, write
from epochfence.tests.model.judge.segments.test_directories import Broker, Log, honest

NAMED = "if orders isn't compacted, add --cleanup-policy orders=delete"


def keyed(folder: Path, topic: str = "orders-0") -> Path:
    """Two transactions whose records have keys; the second has lost its batch."""
    log = Log()
    for sequence in range(2):
        log.data(0, sequence)
        log.marker(0, "COMMIT")
    path = log.write(folder / topic)
    kept: list[RecordBatch] = []
    for batch in batches(path):
        if batch.base_offset != 2:
            records = tuple(replace(record, key=record.key or b"k") for record in batch.records)
            kept.append(replace(batch, records=records))
    write(path, kept)
    return path


def controllers(folder: Path, name: str, *configs: ConfigRecord) -> None:
    """A file of the controllers' log with these settings."""
    records = tuple(
        Record(offset_delta=at, value=b"\x01\x04\x00" + encode(config))
        for at, config in enumerate(configs)
    )
    batch = RecordBatch(base_offset=0, records=records, last_offset_delta=len(records) - 1)
    (folder / "__cluster_metadata-0").mkdir(parents=True, exist_ok=True)
    (folder / "__cluster_metadata-0" / name).write_bytes(encode_batch(batch))


def config(value: str | None, name: str = "orders", kind: int = OF_TOPIC) -> ConfigRecord:
    """A topic's policy, or a broker's for all topics."""
    setting = "cleanup.policy" if kind == OF_TOPIC else "log.cleanup.policy"
    return ConfigRecord(resource_type=kind, resource_name=name, name=setting, value=value)


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        ([], 20, NAMED),
        (["orders=compact"], 20, "as compaction leaves it: what lies behind isn't judged\n"),
        (["orders=compact,delete"], 20, "as compaction leaves it"),
        (["others=delete"], 20, NAMED),
        (["orders=delete"], 12, "offset 2 is missing: a leader leaves out no offset"),
        (["delete"], 12, "offset 2 is missing"),
        (["delete", "orders=compact"], 20, "as compaction leaves it"),
    ],
)
def test_what_the_user_says(options: list[str], code: int, told: str, tmp_path: Path) -> None:
    keyed(tmp_path)
    words = [word for option in options for word in ("--cleanup-policy", option)]
    ended = epochfence("judge", "--segments", tmp_path, *words)
    assert (ended.code, ended.err) == (code, "")
    assert told in ended.out


@pytest.mark.parametrize(
    ("configs", "policies"),
    [
        ([], {}),
        ([config("delete")], {"orders": "delete"}),
        ([config("compact,delete")], {"orders": "compact"}),
        ([config("compact"), config("delete"), config(None)], {"orders": "compact"}),
        ([config("delete", "", OF_BROKER)], {"": "delete"}),
        ([config("delete", "1", OF_BROKER)], {}),  # of one broker alone
        ([config("compact", "1", OF_BROKER), config("delete", "", OF_BROKER)], {"": "compact"}),
        ([config("delete", "orders", 8)], {}),
    ],
)
def test_what_the_controllers_log_says(
    configs: list[ConfigRecord], policies: dict[str, str], tmp_path: Path
) -> None:
    for name in ("00000000000000000000.log", "00000000000000000000-0000000001.checkpoint"):
        controllers(tmp_path, name, *configs)
        assert configured([tmp_path / "__cluster_metadata-0"]) == policies
        (tmp_path / "__cluster_metadata-0" / name).unlink()


def test_the_controllers_log_is_used(tmp_path: Path) -> None:
    keyed(tmp_path)
    assert judge_segments([tmp_path]).outcome.name == "UNJUDGED"
    controllers(tmp_path, f"{0:020}.log", config("delete"))
    assert judge_segments([tmp_path]).outcome.name == "UNEXPLAINED"
    assert judge_segments([tmp_path], policies={"orders": "compact"}).outcome.name == "UNJUDGED"


@pytest.mark.parametrize(
    ("topic", "outcome"),
    [
        ("__consumer_offsets-1", "UNJUDGED"),
        ("__share_group_state-1", "UNEXPLAINED"),
        ("__cluster_metadata-0", "UNEXPLAINED"),
        ("orders-0", "UNJUDGED"),
    ],
)
def test_topics_that_a_broker_creates(topic: str, outcome: str, tmp_path: Path) -> None:
    keyed(tmp_path, topic)
    assert judge_segments([tmp_path]).outcome.name == outcome


def test_behind_a_gap_of_compaction_nothing_is_a_contradiction(tmp_path: Path) -> None:
    """Sequences go on behind what was removed, and an aborted transaction may have no entry in the
    index any more."""
    log = Log()
    for sequence in range(3):
        log.data(0, sequence)
    log.marker(0, "ABORT")
    path = log.write(tmp_path / "orders-0")
    write(path, [batch for batch in batches(path) if batch.base_offset != 0])
    found = judge_segments([tmp_path])
    assert [str(each) for each in found.every if not each.is_damage] == []
    assert found.outcome.name == "UNJUDGED"
    found = judge_segments([tmp_path], policies={"orders": "delete"})
    assert found.outcome.name == "UNEXPLAINED"


@pytest.mark.parametrize("option", ["orders=", "=delete", "orders=keep", "keep"])
def test_an_option_that_says_nothing_is_refused(option: str, tmp_path: Path) -> None:
    ended = epochfence("judge", "--segments", tmp_path, "--cleanup-policy", option)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"epochfence: --cleanup-policy {option}: give TOPIC=delete or ")


def test_two_options_that_contradict_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="orders has another one already"):
        given(["orders=delete", "delete", "orders=compact"])
    ended = epochfence("judge", tmp_path, "--cleanup-policy", "delete")
    assert (ended.code, ended.err) == (2, "epochfence: --cleanup-policy needs --segments\n")


def test_a_gap_where_a_record_has_no_key_is_no_compaction(tmp_path: Path) -> None:
    honest(broker := Broker(tmp_path))
    broker.judge()
    path = log_of(tmp_path)
    write(path, [batch for batch in batches(path) if batch.base_offset != 5])
    assert judge_segments([tmp_path]).outcome.name == "UNEXPLAINED"
    compact = judge_segments([tmp_path], policies={"orders": "compact"})
    assert compact.outcome.name == "UNJUDGED"
