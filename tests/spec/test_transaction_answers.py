"""What the coordinator answers in a given state: the order of its checks.

The lists follow what Kafka's code does, check by check. The coordinator's entry has epoch 5, and
had 4 before.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from epochfence.model.interpreter import Interpreter
from epochfence.spec import messages
from epochfence.spec.features import BEFORE, NEWEST
from epochfence.spec.language import Message, instantiate
from epochfence.spec.language.types import Map, Type, Value, initial_value
from epochfence.spec.systems import shipped

VERSION_1 = "version 1"  # of transactions, in the newest release
BOUNDS = {"producers": 1, "partitions": 1, "transactions": 3, "largest_epoch": 9}
HERE = frozenset({0})  # the only partition


@cache
def machine(release: str) -> Interpreter:
    """The system in a release."""
    system = shipped("transactions")
    if release == VERSION_1:
        instance = instantiate(system, NEWEST, BOUNDS, switch_off=["transaction_version_2"])
    else:
        instance = instantiate(system, release, BOUNDS)
    return Interpreter(instance)


def wrapped(kind: Type, value: Value) -> Value:
    """The value for the only instance of each key."""
    return (wrapped(kind.of, value),) if isinstance(kind, Map) else value


def unwrapped(kind: Type, value: Any) -> Any:
    """The value of the (first) instance of each key."""
    return unwrapped(kind.of, value[0]) if isinstance(kind, Map) else value


def after(release: str, message: Message, content: Mapping[str, Value], **given: Value) -> Any:
    """The variables once a message was taken; `given` are the fields before that matter, with the
    machine before the name. What isn't given has its initial value."""
    model = machine(release)
    kinds = {variable.name: variable.type for variable in model.instance.variables}
    state = model.as_mapping(next(iter(model.initial_states())))
    fields = message.content.fields
    given[f"network_{message.name}"] = (
        tuple(content.get(n, initial_value(of, model.instance.constants)) for n, of in fields),
    )
    for name, value in given.items():
        full = name.replace("_", ".", 1)
        state[full] = wrapped(kinds[full], value)
    table = f"{message.to}.{message.name}"
    (step,) = (s for s in model.steps(tuple(state.values())) if s.action.table == table)
    assert step.state is not None, step.fault
    following = model.as_mapping(step.state)
    return {name: unwrapped(kinds[name], value) for name, value in following.items()}


def answer(following: Any, response: Message) -> str:
    """The error answered and, where one is told, the epoch; empty where nothing is answered."""
    sent = following[f"network.{response.name}"]
    if not sent:
        return ""
    values = dict(zip((name for name, _ in response.content.fields), sent[0], strict=True))
    epoch = values.get("producer_epoch", -1)
    return values["error"] if epoch < 0 else f"{values['error']} {epoch}"


# The coordinator -------------------------------------------------------------------------------


def coordinator(
    release: str, request: Message, response: Message, content: Mapping[str, Value],
    state: str, pending: str | None = None, partitions: frozenset[int] = frozenset(),
) -> str:  # fmt: skip
    """The answer, or the state that is prepared with its epoch and the one before it."""
    following = after(
        release, request, content,
        transaction_state=state, transaction_pending=pending, transaction_partitions=partitions,
        transaction_producer_epoch=5, transaction_last_producer_epoch=4,
    )  # fmt: skip
    prepared = following["transaction.pending"]
    epochs = following["transaction.pending_epoch"], following["transaction.pending_last_epoch"]
    return answer(following, response) or (f"{prepared} {epochs}" if epochs[0] >= 0 else prepared)


