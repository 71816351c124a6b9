"""A connection to one broker: requests of any version as plain dictionaries (see `shapes`).

TLS and SASL are those of a client's properties; its secrets are never shown.
"""

from __future__ import annotations

import dataclasses
import io
import re
import socket
import ssl
import time
from collections.abc import Generator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError
from kio.static.primitive import i64

from ..conformance.session import UnansweredError
from ..records.codec.codec import RecordError, decode, shapes
from . import sasl_client as sasl
from .later_schemas import SCHEMAS as LATER
from .shapes import plain, shaped

KEYS: Final = {name.title().replace("_", ""): key for key, name in api_key_map.items()}
"""The numbers of APIs by name."""
NAMES: Final = {key: name for name, key in KEYS.items()}
KNOWN: Final[Mapping[str, tuple[int, int]]] = {
    name: (min(versions), max(versions))
    for name, versions in (
        (name, [*schema_name_map[api_key_map[key]], *(at for api, at in LATER if api == name)])
        for name, key in KEYS.items()
    )
}
"""The first and the last version of each API that has a schema."""
PORT: Final = 9092
TIMEOUT_S: Final = 30
LARGEST: Final = 100 * 1024 * 1024
"""The largest size of a response in bytes, equal to Kafka's limit of a request
(socket.request.max.bytes)."""
_TLS_ALERT: Final = 0x150303  # the answer of a TLS listener to plain text
_CLIENT_ID: Final = "epochfence"
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
CORRELATION_ID: Final = 0
"""The correlation id of all requests: a connection's answers come in order."""
ABOUT_US: Final = {"client_software_name": _CLIENT_ID, "client_software_version": "0"}
"""The client's name in an ApiVersions request."""


class BrokerError(Exception):
    """The connection to a broker fails or breaks. The message is one line with the reason."""


class UnreachableError(BrokerError):
    """There is no connection to a broker: nothing was sent."""


class NoAnswerError(BrokerError, UnansweredError):
    """A broker gives no readable answer to a request."""

    how = "gives no answer to"

    def __init__(self, place: str, request: str, what: str) -> None:
        UnansweredError.__init__(self, f"{place} {self.how} {request}: {what}", request, what)


class GoneError(NoAnswerError):
    """A broker has closed the connection instead of an answer."""

    how = "is gone, at"


class SilentError(NoAnswerError):
    """A broker has given no answer in time."""


@dataclasses.dataclass(frozen=True)
class Security:
    """The security of a connection to a broker: TLS if there is a `context`, SASL if there is a
    user. Its repr has no secrets."""

    context: ssl.SSLContext | None = dataclasses.field(default=None, repr=False)
    username: str | None = dataclasses.field(default=None, repr=False)
    password: str = dataclasses.field(default="", repr=False)
    mechanism: str = "PLAIN"

    def exchange(self) -> sasl.Exchange | None:
        """The client's SASL messages; None without a user."""
        if self.username is None:
            return None
        return sasl.exchange(self.mechanism, self.username, self.password)


def security(properties: Mapping[str, str]) -> Security:
    """The security of a connection, from a client's properties. They are those of Kafka's Java
    client, with PEM files, or those of librdkafka. Raises BrokerError for an unsupported value."""
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise BrokerError(f"security.protocol {protocol}: choose one of {', '.join(_PROTOCOLS)}")
    context = _context(properties) if protocol.endswith("SSL") else None
    if not protocol.startswith("SASL"):
        return Security(context)
    mechanism = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "GSSAPI"))
    if mechanism not in sasl.MECHANISMS:
        known = ", ".join(sasl.MECHANISMS)
        raise BrokerError(f"sasl.mechanism {mechanism}: Epochfence supports {known}")
    user = _bearer if mechanism == sasl.OAUTHBEARER else _user
    return Security(context, *user(properties), mechanism)


def _bearer(properties: Mapping[str, str]) -> tuple[str, str]:
    """The user of an unsecured token, or a token from a file."""
    url = urlsplit(properties.get("sasl.oauthbearer.token.endpoint.url", ""))
    if url.scheme == "file":
        try:
            return "", Path(unquote(url.path)).read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it has more than ASCII"
            raise BrokerError(f"the file of sasl.oauthbearer.token.endpoint.url: {why}") from None
    jaas = properties.get("sasl.jaas.config", "")
    subject = re.search(r'unsecuredLoginStringClaim_sub\s*=\s*"([^"]+)"', jaas) or re.search(
        r"principal=(\S+)", properties.get("sasl.oauthbearer.config", "")
    )
    if url.scheme or subject is None:
        raise BrokerError(
            "sasl.mechanism OAUTHBEARER: Epochfence supports unsecuredLoginStringClaim_sub of "
            "sasl.jaas.config, and a file: URL as sasl.oauthbearer.token.endpoint.url"
        )
    return subject[1], ""


