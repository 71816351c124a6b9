"""A mutant among others, one by one and in a system of its own: the same is seen of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import closing
from random import Random

import pytest

from epochfence.language import System
from epochfence.spec.systems import SHIPPED, shipped
from epochfence.tests.mutation import crossing
from epochfence.tests.mutation.answers import ROOT, SPEC, Answers
from epochfence.tests.mutation.judge import Seen, matters, seen, seen_alone
from epochfence.tests.mutation.mutants import Mutant, every_mutant, mutants
from epochfence.tests.mutation.run import sample
from epochfence.tests.mutation.scenarios import Scenario, Trial, counted, trials
from epochfence.tests.mutation.together import Compiled

FILE = "test_partition_recovery.py"  # it draws nothing
SMALL = 60_000  # states: of larger scenarios there is no need
OF_CROSSING = [m for table in crossing.system.tables for m in mutants(table, [crossing.system])]


def tell(judged: Iterable[Seen]) -> list[str]:
    """What kills, if anything does. Of several properties broken at once, any may be named."""
    return ["" if one is None else one[0] for one in judged]


def test_nothing_is_judged_by_a_record_that_is_out_of_date() -> None:
    scenario = Scenario("2", (("N", 2),))
    recorded = counted(crossing.system, scenario).recorded
    trial = Trial(crossing.system, scenario, recorded._replace(states=recorded.states + 1))
    with pytest.raises(RuntimeError, match="--baseline"):
        list(seen(OF_CROSSING[:1], trial))


@pytest.mark.slow(1)
def test_every_mutant_of_a_small_system() -> None:
    scenario = Scenario("2", (("N", 3),))
    trial = Trial(crossing.system, scenario, counted(crossing.system, scenario).recorded)
    here = [mutant for mutant in OF_CROSSING if matters(mutant, trial)]
    assert len(here) > 15
    assert tell(seen(here, trial)) == tell(seen_alone(mutant, trial) for mutant in here)


@pytest.mark.slow(1)
def test_who_has_an_effect_on_others_is_run_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the run without a fault doesn't find what is recorded, many tell nothing."""
    scenario = Scenario("2", (("N", 2),))
    trial = Trial(crossing.system, scenario, counted(crossing.system, scenario).recorded)
    here = [mutant for mutant in OF_CROSSING if matters(mutant, trial)]
    monkeypatch.setattr(Compiled, "run", lambda *_: ("another", None))
    assert tell(seen(here, trial)) == tell(seen_alone(mutant, trial) for mutant in here)


@pytest.mark.slow
@pytest.mark.sample(1, of="mutants")
def test_a_sample_of_a_shipped_system(seed: int) -> None:
    system = shipped(Random(seed).choice(list(SHIPPED)))
    trial = small(system)
    taken = [name for name, mutant in every_mutant().items() if matters(mutant, trial)]
    here = [every_mutant()[name] for name in sample(taken, 4, seed)]
    assert len(here) == 4
    assert tell(seen(here, trial)) == tell(seen_alone(mutant, trial) for mutant in here)


def small(system: System) -> Trial:
    """The first scenario of the system that is small enough."""
    return next(trial for trial in trials(system) if trial.recorded.states < SMALL)


@pytest.mark.slow
@pytest.mark.sample(1, of="mutants")
def test_a_sample_of_answers() -> None:
    """Against a run of all the tests of a file that knows nothing of which rows they take."""
    file = SPEC / FILE
    tables, faults = ("partition.WriteTxnMarkers/", "partition.Produce/"), ("negated", "no reply")
    names = [n for n in every_mutant() if n.startswith(tables) and n.endswith(faults)]
    drawn = [every_mutant()[name] for name in sample(names, 3, seed=2)]
    with closing(Answers(every_mutant(), [file])) as answers:
        told = [answers.differ(mutant) for mutant in drawn]
    assert told == failing([mutant.name for mutant in drawn])
    assert set(told) == {True, False}


def failing(names: list[str]) -> list[bool]:
    """Whether a test fails for each mutant, found where no instance has the original's rows yet."""
    program = f"import sys; from {__name__} import tell_failing; tell_failing(sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", program, *names], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def tell_failing(names: list[str]) -> None:
    """The program of that process."""
    print(json.dumps([_fails(every_mutant()[name]) for name in names]))


def _fails(mutant: Mutant) -> bool:
    """Whether a test that draws nothing fails where its tables have the mutant's rows."""
    child = os.fork()
    if not child:
        for place in mutant.places:
            object.__setattr__(place.table, "rows", place.rows)
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        options = ("-x", "-m", "not slow", "-p", "no:cacheprovider", f"--rootdir={ROOT}")
        os._exit(int(pytest.main([*options, str(SPEC / FILE)])))
    return os.waitpid(child, 0)[1] != 0
