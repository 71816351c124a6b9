"""Injected faults: their requests, their effects, and whether they fired.

A fault is an object of JSON, valid under fault.schema.json.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
import json
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

import fastjsonschema

from ....language.declaration.arguments import one_of
from ....spec.releases.broker_versions import newest_of
from ....spec.releases.features import NEWEST
from ....strict_json import NotJsonError, read_json
from ...wire.listener import Request

MOST_TOLD: Final = 300
HIDE: Final = "hide_partition"
OF_GROUPS: Final = frozenset(("expire_members",))
"""Faults of a group. The other faults of the cluster concern a transactional id."""
REQUEST_FAULTS: Final = frozenset(
    (
        "lose_request",
        "lose_answer",
        "hold",
        "hold_answer",
        "delay",
        "duplicate",
        "reorder",
        "hold_markers",
        HIDE,
    )
)
"""Faults of a request or its answer; the others are faults of the cluster."""
WAITING: Final = frozenset(
    ("hold", "hold_answer", "hold_markers", HIDE, "delay", "duplicate", "reorder", "lose_answer")
)
"""The faults that may have `until`."""


class BadFaultError(ValueError):
    """A wrong fault. The message is one line with the reason."""


@cache
def _schema() -> Any:
    text = Path(__file__).with_name("fault.schema.json").read_text(encoding="utf-8")
    return fastjsonschema.compile(json.loads(text))


@dataclass
class Matcher:
    """Matches requests: of those with these properties, `times` requests from the `nth` on."""

    request: str
    nth: int = 1
    times: int = 1
    only: Mapping[str, str] = field(default_factory=dict[str, str])
    seen: int = 0

    def takes(self, request: Request) -> bool:
        """Whether a request matches. Counts it."""
        if request.name != self.request:
            return False
        said = _said_of(request)
        if any(value not in said.get(name, ()) for name, value in self.only.items()):
            return False
        self.seen += 1
        return self.nth <= self.seen < self.nth + self.times


def _matcher(given: Mapping[str, Any]) -> Matcher:
    request_name = given["request"]
    known = newest_of(NEWEST)
    if request_name not in known or request_name == "ApiVersions":
        there = one_of(request_name[:MOST_TOLD], sorted(known.keys() - {"ApiVersions"}))
        raise BadFaultError(f"no request is called {request_name[:MOST_TOLD]!r}: {there}")
    only = {name: given[name] for name in _SAID if name in given}
    return Matcher(request_name, given.get("nth", 1), given.get("times", 1), only)


_SAID: Final = ("transactional_id", "client_id", "topic", "group_id")


def _said_of(request: Request) -> dict[str, set[str]]:
    """The names in a request, by the properties of a matcher."""
    fields = request.fields
    ids = {fields.get("transactional_id"), fields.get("v3_and_below_transactional_id")}
    ids |= {one["transactional_id"] for one in fields.get("transactions", ())}
    topics: set[Any] = set()
    for part in (fields, *fields.get("markers", ()), *fields.get("transactions", ())):
        for name in ("topics", "topic_data", "v3_and_below_topics"):
            topics |= {each.get("name", each.get("topic")) for each in part.get(name) or ()}
    found = {
        "transactional_id": ids,
        "topic": topics,
        "client_id": {request.client_id},
        "group_id": {fields.get("group_id")},
    }
    return {name: {each for each in those if each} for name, those in found.items()}


@dataclass
class Fault:
    """A fault. `fired` is the number of times that it happened. `failed` is the reason why it last
    didn't happen although its request came."""

    name: str
    do: str
    on: Matcher | None = None
    until: Matcher | int | None = None
    longer_ms: int = 0
    """The additional wait in ms after the request that ends the wait."""
    is_after: bool = False
    transactional_id: str | None = None
    group_id: str | None = None
    loading_ms: int = 0
    producer_epoch: int | None = None
    partition: str = ""
    """The partition that the fault hides, such as orders-0."""
    fired: int = 0
    failed: str | None = None
    waiting: list[asyncio.Event] = field(default_factory=list[asyncio.Event])

    def names(self, request: Request) -> str | None:
        """The transactional id or group that the fault concerns: its own or the request's."""
        given = self.subject
        said = _said_of(request)["group_id" if self.do in OF_GROUPS else "transactional_id"]
        return min(said, default=None) if given is None else given

    @property
    def subject(self) -> str | None:
        """The transactional id or group in the fault itself."""
        return self.group_id if self.do in OF_GROUPS else self.transactional_id

    def release(self) -> None:
        """Lets the held requests continue."""
        for event in self.waiting:
            event.set()
        self.waiting.clear()

    async def wait(self) -> None:
        """Waits until the fault releases its requests."""
        if isinstance(self.until, int):
            await asyncio.sleep(self.until / 1000)
            return
        await self.listen().wait()
        await asyncio.sleep(self.longer_ms / 1000)

    def listen(self) -> asyncio.Event:
        """An event that is set when the fault releases its requests."""
        event = asyncio.Event()
        self.waiting.append(event)
        if isinstance(self.until, Matcher):
            self.until.seen = 0
        return event

    def told(self) -> dict[str, Any]:
        """The fault's state as plain data."""
        found: dict[str, Any] = {"name": self.name, "do": self.do, "fired": self.fired}
        found["waiting"] = len(self.waiting)
        if self.failed is not None:
            found["failed"] = self.failed
        return found

    def given(self) -> dict[str, Any]:
        """The fault as an object of a script, if it waits only for time."""
        assert self.on is not None
        found: dict[str, Any] = {"name": self.name, "do": self.do}
        found["on"] = {"request": self.on.request, "nth": self.on.nth}
        if isinstance(self.until, int):
            found["until"] = {"ms": self.until}
        return found

    def text(self) -> str:
        """The fault's result as a line of text."""
        if self.fired:
            return f"fault {self.name}: fired {self.fired} time{'s' * (self.fired > 1)}"
        if self.failed is not None:
            return f"fault {self.name}: DID NOT FIRE: {self.failed}"
        if self.waiting:
            return f"fault {self.name}: DID NOT FIRE: the event that it waits for never came"
        assert self.on is not None
        seen = self.on.seen
        return (
            f"fault {self.name}: DID NOT FIRE: {seen} such {self.on.request} came, and it is for "
            f"number {self.on.nth}"
        )


