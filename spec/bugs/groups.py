"""Known bugs of group coordinators, with the offsets that transactions commit."""

from __future__ import annotations

from .bug import Bug, exactly_once

BUGS = (
    Bug(
        "KIP-447",
        "after a rebalance a member starts before an offset that a transaction is about to "
        "commit: its input is counted twice",
        affected="0.11 to 2.4, with a transactional id for each instance",
        property="CountedOnce",
        shown_at="2.4",
        fixed_at="2.5",
        fix=("stable_offsets",),
        constants={**exactly_once(inputs=2), "own_id": 1},
        takes=(
            "EndTxnResponse/ended",
            "SyncGroup answered/assigned-same-producer",
            "OffsetFetch/no-offset",
        ),
        source="KIP-447, KAFKA-8587",
        system="exactly-once",
        on=("offsets_in_place_first",),
        note="One instance is enough. With a transactional id for each input partition, and a "
        "producer made at each assignment, InitProducerId waits for the transaction before.",
    ),
    Bug(
        "KAFKA-9365",
        "a zombie commits an offset: the group's coordinator asks for no member or generation",
        affected="0.11 to 2.4",
        property="NoZombieOffset",
        shown_at="2.4",
        fixed_at="2.5",
        fix=("members_fenced",),
        constants=exactly_once(),
        takes=("rebalance/next-generation-alone", "TxnOffsetCommit/append"),
        source="KIP-447, KAFKA-9365, pull request 7897",
        system="exactly-once",
    ),
    Bug(
        "KAFKA-17507",
        "the marker of a committed transaction commits the offset of the next one, which is open",
        affected="1.0.2 to 3.9.0",
        property="NoneSkipped",
        shown_at="3.8",
        fixed_at="3.9",
        fix=("offsets_in_place_first",),
        constants=exactly_once(inputs=2, generations=1),
        takes=(
            "WriteTxnMarkers/end-transaction",
            "AddPartitionsByLeaderResponse/offset-append",
            "complete pending offsets/completed",
        ),
        source="commit of pull request 18168",
        system="exactly-once",
        since="1.0",
        note="Up to 2.4 it counts an input twice as well (CountedOnce): who reads an offset "
        "doesn't wait for it.",
    ),
    Bug(
        "KAFKA-15784",
        "an offset of a former generation gets in: its member is checked before the "
        "coordinator is asked",
        affected="a trunk of 2023, before 3.7",
        property="NoZombieOffset",
        shown_at="3.7",
        fixed_at="3.8",
        fix=("offsets_staged_last",),
        constants=exactly_once(),
        takes=(
            "TxnOffsetCommit/ask",
            "rebalance/next-generation-alone",
            "AddPartitionsByLeaderResponse/offset-append",
        ),
        source="commit e4249b69",
        system="exactly-once",
        note="No release has it: KAFKA-15449 brought it, and this came before 3.7.",
    ),
    Bug(
        "KAFKA-20634",
        "a commit is answered NONE though its record is lost: a broker that no longer leads the "
        "group's partition completes it",
        affected="4.0.0 to 4.1.2, 4.2.0, 4.2.1, and 4.3.0",
        property="MemoryIsReplay",
        shown_at="4.3",
        fixed_at="4.4",
        fix=("former_coordinator_silent",),
        constants={"producer_ids": 1, "offset_records": 2, "refusals": 0, "group_failovers": 1},
        takes=(
            "commit an offset/append",
            "group coordinator failover/begin-loading",
            "high watermark passed to the former coordinator/complete-deferred-write",
        ),
        source="pull request 22444",
        system="group-offsets",
        since="4.0.0",
        note="Fixed in 4.2.2 and 4.3.1 as well. The offset of a transaction is lost alike.",
    ),
)
