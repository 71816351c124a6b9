"""Faults on demand: which request they are for, what they do, and whether they came about.

A fault is an object of JSON, valid under fault.schema.json.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import fastjsonschema

from ...spec.broker_versions import newest_of
from ...spec.features import NEWEST
from ...strict_json import NotJson, read_json
from .wire import Request

MOST_TOLD: Final = 300
REQUEST_FAULTS: Final = frozenset(
    ("lose_request", "lose_answer", "hold", "hold_answer", "duplicate", "hold_markers")
)
"""What is done to a request or its answer; the others are done to the cluster."""
WAITING: Final = frozenset(("hold", "hold_answer", "hold_markers"))


class BadFault(ValueError):
    """What is no fault; one line says why."""


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
        names = ", ".join(sorted(known.keys() - {"ApiVersions"}))
        raise BadFault(f"no request is called {asked[:MOST_TOLD]!r}: take one of {names}")
    only = {name: given[name] for name in _SAID if name in given}
    return Matcher(asked, given.get("nth", 1), given.get("times", 1), only)


_SAID: Final = ("transactional_id", "client_id", "topic", "group_id")


def _said_of(request: Request) -> dict[str, set[str]]:
    """What a request names."""
    fields = request.fields
    ids = {fields.get("transactional_id"), fields.get("v3_and_below_transactional_id")}
    ids |= {one["transactional_id"] for one in fields.get("transactions", ())}
    topics: set[Any] = set()
    for name in ("topics", "topic_data", "v3_and_below_topics"):
        topics |= {each.get("name", each.get("topic")) for each in fields.get(name) or ()}
    found = {
        "transactional_id": ids, "topic": topics, "client_id": {request.client_id},
        "group_id": {fields.get("group_id")},
    }  # fmt: skip
    return {name: {each for each in those if each} for name, those in found.items()}


@dataclass
class Fault:
    """A fault. `fired` counts how often it came about; `failed` says why it last didn't, where its
    request was there and it couldn't."""

    name: str
    do: str
    on: Matcher | None = None
    until: Matcher | int | None = None
    is_after: bool = False
    transactional_id: str | None = None
    loading_ms: int = 0
    producer_epoch: int | None = None
    fired: int = 0
    failed: str | None = None
    waiting: list[asyncio.Event] = field(default_factory=list[asyncio.Event])

    def names(self, request: Request) -> str | None:
        """The transactional id that it is about, where a request brings it about."""
        if self.transactional_id is not None:
            return self.transactional_id
        said = _said_of(request)["transactional_id"]
        return min(said) if said else None

    def release(self) -> None:
        """What it holds goes on."""
        for event in self.waiting:
            event.set()
        self.waiting.clear()

    async def wait(self) -> None:
        """Until it lets go."""
        if isinstance(self.until, int):
            await asyncio.sleep(self.until / 1000)
            return
        event = asyncio.Event()
        self.waiting.append(event)
        if isinstance(self.until, Matcher):
            self.until.seen = 0
        await event.wait()

    def told(self) -> dict[str, Any]:
        """It, for other programs."""
        found: dict[str, Any] = {"name": self.name, "do": self.do, "fired": self.fired}
        found["waiting"] = len(self.waiting)
        if self.failed is not None:
            found["failed"] = self.failed
        return found

    def text(self) -> str:
        """It in a line."""
        if self.fired:
            return f"fault {self.name}: fired {self.fired} time{'s' * (self.fired > 1)}"
        if self.failed is not None:
            return f"fault {self.name}: DID NOT FIRE: {self.failed}"
        assert self.on is not None
        seen = self.on.seen
        return (
            f"fault {self.name}: DID NOT FIRE: {seen} such {self.on.request} came, and it is for "
            f"number {self.on.nth}"
        )


@dataclass
class Faults:
    """The faults of a server, in the order in which they were given."""

    all: dict[str, Fault] = field(default_factory=dict[str, Fault])

    def add(self, given: Any) -> Fault:
        """One more. Raises BadFault."""
        fault = fault_of(given, name=f"fault-{len(self.all) + 1}")
        if fault.name in self.all:
            raise BadFault(f"two faults are called {fault.name}")
        if fault.on is None:
            raise BadFault("a fault needs `on`, the request that brings it about")
        self.all[fault.name] = fault
        return fault

    def at(self, request: Request) -> list[Fault]:
        """Those that a request brings about."""
        found: list[Fault] = []
        for fault in self.all.values():
            if fault.on is not None and fault.on.takes(request):
                found.append(fault)
        return found

    def answered(self, request: Request) -> None:
        """A request was answered: those that waited for it let go."""
        for fault in self.all.values():
            if fault.waiting and isinstance(fault.until, Matcher) and fault.until.takes(request):
                fault.release()

    @property
    def unfired(self) -> list[Fault]:
        """Those that didn't come about."""
        return [fault for fault in self.all.values() if not fault.fired]


def fault_of(given: Any, *, name: str) -> Fault:
    """The fault that an object is; `name` is for one without. Raises BadFault."""
    try:
        _schema()(given)
    except fastjsonschema.JsonSchemaValueException as error:
        what = str(error.message).removeprefix("data").lstrip(". ")[:MOST_TOLD]
        raise BadFault(f"{what}: see fault.schema.json") from None
    except RecursionError:
        raise BadFault("it is nested too deep: see fault.schema.json") from None
    do, until = given["do"], given.get("until")
    if until is not None and do not in (*WAITING, "duplicate"):
        raise BadFault(f"{do} has no `until`")
    if do == "skip_to_epoch" and "producer_epoch" not in given:
        raise BadFault("skip_to_epoch needs `producer_epoch`")
    if do in REQUEST_FAULTS and "when" in given:
        raise BadFault(f"{do} has no `when`")
    return Fault(
        given.get("name", name), do, _matcher(given["on"]) if "on" in given else None,
        None if until is None else until["ms"] if "ms" in until else _matcher(until),
        given.get("when") == "after", given.get("transactional_id"), given.get("loading_ms", 0),
        given.get("producer_epoch"),
    )  # fmt: skip


def read_object(text: bytes) -> Any:
    """What a text of JSON says. Raises BadFault."""
    try:
        return read_json(text)
    except NotJson as error:
        raise BadFault(f"no JSON ({error})") from None


def read_script(text: bytes) -> list[Any]:
    """The faults of a script: an object, or a list of them. Raises BadFault."""
    found = read_object(text)
    return found if isinstance(found, list) else [found]


def read_short(text: str) -> Any:
    """A fault as a command line has it: DO:REQUEST, DO:REQUEST:NTH, or JSON. Raises BadFault."""
    if text.startswith("{"):
        return read_object(text.encode("utf-8", "replace"))
    parts = text.split(":")
    if len(parts) not in (2, 3) or (len(parts) == 3 and not parts[2].isdigit()):
        raise BadFault("write DO:REQUEST, DO:REQUEST:NTH, or an object of JSON")
    nth = {"nth": int(parts[2][:10])} if len(parts) == 3 else {}
    return {"do": parts[0], "on": {"request": parts[1], **nth}}
