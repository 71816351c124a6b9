"""Where the threads of a broker can be held in a request, by a debugger: the places of Kafka's
classes that stand for those of `Cluster.hold`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ....wire.connection import BrokerError
from .debugger import PATIENCE_S, Debugger, Place

_COORDINATOR: Final = "kafka.coordinator.transaction.TransactionCoordinator"
_STATE_MANAGER: Final = "kafka.coordinator.transaction.TransactionStateManager"
_HANDLER: Final = "AddPartitionsToTxnManager$AddPartitionsToTxnHandler"
# Scala has methods inside of methods as functions of their own, and calls the rest of a method
# otherwise where it is inlined: these are called in any case.
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
    """The threads of a broker whose JVM takes a debugger at `place` (HOST:PORT)."""

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
        """Whether a thread has come there by then."""
        return self._debugger is not None and self._debugger.held(breakpoints, timeout_s)

    def let_go(self, breakpoints: list[int]) -> None:
        """Nothing is held there any more."""
        if self._debugger is not None:
            self._debugger.let_go(breakpoints)

    def drop(self) -> None:
        """Lets all threads go on, and the JVM go."""
        if self._debugger is not None:
            self._debugger.close()
        self._debugger = None
