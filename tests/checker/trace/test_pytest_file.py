"""A trace written as a test passes where its run is possible, and fails where one step isn't."""

from __future__ import annotations

from typing import Any

import pytest

from epochfence.checker.check import check
from epochfence.checker.named_systems import load_system
from epochfence.checker.trace import pytest_run as run
from epochfence.checker.trace.pytest_file import as_pytest
from epochfence.language import Instance, instantiate
from epochfence.spec.systems import shipped
from epochfence.tests.checker.trace.test_replay import BROKEN

HANGING = {"partitions": 1, "transactions": 1}


def passes(text: str) -> bool:
    """Whether the test in a file passes."""
    names: dict[str, Any] = {}
    exec(compile(text, "test_run.py", "exec"), names)
    try:
        names["test_run"]()
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("name", BROKEN)
def test_each_kind_of_fault_passes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = BROKEN[name]()
    monkeypatch.setattr(run, "load_system", lambda _: instance.system)
    text = as_pytest("counting", instance, check(instance))
    assert passes(text)
    assert not passes(text.replace('("x", "0", "1")', '("x", "0", "2")'))
    assert not passes(text.replace('"up"', '"along"'))
    assert not passes(text.replace('"tick"', '"tock"'))


def of_lease() -> tuple[Instance, str]:
    instance = instantiate(load_system("docs/examples/lease.py"), "1", {"leases": 2})
    return instance, as_pytest("docs/examples/lease.py", instance, check(instance))


@pytest.mark.slow(2)
def test_it_fails_without_any_of_its_steps_and_in_another_release() -> None:
    _, text = of_lease()
    assert passes(text)
    head, *steps = text.split("    run.takes(")
    assert len(steps) > 3
    for left_out in range(len(steps)):
        others = [step for at, step in enumerate(steps) if at != left_out]
        if left_out == len(steps) - 1:
            others[-1] += steps[-1][steps[-1].index("    assert") :]
        assert not passes("    run.takes(".join([head, *others]))
    assert not passes(text.replace('"1", CONSTANTS', '"2", CONSTANTS'))


@pytest.mark.slow(2)
def test_what_another_release_does_instead_is_said() -> None:
    instance = instantiate(
        shipped("transactions"), "2.5", HANGING, properties=["NoHangingTransaction"]
    )
    text = as_pytest("transactions", instance, check(instance))
    assert passes(text)
    later = text.replace('"2.5", CONSTANTS', '"3.6", CONSTANTS')
    names: dict[str, Any] = {}
    exec(later, names)
    with pytest.raises(AssertionError, match=r"step \d+, .*: row .*, not "):
        names["test_run"]()


def test_what_is_no_run_is_told() -> None:
    with pytest.raises(
        AssertionError, match=r"not an initial state of docs/examples/lease\.py at 1"
    ):
        run.Run("docs/examples/lease.py", "1", {}, initial={"server.holder": "nobody"})
