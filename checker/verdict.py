"""What a run comes to, and the exit code that says so."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from .trace import Trace


class Verdict(Enum):
    """The outcomes of a run; the value is the process's exit code."""

    HOLDS = 0
    INTERNAL_ERROR = 1
    USAGE = 2
    DEADLOCK = 11
    BROKEN = 12
    LEADS_TO_BROKEN = 13
    INCONCLUSIVE = 20


@dataclass(frozen=True)
class PropertyVerdict:
    """A property's outcome: `holds` in every state within the bounds, `broken`, or `unknown`
    because the search ended before it could tell. `trace_length` counts the steps, `note` says
    what is known of a broken one."""

    name: str
    verdict: str
    trace_length: int | None = None
    note: str = ""


@dataclass(kw_only=True)
class Outcome:
    """What a run of any engine comes to, `depth` steps deep. Times in seconds."""

    system: str
    protocol: str
    constants: dict[str, int]
    features: list[str]
    verdict: Verdict
    reason: str
    properties: list[PropertyVerdict]
    depth: int
    seconds: float
    left_out: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    engine: dict[str, Any] = field(default_factory=dict[str, Any])
    """What carried the search, and what that took."""
    trace: Trace | None = None

    def as_json(self) -> dict[str, Any]:
        """The result as plain data."""
        return {
            "system": self.system,
            "protocol": self.protocol,
            "features": self.features,
            "constants": self.constants,
            "verdict": self.verdict.name.lower(),
            "reason": self.reason,
            "exit_code": self.verdict.value,
            "properties": [
                {
                    "name": p.name,
                    "verdict": p.verdict,
                    "trace_length": p.trace_length,
                    "note": p.note,
                }
                for p in self.properties
            ],
            "depth": self.depth,
            "seconds": round(self.seconds, 3),
            "left_out": self.left_out,
            "notes": self.notes,
            "engine": self.engine,
            "trace": None if self.trace is None else self.trace.as_json(),
        }


@dataclass(kw_only=True)
class Result(Outcome):
    """What an exploration found out. Sizes in bytes."""

    states: int
    transitions: int
    compile_seconds: float
    memory: int
    rows: list[tuple[str, int]]
    symmetry: list[str] = field(default_factory=list[str])

    @property
    def never_taken(self) -> list[str]:
        """Rows that no step took."""
        return [name for name, taken in self.rows if not taken]

    def as_json(self) -> dict[str, Any]:
        """The result as plain data."""
        rate = round(self.states / self.seconds) if self.seconds else 0
        return super().as_json() | {
            "states": self.states,
            "transitions": self.transitions,
            "compile_seconds": round(self.compile_seconds, 3),
            "states_per_second": rate,
            "memory_bytes": self.memory,
            "rows": [{"name": name, "taken": taken} for name, taken in self.rows],
            "symmetry": self.symmetry,
        }
