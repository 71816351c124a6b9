"""A run of the checker as a schedule for clients and brokers: the application's steps, and the
lost, late or duplicated requests and responses, in the form of fault.schema.json.

No client controls the order of steps between brokers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from ..chart.chart import Arrow, Chart, ChartStep

REQUESTS: Final = ("InitProducerId", "AddPartitionsToTxn", "EndTxn", "Produce")
"""The clients' requests in the systems, by the names of Kafka's APIs."""
CALLS: Final = (
    "initTransactions",
    "beginTransaction",
    "send",
    "drain",
    "commitTransaction",
    "abortTransaction",
)
"""The application's calls; a record is sent where its batch is drained."""
SETTLING_MS: Final = 500
"""The time that brokers have for the steps after a request, such as markers."""
CLOCK_MS: Final = 13_000
"""So long brokers have to see that a transaction of 1 s has timed out: they look every 10 s."""
BY_FAULT: Final = {
    "transaction timeout": "time_out_transaction",
    "coordinator failover": "fail_over_coordinator",
    "producer expires": "expire_producer",
}
"""The effect of a fault of the cluster, by the events of the systems."""
INSIDE: Final = (
    "append failure", "coordinator failover after a failed append", "transactional id expiry",
    "completion written again", "late answer to a marker", "marker overtaken",
    "lost WriteTxnMarkers", "lost WriteTxnMarkersResponse", "lost AddPartitionsByLeader",
    "lost AddPartitionsByLeaderResponse", "question expires", "records are deleted",
    "leader changes",
)  # fmt: skip
"""Events that neither a client nor the network can cause."""


class NoScheduleError(ValueError):
    """A run can't become a test. The message is one line with the reason."""


class Call(NamedTuple):
    """An application's call at a step. `what` is one of CALLS, `on` a transaction or a partition.
    The call `ends` at the step with its result, if any.
    """

    step: int
    client: str
    what: str
    on: str = ""
    ends: int | None = None

    def text(self) -> str:
        """The text of the call."""
        return f"{self.client} {self.what}({self.on})"


@dataclass(frozen=True)
class Schedule:
    """The calls of a run, its faults, the steps at which a transaction times out, and the steps at
    which a client's batch expires.
    """

    calls: tuple[Call, ...]
    faults: tuple[Mapping[str, Any], ...]
    timeouts: tuple[int, ...]
    expiries: tuple[int, ...]

    def text(self) -> str:
        """The clients' calls, in a line."""
        return "; ".join(call.text() for call in self.calls)


def schedule_of(chart: Chart, *, by_clock: bool) -> Schedule:
    """The schedule of a run. `by_clock`: the brokers are real, and only their clock times out a
    transaction. Raises NoScheduleError.
    """
    inside = [step for step in chart.steps if step.event in INSIDE]
    if inside:
        raise NoScheduleError(
            f"step {inside[0].number} is {inside[0].event}, which happens inside of brokers: "
            "neither a client nor the network can cause it"
        )
    run = _Run(chart, by_clock)
    if not run.requests:
        raise NoScheduleError(f"no client in it sends a request of Kafka's ({', '.join(REQUESTS)})")
    calls = tuple(run.calls())
    timeouts = tuple(step.number for step in chart.steps if step.event == "transaction timeout")
    expiries = tuple(step.number for step in chart.steps if step.event == "batch expires")
    return Schedule(calls, tuple(run.faults()), timeouts if by_clock else (), expiries)


