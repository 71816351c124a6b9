"""Disagreements by their causes: their ranks, which are known, and after which a run goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest
from typer.testing import CliRunner, Result

from epochfence.cli import app
from epochfence.model.cluster import Cluster
from epochfence.model.conformance.live.causes import (
    Finding,
    causes,
    changes_nothing,
    is_known,
    known_in,
    name_of,
    rank_of,
)
from epochfence.model.conformance.session import DisagreementError, Exchange, Session, System
from epochfence.model.requests import answer
from epochfence.model.wire.listener import Request
from epochfence.tests.model.conformance.live.oracle_broker import OracleBroker, running


def differs(
    request: str, given: Mapping[str, Any], *allowed: Mapping[str, Any]
) -> DisagreementError:
    """A disagreement in the answer to a request, whose row is `r`."""
    reasons = [["by partition: E, row r (Source.method), then log: F, row s"]] * len(allowed)
    last = Exchange({"request": request}, dict(given))
    return DisagreementError([last], [dict(one) for one in allowed], "4.1", reasons)


def error(name: str, **fields: Any) -> dict[str, Any]:
    return {"error": name, **fields}


DATA, FENCING, WRONG, FIELD = "lost or duplicated data", "fencing", "wrong error", "a field"
ROW = "partition: E, row r"


@pytest.mark.parametrize(
    ("found", "rank", "name"),
    [
        (
            differs("Produce", error("NONE"), error("OUT_OF_ORDER_SEQUENCE_NUMBER")), DATA,
            f"{ROW}: NONE instead of OUT_OF_ORDER_SEQUENCE_NUMBER",
        ),
        (
            differs("Produce", error("NONE", base_offset=5), error("NONE", base_offset=0)), DATA,
            f"{ROW}: base_offset: higher than expected",
        ),
        (
            differs("Fetch", {"batches": [[0, 0, 1]]}, {"batches": []}), DATA,
            f"{ROW}: batches: too many",
        ),
        (
            differs("Produce", error("NONE"), error("INVALID_PRODUCER_EPOCH")), FENCING,
            f"{ROW}: NONE instead of INVALID_PRODUCER_EPOCH",
        ),
        (
            differs("InitProducerId", error("NONE"), error("CONCURRENT_TRANSACTIONS")), FENCING,
            f"{ROW}: NONE instead of CONCURRENT_TRANSACTIONS",
        ),
        (
            differs("EndTxn", error("NONE", producer_epoch=3), error("NONE", producer_epoch=4)),
            FENCING, f"{ROW}: producer_epoch: lower than expected",
        ),
        (
            differs("EndTxn", error("NONE"), error("INVALID_TXN_STATE")), WRONG,
            f"{ROW}: NONE instead of INVALID_TXN_STATE",
        ),
        (
            differs("EndTxn", error("PRODUCER_FENCED"), error("INVALID_TXN_STATE")), WRONG,
            "PRODUCER_FENCED instead of INVALID_TXN_STATE",
        ),
        (
            differs("Produce", error("OUT_OF_ORDER_SEQUENCE_NUMBER"), error("NONE")), WRONG,
            f"{ROW}: OUT_OF_ORDER_SEQUENCE_NUMBER instead of NONE",
        ),
        (
            differs("Produce", error("A", base_offset=0), error("A", base_offset=-1)), FIELD,
            "Produce: a refusal's base_offset: -1 expected",
        ),
        (
            differs("Produce", {"no_answer": "the connection was closed"}), "no answer",
            "Produce: the connection was closed",
        ),
    ],
)  # fmt: skip
def test_a_cause_has_a_rank_and_a_name(found: DisagreementError, rank: str, name: str) -> None:
    assert (rank_of(found), name_of(found)) == (rank, name)


def test_the_worst_is_first_and_what_has_one_cause_is_together() -> None:
    field = [
        Finding("random", differs("Produce", error(e, base_offset=0), error(e, base_offset=-1)), 7)
        for e in ("A", "B")
    ]
    data = Finding("random", differs("Produce", error("NONE"), error("INVALID_TXN_STATE")))
    worst, least = causes([*field, data])
    assert (worst.rank, worst.count, worst.rows) == (
        DATA,
        1,
        ["partition: E, row r (Source.method), then log: F, row s"],
    )
    assert (least.rank, least.count, len(least.findings)) == (FIELD, 14, 2)


def test_known_differences_are_named_by_cause_or_row() -> None:
    found = differs("EndTxn", error("NONE"), error("INVALID_TXN_STATE"))
    lines = known_in(f"# ours\n{name_of(found)}  # a choice\n\nProduce: x\n")
    assert lines == [name_of(found), "Produce: x"]
    assert is_known(found, lines) == name_of(found)
    assert is_known(found, [ROW]) == ROW
    assert is_known(found, ["partition: E, row other"]) is None


def test_only_refusals_leave_the_states_as_they_were() -> None:
    assert changes_nothing(differs("EndTxn", error("A"), error("B")))
    assert not changes_nothing(differs("EndTxn", error("A"), error("NONE"), error("B")))
    assert not changes_nothing(differs("EndTxn", error("NONE"), error("B")))
    assert not changes_nothing(differs("EndTxn", {"no_answer": "x"}, error("B")))
    assert not changes_nothing(differs("Fetch", {"batches": []}, {"batches": [[0, 0, 1]]}))


class Tolerated(System):
    """The oracle: an unknown id gets another error, which is known; an end isn't an end."""

    def __init__(self) -> None:
        self.kafka, self.tolerated = Cluster(protocol="4.1"), list[str]()

    def ask(self, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        if request == "EndTxn":
            return {"error": "NONE"}
        told = answer(self.kafka, {"request": request, **fields})
        return told | (
            {"error": "UNKNOWN"} if told["error"] == "INVALID_PRODUCER_ID_MAPPING" else {}
        )

    def tolerates(self, found: DisagreementError) -> bool:
        self.tolerated.append(name_of(found))
        return changes_nothing(found)


def test_a_run_goes_on_after_what_is_tolerated_and_finds_what_is_behind_it() -> None:
    session = Session(system := Tolerated(), "4.1")
    who = {"transactional_id": "a", "producer_id": 7, "producer_epoch": 0}
    session.ask("AddPartitionsToTxn", **who, partitions=["t-0"], api_version=3)
    assert system.tolerated == ["UNKNOWN instead of INVALID_PRODUCER_ID_MAPPING"]
    told = session.ask("InitProducerId", transactional_id="a", transaction_timeout_ms=60_000)
    assert told is not None
    own = {name: told[name] for name in ("producer_id", "producer_epoch")}
    with pytest.raises(DisagreementError, match="INVALID_TXN_STATE"):
        session.ask("EndTxn", transactional_id="a", **own, result="COMMIT")


def tells_offsets_of_refusals(request: Request, told: dict[str, Any]) -> dict[str, Any]:
    """A Produce that is refused has the base offset 0."""
    if request.name == "Produce":
        one = told["responses"][0]["partition_responses"][0]
        if one["error_code"] != "NONE":
            responses = [
                {**told["responses"][0], "partition_responses": [one | {"base_offset": 0}]}
            ]
            return told | {"responses": responses}
    return told


def conform(place: str, *more: str) -> Result:
    command = ["conform", "--bootstrap", place, "--suite", "random", *more]
    return CliRunner().invoke(app, command, catch_exceptions=False)


@pytest.mark.slow(6)
def test_a_known_cause_is_counted_and_skipped(tmp_path: Path) -> None:
    result, junit, known = (tmp_path / name for name in ("found.json", "j.xml", "known.txt"))
    with running(OracleBroker("4.3", fault=tells_offsets_of_refusals)) as place:
        files = ("--json", str(result), "--junit", str(junit))
        done = conform(place, "--seconds", "4", *files)
        assert done.exit_code == 12, done.output
        (cause,) = json.loads(result.read_text())["causes"]
        assert (cause["rank"], cause["name"]) == (
            "a field",
            "Produce: a refusal's base_offset: -1 expected",
        )
        (case,) = Xml.fromstring(junit.read_text()).findall("testcase[failure]")
        assert (case.get("classname"), case.get("name")) == ("disagreement: a field", cause["name"])
        assert f"cause 1, a field: {cause['name']}\n" in done.output

        known.write_text(f"{cause['name']}\nan old one  # gone\n")
        done = conform(place, "--seconds", "4", "--known", str(known), *files)
    assert done.exit_code == 0, done.output
    assert "known, not met: an old one\n" in done.output
    assert "0 disagreements but those that are known (" in done.output
    told = json.loads(result.read_text())
    assert (told["disagreements"], told["known"]["an old one"]) == ([], 0)
    assert told["known"][cause["name"]] > 0


def test_a_file_of_known_differences_that_is_missing_is_told_in_a_line(tmp_path: Path) -> None:
    with running(OracleBroker("4.3")) as place:
        done = conform(place, "--known", str(tmp_path / "nowhere"))
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "nowhere: No such file" in done.stderr
