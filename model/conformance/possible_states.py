"""All possible states of a correct system after its requests and answers.

Each state takes a request: the answers of all states are allowed, and the states with the system's
answer remain. There are several states after a lost answer, after a restart (a snapshot has less
than the log), and while markers or timeouts are pending.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from ...language import Row, Table
from ..cluster import UNASKED, Cluster
from ..engine.errors import ModelError
from ..engine.machine import Machine, Taken, noted, watched
from ..engine.reasons import reasons
from ..judge.machines.coordinator import frozen
from ..judge.operations import matches
from ..requests import HELD_AT, Answer, Line, answer

NEW = "a new one"
"""Stands for a producer id that is new."""

LIMIT = 10_000


class TooManyStatesError(ModelError):
    """Too many states are possible after the system's answers."""


class RowName(NamedTuple):
    """The names of a row, its event and its machine, with the row's source."""

    machine: str
    event: str
    row: str
    source: str

    @staticmethod
    def of(table: Table, row: Row) -> RowName:
        """The name of a table's row."""
        return RowName(table.machine.name, table.on.name, row.id, row.source or "")


class PossibleState:
    """A possible state: a cluster, and a map between its producer ids and the system's."""

    def __init__(
        self,
        cluster: Cluster,
        ids: Mapping[int, int] | None = None,
        rows: frozenset[RowName] | None = None,
    ) -> None:
        self.cluster = cluster
        self.ids = dict(ids or {})  # from the system's ids to the cluster's
        self.rows = rows  # the rows taken so far, if they are kept

    def copy(self) -> PossibleState:
        """An independent copy of the state."""
        return PossibleState(self.cluster.copy(), self.ids, self.rows)

    def key(self) -> Hashable:
        """A key. States with the same key have the same possible answers."""
        entries, leaders = self.cluster.coordinator.entries, self.cluster.leaders
        return (
            frozenset((name, _state(entry)) for name, entry in entries.items()),
            frozenset((name, _state(leader.machine)) for name, leader in leaders.items()),
            frozenset((m.transactional_id, partition) for m, partition in self.cluster.due()),
            self.cluster.held(),
        )

    def inward(self, line: Line) -> dict[str, Any]:
        """Translates a line from the system's producer ids to the cluster's. Ids that a client made
        up are the same in both."""
        return _renamed(line, self.ids)

    def outward(self, line: Line, unknown: Any = NEW) -> dict[str, Any]:
        """Translates a line or an answer from the cluster's producer ids to the system's. `unknown`
        replaces ids that the system hasn't given out; None keeps them."""
        outward_ids = {mine: its for its, mine in self.ids.items()}
        return _renamed(line, outward_ids, unknown)

    def take(self, line: Line) -> Answer:
        """Executes the line, and returns the answer in the cluster's ids."""
        made_up = line.get("producer_id", -1)
        if made_up >= 0:
            self.ids.setdefault(made_up, made_up)
        with self.kept():
            return answer(self.cluster, self.inward(line))

    @contextmanager
    def kept(self) -> Generator[None]:
        """Notes the rows that are taken in the block, if rows are kept."""
        if self.rows is None:
            yield
            return
        with noted() as taken:
            yield
        self.rows |= {RowName.of(*one) for one in taken}

    def name(self, answered: Answer, response: Line) -> None:
        """Maps the response's producer id to the answer's, if both are new."""
        mine, its = answered.get("producer_id", -1), response.get("producer_id", -1)
        if min(mine, its) >= 0 and its not in self.ids and mine not in self.ids.values():
            self.ids[its] = mine

    def steps(self) -> Iterator[PossibleState]:
        """The states after a step without a request: a timed-out transaction is aborted, a marker
        is written, or a transaction is completed."""
        if self.cluster.coordinator.timed_out():
            made = self.copy()
            with made.kept():
                made.cluster.coordinator.abort_timed_out()
            yield made
        for marker, partition in self.cluster.due():
            made = self.copy()
            with made.kept():
                made.cluster.deliver(marker, partition, completes=False)
            yield made
        for name in self.cluster.to_complete():
            made = self.copy()
            with made.kept():
                made.cluster.complete(name)
            yield made

    def is_settled(self) -> bool:
        """Whether no end is in progress."""
        return not self.cluster.due() and not self.cluster.to_complete()


