"""Sources of producer ids: a broker's manager, the controller, and before it ZooKeeper.

The rows are those of `spec.producer_ids`. This module adds the order of a call's steps. A manager
has one thread, which makes one call at a time. The caller carries requests and answers.
"""

from __future__ import annotations

from copy import copy
from typing import Any

from ...language.machines import Event
from ...spec.producer_ids import controller, rpc_manager, zookeeper
from ...spec.producer_ids.state import NO_PRODUCER_ID, Errors
from ...spec.releases.features import KAFKA, controller_hands_out_ids
from ..engine.errors import ModelError
from ..engine.machine import Machine, Outcome

LOADING = "COORDINATOR_LOAD_IN_PROGRESS"
_STEPS = (
    rpc_manager.take_prefetched,
    rpc_manager.set_current,
    rpc_manager.clear_in_flight,
    rpc_manager.request_block,
)


class ExhaustedError(ModelError):
    """There are no producer ids left."""


class ProducerIdManager:
    """A broker's producer ids, from blocks that the controller allocates.

    After a call or an answer, `asks_controller` is true if the manager has sent
    AllocateProducerIds. The caller then calls `answer`, or `give_up` if no answer comes. Until 3.5
    a call without an id waits for the answer (`is_waiting`), and `finish` ends the call.
    """

    def __init__(
        self, broker_id: int = 0, *, protocol: str | None = None, now_ms: int = 0,
        retry_backoff_ms: int = 50,
    ) -> None:  # fmt: skip
        settings = {"retry_backoff_ms": retry_backoff_ms}
        self.machine = Machine(
            rpc_manager.TABLES, KAFKA, protocol=protocol, this=broker_id, constants=settings
        )
        self.broker_id = broker_id
        self.now_ms = now_ms
        self.asks_controller = False
        self._given: int | None = None

    def generate(self) -> int | None:
        """The next producer id; None: the error COORDINATOR_LOAD_IN_PROGRESS, or the call waits.

        Raises NotNowError while another call waits.
        """
        self.machine.outside(clock__now=self.now_ms)
        self.asks_controller, self._given = False, None
        self._note(self.machine.handle(rpc_manager.generate.name, handler=0))
        self._go_on()
        return self._given

    @property
    def is_waiting(self) -> bool:
        """Whether a call waits for a block."""
        return self.machine.at("step", 0) == "WAITING"

    def finish(self) -> int | None:
        """Ends a call that waits. Returns its producer id if a block has arrived, else None: the
        wait timed out with COORDINATOR_LOAD_IN_PROGRESS."""
        self._given = None
        self._go_on()
        self._take(rpc_manager.wait_ends, handler=0)
        return self._given

    def answer(self, error: str, first: int = -1, size: int = -1) -> tuple[int, int] | None:
        """Takes the controller's answer. Returns the prefetched block (first id, size), or None."""
        self.machine.outside(clock__now=self.now_ms)
        self.asks_controller = False
        if not self.machine["outstanding"]:  # the channel is the caller's
            self.machine.put(outstanding=1)
        self._take(
            controller.AllocateProducerIdsResponse,
            broker=self.broker_id,
            connection=self.machine["connection"],
            error=error if error in Errors.names else "UNKNOWN_SERVER_ERROR",
            producer_id_start=max(first, -1),
            producer_id_len=max(size, -1),
        )
        self._take(rpc_manager.store_answer)
        kept = self.machine["prefetched"]
        return None if kept is None or kept.error != "NONE" else (kept.block.first, kept.block.size)

    def give_up(self) -> None:
        """Notes that the channel to the controller has given up the request."""
        self.asks_controller = False
        self._take(rpc_manager.channel_timeout)

    def _go_on(self) -> None:
        """Takes a call's steps until none is possible."""
        while step := next((step for step in _STEPS if self._take(step, handler=0)), None):
            if step is rpc_manager.clear_in_flight:  # the call begins again
                self._take(rpc_manager.generate, handler=0)

    def _take(self, event: Event, **fields: Any) -> bool:
        outcome = self.machine.attempt(event.name, **fields)
        if outcome is not None:
            self._note(outcome)
        return outcome is not None

    def _note(self, outcome: Outcome) -> None:
        if outcome.reply is not None:
            self._given = outcome.reply.producer_id
        elif outcome.sent:
            self.asks_controller = True


