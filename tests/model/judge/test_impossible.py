"""An answer that no broker gives is unexplained, however many orders there are to try."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from random import Random

import pytest

from epochfence.model.judge.judge import Finding
from epochfence.tests.model.judge.honest import Line, eventful, judged, without_markers
from epochfence.tests.model.judge.machines.test_group import eventful as eventful_offsets

RELEASES = ("0.11.0.0", "2.5", "3.6", "4.0.1", "4.4")


def with_error(lines: list[Line], at: int, error: str) -> list[Line]:
    """The history with this error at a place."""
    damaged = deepcopy(lines)
    damaged[at]["response"] = {"error": error}
    return damaged


@pytest.mark.slow(5)
@pytest.mark.parametrize("release", RELEASES)
def test_each_request_of_a_run_may_have_it(release: str, tmp_path: Path) -> None:
    for number, run in enumerate((eventful, eventful_offsets)):
        lines = without_markers(run(release, Random(number), 8))
        for at, line in enumerate(lines):
            # with a few steps, so that a search gives up
            found = judged(with_error(lines, at, "VOTER_NOT_FOUND"), release, tmp_path / "h", 200)
            (wrong,) = (one for one in found if one.finding is Finding.UNEXPLAINED)
            assert wrong.against == (
                f"No broker of this release answers {line['request']} with VOTER_NOT_FOUND."
            )


def test_an_earlier_answer_is_reported_first(tmp_path: Path) -> None:
    lines = without_markers(eventful("3.6", Random(1), 12))
    assert lines[0]["request"] == "InitProducerId"
    damaged = with_error(lines, -1, "VOTER_NOT_FOUND")
    damaged[0]["response"] = {"error": "INVALID_TXN_STATE"}
    found = judged(damaged, "3.6", tmp_path / "h")
    assert "INVALID_TXN_STATE" in found[0].against
