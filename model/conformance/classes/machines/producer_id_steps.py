"""The local steps of producer ids, as Kafka's RPCProducerIdManager takes them.

A broker's manager has one thread. A step is a whole call, an answer of the controller, the loss of
the connection, the channel's timeout, or a registration of the broker.

Reductions: a block below the last `MARGIN` ids starts at `FIRST`; a deadline is past, or
retry.backoff.ms away.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from .....spec.producer_ids import controller, rpc_manager
from .....spec.producer_ids.state import Errors
from ....machine import Machine
from ..steps import LocalStep, LocalSteps, breadth_first
from ..versions import VERSIONS

NOW: Final = 2_000_000_000
BACKOFF_MS: Final = 50
LARGEST: Final = 2**63 - 1
MARGIN: Final = 100
FIRST: Final = 1000
BROKER: Final = 1
MOST_BLOCKS: Final = 4
"""The number of blocks after which a call gives up (RPCProducerIdManager.ITERATION_LIMIT)."""
LONGEST_CALL: Final = 4 * MOST_BLOCKS
SIZES: Final = (-1, 0, 1, 2, 10)
_CODES: Final = dict(Errors.members)
_CALL: Final = (
    rpc_manager.take_prefetched,
    rpc_manager.set_current,
    rpc_manager.clear_in_flight,
    rpc_manager.request_block,
)
REGISTERED_AGAIN: Final = "3.7"
"""The first release in which a broker registers again without a restart
(BrokerLifecycleManager.resendBrokerRegistration)."""


class Manager(NamedTuple):
    """A broker's manager for the host. A first id of -1 means no block."""

    first: int = -1
    size: int = 0
    next_id: int = 0
    is_prefetched: int = 0
    prefetched_first: int = 0
    prefetched_size: int = 0
    in_flight: int = 0
    deadline: int = -1


