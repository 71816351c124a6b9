"""What a debugger says where there is no JVM that takes one."""

from __future__ import annotations

import socket
import threading

import pytest

from epochfence.model.conformance.live.holds.debugger import Debugger
from epochfence.model.wire.connection import BrokerError


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(BrokerError, match=f"{place} doesn't accept a debugger: .*refused"):
        Debugger(place)


@pytest.mark.parametrize("said", [b"HTTP/1.1 400 Bad", b""])
def test_it_is_no_jvm(said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            other, _ = server.accept()
            with other:
                other.recv(100)
                other.sendall(said)

        threading.Thread(target=answer, daemon=True).start()
        place = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(BrokerError, match=place):
            Debugger(place)
