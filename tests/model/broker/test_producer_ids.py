"""Producer ids at real ranges: blocks of any length, the backoff, calls that wait, ZooKeeper."""

from __future__ import annotations

import pytest

from epochfence.model import ProducerIdController, ProducerIdManager
from epochfence.model.broker.producer_ids import (
    ExhaustedError,
    ProducerIdBlockZNode,
    ZkProducerIdManager,
)
from epochfence.model.engine.errors import NotNowError

LARGEST = 2**63 - 1
ASYNCHRONOUS = ("3.6", "4.0", "4.3")


def with_block(first: int, size: int, release: str = "4.3", **settings: int) -> ProducerIdManager:
    """A manager that has this block in reserve."""
    manager = ProducerIdManager(protocol=release, **settings)
    assert manager.generate() is None
    assert manager.answer("NONE", first, size) == (first, size)
    return manager


@pytest.mark.parametrize("release", ASYNCHRONOUS)
@pytest.mark.parametrize("size", [1, 2, 10, 999, 1000, 1001])
def test_the_next_block_is_asked_for_once_nine_tenths_are_claimed(release: str, size: int) -> None:
    manager = with_block(5000, size, release)
    asked = [(manager.generate(), manager.asks_controller) for _ in range(size)]
    target = 5000 + size * 9 // 10
    assert asked == [(number, number == target) for number in range(5000, 5000 + size)]
    assert manager.generate() is None
    assert not manager.asks_controller  # it has asked already


@pytest.mark.parametrize("release", ASYNCHRONOUS)
def test_a_call_goes_on_with_the_block_in_reserve(release: str) -> None:
    manager = with_block(0, 1, release)
    assert manager.generate() == 0
    assert manager.answer("NONE", 7, 2) == (7, 2)
    assert [manager.generate() for _ in range(2)] == [7, 8]


def test_a_block_without_ids_is_passed_over() -> None:
    manager = with_block(4, 0)
    assert manager.generate() is None
    assert manager.asks_controller
    assert manager.answer("NONE", 4, 1) == (4, 1)
    assert manager.generate() == 4


def test_a_failure_holds_back_the_next_request() -> None:
    manager = ProducerIdManager(now_ms=1000, retry_backoff_ms=70)
    manager.generate()
    assert manager.answer("UNKNOWN_SERVER_ERROR") is None
    for now, asks in ((1000, False), (1069, False), (1070, True)):
        manager.now_ms = now
        assert manager.generate() is None
        assert manager.asks_controller == asks


def test_who_gives_a_request_up_may_ask_at_once() -> None:
    manager = ProducerIdManager()
    manager.generate()
    manager.generate()
    assert not manager.asks_controller
    manager.give_up()
    manager.generate()
    assert manager.asks_controller


def test_the_channel_asks_another_controller_by_itself() -> None:
    manager = ProducerIdManager()
    manager.generate()
    assert manager.answer("NOT_CONTROLLER") is None
    assert manager.asks_controller
    assert manager.answer("NONE", 3, 5) == (3, 5)
    assert manager.generate() == 3


@pytest.mark.parametrize(
    ("release", "first", "size", "kept"),
    [
        ("4.2", 9, 5, True),  # KAFKA-20031
        ("4.3", 9, 5, False),
        ("4.2", 8, 5, False),
        ("4.3", 10, 5, True),
        ("4.3", LARGEST - 5, 5, True),
        ("4.3", LARGEST - 4, 5, False),
        ("4.3", LARGEST, 0, True),
        ("4.3", -1, 5, False),
        ("4.3", 10, -1, False),
    ],
)
def test_which_blocks_are_refused_beside_0_to_9(
    release: str, first: int, size: int, kept: bool
) -> None:
    manager = with_block(0, 10, release)
    for _ in range(10):
        manager.generate()
    assert manager.answer("NONE", first, size) == ((first, size) if kept else None)


def test_until_3_5_a_call_waits_for_its_block() -> None:
    manager = ProducerIdManager(protocol="3.5")
    assert manager.generate() is None
    assert manager.asks_controller
    assert manager.is_waiting
    with pytest.raises(NotNowError):
        manager.generate()
    assert manager.answer("NONE", 20, 10) == (20, 10)
    assert manager.finish() == 20
    assert not manager.is_waiting
    # from nine tenths on each call asks, unless it has
    assert [(manager.generate(), manager.asks_controller) for _ in range(8)][-1] == (28, False)
    assert (manager.generate(), manager.asks_controller) == (29, True)


def test_until_3_5_a_wait_ends_without_a_block_or_with_the_failure() -> None:
    manager = ProducerIdManager(protocol="3.5")
    manager.generate()
    assert manager.finish() is None
    assert not manager.is_waiting
    manager.generate()
    assert not manager.asks_controller
    assert manager.answer("UNKNOWN_SERVER_ERROR") is None
    assert manager.finish() is None
    manager.generate()
    assert manager.asks_controller  # there is no backoff
    assert manager.answer("STALE_BROKER_EPOCH") is None
    assert manager.asks_controller


@pytest.mark.parametrize("release", ["3.5", "4.3"])
def test_brokers_share_a_controller(release: str) -> None:
    control = ProducerIdController({1: 0, 2: 5}, protocol=release)
    assert control.allocate(1, 0) == ("NONE", 0, 1000)
    assert control.allocate(2, 5) == ("NONE", 1000, 1000)
    assert control.next_block == 2000
    other = control.copy()
    assert other.allocate(1, 0) == ("NONE", 2000, 1000)
    assert control.next_block == 2000


@pytest.mark.parametrize(("broker", "epoch"), [(1, 1), (1, -1), (3, 0), (3, -1)])
def test_only_registered_brokers_get_a_block(broker: int, epoch: int) -> None:
    control = ProducerIdController({1: 0, 2: 5})
    assert control.allocate(broker, epoch) == ("STALE_BROKER_EPOCH", -1, 0)
    assert control.next_block == 0


def test_no_block_goes_beyond_the_largest_id() -> None:
    last = LARGEST - 1000
    control = ProducerIdController({1: 0}, next_block=last)
    assert control.allocate(1, 0) == ("NONE", last, 1000)
    assert control.allocate(1, 0) == ("UNKNOWN_SERVER_ERROR", -1, 0)
    assert ProducerIdController({1: 0}, is_active=False).allocate(1, 0)[0] == "NOT_CONTROLLER"


def test_a_record_that_goes_back_is_refused() -> None:
    control = ProducerIdController({1: 0})
    assert control.replay(42)
    assert control.allocate(1, 0) == ("NONE", 42, 1000)
    assert [control.replay(number) for number in (41, 42, 1042, 1043)] == [False] * 3 + [True]


@pytest.mark.parametrize("release", ["2.0", "2.7", "4.3"])
def test_brokers_take_blocks_from_one_node(release: str) -> None:
    node = ProducerIdBlockZNode(protocol=release)
    one, two = (ZkProducerIdManager(node, broker, protocol=release) for broker in (1, 2))
    assert [one.generate() for _ in range(1001)] == [*range(1000), 2000]
    assert two.generate() == 1000


@pytest.mark.parametrize("release", ["2.0", "2.7", "4.3"])
def test_a_node_has_an_end(release: str) -> None:
    node = ProducerIdBlockZNode(LARGEST - 1000, protocol=release)
    manager = ZkProducerIdManager(node, protocol=release)
    with pytest.raises(ExhaustedError):
        ZkProducerIdManager(node, 1, protocol=release)
    found = [manager.generate() for _ in range(1000)]
    assert found[-1] == LARGEST
    with pytest.raises(ExhaustedError):
        manager.generate()
