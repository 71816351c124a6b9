"""A system under test beside the oracle: what agrees, what is found, and what a trace says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from epochfence.model import Cluster
from epochfence.model.conformance import Disagreement, Session, System, replay
from epochfence.model.requests import answer, difference, read, run
from epochfence.model.testing import Conformance
from epochfence.tests.model.planted_faults import (
    FAULTS,
    adapter,
    faultless,
    machine,
    searched,
    smallest,
)

FEW = settings(
    max_examples=40, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


class Oracle(System):
    """A cluster in memory as a system; its producer ids start somewhere else."""

    protocol = "4.1"

    def __init__(self) -> None:
        self.cluster = Cluster(protocol=self.protocol, holds_markers=not self.prompt)
        for _ in range(5):
            self.cluster.init_producer_id(None)

    def ask(self, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return answer(self.cluster, {"request": request, **fields})

    def sleep(self, ms: int) -> None:
        self.cluster.sleep(ms)

    def restart(self) -> None:
        self.cluster.restart(clean=False)

    def skip_to_epoch(self, transactional_id: str, producer_epoch: int) -> None:
        self.cluster.skip_to_epoch(transactional_id, producer_epoch)


class Slow(Oracle):
    """It writes markers behind every second request only."""

    prompt = False

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def ask(self, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
        found = super().ask(request, fields)
        self.asked += 1
        if self.asked % 2 == 0:
            self.cluster.deliver_markers()
        return found


class Lossy(Oracle):
    """Every third answer is lost, and every second of these requests, too."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def ask(self, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
        self.asked += 1
        found = None if self.asked % 6 == 0 else super().ask(request, fields)
        return None if self.asked % 3 == 0 else found


class Moving(Oracle):
    """It says NOT_COORDINATOR now and then."""

    passing = frozenset(("NOT_COORDINATOR",))

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def ask(self, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
        self.asked += 1
        is_away = request == "EndTxn" and self.asked % 2
        return {"error": "NOT_COORDINATOR"} if is_away else super().ask(request, fields)


def one_id(of: type[System]) -> type[Conformance]:
    """What tests a system at 4.1, with one transactional id."""

    class Tested(machine(of, "4.1")):
        transactional_ids = ("a",)

    return Tested


# What agrees --------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", ["2.7", "3.6", "4.1"])
def test_the_faultless_broker_agrees(release: str) -> None:
    many = settings(FEW, max_examples=50)
    run_state_machine_as_test(machine(adapter(faultless(), release), release), settings=many)


@pytest.mark.parametrize("of", [Slow, Lossy, Moving])
def test_what_the_protocol_leaves_open_is_allowed(of: type[System]) -> None:
    run_state_machine_as_test(one_id(of), settings=settings(FEW, max_examples=20))


class Late(Oracle):
    """It says that it writes markers at once, and doesn't."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster.holds_markers = True


class Away(Moving):
    """It doesn't say that it moves."""

    passing = frozenset()


@pytest.mark.parametrize(("of", "last"), [(Late, "Fetch"), (Away, "EndTxn")])
def test_it_is_not_allowed_where_a_system_says_that_it_never_does_so(
    of: type[System], last: str
) -> None:
    session = Session(of(), "4.1")
    session.ask("InitProducerId", transactional_id="a")
    who = {"transactional_id": "a", "producer_id": 5, "producer_epoch": 0}
    session.ask("Produce", partition="t-0", **who, base_sequence=0)

    def go_on() -> None:
        session.ask("EndTxn", **who, result="COMMIT")
        session.ask("Fetch", partition="t-0")

    with pytest.raises(Disagreement):
        go_on()
    assert session.trace[-1].line["request"] == last


# What is found ------------------------------------------------------------------------------------


def test_at_least_twelve_faults_are_planted_in_each_part() -> None:
    assert len(FAULTS) >= 12
    assert {fault.release for fault in FAULTS} == {"2.7", "3.6", "4.1"}


def test_a_fault_comes_down_to_a_few_requests_that_show_it() -> None:
    (fault,) = (fault for fault in FAULTS if fault.what == "a repeated batch is appended again")
    found = smallest(fault)
    requests = [exchange.line["request"] for exchange in found.trace]
    assert requests == ["InitProducerId", "Produce", "Produce"]
    assert found.trace[-1].response == {"error": "OUT_OF_ORDER_SEQUENCE_NUMBER"}
    assert found.allowed == [{"error": "NONE", "base_offset": 0}]
    assert "4.1 allows: error NONE, base_offset 0" in str(found)

    trace = read(found.lines())
    assert [told["error"] for told in run(trace, fault.release)] == ["NONE"] * 3
    with pytest.raises(Disagreement) as again:
        replay(trace, fault.system()(), fault.release)
    assert str(again.value) == str(found)
    assert len(replay(trace, adapter(faultless(), fault.release)(), fault.release)) == 3


def test_the_smallest_disagreement_is_saved(tmp_path: Path) -> None:
    class Saving(machine(FAULTS[0].system(), FAULTS[0].release)):
        saves_to = tmp_path / "trace.jsonl"

    with pytest.raises(Disagreement) as found:
        searched(Saving, 40, 0, shrinks=True)
    assert (tmp_path / "trace.jsonl").read_text() == found.value.lines()


# Traces -------------------------------------------------------------------------------------------


def test_ids_in_a_trace_are_those_of_a_cluster_that_takes_the_same() -> None:
    session = Session(Oracle(), "4.1")
    first = session.ask("InitProducerId", transactional_id="a")
    assert first is not None
    assert first["producer_id"] == 5
    who = {"producer_id": 5, "producer_epoch": 0}
    session.ask("Produce", partition="t-0", **who, base_sequence=0, transactional_id="a")
    session.sleep(60_001)
    session.restart()
    assert session.skip_to_epoch("a", 32_766)
    assert not session.skip_to_epoch("a", 100)
    session.ask("InitProducerId", transactional_id="a")
    lines = Disagreement(session.trace, [], "4.1").lines()
    assert run(read(lines), "4.1") == [exchange.response or {} for exchange in session.trace]
    assert session.trace[-1].response == {"error": "NONE", "producer_id": 1, "producer_epoch": 0}
    assert difference(read(lines), "2.7", "4.1") == []


def test_an_answer_that_nobody_allows_names_those_that_are() -> None:
    class Deaf(System):
        def ask(self, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
            return {"error": "INVALID_REQUEST"}

    with pytest.raises(Disagreement, match="allows: error NONE, producer_id a new one"):
        Session(Deaf()).ask("InitProducerId", transactional_id="a")


def test_the_oracle_is_imported_without_hypothesis() -> None:
    told = "import sys, epochfence.model.conformance; sys.exit('hypothesis' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", told]).returncode == 0


def test_a_missing_hypothesis_is_one_clear_error() -> None:
    told = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "try: import epochfence.model.testing\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True)
    assert done.stdout.strip() == (
        "model.testing needs Hypothesis: pip install 'epochfence[testing]'"
    )
