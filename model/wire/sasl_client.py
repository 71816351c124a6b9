"""The client's side of SASL, message by message.

Sources: RFC 4616 (PLAIN), RFC 5802 and 7677 (SCRAM), ScramSaslClient; RFC 7628 (OAUTHBEARER),
OAuthBearerSaslServer, OAuthBearerUnsecuredLoginCallbackHandler.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Generator
from typing import Final

OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
TOKEN_S: Final = 3600
"""The lifetime of an unsecured token in s."""
FEWEST, MOST = 4096, 10_000_000  # allowed iterations of a hash: fewer are weak, more take minutes
Exchange = Generator[bytes, bytes, None]
"""A generator of a client's messages. Send the answers in."""


class AuthenticationError(Exception):
    """The other side's message shows that it doesn't know the password."""


def exchange(mechanism: str, username: str, password: str, nonce: str | None = None) -> Exchange:
    """A client's messages. `nonce` is random by default. With OAUTHBEARER, `password` is the token;
    if it is empty, an unsecured token is made. Raises AuthenticationError."""
    if mechanism == OAUTHBEARER:
        token = password or unsecured_token(username, int(time.time()))
        if (yield f"n,,\1auth=Bearer {token}\1\1".encode()):  # the reason of a refusal
            yield b"\1"
        return
    if mechanism == "PLAIN":
        yield f"\0{username}\0{password}".encode()
        return
    name = username.replace("=", "=3D").replace(",", "=2C")
    nonce = nonce or secrets.token_urlsafe(24)
    first = f"n={name},r={nonce}"
    answer = (yield f"n,,{first}".encode()).decode(errors="replace")
    server_first = attributes(answer)
    salt, iterations = _base64(server_first.get("s", "")), server_first.get("i", "")
    if not server_first.get("r", "").startswith(nonce) or not iterations.isdecimal() or not salt:
        raise AuthenticationError("its answer isn't a SCRAM message")
    if not FEWEST <= int(iterations) <= MOST:
        raise AuthenticationError(
            f"it asks for {iterations[:12]} iterations, not {FEWEST:,} to {MOST:,}"
        )
    salted = salted_password(mechanism, password, salt, int(iterations))
    final = f"c={b64encode(b'n,,').decode()},r={server_first['r']}"
    proof, expected = scram_proofs(mechanism, salted, f"{first},{answer},{final}")
    answer = (yield f"{final},p={proof}".encode()).decode(errors="replace")
    if not hmac.compare_digest(attributes(answer).get("v", "").encode(), expected.encode()):
        raise AuthenticationError("it doesn't show that it knows the password")


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """The salted password of SCRAM (RFC 5802, 3: SaltedPassword)."""
    return hashlib.pbkdf2_hmac(_hash_of(mechanism), password.encode(), salt, iterations)


def scram_proofs(mechanism: str, salted: bytes, signed: str) -> tuple[str, str]:
    """The proofs that client and broker know the password, in base64. `signed` is the text of the
    messages (RFC 5802, 3: AuthMessage, ClientProof, ServerSignature)."""
    hashed, message = _hash_of(mechanism), signed.encode()
    key = hmac.digest(salted, b"Client Key", hashed)
    signature = hmac.digest(hashlib.new(hashed, key).digest(), message, hashed)
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    theirs = hmac.digest(hmac.digest(salted, b"Server Key", hashed), message, hashed)
    return b64encode(proof).decode(), b64encode(theirs).decode()


def _hash_of(mechanism: str) -> str:
    return mechanism.removeprefix("SCRAM-").replace("-", "").lower()


def unsecured_token(username: str, now: int) -> str:
    """An unsigned token of this user (RFC 7515, A.5). `now` is its start in seconds."""
    claims = {"sub": username, "iat": now, "exp": now + TOKEN_S}
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    return "".join(urlsafe_b64encode(part).decode().rstrip("=") + "." for part in parts)


def attributes(text: str) -> dict[str, str]:
    """The attributes of a SCRAM message, by letter."""
    found = (part.partition("=") for part in text.split(","))
    return {name: value for name, _, value in found}


def _base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return b""
