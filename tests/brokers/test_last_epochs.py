"""Findings 3 and 4 of docs/findings.md on brokers: Kafka's own client, at the end of its epochs.

It comes there by 32,767 batches that the broker refuses, as a client does that nobody looks after.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from epochfence.model.conformance.kafka.broker import Broker
from epochfence.model.records import Row, read_file
from epochfence.model.serve.proxy import Proxy
from epochfence.tests.brokers.test_findings import fired, let_go
from epochfence.tests.brokers.topics import with_orders
from epochfence.tests.model.serve.clients import eventually
from epochfence.tests.model.serve.driven import JavaProducer

LARGEST_EPOCH: Final = 32_767
A, B = "a" * 50, "b" * 50
TOO_LARGE: Final = "c" * 200
MOST_BYTES: Final = 150
at_each_end = pytest.mark.parametrize("is_last", [False, True], ids=["an epoch", "the last epoch"])
pytestmark = [
    pytest.mark.releases("3.6", "3.9", "4.0.1", "4.3", "4.4"),
    pytest.mark.sample(0),  # only where every case is asked for: a minute on a slow machine
]


class Batch(NamedTuple):
    """A batch of one record, as the broker has it on its disk."""

    producer_id: int
    producer_epoch: int
    value: str


def batches(broker: Broker, partition: int) -> list[Batch]:
    """Those of a partition of `orders`."""
    folder: Path = broker.folder / "data" / f"orders-{partition}"
    rows = [row for path in sorted(folder.glob("*.log")) for row in read_file(path)]
    good = [row for row in rows if isinstance(row, Row)]
    assert len(good) == len(rows), rows
    return [
        Batch(
            batch.fields["producer_id"],
            batch.fields["producer_epoch"],
            record.fields["value"].decode(),
        )
        for batch, record in zip(good[::2], good[1::2], strict=True)
    ]


@contextmanager
def client(
    broker: Broker, *, is_last: bool, **settings: Any
) -> Iterator[tuple[Proxy, JavaProducer]]:
    """Kafka's client behind a proxy, at the end of its epochs or at the beginning."""
    with (
        with_orders(broker.bootstrap, 2, max_message_bytes=MOST_BYTES) as bootstrap,
        Proxy(bootstrap) as proxy,
        JavaProducer(proxy.bootstrap, broker.version, batch_size=0, **settings) as producer,
    ):
        if is_last:
            refused = producer.do("refused", 1, f"{TOO_LARGE} {LARGEST_EPOCH}")
            assert refused == str(LARGEST_EPOCH)
        assert producer.do("send", 1, A) == "ok"
        eventually(lambda: len(batches(broker, 1)) == 1)
        (found,) = batches(broker, 1)
        assert found.producer_epoch == (LARGEST_EPOCH if is_last else 0)
        yield proxy, producer


@at_each_end
def test_3_a_batch_goes_out_without_producer_id(broker: Broker, is_last: bool) -> None:
    """The batch behind one that is refused is lost, and then its answer."""
    with client(broker, is_last=is_last) as (proxy, producer):
        faults: list[dict[str, Any]] = [
            {"do": "hold", "until": {"ms": 500}},
            {"do": "lose_request"},
            {"do": "lose_answer"},
        ]
        for nth, fault in enumerate(faults, 1):
            proxy.faults.add({**fault, "on": {"request": "Produce", "nth": nth}})
        for value in (TOO_LARGE, A):
            assert producer.do("send", 0, value) == "ok"
        seen = proxy.answered["Produce"]
        fired(proxy)
        eventually(lambda: proxy.answered["Produce"] > seen + 2)
        found = batches(broker, 0)
    if is_last:
        assert found == [Batch(-1, -1, A)] * 2
    else:  # the leader knows it again
        assert [(one.producer_epoch, one.value) for one in found] == [(1, A)]


@at_each_end
def test_4_a_new_producer_id_doesn_t_fence_the_one_before(broker: Broker, is_last: bool) -> None:
    """A batch is late, and expires while it waits to be sent again."""
    patient = {"delivery_timeout_ms": 4000, "request_timeout_ms": 2000}
    patient |= {"retry_backoff_ms": 6000, "retry_backoff_max_ms": 6000}
    with client(broker, is_last=is_last, **patient) as (proxy, producer):
        proxy.faults.add({"do": "delay", "on": {"request": "Produce"}})
        assert producer.do("send", 0, A) == "ok"
        time.sleep(3)
        assert producer.do("send", 0, B) == "ok"
        eventually(lambda: len(batches(broker, 0)) == 1)
        let_go(proxy)
        found = batches(broker, 0)
        (before,) = batches(broker, 1)
    if is_last:
        assert [one.value for one in found] == [B, A]
        assert found[0].producer_id != found[1].producer_id == before.producer_id
        assert [one.producer_epoch for one in found] == [0, LARGEST_EPOCH]
    else:  # the new epoch does
        assert found == [Batch(before.producer_id, 1, B)]