@dataclass
class Faults:
    """The faults of a server, in the order in which they were added. `refused` has the impossible
    faults with reasons. `drawn` adds random faults."""

    all: dict[str, Fault] = field(default_factory=dict[str, Fault])
    refused: Mapping[str, str] = field(default_factory=dict[str, str])
    drawn: Drawn | None = None

    def add(self, given: Any) -> Fault:
        """Adds a fault. Raises BadFaultError."""
        fault = fault_of(given, name=f"fault-{len(self.all) + 1}")
        if fault.name in self.all:
            raise BadFaultError(f"two faults are called {fault.name}")
        if fault.on is None:
            raise BadFaultError("a fault needs `on`, the request that triggers it")
        if fault.do in self.refused:
            raise BadFaultError(f"{fault.do}: {self.refused[fault.do]}")
        self.all[fault.name] = fault
        return fault

    def at(self, request: Request) -> list[Fault]:
        """The faults that apply to a request."""
        found: list[Fault] = []
        for fault in self.all.values():
            if fault.on is not None and fault.on.takes(request):
                found.append(fault)
        drawn = None if self.drawn is None else self.drawn.at(request)
        return found if drawn is None else [*found, drawn]

    def answered(self, request: Request) -> None:
        """Notes an answered request: faults that waited for it release their requests."""
        for fault in self.all.values():
            if fault.waiting and isinstance(fault.until, Matcher) and fault.until.takes(request):
                fault.release()

    @property
    def unfired(self) -> list[Fault]:
        """The faults that didn't happen, including the random ones if none of those did."""
        drawn = [] if self.drawn is None or self.drawn.fired else self.drawn.faults
        return [*(fault for fault in self.all.values() if not fault.fired), *drawn]

    @property
    def all_fired(self) -> bool:
        """Whether each fault happened, and at least one random fault if there are any."""
        return not self.unfired and (self.drawn is None or self.drawn.fired > 0)

    def report(self) -> list[str]:
        """The outcome of each fault in a line; random faults share one line."""
        drawn = [] if self.drawn is None else [self.drawn.text()]
        return [*(fault.text() for fault in self.all.values()), *drawn]


