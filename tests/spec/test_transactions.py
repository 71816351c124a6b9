"""Kafka's transaction protocol: what holds of it, which features that takes, what runs reach."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache

import pytest

from epochfence.checker.check import Options
from epochfence.checker.prepare import available_threads
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import Expression, Row, Table, instantiate
from epochfence.language.expressions import children_first
from epochfence.language.instances.instance import ending_anywhere
from epochfence.spec.properties.transactions.transactions import PROPERTIES
from epochfence.spec.releases.api_versions import VERSION_1
from epochfence.spec.releases.features import BEFORE, NEWEST
from epochfence.spec.systems import shipped
from epochfence.tests.model.counterexamples import checked
from epochfence.tests.mutation.scenarios import rows_taken
from epochfence.tests.spec.alterations import never_reached, rows_of, taken_elsewhere

SYSTEM = shipped("transactions")
NAMES = tuple(item.name for item in PROPERTIES)


@dataclass(frozen=True)
class Bounds:
    """Constants, by default of one client and one partition."""

    producers: int = 1
    partitions: int = 1
    transactions: int = 2
    faults: int = 1
    largest_epoch: int = 3
    records: int = 1
    early_ends: int = 0
    leader_changes: int = 1
    failovers: int = 1
    timeouts: int = 1
    delays: int = 1
    deletions: int = 0
    producer_expiries: int = 0


FORGETFUL = Bounds(transactions=1, faults=2, leader_changes=1, deletions=1, producer_expiries=1)
TWO_RECORDS = Bounds(transactions=1, faults=2, records=2, early_ends=1)
EXPIRED_ID = Bounds(partitions=2, faults=2, leader_changes=0, failovers=0, timeouts=0, delays=0)
ONE_CLIENT, TWO_CLIENTS, DEFAULTS = Bounds(), Bounds(producers=2), Bounds(2, 2, 2, 1)


def run(
    bounds: Bounds,
    protocol: str = NEWEST,
    off: tuple[str, ...] = (),
    properties: tuple[str, ...] | None = None,
    threads: int = 1,
) -> Result:
    """The system checked, once for all tests that ask for the same."""
    return _run(bounds, protocol, off, properties, threads)


@cache
def _run(
    bounds: Bounds,
    protocol: str,
    off: tuple[str, ...],
    properties: tuple[str, ...] | None,
    threads: int,
) -> Result:
    instance = instantiate(SYSTEM, protocol, asdict(bounds), switch_off=off, properties=properties)
    if properties is not None:  # a late end of a fence is a deadlock before version 2
        instance = ending_anywhere(instance)
    asked = properties == NOWHERE_BROKEN  # what is vacuous, and what is declared to be unreached
    return checked(instance, Options(threads=threads, brief=not asked))


def steps(result: Result) -> list[str]:
    """The counterexample as events and rows."""
    assert result.trace is not None
    return [f"{step.action.partition('(')[0]}/{step.row}" for step in result.trace.steps]


def broken(result: Result) -> list[tuple[str, int]]:
    """The properties that break, with the lengths of their counterexamples."""
    return [(item.name, item.trace_length) for item in result.properties if item.trace_length]


def taken(result: Result) -> set[str]:
    """The rows that some step took."""
    return {name for name, count in result.rows if count}


def assert_all_hold(result: Result) -> None:
    assert result.verdict is Verdict.HOLDS, result.reason
    assert {item.name: item.verdict for item in result.properties} == dict.fromkeys(NAMES, "holds")


# The two protocols ----------------------------------------------------------------------------


@pytest.mark.slow(8)
def test_with_the_newest_protocol_everything_holds() -> None:
    assert_all_hold(run(TWO_CLIENTS))


def test_the_defaults_are_those_tested_here() -> None:
    defaults = SYSTEM.values()
    assert asdict(DEFAULTS).items() <= defaults.items()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    "bounds", [TWO_CLIENTS, pytest.param(DEFAULTS, marks=pytest.mark.slow, id="defaults")]
)
def test_before_version_2_and_verification_a_late_produce_hangs(bounds: Bounds) -> None:
    """KAFKA-14402: an expired batch arrives behind the marker that has ended its transaction."""
    result = run(bounds, BEFORE, properties=("NoHangingTransaction",))
    assert result.verdict is Verdict.BROKEN
    assert broken(result) == [("NoHangingTransaction", 19)]
    done = steps(result)
    expires = done.index("batch expires/first-attempt-abortable")
    assert expires < done.index("EndTxn/prepare")
    assert done.index("WriteTxnMarkers/empty-transaction") < done.index("Produce/append")


# Features -------------------------------------------------------------------------------------

LATE_MARKER = "WriteTxnMarkers/end-transaction"
TOLD = "EndTxnResponse/ended-new-epoch"
# What breaks first without a feature, after how many steps, and by which row.
WITHOUT: dict[tuple[str, ...], tuple[str, int, str]] = {
    VERSION_1: ("NotFencedByItself", 29, "EndTxnResponse/fatal"),
    ("strict_marker_epoch",): ("MarkersMatchDecision", 28, LATE_MARKER),
    ("overflow_answered",): ("ReservedEpoch", 22, TOLD),
    ("rotation_on_fence",): ("ReservedEpoch", 35, TOLD),
    ("rotation_in_log",): ("AnswerStands", 35, TOLD),
    ("single_fence_bump",): ("EpochsInTurn", 12, "log append/abort-prepared"),
    ("client_epoch_bump",): ("NotFencedByItself", 23, "batch expires/in-retry-fatal"),
    ("stale_epoch_abortable",): ("NotFencedByItself", 17, "ProduceResponse/fatal"),
    ("unknown_id_fatal", "transaction_version_2"): (
        "FencedForGood",
        18,
        "InitProducerIdResponse/ready",
    ),
    ("verification", "transaction_version_2"): (
        "NoHangingTransaction",
        19,
        "WriteTxnMarkersResponse/written",  # or the Produce comes last: as short
    ),
}
# Features that decide which error is answered, or what only an older protocol needs.
HARMLESS = {
    "timeout_bumps_epoch": "version 2 bumps the epoch at every end",
    "fence_bumps_epoch": "version 2 takes the epoch with the end's record",
    "completes_once": "the second thread takes a second partition",
    "own_completion_cancelled": "it takes three faults",
    "renumbered_in_order": "no leader forgets at the default bounds",
    "old_acks_ignored": "a client with a transactional id keeps its producer id",
    "expected_epoch": "with version 2 a client gets its epochs from EndTxn",
    "strict_end_txn_epoch": "version 2 has a check of its own",
    "failed_fence_kept": "version 2 takes the epoch with the record and not before",
    "producer_fenced_error": "it decides what a client can survive",
    "pending_first": "it decides which error is answered",
    "controller_hands_out_ids": "it decides which error is answered",
    "previous_id_forgotten": "what is kept longer is compared with less",
    "state_outlives_records": "no records are deleted at the default bounds",
    "unknown_producer_accepted": "it decides which error is answered",
    "verification": "version 2 asks in any case, and its epochs refuse what is late",
    "abortable_error": "it decides which error is answered",
    "ongoing_by_epoch": "version 2 refuses what is older, and is asked about what is newer",
    "no_start_in_mid_sequence": "a client starts at sequence 0",
    "stale_epoch_first": "what is stale is refused after the question as well",
    "stale_answer_first": "what is stale is refused after the question as well",
    "last_epoch_ends_open": "nothing is written with the largest epoch",
    "unknown_id_fatal": "with version 2 a client asks for no new epoch after an abort that failed",
    "expires_in_flight": "fewer batches expire",
    "version_looked_up": "transaction.version is one throughout",
    "upgrade_bumps_epoch": "transaction.version is one throughout",
    "commit_may_bump": "with version 2 a client asks for no new epoch after a commit",
    "illegal_state_fatal": "with version 2 no end asks for what its client's state doesn't allow",
    "failed_abort_fatal": "no coordinator calls the end of a transaction abortable",
    "epoch_by_partition": "with version 2 each transaction has an epoch and sequences of its own",
    "retried_by_kind": "it decides after which errors a client asks again",
    "unauthorized_abortable": "no coordinator calls a client unauthorized",
    "one_way_to_ids": "every client is transactional",
    "marker_is_use": "there is no clock, and no leader forgets at the default bounds",
    "exact_end_epoch": "no other release has it",
    "batches_kept": "one batch is remembered at the default bounds",
    "unknown_producer_error": "it decides which error is answered",
    "unknown_sequence_error": "it decides which error is answered",
    "several_in_flight": "one record goes to a partition at the default bounds",
    "sequence_used_when_sent": "with version 2 each transaction has sequences of its own",
    "empty_marker_ends_nothing": "a transaction that is a marker alone is over as it begins",
}


def used_features() -> set[str]:
    """The features that the system's rows and properties ask for."""
    parts = [part for _, part in SYSTEM.parts()]
    return {n.data.name for part in parts for n in children_first(part) if n.op == "feature"}


