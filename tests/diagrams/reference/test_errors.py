"""The meaning of errors, against the judge's answers and against clients that run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from epochfence.diagrams.reference.errors import Outcome, meaning, names
from epochfence.model.judge.machines.coordinator import answers_of
from epochfence.model.judge.machines.unjudged_answers import COORDINATOR_REQUESTS, from_around
from epochfence.spec.coordinator.tables import DRIVEN
from epochfence.tests.cli.test_cli import epochfence
from epochfence.tests.model.client.producers import only, transactional_of

OLDEST = "0.11.0.2"
ENDS = [name for name in names() if any(one.request == "EndTxn" for one in meaning(name).answers)]
"""The errors that EndTxn is answered with."""


@pytest.mark.parametrize("release", ["2.5", "3.6", "4.0.1", "4.4"])
@pytest.mark.parametrize("request_name", COORDINATOR_REQUESTS)
def test_no_answer_that_the_judge_accepts_is_missing(release: str, request_name: str) -> None:
    """The judge reads the answers to a request of any version, so to clients of any release."""
    event = "AddPartitionsToTxn" if request_name == "AddOffsetsToTxn" else request_name
    judged = answers_of(DRIVEN, release, event) | from_around(request_name, release)
    missing = [
        error
        for error in judged - {"NONE"}
        if not any(
            request_name == one.request
            for client in (OLDEST, "2.5", release)
            for one in meaning(error, client, release).answers
        )
    ]
    assert missing == ["PRODUCER_FENCED"] * (release == "2.5")  # which has no such error


@pytest.mark.parametrize("release", ["2.5", "3.6", "4.4"])
@pytest.mark.parametrize("error", ENDS)
def test_a_client_that_runs_reacts_as_it_is_explained(release: str, error: str) -> None:
    client = transactional_of(release)
    client.add_partition(("orders", 0))
    client.answer(only(client))
    client.commit_transaction()
    client.answer(only(client), error)
    outcomes = {one.outcome for one in meaning(error, release, release).of("EndTxn").handlings}
    after = {
        "FATAL_ERROR": Outcome.FATAL,
        "ABORTABLE_ERROR": Outcome.ABORTABLE,
        "COMMITTING_TRANSACTION": Outcome.RETRIED,
    }
    assert after[str(client.machine.state["state"])] in outcomes


def test_a_fenced_commit_may_have_committed() -> None:
    part = meaning("PRODUCER_FENCED", "3.9", "4.0").of("EndTxn")
    assert any(one.place.startswith("transaction.EndTxn/other-epoch") for one in part.answers)
    assert [one.outcome for one in part.handlings] == [Outcome.FATAL]
    assert "may be committed" in next(part.advice)


def test_an_unauthorized_producer_commits_nothing_by_its_request() -> None:
    """An answer to AddPartitionsToTxn says nothing of a commit."""
    part = meaning("TOPIC_AUTHORIZATION_FAILED").of("AddPartitionsToTxn")
    assert not any("committed" in sentence for sentence in part.advice)


def test_a_client_without_transactional_id_bumps_its_epoch() -> None:
    part = meaning("UNKNOWN_PRODUCER_ID", "2.5", "2.5").of("Produce")
    assert {one.idempotent for one in part.handlings} == {False, True}


def test_an_error_is_named_or_numbered() -> None:
    assert meaning("48") == meaning("invalid_txn_state") == meaning("INVALID_TXN_STATE")
    assert meaning("-1").error == "UNKNOWN_SERVER_ERROR"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["INVALID_TXN"], "no error is called INVALID_TXN (did you mean INVALID_TXN_STATE?)"),
        (["NONE"], "no error is called NONE"),
        (["1000"], "no error is called 1000"),
        (["48", "--client", "9"], "unknown protocol 9"),
        (["48", "--broker", "4.4+client=3.9"], "4.4+client=3.9: name one release"),
        (["90", "--request", "Fetch"], "no Fetch is answered PRODUCER_FENCED (choose one of"),
    ],
)
def test_wrong_words_are_refused_in_a_line(arguments: list[str], message: str) -> None:
    result = epochfence("explain-error", *arguments)
    assert result.code == 2
    assert result.err.startswith(f"epochfence: {message}")
    assert result.err.count("\n") == 1


def test_the_command_prints_rows_and_advice() -> None:
    result = epochfence(
        "explain-error", "CONCURRENT_TRANSACTIONS", "--request", "EndTxn", "--json", "-"
    )
    answers: list[dict[str, Any]] = json.loads(result.out)["answers"]
    assert {"place", "source", "text", "request", "may_be_committed"} == {*answers[0]}


def test_a_row_that_decides_to_abort_commits_nothing() -> None:
    part = meaning("PRODUCER_FENCED", "3.9", "4.0").of("EndTxn")
    by_row = {one.place.rpartition("/")[2]: one.may_be_committed for one in part.answers}
    assert by_row == {"other-epoch": True, "commit-prepared": True, "abort-prepared": False}
    assert part.answers[-1].sentence.endswith("The transaction isn't committed.")
