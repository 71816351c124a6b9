"""A client's requests to coordinators and leaders, and the results of its calls and records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..engine.errors import ModelError


class CallFailedError(ModelError):
    """A call raised `error`, the name of an error. `cause` is the name of its cause, if any."""

    def __init__(self, error: str, cause: str | None = None) -> None:
        super().__init__(error if cause is None else f"{error} ({cause})")
        self.error = error
        self.cause = cause


@dataclass(eq=False)
class CallResult:
    """The result of a call that continues in the background. `is_acknowledged`: the application has
    waited for it. `call` is the name of the call, `called_ms` its time."""

    is_completed: bool = False
    error: str | None = None
    is_acknowledged: bool = False
    call: str = ""
    called_ms: int = 0

    @property
    def is_successful(self) -> bool:
        """Whether the result is complete and without error."""
        return self.is_completed and self.error is None

    def complete(self, error: str | None = None) -> None:
        """Completes the result. A later error replaces an earlier one."""
        self.error = error if error is not None else self.error
        self.is_completed = True


@dataclass(eq=False)
class Request:
    """A request to a coordinator, with Kafka's field names."""

    api: str
    priority: int
    result: CallResult
    backoff_ms: int
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    is_bump: bool = False
    is_retry: bool = False


@dataclass(eq=False)
class Record:
    """A record and its result: an `offset` (-1: not known) or an `error`. A record that is too
    large has Kafka's `message`. `waits_for`: the send waits for "metadata" or "memory"."""

    partition: Any
    size: int
    is_done: bool = False
    error: str | None = None
    offset: int = -1
    message: str | None = None
    waits_for: str | None = None


@dataclass(frozen=True, eq=False)
class Produce:
    """A sent batch. `batch` is its number in the machine. `request` is the number of the Produce
    that it is in, `sent_ms` the time."""

    batch: int
    partition: Any
    base_sequence: int
    producer_id: int
    producer_epoch: int
    is_transactional: bool
    transaction_version: int
    records: tuple[Record, ...]
    request: int
    sent_ms: int
    api: str = "PRODUCE"
