"""Replays a trace from a file on the executable model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...language import Instance
from ...language.types import Value
from ...model.engine.interpreter import FullState, Interpreter, Step
from ..ground import ground
from ..tla.names import names_of
from ..verdict.result import Outcome, PropertyVerdict, Verdict, described
from ..verdict.violation import Kind, set_violation
from .itf import TraceError, TraceFile, decoded, shown
from .lasso import Lasso, label_of, tell_dead_end, tell_lasso
from .trace import ReplayError, Trace, shown_trace

MOST = 10_000
"""The most runs that are followed at once, for a trace that doesn't name every variable."""


def replay(instance: Instance, file: TraceFile) -> Outcome:
    """The result of the run with the trace's states: the property that doesn't hold at its end, if
    any. A trace may omit variables and repeat a state.

    Raises TraceError if there is no such run.
    """
    machine = Interpreter(instance)
    states, steps = run_of(instance, file)
    outcome = Outcome(
        **described(instance),
        verdict=Verdict.INCONCLUSIVE,
        reason="Every property holds in this run. Other runs were not checked.",
        properties=[],
        depth=len(steps),
        seconds=0.0,
    )
    try:
        if file.loop is not None:
            _tell_progress(instance, states, steps, file, outcome)
        else:
            _tell_end(machine, states, steps, file, outcome)
    except ReplayError as error:
        raise TraceError(str(error)) from None
    if outcome.trace is None:
        outcome.trace = shown_trace(instance, states, steps, outcome.reason)
    return outcome


def breaking(instance: Instance, file: TraceFile) -> tuple[Trace, list[str]]:
    """The run with a trace's states, and every property that it breaks at its end, the file's one
    first. Raises TraceError if there is no such run.
    """
    states, steps = run_of(instance, file)
    found = {item.name for item in Interpreter(instance).broken(states)}
    if found:
        run = shown_trace(instance, states, steps, "")
    else:
        outcome = replay(instance, file)
        found = {item.name for item in outcome.properties if item.verdict == "broken"}
        run = outcome.trace
    assert run is not None
    return run, sorted(found, key=lambda name: (name != file.broken, name))


def run_of(instance: Instance, file: TraceFile) -> tuple[list[FullState], list[Step]]:
    """The states and steps of the run with a trace's states. Raises TraceError if there is none."""
    return _run(Interpreter(instance), list(_wanted(instance, file)))


@dataclass(frozen=True)
class _Wanted:
    """A state of a trace: its values by the variables' indices, and the row that leads to it, if
    the trace has one.
    """

    number: int
    values: dict[int, Value]
    row: str

    def fits(self, state: FullState) -> bool:
        return all(state[at] == value for at, value in self.values.items())


def _wanted(instance: Instance, file: TraceFile) -> Iterator[_Wanted]:
    """The states of a trace, without repeated ones."""
    known = {variable.name: at for at, variable in enumerate(instance.variables)}
    names = names_of(instance)  # the names in the module of `export tla`
    known |= {names.variable(v.name): at for at, v in enumerate(instance.variables)}
    before: dict[int, Value] | None = None
    for number, given in enumerate(file.states):
        state = _named(given, f"state {number}")
        unknown = sorted(state.keys() - known.keys())
        if unknown or not state:
            what = f"{unknown[0]} is not a variable" if unknown else "it names no variable"
            raise TraceError(f"state {number}: {what} of {instance.system.name}")
        values = {
            known[name]: decoded(
                instance.variables[known[name]].type,
                data,
                instance.constants,
                f"state {number}, {name}",
                tlc=file.tlc,
            )
            for name, data in state.items()
        }
        if values != before:
            yield _Wanted(number, values, file.rows[number] if file.rows else "")
        before = values


def _named(state: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A state by plain names of variables, without Quint's prefixes of module and instance."""
    named = {name.rpartition("::")[2]: value for name, value in state.items()}
    if len(named) < len(state):
        raise TraceError(f"{where}: two instances have variables of the same name")
    return named


@dataclass(frozen=True)
class _Reached:
    """The last state of a run with a trace's states so far, with the step to it and the state
    before.
    """

    state: FullState
    step: Step | None = None
    before: _Reached | None = None


def _run(machine: Interpreter, wanted: list[_Wanted]) -> tuple[list[FullState], list[Step]]:
    """A run with these states. Raises TraceError if there is none."""
    names = [name.partition("/")[2] for name in machine.instance.row_names]
    reached = {s: _Reached(s) for s in machine.initial_states() if wanted[0].fits(s)}
    if not reached:
        raise TraceError("state 0: not an initial state of the system")
    for state in wanted[1:]:
        following: dict[FullState, _Reached] = {}
        others = set[str]()
        for each in reached.values():
            for step in machine.steps(each.state):
                if step.state is None or not state.fits(step.state):
                    continue
                if state.row in ("", names[step.row]):
                    following.setdefault(step.state, _Reached(step.state, step, each))
                else:
                    others.add(names[step.row])
        where = f"state {state.number}"
        if not following and others:
            here, there = shown(min(others)), shown(state.row)
            raise TraceError(
                f"{where}: {here} leads to it, but the file says {there}: wrong declaration"
            )
        if not following:
            raise TraceError(f"{where}: no row leads to it from the state before")
        if len(following) > MOST:
            raise TraceError(f"{where}: over {MOST:,} runs lead here: name more variables")
        reached = following
    at: _Reached | None = next(iter(reached.values()))
    states: list[FullState] = []
    steps: list[Step] = []
    while at is not None:
        states.append(at.state)
        steps += [at.step] if at.step is not None else []
        at = at.before
    return states[::-1], steps[::-1]


def _whole(state: FullState) -> FullState:
    """The state unchanged: states aren't packed here."""
    return state


def _tell_end(
    machine: Interpreter,
    states: list[FullState],
    steps: list[Step],
    file: TraceFile,
    outcome: Outcome,
) -> None:
    """Adds the properties that the last state or step breaks to the outcome."""
    instance = machine.instance
    broken = {item.kind for item in machine.broken(states)}
    run = [{state} for state in states]
    if "invariant" in broken:
        set_violation(instance, Kind.STATE, run, _whole, outcome)
    elif "step" in broken:
        set_violation(instance, Kind.STEP, run[:-1], _whole, outcome, ranges=False)
    elif file.broken and any(step.state is None for step in machine.steps(states[-1])):
        set_violation(instance, Kind.STEP, run, _whole, outcome)
    elif machine.is_stuck(states[-1]):
        set_violation(instance, Kind.DEADLOCK, run, _whole, outcome)
    elif any(item.name == file.broken for item in instance.progress):
        _tell_progress(instance, states, steps, file, outcome)


def _tell_progress(
    instance: Instance,
    states: list[FullState],
    steps: list[Step],
    file: TraceFile,
    outcome: Outcome,
) -> None:
    """Adds the progress property that the run breaks to the outcome."""
    loop = len(states) - 1 if file.loop is None else file.loop
    run = Lasso([*states], list(map(label_of, steps)), loop)
    why = f"{instance.system.name} has no property of progress"
    for aim in ground(instance).aims:
        if file.broken not in ("", aim.of.name):
            continue
        tell = tell_lasso if aim.of.kind == "leads to" else tell_dead_end
        try:
            outcome.trace = tell(instance, aim, run, _whole)
        except ReplayError as error:
            why = str(error)
            continue
        outcome.verdict, outcome.reason = Verdict.LEADS_TO_BROKEN, outcome.trace.conclusion
        outcome.properties = [PropertyVerdict(aim.of.name, "broken", len(steps))]
        return
    raise TraceError(why)
