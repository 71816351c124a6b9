"""Faults that are put into a system: each breaks a property, which shows what protects it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import System
from epochfence.spec.releases.features import NEWEST


@dataclass(frozen=True)
class Fault:
    """What breaks the property `breaks`: in `steps` steps, the last by the row `last`. The fault is
    in the `system`, or in features that are `on` or `off`."""

    name: str
    breaks: str
    steps: int
    last: str
    constants: Mapping[str, int] = field(default_factory=dict[str, int])
    system: System | None = None
    protocol: str = NEWEST
    off: tuple[str, ...] = ()
    on: tuple[str, ...] = ()
    bounds: str | None = None

    def __str__(self) -> str:
        return f"{self.breaks}: {self.name}"

    def assert_found(self, result: Result) -> list[str]:
        """Checks that this is the result of a run that looks for the property alone. Returns the
        steps, each as event and row."""
        assert result.verdict is Verdict.BROKEN, result.reason
        assert result.trace is not None
        steps = [f"{step.action.partition('(')[0]}/{step.row}" for step in result.trace.steps]
        assert (result.properties[0].trace_length, steps[-1]) == (self.steps, self.last)
        return steps
