"""What a client makes of every answer, and of what happens to it, in given states, by release.

`client_answers.json` has the cases: kind of client, state, event, what the event says, and what
comes of it, by the error that is answered or (where there is none) by the features switched on. An
outcome holds in all releases, or from each of those named on; an empty one can't happen.

Outcomes were compared branch by branch with Kafka's source, in 4.3 and 2.5, and in 2.0 and 3.6
where releases differ:

* ProduceResponse: Sender.completeBatch, canRetry, failBatch; TransactionManager.canRetry,
  handleCompletedBatch, handleFailedBatch, maybeTransitionToErrorState, resetSequenceForPartition;
  TxnPartitionMap.adjustSequencesDueToFailedBatch, startSequencesAtBeginning.
* Other responses: the handler's handleResponse, TransactionManager.abortableErrorIfPossible,
  transitionToAbortableError, maybeTerminateRequestWithError, completeTransaction.
* drain: RecordAccumulator.shouldStopDrainBatchesForPartition, drainBatchesForOneNode;
  TransactionManager.maybeUpdateProducerIdAndEpoch; ProducerBatch.close.
* batch expires, resolve sequences: Sender.failExpiredBatches; TransactionManager
  .markSequenceUnresolved, maybeResolveSequences; in 2.0 Sender.run and resetProducerId.
* bump epoch: TransactionManager.bumpIdempotentProducerEpoch.
* Calls: TransactionManager.beginTransaction, beginCommit, beginAbort, beginCompletingTransaction,
  nextRequest.
* What is lost or overtaken, and a crash, are of the network and the application.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from epochfence.language import Message, lost
from epochfence.language.types import Value
from epochfence.spec import messages as kafka
from epochfence.spec.client.epochs import hold_up
from epochfence.spec.features import RELEASED as RELEASES
from epochfence.tests.cases import Outcome, in_release
from epochfence.tests.spec.clients import ACKED, FAILED, UNSENT, Client, TransactionalClient, batch

KINDS = {"transactional": TransactionalClient, "idempotent": Client}
CONTENT: dict[str, Message] = {
    message.name: message
    for message in (
        kafka.Produce, kafka.ProduceResponse, kafka.InitProducerId, kafka.InitProducerIdResponse,
        kafka.AddPartitionsToTxn, kafka.AddPartitionsToTxnResponse, kafka.EndTxn,
        kafka.EndTxnResponse,
    )
}  # fmt: skip


def line(*batches: Value) -> tuple[Value, ...]:
    """The batches of the two partitions: these are the first one's."""
    return ((*batches, *(UNSENT,) * (3 - len(batches))), (UNSENT,) * 3)


