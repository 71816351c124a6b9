"""How many transactions a minute a served cluster takes from librdkafka: one record each."""

from __future__ import annotations

import sys
import time

from epochfence.model.serve.server import Server
from epochfence.tests.model.serve.clients import TIMEOUT_S, in_transactions


def rate(release: str, seconds: float) -> float:
    """Transactions a minute, the client and the cluster in one process."""
    with Server(release) as server:
        producer = in_transactions(server.bootstrap, "id")
        begun, count = time.monotonic(), 0
        while time.monotonic() < begun + seconds:
            producer.begin_transaction()
            producer.produce("orders", b"x" * 100)
            producer.commit_transaction(TIMEOUT_S)
            count += 1
        return 60 * count / (time.monotonic() - begun)


if __name__ == "__main__":
    for name in sys.argv[1:] or ["2.5", "4.3"]:
        print(f"{name}: {rate(name, 20):,.0f} transactions a minute")
