"""Checks of a client's requests. Each returns descriptions of the requests that break its rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

Line = Mapping[str, Any]
_OF_TRANSACTIONS: Final = frozenset(
    ("AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "Produce")
)


def _is_done(line: Line) -> bool:
    return line.get("response", {}).get("error") == "NONE"


def initialized_first(lines: Sequence[Line]) -> str:
    """No request of a transaction comes before InitProducerId is answered."""
    for line in lines:
        if line["request"] == "InitProducerId" and _is_done(line):
            return ""
        if line["request"] in _OF_TRANSACTIONS:
            return f"{line['request']} comes before InitProducerId is answered"
    return ""


def added_first(lines: Sequence[Line]) -> str:
    """Each batch goes to a partition that was added to the transaction before."""
    added: set[tuple[int, str]] = set()
    for line in lines:
        producer = line.get("producer_id", -1)
        match line["request"]:
            case "AddPartitionsToTxn" if _is_done(line):
                added |= {(producer, partition) for partition in line["partitions"]}
            case "Produce" if line["transactional"] and (producer, line["partition"]) not in added:
                return f"a batch goes to {line['partition']}, which isn't in the transaction"
            case "EndTxn" if _is_done(line):
                added = {pair for pair in added if pair[0] != producer}
            case _:
                pass
    return ""


def ended_behind_batches(lines: Sequence[Line]) -> str:
    """No EndTxn comes while a batch is being answered."""
    batches = [line for line in lines if line["request"] == "Produce"]
    for end in (line for line in lines if line["request"] == "EndTxn"):
        for batch in batches:
            if batch["start"] < end["start"] < batch.get("end", batch["start"]):
                return f"EndTxn comes before the answer to a batch for {batch['partition']}"
    return ""


def same_end(lines: Sequence[Line]) -> str:
    """An EndTxn without a final answer is followed by the same one."""
    open_end: Line | None = None
    for line in lines:
        if line["request"] == "InitProducerId":  # this request also ends the transaction
            open_end = None
        if line["request"] not in _OF_TRANSACTIONS:
            continue
        if open_end is not None:
            if line["request"] != "EndTxn":
                return f"{line['request']} follows an EndTxn without a final answer"
            if line["result"] != open_end["result"]:
                return f"{line['result']} follows {open_end['result']} without a final answer"
        if line["request"] == "EndTxn":
            open_end = None if _is_final(line) else line
    return ""


_RETRIABLE: Final = frozenset((
    "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS",
    "CONCURRENT_TRANSACTIONS",
))  # fmt: skip


def _is_final(line: Line) -> bool:
    return "response" in line and line["response"]["error"] not in _RETRIABLE


def no_epoch_within(lines: Sequence[Line]) -> str:
    """No InitProducerId comes between a batch of a transaction and its EndTxn."""
    is_open = False
    for line in lines:
        match line["request"]:
            case "Produce":
                is_open = True
            case "EndTxn":
                is_open = False
            case "InitProducerId" if is_open:
                return "InitProducerId comes in the middle of a transaction"
            case _:
                pass
    return ""


def same_batch(lines: Sequence[Line]) -> str:
    """The batch after one without an answer is the same batch."""
    lost: Line | None = None
    for line in lines:
        if line["request"] != "Produce":
            continue
        if lost is not None and line["partition"] == lost["partition"]:
            names = ("producer_id", "producer_epoch", "base_sequence", "count")
            if any(line[name] != lost[name] for name in names):
                return f"a batch without an answer comes again with other {', '.join(names)}"
            lost = None
        if "response" not in line:
            lost = line
    return ""


def epochs_from_0(lines: Sequence[Line]) -> str:
    """The first batch of each epoch in each partition has sequence 0."""
    seen: set[tuple[str, int, int]] = set()
    for line in lines:
        if line["request"] != "Produce":
            continue
        key = line["partition"], line["producer_id"], line["producer_epoch"]
        if key not in seen and line["base_sequence"] != 0:
            epoch, sequence = line["producer_epoch"], line["base_sequence"]
            return f"epoch {epoch} begins in {line['partition']} at sequence {sequence}"
        seen.add(key)
    return ""


CHECKS: Final[Mapping[str, Callable[[Sequence[Line]], str]]] = {
    check.__name__: check
    for check in (
        initialized_first, added_first, ended_behind_batches, same_end, no_epoch_within, same_batch,
        epochs_from_0,
    )
}  # fmt: skip
"""The checks by name. They take the lines of a history, in the order of their starts."""


def broken(lines: Iterable[Line], names: Iterable[str]) -> list[str]:
    """The descriptions of all requests that break these checks."""
    ordered = sorted(lines, key=lambda line: line["start"])
    return [said for name in names if (said := CHECKS[name](ordered))]
