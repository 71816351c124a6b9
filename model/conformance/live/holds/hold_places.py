"""The methods of Kafka's classes in which a debugger holds requests, for each place of
`Cluster.hold`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ....wire.connection import BrokerError
from .debugger import PATIENCE_S, Debugger, Place

_COORDINATOR: Final = "kafka.coordinator.transaction.TransactionCoordinator"
_STATE_MANAGER: Final = "kafka.coordinator.transaction.TransactionStateManager"
_HANDLER: Final = "AddPartitionsToTxnManager$AddPartitionsToTxnHandler"
# Scala compiles nested methods to separate functions, and may inline the rest of a method: these
# functions are called in any case.
_APPENDED: Final = r"\$anonfun\$appendTransactionToLog\$.*Function1;Lscala/Function1;L[\w/]*/Map;\)"
PLACES: Final[Mapping[str, tuple[Place, ...]]] = {
    "fence": (Place(_COORDINATOR, r"\$anonfun\$endTransaction\w*\$1\("),),
    "append": (Place(_STATE_MANAGER, _APPENDED),),
    "completion": (Place(_STATE_MANAGER, _APPENDED, 2),),
    "decision": (
        Place(
            _COORDINATOR,
            r"\$anonfun\$endTransaction\w*\$\d+.*TxnTransitMetadata;Lscala/runtime/BooleanRef;.*Errors;\)",
        ),
    ),
    "allocation": (Place("kafka.server.ControllerApis", r"handleAllocateProducerIdsRequest\("),),
    "verification": (
        Place(f"org.apache.kafka.server.transaction.{_HANDLER}", r"onComplete\("),
        Place(f"kafka.server.{_HANDLER}", r"onComplete\("),
        Place("kafka.server.AddPartitionsToTxnHandler", r"onComplete\("),
    ),
    "unasked": (Place("kafka.server.ReplicaManager", r"appendToLocalLog\("),),
}


class Threads:
    """The threads of a broker whose JVM has the debug port `place` (HOST:PORT)."""

    def __init__(self, place: str) -> None:
        self.place = place
        self._debugger: Debugger | None = Debugger(place)

    def hold(self, place: str) -> list[int]:
        """Holds the next thread that reaches the place; returns the numbers of its breakpoints.
        Raises BrokerError if the broker has no such place."""
        if self._debugger is None:
            self._debugger = Debugger(self.place)
        found = self._debugger.hold(PLACES[place])
        if not found:
            raise BrokerError(f"the broker whose JVM is at {self.place} has no place {place}")
        return found

    def held(self, breakpoints: list[int], timeout_s: float = PATIENCE_S) -> bool:
        """Whether a thread reaches one of the breakpoints within `timeout_s`."""
        return self._debugger is not None and self._debugger.held(breakpoints, timeout_s)

    def let_go(self, breakpoints: list[int]) -> None:
        """Removes the breakpoints, and resumes their threads."""
        if self._debugger is not None:
            self._debugger.let_go(breakpoints)

    def drop(self) -> None:
        """Resumes all threads, and disconnects from the JVM."""
        if self._debugger is not None:
            self._debugger.close()
        self._debugger = None
