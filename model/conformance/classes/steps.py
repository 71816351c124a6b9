"""A local step of a machine, the path to the state before it, and the machine that takes it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, TypeVar

from ....spec.releases.api_versions import VERSION_1, before
from ...machine import Machine

State = TypeVar("State", bound=Hashable)


class Way(NamedTuple):
    """The last step of a shortest path to a state."""

    before: Any
    said: str


class LocalStep(NamedTuple):
    """A step of one machine: the host's input, and the expected result."""

    given: tuple[int, ...]
    """The numbers of the host's input: the event, its arguments, the state before."""
    answer: tuple[int | None, ...]
    """The answer to the request; None: any number."""
    after: tuple[int | None, ...]
    """The state after the step; None: any number."""
    rows: tuple[tuple[str, str], ...]
    """The events and rows of the step."""
    said: str
    """The event with its arguments."""
    way: Callable[[], list[str]] = list
    """The shortest path to the state before, event by event."""


class LocalSteps:
    """A machine of one release, with an environment that sends every message in range."""

    name: ClassVar[str]
    java: str
    """The host's Java class for the steps."""
    since: ClassVar[str] = "3.6"
    """The first release whose class can be set up."""
    until: ClassVar[str | None] = None
    """The last release whose class can be set up; None: the newest has it."""
    most: ClassVar[int | None] = None
    """The largest number of explored states; None: no limit."""
    answers: ClassVar[tuple[str, ...]]
    """The names of the numbers of an answer."""
    fields: ClassVar[tuple[str, ...]]
    """The names of the numbers of a state."""
    of_the_class_alone: ClassVar[Mapping[str, str]] = {}
    """Fields of Kafka's class that the tables don't have, each with the reason."""
    rows_left_out: ClassVar[Mapping[tuple[str, str], str]] = {}
    """Rows that don't run, each with the reason."""

    def __init__(self, blank: Machine) -> None:
        self.blank = blank
        self.versions = (0, 2) if VERSION_1[0] in blank.features else (0,)

    def rows(self) -> Iterator[tuple[str, str]]:
        """All rows of the release, each with its event."""
        seen = set[tuple[str, str]]()
        for event in self.blank.events:
            for version in self.versions:
                for row in self.blank.rows_of(event, switch_off=before(version)):
                    seen.add((event, row.id))
        yield from sorted(seen)

    def left_out(self, event: str, row: str) -> str | None:
        """The reason why a row doesn't run; None if it should run."""
        return self.rows_left_out.get((event, row))

    def source(self, event: str, row: str) -> str:
        """The method of Kafka that a row describes."""
        table = next(table for table in self.blank.tables if table.on.name == event)
        found = next(each for each in table.rows if each.id == row)
        return found.source or table.source or event

    def steps(self, most: int | None = None) -> Iterator[LocalStep]:
        """Each distinct local step once, in the order of a breadth-first search. At most `most`
        states are explored."""
        raise NotImplementedError


def breadth_first(
    seeds: Iterable[State],
    steps_of: Callable[[State], Iterator[tuple[LocalStep, State]]],
    most: int | None,
    is_explored: Callable[[State], bool] = lambda _: True,
    *,
    rows_first: bool = False,
    ways_to_seeds: Mapping[State, Way | None] | None = None,
) -> Iterator[LocalStep]:
    """The local steps of all explored states that are reached from the seeds, with their paths.
    `steps_of` returns a state's steps, each with the canonical state after it. At most `most`
    states are explored. With `rows_first`, states reached by a new row are explored first, and
    paths aren't shortest. `ways_to_seeds` has the last step to seeds that are reached from
    others."""
    known = set[tuple[str, str]]()
    ways: dict[State, Way | None] = dict.fromkeys(seeds)
    ways.update(ways_to_seeds or {})
    frontier = deque(ways)
    explored = 0
    while frontier and (most is None or explored < most):
        before = frontier.popleft()
        explored += 1

        def way(at: State = before) -> list[str]:
            return path_to(ways, at)

        for step, after in steps_of(before):
            yield LocalStep(step.given, step.answer, step.after, step.rows, step.said, way)
            if after not in ways and is_explored(after):
                ways[after] = Way(before, step.said)
                if rows_first and not known.issuperset(step.rows):
                    frontier.appendleft(after)
                else:
                    frontier.append(after)
            known.update(step.rows)


def path_to(ways: Mapping[Any, Way | None], state: Hashable) -> list[str]:
    """The shortest path to a state, event by event."""
    path = list[str]()
    way = ways[state]
    while way is not None:
        path.append(way.said)
        way = ways[way.before]
    return path[::-1]
