"""Counterexamples, step by step on the executable machines, which must come to the same."""

from __future__ import annotations

from collections.abc import Iterator

from epochfence.checker.check import Options, check
from epochfence.checker.trace.trace import Trace
from epochfence.checker.verdict.result import Result
from epochfence.language import Instance
from epochfence.model import Machine
from epochfence.model.engine.interpreter import FullState, Interpreter, Step
from epochfence.spec.releases.features import transaction_version_2
from epochfence.spec.systems import SHIPPED, shipped
from epochfence.tests.model.conformance.test_open_keys import in_the_open
from epochfence.tests.model.test_client_replay import AGAIN, Clients, event_of, is_at_once

CLIENT = "producer"
"""The machine that `ProducerClient` stands for; others run their own tables."""
BOUNDED_ONLY = ("application",)
"""The machines of bounded runs alone."""


def taken(instance: Instance, trace: Trace) -> Iterator[tuple[FullState, Step]]:
    """The steps of a trace, each with the state before it."""
    interpreter = Interpreter(instance)
    for before, after, told in zip(trace.states, trace.states[1:], trace.steps, strict=False):
        row = f"/{told.row}"
        yield (
            before,
            next(
                step
                for step in interpreter.steps(before)
                if step.state == after and instance.row_names[step.row].endswith(row)
            ),
        )


def checked(instance: Instance, options: Options | None = None) -> Result:
    """The result of a check, whose counterexample, if it has one, is replayed on machines at real
    ranges and on clients. Without options of its own it isn't asked what is vacuous."""
    result = check(instance, options or Options(brief=not instance.progress))
    if result.trace is not None:
        steps = list(taken(instance, result.trace))
        on_machines(instance, steps)
        if has_real_clients(instance):
            on_clients(instance, steps)
    return result


def has_real_clients(instance: Instance) -> bool:
    """Whether its clients do what those of its release do."""
    system, features = instance.system, instance.system.protocols.features_at(instance.protocol)
    known = shipped(system.name).tables if system.name in SHIPPED else ()
    own = [table for table in system.tables if table.machine.name == CLIENT]
    switched = features ^ instance.features
    return (
        bool(own) and all(t in known for t in own) and switched <= {transaction_version_2.data.name}
    )


def on_machines(instance: Instance, steps: list[tuple[FullState, Step]]) -> None:
    """What brokers do in these steps, one table at a time."""
    tables = {table.name: table for table in instance.system.tables}
    machines: dict[str, Machine] = {}
    for before, step in steps:
        table = tables.get(step.action.table)
        if table is not None and table.machine.name not in (CLIENT, *BOUNDED_ONLY):
            found, expected = in_the_open(instance, table, before, step, machines)
            assert found == expected, step.action.table


def on_clients(instance: Instance, steps: list[tuple[FullState, Step]]) -> None:
    """What clients do in these steps. What one does at once it may have done before its step."""
    interpreter = Interpreter(instance)
    clients = Clients(instance)
    for before, step in steps:
        found = event_of(instance, before, step)
        if found is None:
            continue
        event, fields, who = found
        client = clients.who_acts(step, event, who)
        if client is not None and instance.row_names[step.row] != AGAIN:
            client.take(event, fields)
        assert step.state is not None
        at_once = (s for s in interpreter.steps(step.state) if is_at_once(instance, s))
        coming = (event_of(instance, step.state, next_) for next_ in at_once)
        if any(next_ and next_[2] == who for next_ in coming):
            continue
        clients.compare(step.state, who, event, instance.row_names[step.row], fields)
