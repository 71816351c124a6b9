"""A partition's leader with all that a broker has: offsets, batches of many records, timestamps,
verification guards, the high watermark, and transactions by the offsets where they start.

The checks are those of `partition` and `partition_markers`; what is here and not there has no part
in a bounded run. `append batch` and `append marker` are ProducerStateManager's, beneath the search
for duplicates; `append` is UnifiedLog's, on top of it. The log itself is the caller's to keep.
"""

from __future__ import annotations

from ...language import (
    Bool,
    Event,
    Expression,
    Int,
    Machine,
    Map,
    Optional,
    Row,
    Sending,
    Sequence,
    Table,
    any_of,
    append,
    constant,
    each,
    element,
    enum,
    event,
    first,
    first_of,
    if_,
    insert_by,
    keep,
    last,
    maximum,
    message,
    minimum,
    position,
    push,
    record,
    replace,
    sequence_of,
    size,
    some,
    wrap,
)
from ..features import (
    empty_marker_ends_nothing,
    followers_only_warn,
    marker_is_use,
    offsets_verified,
    ongoing_by_epoch,
    stale_epoch_first,
    state_outlives_records,
)
from ..messages import (
    CACHED_BATCHES,
    EPOCH,
    LARGEST_SEQUENCE,
    NO_TIMESTAMP,
    PRODUCER_ID,
    SEQUENCE,
    TIMESTAMP,
    Errors,
    Result,
    clock,
    now,
)
from .markers import outlives, refusals
from .partition import asks_coordinator, question_rows, validation_rows, verdict_rows
from .recovery import remains

LARGEST_OFFSET = constant("largest_offset", 0, 0, 0, real=2**63 - 1, meaning="the largest offset")
LARGEST_DELTA = constant(
    "largest_delta", 0, 0, 0, real=2**31 - 1, meaning="the last record of a batch, counted from 0"
)
LARGEST_COORDINATOR_EPOCH = constant(
    "largest_coordinator_epoch", 0, 0, 0, real=2**31 - 1, meaning="the largest coordinator epoch"
)
PRODUCER_ID_EXPIRATION = constant(
    "producer_id_expiration_ms", 0, 0, 0, real=86_400_000, meaning="producer.id.expiration.ms"
)
MAX_TRANSACTION_TIMEOUT = constant(
    "max_transaction_timeout_ms", 0, 0, 0, real=900_000, meaning="transaction.max.timeout.ms"
)
LATE_TRANSACTION_BUFFER = constant(
    "late_transaction_buffer_ms", 0, 0, 0, real=300_000,
    meaning="how long after the largest timeout an open transaction counts as late",
)  # fmt: skip

OFFSET = Int(0, LARGEST_OFFSET, "offset")
ANY_SEQUENCE = Int(-1, LARGEST_SEQUENCE, "sequence")  # a coordinator's batches have none
COORDINATOR_EPOCH = Int(-1, LARGEST_COORDINATOR_EPOCH, "coordinator epoch")
Origin = enum("AppendOrigin", REPLICATION=0, COORDINATOR=1, CLIENT=2)

BatchMetadata = record(
    "BatchMetadata", last_sequence=ANY_SEQUENCE, last_offset=OFFSET,
    offset_delta=Int(0, LARGEST_DELTA), timestamp=TIMESTAMP,
)  # fmt: skip
ProducerStateEntry = record(
    "ProducerStateEntry", producer_epoch=EPOCH, batches=Sequence(BatchMetadata, CACHED_BATCHES),
    coordinator_epoch=COORDINATOR_EPOCH, last_timestamp=TIMESTAMP,
    current_txn_first_offset=Optional(OFFSET),
)  # fmt: skip
VerificationStateEntry = record(
    "VerificationStateEntry", guard=Int(0, LARGEST_OFFSET), lowest_sequence=ANY_SEQUENCE,
    producer_epoch=EPOCH, timestamp=TIMESTAMP,
)  # fmt: skip
TxnMetadata = record(
    "TxnMetadata", producer_id=PRODUCER_ID, first_offset=OFFSET, last_offset=Optional(OFFSET)
)
AbortedTxn = record(
    "AbortedTxn", producer_id=PRODUCER_ID, first_offset=OFFSET, last_offset=OFFSET,
    last_stable_offset=OFFSET,
)  # fmt: skip
ProducerSnapshot = record(
    "ProducerSnapshot", offset=OFFSET, producers=Map(PRODUCER_ID, Optional(ProducerStateEntry)),
    ongoing_txns=Sequence(TxnMetadata, LARGEST_OFFSET), is_corrupt=Bool(),
)  # fmt: skip
CompletedTxn = record(
    "CompletedTxn", producer_id=PRODUCER_ID, first_offset=OFFSET, last_offset=OFFSET,
    is_aborted=Bool(),
)  # fmt: skip

