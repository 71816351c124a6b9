"""What becomes of the coordinator's entry step by step: fences, appends, failovers, markers.

The entry has producer id 1 and epoch 5, and had epoch 4 before, unless a line says otherwise.
test_coordinator_requests.py has the answer to a single request.
"""

from __future__ import annotations

from typing import Any

import pytest

from epochfence.language import lost
from epochfence.spec import messages as kafka
from epochfence.spec.coordinator import entry as transaction
from epochfence.spec.coordinator import log as transaction_log
from epochfence.spec.coordinator import markers
from epochfence.spec.features import RELEASED as RELEASES
from epochfence.tests.cases import before, in_each, since
from epochfence.tests.spec.coordinators import LARGEST, LAST, VERSION_1, Coordinator

Release = tuple[str, ...]  # and the features that are off
WITH_VERSION_2: list[Release] = [(release,) for release in since("4.0.0")]
WITH_VERSION_1: list[Release] = [
    (release, *(VERSION_1 if release in since("4.0.0") else ())) for release in RELEASES
]
EVERY = WITH_VERSION_1 + WITH_VERSION_2
OLD = before("2.7")  # a fenced producer is told INVALID_PRODUCER_EPOCH

STATES = (
    "EMPTY", "ONGOING", "PREPARE_COMMIT", "PREPARE_ABORT", "COMPLETE_COMMIT", "COMPLETE_ABORT",
)  # fmt: skip
SETTLED = ("EMPTY", "COMPLETE_COMMIT", "COMPLETE_ABORT")
BUSY, FENCED, IPE = "CONCURRENT_TRANSACTIONS", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"
UNKNOWN_ID = "INVALID_PRODUCER_ID_MAPPING"
FAILED, LOADING = "UNKNOWN_SERVER_ERROR", "COORDINATOR_LOAD_IN_PROGRESS"
NOT_AVAILABLE, MOVED = "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"
HERE = frozenset({0})


def at(
    release: Release, state: str, epoch: int = 5, last: int = 4, *, producer_id: int = 1,
    pending: str | None = None, **given: Any,
) -> Coordinator:  # fmt: skip
    """A coordinator whose entry is in this state."""
    partitions = frozenset[int]() if state in SETTLED else HERE
    entry: dict[str, Any] = {
        "state": state, "pending": pending, "producer_id": producer_id,
        "offered_id": producer_id + 1, "producer_epoch": epoch, "last_producer_epoch": last,
        "partitions": partitions,
        "logged_epoch": epoch, "logged_partitions": partitions,
    }  # fmt: skip
    return Coordinator(*release, **(entry | given))


every = in_each("release", EVERY)
version_1 = in_each("release", WITH_VERSION_1)
version_2 = in_each("release", WITH_VERSION_2)


def fenced(release: Release) -> str:
    """KIP-588 told what the coordinator decides from what a leader finds."""
    return IPE if release[0] in OLD else FENCED


# A fence ---------------------------------------------------------------------------------------


def fence(one: Coordinator) -> Coordinator:
    """Somebody initializes over an open transaction; the coordinator goes on at once."""
    assert one.init(client=1).startswith("PREPARE_EPOCH_FENCE")
    assert one.does(transaction.continue_fence)
    return one


FENCES = {  # epoch 5, then the last one: the record, and the entry until it is in the log
    "version 1": (
        "PREPARE_ABORT 1/6 after -1", "ONGOING 1/6 after -1",
        f"PREPARE_ABORT 1/{LARGEST} after -1", f"ONGOING 1/{LARGEST} after -1",
    ),
    "version 1 before KAFKA-9666": (
        "PREPARE_ABORT 1/6 after 5", "ONGOING 1/6 after 5",
        f"PREPARE_ABORT 1/{LARGEST} after {LAST}", f"ONGOING 1/{LARGEST} after {LAST}",
    ),
    "4.0.0": ("PREPARE_ABORT 1/7 after 6", "ONGOING 1/6 after -1", None, None),
    "4.0.1": (
        "PREPARE_ABORT 1/6 after 5", "ONGOING 1/5 after 4",
        f"PREPARE_ABORT 1/{LARGEST} after {LAST}", f"ONGOING 1/{LAST} after 4",
    ),
    "4.3": (
        "PREPARE_ABORT 1/6 after 5", "ONGOING 1/5 after 4",
        f"PREPARE_ABORT 1/{LARGEST} after {LAST}, next 2", f"ONGOING 1/{LAST} after 4, next 2",
    ),
}  # fmt: skip


def kind_of_fence(release: Release) -> str:
    """The line of `FENCES` for a release."""
    if release not in WITH_VERSION_2:
        return "version 1 before KAFKA-9666" if release[0] in OLD else "version 1"
    return release[0] if release[0] in FENCES else "4.0.1"


@every
def test_a_fence(release: Release) -> None:
    record, entry, last_record, last_entry = FENCES[kind_of_fence(release)]
    one = fence(at(release, "ONGOING"))
    assert (one.prepared, one.entry()) == (record, entry)
    if last_record is not None:
        one = fence(at(release, "ONGOING", LAST))
        assert (one.prepared, one.entry()) == (last_record, last_entry)


