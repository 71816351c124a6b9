"""Records on disk: what is written is read, and an error names the place of wrong bytes."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from kio.static.primitive import i32

from epochfence.model.records import (
    AbortedTransaction,
    EndTransactionMarker,
    Flag,
    Kind,
    ProducerEntry,
    Record,
    RecordBatch,
    RecordError,
    Row,
    TransactionLogValue,
    TransactionPartitions,
    UnknownVersionError,
    decode_batch,
    decode_control_type,
    decode_index,
    decode_key,
    decode_marker,
    decode_snapshot,
    decode_value,
    encode_as_coordinator,
    encode_batch,
    encode_index,
    encode_key,
    encode_marker,
    encode_snapshot,
    encode_value,
    kind_of,
    read_file,
)
from epochfence.model.records.batch import BatchTooLargeError
from epochfence.model.records.codec.codec import decode
from epochfence.model.records.layouts.schema import TransactionLogValueV0
from epochfence.spec.coordinator.entry import TransactionState
from epochfence.tests.model.test_offsets_log import WRITTEN


def whole(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


names = st.text(st.characters(codec="utf-8"), max_size=8)
states = st.sampled_from([number for _, number in TransactionState.members])
values = st.builds(
    TransactionLogValue,
    producer_id=whole(64),
    producer_epoch=whole(16),
    transaction_timeout_ms=whole(32),
    transaction_status=states,
    transaction_partitions=st.none()
    | st.lists(
        st.builds(
            TransactionPartitions,
            topic=names,
            partition_ids=st.lists(whole(32), max_size=4).map(tuple),
        ),
        max_size=3,
    ).map(tuple),
    transaction_last_update_timestamp_ms=whole(64),
    transaction_start_timestamp_ms=whole(64),
    previous_producer_id=st.just(-1) | whole(64),
    next_producer_id=st.just(-1) | whole(64),
    client_transaction_version=st.just(0) | whole(16),
)
entries = st.builds(
    ProducerEntry,
    producer_id=whole(64),
    epoch=whole(16),
    last_sequence=whole(32),
    last_offset=whole(64),
    offset_delta=whole(32),
    timestamp=whole(64),
    coordinator_epoch=whole(32),
    current_txn_first_offset=whole(64),
)
aborted = st.builds(
    AbortedTransaction,
    producer_id=whole(64),
    first_offset=whole(64),
    last_offset=whole(64),
    last_stable_offset=whole(64),
)
maybe_bytes = st.none() | st.binary(max_size=20)
records = st.builds(
    Record,
    offset_delta=whole(32),
    timestamp_delta=whole(64),
    key=maybe_bytes,
    value=maybe_bytes,
    headers=st.lists(st.tuples(names, maybe_bytes), max_size=2).map(tuple),
    attributes=whole(8),
)
batches = st.builds(
    RecordBatch,
    base_offset=whole(64),
    records=st.lists(records, max_size=4).map(tuple),
    last_offset_delta=whole(32),
    partition_leader_epoch=whole(32),
    attributes=st.integers(0, 4).flatmap(
        lambda codec: st.sets(st.sampled_from(Flag)).map(lambda flags: sum(flags) | codec)
    ),
    base_timestamp=whole(64),
    max_timestamp=whole(64),
    producer_id=whole(64),
    producer_epoch=whole(16),
    base_sequence=whole(32),
)


# What is written is read --------------------------------------------------------------------------


@given(names)
def test_a_key_comes_back(transactional_id: str) -> None:
    assert decode_key(encode_key(transactional_id)) == transactional_id


@given(values)
def test_a_value_comes_back(value: TransactionLogValue) -> None:
    found = decode_value(encode_value(value))
    assert (found.version, found.value, found.unknown_tags) == (1, value, ())


@given(values)
def test_a_value_of_version_0_comes_back_or_has_no_room(value: TransactionLogValue) -> None:
    tagged = (
        value.previous_producer_id,
        value.next_producer_id,
        value.client_transaction_version,
    )
    if tagged == (-1, -1, 0):
        found = decode_value(encode_value(value, 0))
        assert (found.version, found.value) == (0, value)
    else:
        with pytest.raises(RecordError, match="version 0 has no room for it"):
            encode_value(value, 0)


@given(st.sampled_from(["COMMIT", "ABORT"]), whole(32))
def test_a_marker_comes_back(result: str, epoch: int) -> None:
    key, value = encode_marker(result, epoch)
    assert decode_control_type(key) == ("ABORT", "COMMIT").index(result)
    assert decode_marker(result, value) == EndTransactionMarker(coordinator_epoch=i32(epoch))


@given(st.lists(entries, max_size=5))
def test_a_snapshot_comes_back(written: list[ProducerEntry]) -> None:
    assert decode_snapshot(encode_snapshot(written)) == tuple(written)


@given(st.lists(aborted, max_size=5))
def test_a_transaction_index_comes_back(written: list[AbortedTransaction]) -> None:
    assert decode_index(encode_index(written)) == tuple(written)


@pytest.mark.slow(1)
@given(batches, st.binary(max_size=5))
def test_a_batch_comes_back_from_any_place(batch: RecordBatch, before: bytes) -> None:
    data = before + encode_batch(batch)
    assert decode_batch(data + b"behind", len(before)) == (batch, len(data))


# Wrong bytes --------------------------------------------------------------------------------------


@pytest.mark.slow(1)
@given(st.data())
def test_corruption_is_an_error_with_a_place_and_what_is_before_stays(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    kind, rows_of = data.draw(st.sampled_from(list(FILES.items())))
    pieces = data.draw(rows_of)
    good = b"".join(pieces)
    at = data.draw(st.integers(0, len(good) - 1))
    cut = data.draw(st.booleans())
    flipped = good[at] ^ data.draw(st.integers(1, 255))
    bad = good[:at] if cut else good[:at] + bytes([flipped]) + good[at + 1 :]
    path = tmp_path_factory.mktemp("broker") / "file"

    def rows(content: bytes) -> list[Row | RecordError]:
        path.write_bytes(content)
        return list(read_file(path, kind))

    before, after = rows(good), rows(bad)
    assert not any(isinstance(item, RecordError) for item in before)
    for item in after:
        if isinstance(item, RecordError):
            assert item.at is not None
            assert 0 <= item.at <= len(bad)
    ends = [sum(map(len, pieces[: n + 1])) for n in range(len(pieces))]
    untouched = sum(len(rows(piece)) for piece, end in zip(pieces, ends, strict=True) if end <= at)
    if kind is not Kind.SNAPSHOT:  # its pieces are no files of their own
        assert after[:untouched] == before[:untouched]
    if kind in (Kind.LOG, Kind.SNAPSHOT) and not cut and not _beside_the_crc(kind, at, ends):
        assert any(isinstance(item, RecordError) for item in after)
        assert after != before


def _beside_the_crc(kind: Kind, at: int, ends: list[int]) -> bool:
    """A log's CRC counts neither base offset nor partition leader epoch."""
    start = max([0, *(end for end in ends if end <= at)])
    return kind is Kind.LOG and (at - start < 8 or 12 <= at - start < 16)


