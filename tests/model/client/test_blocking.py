"""What holds up a producer's application: memory, metadata, results; and how much goes at once."""

from __future__ import annotations

from typing import Any

import pytest

from epochfence.model import ProducerClient
from epochfence.model.client.requests import CallFailedError, Produce, Record
from epochfence.model.engine.errors import NotNowError
from epochfence.spec.releases.features import NEWEST, RELEASED
from epochfence.tests.model.client.producers import (
    batches,
    idempotent,
    only,
    raised,
    transactional_of,
)

SMALL: dict[str, Any] = {"batch_size": 1000, "buffer_memory": 2500, "max_block_ms": 500}


def sent(client: ProducerClient) -> list[str]:
    return [batch.partition for batch in batches(client)]


@pytest.mark.parametrize(
    ("release", "told"),
    [
        ("2.4", "the maximum request size you have configured with the max.request.size"),
        ("2.5", "1000, which is the value of the max.request.size"),
    ],
)
def test_a_record_may_be_too_large_for_a_request(release: str, told: str) -> None:
    client = idempotent(release, max_request_size=1000)
    assert client.send("t-0", 939).error is None  # and 61 bytes of a batch around it
    record = client.send("t-0", 940)
    assert (record.is_done, record.error) == (True, "MESSAGE_TOO_LARGE")
    assert record.message == (
        f"The message is 1001 bytes when serialized which is larger than {told} configuration."
    )
    assert client.metric("record-error-total") == 1


def test_a_record_may_be_too_large_for_the_whole_buffer() -> None:
    client = idempotent(buffer_memory=1000, batch_size=100)
    record = client.send("t-0", 940)
    assert record.error == "MESSAGE_TOO_LARGE"
    assert record.message == (
        "The message is 1001 bytes when serialized which is larger than the total memory buffer "
        "you have configured with the buffer.memory configuration."
    )


@pytest.mark.parametrize(
    ("release", "state"), [("3.0", "IN_TRANSACTION"), ("3.3", "ABORTABLE_ERROR")]
)
def test_what_a_record_that_is_too_large_does_to_its_transaction(release: str, state: str) -> None:
    client = transactional_of(release, max_request_size=1000)
    assert client.send("t-0", 940).error == "MESSAGE_TOO_LARGE"
    assert client.machine["state"] == state


def test_a_batch_that_is_larger_than_the_buffer_is_never_given_memory() -> None:
    client = idempotent(buffer_memory=1000, batch_size=1001)
    assert raised(lambda: client.send("t-0", 10)) == ("ILLEGAL_ARGUMENT", None)
    assert client.metric("buffer-available-bytes") == 1000


@pytest.mark.parametrize(("release", "error"), [("2.5", "TIMEOUT"), ("2.6", "BUFFER_EXHAUSTED")])
def test_a_send_waits_for_memory_for_max_block_ms(release: str, error: str) -> None:
    client = idempotent(release, linger_ms=1000, **SMALL)
    first = [client.send(f"t-{at}", 600) for at in range(2)]
    late = client.send("t-2", 600)
    assert (late.waits_for, client.metric("waiting-threads")) == ("memory", 1)
    assert client.metric("buffer-available-bytes") == 500
    assert sent(client) == ["t-0", "t-1"], "nothing lingers where memory is short"
    client.now_ms += 499
    assert client.run() == []
    assert not late.is_done
    client.now_ms += 1
    client.run()
    assert (late.is_done, late.error, late.waits_for) == (True, error, None)
    assert [record.is_done for record in first] == [False, False]
    assert client.metric("buffer-exhausted-total") == client.metric("record-error-total") == 1
    assert client.metric("bufferpool-wait-time-total") == 500_000_000
    assert client.metric("buffer-available-bytes") == 500


def test_memory_that_is_given_back_goes_to_who_has_waited_longest() -> None:
    client = idempotent(**SMALL)
    for at in range(2):
        client.send(f"t-{at}", 600)
    large, small = client.send("t-2", 1600), client.send("t-3", 100)
    one, other = batches(client)
    client.answer(one, base_offset=0)
    assert client.run() == []
    assert (large.waits_for, small.waits_for) == ("memory", "memory")
    assert client.metric("buffer-available-bytes") == 0, "the first in the row holds it back"
    client.answer(other, base_offset=0)
    (taken,) = batches(client)
    assert taken.partition == "t-2"
    assert (large.waits_for, small.waits_for) == (None, "memory")
    client.answer(taken, base_offset=0)
    assert sent(client) == ["t-3"]


def test_a_record_that_has_room_in_a_batch_needs_no_memory() -> None:
    client = idempotent(linger_ms=1000, **SMALL)
    client.send("t-0", 600)
    client.send("t-1", 600)
    assert client.send("t-2", 600).waits_for == "memory"
    assert client.send("t-0", 300).waits_for is None


@pytest.mark.parametrize("release", ["4.1", "4.2"])
def test_memory_of_a_batch_that_expires_in_flight(release: str) -> None:
    client = idempotent(release, delivery_timeout_ms=100, **SMALL)
    record = client.send("t-0", 600)
    batch = only(client)
    client.now_ms += 100
    client.run()
    assert record.error == "TIMEOUT"
    # KAFKA-19012: before 4.2 another batch could overwrite what was still being sent
    assert client.metric("buffer-available-bytes") == (2500 if release == "4.1" else 1500)
    client.answer(batch, base_offset=0)
    assert client.metric("buffer-available-bytes") == 2500