class _Run:
    def __init__(self, chart: Chart, by_clock: bool) -> None:
        self.steps, self.by_clock = chart.steps, by_clock
        arrows = [arrow for step in chart.steps for arrow in step.sent]
        again = [step.took for step in chart.steps if step.took is not None and step.took.again]
        self.again = [arrow for arrow in again if arrow.message in REQUESTS]
        self.requests = [arrow for arrow in arrows if arrow.message in REQUESTS]
        self.requests += [  # requests that are taken in the step that sends them have no arrow
            step.took
            for step in chart.steps
            if step.took is not None
            and step.took.message in REQUESTS
            and not step.took.again
            and step.took not in self.requests
        ]
        self.requests.sort(key=lambda arrow: arrow.sent)
        of_clients = [f"{name}Response" for name in REQUESTS]
        self.answers = [arrow for arrow in arrows if arrow.message in of_clients]
        self.clients = {arrow.source for arrow in self.requests}

    # The application ----------------------------------------------------------------------------

    def calls(self) -> Iterator[Call]:
        """The application's calls, in order."""
        sent: set[tuple[str, str]] = set()
        drained: set[tuple[str, str]] = set()
        for step in self.steps:
            if step.event not in CALLS:
                continue
            if step.event == "send":
                sent.add((step.lane, step.detail))
                yield Call(step.number, step.lane, "send", step.detail)
            elif step.event == "drain":
                partition = step.detail.partition(",")[0]
                if (step.lane, step.detail) in drained:
                    continue  # the batch is sent again
                drained.add((step.lane, step.detail))
                if (step.lane, partition) in sent:
                    sent.remove((step.lane, partition))
                else:
                    yield Call(step.number, step.lane, "send", partition)
            elif step.event == "beginTransaction":
                drained = {one for one in drained if one[0] != step.lane}
                yield Call(step.number, step.lane, step.event, step.detail)
            else:
                yield Call(step.number, step.lane, step.event, step.detail, self._end_of(step))

    def _end_of(self, call: ChartStep) -> int | None:
        wanted = "InitProducerId" if call.event == "initTransactions" else "EndTxn"
        ends = (
            step.number
            for step in self.steps
            if step.number > call.number
            and step.lane == call.lane
            and step.took is not None
            and step.took.message == f"{wanted}Response"
            and not step.took.fate
        )
        return next(ends, None)

    # Faults -------------------------------------------------------------------------------------

    def faults(self) -> Iterator[Mapping[str, Any]]:
        """The faults, each by the name of its step."""
        for request in self.requests:
            yield from self._of_request(request)
        for copy in self.again:
            fault = self._fault("duplicate", copy, copy.taken or len(self.steps))
            first = max(
                (r.taken for r in self.requests if _same(r, copy) and r.taken is not None),
                default=copy.sent,
            )
            yield fault | self._until(first, copy.taken)
        unanswered = list(self.requests)
        for answer in self.answers:
            candidates = [
                request
                for request in unanswered
                if f"{request.message}Response" == answer.message
                and not request.fate
                and request.source == answer.target
                and (request.taken or 0) <= answer.sent
                and request.taken is not None
            ]
            if candidates:
                unanswered.remove(candidates[0])
                yield from self._of_answer(candidates[0], answer)
        for step in self.steps:
            if step.event in BY_FAULT and not (self.by_clock and "timeout" in step.event):
                yield self._of_cluster(step)

    def _of_request(self, request: Arrow) -> Iterator[Mapping[str, Any]]:
        is_sent_again = any(
            other.sent > request.sent
            and _same(other, request)
            and _batch(other) == _batch(request)
            and (request.taken is None or other.sent < request.taken)
            for other in self.requests
        )
        do = "delay" if is_sent_again else "hold"
        if request.fate == "lost":
            yield self._fault("lose_request", request, request.taken)
        elif request.taken is None:
            yield self._fault(do, request, request.sent)
        elif any(
            other.sent > request.sent
            and (other.taken or 0) < request.taken
            and other.taken is not None
            and not other.fate
            for other in self.requests
        ):
            fault = self._fault(do, request, request.taken)
            yield fault | self._until(request.sent, self._effect(request))
        elif self._times_out(request.sent, request.taken):
            yield self._fault("hold", request, request.taken) | {"until": {"ms": CLOCK_MS}}

    def _of_answer(self, request: Arrow, answer: Arrow) -> Iterator[Mapping[str, Any]]:
        if answer.fate == "lost":
            yield self._fault("lose_answer", request, answer.taken)
        elif answer.taken is not None and self._times_out(answer.sent, answer.taken):
            fault = self._fault("hold_answer", request, answer.taken)
            yield fault | {"until": {"ms": CLOCK_MS}}
        elif answer.taken is not None and any(
            (other.source != request.source or other.sent < request.sent)
            and answer.sent < (other.taken or 0)
            and self._effect(other) < answer.taken
            for other in self.requests
        ):
            fault = self._fault("hold_answer", request, answer.taken)
            yield fault | self._until(answer.sent, answer.taken)

    def _of_cluster(self, step: ChartStep) -> Mapping[str, Any]:
        before = [r for r in self.requests if r.taken is not None and r.taken < step.number]
        if not before:
            raise NoScheduleError(f"step {step.number} is {step.event}, before any request")
        last = max(before, key=lambda request: request.taken or 0)
        return self._fault(BY_FAULT[step.event], last, step.number) | {"when": "after"}

    def _effect(self, request: Arrow) -> int:
        """The step at which a request has taken effect: for a coordinator, the next append to its
        log.
        """
        taken = request.taken or len(self.steps)
        if request.message == "Produce":
            return taken
        logged = (step.number for step in self.steps if step.event == "log append")
        return next((number for number in logged if number > taken), len(self.steps))

    def _times_out(self, start: int, end: int) -> bool:
        """Whether a transaction times out between two steps, by the brokers' clock."""
        return self.by_clock and any(
            step.event == "transaction timeout" and start < step.number < end for step in self.steps
        )

    def _fault(self, do: str, request: Arrow, step: int | None) -> dict[str, Any]:
        nth = 1 + sum(other.sent < request.sent for other in self.requests if _same(other, request))
        on = self._matcher(request) | {"nth": nth}
        return {"name": f"step-{step}-{do}", "do": do, "on": on}

    def _matcher(self, request: Arrow) -> dict[str, Any]:
        of = {"client_id": request.source} if len(self.clients) > 1 else {}
        return {"request": request.message, **of}

    def _until(self, start: int, end: int | None) -> dict[str, Any]:
        """The end of a fault: the response to the last request that brokers take between two
        steps.
        """
        taken = [
            request
            for request in self.requests
            if not request.fate
            and request.taken is not None
            and start < request.taken < (end or len(self.steps))
        ]
        if not taken:
            return {"until": {"ms": SETTLING_MS}}
        last = max(taken, key=lambda request: request.taken or 0)
        nth = sum(_same(request, last) for request in taken)
        return {"until": {**self._matcher(last), "nth": nth, "ms": SETTLING_MS}}


def _same(one: Arrow, other: Arrow) -> bool:
    """Whether both requests have one API and one client."""
    return (one.message, one.source) == (other.message, other.source)


def _batch(request: Arrow) -> list[str]:
    """The content of a Produce request; the batches of two transactions differ."""
    return [value for name, value in request.fields if name in ("record", "txn")]
