"""Idle connections to a served cluster: limited in number and time."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from epochfence import loopback
from epochfence.model.serve.control import Control
from epochfence.model.serve.server import Server
from epochfence.model.wire import listener as wire
from epochfence.sockets import without_descriptor

COMMAND = [sys.executable, "-m", "epochfence.cli", "serve", "--port", "0", "--control", "0"]
COUNTED = """
import atexit, gc
def tell():
    names = [type(each).__name__ for each in gc.get_objects()]
    print("left:", names.count("_SelectorSocketTransport"))
atexit.register(tell)
from epochfence.cli import main
main()
"""
"""The command, which prints how many connections it still has in memory at its end."""
VERSIONS = b"\x00\x00\x00\x0a" + b"\x00\x12\x00\x00" + b"\x00\x00\x00\x07" + b"\xff\xff"
"""ApiVersions 0 with its size, correlation id 7 and no client id."""


def address(text: str) -> tuple[str, int]:
    host, _, port = text.removeprefix("http://").rpartition(":")
    return host, int(port)


@contextlib.contextmanager
def idle(to: tuple[str, int], count: int) -> Iterator[list[socket.socket]]:
    """Connections that send nothing."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(to, 5)) for _ in range(count)]


def answers(to: tuple[str, int]) -> bool:
    """Whether a broker answers ApiVersions."""
    with contextlib.suppress(OSError), socket.create_connection(to, 5) as one:
        one.sendall(VERSIONS)
        return one.recv(8)[4:] == b"\x00\x00\x00\x07"
    return False


def closed(one: socket.socket, within: float = 5) -> bool:
    """Whether the other side closes a connection."""
    one.settimeout(within)
    with contextlib.suppress(ConnectionError):
        try:
            return one.recv(1) == b""
        except TimeoutError:
            return False
    return True


def test_a_server_closed_before_it_accepts_again_prints_nothing() -> None:
    contexts: list[dict[str, Any]] = []
    loop: Any = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _, context: contexts.append(context))
    one = socket.socket()
    one.close()
    loop.call_soon(loop._start_serving, asyncio.Protocol, one)
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    assert list(map(without_descriptor, contexts)) == [True]
    assert not without_descriptor({"message": "_start_serving", "exception": OSError()})


@pytest.mark.slow(4)
def test_many_idle_connections_stop_neither_port_and_print_nothing() -> None:
    limited = ["bash", "-c", 'ulimit -n 40; exec "$@"', "bash", *COMMAND]
    run = subprocess.Popen(limited, stdout=-1, stderr=-1, text=True)
    try:
        assert run.stdout is not None
        told = run.stdout.readline() + run.stdout.readline()
        broker, control = (address(found) for found in re.findall(r"[\d.]+:\d+", told))
        with idle(broker, 60), idle(control, 60):
            end = time.monotonic() + 20
            while not answers(broker) and time.monotonic() < end:
                time.sleep(0.2)
            assert answers(broker)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=30)
    finally:
        run.kill()
    assert (run.returncode, err) == (0, "")
    assert "connections: raise max.connections or ulimit -n" in out


@pytest.mark.slow(2)
def test_connections_that_have_ended_take_no_memory() -> None:
    """asyncio leaves each in a cycle; the command line has Python look for these seldom."""
    command = [sys.executable, "-c", COUNTED, "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=-1, text=True) as run:
        assert run.stdout is not None
        broker = address(run.stdout.readline().partition("bootstrap.servers=")[2])
        assert all(answers(broker) for _ in range(500))
        run.send_signal(signal.SIGINT)
        left = int(run.stdout.read().rpartition("left: ")[2])
    assert left < 250


def test_a_connection_that_stays_idle_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "LOOK_S", 0.1)
    monkeypatch.setattr(loopback, "IDLE_S", 0.4)
    settings = {"connections.max.idle.ms": "400"}
    with Server("4.3", settings=settings) as server, Control(server) as control:
        broker = server.brokers.addresses[0]
        with idle(broker, 1) as [one], idle(address(control.address), 2) as [other, third]:
            third.sendall(b"GET /faults HTTP/1.1\r\n")  # a request without an end
            assert closed(one)
            assert closed(other)
            assert closed(third)
        asked = http.client.HTTPConnection(*address(control.address))
        asked.request("GET", "/faults")
        assert asked.getresponse().read() == b"[]"
        assert answers(broker)
