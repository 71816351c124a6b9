"""What a read_committed reader gets, against how Kafka's leaders and consumers work it out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochfence.language import Expression, position
from epochfence.language.expressions import lift
from epochfence.spec.leader import isolation
from epochfence.tests.spec.leaders import Leader

HERE = lift(0)  # the only partition
EVENTS = st.tuples(st.sampled_from(["data", "plain", "COMMIT", "ABORT"]), st.integers(0, 1))


def offsets(one: Leader, shown: Expression, entry: Expression) -> set[int]:
    """The offsets of the entries for which the condition holds."""
    return {
        offset
        for offset, line in enumerate(one.field("log"))
        if one.value(shown, {entry: line, position(entry): offset})
    }


@pytest.mark.slow(1)
@given(st.lists(EVENTS, min_size=4, max_size=12), st.integers(0, 2))
def test_the_reader_drops_what_the_aborted_index_names(
    events: list[tuple[str, int]], deleted: int
) -> None:
    """The leader's index has, for each aborted transaction, producer id, first and last offset;
    the consumer drops transactional records of an id from its first offset to its marker."""
    one = Leader("2.5")
    following = [0, 0]
    opened: dict[int, int] = {}
    index: list[tuple[int, int, int]] = []
    for kind, producer_id in events:
        end = len(one.log)
        if kind in ("COMMIT", "ABORT"):
            if one.marker(0, kind, producer_id=producer_id) == "ended" and kind == "ABORT":
                index.append((producer_id, opened[producer_id], end))
            opened.pop(producer_id, None)
        elif (
            one.produce(
                0, following[producer_id], producer_id=producer_id, idempotent_only=kind == "plain"
            )
            == "written"
        ):
            following[producer_id] += 1
            if kind == "data":
                opened.setdefault(producer_id, end)
    start = min(deleted, len(one.log))
    one.state["partition.log_start_offset"] = (start,)

    expected = {
        offset
        for offset, (kind, producer_id, _, plain, *_) in enumerate(one.field("log"))
        if start <= offset < one.stable() and kind == "DATA"
        if plain or not any(i == producer_id and a <= offset < b for i, a, b in index)
    }
    entry = isolation.log_entry("e", HERE)
    assert offsets(one, isolation.is_read_committed(entry, HERE), entry) == expected

    for oldest_first, dropped in ((True, set[int]()), (False, set[int]())):
        firsts: dict[int, list[int]] = {}
        for producer_id, first, _ in index if oldest_first else reversed(index):
            firsts.setdefault(producer_id, []).append(first)
        for offset, (what, producer_id, _, plain, *_) in enumerate(one.field("log")):
            ahead = firsts.get(producer_id, [])
            if what == "DATA" and not plain and ahead and ahead[0] <= offset:
                dropped.add(offset)
            elif what == "ABORT":
                ahead.pop(0)
        filtered = isolation.is_filtered(entry, HERE, lift(oldest_first))
        assert offsets(one, filtered, entry) == dropped
