"""SASL against the examples of its documents, and against answers that nobody gives who knows the
password."""

from __future__ import annotations

from base64 import b64decode

import pytest

from epochfence.model.wire.sasl_client import AuthenticationError, exchange, unsecured_token

NONCE = "rOprNGfwEbeRWgbNEkqO"
THEIRS = f"{NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = f"r={THEIRS},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def told(*answers: str, username: str = "user") -> list[str]:
    """What a client says to these answers (RFC 7677, 3)."""
    client = exchange("SCRAM-SHA-256", username, "pencil", NONCE)
    said = [next(client).decode()]
    for answer in answers:
        try:
            said.append(client.send(answer.encode(errors="surrogateescape")).decode())
        except StopIteration:
            break
    return said


def test_the_example_of_rfc_7677() -> None:
    assert told(FIRST, FINAL) == [
        f"n,,n=user,r={NONCE}",
        f"c=biws,r={THEIRS},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    ]
    assert told(username="a=b,c") == [f"n,,n=a=3Db=2Cc,r={NONCE}"]


def test_plain_is_one_message() -> None:
    assert list(exchange("PLAIN", "bob", "a secret")) == [b"\0bob\0a secret"]


def test_a_token_and_what_follows_its_refusal() -> None:
    """RFC 7628, 4.1 and 4.3; the token of RFC 7515, A.5, has this header."""
    client = exchange("OAUTHBEARER", "", "a.b.c")
    assert next(client) == b"n,,\1auth=Bearer a.b.c\1\1"
    assert client.send(b'{"status":"invalid_token"}') == b"\1"
    accepted = exchange("OAUTHBEARER", "bob", "")
    assert next(accepted).startswith(b"n,,\1auth=Bearer eyJhbGciOiAibm9uZSJ9.")
    with pytest.raises(StopIteration):
        accepted.send(b"")
    _, claims, signature = unsecured_token("bob", 100).split(".")
    assert b64decode(claims + "==") == b'{"sub": "bob", "iat": 100, "exp": 3700}'
    assert signature == ""


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        (("",), "isn't a SCRAM message"),
        (("\udcff",), "isn't a SCRAM message"),
        ((FIRST.replace(NONCE, "another"),), "isn't a SCRAM message"),
        ((FIRST.replace("s=W22", "s=!"),), "isn't a SCRAM message"),
        ((FIRST.replace("4096", "many"),), "isn't a SCRAM message"),
        ((FIRST.replace("4096", "4095"),), "it asks for 4095 iterations, not 4,096 to"),
        ((FIRST.replace("4096", "9" * 30),), "it asks for 999999999999 iterations"),
        ((FIRST, FINAL.replace("6rr", "7rr")), "doesn't show that it knows the password"),
        ((FIRST, "e=other-error"), "doesn't show that it knows the password"),
    ],
)
def test_who_does_not_know_the_password(answers: tuple[str, ...], why: str) -> None:
    with pytest.raises(AuthenticationError, match=why):
        told(*answers)
