"""SASL on the broker's side: its messages to a client, and the client's user name.

Sources: RFC 4616 and PlainSaslServer; RFC 5802, RFC 7677 and ScramSaslServer; RFC 7628,
OAuthBearerSaslServer and OAuthBearerUnsecuredJws.
"""

from __future__ import annotations

import hmac
import secrets
from base64 import b64encode, urlsafe_b64decode
from collections.abc import Generator, Mapping
from functools import cache
from time import time
from typing import Any, Final, TypeGuard, cast

from ...strict_json import read_json
from .sasl_client import (
    FEWEST,
    OAUTHBEARER,
    AuthenticationError,
    attributes,
    salted_password,
    scram_proofs,
)

PLAIN: Final = "PLAIN"
BY_PASSWORD: Final = (PLAIN, "SCRAM-SHA-256", "SCRAM-SHA-512")
"""The mechanisms that prove a user's knowledge of the password."""
INVALID_TOKEN: Final = b'{"status":"invalid_token"}'
"""The answer to a client whose token isn't accepted. The client then sends one last message."""
_SALT: Final = secrets.token_bytes(16)
Exchange = Generator[bytes, bytes, tuple[str, bytes]]
"""A generator of a broker's messages. Start it with `next`, and send the client's messages in. It
returns the user's name and the last message."""


def exchange(mechanism: str, passwords: Mapping[str, str]) -> Exchange:
    """A broker's side of a mechanism. With OAUTHBEARER any unsecured token is accepted. Raises
    AuthenticationError."""
    if mechanism == OAUTHBEARER:
        return _bearer()
    return _plain(passwords) if mechanism == PLAIN else _scram(mechanism, passwords)


def _plain(passwords: Mapping[str, str]) -> Exchange:
    parts = (yield b"").split(b"\0")
    if len(parts) != 3 or parts[0] not in (b"", parts[1]):  # a user can't act for another one
        raise AuthenticationError("it isn't a message of PLAIN")
    name = parts[1].decode(errors="replace")
    password = passwords.get(name)
    if password is None or not hmac.compare_digest(password.encode(), parts[2]):
        raise AuthenticationError("Authentication failed: Invalid username or password")
    return name, b""


def _scram(mechanism: str, passwords: Mapping[str, str]) -> Exchange:
    header, bare = _without_header((yield b"").decode(errors="replace"))
    client_first = attributes(bare)
    name = client_first.get("n", "").replace("=2C", ",").replace("=3D", "=")
    if (
        name not in passwords
        or not client_first.get("r")
        or header not in ("n,,", f"n,a={client_first.get('n')},")
    ):
        raise AuthenticationError(f"{_INVALID} {mechanism}")
    nonce = client_first["r"] + secrets.token_urlsafe(24)
    first = f"r={nonce},s={b64encode(_SALT).decode()},i={FEWEST}"
    final, comma, proof = (yield first.encode()).decode(errors="replace").rpartition(",p=")
    salted = _salted(mechanism, passwords[name])
    expected, shown = scram_proofs(mechanism, salted, f"{bare},{first},{final}")
    bound = {"c": b64encode(header.encode()).decode(), "r": nonce}
    is_known = hmac.compare_digest(proof.encode(), expected.encode())
    if not comma or attributes(final) != bound or not is_known:
        raise AuthenticationError(f"{_INVALID} {mechanism}")
    return name, f"v={shown}".encode()


_INVALID: Final = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism"
)


@cache
def _salted(mechanism: str, password: str) -> bytes:
    return salted_password(mechanism, password, _SALT, FEWEST)


def _bearer() -> Exchange:
    header, pairs = _without_header((yield b"").decode(errors="replace"))
    fields = dict(pair.split("=", 1) for pair in pairs.split("\1") if "=" in pair)
    scheme, _, token = fields.get("auth", "").partition(" ")
    name = subject(token, time()) if scheme.lower() == "bearer" else None
    if name is None or header not in ("n,,", f"n,a={name},"):
        yield INVALID_TOKEN
        raise AuthenticationError(INVALID_TOKEN.decode())
    return name, b""


def subject(token: str, now: float) -> str | None:
    """The subject of an unsecured token that is valid at this time (in seconds); None for another
    token. Signed tokens can't be verified here."""
    parts = token.split(".")
    header, claims = (_object_of(part) for part in parts[:2]) if len(parts) == 3 else ({}, {})
    name, begun, end = (claims.get(claim) for claim in ("sub", "iat", "exp"))
    if header.get("alg") != "none" or parts[2] or not isinstance(name, str) or not name.strip():
        return None
    if not _is_number(end) or end <= now:
        return None
    if begun is not None and not (_is_number(begun) and begun <= min(now, end)):
        return None
    return name


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _object_of(part: str) -> dict[str, Any]:
    """The JSON object in a part of a token; empty if there is none."""
    try:
        found = read_json(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except ValueError:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _without_header(message: str) -> tuple[str, str]:
    """The GS2 header and the rest of a first message (RFC 5801, 4)."""
    parts = message.split(",", 2)
    return ",".join(parts[:2]) + ",", parts[2] if len(parts) == 3 else ""
