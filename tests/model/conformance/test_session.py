"""A system under test beside the oracle: what agrees, what is found, and what a trace says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from epochfence.model import Cluster
from epochfence.model.conformance import shrink
from epochfence.model.conformance.session import DisagreementError, Session, System, replay
from epochfence.model.conformance.testing import Conformance, search
from epochfence.model.engine.errors import ModelError
from epochfence.model.requests import answer, difference, read, run
from epochfence.tests.model.conformance.planted_faults import (
    FAULTS,
    Fault,
    adapter,
    faultless,
    machine,
    row,
    searched,
    smallest,
)

ROOT = Path(__file__).parents[3]
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


@pytest.mark.slow
@pytest.mark.parametrize("release", ["2.7", "3.6", "4.1"])
def test_the_faultless_broker_agrees(release: str) -> None:
    many = settings(FEW, max_examples=50)
    run_state_machine_as_test(machine(adapter(faultless(), release), release), settings=many)


@pytest.mark.slow
@pytest.mark.parametrize("of", [Slow, Lossy, Moving])
def test_what_the_protocol_leaves_open_is_allowed(of: type[System]) -> None:
    run_state_machine_as_test(one_id(of), settings=settings(FEW, max_examples=20))


class Silent(System):
    """Each answer is lost, or is one that it may give at any time."""

    passing = frozenset({"NOT_COORDINATOR"})

    def __init__(self) -> None:
        self.asked = 0

    def ask(self, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
        self.asked += 1
        return {"error": "NOT_COORDINATOR"} if self.asked % 2 else None


def test_a_system_that_says_nothing_does_not_conform() -> None:
    class Nothing(Conformance):
        system = Silent

    with pytest.raises(AssertionError, match="Silent gave no answer that could be compared"):
        search(Nothing, settings(FEW, max_examples=2, stateful_step_count=2))


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

    with pytest.raises(DisagreementError):
        go_on()
    assert session.trace[-1].line["request"] == last


# What is found ------------------------------------------------------------------------------------


def test_at_least_twelve_faults_are_planted_in_each_part() -> None:
    assert len(FAULTS) >= 12
    assert {fault.release for fault in FAULTS} == {"2.7", "3.6", "4.1"}


@pytest.mark.slow(6)
@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_a_fault_is_found_in_as_many_examples_as_the_page_tells(fault: Fault) -> None:
    shown = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8").splitlines()
    assert row(fault) in shown, "python tests/documentation.py renews it"


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
    with pytest.raises(DisagreementError) as again:
        replay(trace, fault.system()(), fault.release)
    assert str(again.value) == str(found)
    assert len(replay(trace, adapter(faultless(), fault.release)(), fault.release)) == 3


def test_the_smallest_disagreement_is_saved(tmp_path: Path) -> None:
    class Saving(machine(FAULTS[0].system(), FAULTS[0].release)):
        saves_to = tmp_path / "trace.jsonl"

    with pytest.raises(DisagreementError) as found:
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
    lines = DisagreementError(session.trace, [], "4.1").lines()
    assert run(read(lines), "4.1") == [exchange.response or {} for exchange in session.trace]
    assert session.trace[-1].response == {"error": "NONE", "producer_id": 1, "producer_epoch": 0}
    assert difference(read(lines), "2.7", "4.1") == []


def test_an_answer_that_nobody_allows_names_those_that_are() -> None:
    class Deaf(System):
        def ask(self, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
            return {"error": "INVALID_REQUEST"}

    with pytest.raises(DisagreementError, match="allows: error NONE, producer_id a new one"):
        Session(Deaf()).ask("InitProducerId", transactional_id="a")


def test_the_oracle_is_imported_without_hypothesis() -> None:
    told = "import sys, epochfence.model.conformance.session; sys.exit('hypothesis' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", told]).returncode == 0


def test_a_missing_hypothesis_is_one_clear_error() -> None:
    told = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "try: import epochfence.model.conformance.testing\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True)
    assert done.stdout.strip() == (
        "model.conformance.testing needs Hypothesis: pip install 'epochfence[testing]'"
    )


# The smallest run ---------------------------------------------------------------------------------


def counting(of: type[System]) -> tuple[type[System], list[str]]:
    """A system that counts, and the requests that it was asked."""
    asked: list[str] = []

    class Counting(of):
        def ask(self, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
            asked.append(request)
            return super().ask(request, fields)

    return Counting, asked


SHRUNK = {
    "a repeated batch is appended again": 3,
    "only four batches are remembered": 7,
    "an end can't be asked for again": 5,
    "a restart forgets the producers": 5,
}
"""Faults, and the lines in which each can be seen."""


@pytest.mark.parametrize("what", SHRUNK)
def test_a_smallest_run_takes_few_requests_and_has_nothing_to_spare(what: str) -> None:
    (fault,) = (fault for fault in FAULTS if fault.what == what)
    system, asked = counting(fault.system())
    with pytest.raises(DisagreementError) as met:
        searched(machine(system, fault.release), 1_000, 0, shrinks=False)
    asked.clear()
    found = shrink.smallest(met.value, system)
    assert len(asked) < 600  # Hypothesis takes some thousand
    assert len(found.trace) <= SHRUNK[what]
    with pytest.raises(DisagreementError) as again:
        replay(read(found.lines()), system(), fault.release)
    assert str(again.value) == str(found)
    assert shrink.smallest(found, system) is found  # no line can be spared


def test_what_doesnt_show_again_is_told_as_it_was_found() -> None:
    session = Session(Oracle(), "4.1")
    session.ask("InitProducerId", transactional_id="a")
    session.ask("InitProducerId", transactional_id="b")
    found = DisagreementError(session.trace, [], "4.1")
    assert shrink.smallest(found, Oracle) is found


def test_a_failing_test_tells_the_run_and_nothing_of_hypothesis(tmp_path: Path) -> None:
    class Tested(machine(FAULTS[0].system(), FAULTS[0].release)):
        saves_to = tmp_path / "trace.jsonl"

    test = Tested.TestCase
    assert test is Tested.TestCase
    test.settings = settings(test.settings, max_examples=100, database=None)
    with pytest.raises(DisagreementError) as found:
        test("runTest").runTest()
    assert not getattr(found.value, "__notes__", [])
    assert found.value.__cause__ is found.value.__context__ is None
    assert (tmp_path / "trace.jsonl").read_text() == found.value.lines()


@pytest.mark.slow(3)
def test_a_well_behaved_level_finds_everyday_faults_alone() -> None:
    def finds(what: str) -> bool:
        (fault,) = (fault for fault in FAULTS if fault.what == what)

        class Tested(machine(fault.system(), fault.release)):
            level = "well-behaved"

        try:
            run_state_machine_as_test(
                Tested, settings=settings(FEW, max_examples=60, phases=[Phase.generate])
            )
        except DisagreementError:
            return True
        return False

    assert finds("a repeated batch is appended again")
    assert finds("a new instance keeps the epoch")
    assert not finds("a new epoch may start anywhere")  # it takes a batch that leaves a gap


def test_a_system_without_transactions_is_asked_for_none() -> None:
    system, asked = counting(Oracle)
    seen: list[Mapping[str, Any]] = []

    class Watching(system):
        def ask(self, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
            seen.append(fields)
            return super().ask(request, fields)

    class Tested(machine(Watching, "4.1")):
        idempotent_only = True

    run_state_machine_as_test(Tested, settings=settings(FEW, max_examples=10))
    assert {"InitProducerId", "Produce"} <= set(asked) <= {"InitProducerId", "Produce", "Fetch"}
    assert all(fields.get("transactional_id") is None for fields in seen)


def test_a_disagreement_names_the_row_that_decides_and_what_is_against_the_other() -> None:
    (fault,) = (fault for fault in FAULTS if fault.what == "a repeated batch is appended again")
    found = smallest(fault)
    (deciding, other), *_ = found.reasons
    assert deciding.startswith("by partition: Produce, row duplicate")
    assert "ProducerStateEntry" in deciding or "(" in deciding
    assert other.startswith("not OUT_OF_ORDER_SEQUENCE_NUMBER: partition: Produce, row ")
    assert other.endswith("as row duplicate comes first")
    assert all(line in str(found) for line in (deciding, other))


def test_an_answer_before_the_entry_is_looked_at_has_its_row_as_well() -> None:
    class Lax(Oracle):
        def ask(self, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
            return {"error": "NONE"}

    for _ in range(2):  # what is remembered of the first time isn't in the way
        with pytest.raises(DisagreementError) as found:
            Session(Lax(), "4.1").ask(
                "InitProducerId", transactional_id="a", transaction_timeout_ms=900_001
            )
        ((deciding, other, *_),) = found.value.reasons
        assert "look up" in deciding
        assert other.startswith("not NONE: ")


def test_each_side_of_a_difference_has_its_row_and_what_is_against_the_other() -> None:
    empty = [
        {"request": "InitProducerId", "transactional_id": "a"},
        {"request": "EndTxn", "transactional_id": "a", "producer_id": 0, "producer_epoch": 0,
         "result": "ABORT"},
    ]  # fmt: skip
    (found,) = difference(empty, "3.6", "4.1")
    assert (found.before["error"], found.after["error"]) == ("INVALID_TXN_STATE", "NONE")
    deciding, other, why = found.before_reasons
    assert deciding.startswith("by transaction: EndTxn, row invalid-state (")
    assert other.startswith("not NONE: transaction: EndTxn, row abort-overtakes-fence (")
    assert why == "  as pending != PREPARE_EPOCH_FENCE"
    deciding, other, why = found.after_reasons
    assert "EndTxn, row empty-abort" in deciding
    assert "row send-markers" in deciding
    assert other.startswith("not INVALID_TXN_STATE: transaction: EndTxn, row empty-commit (")
    assert why == "  as EndTxn.result != COMMIT"


def test_a_batch_too_few_is_remembered() -> None:
    """The run that finds it begins with an epoch to skip to, which a smaller run can't."""
    (fault,) = (fault for fault in FAULTS if fault.what == "only four batches are remembered")
    found = smallest(fault)
    last = found.trace[-1]
    assert (last.line["request"], len(found.trace) < 20) == ("Produce", True)
    assert (last.response or {})["error"] == "OUT_OF_ORDER_SEQUENCE_NUMBER"


def test_a_system_under_test_is_given_no_acls() -> None:
    with pytest.raises(ModelError, match="a system under test has its own ACLs"):
        replay([{"acls": []}], Oracle(), "4.1")