def test_every_feature_is_switched_off_once() -> None:
    in_force = {info.name for info in SYSTEM.protocols.infos if info.since is not None}
    assert {off[0] for off in WITHOUT if len(off) == 1} | HARMLESS.keys() == (
        used_features() & in_force
    )


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("off", WITHOUT, ids=", ".join)
def test_what_a_feature_protects(off: tuple[str, ...]) -> None:
    result = run(TWO_CLIENTS, off=off, properties=NAMES)
    assert [(*item, steps(result)[-1]) for item in broken(result)] == [WITHOUT[off]]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("off", HARMLESS)
def test_what_holds_without_a_feature(off: str) -> None:
    assert_all_hold(run(TWO_CLIENTS, off=(off,)))


# Coverage -------------------------------------------------------------------------------------

NOWHERE_BROKEN = ("DeclaredTransitions",)  # so that no run ends early
NEVER_TAKEN = never_reached(SYSTEM)


TAKEN_WITH_TWO_CLIENTS = {"partition.AddPartitionsByLeaderResponse/stale-epoch"}
TAKEN_BY_A_BUG = {"transaction.late answer to a marker/cancels-completion"}  # 16352
OF_NO_RELEASE = {"transaction.EndTxn/commit-after-abort": "late_commit_fenced"}
"""Rows of features that no release has."""


