"""Known bugs of the sources of producer ids."""

from __future__ import annotations

from .bug import Bug

BUGS = (
    Bug(
        "KAFKA-12620",
        "a block of producer ids is in use before it is written: another broker hands it out, too",
        "2.0 to 2.8",
        "HandedOutOnce",
        "2.7",
        "2.7",
        ("block_current_once_written",),
        {"handlers": 1},
        ("session expires/the call fails", "generateProducerId/next id of the block"),
        "KAFKA-12620, ProducerIdManager.getNewProducerIdBlock",
        system="producer-ids",
    ),
    Bug(
        "KAFKA-14694",
        "the mark of a request in flight goes before its block is there: a second one is asked for",
        "3.0 to 3.5",
        "OneBlockAhead",
        "3.5",
        "3.6",
        ("block_awaited_elsewhere",),
        {"brokers": 1, "faults": 0},
        ("AllocateProducerIdsResponse/clear the flag", "maybeRequestNextBlock/ask the controller"),
        "KAFKA-14694, RPCProducerIdManager",
        system="producer-ids",
        since="3.0",
    ),
)