def _transactions(value: TransactionLogValue) -> bytes:
    record = Record(offset_delta=0, key=encode_key("id"), value=encode_value(value))
    return encode_batch(RecordBatch(base_offset=0, records=(record,), last_offset_delta=0))


def _log(batch: RecordBatch) -> bytes:
    """Without control records: what is in these isn't drawn."""
    plain = batch.attributes & ~Flag.CONTROL
    return encode_batch(RecordBatch(**{**vars(batch), "attributes": plain}))


OF_GROUPS = [
    (WRITTEN["key 1"], WRITTEN["offset 3"]),
    (WRITTEN["key 1"], WRITTEN["offset 4"]),
    (WRITTEN["type 2 GROUP_METADATA"], WRITTEN["group 2"]),
    (WRITTEN["type 2 GROUP_METADATA"], WRITTEN["group 4"]),
    (WRITTEN["type 5 CONSUMER_GROUP_MEMBER_METADATA"], None),
    (WRITTEN["key 1"], None),
]


def _of_groups(pairs: list[tuple[bytes, bytes | None]]) -> list[bytes]:
    records = tuple(Record(offset_delta=at, key=k, value=v) for at, (k, v) in enumerate(pairs))
    return [
        encode_batch(RecordBatch(base_offset=0, records=records, last_offset_delta=len(pairs) - 1))
    ]


FILES: dict[Kind, st.SearchStrategy[list[bytes]]] = {
    Kind.LOG: st.lists(batches.map(_log), min_size=1, max_size=3),
    Kind.TRANSACTION_LOG: st.lists(values.map(_transactions), min_size=1, max_size=3),
    Kind.OFFSETS_LOG: st.lists(st.sampled_from(OF_GROUPS), min_size=1, max_size=3).map(_of_groups),
    Kind.SNAPSHOT: st.lists(entries, max_size=3).map(lambda drawn: [encode_snapshot(drawn)]),
    Kind.TRANSACTION_INDEX: st.lists(
        aborted.map(lambda entry: encode_index([entry])), min_size=1, max_size=3
    ),
}


