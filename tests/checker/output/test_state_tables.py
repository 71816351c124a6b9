"""What a run has found, as tables: the plain interpreter's states, with values of real types."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as dataset
import pytest
from hypothesis import HealthCheck, given, reject, settings

from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.checker.trace.plain_data import state_as_data
from epochfence.files import CantWriteError
from epochfence.language import (
    Instance,
    instantiate,
)
from epochfence.model.engine.interpreter import Interpreter
from epochfence.tests.checker.drawn_systems import instances
from epochfence.tests.cli.test_cli import epochfence
from epochfence.tests.systems.counter import Ticker

WHOLE = Options(keep_states=True, symmetry=False, slicing=False)


def lease(**constants: int) -> Instance:
    return instantiate(load_system("docs/examples/lease.py"), "2", constants)


def reached(instance: Instance, most: int = 5_000) -> tuple[list[Any], Counter[str]]:
    """Every reachable state as plain data, and how often each row is taken."""
    machine = Interpreter(instance)
    left = list(machine.initial_states())
    seen, taken = set(left), Counter[str]()
    while left:
        for step in machine.steps(left.pop()):
            taken[instance.row_names[step.row]] += 1
            if step.state is not None and step.state not in seen:
                seen.add(step.state)
                left.append(step.state)
        if len(seen) > most:
            raise ValueError(most)
    return [state_as_data(instance, state) for state in seen], taken


def in_order(rows: list[Any]) -> list[str]:
    """Plain data in an order of its own."""
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.slow(1)
def test_states_and_steps_are_those_of_the_interpreter() -> None:
    instance = lease(leases=1)
    states, taken = reached(instance)
    result = check(instance, WHOLE)
    table = result.data.states()
    assert set(table["level"].to_pylist()) == set(range(result.depth))
    assert in_order(table.drop_columns("level").to_pylist()) == in_order(states)
    steps = result.data.transitions()
    assert Counter(steps["row"].to_pylist()) == taken
    known = set(in_order(states))
    for end in ("source", "target"):
        assert set(in_order(steps[end].to_pylist())) <= known


def test_columns_have_real_types() -> None:
    table = check(lease(leases=1), Options(keep_states=True)).data.states()
    types = {name: str(table.schema.field(name).type) for name in table.column_names}
    assert types["client.state"] == "struct<client0: string, client1: string>"
    assert types["service.newest"] == "int8"
    assert types["service.holders"] == "list<item: string>"
    assert types["network.Granted"].startswith("struct<client0: list<item: struct<lease: int8>>")
    assert len(table.to_pandas()) == len(table)


@pytest.mark.slow(1)
@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(instances())
def test_states_of_any_system_are_those_of_the_interpreter(instance: Instance) -> None:
    result = check(instance, WHOLE)
    if result.verdict.value or result.states > 300:
        reject()
    states, taken = reached(instance)
    assert in_order(result.data.states().drop_columns("level").to_pylist()) == in_order(states)
    assert Counter(result.data.transitions()["row"].to_pylist()) == taken


def test_states_come_in_batches_and_only_where_they_are_kept() -> None:
    result = check(lease(), Options(keep_states=True))
    batches = list(result.data.state_batches())
    assert sum(len(batch) for batch in batches) == result.states
    assert max(len(batch) for batch in batches) < result.states
    with pytest.raises(ValueError, match="keep_states=True"):
        check(lease(leases=1)).data.states()


def test_states_and_steps_as_parquet(tmp_path: Path) -> None:
    """With the same rows and types as the tables, a folder for each level."""
    result = check(lease(), Options(keep_states=True))
    for name in ("states", "transitions"):
        folder = tmp_path / name
        getattr(result.data, f"write_{name}")(folder)
        read = dataset.dataset(folder, partitioning="hive").to_table()
        wanted = getattr(result.data, name)()
        read = read.select(wanted.schema.names).cast(wanted.schema)
        assert in_order(read.to_pylist()) == in_order(wanted.to_pylist())
        levels = {int(each.name.removeprefix("level=")) for each in folder.iterdir()}
        assert levels == {*wanted["level"].to_pylist()}
    assert {each.name for each in tmp_path.iterdir()} == {"states", "transitions"}


def test_parquet_is_not_written_in_part(tmp_path: Path) -> None:
    found = check(lease(), Options(keep_states=True)).data
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine", encoding="utf-8")
    for place in (tmp_path / "full", tmp_path / "full" / "file", tmp_path / "none" / "here"):
        with pytest.raises(CantWriteError, match=str(place)):
            found.write_states(place)
    batches = found.state_batches

    def failing() -> Iterator[Any]:
        yield next(batches())
        raise OSError(28, "No space left on device")

    found.state_batches = failing
    with pytest.raises(CantWriteError, match="No space left"):
        found.write_states(tmp_path / "new")
    assert [each.name for each in tmp_path.iterdir()] == ["full"]


def test_the_command_writes_states_and_refuses_what_it_cant(tmp_path: Path) -> None:
    file = "docs/examples/lease.py"
    folder = tmp_path / "states"
    ended = epochfence("check", file, "--protocol", "1", "--states", folder)
    assert ended.code == 12
    assert any(folder.iterdir())
    for options in (
        ("--states", folder),
        ("--states", tmp_path / "new", "--spill", tmp_path / "spill"),
        ("--transitions", tmp_path / "new", "--all-traces", "2"),
        ("--states", tmp_path / "new", "--engine", "spark"),
    ):
        ended = epochfence("check", file, *options)
        assert (ended.code, ended.err.count("\n")) == (2, 1), options
    assert [each.name for each in tmp_path.iterdir()] == ["states"]


def test_a_counterexample_as_a_table() -> None:
    instance = instantiate(load_system("docs/examples/lease.py"), "1")
    result = check(instance, WHOLE)
    assert result.trace is not None
    table = result.data.trace()
    states = result.data.states()
    assert table.schema.names[4:] == states.schema.names[1:]
    rows = table.to_pylist()
    assert [row["step"] for row in rows] == list(range(len(result.trace.steps) + 1))
    assert [row["row"] for row in rows] == [None, *(step.row for step in result.trace.steps)]
    parts = table.select(table.schema.names[4:]).to_pylist()
    assert in_order(parts) == in_order([dict(state) for state in result.trace.data])
    assert set(in_order(parts[:-1])) <= set(in_order(states.drop_columns("level").to_pylist()))
    assert check(lease(leases=1), WHOLE).data.trace().num_rows == 0


def test_a_step_that_leads_to_no_state_has_none_in_the_table() -> None:
    rows = check(Ticker(1).instance(), WHOLE).data.trace().to_pylist()
    assert [(row["step"], row["row"], row["counter.x"]) for row in rows] == [
        (0, None, 0),
        (1, "up", 1),
        (2, "up", None),
    ]


def test_a_counterexample_has_the_whole_state_and_each_message_as_data() -> None:
    instance = instantiate(load_system("docs/examples/lease.py"), "1")
    trace = json.loads(json.dumps(check(instance).as_json()))["trace"]
    states, steps = trace["states"], trace["steps"]
    assert len(states) == len(steps) + 1
    assert states[0]["client.state"] == {"client0": "IDLE", "client1": "IDLE"}
    assert (states[0]["service.holders"], states[0]["service.newest"]) == ([], 0)
    sent = {"message": "Acquire", "from": "client0", "to": "service", "fields": {}}
    assert steps[0]["message"] is None
    assert steps[0]["sent"] == [sent]
    assert states[1]["network.Acquire"]["client0"] == [{"present": False}]
    assert steps[2]["message"] == sent
    assert steps[2]["sent"] == [
        {"message": "Granted", "from": "service", "to": "client0", "fields": {"lease": 1}}
    ]
    assert states[3]["service.holders"] == ["client0"]