ONE, BOTH = frozenset({0}), frozenset({0, 1})
_TWO: dict[str, Value] = {"next_sequence": (2, 0)}
_ENDING: dict[str, Value] = {
    **_TWO, "batches": line(ACKED, batch(1)), "last_acked": (0, -1), "added": ONE, "ending": True,
}  # fmt: skip
# States by name, as fields that differ from those of a transaction that has just begun, or of an
# idempotent client that has just got its producer id.
STATES: dict[str, dict[str, Value]] = {
    "at first": {},
    "two in flight": {**_TWO, "batches": line(batch(0), batch(1))},
    "the first one acknowledged": {
        **_TWO, "batches": line(ACKED, batch(1)), "last_acked": (0, -1),
    },
    "the first one at offset 0": {
        **_TWO, "batches": line(ACKED, batch(1)), "last_acked": (0, -1),
        "last_acked_offset": (0, -1),
    },
    "numbered anew": {
        **_TWO, "batches": line(ACKED, batch(1, reset=True)), "last_acked": (0, -1),
    },
    "numbered anew and queued": {
        **_TWO, "batches": line(ACKED, batch(1, "QUEUED", retry=True, reset=True)),
        "last_acked": (0, -1), "added": ONE,
    },
    "the next one unresolved": {
        **_TWO, "batches": line(FAILED, batch(1)), "unresolved": (1, None),
    },
    "another one unresolved": {
        "next_sequence": (3, 0), "batches": line(FAILED, FAILED, batch(1)),
        "unresolved": (3, None),
    },
    "all unresolved": {**_TWO, "batches": line(FAILED, FAILED), "unresolved": (2, None)},
    "unresolved after others": {
        **_TWO, "batches": line(ACKED, batch(1)), "unresolved": (1, None), "last_acked": (0, -1),
    },
    "the last one appended": {
        **_TWO, "batches": line(FAILED, ACKED), "unresolved": (1, None), "last_acked": (1, -1),
    },
    "queued": {
        "next_sequence": (3, 0), "batches": line(
            batch(0, "QUEUED", retry=True), batch(1, "QUEUED", retry=True), batch(2)
        ), "added": ONE,
    },
    "queued behind another": {**_TWO, "batches": line(batch(0), batch(1, "QUEUED", retry=True))},
    "in retry": {"next_sequence": (1, 0), "batches": line(batch(0, retry=True))},
    "in retry behind an unresolved one": {
        **_TWO, "batches": line(FAILED, batch(1, retry=True)), "unresolved": (1, None),
    },
    "done": {
        "next_sequence": (1, 0), "last_acked": (0, -1), "batches": line(ACKED), "added": ONE,
    },
    "failed": {
        "next_sequence": (1, 0), "batches": line(FAILED), "added": ONE,
        "state": "ABORTABLE_ERROR", "must_bump": True,
    },
    "unknown": {"state": "ABORTABLE_ERROR", "must_bump": True, "added": ONE},
    "unknown from the first on": {"state": "ABORTABLE_ERROR", "must_bump": True},
    "in need of an epoch": {"must_bump": True, "added": ONE},
    "in need of an epoch, and busy": {
        **_TWO, "batches": line(batch(0), batch(1)), "must_bump": True, "added": ONE,
    },
    "good for nothing": {"state": "ABORTING_TRANSACTION", "txn": None},
    "adding": {"adding": ONE},
    "added": {"added": ONE},
    "adding after an error": {"state": "ABORTABLE_ERROR", "adding": ONE},
    "fenced while it adds": {"state": "FATAL_ERROR", "txn": None},
    "not begun": {"state": "READY", "txn": None},
    "new": {"state": "UNINITIALIZED", "txn": None, "producer_epoch": -1},
    "initializing": {"state": "INITIALIZING", "txn": None, "producer_epoch": -1},
    "bumping": {
        "state": "INITIALIZING", "txn": None, "next_sequence": (2, 1), "last_acked": (0, 0),
        "bump_asked": True,
    },
    "committing": {
        "state": "COMMITTING_TRANSACTION", "batches": line(ACKED), "next_sequence": (1, 0),
        "last_acked": (0, -1), "added": ONE,
    },
    "aborting": {
        "state": "ABORTING_TRANSACTION", "batches": line(FAILED), "next_sequence": (1, 0),
        "added": ONE,
    },
    "aborting after a failure": {
        "state": "ABORTING_TRANSACTION", "batches": line(FAILED), "next_sequence": (1, 0),
        "added": ONE, "must_bump": True, "bump_asked": True,
    },
    "aborting after a late failure": {
        "state": "ABORTING_TRANSACTION", "batches": line(FAILED), "next_sequence": (1, 0),
        "added": ONE, "must_bump": True,
    },
    "never initialized": {"state": "INITIALIZING", "txn": None},
    "bumping again": {
        "state": "ABORTING_TRANSACTION", "txn": None, "must_bump": True, "bump_asked": True,
        "added": ONE,
    },
    "bumping after a commit": {
        "state": "COMMITTING_TRANSACTION", "txn": None, "must_bump": True, "bump_asked": True,
        "added": ONE,
    },
    "committing after a bump that failed": {
        "state": "COMMITTING_TRANSACTION", "batches": line(ACKED), "next_sequence": (1, 0),
        "last_acked": (0, -1), "added": ONE, "must_bump": True, "bump_asked": True,
    },
    "committing when all is done": {**_ENDING, "state": "COMMITTING_TRANSACTION"},
    "aborting when all is done": {**_ENDING, "state": "ABORTING_TRANSACTION"},
    "aborting, all unresolved": {
        **_TWO, "batches": line(FAILED, FAILED), "unresolved": (2, None), "added": ONE,
        "state": "ABORTING_TRANSACTION", "ending": True,
    },
    "all is done": {
        "state": "COMMITTING_TRANSACTION", "batches": line(ACKED), "next_sequence": (1, 0),
        "last_acked": (0, -1), "added": ONE, "ending": True,
    },
    # without transactional id
    "wants a new epoch": {
        "batches": (
            (FAILED, batch(1, "QUEUED", retry=True), UNSENT), (batch(0), UNSENT, UNSENT),
        ),
        "next_sequence": (2, 1), "entry_epoch": (1, 1), "bump_for": ONE, "last_acked": (0, -1),
        "unresolved": (1, None),
    },
    "wants one with a late answer": {
        "batches": line(FAILED, batch(1, "QUEUED", retry=True, unanswered=True)),
        "next_sequence": (2, 0), "bump_for": ONE,
    },
    "wants one after the last": {
        "batches": line(FAILED, batch(1, "QUEUED", retry=True, epoch=5)), "producer_epoch": 5,
        "next_sequence": (2, 0), "entry_epoch": (5, 5), "bump_for": ONE,
    },
    "wants one without producer id": {
        "batches": line(FAILED, batch(1, "QUEUED", retry=True, epoch=5)), "producer_epoch": -1,
        "next_sequence": (2, 0), "bump_for": ONE, "state": "UNINITIALIZED",
    },
    "all unresolved without producer id": {
        "batches": line(FAILED, FAILED), "unresolved": (2, None), "producer_epoch": -1,
        "next_sequence": (2, 0), "state": "UNINITIALIZED",
    },
    "in step with its epoch": {"entry_epoch": (1, 1), "next_sequence": (7, 3)},
    "out of step": {
        "entry_epoch": (0, 1), "next_sequence": (1, 0), "batches": line(ACKED),
        "last_acked": (0, -1),
    },
    "two left under an old epoch": {
        "entry_epoch": (0, 1), "next_sequence": (2, 0),
        "batches": line(batch(0, epoch=0), batch(1, epoch=0)),
    },
    "out of step, and busy": {
        "entry_epoch": (0, 1), "next_sequence": (1, 0), "batches": line(batch(0, epoch=0)),
    },
    "with an old producer id": {
        "producer_id": 1, "producer_epoch": 0, "batches": line(batch(0)), "next_sequence": (1, 0),
    },
    "no producer id": {"state": "UNINITIALIZED", "producer_epoch": -1, "batches": line(batch(0))},
}  # fmt: skip


