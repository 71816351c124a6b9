"""What a partition leader answers to batches and markers: the order of its checks, by release."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochfence.language.types import Value
from epochfence.spec.features import RELEASED as RELEASES
from epochfence.tests.spec.leaders import (
    BOUNDS,
    IDEMPOTENCE_ONLY,
    NOBODY,
    VERSION_1,
    entry,
    leader,
)

IPE, FENCED, BUSY = "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "CONCURRENT_TRANSACTIONS"
OUT_OF_ORDER, UNKNOWN_ID = "OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID"
BAD_STATE, ABORTABLE, LATER = "INVALID_TXN_STATE", "TRANSACTION_ABORTABLE", "NOT_ENOUGH_REPLICAS"

KNOWN, MARKER_ONLY, OPEN = entry(5, 0, 1), entry(5), entry(5, 0, 1, opened=0)
LAST = BOUNDS["largest_sequence"]


def since(release: str) -> tuple[str, ...]:
    """The releases from this one on."""
    return RELEASES[RELEASES.index(release) :]


def before(release: str) -> tuple[str, ...]:
    """The releases before this one."""
    return RELEASES[: RELEASES.index(release)]


PART_1 = ("3.6", "3.7", "3.8", "3.9")  # of KIP-890

# Batches that need no question -----------------------------------------------------------------

DIRECT = [
    (RELEASES, KNOWN, 5, 1, "duplicate"),
    (RELEASES, KNOWN, 5, 0, "duplicate"),
    (RELEASES, KNOWN, 4, 1, IPE),
    (RELEASES, KNOWN, 4, 7, IPE),
    (before("2.5"), NOBODY, 5, 2, UNKNOWN_ID),
    (since("2.5"), NOBODY, 5, 2, "written"),
    (RELEASES, NOBODY, 5, 0, "written"),
    (RELEASES, KNOWN, 6, 1, OUT_OF_ORDER),
    (RELEASES, KNOWN, 6, 0, "written"),
    (RELEASES, KNOWN, 5, 2, "written"),
    (RELEASES, KNOWN, 5, 3, OUT_OF_ORDER),
    (RELEASES, entry(5, 1, 2), 5, 0, OUT_OF_ORDER),  # older than what is remembered
    (before("2.5"), MARKER_ONLY, 5, 1, UNKNOWN_ID),  # KAFKA-7298
    (since("2.5"), MARKER_ONLY, 5, 1, OUT_OF_ORDER),
    (RELEASES, MARKER_ONLY, 5, 0, "written"),
    (RELEASES, entry(5, LAST), 5, 0, "written"),
    (RELEASES, entry(5, LAST), 5, 1, OUT_OF_ORDER),
    (RELEASES, entry(5, LAST, 0), 5, LAST, "duplicate"),
]


@pytest.mark.parametrize(("releases", "known", "epoch", "sequence", "outcome"), DIRECT)
def test_batches_of_a_client_without_transactional_id(
    releases: tuple[str, ...], known: Value, epoch: int, sequence: int, outcome: str
) -> None:
    """ProducerStateEntry.findDuplicateBatch, then checkProducerEpoch, then checkSequence."""
    for release in releases:
        one = leader(release, known=known)
        assert one.produce(epoch, sequence, idempotent_only=True) == outcome, release
        assert one.entry()[3] is None  # no transaction is open


@pytest.mark.parametrize(("releases", "known", "epoch", "sequence", "outcome"), DIRECT)
def test_transactional_batches_that_nobody_is_asked_about(
    releases: tuple[str, ...], known: Value, epoch: int, sequence: int, outcome: str
) -> None:
    for release in releases:
        one = leader(release, *IDEMPOTENCE_ONLY, known=known)
        assert one.produce(epoch, sequence) == outcome, release
        assert one.entry()[3] == (0 if outcome == "written" else None)


@pytest.mark.parametrize(
    ("epoch", "sequence", "outcome"),
    [
        (5, 1, "duplicate"),
        (4, 0, IPE),
        (6, 1, OUT_OF_ORDER),
        (5, 3, OUT_OF_ORDER),
        (5, 2, BAD_STATE),
        (6, 0, BAD_STATE),
    ],
)
def test_a_batch_that_is_not_transactional_in_a_transaction_is_refused_last(
    epoch: int, sequence: int, outcome: str
) -> None:
    for release in RELEASES:
        one = leader(release, known=OPEN)
        assert one.produce(epoch, sequence, idempotent_only=True) == outcome
        assert one.entry() == OPEN


def test_a_newer_epoch_joins_the_open_transaction() -> None:
    one = leader("2.5", known=OPEN)
    assert one.produce(6, 0) == "written"
    assert one.entry() == (6, ((0, 0),), 0, 0)


# Questions to the coordinator ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "epoch", "sequence", "outcomes"),
    [  # in 3.5, from 3.6 on, in 4.0 and from 4.1 on
        (NOBODY, 5, 0, ("written", "asks", "asks", "asks")),
        (KNOWN, 5, 1, ("duplicate", "asks", "asks", "asks")),  # looked for at the append
        (KNOWN, 4, 0, (IPE, "asks", "asks", IPE)),  # KAFKA-18042
        (OPEN, 5, 2, ("written", "written", "written", "written")),
        (OPEN, 5, 1, ("duplicate", "duplicate", "duplicate", "duplicate")),
        (OPEN, 5, 3, (OUT_OF_ORDER, OUT_OF_ORDER, OUT_OF_ORDER, OUT_OF_ORDER)),
        (OPEN, 6, 0, ("written", "written", "asks", "asks")),  # ongoing was for the id alone
        (OPEN, 4, 0, (IPE, IPE, "asks", IPE)),
    ],
)
def test_what_a_leader_asks_about(
    known: Value, epoch: int, sequence: int, outcomes: tuple[str, str, str, str]
) -> None:
    releases = (("3.5",), PART_1, ("4.0.0", "4.0.1"), since("4.1"))
    for group, outcome in zip(releases, outcomes, strict=True):
        for release in group:
            assert leader(release, known=known).produce(epoch, sequence) == outcome, release


@pytest.mark.parametrize("off", [(), VERSION_1], ids=["version 2", "version 1"])
def test_an_unasked_question_is_that_of_a_transactional_client(off: tuple[str, ...]) -> None:
    one = leader("4.3", *off)
    assert one.produce(0, 0, idempotent_only=True) == "written"
    assert one.produce(0, 1) == "asks"


def test_a_question_is_kept_with_the_newest_epoch_and_its_lowest_sequence() -> None:
    """VerificationStateEntry.maybeUpdateLowestSequenceAndEpoch."""
    asked: list[Value] = []
    for epoch, sequence in ((5, 3), (5, 1), (5, 2), (4, 0), (6, 7)):
        held = (asked[-1] if asked else None, None)
        one = leader("3.6", verification_states=held)
        assert one.produce(epoch, sequence) == "asks"
        asked.append(one.field("verification_states")[0])
    assert asked == [(5, 3), (5, 1), (5, 1), (5, 1), (6, 7)]


@pytest.mark.parametrize(
    ("error", "outcomes"),
    [  # in 3.6, in the newest release with version 1 and with version 2
        (FENCED, (IPE, IPE, IPE)),
        (ABORTABLE, (ABORTABLE, ABORTABLE, ABORTABLE)),
        (BAD_STATE, (BAD_STATE, BAD_STATE, BAD_STATE)),
        (BUSY, (LATER, LATER, BUSY)),
        ("NOT_COORDINATOR", (LATER, LATER, LATER)),
        ("COORDINATOR_NOT_AVAILABLE", (LATER, LATER, LATER)),
        ("COORDINATOR_LOAD_IN_PROGRESS", (LATER, LATER, LATER)),
        ("INVALID_PRODUCER_ID_MAPPING", ("INVALID_PRODUCER_ID_MAPPING",) * 3),
        ("NONE", ("written", "written", "written")),
    ],
)
def test_what_a_producer_is_told_of_the_coordinators_answer(
    error: str, outcomes: tuple[str, str, str]
) -> None:
    """AddPartitionsToTxnManager, ReplicaManager.handleProduceAppend."""
    in_36, version_1, version_2 = outcomes
    for one, outcome in (
        (leader("3.6"), in_36), (leader("4.3", *VERSION_1), version_1), (leader("4.3"), version_2),
    ):  # fmt: skip
        assert one.produce(0, 0) == "asks"
        assert one.produce(0, 0) == "waits"
        assert one.hears(error) == outcome
        assert one.field("waiting")[0] is None


def waits(epoch: int, sequence: int, guarded: bool = True) -> tuple[Value, Value]:
    """One client's batch of producer id 0 that waits; the other client has none."""
    return ((0, epoch, sequence, 0, 0, guarded), None)


