"""The topic that tests with a broker write to."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from epochfence.tests.model.serve.clients import TIMEOUT_S, eventually


def make_orders(bootstrap: str, partitions: int, **settings: int) -> None:
    """Makes `orders`, empty; the broker knows of it then. Underscores in a setting's name are
    dots."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    config = {name.replace("_", "."): str(value) for name, value in settings.items()}
    topic = NewTopic("orders", partitions, 1, config=config)
    until = time.monotonic() + TIMEOUT_S
    while True:
        try:
            admin.create_topics([topic])["orders"].result(TIMEOUT_S)
            break
        except KafkaException as error:  # with ZooKeeper, one that was deleted may still be there
            code = error.args[0].code()
            if code != KafkaError.TOPIC_ALREADY_EXISTS or time.monotonic() > until:
                raise
            time.sleep(0.2)
    _waits_for(admin, partitions)


def _waits_for(admin: AdminClient, partitions: int) -> None:
    """Until the broker tells of so many partitions; none: until the topic is gone."""

    def told() -> int:
        known = admin.list_topics(timeout=TIMEOUT_S).topics.get("orders")
        return len(known.partitions if known else ())

    eventually(lambda: told() == partitions)


@contextmanager
def with_orders(bootstrap: str, partitions: int, **settings: int) -> Iterator[str]:
    """A broker with an empty topic `orders`, and none afterwards, as other tests want it."""
    make_orders(bootstrap, partitions, **settings)
    yield bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for gone in admin.delete_topics(["orders"]).values():
        gone.result(TIMEOUT_S)
    _waits_for(admin, 0)