class ProducerIdController:
    """The controller's part: blocks of a thousand ids for registered brokers.

    `brokers` maps registered brokers to their epochs. `next_block` is the first id of the next
    block.
    """

    def __init__(
        self, brokers: dict[int, int], *, protocol: str | None = None, next_block: int = 0,
        is_active: bool = True,
    ) -> None:  # fmt: skip
        self.machine = Machine(controller.TABLES, KAFKA, protocol=protocol)
        self.machine.put(
            registered=brokers, next_block=next_block, committed=next_block, is_active=is_active
        )

    def copy(self) -> ProducerIdController:
        """Another controller in the same state."""
        made = copy(self)
        made.machine = self.machine.copy()
        return made

    @property
    def next_block(self) -> int:
        """The first id of the next block."""
        return self.machine["next_block"]

    def allocate(self, broker_id: int, broker_epoch: int) -> tuple[str, int, int]:
        """AllocateProducerIds: returns the error, the first id and the size of a block. Its record
        is committed at once."""
        answer = self.machine.handle(
            controller.AllocateProducerIds.name,
            broker=broker_id,
            connection=0,
            broker_epoch=broker_epoch,
        ).reply
        if answer is None:
            (answer,) = self.machine.handle(controller.commit.name).sent
        return answer.error, answer.producer_id_start, answer.producer_id_len

    def replay(self, next_producer_id: int) -> bool:
        """Applies a record of another controller. Returns False if it is refused: its id is too
        low."""
        if not controller.may_replay(next_producer_id, self.next_block):
            return False
        self.machine.put(next_block=next_producer_id, committed=next_producer_id)
        return True


_FROM_ZOOKEEPER = (controller_hands_out_ids.data.name,)


class ProducerIdBlockZNode:
    """The node /latest_producer_id_block in ZooKeeper, from which brokers take blocks. `last` is
    the last id of the newest block."""

    def __init__(self, last: int = NO_PRODUCER_ID, *, protocol: str | None = None) -> None:
        self.machine = Machine(
            zookeeper.NODE_TABLES, KAFKA, protocol=protocol, switch_off=_FROM_ZOOKEEPER
        )
        self.machine.put(block_end=last)


class ZkProducerIdManager:
    """A broker's producer ids, from blocks that it takes from a node in ZooKeeper. The constructor
    takes the first block. Raises ExhaustedError if no ids are left.
    """

    def __init__(
        self, node: ProducerIdBlockZNode, broker_id: int = 0, *, protocol: str | None = None
    ) -> None:
        self.machine = Machine(
            zookeeper.MANAGER_TABLES,
            KAFKA,
            protocol=protocol,
            switch_off=_FROM_ZOOKEEPER,
            this=broker_id,
        )
        self._node = node.machine
        self._take(zookeeper.start)
        if self.machine["state"] == "OFFLINE":
            raise ExhaustedError("there is no block of producer ids left")

    def generate(self) -> int:
        """The next producer id. Raises ExhaustedError."""
        given = self._take(zookeeper.generate)
        if given is None:
            raise ExhaustedError("there is no block of producer ids left")
        return given

    def _take(self, event: Event) -> int | None:
        """Takes an event, and then a block if one is needed. Returns the producer id, if any."""
        answer = self.machine.handle(event.name).reply
        while self.machine["state"] in ("READING", "CHECKING"):
            self.machine.outside(
                **{f"zookeeper__{name}": value for name, value in self._node.state.items()}
            )
            outcome = self.machine.handle(zookeeper.read.name)
            answer = outcome.reply
            for write in outcome.sent if answer is None else ():
                reply = self._node.handle(type(write).__name__, **write._asdict()).reply
                answer = self.machine.handle(type(reply).__name__, **reply._asdict()).reply
        return None if answer is None else answer.producer_id
