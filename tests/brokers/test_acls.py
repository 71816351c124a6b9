"""Brokers with an authorizer: they refuse what a served cluster refuses, and finding 15."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from typer.testing import CliRunner, Result

from epochfence.cli import app
from epochfence.model.conformance.kafka.broker import Broker, Listener
from epochfence.model.serve.faults.faults import Fault
from epochfence.model.serve.proxy import Proxy
from epochfence.model.wire.connection import Connection, Security
from epochfence.tests.brokers.topics import make_orders
from epochfence.tests.model.serve.clients import TIMEOUT_S, eventually
from epochfence.tests.model.serve.driven import JavaProducer
from epochfence.tests.model.serve.test_acls import REQUESTS, told_of

PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
TOPICS: Final = ("CREATE", "DESCRIBE", "READ", "WRITE", "DELETE")
TYPES: Final = {"CLUSTER": "BROKER"}
"""What librdkafka calls a type of resource otherwise."""
pytestmark = [
    pytest.mark.sample(2, of="brokers with an authorizer"),
    pytest.mark.releases("3.6", "3.9", "4.0.1", "4.3", "4.4"),
]


def user(number: int, *, is_refused: bool) -> str:
    """Who sends the request of this number, with all its permissions or without the last."""
    return f"{'refused' if is_refused else 'allowed'}{number}"


USERS: Final = (
    "bob",
    "patient",
    "runner",
    *(user(n, is_refused=each) for n in range(len(REQUESTS)) for each in (True, False)),
)


@pytest.fixture(scope="module")
def authorizing(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of the release whose second listener asks who somebody is; who comes by the first
    one may do everything."""
    passwords = " ".join(f'user_{name}="{name}"' for name in USERS)
    listener = Listener(
        "SECURED",
        "SASL_PLAINTEXT",
        settings=(
            "listener.name.secured.sasl.enabled.mechanisms=PLAIN",
            f"listener.name.secured.plain.sasl.jaas.config={PLAIN} {passwords};",
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users=User:ANONYMOUS",
        ),
    )
    folder = tmp_path_factory.mktemp("authorizing") / "broker"
    makes = ("auto.create.topics.enable=true",)
    with Broker(broker.release, folder, listener, settings=makes) as running:
        make_orders(running.bootstrap, 1)
        yield running


def allow(broker: Broker, may: Iterable[tuple[str, str]]) -> None:
    """Gives users permissions, each as `OPERATION RESOURCE NAME`; a name may end with a star."""
    lines: list[AclBinding] = []
    for who, what in may:
        operation, resource, name = what.split()
        pattern = ResourcePatternType["PREFIXED" if name.endswith("*") else "LITERAL"]
        lines.append(
            AclBinding(
                ResourceType[TYPES.get(resource, resource)], name.rstrip("*"), pattern,
                f"User:{who}", "*", AclOperation[operation], AclPermissionType.ALLOW,
            )
        )  # fmt: skip
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for done in admin.create_acls(lines).values():
        done.result(TIMEOUT_S)


def take_away(broker: Broker, who: str, resource: str, name: str) -> None:
    """Takes all permissions on a resource away from a user. The controller has it done before the
    broker knows of it."""
    every = AclBindingFilter(
        ResourceType[resource], name, ResourcePatternType.LITERAL, f"User:{who}", "*",
        AclOperation.ANY, AclPermissionType.ANY,
    )  # fmt: skip
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for done in admin.delete_acls([every]).values():
        assert done.result(TIMEOUT_S)
    eventually(lambda: not admin.describe_acls(every).result(TIMEOUT_S))


async def released(fault: Fault) -> None:
    """What a fault holds goes on."""
    fault.release()


def asked(broker: Broker, who: str, name: str, version: int, fields: dict[str, Any]) -> str:
    """The broker's answer to a user."""
    connection = Connection("127.0.0.1", broker.also_port, Security(username=who, password=who))
    return told_of(connection, name, version, fields)


def test_a_request_is_refused_as_it_is_by_a_served_cluster(authorizing: Broker) -> None:
    given: list[tuple[str, str]] = []
    for number, (_, _, _, may, _) in enumerate(REQUESTS):
        given += [(user(number, is_refused=True), what) for what in may[:-1]]
        given += [(user(number, is_refused=False), what) for what in may]
    allow(authorizing, given)
    for number, (name, version, fields, _, error) in enumerate(REQUESTS):
        for is_refused in (True, False):  # a group's coordinator may be there a little later
            who = user(number, is_refused=is_refused)
            wanted = error if is_refused else "AUTHORIZATION_FAILED"
            ask = partial(asked, authorizing, who, name, version, fields)
            eventually(lambda ask=ask, wanted=wanted, so=is_refused: (wanted in ask()) is so)


