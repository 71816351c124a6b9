"""Each machine does what its vectors say, in every release: interpreted, and compiled as well."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from epochfence.spec.features import RELEASED as RELEASES
from epochfence.tests.spec import renew
from epochfence.tests.spec.alone import Alone
from epochfence.tests.spec.coordinators import Coordinator
from epochfence.tests.spec.oracles import Oracle
from epochfence.tests.spec.vectors import FOLDER, MACHINES, Values, events, outcome, read

Case = list[Any]
CASES = [
    pytest.param(
        machine, group, case, id=f"{machine}: {case[0]}; {', '.join(s[0] for s in case[1:])}"
    )
    for machine in MACHINES
    for group in read(machine).groups
    for case in group["cases"]
]


def does(one: Alone | Oracle, step: Case, values: Values, release: str, version: int) -> None:
    """Takes a step, which has to come to what the vectors say."""
    row, told = one.happens(step[0], values)
    expected_row, expected = outcome(step[-1], release, version)
    where = f"{release}, version {version}: {step[0]} {values}"
    assert told == expected, where
    assert expected_row in (None, row), where


@pytest.mark.parametrize(("machine", "group", "case"), CASES)
def test_what_a_machine_does(machine: str, group: dict[str, Any], case: Case) -> None:
    given, *steps = case
    choices = [list(events(step[1] if len(step) > 2 else {})) for step in steps]
    for release, version, off in read(machine).releases(group):
        for fields, *every in product(read(machine).given(given), *choices):
            one = MACHINES[machine](release, *off)
            one.set_written(fields)
            for step, values in zip(steps, every, strict=True):
                does(one, step, values, release, version)


@pytest.mark.parametrize("machine", MACHINES)
def test_every_state_has_a_use_and_every_outcome_a_release(machine: str) -> None:
    vectors = read(machine)
    texts = [case[0] for group in vectors.groups for case in group["cases"]]
    texts += [", ".join(state) for state in vectors.states.values() if isinstance(state, list)]
    used = {name for text in texts for names in text.split(", ") for name in names.split(" | ")}
    assert used == {*vectors.states}
    for group in vectors.groups:
        assert list(vectors.releases(group)), group["source"]
        for told in (step[-1] for case in group["cases"] for step in case[1:]):
            named = {name.partition(",")[0] for name in told} if isinstance(told, dict) else set()
            assert named <= {*RELEASES}, told


def test_every_file_is_of_a_machine() -> None:
    names = {path.stem for path in Path(FOLDER).glob("*.json")} - {"vectors.schema"}
    assert names == {*MACHINES}
    for name in names:
        text = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
        assert json.loads(text)["machine"] == name
        assert renew.written(json.loads(text)) == text, "python tests/spec/renew.py writes it so"


@pytest.mark.sample(10)
@pytest.mark.parametrize(("machine", "group", "case"), CASES)
def test_renewed_it_is_what_it_was(machine: str, group: dict[str, Any], case: Case) -> None:
    assert renew.told(machine, read(machine), group, case) == case


def test_another_outcome_is_noticed() -> None:
    one = Coordinator()
    with pytest.raises(AssertionError):
        does(one, ["InitProducerId", "UNKNOWN_SERVER_ERROR"], {}, RELEASES[-1], 2)
    with pytest.raises(AssertionError):
        does(one, ["log append", "[another row] nothing"], {}, RELEASES[-1], 2)