leader = Machine("leader", doc="A partition's leader: its producer state and its offsets.")
producers = leader.field("producers", Map(PRODUCER_ID, Optional(ProducerStateEntry)))
verification_states = leader.field(
    "verification_states", Map(PRODUCER_ID, Optional(VerificationStateEntry))
)
guards = leader.field("guards", Int(0, LARGEST_OFFSET), doc="How many were handed out.")
verification_enabled = leader.field(
    "verification_enabled", Bool(), True, doc="transaction.partition.verification.enable"
)
ongoing_txns = leader.field("ongoing_txns", Sequence(TxnMetadata, LARGEST_OFFSET))
unreplicated_txns = leader.field(
    "unreplicated_txns", Sequence(TxnMetadata, LARGEST_OFFSET),
    doc="Those that have ended, with a marker that isn't below the high watermark.",
)  # fmt: skip
aborted_txns = leader.field(
    "aborted_txns", Sequence(AbortedTxn, LARGEST_OFFSET), doc="The transaction index."
)
snapshots = leader.field(
    "snapshots", Sequence(ProducerSnapshot, LARGEST_OFFSET), doc="Files, by offset."
)
last_snap_offset = leader.field("last_snap_offset", OFFSET)
map_end_offset = leader.field("map_end_offset", OFFSET, doc="What the producer state includes.")
log_start_offset = leader.field("log_start_offset", OFFSET)
log_end_offset = leader.field("log_end_offset", OFFSET)
high_watermark = leader.field("high_watermark", OFFSET)

n = PRODUCER_ID.variable("n")
t = element("t", ongoing_txns)
u = element("u", unreplicated_txns)
a = element("a", aborted_txns)

_ongoing, _unreplicated = first(ongoing_txns), first(unreplicated_txns)
_open_from, _ended_from = _ongoing.value.first_offset, _unreplicated.value.first_offset
_unstable_from = if_(
    _ongoing.is_set & (~_unreplicated.is_set | (_open_from < _ended_from)), _open_from, _ended_from
)
first_unstable_offset = if_(
    _ongoing.is_set | _unreplicated.is_set, some(maximum(_unstable_from, log_start_offset)), None
)
first_undecided_offset = if_(_ongoing.is_set, some(_ongoing.value.first_offset), None)
last_stable_offset = if_(
    first_unstable_offset.is_set & (first_unstable_offset.value < high_watermark),
    first_unstable_offset.value,
    high_watermark,
)
_oldest = producers[_ongoing.value.producer_id].value.last_timestamp
has_late_transaction = (
    _ongoing.is_set
    & (_oldest > 0)
    & (now - _oldest > MAX_TRANSACTION_TIMEOUT + LATE_TRANSACTION_BUFFER)
)

# Answers ----------------------------------------------------------------------------------------

asker = Machine("asker", doc="Whoever appends: a client, a coordinator, a follower's fetcher.")
AppendResponse = message(
    "AppendResponse", asker, error=Errors, first_offset=Int(-1, LARGEST_OFFSET),
    last_offset=Int(-1, LARGEST_OFFSET), is_duplicate=Bool(),
    message_doc="`is_duplicate`: answered from memory, nothing was appended.",
)  # fmt: skip
MarkerResponse = message(
    "MarkerResponse", asker, error=Errors, completed_txn=Optional(CompletedTxn)
)
GuardResponse = message(
    "GuardResponse", asker, error=Errors, guard=Optional(Int(0, LARGEST_OFFSET)),
    message_doc="Without error and guard there is nothing to verify: a transaction is under way.",
)  # fmt: skip
StableResponse = message("StableResponse", asker, last_stable_offset=OFFSET)
OngoingResponse = message("OngoingResponse", asker, is_ongoing=Bool())
Raised = enum("Raised", "ILLEGAL_ARGUMENT", "ILLEGAL_STATE")
LocalResponse = message("LocalResponse", asker, raises=Optional(Raised))


def _refused(
    name: str, when: Expression, error: Expression, source: str, during: Expression
) -> Row:
    return Row(
        name, when=when, during=during, source=source,
        reply=AppendResponse(error=error, first_offset=-1, last_offset=-1, is_duplicate=False),
    )  # fmt: skip


