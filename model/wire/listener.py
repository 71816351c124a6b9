"""Brokers that speak Kafka's protocol over TCP; a function computes the answers.

The function gets each request of any version as a plain dictionary, and returns one (see
`model.wire.shapes`), at once or later. It is called from one thread, so handlers need no locks. A
connection's next request is taken after the answer to the one before. This module answers
ApiVersions. Bytes that aren't a request close their connection, as in Kafka.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import io
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import TracebackType
from typing import Any, Final, TypeVar

from kio.schema.request_header.v1.header import RequestHeader as OldHeader
from kio.schema.response_header.v0.header import ResponseHeader as OldResponseHeader
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError

from ...sockets import most_connections, without_descriptor
from ..records.codec.codec import decode
from ..records.codec.errors import RecordError
from .connection import KEYS, NAMES, schemas
from .shapes import plain, shaped

T = TypeVar("T")
LARGEST: Final = 100 * 2**20
"""The largest size of a request in bytes (socket.request.max.bytes)."""
LOOK_S: Final = 5.0
"""The interval in s of the check for idle connections."""
SMALL: Final = 2**16
"""The size in bytes up to which a request or an answer doesn't count against the memory limit."""
_MOST_CLIENTS: Final = 1000


@dataclass(frozen=True)
class Limits:
    """Limits of a broker's listener, with Kafka's defaults.

    At most `connections` are open at once, fewer if the process may open few files. A connection is
    closed if it is silent for `idle_s`, even in the middle of a request, or if its client doesn't
    read an answer for that time. A request has at most `request_bytes`. Incomplete requests and
    unread answers above SMALL bytes have at most `queued_bytes` together. Beyond that, the
    connection is closed whose data is queued for longest.
    """

    connections: int = 10_000
    idle_s: float = 600.0
    request_bytes: int = LARGEST
    queued_bytes: int = 256 * 2**20


@dataclass
class Refusal:
    """The first reason why a client's connections were closed, and their number."""

    reason: str
    times: int = 0


@dataclass(frozen=True)
class Request:
    """A request: its name, version and fields, and its origin.

    `connection` is the number of the connection, from 0 on. `node` is the asked broker. `data` are
    the request's bytes with header. `principal` is the sender; None: the cluster itself. `let_pass`
    processes the connection's next request first, if one comes within the given seconds, and
    returns whether one came. Answers keep the order of the requests.
    """

    name: str
    version: int
    fields: dict[str, Any]
    client_id: str | None
    connection: int
    node: int
    data: bytes = field(default=b"", repr=False)
    principal: str | None = None
    let_pass: Callable[[float], Awaitable[bool]] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Answer:
    """A response's fields, sent `after` this number of seconds; later requests of the connection
    wait. If it has `data` (its bytes with header), these are sent unchanged."""

    fields: Mapping[str, Any]
    after: float = 0
    data: bytes | None = field(default=None, repr=False)


class Silence:
    """No answer: the connection stays open (acks=0), or is closed (the answer is lost)."""

    def __init__(self, close: bool) -> None:
        self.close = close


UNANSWERED: Final = Silence(close=False)
LOST: Final = Silence(close=True)
Handler = Callable[[Request], "Answer | Silence | Awaitable[Answer | Silence]"]


class NoRequestError(Exception):
    """Bytes aren't a request that the brokers accept. The message is one line with the reason."""


class CantListenError(Exception):
    """The program can't listen on a port. The message is one line with the reason."""


