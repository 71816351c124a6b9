"""Brokers that speak Kafka's protocol over TCP and leave the answers to a function.

The function gets each request as a plain dictionary, whatever its version, and answers with one
(see `shapes`). It is called from one thread, a request at a time, so that what stands behind it
needs no locks. ApiVersions is answered here.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import TracebackType
from typing import Any, Final

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map
from kio.schema.request_header.v1.header import RequestHeader as OldHeader
from kio.schema.response_header.v0.header import ResponseHeader as OldResponseHeader
from kio.serial import entity_reader, entity_writer
from kio.serial.readers import read_int16

from epochfence.model.live.shapes import plain, shaped

# Names are Kafka's. Above these versions, topics go by ids and coordinators are asked in groups.
VERSIONS: Final[Mapping[str, tuple[int, int]]] = {
    "Produce": (3, 12),
    "Fetch": (4, 12),
    "ListOffsets": (1, 6),
    "Metadata": (0, 9),
    "FindCoordinator": (0, 3),
    "ApiVersions": (0, 3),
    "InitProducerId": (0, 5),
    "AddPartitionsToTxn": (0, 3),
    "AddOffsetsToTxn": (0, 3),
    "EndTxn": (0, 5),
    "TxnOffsetCommit": (0, 3),
}
KEYS: Final = {name.title().replace("_", ""): key for key, name in api_key_map.items()}
NAMES: Final = {key: name for name, key in KEYS.items()}
LARGEST: Final = 100 * 2**20  # bytes of a request


@dataclass(frozen=True)
class Request:
    """A request: its name, version and fields, and where it came in.

    `connection` numbers connections from 0 on, `node` is the broker that was asked.
    """

    name: str
    version: int
    fields: dict[str, Any]
    client_id: str | None
    connection: int
    node: int


@dataclass(frozen=True)
class Answer:
    """A response's fields, sent `after` some seconds; requests behind it on its connection wait."""

    fields: Mapping[str, Any]
    after: float = 0


class Silence:
    """No answer: the connection goes on (acks 0), or is closed, as if the answer were lost."""

    def __init__(self, close: bool) -> None:
        self.close = close


UNANSWERED: Final = Silence(close=False)
LOST: Final = Silence(close=True)
Handler = Callable[[Request], "Answer | Silence"]


@dataclass
class Brokers:
    """Brokers 0..`count`-1 on loopback ports of their own; a context manager starts and ends them.

    `features` are finalized features and their levels (`transaction.version`), told from
    ApiVersions 3 on. An exception in `handle` closes its connection, and is raised at the end.
    """

    handle: Handler
    count: int = 1
    versions: Mapping[str, tuple[int, int]] = field(default_factory=lambda: dict(VERSIONS))
    features: Mapping[str, int] = field(default_factory=dict[str, int])
    host: str = "127.0.0.1"
    addresses: dict[int, tuple[str, int]] = field(default_factory=dict[int, tuple[str, int]])
    failures: list[Exception] = field(default_factory=list[Exception])
    _connections: int = 0

    @property
    def bootstrap(self) -> str:
        """What a client's bootstrap.servers takes."""
        return ",".join(f"{host}:{port}" for host, port in self.addresses.values())

    def __enter__(self) -> Brokers:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        if self.failures and error is None:
            raise self.failures[0]

    async def _start(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        for node in range(self.count):

            async def connected(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, node: int = node
            ) -> None:
                task = asyncio.current_task()
                assert task is not None
                self._tasks.add(task)
                try:
                    await self._serve(reader, writer, node)
                finally:
                    self._tasks.discard(task)
                    writer.close()

            server = await asyncio.start_server(connected, self.host)
            self._servers.append(server)
            self.addresses[node] = server.sockets[0].getsockname()[:2]

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, node: int
    ) -> None:
        connection, self._connections = self._connections, self._connections + 1
        # a client may leave at any point
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                size = int.from_bytes(await reader.readexactly(4))
                if size > LARGEST:
                    return
                data = await reader.readexactly(size)
                try:
                    answered = await self._answered(data, connection, node)
                except Exception as error:
                    self.failures.append(error)
                    return
                if answered is LOST:
                    return
                if isinstance(answered, bytes):
                    writer.write(len(answered).to_bytes(4) + answered)
                    await writer.drain()

    async def _answered(self, data: bytes, connection: int, node: int) -> bytes | Silence:
        key, _ = read_int16(data, 0)
        version, _ = read_int16(data, 2)
        name = NAMES[key]
        low, high = self.versions.get(name, (0, -1))
        if not low <= version <= high:
            if name == "ApiVersions":  # clients then take a version of the answer's list
                header, _ = _header(OldHeader, data)
                return self._response(
                    key, 0, header.correlation_id, self._versions("UNSUPPORTED_VERSION")
                )
            raise ValueError(f"{name} version {version}, where {low}..{high} are offered")
        schema = load_request_schema(key, version)
        header, at = _header(schema.__header_schema__, data)
        if name == "ApiVersions":
            return self._response(key, version, header.correlation_id, self._versions("NONE"))
        body, _ = entity_reader(schema)(data, at)
        answer = self.handle(
            Request(name, version, plain(body), header.client_id, connection, node)
        )
        if isinstance(answer, Silence):
            return answer
        await asyncio.sleep(answer.after)
        return self._response(key, version, header.correlation_id, answer.fields)

    def _versions(self, error: str) -> dict[str, Any]:
        return {
            "error_code": error,
            "api_keys": [
                {"api_key": KEYS[name], "min_version": low, "max_version": high}
                for name, (low, high) in self.versions.items()
            ],
            "supported_features": [
                {"name": name, "min_version": 0, "max_version": level}
                for name, level in self.features.items()
            ],
            "finalized_features_epoch": 0 if self.features else -1,
            "finalized_features": [
                {"name": name, "min_version_level": level, "max_version_level": level}
                for name, level in self.features.items()
            ],
        }

    def _response(
        self, key: int, version: int, correlation_id: int, fields: Mapping[str, Any]
    ) -> bytes:
        schema = load_response_schema(key, version)
        header: Any = schema.__header_schema__
        if key == KEYS["ApiVersions"]:  # its header is that of version 0 always
            header = OldResponseHeader
        buffer = io.BytesIO()
        entity_writer(header)(buffer, header(correlation_id=correlation_id))
        entity_writer(schema)(buffer, shaped(schema, fields))
        return buffer.getvalue()


@cache
def _reader(schema: type[Any]) -> Any:
    return entity_reader(schema)


def _header(schema: Any, data: bytes) -> tuple[Any, int]:
    return _reader(schema)(data, 0)