@pytest.mark.parametrize(
    ("state", "pending", "expected_epoch", "outcome"),
    [
        ("EMPTY", "ONGOING", 3, "CONCURRENT_TRANSACTIONS"),
        ("ONGOING", "PREPARE_EPOCH_FENCE", -1, "CONCURRENT_TRANSACTIONS"),
        ("PREPARE_COMMIT", None, -1, "CONCURRENT_TRANSACTIONS"),
        ("PREPARE_ABORT", None, 3, "CONCURRENT_TRANSACTIONS"),
        ("ONGOING", None, 3, "PREPARE_EPOCH_FENCE (6, -1)"),
        ("EMPTY", None, -1, "EMPTY (6, -1)"),
        ("COMPLETE_COMMIT", None, 5, "EMPTY (6, 5)"),
        ("COMPLETE_ABORT", None, 4, "EMPTY (5, 4)"),
        ("COMPLETE_ABORT", None, 3, "PRODUCER_FENCED"),
        ("COMPLETE_ABORT", None, 6, "PRODUCER_FENCED"),
    ],
)
@pytest.mark.parametrize("release", [BEFORE, NEWEST])
def test_init_producer_id(
    release: str, state: str, pending: str | None, expected_epoch: int, outcome: str
) -> None:
    request, response = messages.InitProducerId, messages.InitProducerIdResponse
    if release == BEFORE:
        outcome = outcome.replace("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
    content = {"expected_epoch": expected_epoch}
    assert coordinator(release, request, response, content, state, pending) == outcome


IPE, FENCED, BUSY = "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "CONCURRENT_TRANSACTIONS"


@pytest.mark.parametrize(
    ("state", "pending", "producer_epoch", "outcomes"),
    [  # in 2.5, in the newest release with version 1, and with version 2
        ("ONGOING", "ONGOING", 4, (IPE, BUSY, BUSY)),
        ("ONGOING", "PREPARE_EPOCH_FENCE", 5, (BUSY, BUSY, BUSY)),
        ("PREPARE_ABORT", None, 4, (IPE, FENCED, FENCED)),
        ("ONGOING", None, 6, (IPE, FENCED, FENCED)),
        ("PREPARE_COMMIT", None, 5, (BUSY, BUSY, BUSY)),
        ("ONGOING", None, 5, ("NONE", "NONE", "NONE")),
        ("EMPTY", None, 5, ("ONGOING", "ONGOING", "ONGOING")),
        ("COMPLETE_COMMIT", None, 5, ("ONGOING", "ONGOING", "ONGOING")),
    ],
)
def test_add_partitions_to_txn(
    state: str, pending: str | None, producer_epoch: int, outcomes: tuple[str, str, str]
) -> None:
    """A client's request and, with version 2, a leader's."""
    partitions = HERE if state == "ONGOING" else frozenset[int]()
    for release, outcome in zip((BEFORE, VERSION_1), outcomes, strict=False):
        request, response = messages.AddPartitionsToTxn, messages.AddPartitionsToTxnResponse
        content = {"producer_epoch": producer_epoch}
        told = coordinator(release, request, response, content, state, pending, partitions)
        assert told == outcome
    request, response = messages.AddPartitionsByLeader, messages.AddPartitionsByLeaderResponse
    told = coordinator(
        NEWEST, request, response, {"producer_epoch": producer_epoch}, state, pending, partitions
    )
    assert told == outcomes[-1]


@pytest.mark.parametrize(
    ("state", "pending", "producer_epoch", "partitions", "outcome"),
    [
        ("ONGOING", "ONGOING", 4, HERE, FENCED),
        ("ONGOING", None, 6, HERE, FENCED),
        ("PREPARE_ABORT", "COMPLETE_ABORT", 5, HERE, BUSY),
        ("ONGOING", "ONGOING", 5, HERE, "NONE"),
        ("ONGOING", "ONGOING", 5, frozenset[int](), "TRANSACTION_ABORTABLE"),
        ("COMPLETE_ABORT", None, 5, frozenset[int](), "TRANSACTION_ABORTABLE"),
    ],
)
def test_verification(
    state: str, pending: str | None, producer_epoch: int, partitions: frozenset[int], outcome: str
) -> None:
    request, response = messages.AddPartitionsByLeader, messages.AddPartitionsByLeaderResponse
    content = {"producer_epoch": producer_epoch}
    told = coordinator(VERSION_1, request, response, content, state, pending, partitions)
    assert told == outcome


def end_txn(release: str, state: str, pending: str | None, result: str, epoch: int) -> str:
    request, response = messages.EndTxn, messages.EndTxnResponse
    content = {"producer_epoch": epoch, "result": result}
    return coordinator(release, request, response, content, state, pending)


@pytest.mark.parametrize(
    ("state", "pending", "abort", "commit"),
    [
        ("ONGOING", "ONGOING", BUSY, BUSY),
        ("PREPARE_ABORT", "COMPLETE_ABORT", BUSY, BUSY),
        ("ONGOING", "PREPARE_EPOCH_FENCE", "PREPARE_ABORT (5, -1)", "UNKNOWN_SERVER_ERROR"),
        ("ONGOING", None, "PREPARE_ABORT (5, 4)", "PREPARE_COMMIT (5, 4)"),
        ("COMPLETE_COMMIT", None, "INVALID_TXN_STATE", "NONE"),
        ("COMPLETE_ABORT", None, "NONE", "INVALID_TXN_STATE"),
        ("PREPARE_COMMIT", None, "INVALID_TXN_STATE", BUSY),
        ("PREPARE_ABORT", None, BUSY, "INVALID_TXN_STATE"),
        ("EMPTY", None, "INVALID_TXN_STATE", "INVALID_TXN_STATE"),
    ],
)
@pytest.mark.parametrize("release", [BEFORE, VERSION_1])
def test_end_txn_before_version_2(
    release: str, state: str, pending: str | None, abort: str, commit: str
) -> None:
    assert end_txn(release, state, pending, "ABORT", 5) == abort
    assert end_txn(release, state, pending, "COMMIT", 5) == commit


def test_end_txn_of_another_epoch_before_version_2() -> None:
    """The epoch is compared before anything else; a higher one passed before 2.6."""
    for pending in ("ONGOING", None):
        assert end_txn(BEFORE, "ONGOING", pending, "ABORT", 4) == IPE
        assert end_txn(VERSION_1, "ONGOING", pending, "ABORT", 4) == FENCED
        assert end_txn(VERSION_1, "ONGOING", pending, "ABORT", 6) == FENCED
    assert end_txn(BEFORE, "ONGOING", None, "ABORT", 6) == "PREPARE_ABORT (5, 4)"


@pytest.mark.parametrize(
    ("state", "pending", "abort", "commit", "abort_again", "commit_again"),
    [  # at the current epoch, and at the one before: a retry
        ("ONGOING", "ONGOING", BUSY, BUSY, BUSY, BUSY),
        ("PREPARE_COMMIT", "COMPLETE_COMMIT", BUSY, BUSY, BUSY, BUSY),
        ("ONGOING", "PREPARE_EPOCH_FENCE", "PREPARE_ABORT (6, 5)", "UNKNOWN_SERVER_ERROR",
         FENCED, FENCED),
        ("ONGOING", None, "PREPARE_ABORT (6, 5)", "PREPARE_COMMIT (6, 5)", FENCED, FENCED),
        ("COMPLETE_COMMIT", None, "PREPARE_ABORT (6, 5)", "INVALID_TXN_STATE",
         "INVALID_TXN_STATE", "NONE 5"),
        ("COMPLETE_ABORT", None, "PREPARE_ABORT (6, 5)", "INVALID_TXN_STATE",
         "NONE 5", "INVALID_TXN_STATE"),
        ("PREPARE_COMMIT", None, FENCED, FENCED, "INVALID_TXN_STATE", BUSY),
        ("PREPARE_ABORT", None, FENCED, FENCED, BUSY, "INVALID_TXN_STATE"),
        ("EMPTY", None, "PREPARE_ABORT (6, 5)", "INVALID_TXN_STATE", FENCED, FENCED),
    ],
)  # fmt: skip
def test_end_txn(
    state: str, pending: str | None, abort: str, commit: str, abort_again: str, commit_again: str
) -> None:
    assert end_txn(NEWEST, state, pending, "ABORT", 5) == abort
    assert end_txn(NEWEST, state, pending, "COMMIT", 5) == commit
    assert end_txn(NEWEST, state, pending, "ABORT", 4) == abort_again
    assert end_txn(NEWEST, state, pending, "COMMIT", 4) == commit_again
