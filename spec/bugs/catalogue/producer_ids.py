"""Known bugs of the sources of producer ids."""

from __future__ import annotations

from ..bug import Bug

BUGS = (
    Bug(
        "KAFKA-12620",
        "a block of producer ids is in use before it is written: another broker hands it out, too",
        affected="2.0 to 2.8",
        property="HandedOutOnce",
        shown_at="2.7",
        fixed_at="2.7",
        fix=("block_current_once_written",),
        fixed_in=("3.0.0",),
        constants={"handlers": 1},
        takes=("session expires/failure", "generateProducerId/id"),
        source="KAFKA-12620, ProducerIdManager.getNewProducerIdBlock",
        system="producer-ids",
        since="2.0.0",
    ),
    Bug(
        "KAFKA-14694",
        "the mark of a request in flight is cleared before its block is there: a second one is "
        "requested",
        affected="3.0 to 3.5",
        property="OneBlockAhead",
        shown_at="3.5",
        fixed_at="3.6",
        fix=("block_awaited_elsewhere",),
        fixed_in=("3.6.0",),
        constants={"brokers": 1, "faults": 0},
        takes=(
            "AllocateProducerIdsResponse/clear",
            "maybeRequestNextBlock/request",
        ),
        source="KAFKA-14694, RPCProducerIdManager",
        system="producer-ids",
        since="3.0",
    ),
)
