"""The topic that tests with a broker write to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from epochfence.tests.model.serve.clients import TIMEOUT_S


def make_orders(bootstrap: str, partitions: int) -> None:
    """Makes `orders`, empty."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for made in admin.create_topics([NewTopic("orders", partitions, 1)]).values():
        made.result(TIMEOUT_S)


@contextmanager
def with_orders(bootstrap: str, partitions: int) -> Iterator[str]:
    """A broker with an empty topic `orders`, and none afterwards, as other tests want it."""
    make_orders(bootstrap, partitions)
    yield bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for gone in admin.delete_topics(["orders"]).values():
        gone.result(TIMEOUT_S)
