"""Base of the server in memory and the proxy: start, end, and injected faults."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final, Self, cast
from uuid import UUID

from ..wire.listener import Brokers
from .faults.faults import Fault, Faults
from .faults.injection import Faulted
from .history import History

_WITH_TOPICS: Final = frozenset(("topic_data", "topics", "forgotten_topics_data", "groups"))
"""The parts of requests and answers that contain topics."""


class Served:
    """A context manager for brokers with injected faults. Clients connect to `bootstrap`."""

    brokers: Brokers
    _faulted: Faulted

    @property
    def bootstrap(self) -> str:
        """The value for a client's bootstrap.servers."""
        return self.brokers.bootstrap

    @property
    def faults(self) -> Faults:
        """The faults on demand."""
        return self._faulted.faults

    def record_in(self, history: History) -> None:
        """Records requests and answers."""
        self._faulted.history = history

    async def act(self, fault: Fault) -> None:
        """Applies a fault of the cluster at once. Raises BadFaultError for a fault that needs a
        request."""
        await self._faulted.act(fault)

    def name_of_topic(self, topic_id: UUID) -> str | None:
        """The name of the topic with an id; None if it isn't known."""
        raise NotImplementedError

    def name_topics(self, part: Any, key: str = "name") -> None:
        """Adds topic names to topic ids in a request or an answer. The name of an unknown topic is
        its id."""
        if isinstance(part, list):
            for each in cast("list[Any]", part):
                self.name_topics(each, key)
        elif isinstance(part, dict):
            fields = cast("dict[str, Any]", part)
            if "topic_id" in fields and key not in fields:
                topic_id = fields["topic_id"]
                fields[key] = self.name_of_topic(topic_id) or str(topic_id)
            for name in _WITH_TOPICS & fields.keys():
                self.name_topics(fields[name], key)

    def report(self) -> str:
        """The numbers of answered and refused requests, as lines."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.brokers.__enter__()
        try:
            self.brokers.do(self._begin())
        except BaseException as error:
            self.brokers.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.brokers.__exit__(kind, error, trace)

    async def _begin(self) -> None:
        """The first work after the brokers accept connections."""
        raise NotImplementedError