@pytest.mark.parametrize(
    ("known", "asked", "batch", "outcomes"),
    [  # in 3.6 to 3.8, in 4.0, and from 4.1 on with version 1 and with version 2
        (KNOWN, None, waits(5, 1, False), ("duplicate",) * 4),
        (KNOWN, None, waits(4, 2, False), (BAD_STATE, BAD_STATE, IPE, IPE)),
        (KNOWN, None, waits(6, 0, False), (BAD_STATE,) * 4),
        (OPEN, None, waits(5, 2, False), ("written",) * 4),
        (OPEN, None, waits(6, 0, False), ("written", BAD_STATE, BAD_STATE, BAD_STATE)),
        (KNOWN, (4, 0), waits(4, 2), (IPE,) * 4),
        (NOBODY, (6, 1), waits(6, 1), ("written", "written", "written", OUT_OF_ORDER)),
        (MARKER_ONLY, (6, 0), waits(6, 1), (OUT_OF_ORDER,) * 4),
        (NOBODY, (6, 0), waits(6, 0), ("written",) * 4),
        (NOBODY, (6, 1), waits(6, 2), (OUT_OF_ORDER,) * 4),  # not the first to come
        (KNOWN, (6, 1), waits(6, 1), (OUT_OF_ORDER,) * 4),
        (KNOWN, (5, 3), waits(5, 3), (OUT_OF_ORDER,) * 4),
        (KNOWN, (5, 2), waits(5, 2), ("written",) * 4),
    ],
)
def test_checks_of_a_batch_that_has_waited(
    known: Value, asked: Value, batch: Value, outcomes: tuple[str, str, str, str]
) -> None:
    """UnifiedLog.analyzeAndValidateProducerState, then ProducerAppendInfo."""
    groups = (PART_1[:-1], ("4.0.0", "4.0.1"), since("4.1"), since("4.1"))
    for at, (releases, outcome) in enumerate(zip(groups, outcomes, strict=True)):
        for release in releases:
            off = VERSION_1 if at == 2 else ()
            one = leader(
                release, *off, known=known, verification_states=(asked, None), waiting=batch
            )
            assert one.hears("NONE") == outcome, release
            assert one.field("waiting")[0] is None
            written = outcome == "written"
            assert one.field("verification_states")[0] == (None if written else asked)