def test_a_fence_at_the_last_epoch_overflows_in_4_0_0() -> None:
    """The second of two new epochs would be below 0; the transaction stays open for good."""
    one = fence(at(("4.0.0",), "ONGOING", LAST))
    assert one.told(kafka.InitProducerIdResponse, 1) == FAILED
    assert (one["pending"], one.entry()) == (None, f"ONGOING 1/{LARGEST} after -1")
    assert one.init(client=1) == FAILED
    assert one.end("ABORT", 1, LAST) == FENCED
    assert one.does(transaction.timeout) is None


def test_a_fence_without_a_producer_id_left() -> None:
    one = fence(at(("4.3",), "ONGOING", LAST, offered_id=None))
    assert one.told(kafka.InitProducerIdResponse, 1) == LOADING
    assert (one["pending"], one.entry()) == (None, f"ONGOING 1/{LAST} after 4")


@every
def test_a_fence_after_one_whose_record_failed(release: Release) -> None:
    """KAFKA-9666: it keeps the epoch that it has taken. With version 2 it had taken none."""
    one = fence(at(release, "ONGOING"))
    record = one.prepared
    for epoch in (6, 7, 8):
        assert one.does(transaction_log.append_failure) == "forget the transition"
        assert one.told(kafka.InitProducerIdResponse, 1) == NOT_AVAILABLE
        fence(one)
        if release[0] in OLD:
            assert one.prepared == f"PREPARE_ABORT 1/{epoch + 1} after {epoch}"
        else:
            assert one.prepared == record
    assert one.does(transaction_log.log_append)
    assert not one["failed_fence"]


@every
def test_a_client_s_abort_overtakes_a_fence(release: Release) -> None:
    """The fence's own end finds a transition in flight, and so the new producer is told."""
    one = at(release, "ONGOING")
    assert one.init(client=1) == "PREPARE_EPOCH_FENCE 6"
    bumps = release in WITH_VERSION_2
    after = 5 if bumps or release[0] in OLD else -1
    assert one.end("ABORT", 1, 5) == f"PREPARE_ABORT 1/{5 + bumps} after {after}"
    assert one.told(kafka.InitProducerIdResponse, 1) == ""
    assert one.does(transaction.continue_fence) == "transition in flight"
    assert one.told(kafka.InitProducerIdResponse, 1) == BUSY
    assert one.does(transaction.continue_fence) is None
    if not bumps:
        assert one.entry() == f"ONGOING 1/5 after {after}"
    elif release[0] == "4.0.0":
        assert one.entry() == "ONGOING 1/5 after -1"
    else:
        assert one.entry() == "ONGOING 1/5 after 4"
    # what counts as a failed fence though no epoch was taken: the next fence takes none
    assert one.does(transaction_log.append_failure)
    keeps = release[0] not in OLD and (not bumps or release[0] == "4.0.0")
    assert one.init(client=1) == f"PREPARE_EPOCH_FENCE {5 if keeps else 6}"


def overtaken(release: Release) -> Coordinator:
    """A client's abort has overtaken a fence, and is complete; the fence's own end is to come."""
    one = at(release, "ONGOING")
    assert one.init(client=1) == "PREPARE_EPOCH_FENCE 6"
    one.end("ABORT", 1, 5)
    complete(one)
    assert one["state"] == "COMPLETE_ABORT"
    assert one.told(kafka.EndTxnResponse, 0).startswith("NONE")
    return one


def late_end(one: Coordinator) -> str:
    """The fence's own end comes; what whoever has fenced is told, or the record prepared."""
    assert one.does(transaction.continue_fence)
    assert one.does(transaction.continue_fence) is None
    return one.told(kafka.InitProducerIdResponse, 1) or one.prepared


@version_1
def test_the_end_of_a_fence_comes_in_the_next_transaction(release: Release) -> None:
    """docs/findings.md, 8: it has another epoch than the entry, so that nobody sends markers."""
    one = overtaken(release)
    assert one.add(1, 5) == "ONGOING [0]"
    assert one.does(transaction_log.log_append)
    assert late_end(one).startswith("PREPARE_ABORT 1/5")
    assert one.does(transaction_log.log_append)
    assert one.told(kafka.InitProducerIdResponse, 1) == fenced(release)
    assert (one["state"], one["pending"]) == ("PREPARE_ABORT", None)
    assert one.does(transaction_log.begin_completion) is None
    assert one.end("ABORT", 1, 5) == one.init(client=1) == BUSY
    assert one.does(transaction.timeout) is None
    assert one.does(transaction_log.failover)
    assert one.does(transaction_log.begin_completion)


