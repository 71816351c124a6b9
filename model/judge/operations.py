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
    """A request and its answer. Times are in ms; `end` and `response` are None where the answer was
    lost. A response has only the fields that are compared. `line` and `file` say where it was."""

    request: str
    fields: Mapping[str, Any]
    start: float
    end: float | None = None
    response: Mapping[str, Any] | None = None
    line: int = 0
    client: str = ""
    file: str = ""

    def __str__(self) -> str:
        told = "no answer" if self.response is None else shown(self.response)
        return f"{self.request}({shown(self.fields)}) → {told}"


def shown(fields: Mapping[str, Any]) -> str:
    """Fields and values on one line."""
    return ", ".join(f"{name}={value}" for name, value in fields.items())


@dataclass(frozen=True)
class Settings:
    """The brokers: the release, and their settings under their own names."""

    protocol: str = KAFKA.newest
    transaction_version: int | None = None
    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    producer_id_expiration_ms: int = 86_400_000
    offsets_retention_ms: int = 86_400_000  # before 2.0; later a week
    verification: bool = True
    excerpt: bool = False
    """The recording begins in the middle of a log: the state there isn't known."""


class Rest(Protocol):
    """The part of a history that is still to be explained, if all of it is known."""

    @property
    def highest_offset(self) -> float:
        """No offset that is still to be answered is higher; -1 where there is none."""
        ...

    def has(self, producer_id: int) -> bool:
        """Whether an operation of this producer is still to come."""
        ...


class Judged(Protocol):
    """A machine in a state. No method changes it: each gives machines in other states, and the
    machine itself where an operation has changed nothing."""

    def read(self, operation: Operation) -> Any:
        """The operation as `outcomes` takes it, for all states that come of this one."""
        ...

    def outcomes(self, operation: Any, /) -> Iterable[tuple[Judged, bool]]:
        """All that the operation can do now where it is answered as it was, or later; the likely
        ones first. With each, whether it is answered by then."""
        ...

    def answers(self, operation: Any, /) -> Iterable[Mapping[str, Any]]:
        """All that the operation may be answered with now."""
        ...

    def rows(self, operation: Any | None, answer: Mapping[str, Any], /) -> Sequence[Taken]:
        """The rows that are taken where the operation is answered so now; without one, where that
        comes by itself to the operation that waits."""
        ...

    def events(
        self, since: float, until: float, rest: Rest | None
    ) -> Iterable[tuple[Judged, Mapping[str, Any] | None] | None]:
        """The machine's own steps between these times, with the answer to the operation that waits
        for one, if it comes with that: all of them, except those that make no difference to the
        rest. Each happens as early as it can, as time only allows more and more. None stands for a
        step that was tried and isn't possible."""
        ...

    @property
    def size(self) -> int:
        """The work of asking it for something, in that of asking one that knows little."""
        ...

    def key(self) -> Hashable:
        """The key that separates it from all states in which it acts differently."""
        ...

    def rank(self, operation: Operation) -> float:
        """A number that is lower for an operation that is likely to come first. It decides
        nothing."""
        ...

    def is_idle(self, operation: Operation) -> bool:
        """Whether its response is one that is given at once, and with no change of anything,
        whenever it took effect."""
        ...

    def may_still(self, operations: Iterable[Operation]) -> bool:
        """Whether each of these may be answered as it was in this state or a later one; true where
        in doubt."""
        ...

    def is_decided(self, request: str, error: str) -> bool:
        """Whether this answer to a request is the machine's to explain. Any other may come from its
        surroundings, and says nothing about the request's effect."""
        ...

    def errors(self, request: str) -> frozenset[str]:
        """The errors that brokers of the release answer a request with, in some state."""
        ...

    def open(self) -> Iterable[str]:
        """The transactions that aren't over, each in a sentence."""
        ...

    def against(self, operation: Operation) -> str:
        """The objection of another key to an operation, in a sentence; empty for none."""
        ...


def sole_names(operations: Iterable[Operation]) -> frozenset[Hashable]:
    """The producer ids and partitions that just one of these operations has."""
    found = Counter[Hashable]()
    for operation in operations:
        fields, response = operation.fields, operation.response or {}
        ids = {fields.get("producer_id", -1), response.get("producer_id", -1)} - {-1}
        found.update({*ids, *_parts(fields)})
    return frozenset(name for name, count in found.items() if count == 1)


def content(operation: Operation, names: frozenset[Hashable] = frozenset()) -> Hashable:
    """The key of interchangeable operations: all but their times, with these names, which occur
    nowhere else, taken for one. With such names the start counts."""
    fields, response = dict(operation.fields), dict(operation.response or {})
    is_sole = False
    for given in (fields, response):
        if given.get("producer_id") in names:
            given["producer_id"], is_sole = "", True
    if not names.isdisjoint(parts := _parts(fields)):
        fields["partitions"], is_sole = sorted("" if p in names else p for p in parts), True
    told = None if operation.response is None else sorted(response.items())
    start = operation.start if is_sole else None
    return f"{operation.request} {sorted(fields.items())} {told} {start}"


def _parts(fields: Mapping[str, Any]) -> Sequence[str]:
    """The partitions that a request names, if it names any."""
    parts = fields.get("partitions")
    if not isinstance(parts, list | tuple | set | frozenset):
        return ()
    return [str(part) for part in cast("Iterable[object]", parts)]


def matches(response: Mapping[str, Any] | None, answer: Mapping[str, Any]) -> bool:
    """Whether the answer is the response that was seen, as far as that was recorded."""
    return response is None or response.items() <= answer.items()


def transaction_version(fields: Mapping[str, Any]) -> int | None:
    """The transaction version that a Produce asks for; None if its own isn't known."""
    asked = fields.get("api_version")
    return None if asked is None else api_versions.transaction_version("Produce", asked)
