"""Writes a trace as a test that repeats its run, step by step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from textwrap import fill, indent

from ...language import Instance
from ..verdict.result import Outcome, Verdict
from .pytest_run import Run
from .trace import Trace

WIDTH = 100
_FILE = '''"""{reason}

The run is one of {name} at {protocol}, in {steps} steps.
"""

from {module} import Run

CONSTANTS = {{
{constants}}}


def test_run() -> None:
{body}
'''


def as_pytest(name: str, instance: Instance, outcome: Outcome) -> str:
    """The file's text: a test with the run of an outcome. `name` is the system's name for
    `load_system`.
    """
    trace = outcome.trace
    assert trace is not None
    usual = instance.system.protocols.features_at(instance.protocol)
    more = {
        "switch_on": sorted(instance.features - usual),
        "switch_off": sorted(usual - instance.features),
        "initial": {at: value for at, value in trace.initial if at in trace.chosen},
    }
    constants = "".join(f"    {_quoted(word)}: {n},\n" for word, n in instance.chosen.items())
    body = [*_call("run = Run", [
        _quoted(name), _quoted(instance.protocol), "CONSTANTS",
        *(f"{word}={_quoted(it)}" for word, it in more.items() if it),
    ])]  # fmt: skip
    for step in trace.steps:
        changes = (f"({', '.join(map(_quoted, change))})" for change in step.changes)
        body += _call("run.takes", [*map(_quoted, (step.actor, step.action, step.row)), *changes])
    body += _end(trace, outcome)
    return _FILE.format(
        reason=fill(_plain(outcome.reason), WIDTH - 3),
        name=name,
        protocol=instance.protocol,
        steps=len(trace.steps),
        module=Run.__module__,
        constants=constants,
        body=indent("\n".join(body), "    "),
    )


def _plain(text: str) -> str:
    """Text that is valid in a docstring."""
    return text.replace("\\", "/").replace('"""', "'''").strip()


def _quoted(text: str | list[str] | dict[str, str]) -> str:
    return json.dumps(text, ensure_ascii=False)


def _call(function: str, arguments: list[str]) -> Iterator[str]:
    """A call, on one line if it fits."""
    whole = f"{function}({', '.join(arguments)})"
    if len(whole) + 4 <= WIDTH:
        yield whole
        return
    yield f"{function}("
    yield from (f"    {argument}," for argument in arguments)
    yield ")"


def _end(trace: Trace, outcome: Outcome) -> Iterator[str]:
    """The conditions at the end of the run."""
    if trace.loop is not None:
        yield f"assert run.states[-1] == run.states[{trace.loop}]"
    elif len(trace.states) == len(trace.steps):
        yield "assert run.leaves_range"
    elif outcome.verdict is Verdict.LEADS_TO_BROKEN:
        yield "# From here on no run comes to what it must."
    elif outcome.verdict is Verdict.DEADLOCK:
        yield 'assert "deadlock" in run.broken'
    else:
        broken = [item.name for item in outcome.properties if item.verdict == "broken"]
        yield from (f"assert {_quoted(name)} in run.broken" for name in broken)
        if not broken:
            yield "assert not run.broken"
