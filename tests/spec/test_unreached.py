"""Small runs of shipped systems: what they don't reach has a reason."""

from __future__ import annotations

import pytest

from epochfence.checker.check import check
from epochfence.checker.verdict.result import Verdict
from epochfence.language import instantiate
from epochfence.spec.systems import shipped

# A system, a release, constants, and the properties that are known to break there.
RUNS: tuple[tuple[str, str, dict[str, int], set[str]], ...] = (
    ("transactions", "4.3", {"partitions": 1, "transactions": 1}, set()),
    ("delivery", "4.3", {"min_insync_replicas": 1}, set()),
    ("producer-ids", "2.0", {}, {"OnlyFromTakenBlocks", "HandedOutOnce", "Increasing"}),
)


@pytest.mark.slow(1)
@pytest.mark.parametrize(("name", "release", "constants", "broken"), RUNS)
def test_what_a_small_run_does_not_reach_has_a_reason(
    name: str, release: str, constants: dict[str, int], broken: set[str]
) -> None:
    system = shipped(name)
    held = [item.name for item in system.properties if item.name not in broken]
    result = check(instantiate(system, release, constants, properties=held))
    assert result.verdict is Verdict.HOLDS
    assert [str(item) for item in result.unexplained] == []
    assert not [note for note in result.notes if "but a run takes it" in note]