RANDOM_FOR: Final = frozenset(
    ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn",
     "Produce")
)  # fmt: skip
"""The requests that may get random faults: those of the protocol."""
RANDOM: Final = (
    "lose_request", "lose_answer", "hold", "hold_answer", "delay", "duplicate", "reorder",
)  # fmt: skip
LONGEST_MS: Final = 300
"""The longest wait of a random fault in ms."""
MOST_KEPT: Final = 1000
"""The number of kept random faults after which finished ones are summarized."""


@dataclass
class Drawn:
    """Random faults: each request of RANDOM_FOR gets a fault with the probability `rate`. The fault
    depends only on `seed`, the API, and the number of the request among those of its API.

    Only the last faults are kept. Earlier ones are counted by result.
    """

    rate: float
    seed: int
    kinds: tuple[str, ...] = RANDOM
    seen: Counter[str] = field(default_factory=Counter[str])
    faults: list[Fault] = field(default_factory=list[Fault])
    """The last faults."""
    _fired: Counter[str] = field(default_factory=Counter[str])
    """The numbers of earlier faults that happened, by kind."""
    _failed: Counter[str] = field(default_factory=Counter[str])
    """The numbers of earlier faults that didn't happen, by reason."""
    _at: dict[str, array[int]] = field(default_factory=dict[str, "array[int]"])
    """The numbers of the requests at which earlier faults happened, by API."""

    def at(self, request: Request) -> Fault | None:
        """The random fault of a request, if any."""
        if request.name not in RANDOM_FOR:
            return None
        self.seen[request.name] += 1
        nth = self.seen[request.name]
        drawn = self._random(request.name, nth)
        if drawn.random() >= self.rate:
            return None
        if len(self.faults) >= MOST_KEPT and self.fired:
            self._settle()
        self.faults.append(self._fault(request.name, nth, drawn))
        return self.faults[-1]

    def _random(self, name: str, nth: int) -> Random:
        return Random(f"{self.seed} {name} {nth}")

    def _fault(self, name: str, nth: int, drawn: Random) -> Fault:
        do = drawn.choice(self.kinds)
        until = None if do.startswith("lose") else drawn.randint(1, LONGEST_MS)
        return Fault(f"random-{name}-{nth}", do, Matcher(name, nth, seen=nth), until)

    def _settle(self) -> None:
        """Replaces finished faults by their counts."""
        left: list[Fault] = []
        for fault in self.faults:
            assert fault.on is not None
            if fault.fired:
                self._fired[fault.do] += 1
                self._at.setdefault(fault.on.request, array("Q")).append(fault.on.nth)
            elif fault.failed is not None:
                self._failed[fault.failed] += 1
            else:
                left.append(fault)
        self.faults = left

    @property
    def count(self) -> int:
        """The number of random faults."""
        return len(self.faults) + self._fired.total() + self._failed.total()

    @property
    def fired(self) -> int:
        """The number of random faults that happened."""
        return self.fired_kinds.total()

    @property
    def fired_kinds(self) -> Counter[str]:
        """The numbers of random faults that happened, by kind."""
        return self._fired + Counter(fault.do for fault in self.faults if fault.fired)

    def script(self) -> list[dict[str, Any]]:
        """The faults that happened, as a script that repeats them at the same requests."""
        found: list[dict[str, Any]] = []
        for name, numbers in self._at.items():
            for nth in numbers:
                drawn = self._random(name, nth)
                drawn.random()
                found.append(self._fault(name, nth, drawn).given())
        return [*found, *(fault.given() for fault in self.faults if fault.fired)]

    def text(self) -> str:
        """The result of all random faults as a line of text."""
        kinds = self.fired_kinds
        counts = ", ".join(f"{do} {count}" for do, count in sorted(kinds.items()))
        line = f"faults at random, seed {self.seed}: {kinds.total()} fired of {self.count} drawn"
        line += f" for {self.seen.total():,} requests" + f": {counts}" * bool(counts)
        idle = (fault for fault in self.faults if not fault.fired)
        why = self._failed + Counter(fault.failed or "it is still in flight" for fault in idle)
        if why:
            line += f"; DID NOT FIRE: {why.most_common(1)[0][0]}"
        return line


