"""The local steps of producer ids from ZooKeeper, as Kafka's ProducerIdManager takes them until
2.8.

A step is a whole call: the manager's constructor, generateProducerId or its shutdown, with a script
of ZooKeeper's events. In the script each read of the node returns a block, each write succeeds or
finds another version, and each of them may end the session. The connection may be lost at the first
write, which is then sent again.

Reductions: the node has one of the blocks of `NODES`; a second read within a call returns one of
two of them; a call has at most `LONGEST` events of ZooKeeper, and then the session ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Final, NamedTuple

from .....spec.producer_ids import zookeeper
from .....spec.producer_ids.state import connection_loss
from ....engine.machine import Outcome
from ....machine import Machine
from ..steps import LocalStep, LocalSteps, breadth_first

BROKER, OTHER = 1, 2
SIZE: Final = 1000
LARGEST: Final = 2**63 - 1
LONGEST: Final = 8
READ, READ_NOTHING, EXPIRE, WRITE, BAD_VERSION, LOSE = range(6)
"""ZooKeeper's events with the host's numbers."""
NODES: Final = (
    (-1, 0, 0),
    (4 * SIZE - 1, OTHER, 3),
    (2 * SIZE - 1, BROKER, 2),
    (LARGEST - SIZE, OTHER, 7),
    (LARGEST - SIZE + 1, OTHER, 7),
    (LARGEST, BROKER, 8),
)
"""The possible results of a read: the block's last id (-1: no block yet), its broker, the node's
version."""
ROWS_LEFT_OUT: Final = {
    ("SetDataResponse", "closed-connection"): "ZooKeeper's client library drops it",
}
"""Rows that don't run, with the reason."""
Event = tuple[int, int, int, int]
"""An event of ZooKeeper: its kind, the block's last id, its broker and the node's version."""
EXPIRES: Final[Event] = (EXPIRE, 0, 0, 0)
LOST: Final[Event] = (LOSE, 0, 0, 0)
SHUT_DOWN: Final = 2


class Manager(NamedTuple):
    """A broker's manager for the host."""

    is_constructed: int = 0
    first: int = -1
    next_id: int = -1


SEEDS: Final = (Manager(), Manager(1, 0, SIZE - 1))


class Course(NamedTuple):
    """A call, as far as its script is decided."""

    machine: Machine
    script: tuple[Event, ...]
    rows: tuple[tuple[str, str], ...]
    writes: int = 0
    written: tuple[int | None, int | None] = (None, None)
    """The last id and the version of the last write."""
    producer_id: int = -1


class ZooKeeperIds(LocalSteps):
    """The local steps of a broker's ProducerIdManager at one release, until 2.8."""

    name = "zookeeper-ids"
    java = "ZooKeeperIdSteps"
    since = "2.5"
    until = "2.8"
    answers = ("producer id", "writes", "the block's last id", "the version")
    fields = ("(constructed)", "currentProducerIdBlock", "nextProducerId")
    of_the_class_alone: ClassVar[Mapping[str, str]] = {}
    rows_left_out = ROWS_LEFT_OUT

    def __init__(self, protocol: str, machine: Machine | None = None) -> None:
        super().__init__(
            machine or Machine(zookeeper.MANAGER_TABLES, protocol=protocol, this=BROKER)
        )

    def steps(self, most: int | None = None) -> Iterator[LocalStep]:
        return breadth_first(SEEDS, self._steps_of, most, _is_explored)

    def _steps_of(self, before: Manager) -> Iterator[tuple[LocalStep, Manager]]:
        event = zookeeper.generate if before.is_constructed else zookeeper.start
        machine = self.blank.copy()
        if before.is_constructed:
            machine.put(state="READY", current_block=before.first, next_producer_id=before.next_id)
            yield self._stopped(before, machine.copy())
        outcome = machine.handle(event.name)
        row = event.name, outcome.row
        producer_id = -1 if outcome.reply is None else outcome.reply.producer_id
        for course in _courses(Course(machine, (), (row,), producer_id=producer_id)):
            yield self._step(event.name, before, course)

    @staticmethod
    def _stopped(before: Manager, machine: Machine) -> tuple[LocalStep, Manager]:
        name = zookeeper.crash.name
        row = name, machine.handle(name).row
        given = (SHUT_DOWN, *before, 0)
        return LocalStep(given, (-1, 0, None, None), (0, None, None), (row,), name), Manager()

    @staticmethod
    def _step(name: str, before: Manager, course: Course) -> tuple[LocalStep, Manager]:
        at = course.machine
        is_constructed = int(at["next_producer_id"] >= 0)
        after = Manager(is_constructed, at["current_block"], at["next_producer_id"])
        script = [number for event in course.script for number in event]
        step = LocalStep(
            given=(before.is_constructed, *before, len(course.script), *script),
            answer=(course.producer_id, course.writes, *course.written),
            after=after if is_constructed else (0, None, None),
            rows=course.rows,
            said=f"{name}({', '.join(map(_shown, course.script))})",
        )
        return step, after if is_constructed else Manager()


