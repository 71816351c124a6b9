"""A leader that takes each sequence below the next one for a duplicate."""

from __future__ import annotations

from ....language import Change, Row
from ...errors import Errors
from ...leader.idempotent import entry
from ...leader.produce import produce_response
from ...leader.state import next_sequence
from ...messages import Produce
from ..rules import rule

remembered_alone = rule(
    "remembered_alone",
    "A batch is a duplicate only if the leader remembers one with its sequences. Otherwise each "
    "batch below the next sequence is one.",
    "ProducerStateEntry.findDuplicateBatch",
)

below_next = (
    Change(
        "below-next",
        "A leader acknowledges each batch below the next sequence as a duplicate.",
        features=(remembered_alone,),
    )
    .table("partition.Produce")
    .before(
        "out-of-order",
        Row(
            "below-next",
            "The sequence is below the next one, and counts as a duplicate",
            when=(Produce.producer_epoch == entry.producer_epoch)
            & (Produce.base_sequence < next_sequence(entry)),
            reply=produce_response(Errors.NONE),
            during=~remembered_alone,
            source="ProducerAppendInfo.isDuplicate in 1.0.0",
            note="1.0.0 and 1.0.1 did so below all batches that they remembered.",
        ),
    )
)
