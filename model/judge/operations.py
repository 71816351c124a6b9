"""The operations of a recorded history, and how a machine judges them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

from ...spec.releases import api_versions
from ...spec.releases.features import KAFKA
from ..engine.machine import Taken


class Operation(NamedTuple):
    """A request and its answer. Times are in ms. `end` and `response` are None if the answer was
    lost. A response has only the compared fields. `line` and `file` are the place in the
    recording."""

    request: str
    fields: Mapping[str, Any]
    start: float
    end: float | None = None
    response: Mapping[str, Any] | None = None
    line: int = 0
    client: str = ""
    file: str = ""

    def __str__(self) -> str:
        response = "no answer" if self.response is None else shown(self.response)
        return f"{self.request}({shown(self.fields)}) → {response}"


def shown(fields: Mapping[str, Any]) -> str:
    """Fields and values as text."""
    return ", ".join(f"{name}={value}" for name, value in fields.items())


@dataclass(frozen=True)
class Settings:
    """The brokers' release and settings."""

    protocol: str = KAFKA.newest
    transaction_version: int | None = None
    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    producer_id_expiration_ms: int = 86_400_000
    offsets_retention_ms: int = 86_400_000  # the default before 2.0; later a week
    verification: bool = True
    excerpt: bool = False
    """Whether the recording begins in the middle of a log, in an unknown state."""


class Rest(Protocol):
    """The rest of a history that isn't explained yet."""

    @property
    def highest_offset(self) -> float:
        """The highest offset in the rest's answers; -1 without one."""
        ...

    def has(self, producer_id: int) -> bool:
        """Whether the rest has an operation of this producer."""
        ...


class Judged(Protocol):
    """A machine in a state. Its methods don't change it. They return machines in other states, or
    the machine itself if nothing has changed."""

    def read(self, operation: Operation) -> Any:
        """The operation in the form that `outcomes` takes, for this state and all later ones."""
        ...

    def outcomes(self, operation: Any, /) -> Iterable[tuple[Judged, bool]]:
        """The possible states after the operation in which it gets its recorded answer now, or may
        get it later, likely ones first. Each has a flag whether it is already answered."""
        ...

    def answers(self, operation: Any, /) -> Iterable[Mapping[str, Any]]:
        """The possible answers to the operation now."""
        ...

    def rows(self, operation: Any | None, answer: Mapping[str, Any], /) -> Sequence[Taken]:
        """The rows of the operation if it gets this answer now. None: the rows of an own step with
        this answer to the waiting operation."""
        ...

    def events(
        self, since: float, until: float, rest: Rest | None
    ) -> Iterable[tuple[Judged, Mapping[str, Any] | None] | None]:
        """The machine's own steps between these times, each with the answer that it gives to the
        waiting operation, if any. Steps that make no difference to the rest may be missing. Each
        happens as early as possible, because later times only allow more. None: a step was tried
        and isn't possible."""
        ...

    @property
    def size(self) -> int:
        """The cost of a computation, relative to a machine with a small state."""
        ...

    def key(self) -> Hashable:
        """A key. States with the same key behave alike."""
        ...

    def rank(self, operation: Operation) -> float:
        """A number that is lower for operations that probably come first. It only affects the
        speed."""
        ...

    def is_idle(self, operation: Operation) -> bool:
        """Whether the operation's response comes at once and without any change of state, at every
        time."""
        ...

    def may_still(self, operations: Iterable[Operation]) -> bool:
        """Whether each of these operations may get its recorded answer in this state or a later
        one; true in doubt."""
        ...

    def is_decided(self, request: str, error: str) -> bool:
        """Whether the machine decides this answer to a request. Other answers may come from its
        surroundings, and don't show the request's effect."""
        ...

    def errors(self, request: str) -> frozenset[str]:
        """The errors with which brokers of the release answer a request in some state."""
        ...

    def open(self) -> Iterable[str]:
        """The open transactions, each in a sentence."""
        ...

    def against(self, operation: Operation) -> str:
        """The objection of another key's history to an operation, in a sentence; empty for none."""
        ...


def sole_names(operations: Iterable[Operation]) -> frozenset[Hashable]:
    """The producer ids and partitions that occur in exactly one of these operations."""
    found = Counter[Hashable]()
    for operation in operations:
        fields, response = operation.fields, operation.response or {}
        ids = {fields.get("producer_id", -1), response.get("producer_id", -1)} - {-1}
        found.update({*ids, *_parts(fields)})
    return frozenset(name for name, count in found.items() if count == 1)


def content(operation: Operation, names: frozenset[Hashable] = frozenset()) -> Hashable:
    """A key that is equal for interchangeable operations: the content without times. `names` occur
    in no other operation and are treated as equal; then the start is part of the key."""
    fields, response = dict(operation.fields), dict(operation.response or {})
    is_sole = False
    for given in (fields, response):
        if given.get("producer_id") in names:
            given["producer_id"], is_sole = "", True
    if not names.isdisjoint(parts := _parts(fields)):
        fields["partitions"], is_sole = sorted("" if p in names else p for p in parts), True
    response_items = None if operation.response is None else sorted(response.items())
    start = operation.start if is_sole else None
    return f"{operation.request} {sorted(fields.items())} {response_items} {start}"


def _parts(fields: Mapping[str, Any]) -> Sequence[str]:
    """The partitions of a request, if it has any."""
    parts = fields.get("partitions")
    if not isinstance(parts, list | tuple | set | frozenset):
        return ()
    return [str(part) for part in cast("Iterable[object]", parts)]


def matches(response: Mapping[str, Any] | None, answer: Mapping[str, Any]) -> bool:
    """Whether the answer agrees with the recorded fields of the response."""
    return response is None or response.items() <= answer.items()


def transaction_version(fields: Mapping[str, Any]) -> int | None:
    """The transaction version of a Produce; None if its API version isn't recorded."""
    api_version = fields.get("api_version")
    return None if api_version is None else api_versions.transaction_version("Produce", api_version)
