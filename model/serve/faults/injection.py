"""Applies injected faults to requests of a cluster in memory or of the proxy."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Final

from ...conformance.live.cluster.missing_permissions import refusal
from ...wire.listener import LOST, Answer, Refusal, Request, Silence
from ..history import History
from .faults import HIDE, REQUEST_FAULTS, BadFaultError, Fault, Faults, Matcher

PATIENCE_S: Final = 1
"""The time in s for which a reordered request waits for a later one."""
_OF_ANSWERED: Final = frozenset(("duplicate", "hold_answer", "lose_answer", HIDE))
Answering = Callable[[Request], Awaitable[Answer | Silence]]
Act = Callable[[Fault, "str | None"], "Awaitable[None] | None"]


class Faulted:
    """Answers requests with `answer`, and applies their faults.

    `copies` answers repeated requests instead of `answer`. `act` applies a fault to the cluster.
    `marks` holds or releases markers. `failures` collects exceptions of background work.
    """

    def __init__(
        self, answer: Answering, act: Act, failures: list[Exception], *,
        marks: Callable[[bool], None] = lambda _: None, copies: Answering | None = None,
        faults: Faults | None = None,
    ) -> None:  # fmt: skip
        self._answer, self._copies = answer, copies or answer
        self._act, self._marks, self._failures = act, marks, failures
        self.faults = faults or Faults()
        self.history: History | None = None
        """The recorder of requests and answers, if any."""
        self._refused: Counter[str] = Counter()
        self._hiding: list[Fault] = []
        self._working: set[asyncio.Task[None]] = set()

    async def handle(self, request: Request) -> Answer | Silence:
        """The answer that a request's client gets."""
        begun = now_ms()
        answer = await self._with_faults(request)
        self.record(request, begun, answer)
        if isinstance(answer, Answer) and (error := refusal(answer.fields)) is not None:
            self._refused[f"{request.name} {error}"] += 1
        return answer

    def record(self, request: Request, begun: float, answer: Answer | Silence | None) -> None:
        """Records a request that arrived at `begun` (ms)."""
        if self.history is not None:
            recorded = answer if isinstance(answer, Answer) else None
            self.history.record(request, begun, now_ms(), recorded)

    async def _with_faults(self, request: Request) -> Answer | Silence:  # noqa: C901 (a branch for each fault)
        faults = self.faults.at(request)
        for fault in faults:
            if fault.do == "lose_request":
                fault.fired += 1
                return LOST
            if fault.do == "delay":
                self.later(self._again(request, fault))
                return LOST
            if fault.do == "hold":
                await fault.wait()
                fault.fired += 1
            if fault.do == "reorder":
                await _overtaken(request, fault)
            if fault.do == "hold_markers":
                fault.fired += 1
                self._marks(True)
                self.later(self._frees_markers(fault))
        await self._acts(request, faults, is_after=False)
        answer = self._hidden(request, await self._answer(request))
        if answer is LOST:
            for fault in faults:
                if fault.do in _OF_ANSWERED and not fault.fired:
                    fault.failed = "the broker didn't answer"
            return answer
        for fault in faults:
            if fault.do == "duplicate":
                again = self._again(request, fault)
                await again if fault.until is None else self.later(again)
        await self._acts(request, faults, is_after=True)
        self.faults.answered(request)
        for fault in faults:
            if fault.do == HIDE:
                self._hiding.append(fault)
                self.later(self._shows(fault))
            if fault.do == "hold_answer":
                await fault.wait()
                fault.fired += 1
            if fault.do == "lose_answer":
                if fault.until is None:
                    fault.fired += 1
                else:
                    await _overtaken(request, fault)
                return LOST
        return answer

    async def _acts(self, request: Request, faults: Iterable[Fault], *, is_after: bool) -> None:
        for fault in faults:
            if fault.do not in REQUEST_FAULTS and fault.is_after == is_after:
                await self._do(fault, fault.names(request))

    async def _do(self, fault: Fault, subject: str | None) -> None:
        done = self._act(fault, subject)
        if inspect.isawaitable(done):
            await done

    async def act(self, fault: Fault) -> None:
        """Applies a fault of the cluster at once. Raises BadFaultError for a fault that needs a
        request."""
        if fault.do in REQUEST_FAULTS:
            raise BadFaultError(f"{fault.do} needs `on`, the request that triggers it")
        await self._do(fault, fault.subject)

    async def _again(self, request: Request, fault: Fault) -> None:
        """Processes a request again, or after its delay. Nobody gets the answer."""
        if fault.until is not None or fault.do == "delay":
            await fault.wait()
        begun = now_ms()
        if await self._copies(request) is LOST:
            fault.failed = "the broker didn't answer"
        else:
            fault.fired += 1
        if fault.do != "delay":  # a delayed request is recorded as lost
            self.record(request, begun, None)

    def _hidden(self, request: Request, answer: Answer | Silence) -> Answer | Silence:
        """An answer to Metadata without hidden partitions."""
        if request.name != "Metadata" or not isinstance(answer, Answer):
            return answer
        for fault in self._hiding:
            for topic in answer.fields.get("topics", ()):
                shown = [
                    each
                    for each in topic["partitions"]
                    if f"{topic['name']}-{each['partition_index']}" != fault.partition
                ]
                fault.fired += len(shown) < len(topic["partitions"])
                topic["partitions"] = shown
        return answer

    async def _shows(self, fault: Fault) -> None:
        await fault.wait()
        self._hiding.remove(fault)

    async def _frees_markers(self, fault: Fault) -> None:
        await fault.wait()
        self._marks(False)

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs work in the background. Its exception is raised at the end."""
        task = asyncio.get_running_loop().create_task(work)
        self._working.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._working.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._failures.append(error)

    def report(self, answered: Mapping[str, int], refused: Mapping[str, Refusal]) -> list[str]:
        """The report in lines: the numbers of answered requests by API, the reasons for closed
        connections, and the results of the faults."""
        lines = [f"{sum(answered.values()):,} requests answered"]
        if answered:
            counts = ", ".join(f"{name} {count:,}" for name, count in sorted(answered.items()))
            lines[0] += f": {counts}"
        if self._refused:
            counts = ", ".join(f"{what} {count:,}" for what, count in sorted(self._refused.items()))
            lines.append(f"{self._refused.total():,} requests refused by the authorizer: {counts}")
        for client, one in refused.items():
            times = one.times
            which = f"{times} connection{'s' * (times > 1)} of {client}"
            lines.append(f"{which} closed: {one.reason}")
        return [*lines, *self.faults.report()]


async def _overtaken(request: Request, fault: Fault) -> None:
    """Lets requests after this one be answered first: one request, or all up to the fault's `until`
    request, or all within the fault's time."""
    begun, passed = time.monotonic(), 0
    limit_s = fault.until / 1000 if isinstance(fault.until, int) else PATIENCE_S
    event = fault.listen() if isinstance(fault.until, Matcher) else None
    is_enough = False
    while not is_enough and request.let_pass is not None:
        left_s = limit_s - (time.monotonic() - begun)
        if left_s <= 0 or not await request.let_pass(left_s):
            break
        passed += 1
        is_enough = fault.until is None or (event is not None and event.is_set())
    if event in fault.waiting:
        fault.waiting.remove(event)
    if is_enough or (passed and isinstance(fault.until, int)):
        fault.fired += 1
        fault.failed = None
    else:
        fault.failed = f"no matching request followed on its connection within {limit_s:g} s"


def now_ms() -> float:
    """The wall-clock time in ms."""
    return time.time() * 1000
