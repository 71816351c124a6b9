"""SASL on the broker's side: authenticates the user of each connection to a served cluster.

Source: SaslServerAuthenticator; KIP-152 for SaslAuthenticate, from 1.0 on, KIP-255 for tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ..wire.listener import LOST, Answer, Request, Silence
from ..wire.sasl_client import OAUTHBEARER, AuthenticationError
from ..wire.sasl_server import BY_PASSWORD, Exchange, exchange

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a connection without authentication (KafkaPrincipal.ANONYMOUS)."""
VERSIONS: Final = {"SaslHandshake": (1, 1), "SaslAuthenticate": (0, 0)}
"""The accepted versions of SASL requests. Clients of all releases from 1.0 on know them.
"""


class Users:
    """The users by their `passwords`. With `takes_tokens`, unsecured tokens are also accepted; the
    user is the token's subject. A connection must authenticate before other requests."""

    def __init__(self, passwords: Mapping[str, str] | None, *, takes_tokens: bool = False) -> None:
        self._passwords = dict(passwords or {})
        by_password = () if passwords is None else BY_PASSWORD
        self.mechanisms = (*by_password, *(OAUTHBEARER,) * takes_tokens)
        self._principals: dict[int, str] = {}
        self._exchanges: dict[int, Exchange] = {}
        self._refused: set[int] = set()
        self.answers: Mapping[str, Callable[[Request], Answer | Silence]] = {
            "SaslHandshake": self.handshake,
            "SaslAuthenticate": self.authenticate,
        }

    def principal(self, connection: int) -> str | None:
        """The principal of a connection; None: not authenticated."""
        return self._principals.get(connection)

    def left(self, connection: int) -> None:
        """Forgets a connection that has ended."""
        self._principals.pop(connection, None)
        self._exchanges.pop(connection, None)
        self._refused.discard(connection)

    def handshake(self, request: Request) -> Answer | Silence:
        """SaslHandshake."""
        if self._is_over(request.connection) or request.connection in self._exchanges:
            return LOST
        mechanism = request.fields["mechanism"]
        error = "UNSUPPORTED_SASL_MECHANISM"
        if mechanism in self.mechanisms:
            error = "NONE"
            self._exchanges[request.connection] = begun = exchange(mechanism, self._passwords)
            next(begun)
        return Answer({"error_code": error, "mechanisms": list(self.mechanisms)})

    def authenticate(self, request: Request) -> Answer | Silence:
        """SaslAuthenticate: one message of the mechanism, after the handshake. If the user is
        refused, the next request closes the connection."""
        connection = request.connection
        if self._is_over(connection) or connection not in self._exchanges:
            return LOST
        try:
            said = self._exchanges[connection].send(request.fields["auth_bytes"])
        except StopIteration as ended:
            name, said = ended.value
            self._principals[connection] = f"User:{name}"
        except AuthenticationError as why:
            self._refused.add(connection)
            return Answer({"error_code": "SASL_AUTHENTICATION_FAILED", "error_message": str(why)})
        return Answer({"error_code": "NONE", "auth_bytes": said})

    def _is_over(self, connection: int) -> bool:
        return connection in self._principals or connection in self._refused