CASES: list[tuple[str, str, str, dict[str, Any], dict[str, Outcome]]] = json.loads(
    Path(__file__).with_name("client_answers.json").read_text(encoding="utf-8")
)


def outcome(
    kind: str, state: str, event: str, values: Mapping[str, Any], release: str, *on: str
) -> str:
    """What becomes of a client, as `clients.Client.does` tells it."""
    client = KINDS[kind](release, *on, **STATES[state])
    name = event.removeprefix("lost ").removeprefix("held up ")
    if name not in CONTENT:
        return client.does(event, **values)
    message, content = CONTENT[name], dict(values)
    partition = [0] if "partition" in dict(message.address) else []
    if event == name:
        return client.gets(message, 0, *partition, **content)
    way = hold_up if event.startswith("held up") else lost(message)
    return client.in_transit(way, message, 0, *partition, **content)


@pytest.mark.parametrize(("kind", "state", "event", "values", "told"), CASES)
def test_what_a_client_does(
    kind: str, state: str, event: str, values: dict[str, Any], told: dict[str, Outcome]
) -> None:
    """Sender.completeBatch, TransactionManager and its handlers: the order of their checks."""
    for words, text in told.items():
        for word in words.split() or [""]:
            on = [word] if word.startswith("+") else []
            error = {"error": word} if word and not on else {}
            for release in RELEASES:
                found = outcome(kind, state, event, {**values, **error}, release, *on)
                assert found == in_release(text, release), (word, release)