def is_ongoing(producer_id: Expression, epoch: Expression) -> Expression:
    """UnifiedLog.hasOngoingTransaction"""
    entry = producers[producer_id]
    same_epoch = ~ongoing_by_epoch | (entry.value.producer_epoch == epoch)
    return entry.is_set & entry.value.current_txn_first_offset.is_set & same_epoch


# Data -------------------------------------------------------------------------------------------


def _data_rows(
    batch: Event, last_sequence: Expression, first_offset: Expression, last_offset: Expression,
    clears: dict[Expression, Expression | int | None],
) -> tuple[Row, ...]:  # fmt: skip
    """A batch at these offsets: ProducerAppendInfo.appendDataBatch and all that follows from it."""
    producer_id, epoch = batch.producer_id, batch.producer_epoch
    entry = producers[producer_id].value
    new_epoch = epoch != entry.producer_epoch
    opened = entry.current_txn_first_offset.is_set
    opens = batch.transactional & ~opened
    started = TxnMetadata(producer_id=producer_id, first_offset=first_offset, last_offset=None)
    metadata = BatchMetadata(
        last_sequence=last_sequence, last_offset=last_offset,
        offset_delta=last_offset - first_offset, timestamp=batch.timestamp,
    )  # fmt: skip
    batches = if_(new_epoch, sequence_of(metadata), push(entry.batches, metadata))
    return (
        *validation_rows(
            epoch, batch.base_sequence, batch.transactional, entry,
            verification_states[producer_id], _refused, waited=False,
            epoch_counts=(batch.origin == Origin.CLIENT)
            | (followers_only_warn & (batch.origin == Origin.COORDINATOR)),
            sequence_counts=batch.origin == Origin.CLIENT,
        ),
        Row(
            "append",
            set={
                producers[producer_id]: some(
                    ProducerStateEntry(
                        producer_epoch=epoch,
                        batches=batches,
                        coordinator_epoch=entry.coordinator_epoch,
                        last_timestamp=batch.timestamp,
                        current_txn_first_offset=if_(
                            opens, some(first_offset), entry.current_txn_first_offset
                        ),
                    )
                ),
                ongoing_txns: if_(
                    opens,
                    insert_by(ongoing_txns, started, "first_offset"),
                    ongoing_txns,
                ),
                map_end_offset: last_offset + 1,
            }
            | clears,
            reply=AppendResponse(
                error=Errors.NONE, first_offset=first_offset, last_offset=last_offset,
                is_duplicate=False,
            ),
            source="ProducerAppendInfo.appendDataBatch, ProducerStateManager.update",
        ),
    )  # fmt: skip


append_batch = event(
    "append batch", producer_id=PRODUCER_ID, producer_epoch=EPOCH, base_sequence=ANY_SEQUENCE,
    last_sequence=ANY_SEQUENCE, first_offset=OFFSET, last_offset=OFFSET, transactional=Bool(),
    timestamp=TIMESTAMP, origin=Origin,
)  # fmt: skip
batch_appended = Table(
    leader,
    on=append_batch,
    response=AppendResponse,
    rows=_data_rows(
        append_batch,
        append_batch.last_sequence,
        append_batch.first_offset,
        append_batch.last_offset,
        {},
    ),
)

append_data = event(
    "append", producer_id=PRODUCER_ID, producer_epoch=EPOCH, base_sequence=ANY_SEQUENCE,
    offset_delta=Int(0, LARGEST_DELTA), transactional=Bool(), timestamp=TIMESTAMP, origin=Origin,
    guard=Optional(Int(0, LARGEST_OFFSET)),
    event_doc="A batch at the log's end, `offset_delta` records behind its first; `guard` is the "
    "one that it was verified under.",
)  # fmt: skip
_id = append_data.producer_id
_entry, _asked = producers[_id], verification_states[_id]
_delta = append_data.offset_delta
_last_sequence = if_(
    append_data.base_sequence < 0, -1, wrap(append_data.base_sequence + _delta, SEQUENCE)
)
_cached = element("cached", _entry.value.batches)
_known = first_of(
    _cached,
    (_cached.last_sequence == _last_sequence) & (_cached.offset_delta == _delta),
)
data_appended = Table(
    leader,
    on=append_data,
    response=AppendResponse,
    rows=(
        Row(
            "duplicate",
            when=(append_data.origin == Origin.CLIENT)
            & _entry.is_set
            & (_entry.value.producer_epoch == append_data.producer_epoch)
            & _known.is_set,
            reply=AppendResponse(
                error=Errors.NONE,
                first_offset=_known.value.last_offset - _known.value.offset_delta,
                last_offset=_known.value.last_offset,
                is_duplicate=True,
            ),
            source="ProducerStateEntry.findDuplicateBatch",
        ),
        *question_rows(
            append_data.transactional
            & (
                (append_data.origin == Origin.CLIENT)
                | (offsets_verified & (append_data.origin == Origin.COORDINATOR))
            )
            & ~is_ongoing(_id, append_data.producer_epoch),
            append_data.producer_epoch < _entry.value.producer_epoch,
            ~verification_enabled | (_asked.is_set & (append_data.guard == _asked.value.guard)),
            _refused,
        ),
        *_data_rows(
            append_data,
            _last_sequence,
            log_end_offset,
            log_end_offset + _delta,
            {
                log_end_offset: log_end_offset + _delta + 1,
                _asked: if_(append_data.transactional, None, _asked),
            },
        ),
    ),
)

