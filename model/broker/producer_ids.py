"""Who hands out producer ids: a broker's manager, the controller, and the store before it.

The rows are `spec.producer_ids.blocks`'s; a request and its answer are the caller's to carry.
"""

from __future__ import annotations

from typing import Any

from ...spec.producer_ids import blocks as declared
from ..engine.errors import ModelError
from ..engine.machine import Machine

PREFETCH_THRESHOLD = 90  # in 100
LOADING = "COORDINATOR_LOAD_IN_PROGRESS"


class Exhausted(ModelError):
    """There are no producer ids left."""


class ProducerIdManager:
    """A broker's producer ids, from blocks that it asks the controller for.

    After a call, `asks_controller` says whether it has sent AllocateProducerIds; `answer` is the
    answer to that, or `give_up` where there is none.
    """

    def __init__(
        self, broker_id: int = 0, *, protocol: str | None = None, now_ms: int = 0,
        retry_backoff_ms: int = 50,
    ) -> None:  # fmt: skip
        settings = {"retry_backoff_ms": retry_backoff_ms}
        self.machine = Machine(declared.MANAGER_TABLES, protocol=protocol, constants=settings)
        self.broker_id = broker_id
        self.now_ms = now_ms
        self.asks_controller = False

    def generate(self) -> int | None:
        """The next producer id; None is COORDINATOR_LOAD_IN_PROGRESS."""
        self.machine.outside(clock__now=self.now_ms)
        self.asks_controller = False
        for _ in range(declared.ITERATION_LIMIT):
            answer = self.machine.handle("claim").reply
            self.asks_controller |= answer.asks_controller
            if not answer.goes_on:
                return answer.producer_id
        return None

    def answer(self, error: str, first: int = -1, size: int = -1) -> tuple[int, int] | None:
        """The controller's answer; the block that is kept for later, as first id and size."""
        self.machine.outside(clock__now=self.now_ms)
        self.machine.handle(
            "controller answers", error=error if error in ERRORS else "OTHER",
            first=max(first, -1), size=max(size, -1),
            prefetch_at=max(size, 0) * PREFETCH_THRESHOLD // 100,
        )  # fmt: skip
        block = self.machine["next_block"]
        return None if block is None else (block.first, block.size)

    def give_up(self) -> None:
        """The channel to the controller has given the request up."""
        self.machine.handle("controller is silent")


class ProducerIdController:
    """The controller's part: blocks of a thousand ids for registered brokers.

    `brokers` are the registered ones with their epochs. A block counts as given out once the record
    of it is replayed.
    """

    def __init__(
        self, brokers: dict[int, int], *, protocol: str | None = None,
        next_block: int | None = None, is_active: bool = True,
    ) -> None:  # fmt: skip
        self.machine = Machine(declared.CONTROLLER_TABLES, protocol=protocol)
        self.machine.put(brokers=brokers, next_block=next_block, is_active=is_active)

    @property
    def next_block(self) -> int:
        """The first id of the next block."""
        return self.machine["next_block"] or 0

    def allocate(self, broker_id: int, broker_epoch: int) -> tuple[str, int, int]:
        """AllocateProducerIds: an error, the first id and the size of a block."""
        asked: dict[str, Any] = {"broker_id": broker_id, "broker_epoch": broker_epoch}
        answer = self.machine.handle("allocate", **asked).reply
        return answer.error, answer.first, answer.size

    def replay(self, next_producer_id: int) -> bool:
        """Applies a logged record; False where it is refused, as it goes back."""
        answer = self.machine.handle("replay", next_producer_id=next_producer_id).reply
        return not answer.is_refused


class SharedStore:
    """The store of blocks that brokers had before: ZooKeeper. `last` is the last id given out."""

    def __init__(self, last: int | None = None, *, protocol: str | None = None) -> None:
        self.machine = Machine(declared.STORE_TABLES, protocol=protocol)
        self.machine.put(last=last)

    def take(self) -> tuple[int, int]:
        """The first id and the size of the next block. Raises Exhausted."""
        answer = self.machine.handle("take a block").reply
        if answer.error != "NONE":
            raise Exhausted("there is no block of producer ids left")
        return answer.first, answer.size


class StoreProducerIdManager:
    """A broker's producer ids, from blocks of a `SharedStore`; the first is taken at once.

    Raises Exhausted where there is none left.
    """

    def __init__(self, store: SharedStore) -> None:
        self._store = store
        self._next, size = store.take()
        self._end = self._next + size

    def generate(self) -> int:
        """The next producer id. Raises Exhausted."""
        if self._next >= self._end:
            self._next, size = self._store.take()
            self._end = self._next + size
        self._next += 1
        return self._next - 1


ERRORS = frozenset(declared.ErrorCode.names)
