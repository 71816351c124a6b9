"""The tables of docs/serve.md are what clients do."""

from __future__ import annotations

import pytest

from epochfence.tests.model.serve.behaviours import (
    CLIENTS,
    RELEASES,
    SCHEDULES,
    Schedule,
    behaviour,
    shown,
)

HERE = [client for client in CLIENTS if client != "Java"]  # whose is in tests/brokers
EVERY = [(c, r, s) for c in HERE for r in RELEASES for s in SCHEDULES]


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    ("client", "release", "schedule"), EVERY, ids=[f"{c}-{r}-{s.title}" for c, r, s in EVERY]
)
def test_a_client_does_as_the_page_says(client: str, release: str, schedule: Schedule) -> None:
    assert behaviour(client, release, schedule) == shown(client, release, schedule)


def test_a_late_end_is_told_from_one_that_comes_in_time() -> None:
    """The page's last schedule breaks exactly-once where clients aren't of version 2."""
    *_, late = SCHEDULES
    found = {client: shown(client, "4.3", late) for client in CLIENTS}
    assert found.pop("Java") == "C A C → 0 2"
    assert {cell.rpartition(" → ")[2] for cell in found.values()} == {"0 1"}