append_plain = event(
    "append plain", last_offset=OFFSET, event_doc="A batch without producer id, up to this offset."
)
plain_appended = Table(
    leader,
    on=append_plain,
    rows=(
        Row(
            "append",
            set={
                log_end_offset: append_plain.last_offset + 1,
                map_end_offset: append_plain.last_offset + 1,
            },
        ),
    ),
)

# Markers ----------------------------------------------------------------------------------------

append_marker = event(
    "append marker", producer_id=PRODUCER_ID, producer_epoch=EPOCH,
    coordinator_epoch=COORDINATOR_EPOCH, result=Result, offset=OFFSET, timestamp=TIMESTAMP,
    origin=Origin,
)  # fmt: skip
_id = append_marker.producer_id
_entry = producers[_id].value
_began = _entry.current_txn_first_offset


def _marker_refused(
    name: str, when: Expression, error: Expression, source: str, during: Expression
) -> Row:
    reply = MarkerResponse(error=error, completed_txn=None)
    return Row(name, when=when, reply=reply, source=source, during=during)


_batches = if_(append_marker.producer_epoch == _entry.producer_epoch, _entry.batches, sequence_of())
_written = {
    producers[_id]: some(
        replace(
            _entry,
            producer_epoch=append_marker.producer_epoch,
            batches=_batches,
            coordinator_epoch=append_marker.coordinator_epoch,
            last_timestamp=if_(
                marker_is_use,
                append_marker.timestamp,
                if_(size(_batches) > 0, _entry.last_timestamp, NO_TIMESTAMP),
            ),
            current_txn_first_offset=None,
        )
    ),
    map_end_offset: append_marker.offset + 1,
}
_APPEND = "ProducerAppendInfo.appendEndTxnMarker"


def _ended_by_marker(first_offset: Expression) -> Sending:
    """The answer to a marker that ends the transaction which began there."""
    txn = CompletedTxn(
        producer_id=append_marker.producer_id, first_offset=first_offset,
        last_offset=append_marker.offset, is_aborted=append_marker.result == Result.ABORT,
    )  # fmt: skip
    return MarkerResponse(error=Errors.NONE, completed_txn=some(txn))


marker_appended = Table(
    leader,
    on=append_marker,
    response=MarkerResponse,
    rows=(
        *refusals(
            append_marker.producer_epoch, append_marker.coordinator_epoch, _entry, _marker_refused,
            (append_marker.origin != Origin.REPLICATION) | ~followers_only_warn,
        ),
        Row(
            "end the transaction",
            when=_began.is_set,
            set=_written,
            reply=_ended_by_marker(_began.value),
            source=_APPEND,
        ),
        Row(
            "end one that begins here",
            during=~empty_marker_ends_nothing,
            set=_written
            | {
                ongoing_txns: insert_by(
                    ongoing_txns,
                    TxnMetadata(
                        producer_id=_id, first_offset=append_marker.offset, last_offset=None
                    ),
                    "first_offset",
                )
            },
            reply=_ended_by_marker(append_marker.offset),
            source=f"{_APPEND} before 2.8",
        ),
        Row(
            "no transaction to end",
            set=_written,
            reply=MarkerResponse(error=Errors.NONE, completed_txn=None),
            source=_APPEND,
        ),
    ),
)  # fmt: skip

append_empty_marker = event(
    "append empty control batch", producer_id=PRODUCER_ID, offset=OFFSET,
    event_doc="A marker that was cleaned away.",
)  # fmt: skip
_entry = producers[append_empty_marker.producer_id]
empty_marker_appended = Table(
    leader,
    on=append_empty_marker,
    response=AppendResponse,
    rows=(
        Row(
            "nothing ends",
            set={
                _entry: some(_entry.value),
                map_end_offset: append_empty_marker.offset + 1,
            },
            reply=AppendResponse(
                error=Errors.NONE, first_offset=append_empty_marker.offset,
                last_offset=append_empty_marker.offset, is_duplicate=False,
            ),
            source="ProducerAppendInfo.append",
        ),
    ),
)  # fmt: skip

