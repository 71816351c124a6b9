"""Which markers the lines of a transactional id explain."""

from __future__ import annotations

import pytest

from epochfence.model.judge.machines.decisions import Decisions
from epochfence.model.judge.operations import Operation


def ended(epoch: int, start: float, error: str = "NONE") -> Operation:
    """An EndTxn of version 2 in this epoch, whose answer has the next one."""
    held = {"producer_id": 1, "producer_epoch": epoch}
    after = {"producer_id": 1, "producer_epoch": epoch + 1} if error == "NONE" else {}
    fields = {**held, "result": "COMMIT"}
    return Operation("EndTxn", fields, start, start + 1, {"error": error, **after})


@pytest.mark.parametrize(
    ("release", "latest"), [("3.6", 3), ("4.0.0", 4), ("4.0.1", 3), ("4.3", 3), ("4.4", 3)]
)
def test_a_fencing_abort_of_4_0_0_takes_two_epochs(release: str, latest: int) -> None:
    """KAFKA-19367. A transaction in epoch 2 times out before its EndTxn."""
    began = {"error": "NONE", "producer_id": 1, "producer_epoch": 0}
    init = Operation("InitProducerId", {"transaction_timeout_ms": 100}, 0, 1, began)
    lost = Operation("InitProducerId", {"transaction_timeout_ms": 100}, 300)
    ends = [ended(0, 10), ended(1, 20), ended(2, 130, "CONCURRENT_TRANSACTIONS")]
    about = Decisions({"b": [init, *ends, lost]}, release).at("p-0")
    assert [e for e in (3, 4) if about.may_mark(1, e, 150, ("ABORT",))] == [*range(3, latest + 1)]
    assert not about.may_mark(1, 3, 100, ("ABORT",))


@pytest.mark.parametrize(
    ("release", "may_be"), [("0.11.0.0", True), ("0.11.0.2", False), ("3.6", False)]
)
def test_an_abort_by_time_has_a_later_epoch_than_its_client(release: str, may_be: bool) -> None:
    """KAFKA-6119. The timeout isn't recorded, so it may have come at any time before the end."""
    began = {"error": "NONE", "producer_id": 1, "producer_epoch": 0}
    init = Operation("InitProducerId", {}, 0, 1, began)
    about = Decisions({"b": [init, ended(0, 10)]}, release).at("p-0")
    assert about.may_mark(1, 0, 20, ("ABORT",)) is may_be
    assert about.may_mark(1, 1, 20, ("ABORT",))


@pytest.mark.parametrize("release", ["2.5", "3.6", "4.4"])
def test_an_abort_by_time_comes_after_what_the_earlier_epoch_was_allowed(release: str) -> None:
    began = {"error": "NONE", "producer_id": 1, "producer_epoch": 0}
    init = Operation("InitProducerId", {"transaction_timeout_ms": 5}, 0, 1, began)
    about = Decisions({"b": [init, ended(0, 900)]}, release).at("p-0")
    assert not about.may_mark(1, 1, 800, ("ABORT",))
    assert about.may_mark(1, 1, 950, ("ABORT",))
    about = Decisions({"b": [init, ended(0, 900, "INVALID_PRODUCER_EPOCH")]}, release).at("p-0")
    assert about.may_mark(1, 1, 800, ("ABORT",))


@pytest.mark.parametrize(("release", "may_be"), [("3.9", False), ("4.0.0", True), ("4.4", True)])
def test_only_version_2_marks_with_the_next_epoch(release: str, may_be: bool) -> None:
    began = {"error": "NONE", "producer_id": 1, "producer_epoch": 0}
    init = Operation("InitProducerId", {"transaction_timeout_ms": 5_000}, 0, 1, began)
    about = Decisions({"b": [init, ended(0, 10)]}, release).at("p-0")
    assert about.may_mark(1, 0, 20, ("COMMIT",))
    assert about.may_mark(1, 1, 20, ("COMMIT",)) is may_be
