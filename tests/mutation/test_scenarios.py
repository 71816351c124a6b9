"""The scenarios have the recorded results, and leave no row out."""

import pytest

from epochfence.checker.check import Options, check
from epochfence.language import System
from epochfence.spec.systems import SHIPPED, shipped
from epochfence.tests.mutation.crossing import system as crossing
from epochfence.tests.mutation.scenarios import (
    Scenario,
    TooLargeError,
    Trial,
    baseline,
    run,
    scenarios,
    trials,
)

ROWS_TESTED = ("transactions", "idempotence", "producer-ids", "replication")
"""Systems whose tests in tests/spec run all scenarios, for the rows that these take."""
RENEW = "python tests/mutation/run.py --baseline records it, if the change is meant"
SYSTEMS = [shipped(name) for name in SHIPPED]
RECORDED = [
    pytest.param(trial, id=str(trial))
    for system in SYSTEMS
    if system.name not in ROWS_TESTED
    for trial in trials(system)
]


def test_every_scenario_is_recorded_and_nothing_else() -> None:
    chosen = {(system.name, str(each)) for system in SYSTEMS for each in scenarios(system)}
    assert baseline().keys() == chosen, RENEW


WITH_BROKEN = [
    pytest.param(trial, id=str(trial))
    for system in SYSTEMS
    for trial in trials(system)
    if trial.recorded.broken
]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("trial", WITH_BROKEN)
def test_what_is_recorded_as_broken_breaks(trial: Trial) -> None:
    """Mutants are compared without these properties, so that nothing else would notice a fix."""
    instance = trial.scenario.instance(trial.system, trial.recorded.broken)
    result = check(instance, Options(threads=1, brief=True, keep_going=True))
    broken = {item.name for item in result.properties if item.verdict == "broken"}
    assert broken == {*trial.recorded.broken}, RENEW


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("trial", RECORDED)
def test_a_scenario_comes_to_what_is_recorded(trial: Trial) -> None:
    """`rows_taken` compares those of the other systems."""
    assert trial.counts.recorded == trial.recorded


@pytest.mark.slow(1)
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_scenarios_know_every_property_and_all_together_every_row(system: System) -> None:
    names = {item.name for item in system.properties}
    assert [
        str(each) for each in trials(system) if not names.issuperset(each.recorded.broken)
    ] == []
    rows = {name for trial in trials(system) for name in trial.row_names}
    protocols = system.protocols
    every = {
        f"{table.name}/{row.id}"
        for release in protocols.releases
        for table in system.tables
        for row in table.rows
        if protocols.holds(row.during, protocols.features_at(release))
    }
    assert every - rows == set()


@pytest.mark.slow(1)
def test_a_run_ends_where_it_grows_too_large() -> None:
    trial = trials(SYSTEMS[0])[0]
    with pytest.raises(TooLargeError):
        run(trial.scenario.instance(trial.system, trial.holds), trial.recorded.states // 2)


def test_a_system_of_nobody_s_choice_is_run_in_its_newest_and_oldest_release() -> None:
    assert scenarios(crossing) == (Scenario("2"), Scenario("1"))