complete = event(
    "complete transaction", producer_id=PRODUCER_ID, first_offset=OFFSET, last_offset=OFFSET,
    is_aborted=Bool(), event_doc="A transaction's marker is in the log.",
)  # fmt: skip


def last_stable_offset_if_completed(producer_id: Expression, last_offset: Expression) -> Expression:
    """The offset that is stable once this transaction is completed.

    ProducerStateManager.lastStableOffset
    """
    other = first_of(t, t.producer_id != producer_id)
    return if_(other.is_set, other.value.first_offset, last_offset + 1)


_ended = first_of(t, t.first_offset == complete.first_offset)
_in_index = last(aborted_txns)
completed = Table(
    leader,
    on=complete,
    response=LocalResponse,
    rows=(
        Row(
            "not started",
            when=~_ended.is_set,
            reply=LocalResponse(raises=some(Raised.ILLEGAL_ARGUMENT)),
            source="ProducerStateManager.completeTxn",
        ),
        Row(
            "complete it",
            set={
                ongoing_txns: keep(t, t.first_offset != complete.first_offset),
                unreplicated_txns: insert_by(
                    unreplicated_txns,
                    replace(_ended.value, last_offset=some(complete.last_offset)),
                    "first_offset",
                ),
                aborted_txns: if_(
                    complete.is_aborted,
                    append(
                        aborted_txns,
                        AbortedTxn(
                            producer_id=complete.producer_id,
                            first_offset=complete.first_offset,
                            last_offset=complete.last_offset,
                            last_stable_offset=last_stable_offset_if_completed(
                                complete.producer_id, complete.last_offset
                            ),
                        ),
                    ),
                    aborted_txns,
                ),
            },
            reply=LocalResponse(raises=None),
            source="ProducerStateManager.completeTxn, LogSegment.updateTxnIndex",
        ),
    ),
)

marker_written = event(
    "marker written", producer_id=PRODUCER_ID, producer_epoch=EPOCH, offset=OFFSET,
    event_doc="A marker is in the leader's log.",
)  # fmt: skip
_asked = verification_states[marker_written.producer_id]
marker_in_log = Table(
    leader,
    on=marker_written,
    rows=(
        Row(
            "questions about it are over",
            set={
                log_end_offset: marker_written.offset + 1,
                _asked: if_(outlives(_asked, marker_written.producer_epoch), _asked, None),
            },
            source="UnifiedLog.updateProducers",
        ),
    ),
)

ask_stable = event("stable if completed", producer_id=PRODUCER_ID, last_offset=OFFSET)
stable_asked = Table(
    leader,
    on=ask_stable,
    response=StableResponse,
    rows=(
        Row(
            "answer",
            reply=StableResponse(
                last_stable_offset=last_stable_offset_if_completed(
                    ask_stable.producer_id, ask_stable.last_offset
                )
            ),
            source="ProducerStateManager.lastStableOffset",
        ),
    ),
)

# The transaction index --------------------------------------------------------------------------

IndexResponse = message(
    "IndexResponse", asker, aborted=Sequence(AbortedTxn, LARGEST_OFFSET), is_complete=Bool(),
    message_doc="`is_complete`: no later entry can matter.",
)  # fmt: skip
append_index = event(
    "append to index", producer_id=PRODUCER_ID, first_offset=OFFSET, last_offset=OFFSET,
    last_stable_offset=OFFSET,
)  # fmt: skip
_INDEX = "TransactionIndex"
index_appended = Table(
    leader,
    on=append_index,
    response=LocalResponse,
    rows=(
        Row(
            "not behind the last",
            when=_in_index.is_set & (_in_index.value.last_offset >= append_index.last_offset),
            reply=LocalResponse(raises=some(Raised.ILLEGAL_ARGUMENT)),
            source=f"{_INDEX}.append",
        ),
        Row(
            "append",
            set={
                aborted_txns: append(
                    aborted_txns,
                    AbortedTxn(
                        producer_id=append_index.producer_id,
                        first_offset=append_index.first_offset,
                        last_offset=append_index.last_offset,
                        last_stable_offset=append_index.last_stable_offset,
                    ),
                )
            },
            reply=LocalResponse(raises=None),
            source=f"{_INDEX}.append",
        ),
    ),
)

