"""Rules that hold of a partition leader alone, whatever comes in whatever order."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochfence.spec.releases.api_versions import VERSION_1
from epochfence.spec.releases.features import KAFKA, batches_kept
from epochfence.spec.releases.features import RELEASED as RELEASES
from epochfence.tests.spec.leaders import BOUNDS, leader

LAST = BOUNDS["largest_sequence"]
epochs, sequences = st.integers(0, 3), st.integers(0, LAST)


@pytest.mark.slow(1)
@given(
    st.sampled_from(RELEASES),
    st.lists(st.tuples(epochs, sequences, st.booleans()), min_size=1, max_size=12),
)
def test_what_is_accepted_is_in_order(release: str, tries: list[tuple[int, int, bool]]) -> None:
    """Within an epoch, sequences follow each other modulo their number; epochs never go back."""
    one = leader(release)
    accepted: list[tuple[int, int]] = []
    for epoch, sequence, follow in tries:
        if follow and accepted:  # else few would be accepted
            epoch, sequence = accepted[-1][0], (accepted[-1][1] + 1) % (LAST + 1)
        if one.produce(epoch, sequence, idempotent_only=True) == "written":
            accepted.append((epoch, sequence))
    assert [epoch for epoch, _ in accepted] == sorted(epoch for epoch, _ in accepted)
    for (epoch, sequence), (following, number) in pairwise(accepted):
        assert number == ((sequence + 1) % (LAST + 1) if following == epoch else 0)
    kept = BOUNDS["cached_batches"] if batches_kept.data.name in KAFKA.features_at(release) else 1
    assert len(one.entry()[1]) == min(kept, sum(epoch == one.entry()[0] for epoch, _ in accepted))


@pytest.mark.slow(1)
@given(
    st.lists(
        st.tuples(st.sampled_from(["data", "plain", "COMMIT", "ABORT"]), st.integers(0, 1)),
        max_size=9,
    )
)
def test_the_stable_offset_is_where_the_first_open_transaction_starts(
    events: list[tuple[str, int]],
) -> None:
    one = leader("2.5")
    opened: dict[int, int] = {}
    following = [0, 0]
    for kind, producer_id in events:
        if kind in ("data", "plain"):
            plain = kind == "plain"
            told = one.produce(
                0, following[producer_id], producer_id=producer_id, idempotent_only=plain
            )
            assert told == ("INVALID_TXN_STATE" if plain and producer_id in opened else "written")
            if told == "written":
                following[producer_id] += 1
                if not plain:
                    opened.setdefault(producer_id, len(one.log) - 1)
        else:
            told = one.marker(0, kind, producer_id=producer_id)
            assert told == ("ended" if producer_id in opened else "nothing")
            opened.pop(producer_id, None)
        assert one.stable() == min(opened.values(), default=len(one.log))


def test_each_producer_id_is_on_its_own() -> None:
    """ProducerStateManagerTest.testLastStableOffsetCompletedTxn."""
    one = leader("4.3", *VERSION_1)
    assert one.verified(3, 0) == "written"
    assert one.verified(0, 0, producer_id=1, client=1) == "written"
    assert one.stable() == 0
    assert one.marker(3, "COMMIT") == "ended"
    assert one.stable() == 1
    assert one.verified(3, 1) == "written"
    assert one.marker(0, producer_id=1) == "ended"
    assert (one.stable(), one.log) == (3, ["DATA", "DATA", "COMMIT", "DATA", "ABORT"])
    assert one.marker(3, "COMMIT") == "ended"
    assert one.stable() == 6
