"""A debugger for a JVM that holds threads at the start of a method.

It uses the Java Debug Wire Protocol. It doesn't change the program, and stops no other thread.
"""

from __future__ import annotations

import re
import select
import socket
import struct
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from ....wire.connection import BrokerError

_HANDSHAKE: Final = b"JDWP-Handshake"
_CLASSES_BY_SIGNATURE, _DISPOSE, _ID_SIZES = (1, 2), (1, 6), (1, 7)
_METHODS, _RESUME = (2, 5), (11, 3)
_SET, _CLEAR, _EVENT = (15, 1), (15, 2), (64, 100)
_BREAKPOINT, _THREAD_ALONE = 2, 1
_COUNT, _LOCATION_ONLY = 1, 7
_IS_REPLY: Final = 0x80
_LARGEST: Final = 64 * 1024 * 1024
PATIENCE_S: Final = 10


@dataclass(frozen=True)
class Place:
    """Methods of a class whose names with signatures begin with a pattern. The `count`-th thread
    that gets there is held."""

    class_name: str
    pattern: str
    count: int = 1


class Debugger:
    """A debugger of the JVM that listens at `place` (HOST:PORT, -agentlib:jdwp=…,server=y).

    Raises BrokerError if there is no such JVM, or if it has gone away.
    """

    def __init__(self, place: str) -> None:
        self.place = place
        host, _, port = place.rpartition(":")
        try:
            self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.sendall(_HANDSHAKE)
            if self._bytes(len(_HANDSHAKE)) != _HANDSHAKE:
                raise BrokerError(f"{place} isn't a JVM that accepts a debugger")
        except (OSError, ValueError) as error:
            raise BrokerError(f"{place} doesn't accept a debugger: {error}") from None
        self._number = 0
        self._stopped: dict[int, int] = {}  # breakpoint number: thread
        sizes = struct.unpack(">5i", self._ask(_ID_SIZES, b""))
        self._of_method, self._of_object, self._of_class = sizes[1:4]

    # Breakpoints ------------------------------------------------------------------------------

    def hold(self, places: Sequence[Place]) -> list[int]:
        """Sets breakpoints in these places, each for one thread. Returns their numbers. A class
        that isn't loaded gets no breakpoint."""
        found: list[int] = []
        for place in places:
            for one in self._classes(place.class_name):
                for method in self._methods(one, place.pattern):
                    where = b"\x01" + one + method + bytes(8)
                    body = struct.pack(">bbib", _BREAKPOINT, _THREAD_ALONE, 2, _LOCATION_ONLY)
                    body += where + struct.pack(">bi", _COUNT, place.count)
                    found.append(int.from_bytes(self._ask(_SET, body)))
        return found

    def held(self, breakpoints: Sequence[int], timeout_s: float) -> bool:
        """Whether a thread reaches one of the breakpoints within `timeout_s`. Then the other
        breakpoints are removed."""
        until = time.monotonic() + timeout_s
        while self._stopped.keys().isdisjoint(breakpoints):
            left = max(until - time.monotonic(), 0)
            if not select.select([self._socket], [], [], left)[0]:
                return False
            self._packet()
        self._clear(one for one in breakpoints if one not in self._stopped)
        return True

    def let_go(self, breakpoints: Sequence[int]) -> None:
        """Removes the breakpoints, and resumes their threads."""
        self._clear(breakpoints)
        for number in breakpoints:
            if number in self._stopped:
                thread = self._stopped.pop(number)
                self._ask(_RESUME, thread.to_bytes(self._of_object), may_fail=True)

    def _clear(self, breakpoints: Iterable[int]) -> None:
        for number in breakpoints:
            self._ask(_CLEAR, struct.pack(">bi", _BREAKPOINT, number), may_fail=True)

    def close(self) -> None:
        """Resumes every held thread."""
        with suppress(BrokerError):  # the JVM may have gone
            self._send(_DISPOSE, b"")
        self._socket.close()

    def _classes(self, name: str) -> list[bytes]:
        signature = f"L{name.replace('.', '/')};".encode()
        answer = self._ask(_CLASSES_BY_SIGNATURE, struct.pack(">i", len(signature)) + signature)
        size = 1 + self._of_class + 4
        return [answer[at + 1 : at + 1 + self._of_class] for at in range(4, len(answer), size)]

    def _methods(self, of: bytes, pattern: str) -> list[bytes]:
        answer, found, at = self._ask(_METHODS, of), list[bytes](), 4
        for _ in range(int.from_bytes(answer[:4])):
            method = answer[at : at + self._of_method]
            at += self._of_method
            words: list[str] = []
            for _ in range(2):  # the method's name and signature
                size = int.from_bytes(answer[at : at + 4])
                words.append(answer[at + 4 : at + 4 + size].decode(errors="replace"))
                at += 4 + size
            at += 4
            if re.match(pattern, "".join(words)):
                found.append(method)
        return found

    # The protocol -----------------------------------------------------------------------------

    def _ask(self, command: tuple[int, int], data: bytes, *, may_fail: bool = False) -> bytes:
        number = self._send(command, data)
        while True:
            reply = self._packet()
            if reply is not None and reply[0] == number:
                _, error, answer = reply
                if error and not may_fail:
                    raise BrokerError(f"{self.place} refuses the debugger's {command}: {error}")
                return answer

    def _send(self, command: tuple[int, int], data: bytes) -> int:
        self._number += 1
        try:
            self._socket.sendall(struct.pack(">iibbb", 11 + len(data), self._number, 0, *command))
            self._socket.sendall(data)
        except OSError as error:
            raise self._gone(error) from None
        return self._number

    def _packet(self) -> tuple[int, int, bytes] | None:
        """Reads a packet. A reply: its number, error and data. None: an event, which is kept."""
        try:
            size, number, flags = struct.unpack(">iiB", self._bytes(9))
            kind = self._bytes(2)
            if not 11 <= size <= _LARGEST:
                raise ConnectionResetError(0, "a packet of no size")
            data = self._bytes(size - 11)
        except OSError as error:
            raise self._gone(error) from None
        if flags & _IS_REPLY:
            return number, int.from_bytes(kind), data
        if tuple(kind) == _EVENT:
            self._happened(data)
        return None

    def _happened(self, data: bytes) -> None:
        if data[5] == _BREAKPOINT:
            number = int.from_bytes(data[6:10])
            self._stopped[number] = int.from_bytes(data[10 : 10 + self._of_object])

    def _bytes(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            some = self._socket.recv(size - len(found))
            if not some:
                raise ConnectionResetError(0, "the connection was closed")
            found += some
        return found

    def _gone(self, error: OSError) -> BrokerError:
        return BrokerError(f"the JVM at {self.place} is gone: {error.strerror or error}")