def _user(properties: Mapping[str, str]) -> tuple[str, str]:
    jaas = properties.get("sasl.jaas.config", "")
    answer = dict(re.findall(r'(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"', jaas))
    name = properties.get("sasl.username", answer.get("username"))
    password = properties.get("sasl.password", answer.get("password"))
    if name is None or password is None:
        raise BrokerError("sasl.jaas.config names no username and password (or sasl.username)")
    return name, password


def _context(properties: Mapping[str, str]) -> ssl.SSLContext:
    for name in ("ssl.truststore.type", "ssl.keystore.type"):
        if properties.get(name, "PEM").upper() != "PEM":
            raise BrokerError(f"{name} {properties[name]}: Epochfence supports only PEM")
    authority = properties.get("ssl.ca.location", properties.get("ssl.truststore.location"))
    own = properties.get("ssl.certificate.location", properties.get("ssl.keystore.location"))
    try:
        context = ssl.create_default_context(cafile=authority)
        if own is not None:
            password = properties.get("ssl.key.password", "")
            context.load_cert_chain(own, properties.get("ssl.key.location"), lambda: password)
    except (OSError, ValueError) as error:
        raise BrokerError(f"the certificates of the properties can't be read: {error}") from None
    if properties.get("ssl.endpoint.identification.algorithm", "https").lower() in ("", "none"):
        context.check_hostname = False
    return context