def covered(protocol: str, off: tuple[str, ...], bounds: Bounds) -> set[str]:
    """The rows that a run takes."""
    result = run(bounds, protocol, off, NOWHERE_BROKEN)
    assert result.verdict is Verdict.HOLDS
    assert [note for note in result.notes if "declared to be unreached" in note] == []
    return taken(result)


TWO_FAULTS = replace(ONE_CLIENT, faults=2, largest_epoch=2)
TWO_TRANSACTIONS = replace(TWO_RECORDS, transactions=2, faults=1)
# What is taken by no run that is recorded (tests/mutation/test_scenarios.py), but by one of these:
# a release, features that are off, bounds.
TAKEN_BESIDE: dict[tuple[str, tuple[str, ...], Bounds], set[str]] = {
    (NEWEST, (), TWO_FAULTS): {
        "transaction.EndTxn/no-producer-id-over-fence",
        "transaction.continue the fence/no-producer-id",
    },
    # in a newest broker, a leader verifies without adding at version 1 of transactions
    (NEWEST, VERSION_1, TWO_FAULTS): {
        "producer.AddPartitionsToTxnResponse/fatal",
        "transaction.AddPartitionsToTxn/pending",
        "transaction.continue the fence/invalid-state",
    },
    ("4.0.0", (), TWO_FAULTS): {
        "transaction.EndTxn/largest-epoch",
        "transaction.InitProducerId/fence-at-largest-epoch",
        "transaction.continue the fence/second-bump-overflows",
        "transaction.continue the fence/largest-epoch",
    },
    ("2.0", (), TWO_RECORDS): {
        "partition.Produce/last-sequence-unknown",
        "producer.ProduceResponse/unknown-id-renumbered",
        "producer.batch expires/in-retry-fatal",
    },
    (BEFORE, (), TWO_TRANSACTIONS): {
        "partition.Produce/new-epoch-mid-sequence",
        "transaction.continue the fence/stale-epoch",
    },
    ("3.6", (), TWO_TRANSACTIONS): {
        "partition.AddPartitionsByLeaderResponse/above-lowest-sequence",
        "partition.AddPartitionsByLeaderResponse/new-epoch-mid-sequence",
        "partition.AddPartitionsByLeaderResponse/out-of-order",
    },
    (NEWEST, (), TWO_TRANSACTIONS): {"partition.Produce/above-lowest-sequence"},
    ("2.0", (), FORGETFUL): {
        "partition.WriteTxnMarkers/end-deleted-transaction",
        "partition.records are deleted/forget-producers",
    },
    ("3.5", (), EXPIRED_ID): {"producer.EndTxnResponse/invalid-transition"},
    ("3.6", (), EXPIRED_ID): {
        "producer.EndTxnResponse/invalid-transition-fatal",
    },
    (BEFORE, (), replace(DEFAULTS, transactions=1, faults=0)): {
        "producer.AddPartitionsToTxnResponse/failed-before",
        "producer.AddPartitionsToTxnResponse/retry",
    },
}