@version_1
def test_the_end_of_a_fence_comes_in_a_later_producer_s_transaction(release: Release) -> None:
    """docs/findings.md, 8: it has the epoch of a producer that nobody has fenced, which goes on."""
    one = overtaken(release)
    assert one.init(client=0).startswith("EMPTY 1/6")
    assert one.does(transaction_log.log_append)
    assert one.add(1, 6) == "ONGOING [0]"
    assert one.does(transaction_log.log_append)
    assert one.told(kafka.AddPartitionsToTxnResponse, 0, 0) == "NONE"
    assert late_end(one).startswith("PREPARE_ABORT 1/6")
    complete(one)
    assert one.told(kafka.InitProducerIdResponse, 1) == BUSY
    assert (one["state"], one["producer_epoch"]) == ("COMPLETE_ABORT", 6)
    assert one.add(1, 6) == "ONGOING [0]"


@version_2
def test_the_end_of_a_fence_comes_after_a_client_s_abort(release: Release) -> None:
    """With version 2 the epoch of the fence is the one that the abort has brought."""
    one = overtaken(release)
    assert late_end(one) == "PREPARE_ABORT 1/7 after 6"
    one = overtaken(release)
    assert one.add_by_leader(1, 6) == "ONGOING [0]"
    assert one.does(transaction_log.log_append)
    assert late_end(one) == "PREPARE_ABORT 1/7 after 6"
    one = overtaken(release)
    assert one.add_by_leader(1, 6) == "ONGOING [0]"
    assert one.does(transaction_log.log_append)
    one.end("COMMIT", 1, 6)
    complete(one)
    assert late_end(one) == "INVALID_TXN_STATE"


@every
def test_the_end_of_a_fence_that_ends_only_what_is_fenced(release: Release) -> None:
    for is_open in (False, True):
        one = overtaken((*release, "+late_fence_end_refused"))
        if is_open:
            add = one.add_by_leader if release in WITH_VERSION_2 else one.add
            assert add(1, one["producer_epoch"]) == "ONGOING [0]"
            assert one.does(transaction_log.log_append)
        before = one.entry()
        assert late_end(one) == BUSY
        assert one.entry() == before


@version_2
def test_a_commit_meets_a_fence_at_the_last_epoch(release: Release) -> None:
    """From KAFKA-20090 on a producer id is taken for it, before it is refused."""
    takes = release[0] == "4.3"
    one = at(release, "ONGOING", LAST)
    one.init(client=1)
    assert one.end("COMMIT", 1, LAST) == FAILED
    assert (one["offered_id"], one["pending"]) == (2 + takes, "PREPARE_EPOCH_FENCE")
    one = at(release, "ONGOING", LAST, offered_id=None)
    one.init(client=1)
    assert one.end("COMMIT", 1, LAST) == (LOADING if takes else FAILED)
    assert one["pending"] == "PREPARE_EPOCH_FENCE"


@pytest.mark.parametrize(("epoch", "told"), [(LAST, FENCED), (LARGEST, LOADING)])
def test_an_abort_overtakes_a_fence_without_a_producer_id_left(epoch: int, told: str) -> None:
    """It takes the fence away, so that this finds another epoch than its own, or no id either."""
    one = at(("4.3",), "ONGOING", epoch, offered_id=None)
    one.init(client=1)
    one.arrives(kafka.EndTxn, 0, producer_id=1, producer_epoch=epoch, result="ABORT")
    assert one.does(kafka.EndTxn)
    assert one.told(kafka.EndTxnResponse, 0) == LOADING
    assert (one["pending"], one["offered_id"]) == (None, None)
    assert one.does(transaction.continue_fence)
    assert one.told(kafka.InitProducerIdResponse, 1) == told
    assert set(one["fenced_for"]) == {None}
    assert one.entry() == f"ONGOING 1/{epoch} after 4"
    assert one.does(transaction.continue_fence) is None
    assert one.init(client=1) == f"PREPARE_EPOCH_FENCE {LARGEST}"


@version_2
def test_a_client_s_abort_overtakes_a_fence_at_the_last_epoch(release: Release) -> None:
    """Before KAFKA-20090 no fence took a new producer id, whoever completed it."""
    one = at(release, "ONGOING", LAST)
    assert one.init(client=1) == f"PREPARE_EPOCH_FENCE {LARGEST}"
    prepared = one.end("ABORT", 1, LAST)
    following = ", next 2" if release[0] == "4.3" else ""
    assert prepared == f"PREPARE_ABORT 1/{LARGEST} after {LAST}{following}"


@every
def test_a_transaction_times_out_as_if_somebody_fenced_it(release: Release) -> None:
    one = at(release, "ONGOING")
    assert one.does(transaction.timeout)
    assert one.prepared == "PREPARE_EPOCH_FENCE 6"
    assert one.does(transaction.continue_fence)
    assert one.prepared == FENCES[kind_of_fence(release)][0]
    complete(one)
    assert one["state"] == "COMPLETE_ABORT"
    assert one.told(kafka.EndTxnResponse, 0) == ""
    with_flag = at(release, "ONGOING", failed_fence=True)
    assert with_flag.does(transaction.timeout)
    assert with_flag.prepared == "PREPARE_EPOCH_FENCE 5"


