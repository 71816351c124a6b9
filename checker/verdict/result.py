"""Verdicts with their exit codes, and the results of runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, TypedDict

from ...language.declaration.notebook import Rendered
from ..trace.trace import Trace
from .vacuity import Vacuity

if TYPE_CHECKING:
    from ...language import Instance
    from ..output.state_tables import Found
    from ..size import Size


class Verdict(Enum):
    """The outcomes of a run; the value is the process's exit code."""

    HOLDS = 0
    INTERNAL_ERROR = 1
    USAGE = 2
    DEADLOCK = 11
    BROKEN = 12
    LEADS_TO_BROKEN = 13
    INCONCLUSIVE = 20
    INTERRUPTED = 130


@dataclass(frozen=True)
class PropertyVerdict:
    """A property's outcome: `holds` in every state within the bounds, `broken`, or `unknown`
    because the search ended early. `trace_length` is the number of steps of the counterexample,
    `note` the known bug behind it; `trace` is the counterexample in a run with `--keep-going`."""

    name: str
    verdict: str
    trace_length: int | None = None
    note: str = ""
    trace: Trace | None = None

    def as_json(self) -> dict[str, Any]:
        """The outcome as plain data."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "trace_length": self.trace_length,
            "note": self.note,
            "trace": None if self.trace is None else self.trace.as_json(),
        }


@dataclass(frozen=True)
class LivenessCost:
    """The cost of checking progress properties: seconds, steps between states, and the most bytes
    that were held at once."""

    seconds: float
    transitions: int
    bytes: int

    def as_json(self) -> dict[str, Any]:
        """The cost as plain data."""
        return {
            "seconds": round(self.seconds, 3),
            "transitions": self.transitions,
            "bytes": self.bytes,
        }


@dataclass(frozen=True)
class Counterexample:
    """A run that breaks a property: `broken` is its name (empty for a deadlock); `without` are the
    rows that were left out of the search for it."""

    verdict: Verdict
    broken: str
    without: tuple[str, ...]
    trace: Trace

    def as_json(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "verdict": self.verdict.name.lower(),
            "broken": self.broken or None,
            "without": list(self.without),
            "trace": self.trace.as_json(),
        }


@dataclass
class Enumeration:
    """Counterexamples, the shortest first; `wanted` is the number requested. Each is the shortest
    that avoids a row of every earlier one. `are_all`: every run that breaks something takes all
    rows of one of these. `searches` counts the searches after the first, `states` their states;
    `stopped` is the limit that ended them early."""

    wanted: int
    found: list[Counterexample]
    are_all: bool = False
    searches: int = 0
    states: int = 0
    stopped: str = ""

    def as_json(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "wanted": self.wanted,
            "are_all": self.are_all,
            "searches": self.searches,
            "states": self.states,
            "stopped": self.stopped or None,
            "found": [item.as_json() for item in self.found],
        }


class Described(TypedDict):
    """The fields of an Outcome about the system of a run."""

    system: str
    protocol: str
    constants: dict[str, int]
    features: list[str]
    switched: list[str]


def described(instance: Instance) -> Described:
    """The fields of an Outcome about an instance."""
    return {
        "system": instance.system.name,
        "protocol": instance.protocol,
        "constants": dict(instance.chosen),
        "features": sorted(instance.features),
        "switched": instance.switched,
    }


@dataclass(kw_only=True)
class Outcome(Rendered):
    """The result of a run of any engine; `depth` counts steps, `seconds` is the time."""

    system: str
    protocol: str
    constants: dict[str, int]
    features: list[str]
    verdict: Verdict
    reason: str
    properties: list[PropertyVerdict]
    depth: int
    seconds: float
    switched: list[str] = field(default_factory=list[str])
    """Features that differ from the release's: `with x and y`, `without z`."""
    deadlocks: bool = True
    """Whether deadlocks were checked: states without a next step where a run must not end."""
    ends_anywhere: bool = False
    """Whether deadlocks weren't checked because the declaration's `terminal` is true."""
    left_out: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    engine: dict[str, Any] = field(default_factory=dict[str, Any])
    """The engine, with its figures."""
    trace: Trace | None = None

    @property
    def exit_code(self) -> int:
        """The process's exit code."""
        return self.verdict.value

    def as_json(self) -> dict[str, Any]:
        """The result as plain data."""
        return {
            "system": self.system,
            "protocol": self.protocol,
            "features": self.features,
            "constants": self.constants,
            "verdict": self.verdict.name.lower(),
            "reason": self.reason,
            "exit_code": self.exit_code,
            "properties": [item.as_json() for item in self.properties],
            "deadlocks": "looked for" if self.deadlocks else "not looked for",
            "depth": self.depth,
            "seconds": round(self.seconds, 3),
            "left_out": self.left_out,
            "notes": self.notes,
            "engine": self.engine,
            "trace": None if self.trace is None else self.trace.as_json(),
        }