collect_aborted = event("collect aborted", from_offset=OFFSET, to_offset=OFFSET)
_settles = element("settles", aborted_txns)
_is_last = _settles.last_stable_offset >= collect_aborted.to_offset
aborted_collected = Table(
    leader,
    on=collect_aborted,
    response=IndexResponse,
    rows=(
        Row(
            "collect",
            reply=IndexResponse(
                aborted=keep(
                    a,
                    (a.last_offset >= collect_aborted.from_offset)
                    & (a.first_offset < collect_aborted.to_offset)
                    & ~any_of(_settles, (position(_settles) < position(a)) & _is_last),
                ),
                is_complete=any_of(_settles, _is_last),
            ),
            source=f"{_INDEX}.collectAbortedTxns",
        ),
    ),
)

truncate_index = event("truncate index", offset=OFFSET)
index_truncated = Table(
    leader,
    on=truncate_index,
    rows=(
        Row(
            "drop what ends there or later",
            set={aborted_txns: keep(a, a.last_offset < truncate_index.offset)},
            source=f"{_INDEX}.truncateTo",
        ),
    ),
)

# Verification -----------------------------------------------------------------------------------

_CREATE = "ProducerStateManager.maybeCreateVerificationStateEntry"


def _verification_rows(on: Event) -> tuple[Row, ...]:
    asked, epoch, sequence = (
        verification_states[on.producer_id],
        on.producer_epoch,
        on.base_sequence,
    )
    entry = asked.value
    lowest = if_(
        entry.producer_epoch < epoch,
        sequence,
        if_(
            entry.producer_epoch == epoch,
            minimum(entry.lowest_sequence, sequence),
            entry.lowest_sequence,
        ),
    )
    first_question = VerificationStateEntry(
        guard=guards, lowest_sequence=sequence, producer_epoch=epoch, timestamp=now
    )
    newer = replace(
        entry, lowest_sequence=lowest, producer_epoch=maximum(entry.producer_epoch, epoch)
    )
    return (
        Row(
            "first question",
            when=~asked.is_set,
            set={asked: some(first_question), guards: guards + 1},
            reply=GuardResponse(error=Errors.NONE, guard=some(guards)),
            source=_CREATE,
        ),
        Row(
            "another question",
            set={asked: some(newer)},
            reply=GuardResponse(error=Errors.NONE, guard=some(entry.guard)),
            source=_CREATE,
        ),
    )


create_verification = event(
    "create verification", producer_id=PRODUCER_ID, producer_epoch=EPOCH, base_sequence=ANY_SEQUENCE
)
verification_created = Table(
    leader,
    on=create_verification,
    response=GuardResponse,
    elsewhere=(clock,),
    rows=_verification_rows(create_verification),
)

start_verification = event(
    "start verification", producer_id=PRODUCER_ID, producer_epoch=EPOCH, base_sequence=ANY_SEQUENCE
)
verification_started = Table(
    leader,
    on=start_verification,
    response=GuardResponse,
    elsewhere=(clock,),
    rows=(
        Row(
            "stale epoch",
            when=start_verification.producer_epoch
            < producers[start_verification.producer_id].value.producer_epoch,
            during=stale_epoch_first,
            reply=GuardResponse(error=Errors.INVALID_PRODUCER_EPOCH, guard=None),
            source="KAFKA-18042, UnifiedLog.maybeStartTransactionVerification",
        ),
        Row(
            "a transaction is under way",
            when=is_ongoing(start_verification.producer_id, start_verification.producer_epoch),
            reply=GuardResponse(error=Errors.NONE, guard=None),
            source="UnifiedLog.maybeStartTransactionVerification",
        ),
        *_verification_rows(start_verification),
    ),
)

ask_ongoing = event("has ongoing transaction", producer_id=PRODUCER_ID, producer_epoch=EPOCH)
ongoing_asked = Table(
    leader,
    on=ask_ongoing,
    response=OngoingResponse,
    rows=(
        Row(
            "answer",
            reply=OngoingResponse(
                is_ongoing=is_ongoing(ask_ongoing.producer_id, ask_ongoing.producer_epoch)
            ),
            source="UnifiedLog.hasOngoingTransaction",
        ),
    ),
)

coordinator_answers = event(
    "coordinator answers", error=Errors, origin=Origin,
    event_doc="About a batch of a client, or of a group's coordinator.",
)  # fmt: skip
VerdictResponse = message(
    "VerdictResponse", asker, error=Errors, message_doc="The answer to the batch; NONE: append it."
)


def _verdict(
    name: str, when: Expression, error: Expression, source: str, during: Expression
) -> Row:
    reply = VerdictResponse(error=error)
    return Row(name, when=when, reply=reply, source=source, during=during)


