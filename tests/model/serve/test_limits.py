"""One client of a served cluster takes nothing from the others: turns, memory, log lines."""

from __future__ import annotations

import socket
from contextlib import ExitStack, closing

import pytest

from epochfence.model.records import Record, RecordBatch, encode_batch
from epochfence.model.serve.server import Server
from epochfence.model.wire.connection import KEYS, Connection, Security, request_bytes
from epochfence.tests.model.serve.clients import TIMEOUT_S, eventually

PIPELINED = 3000
LARGE = 400_000


def opened(server: Server) -> socket.socket:
    return socket.create_connection(server.brokers.addresses[0], timeout=TIMEOUT_S)


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4) + data


def is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def test_pipelined_requests_leave_turns_to_others() -> None:
    with Server("4.3", topics={"orders": 1}) as server, opened(server) as greedy:
        greedy.sendall(framed(request_bytes("Metadata", 9, {"topics": None})) * PIPELINED)
        other = Connection(*server.brokers.addresses[0], Security())
        with closing(other):
            other.ask("Metadata", 9, {"topics": None})
            assert server.answered["Metadata"] < PIPELINED
        eventually(lambda: server.answered["Metadata"] == PIPELINED + 1)


def test_requests_that_dont_end_have_limited_memory() -> None:
    settings = {"queued.max.request.bytes": str(1 << 20)}
    with Server("4.3", settings=settings) as server, ExitStack() as stack:
        clients = [stack.enter_context(opened(server)) for _ in range(5)]
        for client in clients:
            client.sendall(LARGE.to_bytes(4) + bytes(10))
            eventually(lambda: bool(server.brokers._large))  # pyright: ignore[reportPrivateUsage]
        assert all(map(is_closed, clients[:3]))
        assert sum(server.brokers._large.values()) == 2 * LARGE  # pyright: ignore[reportPrivateUsage]
        (refusal,) = server.brokers.refused.values()
        assert refusal.times == 3


def test_answers_that_nobody_takes_have_limited_memory() -> None:
    settings = {"queued.max.request.bytes": str(4 << 20), "message.max.bytes": str(4 << 20)}
    with Server("4.3", settings=settings, topics={"orders": 1}) as server, ExitStack() as stack:
        batch = encode_batch(
            RecordBatch(
                base_offset=0,
                records=(Record(offset_delta=0, value=bytes(3 << 20)),),
                last_offset_delta=0,
                base_timestamp=0,
                max_timestamp=0,
            )
        )
        connection = Connection(*server.brokers.addresses[0], Security())
        with closing(connection):
            asked = {"transactional_id": None, "acks": -1, "timeout": 1000}
            parts = [{"index": 0, "records": batch}]
            topics = [{"name": "orders", "partition_data": parts}]
            connection.ask("Produce", 9, {**asked, "topic_data": topics})
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 8 << 20}
        fetch = request_bytes(
            "Fetch", 11,
            {"max_wait": 0, "min_bytes": 1, "max_bytes": 8 << 20, "isolation_level": 0,
             "topics": [{"topic": "orders", "partitions": [partition]}]},
        )  # fmt: skip
        clients = [stack.enter_context(opened(server)) for _ in range(3)]
        for n, client in enumerate(clients):
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.sendall(framed(fetch) * 4)
            eventually(lambda n=n: server.answered["Fetch"] > n)
        eventually(lambda: bool(server.brokers.refused))
        (refusal,) = server.brokers.refused.values()
        assert "4,194,304 bytes" in refusal.reason
        held = [len(one.answer) for one in server.brokers._open]  # pyright: ignore[reportPrivateUsage]
        assert 0 < sum(held) <= 4 << 20


@pytest.mark.parametrize("data", [b"\x7f\xff\0\0\0\0\0\1\xff\xff", b"\0\0"])
def test_a_client_that_sends_no_requests_gets_one_line(data: bytes) -> None:
    lines: list[str] = []
    with Server("4.3") as server:
        server.brokers.log = lines.append
        for _ in range(3):
            with opened(server) as client:
                client.sendall(framed(data))
                assert is_closed(client)
        (line,) = lines
        assert line.startswith("connection of 127.0.0.1 closed: ")
        assert "3 connections of 127.0.0.1 closed: " in server.report()


def test_a_client_is_named_by_its_id() -> None:
    lines: list[str] = []
    with Server("4.3") as server, opened(server) as client:
        server.brokers.log = lines.append
        client.sendall(framed(request_bytes("Metadata", 9, {"topics": None})))
        client.recv(4)
        client.sendall(framed(KEYS["Metadata"].to_bytes(2) + (99).to_bytes(2) + bytes(4)))
        while client.recv(4096):
            pass
        assert lines == [
            "connection of 127.0.0.1 (epochfence) closed: API 3 Metadata in version 99, which "
            "isn't offered"
        ]