def test_15_a_topic_that_may_not_be_read_ends_a_client(authorizing: Broker) -> None:
    """Without the group, the client aborts and goes on once it has the permission."""
    allow(authorizing, [("bob", "WRITE TOPIC orders"), ("bob", "WRITE TRANSACTIONAL_ID a")])
    jaas = f'{PLAIN} username="bob" password="bob";'
    with JavaProducer(
        f"127.0.0.1:{authorizing.also_port}",
        authorizing.version,
        transactional_id="a",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_jaas_config=jaas,
    ) as producer:
        assert producer.do("initTransactions") == "ok"

        def commits_offsets() -> str:
            for call in ("beginTransaction", "send"):
                assert producer.do(call, 0, "record") == "ok"
            return producer.do("sendOffsetsToTransaction", 0, "g")

        assert commits_offsets() == "GroupAuthorizationException"
        assert producer.do("abortTransaction") == "ok"
        allow(authorizing, [("bob", "READ GROUP g")])
        said = commits_offsets()
        while said == "GroupAuthorizationException":  # the broker hears of it later
            assert producer.do("abortTransaction") == "ok"
            said = commits_offsets()
        assert said == "KafkaException"  # an unexpected error, and no permission that lacks
        allow(authorizing, [("bob", "READ TOPIC orders")])
        for call in ("abortTransaction", "beginTransaction", "commitTransaction"):
            assert producer.do(call) not in ("ok", "IllegalStateException")


def test_a_run_as_a_user_who_may_not_do_all_of_it(authorizing: Broker, tmp_path: Path) -> None:
    """What docs/conformance.md lists is enough, and what lacks is named."""
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.username=runner\nsasl.password=runner\n"
    )

    def run() -> Result:
        where = f"127.0.0.1:{authorizing.also_port}"
        command = ["conform", "--bootstrap", where, "--config", str(config), "--shared"]
        short = ["--suite", "random", "--seconds", "3"]
        return CliRunner().invoke(app, [*command, *short], catch_exceptions=False)

    refused = run()
    assert (refused.exit_code, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert "the user needs WRITE on transactional ids with the prefix epochfence-" in refused.stderr
    may = ["WRITE TRANSACTIONAL_ID", *(f"{each} TOPIC" for each in TOPICS)]
    allow(authorizing, [("runner", f"{what} epochfence-*") for what in may])
    allow(authorizing, [("runner", "DESCRIBE TOPIC __consumer_offsets")])
    eventually(lambda: "ended early: " in (done := run().stdout) and "on groups" in done)
    allow(authorizing, [("runner", f"{each} GROUP epochfence-*") for each in ("READ", "DELETE")])
    eventually(lambda: (done := run()).exit_code == 0 and "not asked, as the user" in done.stdout)


def test_an_abort_that_never_ends_as_the_group_is_refused(authorizing: Broker) -> None:
    """The client asks for the group's coordinator as often as it can, until it may know it."""
    allow(
        authorizing, [("patient", f"WRITE {each} orders") for each in ("TOPIC", "TRANSACTIONAL_ID")]
    )
    allow(authorizing, [("patient", "READ GROUP waiting"), ("patient", "READ TOPIC orders")])
    how = Security(username="patient", password="patient")
    with (
        Proxy(f"127.0.0.1:{authorizing.also_port}", how=how) as proxy,
        JavaProducer(
            proxy.bootstrap, authorizing.version, transactional_id="orders", max_block_ms=2_000
        ) as producer,
    ):
        eventually(lambda: producer.do("initTransactions") == "ok")
        assert producer.do("beginTransaction") == "ok"
        fault = proxy.faults.add({"do": "hold", "on": {"request": "FindCoordinator"}})
        assert producer.do("sendOffsetsToTransaction", 0, "waiting") == "TimeoutException"
        take_away(authorizing, "patient", "GROUP", "waiting")
        proxy.brokers.do(released(fault))
        for _ in range(2):
            before = proxy.answered["FindCoordinator"]
            assert producer.do("abortTransaction") == "TimeoutException"
            assert proxy.answered["FindCoordinator"] > before + 20
        allow(authorizing, [("patient", "READ GROUP waiting")])
        eventually(lambda: producer.do("abortTransaction") == "ok")