@dataclass(kw_only=True)
class Covered(Outcome):
    """The result of a run that takes rows: `rows` has the count of each."""

    rows: list[tuple[str, int]]
    compile_seconds: float = 0.0
    first_depths: dict[str, int] = field(default_factory=dict[str, int])
    """For each row the number of steps of the shortest run that takes it; 0 if none does."""
    each: list[Counterexample] = field(default_factory=list[Counterexample])
    """With `keep_going`: a counterexample of each broken property, `trace` first."""
    vacuous: list[Vacuity] = field(default_factory=list[Vacuity])
    """The items that the run never reached."""

    @property
    def counterexamples(self) -> list[Counterexample]:
        """The counterexamples that were found, the shortest first."""
        if self.each:
            return self.each
        return [] if self.trace is None else [counterexample_of(self, self.trace)]

    @property
    def untested(self) -> dict[str, Vacuity]:
        """The properties that hold vacuously, each with the reason."""
        hold = {item.name for item in self.properties if item.verdict == "holds"}
        whole = (item for item in self.vacuous if item.whole and item.subject in hold)
        return {item.subject: item for item in whole}

    @property
    def unexplained(self) -> list[Vacuity]:
        """The vacuous items without a known reason."""
        return [item for item in self.vacuous if not item.explained]

    @property
    def never_taken(self) -> list[str]:
        """The rows that no step took."""
        return [name for name, taken in self.rows if not taken]


@dataclass(kw_only=True)
class Result(Covered):
    """The result of an exploration. Sizes in bytes, times in seconds.

    `compile_seconds` is the time before the search; with `kernel_from_cache` nothing was compiled.
    """

    states: int
    transitions: int
    kernel_from_cache: bool
    memory: int
    levels: list[int] = field(default_factory=list[int])
    """The number of states that were first reached at each depth, from depth 0 on."""
    symmetry: list[str] = field(default_factory=list[str])
    size: Size | None = None
    """The causes of states, if `explain_size` was set."""
    found: Found | None = None
    """The states, if `keep_states` was set."""
    enumeration: Enumeration | None = None
    """With `all_traces`: the counterexamples, `trace` first."""
    progress_left: int = 0
    """The number of progress properties that were not checked."""
    progress: LivenessCost | None = None
    """The cost of checking progress properties."""

    @property
    def data(self) -> Found:
        """The states and steps that were found, as tables.

        Raises ValueError if `keep_states` wasn't set.
        """
        if self.found is None:
            raise ValueError(
                "no states were stored: use check(instance, Options(keep_states=True))"
            )
        return self.found

    @property
    def seen_whole(self) -> bool:
        """Whether the run explored every state within the bounds and nothing is broken."""
        return all(item.verdict == "holds" for item in self.properties) and self.states > 0

    @property
    def counterexamples(self) -> list[Counterexample]:
        """The counterexamples that were found, the shortest first."""
        return super().counterexamples if self.enumeration is None else self.enumeration.found

    def __post_init__(self) -> None:
        """Makes the verdict of a run without any state inconclusive."""
        if self.verdict is Verdict.HOLDS and not self.states:
            self.verdict, self.reason = Verdict.INCONCLUSIVE, "no state was explored"
            self.properties = [PropertyVerdict(p.name, "unknown") for p in self.properties]

    def as_json(self) -> dict[str, Any]:
        """The result as plain data."""
        rate = round(self.states / self.seconds) if self.seconds else 0
        return super().as_json() | {
            "states": self.states,
            "transitions": self.transitions,
            "compile_seconds": round(self.compile_seconds, 3),
            "kernel_from_cache": self.kernel_from_cache,
            "states_per_second": rate,
            "memory_bytes": self.memory,
            "rows": [
                {"name": name, "taken": taken, "first_depth": self.first_depths.get(name) or None}
                for name, taken in self.rows
            ],
            "counterexamples": None if self.enumeration is None else self.enumeration.as_json(),
            "symmetry": self.symmetry,
            "size": None if self.size is None else self.size.as_json(),
            "vacuous": [item.as_json() for item in self.vacuous],
            "progress": None if self.progress is None else self.progress.as_json(),
            "progress_not_looked_for": self.progress_left,
        }


def counterexample_of(
    outcome: Outcome, trace: Trace, without: tuple[str, ...] = ()
) -> Counterexample:
    """The counterexample of a run that found only one."""
    broken = next((item.name for item in outcome.properties if item.verdict == "broken"), "")
    return Counterexample(outcome.verdict, broken, without, trace)