def test_parts_of_a_batch_that_was_split_take_no_memory() -> None:
    client = idempotent(batch_size=2000, buffer_memory=2500)
    for _ in range(3):
        client.send("t-0", 600)
    client.answer(only(client), "MESSAGE_TOO_LARGE")
    assert client.metric("buffer-available-bytes") == 2500


@pytest.mark.parametrize(("release", "error"), [("2.4", None), ("2.5", "KAFKA_EXCEPTION")])
def test_who_waits_for_memory_as_the_client_closes(release: str, error: str | None) -> None:
    client = idempotent(release, **SMALL)
    for at in range(2):
        client.send(f"t-{at}", 600)
    late = client.send("t-2", 600)
    client.close()
    assert late.error == error


def test_a_send_waits_for_metadata_and_memory_for_max_block_ms_together() -> None:
    client = idempotent(**SMALL)
    for at in range(2):
        client.send(f"t-{at}", 600)
    client.run()
    client.sends.unknown_topics.add("u")
    known, never = client.send("u-0", 600), client.send("u-1", 600)
    assert (known.waits_for, client.metric("waiting-threads")) == ("metadata", 0)
    client.now_ms += 300
    client.sends.unknown_topics.discard("u")
    client.run()
    assert (known.waits_for, never.waits_for) == ("memory", "memory")
    assert client.metric("metadata-wait-time-ns-total") == 600_000_000
    client.now_ms += 200
    client.run()
    assert (known.error, never.error) == ("BUFFER_EXHAUSTED", "BUFFER_EXHAUSTED")


def test_a_topic_that_is_not_there_in_time() -> None:
    client = transactional_of(NEWEST, **SMALL)
    client.sends.unknown_topics.add("u")
    record = client.send("u-0")
    client.now_ms += 500
    client.run()
    assert record.error == "TIMEOUT"
    assert client.machine["state"] == "ABORTABLE_ERROR"
    assert client.metric("metadata-wait-time-ns-total") == 0


def test_what_a_waiting_send_would_throw_is_its_record_s() -> None:
    client = transactional_of(NEWEST, **SMALL)
    client.sends.unknown_topics.add("u")
    record = client.send("u-0")
    client.close(force=True)
    client.sends.unknown_topics.discard("u")
    client.sends.go_on(client.now_ms)
    assert (record.is_done, record.error) == (True, "KAFKA_EXCEPTION")


def test_a_request_has_batches_of_max_request_size_at_most() -> None:
    client = idempotent(max_request_size=1400, batch_size=2000)
    for at, size in enumerate((600, 500, 200, 1300)):
        client.send(f"t-{at}", size)
    found = batches(client)
    by_request = [[b.partition for b in found if b.request == n] for n in range(4)]
    assert by_request == [["t-0", "t-1"], ["t-2"], ["t-3"], []]
    assert client.metric("requests-in-flight") == 3
    assert client.metric("records-per-request-avg") == pytest.approx(4 / 3)


SINCE = {"init": "2.0.0", "commit": "2.3", "abort": "2.3", "offsets": "2.7"}


def pending(call: str, release: str) -> tuple[ProducerClient, object]:
    """A client that waits for a call's result."""
    if call == "init":
        client = ProducerClient("a", protocol=release, max_block_ms=500)
        return client, client.init_transactions()
    client = transactional_of(release, max_block_ms=500)
    if call == "offsets":
        return client, client.send_offsets({"t-0": 1}, {"group_id": "g"})
    client.send("t-0")
    return client, client.commit_transaction() if call == "commit" else client.abort_transaction()


@pytest.mark.parametrize("call", SINCE)
def test_how_long_calls_wait_by_release(call: str) -> None:
    for release in RELEASED:
        client, result = pending(call, release)
        client.now_ms += 499
        with pytest.raises(NotNowError):
            client.wait(result)  # type: ignore[arg-type]
        client.now_ms += 1
        limited = RELEASED.index(release) >= RELEASED.index(SINCE[call])
        with pytest.raises(CallFailedError if limited else NotNowError) as told:
            client.wait(result)  # type: ignore[arg-type]
        assert not limited or str(told.value) == "TIMEOUT"


def test_a_call_made_again_waits_anew() -> None:
    client, result = pending("commit", NEWEST)
    client.now_ms += 500
    again = client.commit_transaction()
    assert again is result
    client.now_ms += 499
    with pytest.raises(NotNowError):
        client.wait(again)


def test_flush_sends_what_lingers_and_waits_for_it() -> None:
    client = idempotent(linger_ms=1000)
    first = client.send("t-0")
    assert client.run() == []
    flushed = client.flush()
    (batch,) = batches(client)
    later: Record = client.send("t-0")
    client.now_ms += 7
    assert isinstance(batch, Produce)
    client.answer(batch, base_offset=0)
    client.wait(flushed)
    assert (first.is_done, later.is_done) == (True, False)
    assert client.run() == [], "what comes after it lingers again"
    assert client.metric("flush-time-ns-total") == 7_000_000
