"""Producer clients for tests: what they send, and how they get to where a test begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from epochfence.model import Cluster, ProducerClient
from epochfence.model.client.requests import CallFailedError, Produce, Request
from epochfence.spec.releases.features import NEWEST


def only(client: ProducerClient) -> Request | Produce:
    """The one thing that the client sends now."""
    (sent,) = client.run()
    return sent


def batches(client: ProducerClient) -> list[Produce]:
    """What the client sends now, which must be batches."""
    sent = client.run()
    assert all(isinstance(one, Produce) for one in sent)
    return [one for one in sent if isinstance(one, Produce)]


def client_of(cluster: Cluster, transactional_id: str | None = None) -> ProducerClient:
    return ProducerClient(
        transactional_id,
        protocol=cluster.protocol,
        transaction_version=cluster.transaction_version,
        delivery_timeout_ms=10**9,
    )


def initialized(cluster: Cluster) -> ProducerClient:
    client = client_of(cluster, "orders")
    call = client.init_transactions()
    cluster.serve(client)
    client.wait(call)
    return client


def idempotent(release: str = NEWEST, **settings: Any) -> ProducerClient:
    """A client without transactional id that has its producer id."""
    client = ProducerClient(protocol=release, **settings)
    client.answer(only(client), producer_id=7, producer_epoch=0)
    return client


def transactional_of(release: str, **settings: Any) -> ProducerClient:
    """A client in a transaction."""
    client = ProducerClient("orders", protocol=release, **settings)
    call = client.init_transactions()
    client.answer(only(client))
    client.answer(only(client), producer_id=7, producer_epoch=0)
    client.wait(call)
    client.begin_transaction()
    return client


def raised(call: Callable[[], object]) -> tuple[str, str | None]:
    """The error that a call raises, and its cause."""
    with pytest.raises(CallFailedError) as failed:
        call()
    return failed.value.error, failed.value.cause