@given(st.integers(0, 7), st.binary(max_size=60), st.integers(0, 3))
def test_a_batch_that_holds_nonsense_is_an_error(codec: int, inside: bytes, count: int) -> None:
    empty = encode_batch(RecordBatch(base_offset=0, records=(), last_offset_delta=0))
    counted = (
        codec.to_bytes(2) + empty[23:57] + count.to_bytes(4) + inside
    )  # attributes, the rest of the header, the number of records, and these
    head = empty[:8] + (9 + len(counted)).to_bytes(4) + empty[12:17]
    data = head + crc32c(counted).to_bytes(4) + counted
    place: int | None = 0
    try:
        decode_batch(data)
    except RecordError as error:
        place = error.at
    assert place is not None
    assert 0 <= place <= len(data)
    assert codec <= 4 or place == 21


@given(st.binary(max_size=200))
def test_any_bytes_raise_nothing_else(data: bytes) -> None:
    def place(decode: Callable[[bytes], object]) -> int | None:
        try:
            decode(data)
        except RecordError as error:
            return error.at
        return 0

    decoders = (decode_key, decode_value, decode_snapshot, decode_index, decode_batch)
    assert all(place(decode) is not None for decode in decoders)
    assert place(lambda marker: decode_marker("COMMIT", marker)) is not None


VALUE: dict[str, Any] = {
    "producer_id": 1,
    "producer_epoch": 2,
    "transaction_timeout_ms": 3,
    "transaction_status": 1,
    "transaction_partitions": (TransactionPartitions(topic="t", partition_ids=(7,)),),
    "transaction_last_update_timestamp_ms": 4,
    "transaction_start_timestamp_ms": 5,
}


def changed(at: int, new: bytes, **more: Any) -> bytes:
    """A value's bytes with some of them replaced."""
    data = encode_value(TransactionLogValue(**VALUE, **more))
    return data[:at] + new + data[at + len(new) :]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "byte 0, version: "),
        (b"\0", "byte 0, version: "),
        (b"\0\5", "byte 0, version: no value of version 5 is known"),
        (changed(16, b"\x09"), "byte 16, transaction_status: 9 is not a transaction state"),
        (
            changed(17, b"\xff\xff\xff\xff\x0f"),
            "byte 17, transaction_partitions: an array of 4294967294 elements, where 21 bytes",
        ),
        (changed(19, b"\xff"), r"byte 18, transaction_partitions\[0\].topic: .*UTF-8"),
        (changed(18, b"\0"), r"byte 18, transaction_partitions\[0\].topic: .*null"),
        (changed(20, b"\0"), r"byte 20, transaction_partitions\[0\].partition_ids: it must"),
        (changed(42, b"\7", next_producer_id=9), "byte 53, tag: "),
        (changed(44, b"\3", next_producer_id=9), "byte 45, next_producer_id: 8 bytes long"),
        (changed(44, b"\x20", next_producer_id=9), "byte 45, tag 1: 32 bytes, where 8 bytes"),
    ],
)
def test_a_wrong_value_is_told_by_field_and_byte(data: bytes, told: str) -> None:
    with pytest.raises(RecordError, match=f"^{told}"):
        decode_value(data)


EMPTY_0, EMPTY_1 = (
    encode_as_coordinator(
        state="EMPTY", partitions=(), producer_id=1, producer_epoch=0, timeout_ms=1,
        last_update_ms=0, start_ms=0, transaction_version=version, protocol="3.6",
    )
    for version in (0, 1)
)  # fmt: skip
ARRAY_AT = 17  # in a value of version 0
MANY = 100_000


