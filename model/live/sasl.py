"""SASL as a client speaks it: what it says, and what it is told, message by message.

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
"""So long an unsecured token holds."""
FEWEST, MOST = 4096, 10_000_000  # iterations of a hash: fewer are weak, more take minutes
Exchange = Generator[bytes, bytes, None]
"""What a client says; what it is told in answer is sent in."""


class Refused(Exception):
    """What the other side has said isn't what one says who knows the password."""


def exchange(mechanism: str, username: str, password: str, nonce: str | None = None) -> Exchange:
    """A client's messages. `nonce` is drawn unless it is given; with OAUTHBEARER, `password` is the
    token, and an unsecured one is made where there is none. Raises Refused."""
    if mechanism == OAUTHBEARER:
        token = password or unsecured_token(username, int(time.time()))
        if (yield f"n,,\1auth=Bearer {token}\1\1".encode()):  # why it is refused
            yield b"\1"
        return
    if mechanism == "PLAIN":
        yield f"\0{username}\0{password}".encode()
        return
    name = username.replace("=", "=3D").replace(",", "=2C")
    nonce = nonce or secrets.token_urlsafe(24)
    first = f"n={name},r={nonce}"
    answer = (yield f"n,,{first}".encode()).decode(errors="replace")
    hashed = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
    told = _attributes(answer)
    salt, iterations = _base64(told.get("s", "")), told.get("i", "")
    if not told.get("r", "").startswith(nonce) or not iterations.isdecimal() or not salt:
        raise Refused("its answer isn't one of SCRAM")
    if not FEWEST <= int(iterations) <= MOST:
        raise Refused(f"it asks for {iterations[:12]} iterations, not {FEWEST:,} to {MOST:,}")
    salted = hashlib.pbkdf2_hmac(hashed, password.encode(), salt, int(iterations))
    final = f"c={b64encode(b'n,,').decode()},r={told['r']}"
    signed = f"{first},{answer},{final}".encode()
    key = hmac.digest(salted, b"Client Key", hashed)
    signature = hmac.digest(hashlib.new(hashed, key).digest(), signed, hashed)
    proof = b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    answer = (yield f"{final},p={proof}".encode()).decode(errors="replace")
    expected = hmac.digest(hmac.digest(salted, b"Server Key", hashed), signed, hashed)
    if not hmac.compare_digest(_base64(_attributes(answer).get("v", "")), expected):
        raise Refused("it doesn't show that it knows the password")


def unsecured_token(username: str, now: int) -> str:
    """A token of this user that nobody has signed (RFC 7515, A.5), from `now` on, in seconds."""
    claims = {"sub": username, "iat": now, "exp": now + TOKEN_S}
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    return "".join(urlsafe_b64encode(part).decode().rstrip("=") + "." for part in parts)


def _attributes(text: str) -> dict[str, str]:
    found = (part.partition("=") for part in text.split(","))
    return {name: value for name, _, value in found}


def _base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return b""
