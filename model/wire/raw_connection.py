"""Connections to real brokers, for encoded requests of other clients."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any, Final

from .connection import (
    BrokerError,
    Security,
    authentication,
    request_bytes,
    response_of,
)

LARGEST: Final = 100 * 2**20
"""The largest size of a response in bytes."""
TIMEOUT_S: Final = 30
"""The time limit in s of a connection attempt."""


class Link:
    """A connection to a broker. Create it with `open`."""

    def __init__(
        self, place: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.place, self._reader, self._writer = place, reader, writer

    @classmethod
    async def open(cls, host: str, port: int, how: Security) -> Link:
        """Opens a connection to the broker at `host`:`port`. Raises BrokerError if it fails."""
        place = f"{host}:{port}"
        try:
            opening = asyncio.open_connection(host, port, ssl=how.context)
            link = cls(place, *await asyncio.wait_for(opening, TIMEOUT_S))
        except (OSError, ssl.SSLError, TimeoutError) as error:
            why = getattr(error, "strerror", None) or str(error) or "no answer in time"
            raise BrokerError(f"{place} doesn't answer: {why}") from None
        try:
            await link.authenticate(how)
        except BrokerError:
            link.close()
            raise
        return link

    async def authenticate(self, how: Security) -> None:
        """Authenticates with SASL, if there is a user. Raises BrokerError."""
        requests = authentication(how, self.place)
        try:
            one = next(requests)
            while True:
                one = requests.send(await self.told(*one))
        except StopIteration:
            return

    async def told(self, name: str, version: int, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The response to a request of this program. Raises BrokerError."""
        return response_of(name, version, await self.ask(request_bytes(name, version, fields)))

    async def send(self, data: bytes) -> None:
        """Sends a request's bytes with header. Raises BrokerError."""
        try:
            self._writer.write(len(data).to_bytes(4) + data)
            await self._writer.drain()
        except OSError as error:
            raise self._gone(error.strerror) from None

    async def ask(self, data: bytes) -> bytes:
        """The response to a request, both as bytes with header. Raises BrokerError."""
        await self.send(data)
        try:
            size = int.from_bytes(await self._reader.readexactly(4))
            if size > LARGEST:
                raise self._gone(f"it begins a response of {size:,} bytes")
            return await self._reader.readexactly(size)
        except asyncio.IncompleteReadError:
            raise self._gone("the connection was closed") from None
        except OSError as error:
            raise self._gone(error.strerror) from None

    def _gone(self, why: str | None) -> BrokerError:
        self.close()
        return BrokerError(f"{self.place} is gone: {why or 'the connection failed'}")

    def close(self) -> None:
        """Closes the connection."""
        self._writer.close()
