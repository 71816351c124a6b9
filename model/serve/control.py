"""The HTTP interface to faults, on loopback.

| request | effect | |---|---| | GET /faults | returns the faults, and how often each has fired | |
POST /faults | adds a fault; a fault without `on` happens at once | | POST /faults/NAME/release |
releases the requests that the fault holds | | POST /replay | adds the faults of a counterexample
(ITF) | | GET /acls, PUT /acls | returns or replaces the table of ACLs; not for a proxy | | GET
/transactions | returns the transactional ids and their states; not for a proxy | | GET
/openapi.json | returns the OpenAPI 3.1 description of these requests |

Bodies and answers are JSON. A request needs this host's name, a body the media type
application/json, and no page of another site may send one. Needs the extra `explore`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ...loopback import guard, http_server
from ...sockets import HOST, listening
from ..cluster import Cluster
from ..engine.errors import ModelError
from ..requests import acls_line, acls_of
from ..wire.listener import CantListenError
from .base import Served
from .faults.faults import BadFaultError, fault_of, read_object
from .server import Server

LARGEST: Final = 1 << 20
"""The largest size of a body in bytes."""


class Schedule(Protocol):
    """The faults of a run, and its clients' calls as a line of text."""

    @property
    def faults(self) -> Iterable[Mapping[str, Any]]: ...
    def text(self) -> str: ...


def description() -> dict[str, Any]:
    """The port's requests, as an OpenAPI document without references to other files."""
    here = Path(__file__).parent
    document = json.loads((here / "openapi.json").read_text(encoding="utf-8"))
    fault = (here / "faults" / "fault.schema.json").read_text(encoding="utf-8")
    schemas = document["components"]["schemas"]
    schemas["Fault"] = json.loads(fault.replace("#/definitions/", "#/components/schemas/"))
    del schemas["Fault"]["$schema"]
    schemas |= schemas["Fault"].pop("definitions")
    return document


class Control:
    """A context manager that runs the HTTP server for a `server` or proxy, at `port` on loopback.
    `schedule` reads a counterexample (ITF), or raises ValueError. Raises CantListenError."""

    def __init__(
        self,
        server: Served,
        port: int = 0,
        schedule: Callable[[bytes], tuple[str, Schedule]] | None = None,
    ) -> None:
        self._kafka = server
        self._schedule = schedule
        try:
            self._socket = listening(port)
        except OSError as error:
            raise CantListenError(f"can't listen on {HOST}:{port}: {error.strerror}") from None
        application = Starlette(
            routes=[
                Route("/faults", self.faults),
                Route("/faults", self.add, methods=["POST"]),
                Route("/faults/{name}/release", self.release, methods=["POST"]),
                Route("/replay", self.replay, methods=["POST"]),
                Route("/acls", self.acls),
                Route("/acls", self.put_acls, methods=["PUT"]),
                Route("/transactions", self.transactions),
                Route("/openapi.json", self.openapi),
            ],
            middleware=guard("a page in a browser can't use this port"),
            exception_handlers={HTTPException: _wrong, BadFaultError: _bad, ModelError: _bad},
        )
        self._http = http_server(application)

    @property
    def address(self) -> str:
        """The server's URL."""
        return f"http://{HOST}:{self._socket.getsockname()[1]}"

    def __enter__(self) -> Control:
        self._kafka.brokers.do(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._kafka.brokers.do(self._stop())

    async def _start(self) -> None:
        serving = self._http.serve(sockets=[self._socket])
        self._serving = asyncio.get_running_loop().create_task(serving)

    async def _stop(self) -> None:
        self._http.should_exit = True
        await self._serving

    # Requests -----------------------------------------------------------------------------------

    async def faults(self, _: Request) -> Response:
        """GET /faults."""
        return JSONResponse([fault.told() for fault in self._kafka.faults.all.values()])

    async def openapi(self, _: Request) -> Response:
        """GET /openapi.json."""
        return JSONResponse(description())

    async def transactions(self, _: Request) -> Response:
        """GET /transactions."""
        coordinator = self._cluster("transactions").coordinator
        known = filter(None, (coordinator.metadata(name) for name in coordinator.entries))
        return JSONResponse(
            [
                {
                    "transactional_id": entry.transactional_id,
                    "state": entry.state,
                    "producer_id": entry.producer_id,
                    "producer_epoch": entry.producer_epoch,
                    "partitions": sorted(entry.partitions),
                }
                for entry in known
            ]
        )

    def _cluster(self, what: str) -> Cluster:
        if not isinstance(self._kafka, Server):
            raise HTTPException(404, f"a proxy doesn't know the brokers' {what}: ask them")
        return self._kafka.cluster

    async def acls(self, _: Request) -> Response:
        """GET /acls."""
        acls = self._cluster("ACLs").acls
        return JSONResponse(None if acls is None else acls_line(acls))

    async def put_acls(self, request: Request) -> Response:
        """PUT /acls; null removes the authorizer."""
        cluster, given = self._cluster("ACLs"), await _json(request)
        cluster.acls = None if given is None else acls_of(given)
        return await self.acls(request)

    async def add(self, request: Request) -> Response:
        """POST /faults."""
        given = await _json(request)
        if not isinstance(given, dict) or "on" in given:
            return JSONResponse(self._kafka.faults.add(given).told())
        fault = fault_of(given, name="at-once")
        await self._kafka.act(fault)
        return JSONResponse(fault.told())

    async def release(self, request: Request) -> Response:
        """POST /faults/NAME/release."""
        fault = self._kafka.faults.all.get(request.path_params["name"])
        if fault is None:
            raise HTTPException(404, "no fault has this name")
        fault.release()
        return JSONResponse(fault.told())

    async def replay(self, request: Request) -> Response:
        """POST /replay."""
        trace = await _body(request)
        if self._schedule is None:
            raise HTTPException(404, "this port doesn't replay traces")
        try:
            _, schedule = await asyncio.to_thread(self._schedule, trace)
        except ValueError as error:
            raise HTTPException(400, str(error)) from None
        added = [self._kafka.faults.add(dict(given)) for given in schedule.faults]
        return JSONResponse(
            {"clients": schedule.text(), "faults": [fault.told() for fault in added]}
        )


async def _json(request: Request) -> Any:
    """The data in a JSON body. Raises HTTPException and BadFaultError."""
    return read_object(await _body(request))


async def _body(request: Request) -> bytes:
    """The bytes of a JSON body. Raises HTTPException."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise HTTPException(415, "send application/json")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LARGEST:
            raise HTTPException(413, f"a body has at most {LARGEST} bytes")
    return bytes(body)


async def _wrong(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code)


async def _bad(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 400)
