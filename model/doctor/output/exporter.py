"""Serves a diagnosis to Prometheus, on a port of loopback."""

from __future__ import annotations

from threading import Thread
from types import TracebackType
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ....loopback import guard, http_server
from ....sockets import HOST, listening
from ...wire.listener import CantListenError

PATH: Final = "/metrics"
_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Exporter:
    """A context manager that runs an HTTP server at `port` of loopback (0: a free port). It answers
    GET /metrics with `text`, or 503 while `text` is empty. Raises CantListenError."""

    def __init__(self, port: int = 0) -> None:
        self.text = ""
        try:
            self._socket = listening(port)
        except OSError as error:
            raise CantListenError(f"can't listen on {HOST}:{port}: {error.strerror}") from None
        application = Starlette(
            routes=[Route(PATH, self._metrics)],
            middleware=guard("a page in a browser can't use this port"),
        )
        self._http = http_server(application)
        sockets = [self._socket]
        self._thread = Thread(target=self._http.run, kwargs={"sockets": sockets}, daemon=True)

    @property
    def url(self) -> str:
        """The URL to scrape."""
        return f"http://{HOST}:{self._socket.getsockname()[1]}{PATH}"

    def __enter__(self) -> Exporter:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.should_exit = True
        self._thread.join()

    async def _metrics(self, _: Request) -> Response:
        if not self.text:
            return PlainTextResponse("the first look isn't over\n", 503)
        return Response(self.text, media_type=_TYPE)