class PossibleStates:
    """The possible states of a system at `protocol`.

    A `prompt` system aborts timed-out transactions when time passes, and writes the markers of an
    end before it answers. Otherwise both may happen at any later time. Errors in `passing` are
    always allowed, and don't show whether the request had an effect.
    """

    def __init__(
        self, protocol: str | None = None, *, prompt: bool = True, passing: Iterable[str] = (),
        transaction_version: int | None = None, keeps_rows: bool = False,
    ) -> None:  # fmt: skip
        self.prompt = prompt
        self.passing = frozenset(passing)
        cluster = Cluster(
            protocol=protocol, transaction_version=transaction_version, holds_markers=not prompt
        )
        self.states = [PossibleState(cluster, rows=frozenset() if keeps_rows else None)]

    @property
    def rows(self) -> frozenset[RowName]:
        """The rows that were taken in all possible states, if rows are kept."""
        first, *others = (state.rows or frozenset[RowName]() for state in self.states)
        return first.intersection(*others)

    def ask(self, request: Line, response: Line | None) -> list[Answer]:
        """Takes a request and the system's answer (None: the answer was lost).

        Returns an empty list if the answer is allowed, otherwise the allowed answers, in the
        system's producer ids. Raises TooManyStatesError, and ModelError for a wrong request.
        """
        is_open = response is None or response.get("error") in self.passing
        left, allowed = list[PossibleState](), list[Answer]()
        for state, made, answered, _ in self._taken(request):
            if response is not None:
                made.name(answered, response)
            said = made.outward(answered)
            if is_open:
                left += (state, made)
            elif matches(response, said):
                left.append(made)
            elif said not in allowed:
                allowed.append(said)
        if not left:
            return allowed
        self.states = _distinct(left)
        return []

    def _taken(
        self, request: Line, *, with_rows: bool = False
    ) -> Iterator[tuple[PossibleState, PossibleState, Answer, list[Taken]]]:
        """For each possible state: the state before the request, the state after it, the answer,
        and the taken rows (if `with_rows`)."""

        def taken_by(made: PossibleState, line: Line) -> tuple[Answer, list[Taken]]:
            if not with_rows:
                return made.take(line), []
            with watched() as rows:
                return made.take(line), rows

        for state in self._reachable():
            made = state.copy()
            yield state, made, *taken_by(made, request)
            if self.prompt or state.is_settled() or not _may_wait(request, state):
                continue
            # A marker may arrive between a leader's check of the transaction and the append
            # (ReplicaManager.handleProduceAppend).
            held = state.copy()
            answered, looked = taken_by(held, {**request, "held_at": UNASKED})
            if "held" in answered:
                for after in _become([held]):
                    made = after.copy()
                    answered, appended = taken_by(made, {"release": UNASKED})
                    yield state, made, answered, [*looked, *appended]

    def reasons(self, request: Line, response: Line, allowed: Answer) -> list[str]:
        """The reasons why an answer is allowed instead of the response: see
        `model.engine.reasons`."""
        for _, made, answered, rows in self._taken(request, with_rows=True):
            made.name(answered, response)
            if made.outward(answered) == allowed and "error" in answered:
                name = str(request.get("request"))
                return reasons(rows, name, answered["error"], response.get("error"))
        return []

    def settle(self) -> None:
        """Keeps the states in which no end is in progress."""
        left = [state for state in self._reachable() if state.is_settled()]
        self.states = _distinct(left)

    def sleep(self, ms: int) -> None:
        """Moves the clock of all states."""
        for state in self.states:
            if self.prompt:
                state.cluster.sleep(ms)
            else:
                state.cluster.pass_time(ms)

    def restart(self) -> None:
        """Restarts all states: each leader restores producers from its log, or from a snapshot,
        which has only each producer's last batch."""
        found: list[PossibleState] = []
        for state in self._reachable():
            for clean in (True, False):
                found.append(state.copy())
                with found[-1].kept():
                    found[-1].cluster.restart(clean=clean)
        self.states = _distinct(found)

    def happens(self, line: Line) -> None:
        """Applies a line that isn't a request."""
        found: list[PossibleState] = []
        for state in self._reachable():
            found.append(state.copy())
            found[-1].take(line)
        self.states = _distinct(found)

    def skip_to_epoch(self, transactional_id: str, producer_epoch: int) -> None:
        """Raises the id's epoch in all states."""
        for state in self.states:
            state.cluster.skip_to_epoch(transactional_id, producer_epoch)

    def _reachable(self) -> Iterator[PossibleState]:
        """The possible states, and the states that follow from them without a request."""
        return iter(self.states) if self.prompt else _become(self.states)


def _may_wait(request: Line, state: PossibleState) -> bool:
    """Whether a request has a batch whose append may wait at the leader."""
    places = () if "held_at" in request else HELD_AT.get(str(request.get("request")), ())
    return UNASKED in places and UNASKED not in state.cluster.held()


def _become(states: Iterable[PossibleState]) -> Iterator[PossibleState]:
    """These states, and the states that follow from them without a request. Raises
    TooManyStatesError."""
    found = list(states)
    seen = {state.key() for state in found}
    for state in found:  # the list grows in the loop
        yield state
        for after in state.steps():
            if (key := after.key()) not in seen:
                seen.add(key)
                found.append(after)
        if len(found) > LIMIT:
            raise TooManyStatesError(
                f"the system may be in more than {LIMIT} states: "
                "use fewer transactional ids and partitions, or lose fewer answers"
            )


def _distinct(states: list[PossibleState]) -> list[PossibleState]:
    found: dict[Hashable, PossibleState] = {}
    for state in states:
        other = found.setdefault(state.key(), state)
        if other is not state and other.rows is not None and state.rows is not None:
            other.rows &= state.rows
    return list(found.values())


def _state(machine: Machine) -> Hashable:
    """A machine's state, without fields that are always set before they are read."""
    return machine.kept(_MADE_ANEW, frozen)


_MADE_ANEW = frozenset({"snapshots", "last_snap_offset", "guards"})


def _renamed(line: Line, names: Mapping[int, int], unknown: Any = None) -> dict[str, Any]:
    """The line with renamed producer ids."""

    def renamed(producer_id: int) -> Any:
        missing = producer_id if unknown is None or producer_id == -1 else unknown
        return names.get(producer_id, missing)

    made = dict(line)
    if "producer_id" in made:
        made["producer_id"] = renamed(made["producer_id"])
    for several in ("batches", "producers"):
        if several in made:
            made[several] = [[renamed(one[0]), *one[1:]] for one in made[several]]
    if "producers" in made:
        made["producers"].sort(key=str)
    return made
