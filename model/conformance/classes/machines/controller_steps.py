"""The local steps of the controller's producer ids, as Kafka's QuorumController takes them.

Two controllers share a log. The first one is active, and the other one takes over. A step is a
request to one of them, the commit of a record, or a failover that keeps or loses the uncommitted
records. Two brokers send requests.

Reductions: states have no path to them; at most `MOST` records are uncommitted; blocks are at the
start, in the middle and at the end of the range.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, islice, product
from typing import ClassVar, Final, NamedTuple

from .....spec.producer_ids import controller
from .....spec.producer_ids.state import Errors
from ....engine.machine import Outcome
from ....machine import Machine
from ..steps import LocalStep, LocalSteps

LARGEST: Final = 2**63 - 1
SIZE: Final = 1000
MOST: Final = 2
BROKERS: Final = (1, 2)
BLOCKS: Final = (
    0, 7 * SIZE, LARGEST - 2 * SIZE, LARGEST - SIZE - 1, LARGEST - SIZE, LARGEST - SIZE + 1,
    LARGEST,
)  # fmt: skip
REGISTRATIONS: Final = ((0, 5), (5, -1))
"""The epochs of both brokers; -1 without a registration."""
EPOCHS: Final = (-1, 0, 1, 4, 5, 6)
ASK, ASK_STANDBY, COMMIT, KEEP, LOSE = range(5)
"""The events with the host's numbers."""
NO_ANSWER: Final = -2
CLOSED, OPEN = range(2)
"""A broker's connections: an old one, and its present one."""
_CODES: Final = dict(Errors.members)


class Quorum(NamedTuple):
    """The state for the host: the last committed record's id, the brokers' registrations, the
    number of uncommitted records, and for each broker the index of the record that its request
    waits for (-1: none)."""

    committed: int
    registered: tuple[int, ...]
    records: int
    waits: tuple[int, ...]
    closed: tuple[int, ...]
    """Whether the connection of the request that waits is closed."""


class Controller(LocalSteps):
    """The local steps of two QuorumControllers at one release, from 3.6 on."""

    name = "controller"
    java = "ControllerSteps"
    answers = (
        "faults",
        "error for broker 1", "its first id", "its size",
        "error for broker 2", "its first id", "its size",
    )  # fmt: skip
    fields = (
        "nextProducerBlock",
        "the standby's nextProducerBlock",
        "broker 1 waits",
        "broker 2 waits",
    )
    of_the_class_alone: ClassVar[Mapping[str, str]] = {"brokerEpoch": "nobody reads it"}

    def __init__(self, protocol: str, machine: Machine | None = None) -> None:
        super().__init__(machine or Machine(controller.TABLES, protocol=protocol))

    def steps(self, most: int | None = None) -> Iterator[LocalStep]:
        return chain.from_iterable(map(self._steps_of, islice(_states(), most)))

    def _steps_of(self, at: Quorum) -> Iterator[LocalStep]:
        name = controller.AllocateProducerIds.name
        for broker, epoch, connection in product(BROKERS, EPOCHS, (CLOSED, OPEN)):
            if connection == OPEN and at.waits[broker - 1] >= 0 and not at.closed[broker - 1]:
                continue  # a broker has one request on a connection
            given = broker, epoch, connection
            said = f"{name}(broker={broker}, connection={connection}, broker_epoch={epoch})"
            for event, is_active in ((ASK, True), (ASK_STANDBY, False)):
                machine = self._machine(at, is_active=is_active)
                outcome = machine.handle(
                    name, broker=broker, connection=connection, broker_epoch=epoch
                )
                of = "" if is_active else " of the standby"
                yield _step((event, *given), f"{said}{of}", at, machine, (name, outcome))
        if at.records:
            machine, name = self._machine(at), controller.commit.name
            yield _step((COMMIT, 0, 0, 0), name, at, machine, (name, machine.handle(name)))
            name = controller.fail_over.name
            for event, kept in ((KEEP, True), (LOSE, False)):
                machine = self._machine(at)
                outcome = machine.handle(name, kept=kept)
                yield _step((event, 0, 0, 0), f"{name}(kept={kept})", at, machine, (name, outcome))

    def _machine(self, at: Quorum, *, is_active: bool = True) -> Machine:
        machine = self.blank.copy()
        machine.outside(rpc_manager__connection=dict.fromkeys(BROKERS, OPEN))
        machine.put(
            is_active=is_active,
            next_block=at.committed + SIZE * at.records,
            committed=at.committed,
            registered=dict(zip(BROKERS, at.registered, strict=True)),
            deferred={
                broker: {
                    "connection": CLOSED if closed else OPEN,
                    "producer_id_start": at.committed + SIZE * place,
                }
                for broker, place, closed in zip(BROKERS, at.waits, at.closed, strict=True)
                if place >= 0
            },
        )
        return machine


def _states() -> Iterator[Quorum]:
    for count, registered, committed in product(range(MOST + 1), REGISTRATIONS, BLOCKS):
        if count and committed + SIZE * count > LARGEST:
            continue
        for waits in product(range(-1, count), repeat=len(BROKERS)):
            for closed in product((0, 1), repeat=len(BROKERS)):
                if _is_possible(registered, waits, closed):
                    yield Quorum(committed, registered, count, waits, closed)


def _is_possible(
    registered: tuple[int, ...], waits: tuple[int, ...], closed: tuple[int, ...]
) -> bool:
    """Whether each waiting broker is registered, and no two brokers wait for the same record."""
    return (
        not (waits[0] == waits[1] >= 0)
        and all(epoch >= 0 for epoch, place in zip(registered, waits, strict=True) if place >= 0)
        and not any(shut for shut, place in zip(closed, waits, strict=True) if place < 0)
    )


def _step(
    given: tuple[int, ...], said: str, at: Quorum, machine: Machine, taken: tuple[str, Outcome]
) -> LocalStep:
    event, outcome = taken
    return LocalStep(
        (*given, at.committed, *at.registered, at.records, *at.waits, *at.closed),
        (0, *chain.from_iterable(_answer(outcome, broker) for broker in BROKERS)),
        (
            machine["next_block"],
            machine["committed"],
            *(_waits(machine, broker) for broker in BROKERS),
        ),
        ((event, outcome.row),),
        f"{said} at {at}",
    )


def _answer(outcome: Outcome, broker: int) -> tuple[int | None, int | None, int | None]:
    for sent in outcome.sent:
        if sent.broker == broker:
            if sent.error == "NONE":
                return 0, sent.producer_id_start, sent.producer_id_len
            return _CODES[sent.error], None, None
    return NO_ANSWER, None, None


def _waits(machine: Machine, broker: int) -> int:
    deferred = machine["deferred"].get(broker)
    return int(deferred is not None and deferred.connection == OPEN)