@pytest.mark.slow
@pytest.mark.long
def test_every_row_is_taken_by_a_run_or_listed_with_a_reason() -> None:
    left = rows_of(SYSTEM) - rows_taken(SYSTEM) - set[str]().union(*TAKEN_BESIDE.values())
    listed = NEVER_TAKEN.keys() | TAKEN_WITH_TWO_CLIENTS | TAKEN_BY_A_BUG | OF_NO_RELEASE.keys()
    elsewhere = taken_elsewhere(SYSTEM)
    assert left >= listed
    assert left - elsewhere == listed - elsewhere


@pytest.mark.slow(3)
@pytest.mark.parametrize(("row", "feature"), OF_NO_RELEASE.items())
def test_a_feature_of_no_release_takes_its_row(row: str, feature: str) -> None:
    bounds = {"partitions": 1, "transactions": 1}
    assert feature not in SYSTEM.protocols.features_at(SYSTEM.protocols.releases[-1])
    result = checked(instantiate(SYSTEM, NEWEST, bounds, switch_on={feature}), Options())
    assert result.verdict is Verdict.HOLDS, result.reason
    assert row in taken(result)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(("protocol", "off", "bounds"), TAKEN_BESIDE)
def test_a_run_takes_what_no_recorded_one_does(
    protocol: str, off: tuple[str, ...], bounds: Bounds
) -> None:
    rows = covered(protocol, off, bounds)
    assert TAKEN_BESIDE[protocol, off, bounds] - rows == set()
    assert rows.isdisjoint(NEVER_TAKEN.keys() | TAKEN_WITH_TWO_CLIENTS | TAKEN_BY_A_BUG)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("protocol", [NEWEST, "3.6"])
def test_no_row_listed_is_taken_in_millions_of_states(protocol: str) -> None:
    """With two clients. What holds there with the newest protocol, docs/checked.md says too."""
    bounds = replace(TWO_CLIENTS, faults=2)
    result = run(bounds, protocol, (), NOWHERE_BROKEN, available_threads())
    assert result.verdict is Verdict.HOLDS
    assert result.states > 1_000_000
    assert taken(result).isdisjoint(NEVER_TAKEN)
    if protocol == "3.6":
        assert taken(result) >= TAKEN_WITH_TWO_CLIENTS


# Counterexamples ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("bounds", "protocol", "off"),
    [(TWO_CLIENTS, BEFORE, ()), (ONE_CLIENT, NEWEST, ("strict_marker_epoch",))],
    ids=["invariant", "step property"],
)
def test_the_counterexample_is_the_same_with_one_thread_and_with_two(
    bounds: Bounds, protocol: str, off: tuple[str, ...]
) -> None:
    one, two = (run(bounds, protocol, off, threads=threads) for threads in (1, 2))
    assert one.trace is not None
    assert one.trace == two.trace
    assert one.properties == two.properties


# Locality -------------------------------------------------------------------------------------


def fields(expression: Expression) -> set[str]:
    """The fields that an expression reads, as machine and name."""
    every = children_first(expression)
    return {f"{node.data.machine}.{node.data.name}" for node in every if node.op == "field"}


def decisions(table: Table, row: Row) -> Iterator[Expression]:
    """What decides whether a row is taken, and what it changes."""
    yield table.guard
    yield row.guard
    for target, value in table.updates(row):
        yield target
        yield value


def sendings(table: Table, row: Row) -> Iterator[Expression]:
    """What decides what a row sends."""
    for sending in table.sendings(row):
        yield sending.when
        for _, value in sending.fields:
            yield value


def foreign(table: Table, parts: Iterator[Expression]) -> set[str]:
    """Of what is read, that which belongs to another machine."""
    read = {name for part in parts for name in fields(part)}
    return {name for name in read if not name.startswith(f"{table.machine.name}.")}


def test_a_machine_knows_only_itself_and_the_message() -> None:
    """Another machine's fields are read only to leave out an answer that nobody would see; the
    client's tables keep notes of what the application asked for and was told. All may look at the
    clock, and the coordinator takes producer ids."""
    decided: dict[str, set[str]] = {"transaction": set(), "partition": set(), "producer": set()}
    sent: dict[str, set[str]] = {"transaction": set(), "partition": set(), "producer": set()}
    for table in SYSTEM.tables:
        for row in table.rows:
            decided[table.machine.name] |= foreign(table, decisions(table, row))
            sent[table.machine.name] |= foreign(table, sendings(table, row))
    assert decided == {
        "transaction": {"clock.now", "producer_id_manager.offered_id"},
        "partition": {"clock.now"},
        "producer": {"application.outcome", "application.acknowledged", "clock.now"},
    }
    assert sent == {
        "transaction": {"producer.connection"},
        "partition": {"producer.batches", "producer.txn", "transaction.marker_connection"},
        "producer": set(),
    }
