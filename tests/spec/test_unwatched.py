"""A property notices each missing rule of Kafka, or the rule stands on a list with a reason."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.cli import app
from epochfence.language import instantiate
from epochfence.spec.bugs import BUGS
from epochfence.spec.changes import VARIED
from epochfence.spec.properties.unwatched import UNWATCHED, WATCHED, Watched
from epochfence.spec.releases.features import KAFKA
from epochfence.spec.systems import SHIPPED

RULES = {info.name: info for info in KAFKA.infos if info.since is not None}
"""What a release does; the others are proposals."""
FIXES = {feature for bug in BUGS for feature in bug.fix}
LISTED = [name for group in UNWATCHED for name in group.features]


def test_each_rule_is_watched_or_listed_once() -> None:
    watched = {item.feature for item in WATCHED}
    assert sorted(LISTED) == sorted({*LISTED})
    assert not {*LISTED} & (watched | FIXES)
    assert {*LISTED} | watched | (FIXES & RULES.keys()) == RULES.keys()


@pytest.mark.long
@pytest.mark.slow(3)
@pytest.mark.parametrize("item", WATCHED, ids=lambda item: item.feature)
def test_a_property_breaks_without_a_watched_rule(item: Watched) -> None:
    system = load_system(item.system)
    is_progress = item.property in {each.name for each in system.progress}
    found: list[str] = []
    for switched in ((), (item.feature,)):
        instance = instantiate(
            system, item.release, item.constants, bounds=item.bounds, switch_off=switched,
            properties=[] if is_progress else [item.property], progress=is_progress,
        )  # fmt: skip
        options = Options(threads=2, deadlock=False, brief=True, keep_going=True)
        results = check(instance, options).as_json()["properties"]
        found += [each["verdict"] for each in results if each["name"] == item.property]
    assert found == ["holds", "broken"]


@pytest.mark.long
@pytest.mark.slow(4)
@pytest.mark.parametrize(
    ("feature", "release", "constants"),
    [
        ("marker_is_use", "2.4", {"producer_expiries": 1, "faults": 2, "transactions": 1}),
        ("strict_end_txn_epoch", "2.6", {"faults": 2, "transactions": 1}),
        ("empty_marker_ends_nothing", "2.8", {"producers": 1, "faults": 2}),
    ],
)
def test_no_run_of_two_faults_tells_whether_a_rule_is_there(
    feature: str, release: str, constants: dict[str, int]
) -> None:
    """That no run is reached, or no state is another, is more than that no property breaks."""
    system = load_system("transactions")
    found: list[tuple[int, int]] = []
    for switched in ((), (feature,)):
        instance = instantiate(
            system, release, constants, bounds="small", switch_off=switched,
            properties=["ReservedEpoch"],
        )  # fmt: skip
        options = Options(threads=2, deadlock=False, brief=True, slicing=False)
        result = check(instance, options).as_json()
        found.append((result["states"], result["transitions"]))
    assert found[0] == found[1]
    assert min(found[0]) > 100_000


def test_each_says_truly_whether_a_system_has_its_rows() -> None:
    there = {name for each in (*SHIPPED, *VARIED) for name in load_system(each).feature_names}
    for group in UNWATCHED:
        for name in group.features:
            assert (name in there) is group.has_system, name


def test_a_reason_says_what_is_lacking() -> None:
    """A reason for many rules is a reason for none."""
    assert len({group.reason for group in UNWATCHED}) == len(UNWATCHED)
    assert max(len(group.features) for group in UNWATCHED) < 10


def test_list_unwatched_prints_each_with_its_reason() -> None:
    done = CliRunner().invoke(app, ["list", "--unwatched"], env={"COLUMNS": "200"})
    assert done.exit_code == 0
    for group in UNWATCHED:
        assert group.reason in " ".join(done.stdout.split())
        assert all(name in done.stdout for name in group.features)
    both = CliRunner().invoke(app, ["list", "--unwatched", "--rows"])
    assert (both.exit_code, both.stderr.count("\n")) == (2, 1)