@every
@pytest.mark.parametrize("state", STATES)
def test_what_can_time_out(release: Release, state: str) -> None:
    times_out = at(release, state).does(transaction.timeout) is not None
    assert times_out == (state == "ONGOING")
    assert at(release, state, pending="ONGOING").does(transaction.timeout) is None
    at_largest = at(release, state, LARGEST).does(transaction.timeout) is not None
    assert at_largest == (times_out and release[0] == "4.3")


# The record is appended ------------------------------------------------------------------------


def appended(one: Coordinator) -> str:
    """The entry once the pending record is in the log."""
    assert one.does(transaction_log.log_append)
    assert one["pending"] is None
    return one.entry()


def complete(one: Coordinator) -> str:
    """The entry once a transaction with one partition has ended."""
    appended(one)
    assert one.does(transaction_log.begin_completion)
    if one["partitions"]:
        assert one.does(markers.send_marker, partition=0)
        assert one.sent(kafka.WriteTxnMarkers, 0)
        one.arrives(kafka.WriteTxnMarkersResponse, 0, error="NONE")
        assert one.does(kafka.WriteTxnMarkersResponse) == "written"
    return appended(one)


def previous(release: Release, kept: str = "") -> str:
    """What a transition makes of the producer id before: since 4.1 it is the current one."""
    return ", before 1" if release[0] in since("4.1") else kept


@every
def test_a_producer_id_is_given_out(release: Release) -> None:
    one = at(release, "COMPLETE_ABORT", LAST, previous_id=0)
    assert one.init() == "EMPTY 2/0 after -1"
    assert one.told(kafka.InitProducerIdResponse, 0) == ""
    assert appended(one) == "EMPTY 2/0 after -1, before 1"
    assert one.told(kafka.InitProducerIdResponse, 0) == "NONE 2/0"
    assert one.init() == "EMPTY 2/1 after -1"
    assert appended(one) == "EMPTY 2/1 after -1, before 2"


@every
def test_partitions_are_added(release: Release) -> None:
    """An answer goes to whoever asked, and the epoch before stays what it was."""
    one = at(release, "COMPLETE_ABORT", previous_id=0)
    if release in WITH_VERSION_2:
        assert one.add_by_leader(1, 5, 1) == "ONGOING [1]"
        assert appended(one) == f"ONGOING 1/5 after 4{previous(release, ', before 0')}"
        assert one.told(kafka.AddPartitionsByLeaderResponse, 1, 0) == "NONE"
    else:
        assert one.add(1, 5, 1) == "ONGOING [1]"
        assert appended(one) == f"ONGOING 1/5 after 4{previous(release, ', before 0')}"
        assert one.told(kafka.AddPartitionsToTxnResponse, 0, 1) == "NONE"
    assert one["partitions"] == frozenset({1})


@version_1
@pytest.mark.parametrize("result", ["COMMIT", "ABORT"])
def test_a_transaction_ends_before_version_2(release: Release, result: str) -> None:
    one = at(release, "ONGOING", previous_id=0)
    one.end(result, 1, 5)
    kept = previous(release, ", before 0")
    assert appended(one) == f"PREPARE_{result} 1/5 after 4{kept}"
    assert one.told(kafka.EndTxnResponse, 0) == ""
    assert one.does(transaction_log.begin_completion)
    assert one.told(kafka.EndTxnResponse, 0) == "NONE"
    assert one["pending"] == f"COMPLETE_{result}"
    one = at(release, "ONGOING", previous_id=0)
    one.end(result, 1, 5)
    assert complete(one) == f"COMPLETE_{result} 1/5 after 4{kept}"


@in_each("release", OLD)
@pytest.mark.parametrize("result", ["COMMIT", "ABORT"])
def test_an_end_under_a_higher_epoch_is_decided_and_left(release: str, result: str) -> None:
    """KAFKA-9600: the epochs are compared again once it is in the log. Only a failover helps."""

    def asked() -> Coordinator:
        one = at((release,), "ONGOING")
        assert one.end(result, 1, 6) == f"PREPARE_{result} 1/5 after 4"
        return one

    one = asked()
    assert appended(one) == f"PREPARE_{result} 1/5 after 4"
    assert one.told(kafka.EndTxnResponse, 0) == IPE
    assert one.does(transaction_log.begin_completion) is None
    fails_over(one, False)
    assert one.told(kafka.EndTxnResponse, 0) == ""
    assert one.does(transaction_log.begin_completion)
    one = asked()
    fails_over(one, True)
    assert one.told(kafka.EndTxnResponse, 0) == MOVED
    assert one.does(transaction_log.begin_completion)
    one = asked()
    fails(one)
    assert one.told(kafka.EndTxnResponse, 0) == NOT_AVAILABLE
    appended(fence(one))
    assert one.does(transaction_log.begin_completion)
    one = asked()
    assert late(one).entry() == f"PREPARE_{result} 1/5 after -1"
    assert one.does(transaction_log.begin_completion)


