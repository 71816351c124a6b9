"""Who is behind a connection to a served cluster: SASL/PLAIN, as a broker speaks it.

Sources: RFC 4616, SaslServerAuthenticator; KIP-152 for SaslAuthenticate, from 1.0 on.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from typing import Final

from .wire import LOST, Answer, Request, Silence

ANONYMOUS: Final = "User:ANONYMOUS"
"""Who asks where nobody is asked who he is (KafkaPrincipal.ANONYMOUS)."""
VERSIONS: Final = {"SaslHandshake": (1, 1), "SaslAuthenticate": (0, 0)}
"""The versions of its requests that are taken here: clients of all releases from 1.0 on know them.
"""
_MECHANISM: Final = "PLAIN"


class Users:
    """Users by their `passwords`. A connection may ask nothing until it has told one of them."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = dict(passwords)
        self._principals: dict[int, str] = {}
        self._begun: set[int] = set()
        self._refused: set[int] = set()
        self.answers: Mapping[str, Callable[[Request], Answer | Silence]] = {
            "SaslHandshake": self.handshake,
            "SaslAuthenticate": self.authenticate,
        }

    def principal(self, connection: int) -> str | None:
        """Who has told a password on a connection; None: nobody has."""
        return self._principals.get(connection)

    def left(self, connection: int) -> None:
        """A connection has ended."""
        self._principals.pop(connection, None)
        self._begun.discard(connection)
        self._refused.discard(connection)

    def handshake(self, request: Request) -> Answer | Silence:
        """SaslHandshake."""
        if self._is_over(request.connection):
            return LOST
        is_known = request.fields["mechanism"] == _MECHANISM
        if is_known:
            self._begun.add(request.connection)
        error = "NONE" if is_known else "UNSUPPORTED_SASL_MECHANISM"
        return Answer({"error_code": error, "mechanisms": [_MECHANISM]})

    def authenticate(self, request: Request) -> Answer | Silence:
        """SaslAuthenticate: once for a connection, behind its handshake. The next request of one
        who was refused closes it."""
        connection = request.connection
        if self._is_over(connection) or connection not in self._begun:
            return LOST
        name = self._told(request.fields["auth_bytes"])
        if name is None:
            self._refused.add(connection)
            why = "Authentication failed: Invalid username or password"
            return Answer({"error_code": "SASL_AUTHENTICATION_FAILED", "error_message": why})
        self._principals[connection] = f"User:{name}"
        return Answer({"error_code": "NONE", "auth_bytes": b""})

    def _is_over(self, connection: int) -> bool:
        return connection in self._principals or connection in self._refused

    def _told(self, message: bytes) -> str | None:
        """The user whose password a message of PLAIN tells; None where it tells none. One may not
        act for another: the first part is empty, or the user's name."""
        parts = message.split(b"\0")
        if len(parts) != 3 or parts[0] not in (b"", parts[1]):
            return None
        name = parts[1].decode(errors="replace")
        password = self._passwords.get(name)
        if password is None or not hmac.compare_digest(password.encode(), parts[2]):
            return None
        return name