verdict_given = Table(
    leader,
    on=coordinator_answers,
    response=VerdictResponse,
    rows=(
        *verdict_rows(
            coordinator_answers.error, _verdict, coordinator_answers.origin == Origin.CLIENT
        ),
        Row("verified", reply=VerdictResponse(error=Errors.NONE)),
    ),
)
asks = asks_coordinator
"""Whether a leader asks the coordinator about a transaction's first batch."""
asks_about_offsets = asks & offsets_verified
"""Whether it asks about what a group's coordinator appends for one."""

clear_verification = event("clear verification", producer_id=PRODUCER_ID)
verification_cleared = Table(
    leader,
    on=clear_verification,
    rows=(Row("clear", set={verification_states[clear_verification.producer_id]: None}),),
)

# What is forgotten ------------------------------------------------------------------------------

_MANAGER = "ProducerStateManager"
remove_expired = event("remove expired producers")
_entry, _asked = producers[n], verification_states[n]
_expired = (
    _entry.is_set
    & ~_entry.value.current_txn_first_offset.is_set
    & (now - _entry.value.last_timestamp >= PRODUCER_ID_EXPIRATION)
)
expired_removed = Table(
    leader,
    on=remove_expired,
    elsewhere=(clock,),
    rows=(
        Row(
            "forget the idle",
            set={
                producers: each(n, if_(_expired, None, _entry)),
                verification_states: each(
                    n,
                    if_(
                        _asked.is_set & (now - _asked.value.timestamp >= PRODUCER_ID_EXPIRATION),
                        None,
                        _asked,
                    ),
                ),
            },
            source=f"{_MANAGER}.removeExpiredProducers",
        ),
    ),
)

high_watermark_moves = event("high watermark", offset=OFFSET)
_below = high_watermark_moves.offset
high_watermark_moved = Table(
    leader,
    on=high_watermark_moves,
    rows=(
        Row(
            "markers below it are replicated",
            set={
                high_watermark: _below,
                unreplicated_txns: keep(u, u.last_offset.value >= _below),
            },
            source=f"{_MANAGER}.onHighWatermarkUpdated",
        ),
    ),
)

start_moves = event("log start", offset=OFFSET, event_doc="Records below it are deleted.")


def _started_at(start: Expression, left: Expression) -> dict[Expression, Expression]:
    """What else changes when the log starts there, with the snapshots that are left."""
    newest = last(left)
    return {
        snapshots: left,
        last_snap_offset: if_(newest.is_set, newest.value.offset, start),
        unreplicated_txns: keep(u, u.last_offset.value >= start),
        map_end_offset: maximum(map_end_offset, start),
    }


def _gone_with_records(start: Expression) -> dict[Expression, Expression]:
    """Producers whose records are all deleted are forgotten, and so are their transactions."""
    return {
        producers: each(n, if_(_entry.is_set & remains(_entry.value, start), _entry, None)),
        ongoing_txns: keep(t, remains(producers[t.producer_id].value, start)),
    }


_moved = _started_at(start_moves.offset, snapshots) | {log_start_offset: start_moves.offset}
start_moved = Table(
    leader,
    on=start_moves,
    rows=(
        Row("it has moved already", when=start_moves.offset <= log_start_offset),
        Row(
            "producers go with their records",
            during=~state_outlives_records,
            set=_moved | _gone_with_records(start_moves.offset),
            source=f"{_MANAGER}.truncateHead before 2.4",
        ),
        Row("producers stay", set=_moved, source=f"{_MANAGER}.onLogStartOffsetIncremented"),
    ),
)

# Snapshots, truncation, and what is read again -------------------------------------------------

snap = element("snap", snapshots)
_newest_batch = element("newest", _entry.value.batches)
_is_newest = position(_newest_batch) == size(_entry.value.batches) - 1
take_snapshot = event("take snapshot")
snapshot_taken = Table(
    leader,
    on=take_snapshot,
    rows=(
        Row(
            "of each producer its newest batch",
            when=map_end_offset > last_snap_offset,
            set={
                snapshots: insert_by(
                    keep(snap, snap.offset != map_end_offset),
                    ProducerSnapshot(
                        offset=map_end_offset,
                        producers=each(
                            n,
                            if_(
                                _entry.is_set,
                                some(
                                    replace(_entry.value, batches=keep(_newest_batch, _is_newest))
                                ),
                                None,
                            ),
                        ),
                        ongoing_txns=ongoing_txns,
                    ),
                    "offset",
                ),
                last_snap_offset: map_end_offset,
            },
            source=f"{_MANAGER}.takeSnapshot",
        ),
        Row("there is one already"),
    ),
)

