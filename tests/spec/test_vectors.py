"""Each machine does what its vectors say, in every release: interpreted, and compiled as well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from epochfence.spec.releases.features import RELEASED as RELEASES
from epochfence.tests.spec import renew
from epochfence.tests.spec.vectors import FOLDER, MACHINES, Found, found, outcome, read

Case = list[Any]
Group = dict[str, Any]
GROUPS = [
    pytest.param(machine, group, id=f"{machine} {at}")
    for machine in MACHINES
    for at, group in enumerate(read(machine).groups, 1)
]

QUICK = ("0.11.0.0", "2.0", "2.4", "2.6", "3.5", "3.6", RELEASES[-1])

pytestmark = pytest.mark.together  # a machine is compiled once in a process, for each release


def check(case: Case, told: Found, release: str, version: int) -> None:
    """Each step must have the result of the vectors."""
    for step, (row, text) in zip(case[1:], told, strict=True):
        expected_row, expected = outcome(step[-1], release, version)
        where = f"{release}, version {version}: {step}"
        assert text == expected, where
        assert expected_row in (None, row), where


def check_group(machine: str, group: Group, *, is_whole: bool = False) -> None:
    """Each case of a group, in its releases; renew.py leaves a whole group as it is."""
    for case in group["cases"]:
        try:
            every = found(machine, group, case)
            for (release, version), told in every.items():
                check(case, told, release, version)
            assert not is_whole or renew.renewed(group, case, every) == case
        except BaseException as error:
            error.add_note(f"{machine}, {group['source']}: {case}")
            raise


@pytest.mark.slow(0.2)
@pytest.mark.parametrize(("machine", "group"), GROUPS)
def test_what_a_machine_does(machine: str, group: Group) -> None:
    check_group(machine, group, is_whole=True)


@pytest.mark.parametrize("release", QUICK)
@pytest.mark.parametrize("machine", MACHINES)
def test_what_a_machine_does_in_a_release(machine: str, release: str) -> None:
    """What is quick of them all: the newest release, or the last one that a group is of, and six
    older ones whose clients and brokers have other rows."""
    for group in read(machine).groups:
        last = group.get("until", RELEASES[-1])
        chosen = last if release == RELEASES[-1] else release
        first = RELEASES.index(group.get("since", RELEASES[0]))
        if first <= RELEASES.index(chosen) <= RELEASES.index(last):
            check_group(machine, group | {"since": chosen, "until": chosen})


def test_a_case_that_fails_is_named() -> None:
    group = {"source": "nowhere", "since": RELEASES[-1], "cases": [["EMPTY", ["log append", "x"]]]}
    with pytest.raises(AssertionError) as caught:
        check_group("coordinator", group)
    assert caught.value.__notes__ == ["coordinator, nowhere: ['EMPTY', ['log append', 'x']]"]


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


def test_what_renewing_would_change_is_noticed() -> None:
    group = read("coordinator").groups[0]
    case, *_ = group["cases"]
    longer = [
        case[0],
        *([*step[:-1], {RELEASES[0]: step[-1], "4.3": step[-1]}] for step in case[1:]),
    ]
    check_group("coordinator", group | {"cases": [longer]})
    with pytest.raises(AssertionError):
        check_group("coordinator", group | {"cases": [longer]}, is_whole=True)


@pytest.mark.parametrize("step", [["log append", "PREPARE"], ["log append", "[a row] nothing"]])
def test_another_outcome_is_noticed(step: Case) -> None:
    with pytest.raises(AssertionError):
        check(["", step], [("another row", "nothing")], RELEASES[-1], 2)


def test_values_that_come_to_different_outcomes_are_told() -> None:
    step = ["EndTxn", {"as": "1/5", "result": ["COMMIT", "ABORT"]}, "nothing"]
    with pytest.raises(ValueError, match="PREPARE_ABORT"):
        found("coordinator", {"since": RELEASES[-1]}, ["ONGOING", step])
