"""The answer to a commit is lost. librdkafka asks again, and the record is there once."""

import subprocess

from confluent_kafka import Consumer, Producer, TopicPartition

SERVE = ["epochfence", "serve", "--port", "0", "--seconds", "60", "--script", "lost-answer.json"]


def commit(bootstrap: str) -> None:
    """One transaction with one record."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "orders"})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("orders", b"one")
    producer.commit_transaction(10)


def committed(bootstrap: str) -> list[bytes | None]:
    """The values that a read_committed consumer reads."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "g", "enable.partition.eof": True}
    consumer = Consumer({**settings, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition("orders", 0, 0)])
    found: list[bytes | None] = []
    while (message := consumer.poll(10)) is not None and message.error() is None:
        found.append(message.value())
    consumer.close()
    return found


with subprocess.Popen(SERVE, stdout=subprocess.PIPE, text=True) as served:
    assert served.stdout is not None
    bootstrap = served.stdout.readline().strip().partition("bootstrap.servers=")[2]
    try:
        commit(bootstrap)
        assert committed(bootstrap) == [b"one"]
    finally:
        served.terminate()
        served.communicate()
assert served.returncode == 0  # 20 if the answer wasn't lost
