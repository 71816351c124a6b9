"""Faults on demand: their requests, their effects, and whether they fired.

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
"""Faults of a group; the other ones of the cluster are about a transactional id."""
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
"""Those that may have an `until`."""


class BadFaultError(ValueError):
    """A wrong fault. One line says why."""


@cache
def _schema() -> Any:
    text = Path(__file__).with_name("fault.schema.json").read_text(encoding="utf-8")
    return fastjsonschema.compile(json.loads(text))


@dataclass
class Matcher:
    """Which requests are meant, and which of them in their order: from the `nth` on, `times` of
    them."""

    request: str
    nth: int = 1
    times: int = 1
    only: Mapping[str, str] = field(default_factory=dict[str, str])
    seen: int = 0

    def takes(self, request: Request) -> bool:
        """Whether a request is one of those."""
        if request.name != self.request:
            return False
        said = _said_of(request)
        if any(value not in said.get(name, ()) for name, value in self.only.items()):
            return False
        self.seen += 1
        return self.nth <= self.seen < self.nth + self.times


def _matcher(given: Mapping[str, Any]) -> Matcher:
    asked = given["request"]
    known = newest_of(NEWEST)
    if asked not in known or asked == "ApiVersions":
        there = one_of(asked[:MOST_TOLD], sorted(known.keys() - {"ApiVersions"}))
        raise BadFaultError(f"no request is called {asked[:MOST_TOLD]!r}: {there}")
    only = {name: given[name] for name in _SAID if name in given}
    return Matcher(asked, given.get("nth", 1), given.get("times", 1), only)


_SAID: Final = ("transactional_id", "client_id", "topic", "group_id")


def _said_of(request: Request) -> dict[str, set[str]]:
    """The names in a request."""
    fields = request.fields
    ids = {fields.get("transactional_id"), fields.get("v3_and_below_transactional_id")}
    ids |= {one["transactional_id"] for one in fields.get("transactions", ())}
    topics: set[Any] = set()
    for part in (fields, *fields.get("markers", ()), *fields.get("transactions", ())):
        for name in ("topics", "topic_data", "v3_and_below_topics"):
            topics |= {each.get("name", each.get("topic")) for each in part.get(name) or ()}
    found = {
        "transactional_id": ids, "topic": topics, "client_id": {request.client_id},
        "group_id": {fields.get("group_id")},
    }  # fmt: skip
    return {name: {each for each in those if each} for name, those in found.items()}


@dataclass
class Fault:
    """A fault. `fired` counts how often it happened. `failed` says why it last didn't, if its
    request was there."""

    name: str
    do: str
    on: Matcher | None = None
    until: Matcher | int | None = None
    longer_ms: int = 0
    """So long it waits on behind the request that ends its waiting."""
    is_after: bool = False
    transactional_id: str | None = None
    group_id: str | None = None
    loading_ms: int = 0
    producer_epoch: int | None = None
    partition: str = ""
    """The partition that it hides, as orders-0."""
    fired: int = 0
    failed: str | None = None
    waiting: list[asyncio.Event] = field(default_factory=list[asyncio.Event])

    def names(self, request: Request) -> str | None:
        """The transactional id or group that it is about, where a request brings it about."""
        given = self.subject
        said = _said_of(request)["group_id" if self.do in OF_GROUPS else "transactional_id"]
        return min(said, default=None) if given is None else given

    @property
    def subject(self) -> str | None:
        """The transactional id or group that it names."""
        return self.group_id if self.do in OF_GROUPS else self.transactional_id

    def release(self) -> None:
        """Lets the held requests continue."""
        for event in self.waiting:
            event.set()
        self.waiting.clear()

    async def wait(self) -> None:
        """Until it lets go."""
        if isinstance(self.until, int):
            await asyncio.sleep(self.until / 1000)
            return
        await self.listen().wait()
        await asyncio.sleep(self.longer_ms / 1000)

    def listen(self) -> asyncio.Event:
        """Hears of it when it lets go."""
        event = asyncio.Event()
        self.waiting.append(event)
        if isinstance(self.until, Matcher):
            self.until.seen = 0
        return event

    def told(self) -> dict[str, Any]:
        """It, for other programs."""
        found: dict[str, Any] = {"name": self.name, "do": self.do, "fired": self.fired}
        found["waiting"] = len(self.waiting)
        if self.failed is not None:
            found["failed"] = self.failed
        return found

    def given(self) -> dict[str, Any]:
        """It, as a script has it that waits for nothing but time."""
        assert self.on is not None
        found: dict[str, Any] = {"name": self.name, "do": self.do}
        found["on"] = {"request": self.on.request, "nth": self.on.nth}
        if isinstance(self.until, int):
            found["until"] = {"ms": self.until}
        return found

    def text(self) -> str:
        """It in a line."""
        if self.fired:
            return f"fault {self.name}: fired {self.fired} time{'s' * (self.fired > 1)}"
        if self.failed is not None:
            return f"fault {self.name}: DID NOT FIRE: {self.failed}"
        if self.waiting:
            return f"fault {self.name}: DID NOT FIRE: what it waits for never came"
        assert self.on is not None
        seen = self.on.seen
        return (
            f"fault {self.name}: DID NOT FIRE: {seen} such {self.on.request} came, and it is for "
            f"number {self.on.nth}"
        )


@dataclass
class Faults:
    """The faults of a server, in the order in which they were given. `refused` says which it can't
    bring about, and why; `drawn` draws more at random."""

    all: dict[str, Fault] = field(default_factory=dict[str, Fault])
    refused: Mapping[str, str] = field(default_factory=dict[str, str])
    drawn: Drawn | None = None

    def add(self, given: Any) -> Fault:
        """One more. Raises BadFaultError."""
        fault = fault_of(given, name=f"fault-{len(self.all) + 1}")
        if fault.name in self.all:
            raise BadFaultError(f"two faults are called {fault.name}")
        if fault.on is None:
            raise BadFaultError("a fault needs `on`, the request that brings it about")
        if fault.do in self.refused:
            raise BadFaultError(f"{fault.do}: {self.refused[fault.do]}")
        self.all[fault.name] = fault
        return fault

    def at(self, request: Request) -> list[Fault]:
        """Those that a request brings about."""
        found: list[Fault] = []
        for fault in self.all.values():
            if fault.on is not None and fault.on.takes(request):
                found.append(fault)
        drawn = None if self.drawn is None else self.drawn.at(request)
        return found if drawn is None else [*found, drawn]

    def answered(self, request: Request) -> None:
        """A request was answered: those that waited for it let go."""
        for fault in self.all.values():
            if fault.waiting and isinstance(fault.until, Matcher) and fault.until.takes(request):
                fault.release()

    @property
    def unfired(self) -> list[Fault]:
        """The faults that didn't happen; drawn ones if none of them did."""
        drawn = [] if self.drawn is None or self.drawn.fired else self.drawn.faults
        return [*(fault for fault in self.all.values() if not fault.fired), *drawn]

    @property
    def all_fired(self) -> bool:
        """Whether each came about, and, where some are drawn, one of these at least."""
        return not self.unfired and (self.drawn is None or self.drawn.fired > 0)

    def report(self) -> list[str]:
        """The outcome of the faults, a line for each; drawn ones have one together."""
        drawn = [] if self.drawn is None else [self.drawn.text()]
        return [*(fault.text() for fault in self.all.values()), *drawn]


