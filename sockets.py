"""Sockets of servers: where they listen, and how many connections they may hold."""

from __future__ import annotations

import resource
import socket
from collections.abc import Mapping
from typing import Any, Final

HOST: Final = "127.0.0.1"


def listening(port: int) -> socket.socket:
    """A socket that listens on loopback; port 0 takes a free one. Raises OSError."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port))
        made.listen()
    except OSError:
        made.close()
        raise
    return made


def most_connections(wanted: int) -> int:
    """How many connections a server may hold at once, up to `wanted`: an eighth of the files that
    the process may open, and two dozen at least, are left for everything else."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(8, files - max(24, files // 8)))


def without_descriptor(context: Mapping[str, Any]) -> bool:
    """Whether an event loop reports that no descriptor was left for a connection. It tries again
    by itself after a second, so there is nothing to print; nor if the server is closed by then."""
    message = str(context.get("message"))
    return "out of system resource" in message or (
        "_start_serving" in message and isinstance(context.get("exception"), ValueError)
    )


def raise_file_limit() -> None:
    """Lets the process open as many files as it may allow itself."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