def fault_of(given: Any, *, name: str) -> Fault:
    """The fault of a JSON object. `name` is its name if it has none. Raises BadFaultError."""
    try:
        _schema()(given)
    except fastjsonschema.JsonSchemaValueException as error:
        what = str(error.message).removeprefix("data").lstrip(". ")[:MOST_TOLD]
        raise BadFaultError(f"{what}: see fault.schema.json") from None
    except RecursionError:
        raise BadFaultError("it is nested too deep: see fault.schema.json") from None
    do, until = given["do"], given.get("until")
    if until is not None and do not in WAITING:
        raise BadFaultError(f"{do} has no `until`")
    if do == "skip_to_epoch" and "producer_epoch" not in given:
        raise BadFaultError("skip_to_epoch needs `producer_epoch`")
    if (do == HIDE) != ("partition" in given):
        raise BadFaultError(f"{HIDE} needs `partition`, as orders-0, and no other fault has it")
    if "ms" in given.get("on", ()):
        raise BadFaultError("`on` has no `ms`")
    if do in REQUEST_FAULTS and "when" in given:
        raise BadFaultError(f"{do} has no `when`")
    return Fault(
        given.get("name", name), do, _matcher(given["on"]) if "on" in given else None,
        _until(until), 0 if until is None or "request" not in until else until.get("ms", 0),
        given.get("when") == "after", given.get("transactional_id"), given.get("group_id"),
        given.get("loading_ms", 0), given.get("producer_epoch"), given.get("partition", ""),
    )  # fmt: skip


def _until(given: Mapping[str, Any] | None) -> Matcher | int | None:
    if given is None:
        return None
    return _matcher(given) if "request" in given else given["ms"]


def read_object(text: bytes) -> Any:
    """The data in a JSON text. Raises BadFaultError."""
    try:
        return read_json(text)
    except NotJsonError as error:
        raise BadFaultError(str(error)) from None


def read_script(text: bytes) -> list[Any]:
    """The faults of a script: an object, or a list of them. Raises BadFaultError."""
    found = read_object(text)
    return found if isinstance(found, list) else [found]


def script_text(faults: Iterable[Mapping[str, Any]]) -> str:
    """A script of these faults, one on each line."""
    lines = ",\n".join(f"  {json.dumps(fault)}" for fault in faults)
    return f"[\n{lines}\n]\n" if lines else "[]\n"


def read_short(text: str) -> Any:
    """A fault from the command line: DO:REQUEST, DO:REQUEST:NTH, or JSON. Raises BadFaultError."""
    if text.startswith("{"):
        return read_object(text.encode("utf-8", "replace"))
    parts = text.split(":")
    if len(parts) not in (2, 3) or (len(parts) == 3 and not re.fullmatch("[0-9]+", parts[2])):
        raise BadFaultError("write DO:REQUEST, DO:REQUEST:NTH, or an object of JSON")
    nth = {"nth": int(parts[2][:10])} if len(parts) == 3 else {}
    return {"do": parts[0], "on": {"request": parts[1], **nth}}