@pytest.mark.parametrize(("epoch", "told"), [(4, IPE), (5, BAD_STATE)])
def test_a_stale_epoch_comes_before_the_question_in_3_9(epoch: int, told: str) -> None:
    """KAFKA-19690, which 3.9.2 has"""
    one = leader("3.9", known=KNOWN, waiting=waits(epoch, 2, False))
    assert one.hears("NONE") == told


def test_the_coordinators_answer_comes_before_the_leaders_checks() -> None:
    one = leader("4.3", known=KNOWN, waiting=waits(5, 1))
    assert one.hears(BUSY) == BUSY  # though the batch is a duplicate


@pytest.mark.parametrize(
    ("known", "asked", "epoch", "sequence", "outcomes"),
    [  # before 4.1, from then on with version 1 and with version 2
        (NOBODY, (6, 2), 6, 2, ("written", "written", OUT_OF_ORDER)),
        (NOBODY, (6, 2), 6, 1, ("written", "written", OUT_OF_ORDER)),
        (NOBODY, (6, 2), 6, 0, ("written", "written", "written")),
        (NOBODY, (6, 2), 6, 3, (OUT_OF_ORDER, OUT_OF_ORDER, OUT_OF_ORDER)),
        (KNOWN, (6, 1), 5, 2, (OUT_OF_ORDER, OUT_OF_ORDER, OUT_OF_ORDER)),
        (KNOWN, (6, 2), 5, 2, ("written", "written", "written")),
        (MARKER_ONLY, (6, 2), 4, 1, (IPE, IPE, IPE)),
    ],
)
def test_a_question_holds_for_batches_that_nobody_is_asked_about(
    known: Value, asked: Value, epoch: int, sequence: int, outcomes: tuple[str, str, str]
) -> None:
    for release in since("3.6"):
        versions = ((VERSION_1, outcomes[1]), ((), outcomes[2]))
        for off, outcome in versions:
            one = leader(release, *off, known=known, verification_states=(asked, None))
            told = one.produce(epoch, sequence, idempotent_only=True)
            assert told == (outcomes[0] if release in before("4.1") else outcome), release
            assert one.field("verification_states")[0] == asked


