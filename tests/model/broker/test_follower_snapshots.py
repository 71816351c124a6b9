"""What a follower knows of producers that has rolled, truncated its log and read a snapshot, and
one that has read the whole log: the same but for batches older than the snapshot's newest one."""

from __future__ import annotations

from itertools import product

import pytest

from epochfence.model import PartitionLeader
from epochfence.spec.releases.features import KAFKA, RELEASED, state_outlives_records

DEPTH, END = 4, 2  # records and markers, and how many a truncation leaves
DATA, OTHER, COMMIT, FENCE = range(4)


def written(release: str, steps: tuple[int, ...]) -> PartitionLeader:
    """A log of transactional batches, those of another producer without, and markers, one of which
    has a newer epoch than the batches before it."""
    leader, epoch, following, others = PartitionLeader(protocol=release), 0, 0, 0
    for step in steps:
        if step in (DATA, OTHER):
            answer = leader.append(
                producer_id=step,
                producer_epoch=epoch if step == DATA else 0,
                count=1,
                base_sequence=following if step == DATA else others,
                transactional=step == DATA,
                origin="REPLICATION",
            )
            assert answer.error == "NONE"
            following, others = following + (step == DATA), others + (step == OTHER)
        else:
            epoch, following = (epoch + 1, 0) if step == FENCE else (epoch, following)
            leader.append_marker(
                producer_id=DATA,
                producer_epoch=epoch,
                result="ABORT" if step == FENCE else "COMMIT",
            )
    return leader


@pytest.mark.slow(1)
@pytest.mark.sample(1, of="engines: snapshots")
@pytest.mark.parametrize("release", RELEASED)
def test_a_snapshot_and_the_log_behind_it_say_what_the_log_says(release: str) -> None:
    is_kept = KAFKA.holds(state_outlives_records, KAFKA.features_at(release))
    fewer, forgotten = 0, 0
    for steps in product(range(4), repeat=DEPTH):
        whole = written(release, steps)
        for cut in range(1, DEPTH):
            follower = PartitionLeader(protocol=release)
            follower.replicate(whole.batches[:cut])
            follower.roll()
            follower.replicate(whole.batches[cut:])
            follower.truncate(END)
            follower.replicate(whole.batches[END:])
            for producer, entry in whole.producers.items():
                mine = follower.producers.get(producer)
                if mine is None:  # before 2.4: isProducerRetained
                    assert not is_kept, (steps, cut)
                    forgotten += 1
                    continue
                batches = len(mine.batch_metadata)
                newest = entry.batch_metadata[len(entry.batch_metadata) - batches :]
                told = mine._replace(last_timestamp=entry.last_timestamp)
                if is_kept:
                    assert told == entry._replace(batch_metadata=newest), (steps, cut)
                    assert batches or not entry.batch_metadata
                fewer += batches < len(entry.batch_metadata)
    assert (forgotten > 0) is not is_kept
    assert (fewer > 0) is (release >= "1.0")
