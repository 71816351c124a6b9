"""Faults over HTTP, on loopback: put in place, let go, or brought about at once.

| request | what it does |
|---|---|
| GET /faults | the faults, and how often each has fired |
| POST /faults | one more; without `on` it is brought about at once |
| POST /faults/NAME/release | what it holds goes on |
| GET /transactions | the transactional ids and their states |

Bodies and answers are JSON. Only requests to this host by name are taken, with the media type
application/json where there is a body, so that no page in a browser can send them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Coroutine
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final

from .faults import BadFault, fault_of, read_object
from .server import Server
from .wire import CantListen

HOST: Final = "127.0.0.1"
LARGEST: Final = 1 << 20
"""Bytes of the largest body."""
TIMEOUT_S: Final = 10
_NAMES: Final = frozenset((HOST, "localhost"))


class Refused(Exception):
    """A request that isn't taken: its status, and one line why."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


class Control:
    """The HTTP server of a running `server`, at `port` on loopback: a context manager. Raises
    CantListen."""

    def __init__(self, server: Server, port: int = 0) -> None:
        handler = type("Handler", (_Handler,), {"kafka": server})
        try:
            self._http = ThreadingHTTPServer((HOST, port), handler)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            raise CantListen(f"can't listen on {HOST}:{port}: {why}") from None
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)

    @property
    def address(self) -> str:
        """Where it is: a URL."""
        return f"http://{HOST}:{self._http.server_address[1]}"

    def __enter__(self) -> Control:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    kafka: Server
    timeout = TIMEOUT_S
    server_version = "epochfence"
    sys_version = ""

    def do_GET(self) -> None:
        self._reply(self._got)

    def do_POST(self) -> None:
        self._reply(self._posted)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""

    def _reply(self, work: Any) -> None:
        try:
            self._check_host()
            status, told = HTTPStatus.OK, self.kafka.brokers.do(work())
        except Refused as refused:
            status, told = refused.status, {"error": str(refused)}
        except BadFault as error:
            status, told = HTTPStatus.BAD_REQUEST, {"error": str(error)}
        data = json.dumps(told).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _check_host(self) -> None:
        """A page whose name was made to lead here by DNS sends that name."""
        if self.headers.get("Host", "").rpartition(":")[0] not in _NAMES:
            raise Refused(HTTPStatus.FORBIDDEN, f"ask for {HOST} or localhost, with the port")

    def _body(self) -> Any:
        if self.headers.get_content_type() != "application/json":
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send application/json")
        size = self.headers.get("Content-Length", "")
        if not (size.isascii() and size.isdigit()) or int(size[:10]) > LARGEST:
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"send a body of at most {LARGEST} bytes"
            )
        return read_object(self.rfile.read(int(size)))

    def _got(self) -> Coroutine[Any, Any, Any]:
        match self.path:
            case "/faults":
                return self._faults()
            case "/transactions":
                return self._transactions()
            case _:
                raise Refused(HTTPStatus.NOT_FOUND, "GET /faults or /transactions")

    def _posted(self) -> Coroutine[Any, Any, Any]:
        match self.path.split("/"):
            case ["", "faults"]:
                return self._add(self._body())
            case ["", "faults", name, "release"]:
                return self._release(name)
            case _:
                raise Refused(HTTPStatus.NOT_FOUND, "POST /faults or /faults/NAME/release")

    async def _faults(self) -> Any:
        return [fault.told() for fault in self.kafka.faults.all.values()]

    async def _transactions(self) -> Any:
        coordinator = self.kafka.cluster.coordinator
        known = filter(None, (coordinator.metadata(name) for name in coordinator.entries))
        return [
            {
                "transactional_id": entry.transactional_id, "state": entry.state,
                "producer_id": entry.producer_id, "producer_epoch": entry.producer_epoch,
                "partitions": sorted(entry.partitions),
            }
            for entry in known
        ]  # fmt: skip

    async def _add(self, given: Any) -> Any:
        if not isinstance(given, dict) or "on" in given:
            return self.kafka.faults.add(given).told()
        fault = fault_of(given, name="at-once")
        self.kafka.act(fault)
        return fault.told()

    async def _release(self, name: str) -> Any:
        fault = self.kafka.faults.all.get(name)
        if fault is None:
            raise Refused(HTTPStatus.NOT_FOUND, f"no fault is called {name[:100]}")
        fault.release()
        return fault.told()