RANDOM_FOR: Final = frozenset(
    ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn",
     "Produce")
)  # fmt: skip
"""The requests that meet faults at random: those of the protocol."""
RANDOM: Final = (
    "lose_request", "lose_answer", "hold", "hold_answer", "delay", "duplicate", "reorder",
)  # fmt: skip
LONGEST_MS: Final = 300
"""So long something waits at most that waits at random."""
MOST_KEPT: Final = 1000
"""So many faults are kept before those that are over are forgotten."""


@dataclass
class Drawn:
    """Faults at random: each request of RANDOM_FOR meets one with the probability `rate`. It is the
    `seed`, the API and the number of the request among those of its API that say which.

    Only the last faults are kept; of those that are over, what came of them.
    """

    rate: float
    seed: int
    kinds: tuple[str, ...] = RANDOM
    seen: Counter[str] = field(default_factory=Counter[str])
    faults: list[Fault] = field(default_factory=list[Fault])
    """The last ones."""
    _fired: Counter[str] = field(default_factory=Counter[str])
    """By kind, how many of the others came about."""
    _failed: Counter[str] = field(default_factory=Counter[str])
    """By reason, how many of the others didn't."""
    _at: dict[str, array[int]] = field(default_factory=dict[str, "array[int]"])
    """By API, the numbers of the requests at which the others came about."""

    def at(self, request: Request) -> Fault | None:
        """The fault of a request, if it meets one."""
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
        """Forgets the faults that are over, but not what came of them."""
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
        """How many were drawn."""
        return len(self.faults) + self._fired.total() + self._failed.total()

    @property
    def fired(self) -> int:
        """How many came about."""
        return self.fired_kinds.total()

    @property
    def fired_kinds(self) -> Counter[str]:
        """By kind, how many came about."""
        return self._fired + Counter(fault.do for fault in self.faults if fault.fired)

    def script(self) -> list[dict[str, Any]]:
        """Those that came about, as a script that has them at the same requests again."""
        found: list[dict[str, Any]] = []
        for name, numbers in self._at.items():
            for nth in numbers:
                drawn = self._random(name, nth)
                drawn.random()
                found.append(self._fault(name, nth, drawn).given())
        return [*found, *(fault.given() for fault in self.faults if fault.fired)]

    def text(self) -> str:
        """Them in a line."""
        kinds = self.fired_kinds
        told = ", ".join(f"{do} {count}" for do, count in sorted(kinds.items()))
        line = f"faults at random, seed {self.seed}: {kinds.total()} fired of {self.count} drawn"
        line += f" for {self.seen.total():,} requests" + f": {told}" * bool(told)
        idle = (fault for fault in self.faults if not fault.fired)
        why = self._failed + Counter(fault.failed or "it is still in flight" for fault in idle)
        if why:
            line += f"; DID NOT FIRE: {why.most_common(1)[0][0]}"
        return line