@version_2
@pytest.mark.parametrize("result", ["COMMIT", "ABORT"])
def test_a_transaction_ends_with_version_2(release: Release, result: str) -> None:
    one = at(release, "ONGOING", previous_id=0)
    one.end(result, 1, 5)
    kept = previous(release, ", before 0")
    assert appended(one) == f"PREPARE_{result} 1/6 after 5{kept}"
    assert one.does(transaction_log.begin_completion)
    assert one.told(kafka.EndTxnResponse, 0) == "NONE 1/6"
    one = at(release, "ONGOING", previous_id=0)
    one.end(result, 1, 5)
    assert complete(one) == f"COMPLETE_{result} 1/6 after 5, before 1"


@version_2
def test_a_transaction_ends_with_another_producer_id(release: Release) -> None:
    """The answer has the pair that holds after the end; markers have the one before."""
    one = at(release, "ONGOING", LAST, previous_id=0)
    one.end("COMMIT", 1, LAST)
    kept = previous(release, ", before 0")
    assert appended(one) == f"PREPARE_COMMIT 1/{LARGEST} after {LAST}{kept}, next 2"
    assert one.does(transaction_log.begin_completion)
    assert one.told(kafka.EndTxnResponse, 0) == "NONE 2/0"
    assert one.does(markers.send_marker, partition=0)
    marker = one.sent(kafka.WriteTxnMarkers, 0)
    assert marker is not None
    assert (marker["producer_id"], marker["producer_epoch"]) == (1, LARGEST)
    one.arrives(kafka.WriteTxnMarkersResponse, 0, error="NONE")
    assert one.does(kafka.WriteTxnMarkersResponse) == "written"
    assert appended(one) == f"COMPLETE_COMMIT 2/0 after {LAST}, before 1"


@every
def test_after_a_fence_the_new_producer_asks_again(release: Release) -> None:
    one = fence(at(release, "ONGOING"))
    epoch = one["pending_epoch"]
    assert appended(one).startswith(f"PREPARE_ABORT 1/{epoch}")
    assert one.told(kafka.InitProducerIdResponse, 1) == ""
    assert one.does(transaction_log.begin_completion)
    assert one.told(kafka.InitProducerIdResponse, 1) == BUSY
    assert one.told(kafka.EndTxnResponse, 0) == ""


@in_each("release", WITH_VERSION_2[1:-1])
def test_before_4_3_a_timeout_at_the_last_epoch_hands_out_the_largest(release: Release) -> None:
    """The abort of a producer that timed out is taken for a retry; KAFKA-20090."""
    one = at(release, "ONGOING", LAST)
    assert one.does(transaction.timeout)
    assert one.does(transaction.continue_fence)
    assert complete(one) == f"COMPLETE_ABORT 1/{LARGEST} after {LAST}, before 1"
    assert one.end("ABORT", 1, LAST) == f"NONE 1/{LARGEST}"
    assert one.add_by_leader(1, LARGEST) == "ONGOING [0]"


@every
@pytest.mark.parametrize("state", SETTLED)
def test_an_id_expires(release: Release, state: str) -> None:
    one = at(release, state, previous_id=0)
    assert one.does(transaction_log.expiry)
    assert one["pending"] == "DEAD"
    assert one.init() == BUSY
    assert one.does(transaction_log.log_append) == "transactional id forgotten"
    assert one.entry() == "EMPTY 2/-1 after -1"
    assert one.end("ABORT", 1, 5) == UNKNOWN_ID
    assert one.init((1, 4)) == "EMPTY 2/0 after -1"  # even to one that was fenced


@every
@pytest.mark.parametrize("state", STATES)
def test_what_can_expire(release: Release, state: str) -> None:
    can = at(release, state).does(transaction_log.expiry) is not None
    assert can == (state in SETTLED)
    assert at(release, state, pending="ONGOING").does(transaction_log.expiry) is None


# The record is not appended --------------------------------------------------------------------


def fails(one: Coordinator) -> str:
    """The entry once the append has failed."""
    assert one.does(transaction_log.append_failure)
    assert one["pending"] is None
    return one.entry()


@every
def test_an_append_fails(release: Release) -> None:
    """The entry is as before, and whoever waits hears of it."""
    one = at(release, "COMPLETE_COMMIT", LAST, previous_id=0)
    one.init()
    assert fails(one) == f"COMPLETE_COMMIT 1/{LAST} after 4, before 0"
    assert one.told(kafka.InitProducerIdResponse, 0) == NOT_AVAILABLE
    one = at(release, "EMPTY")
    if release in WITH_VERSION_2:
        one.add_by_leader(1, 5)
        assert fails(one) == "EMPTY 1/5 after 4"
        assert one.told(kafka.AddPartitionsByLeaderResponse, 0, 0) == NOT_AVAILABLE
    else:
        one.add(1, 5)
        assert fails(one) == "EMPTY 1/5 after 4"
        assert one.told(kafka.AddPartitionsToTxnResponse, 0, 0) == NOT_AVAILABLE
    assert one["partitions"] == frozenset()
    one = at(release, "ONGOING", LAST)
    one.end("COMMIT", 1, LAST)
    assert fails(one) == f"ONGOING 1/{LAST} after 4"
    assert one.told(kafka.EndTxnResponse, 0) == NOT_AVAILABLE
    one = at(release, "COMPLETE_ABORT", pending="DEAD")
    assert fails(one) == "COMPLETE_ABORT 1/5 after 4"
    assert one.init() == "EMPTY 1/6 after -1"


