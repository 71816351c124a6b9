"""The explorer as an ASGI application: for the browser of this machine's user, and nobody else.

It answers to this machine's own names only, so that no other name that a resolver is made to lead
here is taken for it, and to no page but its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import version
from threading import Lock

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from ...checker.trace.itf import TraceError, TraceFile, read_trace
from ...checker.trace.replay import run_of
from ...language import DeclarationError, Instance
from ...loopback import guard
from ..report.page import style
from .session import Path, PathError, Run, Session, as_text, read_path
from .until import GoalError, places, until
from .view import HERE, Views, comparable, first_states, page

LARGEST = 16 << 20  # bytes of a trace
LONGEST = 200  # characters of words to filter by
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
WRONG = (PathError, GoalError, TraceError, DeclarationError)


def _wrong(code: int, message: str) -> Response:
    return JSONResponse({"error": " ".join(message.splitlines())}, code)


class Explorer:
    """The application of one system at one release; `of_release` makes the same one at another.
    Raises DeclarationError."""

    def __init__(
        self, instance: Instance, releases: list[str], of_release: Callable[[str], Instance]
    ) -> None:
        self.session = Session(instance)
        self.views = Views(self.session)
        self.places = places(instance)
        self.releases = releases
        self._of_release = of_release
        self._beside: dict[str, Session] = {}
        self._making, self._searching = Lock(), Lock()
        self.views.of(self.session.run((0,)), None, "")  # the first page is compiled now

    def path_of(self, file: TraceFile) -> Path:
        """The path of a trace. Raises TraceError or PathError if the trace isn't of this system."""
        of, here = file.settings, self.session.instance
        named = (here.protocol, tuple(sorted(here.features)), dict(here.chosen))
        if of is not None and named != (
            of.protocol,
            tuple(sorted(of.features)),
            dict(of.constants),
        ):
            raise TraceError(
                f"it is of {of.system} at protocol {of.protocol}, with other settings than these: "
                "`epochfence explore SYSTEM --trace FILE` takes those of the trace"
            )
        states, steps = run_of(here, file)
        return self.session.path_of(states, steps)

    def beside(self, release: str) -> Session | None:
        """The same system at another release. Raises DeclarationError."""
        if not release:
            return None
        if release not in self.releases:
            raise DeclarationError("no such release to set beside")
        with self._making:
            if release not in self._beside:
                other = self._of_release(release)
                if not comparable(self.session.instance, other):
                    raise DeclarationError(f"{release} has other variables: it can't stand beside")
                self._beside[release] = Session(other)
            return self._beside[release]

    # What is answered ---------------------------------------------------------------------------

    def _run(self, request: Request) -> Run:
        return self.session.run(read_path(request.query_params.get("path", "")))

    def page(self, request: Request) -> Response:
        """The page itself, which asks for the rest."""
        instance = self.session.instance
        constants = [f"{name}={value}" for name, value in instance.chosen.items()]
        return HTMLResponse(
            page(
                system=instance.system.name, protocol=instance.protocol, constants=constants,
                declaration=self.session.declaration, releases=self.releases,
                firsts=first_states(self.session), places=list(self.places),
                properties=[item.name for item in instance.properties],
                version=version("epochfence"),
            )
        )  # fmt: skip

    def view(self, request: Request) -> Response:
        """A path's view; of another release, too, with `beside`."""
        beside = self.beside(request.query_params.get("beside", ""))
        find = request.query_params.get("find", "")[:LONGEST]
        return JSONResponse(self.views.of(self._run(request), beside, find))

    def blocked(self, request: Request) -> Response:
        """Why the steps that aren't possible aren't."""
        return JSONResponse({"blocked": self.views.blocked(self._run(request))})

    def until(self, request: Request) -> Response:
        """The path to the nearest state that is asked for."""
        run = self._run(request)
        goal = request.query_params.get("goal", "")
        if not self._searching.acquire(blocking=False):
            return _wrong(409, "a search is in progress: wait for it")
        try:
            found = until(self.session.instance, run.state, goal, self.places)
        finally:
            self._searching.release()
        path = self.session.extended(run.path, found.states) if found.states else None
        told = None if path is None else as_text(self.session.run(path).path)
        return JSONResponse({"path": told, "why": found.why})

    async def trace(self, request: Request) -> Response:
        """The path of a trace that is sent here, in ITF."""
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > LARGEST:
                return _wrong(413, f"a trace has at most {LARGEST >> 20} MiB")
        return await run_in_threadpool(self._loaded, bytes(body))

    def _loaded(self, text: bytes) -> Response:
        path = self.path_of(read_trace(text))
        told = f"{len(path) - 1} steps"
        return JSONResponse({"path": as_text(self.session.run(path).path), "told": told})


def _own(name: str) -> str:
    return (HERE / name).read_text("utf-8")


def _file(text: str, media: str) -> Callable[[Request], Response]:
    return lambda _: Response(text, media_type=media)


def _refused(_: Request, error: Exception) -> Response:
    return _wrong(400, str(error))


def _as_told(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _wrong(error.status_code, error.detail)


def _gone(_: Request, error: Exception) -> Response:
    return _wrong(400, "the request broke off")


def _fault(_: Request, error: Exception) -> Response:
    """A fault of ours: a line for the page and one for the terminal."""
    told = " ".join(f"{type(error).__name__}: {error}".splitlines())
    print(f"epochfence: internal error, please report it: {told}", file=sys.stderr)
    response = _wrong(500, "internal error: see the terminal")
    response.headers.update(HEADERS)
    return response


def application(explorer: Explorer) -> Starlette:
    """The ASGI application of an explorer."""
    routes = [
        Route("/", explorer.page),
        Route("/explorer.css", _file(_own("explorer.css"), "text/css")),
        Route("/report.css", _file(style(), "text/css")),
        Route("/explorer.js", _file(_own("explorer.js"), "text/javascript")),
        Route("/api/view", explorer.view),
        Route("/api/blocked", explorer.blocked),
        Route("/api/until", explorer.until),
        Route("/api/trace", explorer.trace, methods=["POST"]),
    ]
    handlers = {
        HTTPException: _as_told, ClientDisconnect: _gone, Exception: _fault,
        **dict.fromkeys(WRONG, _refused),
    }  # fmt: skip
    middleware = guard("only the explorer's own page may ask", linked=("/",), headers=HEADERS)
    return Starlette(routes=routes, middleware=middleware, exception_handlers=handlers)
