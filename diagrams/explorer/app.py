"""The explorer as an ASGI application, only for browsers on this machine.

It refuses requests for other host names than this machine's, as in DNS rebinding, and requests of
other pages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from threading import Event, Lock
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from ...loopback import guard
from ..report.page import style
from .explorer import WRONG, Explorer
from .goals import GoalError
from .session import as_text
from .until import until
from .view import HERE, page

LARGEST = 16 << 20  # bytes of a trace
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def _wrong(code: int, message: str) -> Response:
    return JSONResponse({"error": " ".join(message.splitlines())}, code)


class Served:
    """An explorer over HTTP. It runs one search at a time. Another request may cancel the
    search."""

    def __init__(self, explorer: Explorer) -> None:
        self.explorer = explorer
        self._searching, self._cancelled = Lock(), Event()
        explorer.view({})  # the first page is compiled now

    def answering(
        self, answer: Callable[[Mapping[str, str]], dict[str, Any]]
    ) -> Callable[[Request], Response]:
        """An answer to a query as a response."""
        return lambda request: JSONResponse(answer(request.query_params))

    def page(self, request: Request) -> Response:
        """The page. Its script requests the rest."""
        return HTMLResponse(page(**self.explorer.page()))

    def until(self, query: Mapping[str, str]) -> dict[str, Any]:
        """The path to the nearest state that meets the requested goal."""
        explorer, goal = self.explorer, query.get("goal", "")
        run, session = explorer.run(query), explorer.session
        if not self._searching.acquire(blocking=False):
            raise GoalError("a search is in progress: wait for it, or cancel it")
        try:
            self._cancelled.clear()
            instance, ended = session.instance, self._cancelled.is_set
            found = until(instance, run.state, goal, explorer.places, ended)
        finally:
            self._searching.release()
        if found.all_seen or found.states:
            explorer.decided(run, goal, found.why)
        path = session.extended(run.path, found.states) if found.states else None
        return {"path": None if path is None else as_text(session.run(path).path), "why": found.why}

    def cancel(self, _: Mapping[str, str]) -> dict[str, Any]:
        """Ends the current search."""
        self._cancelled.set()
        return {}

    async def trace(self, request: Request) -> Response:
        """The path of a trace in the request's body, in ITF."""
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > LARGEST:
                return _wrong(413, f"a trace has at most {LARGEST >> 20} MiB")
        return JSONResponse(await run_in_threadpool(self.explorer.loaded, bytes(body)))


def _own(name: str) -> str:
    return (HERE / name).read_text("utf-8")


def _file(text: str, media: str) -> Callable[[Request], Response]:
    return lambda _: Response(text, media_type=media)


def _refused(_: Request, error: Exception) -> Response:
    return _wrong(400, str(error))


def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _wrong(error.status_code, error.detail)


def _gone(_: Request, error: Exception) -> Response:
    return _wrong(400, "the request broke off")


def _fault(_: Request, error: Exception) -> Response:
    """An internal error: a line for the page and one for the terminal."""
    line = " ".join(f"{type(error).__name__}: {error}".splitlines())
    print(f"epochfence: internal error, please report it: {line}", file=sys.stderr)
    response = _wrong(500, "internal error: see the terminal")
    response.headers.update(HEADERS)
    return response


def application(explorer: Explorer) -> Starlette:
    """The ASGI application of an explorer."""
    served = Served(explorer)
    routes = [
        Route("/", served.page),
        Route("/explorer.css", _file(_own("explorer.css"), "text/css")),
        Route("/report.css", _file(style(), "text/css")),
        Route("/explorer.js", _file(_own("explorer.js"), "text/javascript")),
        Route("/api/view", served.answering(explorer.view)),
        Route("/api/blocked", served.answering(explorer.blocked)),
        Route("/api/until", served.answering(served.until)),
        Route("/api/cancel", served.answering(served.cancel)),
        Route("/api/link", served.answering(explorer.followed)),
        Route("/api/trace", served.trace, methods=["POST"]),
    ]
    handlers = {
        HTTPException: _http_error,
        ClientDisconnect: _gone,
        Exception: _fault,
        **dict.fromkeys(WRONG, _refused),
    }
    middleware = guard("only the explorer's own page may ask", linked=("/",), headers=HEADERS)
    return Starlette(routes=routes, middleware=middleware, exception_handlers=handlers)