class Connection:
    """A connection to the broker at `host`:`port`. Raises BrokerError if it fails: UnreachableError
    if the broker can't be reached, NoAnswerError if a request of the authentication gets no
    answer."""

    def __init__(
        self, host: str, port: int, how: Security, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        self.place, self._timeout_s = f"{host}:{port}", timeout_s
        self.used_at = time.monotonic()
        self.is_closed = False
        self._reader: io.BufferedReader | None = None
        try:
            self._socket = socket.create_connection((host, port), timeout=timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except (OSError, OverflowError, UnicodeError) as error:  # also for an invalid address
            why = getattr(error, "strerror", None) or error
            raise UnreachableError(f"{self.place} doesn't answer: {why}") from None
        try:
            if how.context is not None:
                self._socket = how.context.wrap_socket(self._socket, server_hostname=host)
            self._reader = self._socket.makefile("rb")
            self._authenticate(how)
        except (ssl.SSLError, ssl.CertificateError) as error:
            self.close()
            why = getattr(error, "verify_message", "") or error.reason or error
            raise BrokerError(f"{self.place}: no TLS connection: {why}") from None
        except OSError as error:
            self.close()
            raise BrokerError(f"{self.place}: {error.strerror or error}") from None
        except BrokerError:
            self.close()
            raise

    def _authenticate(self, how: Security) -> None:
        body = authentication(how, self.place)
        with suppress(StopIteration):
            one = next(body)
            while True:
                one = body.send(self.ask(*one))

    def ask(self, name: str, version: int, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The response to a request. Raises BrokerError without one."""
        self.send(name, version, fields)
        return self.receive(name, version)

    def api_versions(self) -> dict[str, Any]:
        """The broker's answer to ApiVersions. Raises BrokerError."""
        answer = self.ask("ApiVersions", 3, ABOUT_US)
        if answer["error_code"] == "UNSUPPORTED_VERSION":
            answer = self.ask("ApiVersions", 0, {})
        if answer["error_code"] != "NONE":
            raise BrokerError(f"{self.place} doesn't give its versions: {answer['error_code']}")
        return answer

    def send(self, name: str, version: int, fields: Mapping[str, Any], times: int = 1) -> None:
        """Sends a request `times` times. `receive` returns the responses, in the order of
        requests."""
        data = request_bytes(name, version, fields)
        self.used_at = time.monotonic()
        try:
            self._socket.sendall((len(data).to_bytes(4) + data) * times)
        except OSError as error:
            raise self._gone(name, error) from None

    def receive(self, name: str, version: int, times: int = 1) -> dict[str, Any]:
        """The response to the first unanswered request, or to the last of `times` requests."""
        data = b""
        try:
            for _ in range(times):
                size = int.from_bytes(self._bytes(4))
                if size > LARGEST:
                    self.close()
                    if size >> 8 == _TLS_ALERT:
                        raise BrokerError(f"{self.place} speaks TLS: set security.protocol")
                    raise NoAnswerError(self.place, name, f"it begins a response of {size:,} bytes")
                data = self._bytes(size)
        except OSError as error:
            raise self._gone(name, error) from None
        if len(data) >= 4 and int.from_bytes(data[:4]) != CORRELATION_ID:
            self.close()
            raise NoAnswerError(
                self.place, name, "a response with another request's correlation id"
            )
        try:
            return response_of(name, version, data)
        except BrokerError as error:
            self.close()
            raise NoAnswerError(self.place, name, str(error)) from None

    def _bytes(self, size: int) -> bytes:
        assert self._reader is not None
        data = self._reader.read(size)
        if len(data) < size:
            raise ConnectionResetError(0, "the connection was closed")
        return data

    def _gone(self, name: str, error: OSError) -> NoAnswerError:
        self.close()
        if isinstance(error, TimeoutError):
            return SilentError(self.place, name, f"nothing came within {self._timeout_s:g} s")
        if isinstance(error, ConnectionError):  # a reset or a closed connection
            return GoneError(self.place, name, "the connection was closed")
        return GoneError(self.place, name, f"the connection failed: {error.strerror or error}")

    def close(self) -> None:
        """Closes the connection."""
        self.is_closed = True
        if self._reader is not None:
            self._reader.close()
        self._socket.close()


VersionedRequest = tuple[str, int, Mapping[str, Any]]


def authentication(how: Security, place: str) -> Generator[VersionedRequest, dict[str, Any], None]:
    """A generator of the requests that authenticate a user, each with its version. Send each
    response in. Raises BrokerError if the broker refuses the user or the mechanism, or fails to
    prove its own identity."""
    exchange = how.exchange()
    if exchange is None:
        return
    answer = yield "SaslHandshake", 1, {"mechanism": how.mechanism}
    if answer["error_code"] != "NONE":
        known = ", ".join(answer["mechanisms"])
        takes = f"it supports: {known}" if known else "its listener doesn't use SASL"
        raise BrokerError(f"{place} doesn't support SASL/{how.mechanism} ({takes})")
    try:
        message = next(exchange)
        while True:
            answer = yield "SaslAuthenticate", 0, {"auth_bytes": message}
            if answer["error_code"] != "NONE":
                raise BrokerError(f"{place} refuses the user of the properties")
            message = exchange.send(answer["auth_bytes"])
    except StopIteration:
        return
    except sasl.AuthenticationError as error:
        raise BrokerError(f"{place}: SASL/{how.mechanism}: {error}") from None


def request_bytes(name: str, version: int, fields: Mapping[str, Any]) -> bytes:
    """The bytes of a request of this client, with header."""
    request, _ = schemas(name, version)
    header: Any = request.__header_schema__
    values = {
        "request_api_key": KEYS[name],
        "request_api_version": version,
        "correlation_id": CORRELATION_ID,
        "client_id": _CLIENT_ID,
    }
    buffer = io.BytesIO()
    entity_writer(header)(buffer, shaped(header, values))
    entity_writer(request)(buffer, shaped(request, fields))
    return buffer.getvalue()


def response_of(name: str, version: int, data: bytes) -> dict[str, Any]:
    """The fields of a response, from its bytes with header. Raises BrokerError if it can't be
    read."""
    if name == "ApiVersions" and version and int.from_bytes(data[4:6]) == 35:
        return {"error_code": "UNSUPPORTED_VERSION"}  # the answer has version 0
    _, response = schemas(name, version)
    try:
        _, at = entity_reader(response.__header_schema__)(data, 0)
        # not with kio, which allocates memory for any claimed length of an array
        return plain(decode(response, data, at).entity)
    except (RecordError, SerialError, LookupError, ValueError, OverflowError, OSError) as error:
        raise BrokerError(f"its response to {name} can't be read: {error}") from None


@cache
def schemas(name: str, version: int) -> tuple[Any, Any]:
    """The classes of a request and its response."""
    if (name, version) in LATER:
        return LATER[name, version]
    response: Any = load_response_schema(KEYS[name], version)
    if name == "DescribeTransactions":
        response = _with_plain_start(response)
    return load_request_schema(KEYS[name], version), response


_OF_SCHEMAS = ("__type__", "__version__", "__flexible__", "__api_key__", "__header_schema__")


def _with_plain_start(response: Any) -> Any:
    """The schema with a transaction's start as a number. Brokers send -1 for none, which kio's type
    can't have."""
    kind = dict(shapes(response))["transaction_states"].entity
    state = _changed(kind, "transaction_start_time", i64, kafka_type="int64")
    return _changed(response, "transaction_states", tuple[state, ...])


def _changed(schema: Any, name: str, kind: Any, **metadata: str) -> Any:
    """The schema with a field of another type."""
    fields = [
        (name, kind, dataclasses.field(metadata=metadata))
        if field.name == name
        else (field.name, field.type, dataclasses.field(metadata=field.metadata))
        for field in dataclasses.fields(schema)
    ]
    answer = {each: getattr(schema, each) for each in _OF_SCHEMAS}
    return dataclasses.make_dataclass(schema.__name__, fields, namespace=answer, kw_only=True)