def test_a_batch_of_the_open_transaction_ends_the_questions() -> None:
    one = leader("4.3", known=OPEN, verification_states=((6, 2), (6, 0)), waiting=waits(6, 0)[::-1])
    assert one.produce(5, 2) == "written"
    assert one.field("verification_states") == (None, (6, 0))
    assert one.field("waiting") == waits(6, 0, guarded=False)[::-1]
    one = leader("4.3", verification_states=((6, 0), None), waiting=waits(6, 0)[::-1])
    assert one.produce(6, 0, idempotent_only=True) == "written"
    assert one.field("waiting") == waits(6, 0)[::-1]


def test_without_verification_version_2_adds_but_does_not_look_at_the_question() -> None:
    one = leader("4.3", "verification", known=KNOWN, waiting=waits(6, 0, guarded=False))
    assert one.hears("NONE") == "written"
    one = leader("4.3", "verification", waiting=waits(6, 3, guarded=False))
    assert one.hears("NONE") == "written"  # no question is open: it may start anywhere


def test_an_append_or_a_marker_ends_the_questions_of_its_producer_id_alone() -> None:
    first, second = (0, 6, 0, 0, 0, True), (1, 6, 0, 0, 0, True)
    asked = ((6, 0), (6, 0))
    one = leader("4.3", verification_states=asked, waiting=(first, second))
    assert one.hears("NONE") == "written"
    assert one.field("verification_states") == (None, (6, 0))
    assert one.field("waiting") == (None, second)
    one = leader("4.3", verification_states=asked, waiting=(first, second))
    assert one.marker(7, producer_id=1) == "nothing"
    assert one.field("verification_states") == ((6, 0), None)
    assert one.field("waiting") == (first, (1, 6, 0, 0, 0, False))


@pytest.mark.parametrize(
    ("off", "epoch", "counts"),
    [((), 6, True), ((), 7, False), (VERSION_1, 6, False), (VERSION_1, 7, False)],
)
def test_with_version_2_a_question_at_the_markers_epoch_is_about_the_next_transaction(
    off: tuple[str, ...], epoch: int, counts: bool
) -> None:
    one = leader("4.3", *off, known=OPEN, verification_states=((6, 0), None), waiting=waits(6, 0))
    assert one.marker(epoch) == "ended"
    assert one.field("verification_states")[0] == ((6, 0) if counts else None)
    assert one.field("waiting") == waits(6, 0, guarded=counts)


@pytest.mark.parametrize(
    ("release", "asked", "batches", "counts"),
    [("4.0.0", 6, (5, 6), True), ("4.0.0", 7, (6, 7), False)],
)
def test_one_question_is_that_of_all_who_asked(
    release: str, asked: int, batches: tuple[int, int], counts: bool
) -> None:
    """UnifiedLog.updateProducers compares the epoch of the question."""

    def waiting(guarded: bool) -> Value:
        return tuple((0, epoch, 0, 0, 0, guarded) for epoch in batches)

    one = leader(release, known=OPEN, verification_states=((asked, 0), None), waiting=waiting(True))
    assert one.marker(6) == "ended"
    assert one.field("verification_states")[0] == ((asked, 0) if counts else None)
    assert one.field("waiting") == waiting(counts)


# Markers ---------------------------------------------------------------------------------------

LARGEST = BOUNDS["largest_epoch"]