delete_snapshots = event(
    "delete snapshots", from_offset=OFFSET, to_offset=OFFSET, event_doc="Both ends included."
)
snapshots_deleted = Table(
    leader,
    on=delete_snapshots,
    rows=(
        Row(
            "delete",
            set={
                snapshots: keep(
                    snap,
                    (snap.offset < delete_snapshots.from_offset)
                    | (snap.offset > delete_snapshots.to_offset),
                )
            },
            source=f"{_MANAGER}.deleteSnapshotsBefore",
        ),
    ),
)

damage_snapshot = event("damage snapshot", offset=OFFSET)
snapshot_damaged = Table(
    leader,
    on=damage_snapshot,
    rows=(
        Row(
            "it can't be read",
            set={
                snapshots: insert_by(
                    keep(snap, snap.offset != damage_snapshot.offset),
                    ProducerSnapshot(offset=damage_snapshot.offset, is_corrupt=True),
                    "offset",
                )
            },
        ),
    ),
)

reload = event(
    "truncate and reload", log_start=OFFSET, log_end=OFFSET, is_fresh=Bool(),
    event_doc="What lies outside is gone. The log from `map_end_offset` on is then to be appended "
    "again, as REPLICATION. `is_fresh`: by a new instance, which knows only the snapshots.",
)  # fmt: skip
_stays = (snap.offset > reload.log_start) & (snap.offset <= reload.log_end)
_is_current = (reload.log_end == map_end_offset) & ~reload.is_fresh
_current = _started_at(reload.log_start, keep(snap, _stays))
_readable = last(keep(snap, _stays & ~snap.is_corrupt))
_found = _readable.value
_open = element("open", _found.ongoing_txns)
_loaded = _found.producers[n]
_loaded_expired = ~_loaded.value.current_txn_first_offset.is_set & (
    now - _loaded.value.last_timestamp >= PRODUCER_ID_EXPIRATION
)
_is_retained = state_outlives_records | remains(_loaded.value, reload.log_start)
reloaded = Table(
    leader,
    on=reload,
    elsewhere=(clock,),
    rows=(
        Row(
            "the state ends there, less what has no records",
            when=_is_current,
            during=~state_outlives_records,
            set=_current | _gone_with_records(reload.log_start),
            source=f"{_MANAGER}.truncateAndReload before 2.4",
        ),
        Row(
            "the state ends there",
            when=_is_current,
            set=_current,
            source=f"{_MANAGER}.truncateAndReload",
        ),
        Row(
            "load the newest snapshot",
            when=_readable.is_set,
            set={
                snapshots: keep(snap, _stays & (snap.offset <= _found.offset)),
                last_snap_offset: _found.offset,
                map_end_offset: _found.offset,
                producers: each(
                    n, if_(_loaded.is_set & ~_loaded_expired & _is_retained, _loaded, None)
                ),
                ongoing_txns: keep(
                    _open,
                    state_outlives_records
                    | remains(_found.producers[_open.producer_id].value, reload.log_start),
                ),
                unreplicated_txns: sequence_of(),
            },
            source=f"{_MANAGER}.loadFromSnapshot",
        ),
        Row(
            "forget everything",
            set={
                snapshots: sequence_of(),
                last_snap_offset: reload.log_start,
                map_end_offset: reload.log_start,
                producers: each(n, None),
                ongoing_txns: sequence_of(),
                unreplicated_txns: sequence_of(),
            },
            source=f"{_MANAGER}.truncateAndReload",
        ),
    ),
)

truncate_fully = event("truncate fully", offset=OFFSET)
truncated_fully = Table(
    leader,
    on=truncate_fully,
    rows=(
        Row(
            "forget everything",
            set={
                snapshots: sequence_of(),
                last_snap_offset: 0,
                map_end_offset: truncate_fully.offset,
                producers: each(n, None),
                ongoing_txns: sequence_of(),
                unreplicated_txns: sequence_of(),
            },
            source=f"{_MANAGER}.truncateFullyAndStartAt",
        ),
    ),
)

TABLES = (
    data_appended,
    batch_appended,
    plain_appended,
    marker_appended,
    empty_marker_appended,
    completed,
    stable_asked,
    marker_in_log,
    index_appended,
    aborted_collected,
    index_truncated,
    verification_created,
    verification_started,
    ongoing_asked,
    verdict_given,
    verification_cleared,
    expired_removed,
    high_watermark_moved,
    start_moved,
    snapshot_taken,
    snapshots_deleted,
    snapshot_damaged,
    reloaded,
    truncated_fully,
)
