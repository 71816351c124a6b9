"""A smaller run shows the same difference: the first one that was met is neither lost nor mixed up
with another on the same request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from epochfence.model import Cluster
from epochfence.model.conformance import shrink
from epochfence.model.conformance.difference import Difference
from epochfence.model.conformance.session import DisagreementError, Session, System, UnansweredError
from epochfence.model.requests import answer

A = {"transactional_id": "a"}


class Oracle(System):
    def __init__(self) -> None:
        self.cluster = Cluster(protocol="4.1")

    def ask(self, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
        told = answer(self.cluster, {"request": request, **fields})
        return self.wrong(request, fields, told)

    def wrong(
        self, request: str, fields: Mapping[str, Any], told: dict[str, Any]
    ) -> Mapping[str, Any] | None:
        return told


class Ends(Oracle):
    """It answers two kinds of ends wrongly: of an empty transaction, and by an old epoch."""

    def wrong(
        self, request: str, fields: Mapping[str, Any], told: dict[str, Any]
    ) -> Mapping[str, Any] | None:
        if request == "EndTxn" and told["error"] in ("INVALID_TXN_STATE", "PRODUCER_FENCED"):
            return told | {"error": "INVALID_REQUEST"}
        return told


def begin(session: Session) -> dict[str, Any]:
    told = session.ask("InitProducerId", **A)
    assert told is not None
    return {**A, **{name: told[name] for name in ("producer_id", "producer_epoch")}}


def test_another_disagreement_on_the_same_request_is_not_the_same() -> None:
    session = Session(Ends(), "4.1")
    old = begin(session)
    begin(session)
    session.ask("Fetch", partition="t-0")
    with pytest.raises(DisagreementError) as met:
        session.ask("EndTxn", **old, result="COMMIT")
    wanted = Difference.of(met.value)
    assert (wanted.given, wanted.expected) == (("INVALID_REQUEST",), {"PRODUCER_FENCED"})
    found = shrink.smallest(met.value, Ends)
    assert Difference.of(found) == wanted
    # one line less would show the end of nothing
    asked = [exchange.line["request"] for exchange in found.trace]
    assert asked == ["InitProducerId", "InitProducerId", "EndTxn"]


def test_a_line_is_spared_whose_answer_a_later_one_names() -> None:
    """The end names the answer to the third line; the answer to the first does as well."""
    session = Session(Ends(), "4.1")
    begin(session)
    begin(session)
    who = begin(session)
    with pytest.raises(DisagreementError) as met:
        session.ask("EndTxn", **who, result="COMMIT")
    assert Difference.of(met.value).expected == {"INVALID_TXN_STATE"}
    found = shrink.smallest(met.value, Ends)
    assert [exchange.line["request"] for exchange in found.trace] == ["InitProducerId", "EndTxn"]


def test_a_producer_id_without_an_epoch_stays_one() -> None:
    class Lenient(Oracle):
        def wrong(
            self, request: str, fields: Mapping[str, Any], told: dict[str, Any]
        ) -> Mapping[str, Any] | None:
            is_half = fields.get("producer_id", -1) >= 0 > fields.get("producer_epoch", 0)
            return told | {"error": "NONE"} if is_half else told

    session = Session(Lenient(), "4.1")
    session.ask("InitProducerId", transactional_id="b")
    who = begin(session)
    with pytest.raises(DisagreementError) as met:
        session.ask("InitProducerId", **{**who, "producer_epoch": -1})
    assert shrink.shows_again(met.value, Lenient)
    found = shrink.smallest(met.value, Lenient)
    assert len(found.trace) == 2
    assert found.trace[-1].line["producer_epoch"] == -1


class Closing(Oracle):
    """It gives no answer to an end, nor to a request of the adapter's own after a batch."""

    prompt = False

    def wrong(
        self, request: str, fields: Mapping[str, Any], told: dict[str, Any]
    ) -> Mapping[str, Any] | None:
        self.last = request
        if request == "EndTxn":
            raise UnansweredError("gone", "EndTxn", "the connection was closed")
        return told

    def settle(self) -> bool:
        if self.last == "Produce":
            raise UnansweredError("gone", "DescribeTransactions", "the connection was closed")
        return True


def test_no_answer_is_a_disagreement() -> None:
    session = Session(Closing(), "4.1")
    begin(session)
    who = begin(session)
    shown = r"no answer\n1 .*\n.*\n3 EndTxn.*closed\n  4.1 allows: error NONE"
    with pytest.raises(DisagreementError, match=shown) as met:
        session.ask("EndTxn", **who, result="ABORT")
    assert met.value.no_answer == "the connection was closed"
    found = shrink.smallest(met.value, Closing)
    assert [exchange.line["request"] for exchange in found.trace] == ["InitProducerId", "EndTxn"]


def test_no_answer_to_a_request_beside_is_one_as_well() -> None:
    session = Session(Closing(), "4.1")
    who = begin(session)
    session.ask("Fetch", partition="t-0")
    with pytest.raises(DisagreementError, match=r"DescribeTransactions.*closed") as met:
        session.ask("Produce", partition="t-0", **who, base_sequence=0, count=2)
    assert met.value.is_beside
    assert "DescribeTransactions" not in met.value.lines()
    found = shrink.smallest(met.value, Closing)
    assert [exchange.line["request"] for exchange in found.trace] == [
        "InitProducerId",
        "Produce",
        "DescribeTransactions",
    ]


@pytest.mark.parametrize(
    ("given", "allowed", "told"),
    [
        ({"error": "NONE", "base_offset": 0}, {"error": "NONE", "base_offset": -1}, "-1 expected"),
        ({"offset": 3}, {"offset": 5}, "lower than expected"),
        ({"offset": 7}, {"offset": 5}, "higher than expected"),
        ({"batches": [[0, 0, 1]]}, {"batches": []}, "too many"),
        ({"batches": []}, {"batches": [[0, 0, 1]]}, "some missing"),
        ({"batches": [[0, 0, 2]]}, {"batches": [[0, 0, 1]]}, "others expected, at 2"),
        ({"state": "Empty"}, {"state": "Ongoing"}, "Empty given, Ongoing expected"),
    ],
)
def test_fields_differ_in_ways(given: Any, allowed: Any, told: str) -> None:
    session = Session(Oracle(), "4.1")
    session.ask("InitProducerId", **A)
    trace = [session.trace[0]._replace(response=given)]
    found = Difference.of(DisagreementError(trace, [allowed], "4.1"))
    assert found.given[0].partition(": ")[2] == told