@every
@pytest.mark.parametrize("pending", ["COMPLETE_COMMIT", "PREPARE_EPOCH_FENCE", None])
def test_what_cannot_fail(release: Release, pending: str | None) -> None:
    """A Complete record is appended until it is there; a fence has no record of its own."""
    one = at(release, "PREPARE_COMMIT", pending=pending)
    assert one.does(transaction_log.append_failure) is None


def late(one: Coordinator) -> Coordinator:
    """Its successor, where the append of the pending record has failed and it is in the log."""
    before = one.entry().partition(", next")[0]
    assert one.does(transaction_log.append_failure, record_kept=True)
    assert (one["pending"], one.entry()) == (None, before)
    assert one.does(transaction_log.late_failover)
    assert (one["pending"], one["unsettled"], one["coordinator_epoch"]) == (None, None, 1)
    return one


@every
def test_a_record_whose_append_failed_is_found_by_the_next_coordinator(release: Release) -> None:
    """An append that times out may succeed all the same; TransactionStateManager."""
    before = in_log(release, ", before 1")
    one = at(release, "EMPTY", LAST, previous_id=0)
    one.init((1, LAST) if release[0] != "2.0" else None)
    assert late(one).entry() == f"EMPTY 2/0 after -1{before}"
    one = at(release, "COMPLETE_ABORT", previous_id=0)
    add = Coordinator.add_by_leader if release in WITH_VERSION_2 else Coordinator.add
    add(one, 1, 5)
    assert late(one).entry() == f"ONGOING 1/5 after -1{before}"
    assert one["partitions"] == HERE
    for result in ("COMMIT", "ABORT"):
        one = at(release, "ONGOING")
        one.end(result, 1, 5)
        epoch = 5 + (release in WITH_VERSION_2)
        assert late(one).entry() == f"PREPARE_{result} 1/{epoch} after -1{before}"
        assert one["partitions"] == HERE
        assert one.does(transaction_log.begin_completion)
        assert one.told(kafka.EndTxnResponse, 0) == NOT_AVAILABLE  # the answer to the failure
    one = at(release, "EMPTY", pending="DEAD")
    assert late(one).entry() == "EMPTY 2/-1 after -1"


@version_2
def test_a_next_producer_id_whose_append_failed(release: Release) -> None:
    one = at(release, "ONGOING", LAST)
    one.end("COMMIT", 1, LAST)
    text = in_log(release, ", before 1, next 2")
    assert late(one).entry() == f"PREPARE_COMMIT 1/{LARGEST} after -1{text}"


def test_a_record_behind_it_settles_one_whose_append_failed() -> None:
    one = at(("4.3",), "ONGOING")
    one.end("COMMIT", 1, 5)
    assert one.does(transaction_log.append_failure, record_kept=True)
    assert one.told(kafka.EndTxnResponse, 0) == NOT_AVAILABLE
    assert one.end("ABORT", 1, 5) == "PREPARE_ABORT 1/6 after 5"
    assert one.does(transaction_log.append_failure, record_kept=False)
    assert one.told(kafka.EndTxnResponse, 0) == NOT_AVAILABLE
    assert one["unsettled"][0] == "PREPARE_COMMIT"  # of the two it is the one in the log
    assert one.end("ABORT", 1, 5) == "PREPARE_ABORT 1/6 after 5"
    assert appended(one).startswith("PREPARE_ABORT")
    assert one.does(transaction_log.late_failover) is None
    one = at(("4.3",), "ONGOING")
    one.end("COMMIT", 1, 5)
    assert one.does(transaction_log.append_failure, record_kept=True)
    assert fails_over(one, False).startswith("ONGOING")
    assert one.does(transaction_log.late_failover) is None


def test_a_tombstone_whose_append_failed_waits_for_a_producer_id() -> None:
    one = at(("4.3",), "EMPTY", pending="DEAD", offered_id=None)
    assert one.does(transaction_log.append_failure, record_kept=True)
    assert one.does(transaction_log.late_failover) is None


@in_each("release", [one for one in EVERY if one[0] != "2.0"])
def test_with_the_epoch_before_in_the_log_a_bump_can_be_asked_for_again(release: Release) -> None:
    """What KAFKA-20357 proposes, whether the record was being appended or its append failed."""
    mended = (*release, "+last_epoch_in_log")
    one = at(mended, "EMPTY")
    assert one.init((1, 5)) == "EMPTY 1/6 after 5"
    assert fails_over(one, True) == f"EMPTY 1/6 after 5{in_log(release, ', before 1')}"
    assert one.told(kafka.InitProducerIdResponse, 0) == MOVED
    assert one.init((1, 5)) == "EMPTY 1/6 after 5"
    one = at(mended, "EMPTY")
    one.init((1, 5))
    assert late(one).entry() == f"EMPTY 1/6 after 5{in_log(release, ', before 1')}"