@dataclass(eq=False)
class _Connection:
    """A connection. `last` is the time of its last activity (the loop's time); `is_busy`: a request
    is being answered. `client` is its host, and the client id once it is known. `answer` is the
    answer that is being written."""

    writer: asyncio.StreamWriter
    last: float
    is_busy: bool = False
    client: str = ""
    answer: bytes = b""

    async def write(self) -> None:
        """Writes the answer in pieces: unread bytes are buffered twice."""
        size = len(self.answer)
        self.writer.write(size.to_bytes(4) + self.answer[:SMALL])
        await self.writer.drain()
        for at in range(SMALL, size, SMALL):
            self.writer.write(self.answer[at : at + SMALL])
            await self.writer.drain()
        self.answer = b""

    def abort(self) -> None:
        """Closes the connection at once, and drops the answer."""
        self.answer = b""
        self.writer.transport.abort()


@dataclass
class Brokers:
    """A context manager that runs `count` brokers. Their ids begin at `first`.

    Each broker listens on its own port, from `port` on if given. `versions` are the first and last
    accepted version of each API. `features` are the levels of finalized features
    (`transaction.version`), which ApiVersions returns from version 3 on, and `supported` the levels
    that a broker knows. `features_of` renews them and their epoch before each such answer. `left`
    is called for each ended connection. An exception in `handle` closes its connection, and is
    raised at the end. `log` gets a line for the first connection of each client that is closed
    because its bytes aren't an accepted request. Raises CantListenError.
    """

    handle: Handler
    versions: Mapping[str, tuple[int, int]]
    count: int = 1
    first: int = 0
    features: Mapping[str, int] = field(default_factory=dict[str, int])
    supported: Mapping[str, int] = field(default_factory=dict[str, int])
    features_epoch: int = 0
    features_of: Callable[[int], Awaitable[None]] | None = None
    host: str = "127.0.0.1"
    port: int = 0
    limits: Limits = field(default_factory=Limits)
    left: Callable[[int], None] = field(default=lambda _: None)
    log: Callable[[str], None] = field(default=lambda _: None)
    addresses: dict[int, tuple[str, int]] = field(default_factory=dict[int, tuple[str, int]])
    failures: list[Exception] = field(default_factory=list[Exception])
    refused: dict[str, Refusal] = field(default_factory=dict[str, Refusal])
    """The reasons for closed connections, by client, for the first thousand clients."""
    _connections: int = 0

    @property
    def bootstrap(self) -> str:
        """The value for a client's bootstrap.servers."""
        return ",".join(f"{host}:{port}" for host, port in self.addresses.values())

    def __enter__(self) -> Brokers:
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(_tell_failure)
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        try:
            self.do(self._start())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()
        if self.failures and error is None:
            raise self.failures[0]

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the thread that answers requests, and waits for it. Call it from
        another thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _start(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: dict[int, asyncio.Server] = {}
        self._open: set[_Connection] = set()
        self._most = most_connections(self.limits.connections)
        self._large: dict[_Connection, int] = {}
        self._sweep = asyncio.get_running_loop().create_task(self._end_idle())
        for node in range(self.first, self.first + self.count):
            await self.listen(node)

    async def listen(self, node: int) -> None:
        """Starts another broker `node`, at the port after the others'. Raises CantListenError."""

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            if len(self._open) >= self._most:
                self._close_longest_idle()
            name = writer.get_extra_info("peername")
            host = name[0] if name else "a client"
            connection = _Connection(writer, asyncio.get_running_loop().time(), client=host)
            self._open.add(connection)
            try:
                with contextlib.suppress(asyncio.CancelledError):  # when the brokers end
                    await self._serve(reader, connection, node)
            finally:
                self._tasks.discard(task)
                self._open.discard(connection)
                writer.close()

        port = self.port + len(self._servers) if self.port else 0
        try:
            server = await asyncio.start_server(connected, self.host, port)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            raise CantListenError(f"can't listen on {self.host}:{port}: {why}") from None
        self._servers[node] = server
        self.addresses[node] = server.sockets[0].getsockname()[:2]

    def unlisten(self, node: int) -> None:
        """Makes a broker accept no more connections. `handle` closes the existing ones."""
        self._servers[node].close()

    def _end(self) -> None:
        self.do(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _stop(self) -> None:
        for server in self._servers.values():
            server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _end_idle(self) -> None:
        """Closes idle connections at intervals."""
        while True:
            await asyncio.sleep(LOOK_S)
            before = asyncio.get_running_loop().time() - self.limits.idle_s
            for one in self._open:
                if one.last < before and not one.is_busy:
                    one.abort()  # its answer may be unread

    def _close_longest_idle(self) -> None:
        """Makes room for a connection. Busy connections aren't closed."""
        idle = [one for one in self._open if not one.is_busy and not one.writer.is_closing()]
        if idle:
            min(idle, key=lambda one: one.last).writer.close()
        why = f"more than {self._most} connections: raise max.connections or ulimit -n"
        self._refuse("the one that was idle for longest", why, logs=False)

    def _refuse(self, client: str, reason: str, *, logs: bool = True) -> None:
        """Counts a closed connection of a client."""
        if client not in self.refused:
            if len(self.refused) >= _MOST_CLIENTS:
                return
            self.refused[client] = Refusal(reason)
            if logs:
                self.log(f"connection of {client} closed: {reason}")
        self.refused[client].times += 1

    @contextlib.contextmanager
    def _counted(self, connection: _Connection, size: int) -> Generator[None]:
        """Counts the bytes of a request or answer while it is transferred."""
        if size <= SMALL:
            yield
            return
        self._large[connection] = size
        while sum(self._large.values()) > self.limits.queued_bytes and len(self._large) > 1:
            oldest = next(iter(self._large))
            del self._large[oldest]
            why = f"requests and answers on their way have over {self.limits.queued_bytes:,} bytes"
            self._refuse(oldest.client, why)
            oldest.abort()
        try:
            yield
        finally:
            self._large.pop(connection, None)

    async def _serve(self, reader: asyncio.StreamReader, open_one: _Connection, node: int) -> None:
        loop = asyncio.get_running_loop()
        connection, self._connections = self._connections, self._connections + 1
        try:
            # a client may disconnect at any point
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    size = await reader.readexactly(4)
                    open_one.last = loop.time()
                    answers = await self._turn(size, reader, connection, node, open_one)
                    while answers:
                        if answers[0] is LOST:
                            return
                        open_one.is_busy, open_one.last = False, loop.time()
                        answered = answers.pop(0)
                        open_one.answer = answered if isinstance(answered, bytes) else b""
                        del answered  # so that nothing else refers to it
                        if open_one.answer:
                            with self._counted(open_one, len(open_one.answer)):
                                await open_one.write()
                    open_one.is_busy, open_one.last = False, loop.time()
                    await asyncio.sleep(0)  # lets other connections continue
        except NoRequestError as error:
            self._refuse(open_one.client, str(error))
        except Exception as error:
            self.failures.append(error)
        finally:
            self.left(connection)

    async def _turn(
        self, size: bytes, reader: asyncio.StreamReader, connection: int, node: int,
        open_one: _Connection,
    ) -> list[bytes | Silence]:  # fmt: skip
        """The answers to the request of this size and to those that it lets pass, in the order of
        the requests."""
        length = int.from_bytes(size)
        if length > self.limits.request_bytes:
            raise NoRequestError(f"a request of {length} bytes")
        with self._counted(open_one, length):
            data = await reader.readexactly(length)
        open_one.is_busy = True
        behind: list[bytes | Silence] = []

        async def let_pass(seconds: float) -> bool:
            try:
                size = await asyncio.wait_for(reader.readexactly(4), seconds)
                behind.extend(await self._turn(size, reader, connection, node, open_one))
            except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
                return False
            return True

        return [await self._answered(data, connection, node, open_one, let_pass), *behind]

    async def _answered(
        self, data: bytes, connection: int, node: int, open_one: _Connection,
        let_pass: Callable[[float], Awaitable[bool]],
    ) -> bytes | Silence:  # fmt: skip
        key, version = _start_of(data)
        name = NAMES.get(key, "")
        low, high = self.versions.get(name, (0, -1))
        if not low <= version <= high:
            if name == "ApiVersions":
                header, _ = _header(OldHeader, data)
                # only ApiVersions' own versions: the client repeats it with one of them (KIP-511)
                unsupported = {
                    "error_code": "UNSUPPORTED_VERSION",
                    "api_keys": [{"api_key": key, "min_version": low, "max_version": high}],
                }
                return self._response(key, 0, header.correlation_id, unsupported)
            raise NoRequestError(f"API {key} {name} in version {version}, which isn't offered")
        schema, _ = schemas(name, version)
        header, at = _header(schema.__header_schema__, data)
        if header.client_id and "(" not in open_one.client:
            open_one.client += f" ({header.client_id})"
        if name == "ApiVersions":
            if self.features_of is not None:
                await self.features_of(node)
            return self._response(key, version, header.correlation_id, self._versions())
        body = _body(schema, data, at, f"{name} {version}")
        answer = self.handle(
            Request(
                name, version, plain(body), header.client_id, connection, node, data,
                let_pass=let_pass,
            )
        )  # fmt: skip
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, Silence):
            return answer
        if answer.after:
            await asyncio.sleep(answer.after)
        if answer.data is not None:
            return answer.data
        return self._response(key, version, header.correlation_id, answer.fields)

    def _versions(self) -> dict[str, Any]:
        return {
            "error_code": "NONE",
            "api_keys": [
                {"api_key": KEYS[name], "min_version": low, "max_version": high}
                for name, (low, high) in self.versions.items()
            ],
            "supported_features": [
                {"name": name, "min_version": min(level, 1), "max_version": level}
                for name, level in {**self.features, **self.supported}.items()
            ],
            "finalized_features_epoch": self.features_epoch if self.features else -1,
            "finalized_features": [
                {"name": name, "min_version_level": level, "max_version_level": level}
                for name, level in self.features.items()
            ],
        }

    def _response(
        self, key: int, version: int, correlation_id: int, fields: Mapping[str, Any]
    ) -> bytes:
        _, schema = schemas(NAMES[key], version)
        header: Any = schema.__header_schema__
        if key == KEYS["ApiVersions"]:  # its header always has version 0
            header = OldResponseHeader
        buffer = io.BytesIO()
        entity_writer(header)(buffer, header(correlation_id=correlation_id))
        entity_writer(schema)(buffer, shaped(schema, fields))
        return buffer.getvalue()


def _tell_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Handles errors of background tasks. A connection that arrives at the end is cancelled."""
    is_cancelled = isinstance(context.get("exception"), asyncio.CancelledError)
    if not is_cancelled and not without_descriptor(context):
        loop.default_exception_handler(context)


def _start_of(data: bytes) -> tuple[int, int]:
    """The API's key and version in a request. Raises NoRequestError."""
    if len(data) < 4:
        raise NoRequestError(f"a request of {len(data)} bytes")
    return int.from_bytes(data[:2], signed=True), int.from_bytes(data[2:4], signed=True)


@cache
def _header_reader(schema: type[Any]) -> Any:
    return entity_reader(schema)


def _header(schema: Any, data: bytes) -> tuple[Any, int]:
    """A request's header and the offset of its body. It has no arrays, so kio can read it safely.
    Raises NoRequestError."""
    try:
        return _header_reader(schema)(data, 0)
    except (SerialError, ValueError, LookupError) as error:
        raise NoRequestError(f"its header can't be read: {error}") from None


def _body(schema: Any, data: bytes, at: int, what: str) -> Any:
    """A request's fields. Bytes after its end are ignored, as in Kafka: librdkafka sends one after
    a Metadata for all topics. Raises NoRequestError."""
    try:
        return decode(schema, data, at).entity
    except RecordError as error:
        raise NoRequestError(f"{what} can't be read: {error}") from None
