"""A broker that wants TLS and a password: its users, and what they never see."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from typer.testing import CliRunner

from epochfence.cli import app
from epochfence.cli.oracle.conform import security_of
from epochfence.model.conformance.kafka.broker import Broker, Listener, needed
from epochfence.model.conformance.live.cluster.cluster import LiveCluster
from epochfence.model.serve.history import History
from epochfence.model.serve.proxy import Proxy
from epochfence.tests.model.serve.clients import TIMEOUT_S, in_transactions

SCRAM: Final = "SCRAM-SHA-512"
BEARER: Final = 'OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="bob";'
SECRET: Final = "a-password-that-nobody-may-see"
pytestmark = [
    pytest.mark.sample(1),
    pytest.mark.releases("3.6", "3.9", "4.0.1", "4.3", "4.4"),  # which take certificates as PEM
]


def certified(folder: Path, name: str) -> Path:
    """A key for 127.0.0.1 with its own certificate, and beside it the certificate alone."""
    key, certificate, both = (folder / f"{name}.{part}" for part in ("key", "crt", "pem"))
    command = (
        needed("openssl", "openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
        "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key,
        "-out", certificate,
    )  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    both.write_text(key.read_text() + certificate.read_text())
    return both


@pytest.fixture
def secured(broker: Broker, tmp_path: Path) -> Iterator[Broker]:
    """A broker of the release whose second listener wants both."""
    prefix, common = "listener.name.secured", "org.apache.kafka.common.security"
    settings = (
        f"{prefix}.ssl.keystore.type=PEM",
        f"{prefix}.ssl.keystore.location={certified(tmp_path, 'broker')}",
        f"{prefix}.sasl.enabled.mechanisms=PLAIN,{SCRAM},OAUTHBEARER",
        f"{prefix}.plain.sasl.jaas.config={common}.plain.PlainLoginModule required "
        f'user_bob="{SECRET}";',
        f"{prefix}.scram-sha-512.sasl.jaas.config={common}.scram.ScramLoginModule required;",
        f"{prefix}.oauthbearer.sasl.jaas.config={common}.oauthbearer.{BEARER}",
    )
    listener = Listener("SECURED", "SASL_SSL", settings=settings)
    with Broker(broker.release, tmp_path / "broker", listener) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        user = UserScramCredentialUpsertion("bob", info, SECRET.encode())
        for done in admin.alter_user_scram_credentials([user]).values():
            done.result(TIMEOUT_S)
        yield running


def properties(folder: Path, **others: str) -> Path:
    """A file of a client's properties, by the names of Kafka's own client."""
    user = f'username="bob" password="{SECRET}"'
    given = {
        "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN",
        "sasl.jaas.config":
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {user};",
        "ssl.truststore.type": "PEM", "ssl.truststore.location": f"{folder / 'broker.crt'}",
    } | {name.replace("_", "."): value for name, value in others.items()}  # fmt: skip
    file = folder / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    return file


def conform(broker: Broker, config: Path, *more: str) -> Any:
    bootstrap = f"127.0.0.1:{broker.also_port}"
    command = ["conform", "--bootstrap", bootstrap, "--config", str(config), *more]
    return CliRunner().invoke(app, command, catch_exceptions=False)


def test_tls_and_a_password(secured: Broker, tmp_path: Path) -> None:
    result, history = tmp_path / "result.json", tmp_path / "history.jsonl"
    short = ("--suite", "random", "--seconds", "2", "--json", str(result))
    done = conform(secured, properties(tmp_path), *short)
    assert done.exit_code == 0, done.output
    how = security_of(properties(tmp_path, sasl_mechanism=SCRAM))
    with history.open("wb") as file, Proxy(f"127.0.0.1:{secured.also_port}", how=how) as proxy:
        proxy.record_in(History(file))
        producer = in_transactions(proxy.bootstrap, "id")  # which needs none of it
        producer.begin_transaction()
        producer.commit_transaction(TIMEOUT_S)
        assert proxy.answered["InitProducerId"] == 1
        assert proxy.broken == []
    for text in (done.output, result.read_text(), history.read_text(), repr(how), proxy.report()):
        assert text.strip()
        assert SECRET not in text
    bearer = {"sasl_mechanism": "OAUTHBEARER", "sasl_jaas_config": BEARER}
    bootstrap = f"127.0.0.1:{secured.also_port}"
    LiveCluster(bootstrap, security_of(properties(tmp_path, **bearer)), may_be_shared=True).close()
    (tmp_path / "token").write_text(f"{SECRET}.")
    token = bearer | {"sasl_oauthbearer_token_endpoint_url": (tmp_path / "token").as_uri()}
    certified(tmp_path, "another")
    guess = {"sasl_jaas_config": 'x required username="bob" password="guessed";'}
    for others, told in (
        ({"ssl_truststore_location": f"{tmp_path / 'another.crt'}"}, "no TLS connection"),
        (guess, "refuses the user"),
        (guess | {"sasl_mechanism": SCRAM}, "refuses the user"),
        (token, "refuses the user"),
        ({"sasl_mechanism": "SCRAM-SHA-256"}, "doesn't support SASL/SCRAM-SHA-256 (it supports: "),
        ({"security_protocol": "SASL_PLAINTEXT"}, "speaks TLS: set security.protocol"),
    ):
        done = conform(secured, properties(tmp_path, **others))
        assert (done.exit_code, done.stdout) == (2, ""), done.output
        assert done.stderr.count("\n") == 1, done.stderr
        assert told in done.stderr
        assert not any(secret in done.stderr for secret in ("guessed", SECRET))