# The coordinator fails over --------------------------------------------------------------------


def fails_over(one: Coordinator, kept: bool) -> str:
    """The entry as the next coordinator has it."""
    assert one.does(transaction_log.failover, record_kept=kept)
    assert (one["pending"], one["failed_fence"], one["coordinator_epoch"]) == (None, False, 1)
    assert (one["pending_epoch"], one["pending_last_epoch"]) == (-1, -1)
    return one.entry()


def in_log(release: Release, text: str) -> str:
    """What KAFKA-20310 put into the log."""
    return text if release[0] == "4.3" else ""


@every
@pytest.mark.parametrize("state", STATES)
def test_what_the_log_keeps(release: Release, state: str) -> None:
    """The epoch before is never there; before and after, the producer ids since 4.3."""
    one = at(release, state, previous_id=0, failed_fence=True)
    assert fails_over(one, False) == f"{state} 1/5 after -1{in_log(release, ', before 0')}"
    assert one["partitions"] == (frozenset() if state in SETTLED else HERE)
    prepared = state.startswith("PREPARE")
    assert (one.does(transaction_log.begin_completion) is not None) == prepared


@every
def test_a_producer_id_given_out_while_the_coordinator_fails_over(release: Release) -> None:
    for kept, entry in (
        (True, f"EMPTY 2/0 after -1{in_log(release, ', before 1')}"),
        (False, f"EMPTY 1/{LAST} after -1{in_log(release, ', before 0')}"),
    ):
        one = at(release, "EMPTY", LAST, previous_id=0)
        one.init((1, LAST))
        assert fails_over(one, kept) == entry
        assert one.told(kafka.InitProducerIdResponse, 0) == MOVED


@in_each("release", [one for one in EVERY if one[0] != "2.0"])
def test_a_bump_asked_for_again_across_a_failover_is_refused(release: Release) -> None:
    """KAFKA-20357: the log doesn't have the epoch before."""
    one = at(release, "EMPTY")
    assert one.init((1, 5)) == "EMPTY 1/6 after 5"
    assert fails_over(one, True) == f"EMPTY 1/6 after -1{in_log(release, ', before 1')}"
    assert one.told(kafka.InitProducerIdResponse, 0) == MOVED
    assert one.init((1, 5)) == fenced(release)


@every
def test_partitions_added_while_the_coordinator_fails_over(release: Release) -> None:
    for kept, state, partitions in ((True, "ONGOING", HERE), (False, "EMPTY", frozenset[int]())):
        one = at(release, "EMPTY")
        if release in WITH_VERSION_2:
            one.add_by_leader(1, 5)
        else:
            one.add(1, 5)
        before = in_log(release, ", before 1") if kept else ""
        assert fails_over(one, kept) == f"{state} 1/5 after -1{before}"
        assert one["partitions"] == partitions
        if release in WITH_VERSION_2:
            assert one.told(kafka.AddPartitionsByLeaderResponse, 0, 0) == MOVED
        else:
            assert one.told(kafka.AddPartitionsToTxnResponse, 0, 0) == MOVED


@version_2
@pytest.mark.parametrize("result", ["COMMIT", "ABORT"])
def test_an_end_at_the_last_epoch_while_the_coordinator_fails_over(
    release: Release, result: str
) -> None:
    """Without the next producer id in the log, the end leaves the largest epoch behind."""
    one = at(release, "ONGOING", LAST)
    one.end(result, 1, LAST)
    before = in_log(release, ", before 1")
    following = in_log(release, ", next 2")
    expected = f"PREPARE_{result} 1/{LARGEST} after -1{before}{following}"
    assert fails_over(one, True) == expected
    assert one.told(kafka.EndTxnResponse, 0) == MOVED
    assert one.does(transaction_log.begin_completion)
    assert one["pending"] == f"COMPLETE_{result}"
    lost_record = at(release, "ONGOING", LAST)
    lost_record.end(result, 1, LAST)
    assert fails_over(lost_record, False) == f"ONGOING 1/{LAST} after -1"


@every
@pytest.mark.parametrize("result", ["COMMIT", "ABORT"])
def test_a_completion_while_the_coordinator_fails_over(release: Release, result: str) -> None:
    """All markers are sent again unless the Complete record is there."""
    one = at(
        release, f"PREPARE_{result}", pending=f"COMPLETE_{result}", partitions=frozenset[int](),
        logged_partitions=HERE,
    )  # fmt: skip
    assert fails_over(one, False) == f"PREPARE_{result} 1/5 after -1"
    assert one["partitions"] == HERE
    one = at(
        release, f"PREPARE_{result}", LARGEST, LAST, pending=f"COMPLETE_{result}",
        partitions=frozenset[int](), logged_partitions=HERE, next_id=2,
    )  # fmt: skip
    before = in_log(release, ", before 1")
    assert fails_over(one, True) == f"COMPLETE_{result} 2/0 after -1{before}"
    assert one["partitions"] == frozenset()
    one = at(release, f"PREPARE_{result}", pending=f"COMPLETE_{result}")
    assert one.does(transaction_log.failover, record_kept=True) is None


