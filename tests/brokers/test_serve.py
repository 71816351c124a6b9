"""Kafka's Java clients on a served cluster of their release."""

from __future__ import annotations

from typing import Final

import pytest

from epochfence.model.conformance.kafka.broker import Broker
from epochfence.model.serve.server import Server
from epochfence.tests.model.serve.behaviours import (
    PLAN,
    RELEASES,
    SCHEDULES,
    behaviour,
    by_java,
    shown,
)
from epochfence.tests.model.serve.clients import read
from epochfence.tests.model.serve.driven import JavaProducer
from epochfence.tests.model.serve.test_users import NAME, SECRET

_MODULES: Final = "org.apache.kafka.common.security"
_BY_PASSWORD: Final = f'required username="{NAME}" password="{SECRET}"'
JAAS: Final = {
    "PLAIN": f"plain.PlainLoginModule {_BY_PASSWORD}",
    "SCRAM-SHA-256": f"scram.ScramLoginModule {_BY_PASSWORD}",
    "SCRAM-SHA-512": f"scram.ScramLoginModule {_BY_PASSWORD}",
    "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule required "
    f'unsecuredLoginStringClaim_sub="{NAME}"',
}


def test_a_client_of_a_release_runs_transactions(broker: Broker) -> None:
    failing_over = SCHEDULES[1]
    with Server(broker.release, topics={"orders": 1}, brokers=2) as server:
        server.faults.add(failing_over.fault)
        assert by_java(server.bootstrap, PLAN, broker.version) == ["C", "C", "C"]
        assert read(server.bootstrap, "orders") == ["0", "1", "2"]
        assert server.faults.unfired == []


def test_a_client_does_as_the_page_says(broker: Broker) -> None:
    """The page's client is of the newest release; others are asked about the page's oldest."""
    release = broker.release if broker.release in RELEASES else RELEASES[0]
    for schedule in (SCHEDULES[0], SCHEDULES[-1]):
        assert behaviour("Java", release, schedule) == shown("Java", release, schedule)


@pytest.mark.sample(2, of="mechanisms")
@pytest.mark.parametrize("mechanism", JAAS)
def test_a_client_shows_who_it_is(broker: Broker, mechanism: str) -> None:
    passwords = {NAME: SECRET}
    with Server(
        broker.release, topics={"orders": 1}, passwords=passwords, unsecured_tokens=True
    ) as server, JavaProducer(
        server.bootstrap, broker.version, transactional_id="a", sasl_mechanism=mechanism,
        security_protocol="SASL_PLAINTEXT",
        sasl_jaas_config=f"{_MODULES}.{JAAS[mechanism]};",
    ) as producer:  # fmt: skip
        for call in ("initTransactions", "beginTransaction", "send", "commitTransaction"):
            assert producer.do(call, 0, "record") == "ok"
        assert server.answered["EndTxn"] == 1