def _courses(at: Course) -> Iterator[Course]:
    """All completions of a call whose script is decided so far."""
    state = at.machine["state"]
    if state in ("READY", "OFFLINE"):
        yield at
        return
    is_last = len(at.script) >= LONGEST
    if state == "WRITING":
        if not is_last:
            yield from _courses(_answered(at, (WRITE, 0, 0, 0), "OK"))
            yield from _courses(_answered(at, (BAD_VERSION, 0, 0, 0), "BADVERSION"))
            if len(at.script) == 1:
                yield from _courses(_lost(at))
    elif not is_last:
        nodes = NODES if not at.script else NODES[:2]
        if state == "CHECKING":
            end = at.machine["proposed_block"] + SIZE - 1
            nodes = (NODES[0], (end, BROKER, 4), (end, OTHER, 4), (end - SIZE, BROKER, 4))
        for node in nodes:
            yield from _courses(_read(at, node))
    yield from _courses(_expired(at))


def _read(at: Course, node: tuple[int, int, int]) -> Course:
    end, broker, version = node
    machine = at.machine.copy()
    machine.outside(
        zookeeper__block_end=end,
        zookeeper__block_broker=frozenset() if end < 0 else frozenset((broker,)),
        zookeeper__version=version,
    )
    outcome = machine.handle(zookeeper.read.name)
    event = (READ_NOTHING if end < 0 else READ, end, broker, version)
    return _after(at, machine, event, zookeeper.read.name, outcome)


def _answered(at: Course, event: Event, code: str) -> Course:
    machine = at.machine.copy()
    name = zookeeper.SetDataResponse.name
    outcome = machine.handle(name, broker=BROKER, code=code, connection=machine["connection"])
    return _after(at, machine, event, name, outcome)


def _expired(at: Course) -> Course:
    machine = at.machine.copy()
    name = zookeeper.session_expires.name
    return _after(at, machine, EXPIRES, name, machine.handle(name))


def _lost(at: Course) -> Course:
    machine = at.machine.copy()
    name = connection_loss.name
    return _after(at, machine, LOST, name, machine.handle(name))


def _after(at: Course, machine: Machine, event: Event, name: str, outcome: Outcome) -> Course:
    course = at._replace(
        machine=machine,
        script=(*at.script, event),
        rows=(*at.rows, (name, outcome.row)),
        producer_id=getattr(outcome.reply, "producer_id", at.producer_id),
    )
    for sent in outcome.sent:
        if hasattr(sent, "block_end"):
            written = sent.block_end, sent.version
            course = course._replace(writes=course.writes + 1, written=written)
    return course


def _shown(event: Event) -> str:
    kind, end, broker, version = event
    if kind == READ:
        return f"a read finds broker {broker}'s block to {end}, version {version}"
    said = "a read finds none", "the session expires", "a write", "another version", "a loss"
    return ("", *said)[kind]


def _is_explored(at: Manager) -> bool:
    """Whether the next id is at the start or the end of its block: other ids behave alike. If the
    next id is below the block, which wasn't written, only the first ids count."""
    return at.next_id - at.first in (0, 1, SIZE - 1, SIZE) or (
        at.next_id < at.first and at.next_id % SIZE in (0, 1)
    )