class ProducerIds(LocalSteps):
    """The local steps of a broker's RPCProducerIdManager at one release, from 3.6 on."""

    name = "producer-ids"
    java = "ProducerIdSteps"
    most = 2_000
    answers = ("answers", "producer id", "requests", "the broker epoch of the next one")
    fields = (
        "currentProducerIdBlock", "its size", "its next id", "(nextProducerIdBlock)",
        "nextProducerIdBlock", "its size", "requestInFlight", "backoffDeadlineMs",
    )  # fmt: skip

    def __init__(self, protocol: str, machine: Machine | None = None) -> None:
        super().__init__(
            machine
            or Machine(
                rpc_manager.TABLES,
                protocol=protocol,
                this=BROKER,
                constants={"retry_backoff_ms": BACKOFF_MS},
            )
        )
        self.blank.outside(clock__now=NOW)
        self.blank.put(outstanding=1)
        known = list(VERSIONS)
        may_again = known.index(protocol) >= known.index(REGISTERED_AGAIN)
        self.epochs = (-1, 0) if may_again else (-1,)

    def steps(self, most: int | None = None) -> Iterator[LocalStep]:
        return breadth_first([Manager()], self._canonical_steps_of, most)

    def _canonical_steps_of(self, before: Manager) -> Iterator[tuple[LocalStep, Manager]]:
        return ((step, _canonical(after)) for step, after in self._steps_of(before))

    def _steps_of(self, before: Manager) -> Iterator[tuple[LocalStep, Manager]]:
        due = {before, before._replace(deadline=NOW)} if before.deadline > NOW else {before}
        for at in sorted(due):
            yield self._call(at)
        yield from self._responses(before)
        yield self._taken(2, before, rpc_manager.channel_timeout.name)
        yield self._taken(3, before, rpc_manager.crash.name)
        yield self._taken(4, before, rpc_manager.connection_loss.name)
        yield from (self._registered(epoch, before) for epoch in self.epochs)

    def _call(self, before: Manager) -> tuple[LocalStep, Manager]:
        machine = self._machine(before)
        outcome = machine.handle(rpc_manager.generate.name, handler=0)
        rows = [(rpc_manager.generate.name, outcome.row)]
        reply, requests, blocks = outcome.reply, 0, 0
        for _ in range(LONGEST_CALL):  # a mutant of the tables may have no end
            for event in _CALL:
                outcome = machine.attempt(event.name, handler=0)
                if outcome is not None:
                    break
            else:
                break
            rows.append((event.name, outcome.row))
            requests += len(outcome.sent)
            if event is rpc_manager.clear_in_flight:
                blocks += 1
                if blocks == MOST_BLOCKS:
                    break
                outcome = machine.handle(rpc_manager.generate.name, handler=0)
                rows.append((rpc_manager.generate.name, outcome.row))
                reply = outcome.reply
        answer = 1, -1 if reply is None else reply.producer_id, requests, None
        return self._step((0, 0, 0, 0), "generateProducerId()", before, machine, answer, *rows)

    def _responses(self, before: Manager) -> Iterator[tuple[LocalStep, Manager]]:
        name = controller.AllocateProducerIdsResponse.name
        last = before.first + before.size - 1
        firsts = {-1, 0, last - 1, last, last + 1} if before.first >= 0 else {-1, 0, FIRST}
        for error in ("STALE_BROKER_EPOCH", "UNKNOWN_SERVER_ERROR", "NOT_CONTROLLER", "NONE"):
            for size in SIZES:
                for first in sorted(firsts | {LARGEST - max(size, 1), LARGEST - max(size, 1) + 1}):
                    if first > LARGEST or (error != "NONE" and (first, size) != (-1, -1)):
                        continue
                    machine = self._machine(before)
                    outcome = machine.handle(
                        name, broker=BROKER, connection=machine["connection"], error=error,
                        producer_id_start=first, producer_id_len=size,
                    )  # fmt: skip
                    given = 1, _CODES[error], first, size
                    said = f"{name}(error={error}, first={first}, size={size})"
                    answer = 0, None, len(outcome.sent), None
                    yield self._step(given, said, before, machine, answer, (name, outcome.row))
        for error in ("NOT_CONTROLLER", "NONE"):
            machine = self._machine(before)
            outcome = machine.handle(
                name, broker=BROKER, connection=machine["connection"] + 1, error=error,
                producer_id_start=2 * FIRST, producer_id_len=10,
            )  # fmt: skip
            given, answer = (5, _CODES[error], 2 * FIRST, 10), (0, None, len(outcome.sent), None)
            said = f"{name}(error={error}) on a closed connection"
            yield self._step(given, said, before, machine, answer, (name, outcome.row))

    def _taken(self, operation: int, before: Manager, name: str) -> tuple[LocalStep, Manager]:
        machine = self._machine(before)
        outcome = machine.handle(name)
        answer = 0, None, len(outcome.sent), None
        return self._step((operation, 0, 0, 0), name, before, machine, answer, (name, outcome.row))

    def _registered(self, epoch: int, before: Manager) -> tuple[LocalStep, Manager]:
        machine, name = self._machine(before), rpc_manager.register_again.name
        machine.put(broker_epoch=epoch)
        machine.outside(controller__registered={BROKER: epoch})
        outcome = machine.handle(name)
        answer = 0, None, len(outcome.sent), machine["broker_epoch"]
        said = f"{name} after epoch {epoch}"
        return self._step((6, epoch, 0, 0), said, before, machine, answer, (name, outcome.row))

    def _step(
        self, given: tuple[int, ...], said: str, before: Manager, machine: Machine,
        answer: tuple[int | None, ...], *rows: tuple[str, str],
    ) -> tuple[LocalStep, Manager]:  # fmt: skip
        after = self._manager(machine)
        expected: list[int | None] = list(after)
        if after.first < 0:
            expected[1:3] = None, None
        elif after.next_id >= after.first + after.size:
            expected[2] = None  # Kafka's counter grows with each call
        if not after.is_prefetched:
            expected[4:6] = None, None
        return LocalStep((*given, *before), answer, tuple(expected), rows, said), after

    def _machine(self, before: Manager) -> Machine:
        machine = self.blank.copy()
        if before.first >= 0:
            machine.put(
                current_block={"first": before.first, "size": before.size},
                next_producer_id=before.next_id,
            )
        if before.is_prefetched:
            block = {"first": before.prefetched_first, "size": before.prefetched_size}
            machine.put(prefetched={"error": "NONE", "block": block})
        machine.put(request_in_flight=bool(before.in_flight), backoff_deadline=before.deadline)
        return machine

    @staticmethod
    def _manager(machine: Machine) -> Manager:
        block, prefetched = machine["current_block"], machine["prefetched"]
        known = (0, 0, 0)
        if prefetched is not None:
            known = 1, prefetched.block.first, prefetched.block.size
        return Manager(
            block.first, block.size, machine["next_producer_id"], *known,
            int(machine["request_in_flight"]), machine["backoff_deadline"],
        )  # fmt: skip


def _canonical(at: Manager) -> Manager:
    """The canonical state: the block is moved."""
    if at.first < 0:
        at = at._replace(size=0, next_id=0)
    lowest = at.first if at.first >= 0 else at.prefetched_first if at.is_prefetched else -1
    highest = max(at.first + at.size, at.prefetched_first + at.prefetched_size)
    if lowest < 0 or highest > LARGEST - MARGIN:
        return at
    by = FIRST - lowest
    if at.first >= 0:
        at = at._replace(first=at.first + by, next_id=at.next_id + by)
    if at.is_prefetched:
        far = min(at.prefetched_first + by, 2 * FIRST)
        at = at._replace(prefetched_first=far)
    return at