def fault_of(given: Any, *, name: str) -> Fault:
    """The fault that an object is; `name` is for one without. Raises BadFaultError."""
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
    """The data in a text of JSON. Raises BadFaultError."""
    try:
        return read_json(text)
    except NotJsonError as error:
        raise BadFaultError(str(error)) from None


def read_script(text: bytes) -> list[Any]:
    """The faults of a script: an object, or a list of them. Raises BadFaultError."""
    found = read_object(text)
    return found if isinstance(found, list) else [found]


def script_text(faults: Iterable[Mapping[str, Any]]) -> str:
    """The script of faults: a line for each."""
    lines = ",\n".join(f"  {json.dumps(fault)}" for fault in faults)
    return f"[\n{lines}\n]\n" if lines else "[]\n"


def read_short(text: str) -> Any:
    """A fault as a command line has it: DO:REQUEST, DO:REQUEST:NTH, or JSON. Raises
    BadFaultError."""
    if text.startswith("{"):
        return read_object(text.encode("utf-8", "replace"))
    parts = text.split(":")
    if len(parts) not in (2, 3) or (len(parts) == 3 and not re.fullmatch("[0-9]+", parts[2])):
        raise BadFaultError("write DO:REQUEST, DO:REQUEST:NTH, or an object of JSON")
    nth = {"nth": int(parts[2][:10])} if len(parts) == 3 else {}
    return {"do": parts[0], "on": {"request": parts[1], **nth}}
