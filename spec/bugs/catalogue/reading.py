"""Known bugs that a read_committed reader meets: of fetches, and of the log cleaner."""

from __future__ import annotations

from ..bug import Bug


def _reading(producers: int, entries: int, **more: int) -> dict[str, int]:
    """Constants of the system `reading`, with a transaction of each producer and the named ones."""
    named = {"producer_ids": producers, "transactions": producers, "entries": entries}
    return {**named, "segment": 0, "cleanings": 0, "leader_changes": 0, **more}


BUGS = (
    Bug(
        "KAFKA-9807",
        "a fetch reads the high watermark twice: a read_committed reader gets an open transaction",
        affected="0.11 to 2.4",
        property="OnlyCommitted",
        shown_at="2.4",
        fixed_at="2.5",
        fix=("watermark_read_once",),
        fixed_in=("2.5.0",),
        constants=_reading(producers=1, entries=2),
        takes=(
            "fetch begins/later-high-watermark",
            "replicate/advance-high-watermark",
            "next batch/record",
        ),
        source="KAFKA-9807, pull request 8418",
        system="reading",
    ),
    Bug(
        "KAFKA-8351",
        "a marker is cleaned away although its records lie in segments that were cleaned before",
        affected="0.11 to 2.2.1",
        property="NoOpenRange",
        shown_at="2.1",
        fixed_at="2.3",
        fix=("groups_together",),
        fixed_in=("2.2.2", "2.3.0"),
        constants=_reading(producers=1, entries=2, segment=1, cleanings=1, leader_changes=1),
        takes=("clean/remove-obsolete", "another leader/rebuild-producer-state"),
        source="KAFKA-8351, pull request 6722",
        system="reading",
        on=("markers_have_no_key",),
    ),
    Bug(
        "KAFKA-14055",
        "a record whose key has a marker's bytes makes the marker obsolete before its records",
        affected="0.11 to 2.8, 3.0.0 and 3.0.1, 3.1.0 and 3.1.1, and 3.2.0",
        property="NoOpenRange",
        shown_at="2.8",
        fixed_at="3.0",
        fix=("markers_have_no_key",),
        fixed_in=("3.0.2", "3.1.2", "3.2.1", "3.3.0"),
        constants=_reading(producers=2, entries=4, cleanings=1, leader_changes=1),
        takes=("clean/remove-obsolete", "another leader/rebuild-producer-state"),
        source="KAFKA-14055, pull request 12390",
        system="reading",
    ),
    Bug(
        "KAFKA-13727",
        "a cleaner that stops within a segment leaves aborted transactions out of its index",
        affected="0.11 to 2.8.1, 3.0.0 and 3.0.1, and 3.1.0",
        property="OnlyCommitted",
        shown_at="2.7",
        fixed_at="2.8",
        fix=("index_of_whole_segments",),
        fixed_in=("2.8.2", "3.0.2", "3.1.1", "3.2.0"),
        constants=_reading(producers=1, entries=4, transactions=2, partial_cleanings=1),
        takes=("clean in part/cut-index", "next batch/record"),
        source="KAFKA-13727, pull request 11891",
        system="reading",
        on=("markers_have_no_key",),
        note="The abort marker may be cleaned away before "
        "its records, too: NoOpenRange breaks after 11 steps with a run of the cleaner and a "
        "change of the leader.",
    ),
    Bug(
        "KAFKA-4545",
        "a tombstone goes as soon as its segment is old: a reader in time keeps the deleted value",
        affected="0.11 to 3.0",
        property="TombstoneInTime",
        shown_at="3.0",
        fixed_at="3.3",
        fix=("delete_horizon",),
        fixed_in=("3.1.0",),
        constants={"tombstones": 1, "entries": 3, "segment": 2, "cleanings": 2},
        takes=(
            "append a tombstone/of-open-transaction",
            "delete.retention.ms passes/horizons-pass",
            "clean/remove-obsolete-and-overdue",
        ),
        source="KAFKA-4545, KIP-534, pull request 10914",
        system="reading+retention",
        note="Markers go too early, too: MarkerInTime breaks after 12 steps with two producers.",
    ),
    Bug(
        "KAFKA-8522",
        "a tombstone or marker in the last segment that was cleaned is never old enough to go",
        affected="0.11 to 3.0",
        property="NotForEver",
        shown_at="3.0",
        fixed_at="3.3",
        fix=("delete_horizon",),
        fixed_in=("3.1.0",),
        constants={"segment": 0},
        takes=(
            "clean/remove-obsolete-and-overdue",
            "delete.retention.ms passes/horizons-pass",
            "clean/remove-obsolete-and-overdue",
        ),
        source="KAFKA-8522, KIP-534, pull request 10914",
        system="reading+retention",
    ),
)
