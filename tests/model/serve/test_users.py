"""Users of a served cluster: clients that nobody here wrote, by each mechanism, and who isn't let
in."""

from __future__ import annotations

import asyncio
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as OfAiokafka
from kafka import KafkaProducer  # type: ignore[attr-defined]
from kafka.net.sasl.oauth import AbstractTokenProvider as OfKafkaPython
from typer.testing import CliRunner

from epochfence.cli import app
from epochfence.model.serve.server import Server
from epochfence.model.wire.connection import BrokerError, Connection, Security
from epochfence.model.wire.sasl_client import unsecured_token
from epochfence.model.wire.sasl_server import INVALID_TOKEN, Exchange, exchange, subject
from epochfence.spec.access.acls import Acl, Acls
from epochfence.tests.model.serve.clients import TIMEOUT_S, in_transactions

NAME: Final = "al=i,ce"  # which SCRAM writes otherwise
PLAIN_NAME: Final = "alice"  # for kafka-python, which doesn't
SECRET: Final = "a-password-that-nobody-may-see"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
NOW: Final = 1_000


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A cluster in which these users alone may do something."""
    names = (NAME, PLAIN_NAME)
    may = [
        Acl(f"User:{name}", "ALL", resource, "*")
        for name in names
        for resource in ("TOPIC", "TRANSACTIONAL_ID")
    ]
    with Server(
        "4.3",
        topics={"orders": 1},
        acls=Acls(tuple(may)),
        passwords=dict.fromkeys(names, SECRET),
        unsecured_tokens=True,
    ) as running:
        yield running


class Token(OfKafkaPython):
    """The user's token, for kafka-python."""

    def token(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        return unsecured_token(PLAIN_NAME, int(time.time()))


class LaterToken(OfAiokafka):
    """And for aiokafka."""

    async def token(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        return unsecured_token(NAME, int(time.time()))


def settings_of(mechanism: str, name: str, tokens: object) -> dict[str, Any]:
    """What the two clients in Python take."""
    common = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        return {**common, "sasl_oauth_token_provider": tokens}
    return {**common, "sasl_plain_username": name, "sasl_plain_password": SECRET}


def by_librdkafka(bootstrap: str, mechanism: str) -> None:
    user: dict[str, Any] = {"sasl_username": NAME, "sasl_password": SECRET}
    if mechanism == "OAUTHBEARER":
        user = {"enable_sasl_oauthbearer_unsecure_jwt": True}
        user["sasl_oauthbearer_config"] = f"principal={PLAIN_NAME}"
    producer = in_transactions(
        bootstrap, "a", security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism, **user
    )
    producer.begin_transaction()
    producer.produce("orders", b"a record")
    producer.commit_transaction(TIMEOUT_S)


def by_kafka_python(bootstrap: str, mechanism: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        transactional_id="a",
        max_block_ms=TIMEOUT_S * 1000,
        **settings_of(mechanism, PLAIN_NAME, Token()),
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"a record").get(timeout=TIMEOUT_S)
    producer.commit_transaction()
    producer.close()


def by_aiokafka(bootstrap: str, mechanism: str) -> None:
    async def commits() -> None:
        user = settings_of(mechanism, NAME, LaterToken())
        async with (
            AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="a", **user) as producer,
            producer.transaction(),
        ):
            await producer.send_and_wait("orders", b"a record")

    asyncio.run(commits())


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("commits", [by_librdkafka, by_kafka_python, by_aiokafka])
def test_a_client_shows_who_it_is(
    server: Server, commits: Callable[[str, str], None], mechanism: str
) -> None:
    before = server.answered["EndTxn"]
    commits(server.bootstrap, mechanism)
    assert server.answered["EndTxn"] == before + 1


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_who_shows_something_else_is_refused(server: Server, mechanism: str) -> None:
    address = server.brokers.addresses[0]
    known = "" if mechanism == "OAUTHBEARER" else SECRET  # where there is no token, one is made
    made = Connection(*address, Security(None, NAME, known, mechanism))
    assert made.ask("Metadata", 4, {"topics": None})["topics"][0]["name"] == "orders"
    made.close()
    for name, guess in ((NAME, "guessed"), ("nobody", "x.y.")):
        with pytest.raises(BrokerError, match="refuses the user"):
            Connection(*address, Security(None, name, guess, mechanism))
    assert SECRET not in server.report()


def answers(begun: Exchange, *messages: str) -> list[str]:
    """What a broker says to a client's messages; the last is whose they are, or why it refuses."""
    said = [next(begun).decode()]
    try:
        for message in messages:
            said.append(begun.send(message.encode()).decode())
    except StopIteration as ended:
        said.append(ended.value[0])
    except Exception as why:
        said.append(f"{type(why).__name__}: {why}")
    return said[1:]


def token_of(header: object, claims: object, signature: str = "") -> str:
    parts = (urlsafe_b64encode(json.dumps(part).encode()) for part in (header, claims))
    return ".".join([*(part.decode().rstrip("=") for part in parts), signature])


NONE: Final = {"alg": "none"}
CLAIMS: Final = {"sub": "alice", "iat": NOW, "exp": NOW + 1}


def test_whose_a_token_is() -> None:
    """As OAuthBearerUnsecuredJws and its validator see it."""
    assert subject(unsecured_token(NAME, NOW), NOW) == NAME
    assert subject(token_of(NONE, {"sub": "alice", "exp": NOW + 0.5}), NOW) == "alice"
    for header, claims in (
        ({"alg": "RS256"}, CLAIMS), ({}, CLAIMS), ([], CLAIMS), (NONE, []), (NONE, "alice"),
        (NONE, {"sub": "alice"}), (NONE, CLAIMS | {"sub": " "}), (NONE, CLAIMS | {"sub": 1}),
        (NONE, CLAIMS | {"exp": NOW}), (NONE, CLAIMS | {"exp": "never"}),
        (NONE, CLAIMS | {"exp": True}), (NONE, CLAIMS | {"iat": NOW + 1}),
        (NONE, CLAIMS | {"exp": NOW + 5, "iat": NOW + 4}),
    ):  # fmt: skip
        assert subject(token_of(header, claims), NOW) is None, (header, claims)
    signed = token_of(NONE, CLAIMS, "c2lnbmVk")
    for text in (signed, "", ".", "..", "...", "a.b.c", "é.é.", token_of(NONE, CLAIMS) + "."):
        assert subject(text, NOW) is None, text


def test_what_a_broker_says_to_a_token() -> None:
    """RFC 7628, 4: a client that is refused has one message more."""
    token = unsecured_token("alice", int(time.time()))
    told = INVALID_TOKEN.decode()
    for first, said in (
        (f"n,,\1auth=Bearer {token}\1\1", ["alice"]),
        (f"n,a=alice,\1auth=bearer {token}\1traceId=7\1\1", ["alice"]),
        (f"n,a=bob,\1auth=Bearer {token}\1\1", [told, f"AuthenticationError: {told}"]),
        (f"n,,\1auth=Basic {token}\1\1", [told, f"AuthenticationError: {told}"]),
        ("", [told, f"AuthenticationError: {told}"]),
        ("n,,\1auth\1\1", [told, f"AuthenticationError: {told}"]),
    ):
        assert answers(exchange("OAUTHBEARER", {}), first, "\1") == said, first


def test_what_is_no_message_of_scram_is_refused() -> None:
    """RFC 5802, 5.1 and 7. What is right is shown by clients."""
    why = "Authentication failed during authentication due to invalid credentials"
    refused = f"AuthenticationError: {why}"
    for first in ("", "n,,", "n,,n=alice", "n,,r=abc", "y,,n=alice,r=abc", "n,a=bob,n=alice,r=abc"):
        (said,) = answers(exchange("SCRAM-SHA-256", {"alice": SECRET}), first)
        assert said.startswith(refused), first
    for final in ("", "c=biws", "c=biws,r=abc,p=", "c=biws,r=abc,p=AAAA", ",p=", "é"):
        first, said = answers(
            exchange("SCRAM-SHA-512", {"alice": SECRET}), "n,,n=alice,r=abc", final
        )
        assert first.startswith("r=abc")
        assert said.startswith(refused), final


def test_the_command_takes_tokens() -> None:
    command = ["serve", "--port", "0", "--seconds", "0", "--unsecured-tokens"]
    assert CliRunner().invoke(app, command).exit_code == 0
    old = CliRunner().invoke(app, [*command, "--protocol", "1.1"])
    assert (old.exit_code, old.stderr.count("\n")) == (2, 1)
    assert "brokers of 1.1 don't support SASL/OAUTHBEARER; from 2.0.0 on" in old.stderr
