"""Consume, process and produce: what holds, and what each property needs."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.prepare import available_threads
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import System, each, if_, instantiate, some
from epochfence.spec.coordinator.entry import coordinator_epoch, producer_epoch, producer_id
from epochfence.spec.coordinator.markers import marker_connection, send_marker
from epochfence.spec.groups.state import OFFSETS, committed, n, pending, position
from epochfence.spec.messages import Result as Decision
from epochfence.spec.messages import WriteTxnMarkers, producer
from epochfence.spec.properties.groups.exactly_once import PROPERTIES
from epochfence.spec.releases.features import NEWEST
from epochfence.spec.systems import shipped
from epochfence.tests.spec.alterations import altered
from epochfence.tests.spec.faults import Fault

SYSTEM = shipped("exactly-once")
NAMES = tuple(item.name for item in PROPERTIES)
ALONE = {"producers": 1, "generations": 1}


def run(
    protocol: str = NEWEST,
    constants: Mapping[str, int] | None = None,
    *,
    on: tuple[str, ...] = (),
    off: tuple[str, ...] = (),
    properties: tuple[str, ...] = NAMES,
    system: System = SYSTEM,
    brief: bool = True,
) -> Result:
    """The system checked."""
    instance = instantiate(
        system, protocol, dict(constants or {}), switch_on=on, switch_off=off, properties=properties
    )
    return check(instance, Options(threads=available_threads(), brief=brief))


ENDED = "producer.EndTxnResponse", "ended-new-epoch"
MARKER = "partition.WriteTxnMarkers", "end-transaction"
_here = producer.this
_to = send_marker.partition
OPPOSITE = WriteTxnMarkers(
    partition=_to,
    connection=marker_connection[_to],
    producer_id=producer_id,
    producer_epoch=producer_epoch,
    coordinator_epoch=coordinator_epoch,
    result=if_(_to == OFFSETS, Decision.COMMIT, Decision.ABORT),
)
FROM_THE_SECOND = altered(
    SYSTEM, table="consumer.OffsetFetch", row="no-offset", updates={position: some(1)}
)
MOVED = "partition.leader changes", "lose-verification-state"
PENDING_LOST = altered(
    SYSTEM, table=MOVED[0], row=MOVED[1], updates={pending: each(n, None)}
)  # the next coordinator doesn't look at open transactions
OFFSET_LOST = altered(SYSTEM, table=MARKER[0], row=MARKER[1], updates={committed: committed})
FAULTS = (
    Fault(
        "a marker drops the offset that it commits",
        "CountedOnce", 54, "WriteTxnMarkers/end-transaction",
        {**ALONE, "transactions": 3},
        system=OFFSET_LOST,
    ),
    Fault(
        "a coordinator that starts doesn't look for offsets of open transactions", "OffsetsFromLog",
        14, "leader changes/lose-verification-state", {**ALONE, "faults": 1, "inputs": 1},
        system=PENDING_LOST,
    ),
    Fault(
        "so the marker of one puts none in place", "CountedOnce", 59,
        "WriteTxnMarkers/end-transaction", {"producers": 1, "faults": 1, "inputs": 1},
        system=PENDING_LOST,
    ),
    Fault(
        "KAFKA-17507: the offset of an ended transaction is put in place late", "NoneSkipped",
        39, "complete pending offsets/completed", ALONE, off=("offsets_in_place_first",),
    ),
    Fault("KIP-447: the group asks nobody for the generation", "NoZombieOffset",
          14, "AddPartitionsByLeaderResponse/offset-append", off=("members_fenced",)),
    Fault(
        "KIP-447: a rebalance within the end of a transaction, with a transactional id of its own",
        "CountedOnce", 56, "WriteTxnMarkers/end-transaction",
        {"producers": 1, "own_id": 1}, protocol="2.4", on=("offsets_in_place_first",),
    ),
    Fault("KIP-447: who reads doesn't wait for pending offsets", "StableFetch",
          20, "OffsetFetch/no-offset", off=("stable_offsets",)),
    Fault(
        "finding 16: a zombie's refused offset drops the one that is pending", "StableFetch",
        44, "OffsetFetch/no-offset", {"generations": 3, "inputs": 1},
        protocol="3.9", off=("members_fenced",),
    ),
    Fault(
        "an instance begins with the second input and goes back to the first", "OffsetForward",
        51, "WriteTxnMarkers/end-transaction", ALONE,
        system=altered(FROM_THE_SECOND, table=ENDED[0], row=ENDED[1],
                       updates={position.at(_here): some(0)}),
    ),
    Fault(
        "markers differ by partition", "Atomic", 28, "WriteTxnMarkers/end-transaction", ALONE,
        system=altered(SYSTEM, table="transaction.send marker", row="send", send=(OPPOSITE,)),
    ),
    Fault(
        "a timeout keeps the epoch, and nobody asks the coordinator about offsets",
        "NoHangingTransaction", 20, "WriteTxnMarkersResponse/written",
        {**ALONE, "faults": 1}, protocol="3.6", off=("timeout_bumps_epoch",),
    ),
)  # fmt: skip


@pytest.mark.slow(5)
@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_what_protects_a_property(fault: Fault) -> None:
    result = run(
        fault.protocol,
        fault.constants,
        on=fault.on,
        off=fault.off,
        properties=(fault.breaks,),
        system=fault.system or SYSTEM,
    )
    fault.assert_found(result)


def test_each_property_has_something_that_protects_it() -> None:
    assert {fault.breaks for fault in FAULTS} == set(NAMES)


@pytest.mark.slow(5)
def test_one_transaction_says_nothing_of_counting_twice() -> None:
    result = run(
        constants={"producers": 1, "transactions": 1}, properties=("CountedOnce",), brief=False
    )
    assert (result.verdict, result.properties[0].verdict) == (Verdict.INCONCLUSIVE, "holds")
    assert "transactions=2 meets it) holds vacuously" in result.reason


@pytest.mark.slow(5)
def test_one_input_may_be_counted_twice() -> None:
    """With two transactions it holds, and something protects it."""
    constants = {"producers": 1, "inputs": 1}
    result = run(constants=constants, properties=("CountedOnce",), brief=False)
    assert result.verdict is Verdict.HOLDS, result.reason
    assert "CountedOnce" not in {item.subject for item in result.vacuous}
    lost = run(constants=constants, properties=("CountedOnce",), system=OFFSET_LOST)
    assert lost.verdict is Verdict.BROKEN


@pytest.mark.slow(2)
def test_at_the_defaults_nothing_is_vacuous() -> None:
    result = run(brief=False)
    assert result.verdict is Verdict.HOLDS
    assert result.states > 500_000
    assert [str(item) for item in result.unexplained] == []
    assert not [note for note in result.notes if "but a run takes it" in note]
