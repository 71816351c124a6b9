"""kfake's coordinator, with the rule that it had of its own. kfake is the mock of franz-go."""

from __future__ import annotations

from ....language import Change, Row
from ...coordinator import entry
from ...coordinator.requests.init_producer_id import is_expected
from ...coordinator.state_manager.log import logged_partitions
from ..rules import rule

open_aborted_first = rule(
    "open_aborted_first",
    "A new instance of a transactional id gets an epoch once the open transaction is aborted. "
    "Before, it got one at once, and the transaction stayed open.",
    "twmb/franz-go pull request 1398",
)

kfake = (
    Change("kfake", "The coordinator is kfake's.", features=(open_aborted_first,))
    .table("transaction.InitProducerId")
    .like(
        "increment-epoch",
        Row(
            "new-producer-while-open",
            "A transaction is open: the producer gets the next epoch all the same",
            when=(entry.state == entry.ONGOING) & ~is_expected,
            during=~open_aborted_first,
            source="twmb/franz-go pull request 1398",
        ),
        before="fence-at-largest-epoch",
    )
    .table("transaction.log append")
    .like(
        "initialized",
        Row(
            "initialized-while-open",
            "The epoch is given out, and the transaction before stays open",
            when=entry.state == entry.ONGOING,
            goto=entry.ONGOING,
            set={logged_partitions: entry.partitions},
            during=~open_aborted_first,
            source="twmb/franz-go pull request 1398",
        ),
    )
)