@every
def test_a_fence_while_the_coordinator_fails_over(release: Release) -> None:
    """An epoch that only the memory had is forgotten, and whoever fenced asks again."""
    one = at(release, "ONGOING")
    one.init(client=1)
    assert fails_over(one, False) == "ONGOING 1/5 after -1"
    assert one.told(kafka.InitProducerIdResponse, 1) == MOVED
    one = fence(at(release, "ONGOING"))
    assert fails_over(one, False) == "ONGOING 1/5 after -1"
    assert one.told(kafka.InitProducerIdResponse, 1) == MOVED
    one = fence(at(release, "ONGOING"))
    epoch = one["pending_epoch"]
    expected = f"PREPARE_ABORT 1/{epoch} after -1{in_log(release, ', before 1')}"
    assert fails_over(one, True) == expected


@every
def test_an_expiry_while_the_coordinator_fails_over(release: Release) -> None:
    one = at(release, "EMPTY", pending="DEAD", previous_id=0)
    assert fails_over(one, True) == "EMPTY 2/-1 after -1"
    one = at(release, "EMPTY", pending="DEAD")
    assert fails_over(one, False) == "EMPTY 1/5 after -1"


# Markers ---------------------------------------------------------------------------------------

BOTH = frozenset({0, 1})


def completing(result: str = "COMMIT") -> Coordinator:
    """A decided transaction with two partitions."""
    return at(
        ("4.3",), f"PREPARE_{result}", pending=f"COMPLETE_{result}", partitions=BOTH,
        logged_partitions=BOTH,
    )  # fmt: skip


@pytest.mark.parametrize("result", ["COMMIT", "ABORT"])
def test_markers_are_sent_and_answered(result: str) -> None:
    one = completing(result)
    for partition in (1, 0):
        assert one.does(transaction_log.log_append) is None
        assert one.does(markers.send_marker, partition=partition) == "send"
        assert one.does(markers.send_marker, partition=partition) is None
        marker = one.sent(kafka.WriteTxnMarkers, partition)
        assert marker is not None
        assert (marker["producer_id"], marker["producer_epoch"]) == (1, 5)
        assert (marker["result"], marker["connection"]) == (result, 0)
        one.arrives(kafka.WriteTxnMarkersResponse, partition, error="NONE")
        assert one.does(kafka.WriteTxnMarkersResponse) == "written"
        assert partition not in one["partitions"]
    assert appended(one).startswith(f"COMPLETE_{result}")


@pytest.mark.parametrize(("error", "row"), [(IPE, "refused for good"), (FAILED, "unexpected")])
def test_a_marker_that_is_refused_holds_the_completion_up(error: str, row: str) -> None:
    one = completing()
    assert one.does(markers.send_marker, partition=0)
    one.arrives(kafka.WriteTxnMarkersResponse, 0, error=error)
    assert one.does(kafka.WriteTxnMarkersResponse) == row
    assert (one["pending"], one["partitions"]) == ("COMPLETE_COMMIT", BOTH)
    assert one.init() == BUSY
    assert fails_over(one, False).startswith("PREPARE_COMMIT")
    assert one.does(transaction_log.begin_completion)
    assert one.does(markers.send_marker, partition=0)


def test_a_marker_is_sent_again_on_a_new_connection() -> None:
    one = completing()
    assert one.does(markers.marker_overtaken, partition=0) is None
    assert one.does(markers.send_marker, partition=0)
    assert one.sent(kafka.WriteTxnMarkers, 0)
    assert one.does(markers.marker_overtaken, partition=0)
    marker = one.sent(kafka.WriteTxnMarkers, 0)
    assert marker is not None
    assert marker["connection"] == 1
    one.arrives(kafka.WriteTxnMarkersResponse, 0, error="NONE", connection=0)
    assert one.does(kafka.WriteTxnMarkersResponse) == "on a closed connection"
    assert 0 in one["partitions"]
    one.arrives(kafka.WriteTxnMarkersResponse, 0, error="NONE", connection=1)
    assert one.does(kafka.WriteTxnMarkersResponse) == "written"


@pytest.mark.parametrize("message", [kafka.WriteTxnMarkers, kafka.WriteTxnMarkersResponse])
def test_a_lost_marker_or_answer_is_sent_again(message: Any) -> None:
    one = completing("ABORT")
    assert one.does(markers.send_marker, partition=0)
    assert one.sent(kafka.WriteTxnMarkers, 0)
    one.arrives(message, 0, connection=0)
    assert one.does(lost(message)) == "send again"
    marker = one.sent(kafka.WriteTxnMarkers, 0)
    assert marker is not None
    assert (marker["producer_id"], marker["producer_epoch"]) == (1, 5)
    assert (marker["result"], marker["connection"]) == ("ABORT", 0)
    fails_over(one, False)
    one.arrives(message, 0, connection=0)
    assert one.does(lost(message)) == "on a closed connection"
    assert one.sent(kafka.WriteTxnMarkers, 0) is None
