"""What a leader answers in a given state: the order of its checks.

The lists follow what Kafka's code does, check by check; what a leader knows of the producer is
given line by line.
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


# A leader --------------------------------------------------------------------------------------

IPE, FENCED, BUSY = "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "CONCURRENT_TRANSACTIONS"
UNKNOWN: dict[str, Value] = {}
KNOWN: dict[str, Value] = {"partition_producer_epoch": 5, "partition_batches": (0,)}
MARKER_ONLY: dict[str, Value] = {"partition_producer_epoch": 5}
OPEN: dict[str, Value] = {**KNOWN, "partition_first_offset": 0}
ASKED: dict[str, Value] = {"partition_verifying": (6, 0)}
OUT_OF_ORDER = "OUT_OF_ORDER_SEQUENCE_NUMBER"


def taken_in(following: Any) -> str:
    """A leader's answer to a batch, or that it asks; `written` where it is in the log."""
    if following["network.AddPartitionsByLeader"]:
        return "asks"
    told = answer(following, messages.ProduceResponse)
    return "written" if told == "NONE" and following["partition.log"] else told


WAITED: dict[str, Value] = {"producer_in_flight": HERE, "producer_txn": 0}


@pytest.mark.parametrize(
    ("release", "entry", "producer_epoch", "base_sequence", "outcome"),
    [
        (BEFORE, KNOWN, 5, 0, "NONE"),  # a duplicate
        (BEFORE, KNOWN, 4, 0, IPE),
        (BEFORE, KNOWN, 6, 1, OUT_OF_ORDER),
        (BEFORE, KNOWN, 6, 0, "written"),
        (BEFORE, UNKNOWN, 5, 2, "written"),
        (BEFORE, KNOWN, 5, 1, "written"),
        (BEFORE, KNOWN, 5, 2, OUT_OF_ORDER),
        (BEFORE, MARKER_ONLY, 5, 1, OUT_OF_ORDER),
        (BEFORE, MARKER_ONLY, 5, 0, "written"),
        (VERSION_1, KNOWN, 4, 0, IPE),
        (VERSION_1, KNOWN, 5, 0, "asks"),  # duplicates are looked for at the append
        (VERSION_1, OPEN, 5, 1, "written"),
        (NEWEST, KNOWN, 4, 0, IPE),
        (NEWEST, UNKNOWN, 5, 0, "asks"),
        (NEWEST, OPEN, 5, 0, "NONE"),
        (NEWEST, OPEN, 5, 1, "written"),
        (NEWEST, OPEN, 5, 2, OUT_OF_ORDER),
        (NEWEST, OPEN, 6, 0, "asks"),
    ],
)
def test_produce(
    release: str,
    entry: dict[str, Value],
    producer_epoch: int,
    base_sequence: int,
    outcome: str,
) -> None:
    content = {"producer_epoch": producer_epoch, "base_sequence": base_sequence}
    following = after(release, messages.Produce, content, **entry, **WAITED)
    assert taken_in(following) == outcome


@pytest.mark.parametrize(
    ("release", "entry", "told", "batch", "outcome"),
    [
        (NEWEST, ASKED, FENCED, (0, 6, 0, 0, 0, True), IPE),
        (NEWEST, ASKED, BUSY, (0, 6, 0, 0, 0, True), BUSY),
        (VERSION_1, ASKED, BUSY, (0, 6, 0, 0, 0, True), "NOT_ENOUGH_REPLICAS"),
        (VERSION_1, ASKED, "TRANSACTION_ABORTABLE", (0, 6, 0, 0, 0, True), "TRANSACTION_ABORTABLE"),
        (NEWEST, KNOWN, "NONE", (0, 5, 0, 0, 0, False), "NONE"),  # a duplicate
        (NEWEST, KNOWN, "NONE", (0, 4, 0, 0, 0, False), IPE),
        (NEWEST, KNOWN, "NONE", (0, 6, 0, 0, 0, False), "INVALID_TXN_STATE"),
        (NEWEST, KNOWN | ASKED, "NONE", (0, 6, 0, 0, 0, True), "written"),
        (NEWEST, OPEN | ASKED, "NONE", (0, 6, 0, 0, 0, True), "written"),
        (NEWEST, ASKED, "NONE", (0, 6, 1, 0, 0, True), OUT_OF_ORDER),  # KAFKA-18202
        (
            VERSION_1,
            ASKED,
            "NONE",
            (0, 6, 1, 0, 0, True),
            OUT_OF_ORDER,
        ),  # above the lowest asked about
        (VERSION_1, {"partition_verifying": (6, 1)}, "NONE", (0, 6, 1, 0, 0, True), "written"),
        (
            VERSION_1,
            KNOWN | {"partition_verifying": (6, 1)},
            "NONE",
            (0, 6, 1, 0, 0, True),
            OUT_OF_ORDER,
        ),
    ],
)
def test_the_coordinator_has_answered(
    release: str,
    entry: dict[str, Value],
    told: str,
    batch: tuple[Value, ...],
    outcome: str,
) -> None:
    """`batch` has a producer id, an epoch, a sequence, a record, a transaction, and whether its
    question still counts."""
    following = after(
        release, messages.AddPartitionsByLeaderResponse, {"error": told},
        **entry, **WAITED, partition_waiting=batch,
    )  # fmt: skip
    assert taken_in(following) == outcome
    assert following["partition.waiting"] is None


@pytest.mark.parametrize(
    ("entry", "marker_epoch", "version_1", "version_2"),
    [  # the answer, and whether a transaction is ended
        (OPEN, 4, (IPE, False), (IPE, False)),
        (OPEN, 5, ("NONE", True), (IPE, False)),  # KIP-1228
        (KNOWN, 5, ("NONE", False), ("NONE", False)),
        (OPEN, 6, ("NONE", True), ("NONE", True)),
        (UNKNOWN, 6, ("NONE", False), ("NONE", False)),
        (OPEN | {"partition_producer_epoch": 9}, 9, ("NONE", True), ("NONE", True)),
    ],
)
def test_write_txn_markers(
    entry: dict[str, Value],
    marker_epoch: int,
    version_1: tuple[str, bool],
    version_2: tuple[str, bool],
) -> None:
    content = {"producer_epoch": marker_epoch, "result": "ABORT"}
    for release, expected in ((BEFORE, version_1), (VERSION_1, version_1), (NEWEST, version_2)):
        following = after(release, messages.WriteTxnMarkers, content, **entry)
        told = answer(following, messages.WriteTxnMarkersResponse)
        assert (told, bool(following["partition.log"])) == expected
