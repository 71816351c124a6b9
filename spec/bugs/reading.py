"""Known bugs of what a read_committed reader gets: of fetches, and of the log cleaner."""

from __future__ import annotations

from .bug import Bug


def _reading(producers: int, entries: int, **more: int) -> dict[str, int]:
    """Constants of the system `reading`, with a transaction of each producer and what is named."""
    named = {"producer_ids": producers, "transactions": producers, "entries": entries}
    return {**named, "segment": 0, "cleanings": 0, "leader_changes": 0, **more}


BUGS = (
    Bug(
        "KAFKA-9807",
        "a fetch reads the high watermark twice: a read_committed reader gets an open transaction",
        "0.11 to 2.4",
        "OnlyCommitted",
        "2.4",
        "2.5",
        ("watermark_read_once",),
        _reading(producers=1, entries=2),
        (
            "fetch begins/up to the high watermark, whatever it will be",
            "replicate/the high watermark goes on",
            "next batch/a record",
        ),
        "KAFKA-9807, pull request 8418",
        system="reading",
    ),
    Bug(
        "KAFKA-8351",
        "a marker is cleaned away whose records lie in segments that were cleaned before it",
        "0.11 to 2.2.1",
        "NoOpenRange",
        "2.1",
        "2.3",
        ("groups_together",),
        _reading(producers=1, entries=2, segment=1, cleanings=1, leader_changes=1),
        ("clean/remove what is obsolete", "another leader/read the log"),
        "KAFKA-8351, pull request 6722",
        system="reading",
        on=("markers_have_no_key",),
    ),
    Bug(
        "KAFKA-14055",
        "a record whose key has a marker's bytes makes the marker obsolete before its records",
        "0.11 to 3.2",
        "NoOpenRange",
        "2.8",
        "3.0",
        ("markers_have_no_key",),
        _reading(producers=2, entries=4, cleanings=1, leader_changes=1),
        ("clean/remove what is obsolete", "another leader/read the log"),
        "KAFKA-14055, pull request 12390",
        system="reading",
        note="Mended in 3.0.2, 3.1.2, 3.2.1 and 3.3.0.",
    ),
    Bug(
        "KAFKA-13727",
        "a cleaner that stops within a segment leaves aborted transactions out of its index",
        "0.11 to 3.1",
        "OnlyCommitted",
        "2.8",
        "3.0",
        ("index_of_whole_segments",),
        _reading(producers=1, entries=4, transactions=2, partial_cleanings=1),
        ("clean in part/the index of what was cleaned", "next batch/a record"),
        "KAFKA-13727, pull request 11891",
        system="reading",
        on=("markers_have_no_key",),
        note="Mended in 2.8.2, 3.0.2, 3.1.1 and 3.2.0. The abort marker may be cleaned away before "
        "its records, too: NoOpenRange breaks after 11 steps with a run of the cleaner and a "
        "change of the leader.",
    ),
    Bug(
        "KAFKA-4545",
        "a tombstone goes as soon as its segment is old: a reader in time keeps the deleted value",
        "0.11 to 3.0",
        "TombstoneInTime",
        "3.0",
        "3.3",
        ("delete_horizon",),
        {"tombstones": 1, "entries": 3, "segment": 2, "cleanings": 2},
        (
            "append a tombstone/of an open transaction",
            "delete.retention.ms passes/horizons pass",
            "clean/remove what is obsolete, and what was kept for its time",
        ),
        "KAFKA-4545, KIP-534, pull request 10914",
        system="reading+retention",
        note="Mended in 3.1.0. Markers go too early, too: MarkerInTime breaks after 12 steps with "
        "two producers.",
    ),
    Bug(
        "KAFKA-8522",
        "a tombstone or marker in the last segment that was cleaned is never old enough to go",
        "0.11 to 3.0",
        "NotForEver",
        "3.0",
        "3.3",
        ("delete_horizon",),
        {"segment": 0},
        (
            "clean/remove what is obsolete, and what was kept for its time",
            "delete.retention.ms passes/horizons pass",
            "clean/remove what is obsolete, and what was kept for its time",
        ),
        "KAFKA-8522, KIP-534, pull request 10914",
        system="reading+retention",
        note="Mended in 3.1.0.",
    ),
)