@pytest.mark.parametrize(
    ("known", "epoch", "outcomes"),
    [  # before 4.2, in 4.2, and from 4.3 on; then with version 1
        (OPEN, 4, (IPE, IPE, IPE, IPE)),
        (OPEN, 5, ("ended", IPE, IPE, "ended")),  # KIP-1228
        (OPEN, 6, ("ended", "ended", "ended", "ended")),
        (KNOWN, 4, (IPE, IPE, IPE, IPE)),
        (KNOWN, 5, ("nothing", "nothing", "nothing", "nothing")),  # KAFKA-19999
        (NOBODY, 6, ("nothing", "nothing", "nothing", "nothing")),
        (entry(LARGEST, 0, opened=0), LARGEST, ("ended", IPE, "ended", "ended")),  # KAFKA-20090
    ],
)
def test_markers(known: Value, epoch: int, outcomes: tuple[str, str, str, str]) -> None:
    """ProducerAppendInfo.checkProducerEpoch, appendEndTxnMarker."""
    groups = (before("4.2"), ("4.2",), since("4.3"), RELEASES)
    for at, (releases, outcome) in enumerate(zip(groups, outcomes, strict=True)):
        for release in releases:
            one = leader(release, *(VERSION_1 if at == 3 else ()), known=known)
            assert one.marker(epoch) == outcome, release
            if outcome == IPE:
                assert one.entry() == known
            else:
                assert (one.entry()[0], one.entry()[3]) == (epoch, None)


def test_a_marker_of_a_new_epoch_forgets_the_batches() -> None:
    """ProducerStateManagerTest.testControlRecordBumpsProducerEpoch."""
    one = leader("4.3", *VERSION_1, known=OPEN)
    assert one.marker(5, "COMMIT") == "ended"
    assert one.entry() == (5, ((0, 0), (1, 1)), 0, None)
    assert one.marker(6, "COMMIT") == "nothing"
    assert one.entry() == (6, (), 0, None)
    assert one.log == ["COMMIT"]
    one = leader("4.3", known=OPEN)
    assert one.marker(6, "COMMIT") == "ended"
    assert one.entry() == (6, (), 0, None)


@pytest.mark.parametrize(
    ("epoch", "coordinator_epoch", "outcome"),
    [
        (6, 1, "TRANSACTION_COORDINATOR_FENCED"),
        (4, 1, IPE),  # the producer's epoch is looked at first
        (5, 1, IPE),
        (6, 2, "ended"),
        (6, 3, "ended"),
    ],
)
def test_markers_of_a_coordinator_before(epoch: int, coordinator_epoch: int, outcome: str) -> None:
    """ProducerAppendInfo.checkCoordinatorEpoch."""
    known = entry(5, 0, opened=0, coordinator_epoch=2)
    one = leader("4.3", known=known)
    assert one.marker(epoch, coordinator_epoch=coordinator_epoch) == outcome
    assert one.entry()[2] == max(2, coordinator_epoch)


def test_a_marker_tells_of_its_coordinator_where_no_transaction_is_open() -> None:
    """ProducerStateManagerTest.testCoordinatorFencing."""
    one = leader("4.0.0", *VERSION_1)
    assert one.marker(0, coordinator_epoch=1) == "nothing"
    assert one.marker(0, coordinator_epoch=2) == "nothing"
    assert one.marker(0, coordinator_epoch=1) == "TRANSACTION_COORDINATOR_FENCED"
    assert one.verified(0, 0) == "written"
    assert one.marker(0, coordinator_epoch=1) == "TRANSACTION_COORDINATOR_FENCED"


# Stories from Kafka's own tests ----------------------------------------------------------------


def test_duplicates_are_the_last_batches() -> None:
    """UnifiedLogTest.testDuplicateAppends."""
    one = leader("4.0.0")
    told = [one.produce(0, sequence, idempotent_only=True) for sequence in range(7)]
    assert told == ["written"] * 7
    again = [one.produce(0, sequence, idempotent_only=True) for sequence in range(7)]
    assert again == [OUT_OF_ORDER] * 2 + ["duplicate"] * 5
    assert one.produce(0, 7, idempotent_only=True) == "written"


