"""What a run on Spark says nothing about is what a local one says nothing about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from epochfence import language as lang
from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import (
    Instance,
    Machine,
    Row,
    System,
    Table,
    after,
    event,
    instantiate,
    invariant,
    step_property,
)
from epochfence.tests.checker.output.test_result_schema import as_read, is_valid
from epochfence.tests.checker.spark.conftest import on_spark
from epochfence.tests.checker.spark.in_process import InProcess


def counting() -> Instance:
    """A counter with premises that some shard's states meet, that a step meets, that none does."""
    counter = Machine("counter")
    x = counter.field("x", lang.Int(0, 9))
    lamp = counter.field("lamp", lang.Bool())
    tables = (
        Table(counter, event("tick"), (Row("up", set={x: x + 1}),), when=x < 9),
        Table(
            counter,
            event("light"),
            (
                Row("late", when=(x == 9) & lamp & ~lamp, set={lamp: True}),
                Row("switch", set={lamp: ~lamp}),
            ),
        ),
    )
    properties = (
        invariant("Met", (x == 9).implies(x > 8), "It is met in the last states."),
        invariant("Unmet", ((x == 9) & lamp & ~lamp).implies(x > 10), "Its premise is false."),
        invariant("Sum", (x * 2 == 7).implies(x > 10), "A number twice is even."),
        step_property("Step", (after(x) == 9).implies(x >= 8), "Up by one."),
        step_property("Jump", (after(x) > x + 1).implies(lamp), "No step is so long."),
    )
    return instantiate(System("counting", tables, properties, terminal=True))


SYSTEMS = {
    "counting": counting,
    "lease": lambda: instantiate(load_system("docs/examples/lease.py"), "2", {"leases": 1}),
}


def is_as_local(result: Result, instance: Instance) -> None:
    """The result of Spark has what a local one has, and is of the same form."""
    local = check(instance, Options())
    assert (result.verdict, local.verdict) == (Verdict.HOLDS, Verdict.HOLDS)
    assert result.vacuous == local.vacuous
    assert result.engine["name"] == "spark"
    is_valid(as_read(result))


@pytest.mark.parametrize("name", SYSTEMS)
def test_what_is_vacuous_on_spark_is_so_locally(
    played: InProcess, tmp_path: Path, name: str
) -> None:
    instance = SYSTEMS[name]()
    is_as_local(on_spark(instance, tmp_path / "run", shards=3), instance)
    assert any(stage.startswith("coverage") for stage in played.stages)
    if name == "counting":
        about = {item.subject for item in check(instance).vacuous}
        assert {"Sum", "Jump"} <= about
        assert not {"Met", "Step"} & about


@pytest.mark.slow
def test_what_is_vacuous_in_a_session(spark: Any, tmp_path: Path) -> None:
    is_as_local(on_spark(counting(), tmp_path / "run"), counting())


def test_a_broken_run_of_spark_is_of_the_same_form(played: InProcess, tmp_path: Path) -> None:
    lease = instantiate(load_system("docs/examples/lease.py"), "1")
    told = as_read(on_spark(lease, tmp_path / "run"))
    assert told["verdict"] == "broken"
    is_valid(told)