@pytest.mark.parametrize(
    ("count", "there", "told"),
    [
        (2**31 - 1, b"", "an array of 2147483647 elements, where"),
        (-(2**31), b"", "an array of -2147483648 elements, where"),
        (MANY, bytes(6 * MANY), "100000 elements take more than is left of the limit of 1 MiB"),
        (1, bytes(2) + MANY.to_bytes(4) + bytes(4 * MANY), "100000 elements take more than"),
    ],
)
def test_hostile_arrays_take_no_memory(count: int, there: bytes, told: str) -> None:
    data = EMPTY_0[:ARRAY_AT] + count.to_bytes(4, signed=True) + there + EMPTY_0[ARRAY_AT + 4 :]
    tracemalloc.start()
    try:
        with pytest.raises(RecordError, match=f"transaction_partitions.*: {told}"):
            decode(TransactionLogValueV0, data, 2, limit=1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    whole = EMPTY_0[:ARRAY_AT] + (1).to_bytes(4) + bytes(2) + (2).to_bytes(4) + bytes(8)
    found = decode(TransactionLogValueV0, whole + EMPTY_0[ARRAY_AT + 4 :], 2, limit=1 << 20)
    assert found.entity.transaction_partitions is not None
    assert [len(each.partition_ids) for each in found.entity.transaction_partitions] == [2]


def test_hostile_headers_and_tags_take_no_memory() -> None:
    headers = (("", b""),) * MANY
    small, large = (
        RecordBatch(
            base_offset=0, records=(Record(offset_delta=0, headers=those),) * 2, last_offset_delta=0
        )
        for those in (headers[:100], headers)
    )
    assert decode_batch(encode_batch(small), limit=1 << 20)[0] == small
    data = encode_batch(large)
    tracemalloc.start()
    try:
        with pytest.raises(
            BatchTooLargeError, match="the headers of its records take more than the"
        ):
            decode_batch(data, limit=1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 1 << 22
    finally:
        tracemalloc.stop()
    tags = b"".join(bytes((0x80 | at & 0x7F, at >> 7, 0)) for at in range(1000, 9000))
    with pytest.raises(RecordError, match=r"tag \d+: 1 elements take more than is left"):
        decode(TransactionLogValue, EMPTY_1[:-1] + bytes((0xC0, 0x3E)) + tags, 2, limit=1 << 20)


def test_unknown_tags_are_kept_with_their_place() -> None:
    data = encode_value(TransactionLogValue(**VALUE))
    tagged = data[:25] + bytes.fromhex("01640101") + data[26:-1] + bytes.fromhex("0264025a5a6500")
    found = decode_value(tagged)
    assert found.value == TransactionLogValue(**VALUE)
    assert [(tag.path, tag.tag, tag.data) for tag in found.unknown_tags] == [
        ("transaction_partitions[0].", 100, b"\1"),
        ("", 100, b"ZZ"),
        ("", 101, b""),
    ]


def test_what_does_not_fit_is_not_written() -> None:
    with pytest.raises(RecordError, match="producer_epoch: 40000 is not int16"):
        encode_value(TransactionLogValue(**{**VALUE, "producer_epoch": 40000}))
    topics = (TransactionPartitions(topic="t" * 40000, partition_ids=()),)
    with pytest.raises(RecordError, match=r"transaction_partitions.topic: more than 32,767"):
        encode_value(TransactionLogValue(**{**VALUE, "transaction_partitions": topics}))
    with pytest.raises(RecordError, match="transactional_id: more than"):
        encode_key("x" * 40000)
    with pytest.raises(RecordError, match="version: 2 is not in"):
        encode_value(TransactionLogValue(**VALUE), 2)
    with pytest.raises(RecordError, match="attributes: 5 is not a compression type"):
        encode_batch(RecordBatch(base_offset=0, records=(), last_offset_delta=0, attributes=5))
    record = Record(offset_delta=3, timestamp_delta=2**63)
    with pytest.raises(RecordError, match="record 3: "):
        encode_batch(RecordBatch(base_offset=0, records=(record,), last_offset_delta=0))
    with pytest.raises(ValueError, match="LEADER_CHANGE ends no transaction"):
        encode_marker("LEADER_CHANGE", 1)


def test_unknown_versions_are_told_apart() -> None:
    with pytest.raises(UnknownVersionError) as unknown:
        decode_key(b"\0\7")
    assert unknown.value.version == 7


# As the coordinator writes ------------------------------------------------------------------------


def written(**more: Any) -> TransactionLogValue:
    fields: dict[str, Any] = {
        "state": "ONGOING", "partitions": [("t", 1), ("u", 0), ("t", 0)], "producer_id": 1,
        "producer_epoch": 0, "timeout_ms": 60_000, "last_update_ms": 2, "start_ms": 1,
    }  # fmt: skip
    return decode_value(encode_as_coordinator(**fields | more)).value


def test_partitions_are_grouped_by_topic() -> None:
    assert written().transaction_partitions == (
        TransactionPartitions(topic="t", partition_ids=(1, 0)),
        TransactionPartitions(topic="u", partition_ids=(0,)),
    )


def test_a_transaction_that_is_empty_has_no_array() -> None:
    assert written(state="EMPTY", partitions=[]).transaction_partitions is None
    assert written(partitions=[]).transaction_partitions == ()
    with pytest.raises(ValueError, match="has no partitions"):
        written(state="EMPTY")


def test_what_is_in_the_log_depends_on_the_release() -> None:
    ids = {"previous_producer_id": 5, "next_producer_id": 6, "client_transaction_version": 2}

    def tagged(protocol: str) -> tuple[int, int, int]:
        value = written(protocol=protocol, **ids)
        return (
            value.previous_producer_id,
            value.next_producer_id,
            value.client_transaction_version,
        )

    assert tagged("3.6") == (-1, -1, 0)
    assert tagged("4.2") == (-1, -1, 2)
    assert tagged("4.3") == (5, 6, 2)


# Files --------------------------------------------------------------------------------------------


def test_a_files_name_says_what_is_in_it() -> None:
    assert kind_of(Path("t-0/00000000000000000000.log")) is Kind.LOG
    assert kind_of(Path("__transaction_state-7/00000000000000000000.log")) is Kind.TRANSACTION_LOG
    assert kind_of(Path("00000000000000000005.snapshot")) is Kind.SNAPSHOT
    assert kind_of(Path("00000000000000000005.txnindex")) is Kind.TRANSACTION_INDEX
    with pytest.raises(ValueError, match=r"ends? in \.log"):
        kind_of(Path("leader-epoch-checkpoint"))


def test_a_batch_that_is_wrong_inside_is_passed_over(tmp_path: Path) -> None:
    batch = encode_batch(
        RecordBatch(base_offset=0, records=(Record(offset_delta=0),), last_offset_delta=0)
    )
    bad = batch[:-1] + b"\1"
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch + bad + batch)
    found = [
        item.what if isinstance(item, Row) else (item.field, item.at) for item in read_file(path)
    ]
    crc = len(batch) + 17
    assert found == ["batch", "record", ("crc", crc), "batch", "record"]


def test_an_error_inside_a_record_has_the_byte_of_the_file(tmp_path: Path) -> None:
    good = Record(offset_delta=0, key=encode_key("id"), value=None)
    bad = Record(offset_delta=1, key=encode_key("id"), value=changed(16, b"\x09"))
    data = encode_batch(RecordBatch(base_offset=7, records=(good, bad), last_offset_delta=1))
    path = tmp_path / "segment"
    path.write_bytes(data)
    _, tombstone, error = read_file(path, Kind.TRANSACTION_LOG)
    assert isinstance(tombstone, Row)
    assert tombstone.what == "tombstone"
    assert isinstance(error, RecordError)
    assert error.field == "offset 8, value, transaction_status"
    assert error.at is not None
    assert data[error.at] == 9


def test_control_records_are_told(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    batches = []
    for key, value in (encode_marker("COMMIT", 3), (b"\0\0\0\2", b"x")):
        record = Record(offset_delta=0, key=key, value=value)
        batches.append(
            RecordBatch(
                base_offset=0,
                records=(record,),
                last_offset_delta=0,
                producer_id=5,
                attributes=Flag.CONTROL | Flag.TRANSACTIONAL,
            )
        )
    path.write_bytes(b"".join(map(encode_batch, batches)))
    _, marker, _, other = (item for item in read_file(path, Kind.LOG) if isinstance(item, Row))
    assert marker.what == "marker"
    assert marker.fields["result"] == "COMMIT"
    assert marker.fields["coordinator_epoch"] == 3
    assert (other.what, other.fields["type"]) == ("control", 2)


def test_a_segment_is_never_whole_in_memory(tmp_path: Path) -> None:
    batch = encode_batch(
        RecordBatch(
            base_offset=0,
            records=(Record(offset_delta=0, value=bytes(2**20)),),
            last_offset_delta=0,
        )
    )
    path = tmp_path / "00000000000000000000.log"
    with path.open("wb") as file:
        for _ in range(64):
            file.write(batch)
    program = (
        "import resource, sys; from pathlib import Path;"
        "from epochfence.model.records import read_file;"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "before = peak(); rows = sum(1 for _ in read_file(Path(sys.argv[1])));"
        "print(rows, peak() - before < 24 * 1024)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, check=True
    )
    assert done.stdout == "128 True\n"


def test_the_model_does_not_import_the_codec() -> None:
    program = (
        "import sys, epochfence.model, epochfence.model.client.config, epochfence.cli;"
        "print({'kio', 'crc32c', 'cramjam'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "set()\n"


def test_without_the_codec_one_line_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['kio'] = None; sys.argv = ['epochfence', 'decode', 'x.log'];"
        "from epochfence.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        "epochfence: kio is not installed: run pip install 'epochfence[broker]'\n"
    )