def test_an_unknown_producer_may_start_anywhere() -> None:
    """UnifiedLogTest.testAllowNonZeroSequenceOnFirstAppendNonZeroEpoch; KAFKA-18202 later."""
    assert leader("4.0.0").verified(1, 3) == "written"
    assert leader("4.1").verified(1, 3) == OUT_OF_ORDER


def test_each_producer_id_is_on_its_own() -> None:
    """ProducerStateManagerTest.testLastStableOffsetCompletedTxn."""
    one = leader("4.3", *VERSION_1)
    assert one.verified(3, 0) == "written"
    assert one.verified(0, 0, producer_id=1, client=1) == "written"
    assert one.stable() == 0
    assert one.marker(3, "COMMIT") == "ended"
    assert one.stable() == 1
    assert one.verified(3, 1) == "written"
    assert one.marker(0, producer_id=1) == "ended"
    assert (one.stable(), one.log) == (3, ["DATA", "DATA", "COMMIT", "DATA", "ABORT"])
    assert one.marker(3, "COMMIT") == "ended"
    assert one.stable() == 6


def test_two_clients_share_a_guard_until_the_transaction_ends() -> None:
    """UnifiedLogTest.testTransactionIsOngoingAndVerificationGuard: an answer may be too late."""
    one = leader("4.3", *VERSION_1)
    assert (one.produce(0, 0), one.produce(0, 1, client=1)) == ("asks", "asks")
    assert one.hears("NONE") == "written"
    assert one.hears("NONE", 1) == "written"  # ongoing by now
    assert one.marker(0) == "ended"
    assert (one.produce(0, 2), one.produce(0, 3, client=1)) == ("asks", "asks")
    assert one.marker(0) == "nothing"
    assert one.hears("NONE") == BAD_STATE
    assert one.produce(0, 2) == "asks"  # a new guard
    assert one.hears("NONE", 1) == BAD_STATE
    assert one.hears("NONE") == "written"


# Rules -----------------------------------------------------------------------------------------

epochs, sequences = st.integers(0, 3), st.integers(0, LAST)


@given(
    st.sampled_from(RELEASES),
    st.lists(st.tuples(epochs, sequences, st.booleans()), min_size=1, max_size=12),
)
def test_what_is_accepted_is_in_order(release: str, tries: list[tuple[int, int, bool]]) -> None:
    """Within an epoch, sequences follow each other modulo their number; epochs never go back."""
    one = leader(release)
    accepted: list[tuple[int, int]] = []
    for epoch, sequence, follow in tries:
        if follow and accepted:  # else few would be accepted
            epoch, sequence = accepted[-1][0], (accepted[-1][1] + 1) % (LAST + 1)
        if one.produce(epoch, sequence, idempotent_only=True) == "written":
            accepted.append((epoch, sequence))
    assert [epoch for epoch, _ in accepted] == sorted(epoch for epoch, _ in accepted)
    for (epoch, sequence), (following, number) in pairwise(accepted):
        assert number == ((sequence + 1) % (LAST + 1) if following == epoch else 0)
    assert len(one.entry()[1]) == min(
        BOUNDS["cached_batches"], sum(epoch == one.entry()[0] for epoch, _ in accepted)
    )


@given(
    st.lists(
        st.tuples(st.sampled_from(["data", "plain", "COMMIT", "ABORT"]), st.integers(0, 1)),
        max_size=9,
    )
)
def test_the_stable_offset_is_where_the_first_open_transaction_starts(
    events: list[tuple[str, int]],
) -> None:
    one = leader("2.5")
    opened: dict[int, int] = {}
    following = [0, 0]
    for kind, producer_id in events:
        if kind in ("data", "plain"):
            plain = kind == "plain"
            told = one.produce(
                0, following[producer_id], producer_id=producer_id, idempotent_only=plain
            )
            assert told == (BAD_STATE if plain and producer_id in opened else "written")
            if told == "written":
                following[producer_id] += 1
                if not plain:
                    opened.setdefault(producer_id, len(one.log) - 1)
        else:
            told = one.marker(0, kind, producer_id=producer_id)
            assert told == ("ended" if producer_id in opened else "nothing")
            opened.pop(producer_id, None)
        assert one.stable() == min(opened.values(), default=len(one.log))
