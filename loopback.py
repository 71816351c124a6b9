"""HTTP servers for this machine alone: the explorer's page, and the control port of `serve`.

They listen on loopback and answer to this machine's own names. A page of another site can't ask
them anything, whatever the method: a request with a foreign Origin, or one that a browser marks as
coming from another site, is refused. Idle connections are limited in number and time.

Needs the extra `explore`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final

import uvicorn
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from uvicorn.protocols.http.h11_impl import H11Protocol

from .sockets import HOST, most_connections

NAMES: Final = (HOST, "localhost", "[::1]")
IDLE_S: Final = 10.0
"""A connection without a request for so many seconds is closed."""
MOST: Final = 64
"""The most open connections; fewer if the process may open few files."""
LARGEST_HEADER: Final = 64 << 10
"""Bytes of the largest request line with its headers."""


def guard(
    refusal: str, linked: Collection[str] = (), headers: Mapping[str, str] | None = None
) -> list[Middleware]:
    """What stands before an application: it refuses requests for other hosts (400), and requests
    from other sites' pages (403, with `refusal`).

    Other sites may link to the paths in `linked`. Responses get these headers.
    """

    async def guarded(
        request: Request, following: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        origin = request.headers.get("origin")
        foreign = origin is not None and origin != f"http://{request.headers.get('host', '')}"
        site = request.headers.get("sec-fetch-site", "none")
        is_link = request.method == "GET" and request.url.path in linked
        if foreign or (site not in ("same-origin", "none") and not is_link):
            response: Response = JSONResponse({"error": refusal}, 403)
        else:
            response = await following(request)
        response.headers.update(headers or {})
        return response

    return [
        Middleware(TrustedHostMiddleware, allowed_hosts=[*NAMES], www_redirect=False),
        Middleware(BaseHTTPMiddleware, dispatch=guarded),
    ]


def http_server(application: Any) -> uvicorn.Server:
    """The server of an ASGI application, to be given a socket."""
    return uvicorn.Server(
        uvicorn.Config(
            # At level "error" uvicorn prints a traceback for each request that Ctrl-C interrupts.
            application, log_level="critical", access_log=False, server_header=False,
            lifespan="off", timeout_graceful_shutdown=1, http=_Connection, ws="none",
            h11_max_incomplete_event_size=LARGEST_HEADER,
        )
    )  # fmt: skip


class _Connection(H11Protocol):
    """A connection that ends if it stays idle. uvicorn waits for the first request for ever."""

    _seen = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > most_connections(4 * MOST) // 4:  # the rest is for brokers
            transport.close()
            return
        self.loop.call_later(IDLE_S, self._end_if_idle, self._seen)

    def data_received(self, data: bytes) -> None:
        self._seen += len(data)
        super().data_received(data)

    def _end_if_idle(self, seen: int) -> None:
        """Closes the connection if no byte has come since, and no answer is being made."""
        if self.transport.is_closing():
            return
        is_busy = self.cycle is not None and not self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]
        if self._seen == seen and not is_busy:
            self.transport.close()
            return
        self.loop.call_later(IDLE_S, self._end_if_idle, self._seen)
