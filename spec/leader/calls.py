"""What a broker's own code asks of a leader: appends of any origin, and guards.

Its rows are those of requests in a bounded run (`produce`, `markers`), with what only real ranges
have: batches of many records, their origin, and a guard for each question.

`append` is UnifiedLog's, for a batch at the log's end. `append batch` and `append marker` are
ProducerStateManager's, beneath the search for duplicates and at any offset.
"""

from __future__ import annotations

from dataclasses import replace

from ...language import (
    Bool,
    Event,
    Expression,
    Int,
    Machine,
    Optional,
    Row,
    Sending,
    Table,
    constant,
    enum,
    event,
    if_,
    message,
    some,
    wrap,
)
from ..features import followers_only_warn, offsets_verified, stale_epoch_first
from ..messages import (
    EPOCH,
    FAULTS,
    NO_NUMBER,
    NO_OFFSET,
    PRODUCER_ID,
    SEQUENCE,
    TIMESTAMP,
    Errors,
    Result,
    clock,
    partition,
)
from .markers import Marker, marker_rows, one_that_begins_here
from .produce import DataBatch, Offsets, append_rows, verdict_rows
from .recovery import producer_expires, question_expires, records_deleted
from .state import (
    ANY_SEQUENCE,
    GUARD,
    OFFSET_DELTA,
    asked,
    asks_coordinator,
    guards,
    is_ongoing,
    log_end_offset,
    producer_state,
    verification_enabled,
    verifying,
)

LARGEST_OFFSET = constant("largest_offset", 0, 0, 0, real=2**63 - 1, meaning="the largest offset")
REAL_OFFSET = Int(0, LARGEST_OFFSET, "offset")
ANY_OFFSET = Int(NO_OFFSET, LARGEST_OFFSET)
Origin = enum("AppendOrigin", REPLICATION=0, COORDINATOR=1, CLIENT=2)

asker = Machine("asker", doc="Whoever appends: a client, a coordinator, a follower's fetcher.")
AppendResponse = message(
    "AppendResponse", asker, error=Errors, first_offset=ANY_OFFSET, last_offset=ANY_OFFSET,
    is_duplicate=Bool(),
    message_doc="`is_duplicate`: answered from memory, nothing was appended.",
)  # fmt: skip
MarkerResponse = message(
    "MarkerResponse", asker, error=Errors, first_offset=Optional(REAL_OFFSET),
    message_doc="Where the transaction starts that the marker ends, if it ends one.",
)  # fmt: skip
GuardResponse = message(
    "GuardResponse", asker, error=Errors, guard=Optional(GUARD),
    message_doc="Without error and guard there is nothing to verify: a transaction is under way.",
)  # fmt: skip
VerdictResponse = message(
    "VerdictResponse", asker, error=Errors, message_doc="The answer to the batch; NONE: append it."
)

# Data -------------------------------------------------------------------------------------------


def _appended(error: Expression, where: Offsets | None) -> Sending:
    first, last, is_duplicate = where or (NO_OFFSET, NO_OFFSET, False)
    return AppendResponse(
        error=error, first_offset=first, last_offset=last, is_duplicate=is_duplicate
    )


def _data(batch: Event, last_sequence: Expression, first_offset: Expression) -> DataBatch:
    return DataBatch(
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.transactional,
        last_sequence=last_sequence,
        offset_delta=batch.offset_delta,
        first_offset=first_offset,
        timestamp=batch.timestamp,
        from_client=batch.origin == Origin.CLIENT,
        epoch_counts=(batch.origin == Origin.CLIENT)
        | (followers_only_warn & (batch.origin == Origin.COORDINATOR)),
    )


append_batch = event(
    "append batch", producer_id=PRODUCER_ID, producer_epoch=EPOCH, base_sequence=ANY_SEQUENCE,
    last_sequence=ANY_SEQUENCE, first_offset=REAL_OFFSET, offset_delta=OFFSET_DELTA,
    transactional=Bool(), timestamp=TIMESTAMP, origin=Origin,
)  # fmt: skip
batch_appended = Table(
    partition,
    on=append_batch,
    response=AppendResponse,
    rows=append_rows(
        _data(append_batch, append_batch.last_sequence, append_batch.first_offset), _appended
    )[1:],
    doc="Beneath the search for duplicates.",
)

append_data = event(
    "append", producer_id=PRODUCER_ID, producer_epoch=EPOCH, base_sequence=ANY_SEQUENCE,
    offset_delta=OFFSET_DELTA, transactional=Bool(), timestamp=TIMESTAMP, origin=Origin,
    guard=Optional(GUARD),
    event_doc="A batch at the log's end, `offset_delta` records behind its first; `guard` is the "
    "one that it was verified under.",
)  # fmt: skip
_asked = verifying[append_data.producer_id]
_last_sequence = if_(
    append_data.base_sequence < 0,
    -1,
    wrap(append_data.base_sequence + append_data.offset_delta, SEQUENCE),
)
_is_verified = append_data.transactional & (
    (append_data.origin == Origin.CLIENT)
    | (offsets_verified & (append_data.origin == Origin.COORDINATOR))
)
data_appended = Table(
    partition,
    on=append_data,
    response=AppendResponse,
    rows=append_rows(
        replace(
            _data(append_data, _last_sequence, log_end_offset),
            question=(
                _is_verified & ~is_ongoing(append_data.producer_id, append_data.producer_epoch),
                ~verification_enabled | (_asked.is_set & (append_data.guard == _asked.value.guard)),
            ),
        ),
        _appended,
    ),
)

# Markers ----------------------------------------------------------------------------------------

append_marker = event(
    "append marker", producer_id=PRODUCER_ID, producer_epoch=EPOCH,
    coordinator_epoch=Int(NO_NUMBER, FAULTS, "coordinator epoch"), result=Result,
    offset=REAL_OFFSET, timestamp=TIMESTAMP, origin=Origin,
)  # fmt: skip
_marker = Marker(
    append_marker.producer_id,
    append_marker.producer_epoch,
    append_marker.coordinator_epoch,
    append_marker.result,
    append_marker.timestamp,
    append_marker.offset,
    counts=(append_marker.origin != Origin.REPLICATION) | ~followers_only_warn,
)


def _marked(error: Expression, first_offset: Expression | None) -> Sending:
    first = None if first_offset is None else some(first_offset)
    return MarkerResponse(error=error, first_offset=first)


marker_appended = Table(
    partition,
    on=append_marker,
    response=MarkerResponse,
    rows=marker_rows(
        _marker,
        _marked,
        (one_that_begins_here(_marker, _marked(Errors.NONE, append_marker.offset)),),
    ),
)

# Verification -----------------------------------------------------------------------------------

start_verification = event(
    "start verification", producer_id=PRODUCER_ID, producer_epoch=EPOCH, base_sequence=ANY_SEQUENCE
)
_id, _epoch = start_verification.producer_id, start_verification.producer_epoch
_state = verifying[_id]
_START = "UnifiedLog.maybeStartTransactionVerification"
verification_started = Table(
    partition,
    on=start_verification,
    response=GuardResponse,
    elsewhere=(clock,),
    rows=(
        Row(
            "stale epoch",
            when=_epoch < producer_state[_id].producer_epoch,
            during=stale_epoch_first,
            reply=GuardResponse(error=Errors.INVALID_PRODUCER_EPOCH, guard=None),
            source=f"KAFKA-18042, {_START}",
        ),
        Row(
            "a transaction is under way",
            when=is_ongoing(_id, _epoch),
            reply=GuardResponse(error=Errors.NONE, guard=None),
            source=_START,
        ),
        Row(
            "ask the coordinator",
            set=asked(_id, _epoch, start_verification.base_sequence),
            reply=GuardResponse(
                error=Errors.NONE, guard=some(if_(_state.is_set, _state.value.guard, guards))
            ),
            source="ProducerStateManager.maybeCreateVerificationStateEntry",
        ),
    ),
)

coordinator_answers = event(
    "coordinator answers", error=Errors, origin=Origin,
    event_doc="About a batch of a client, or of a group's coordinator.",
)  # fmt: skip


def _verdict(
    name: str, when: Expression, error: Expression, source: str, during: Expression
) -> Row:
    reply = VerdictResponse(error=error)
    return Row(name, when=when, reply=reply, source=source, during=during)


verdict_given = Table(
    partition,
    on=coordinator_answers,
    response=VerdictResponse,
    rows=(
        *verdict_rows(
            coordinator_answers.error, _verdict, coordinator_answers.origin == Origin.CLIENT
        ),
        Row("verified", reply=VerdictResponse(error=Errors.NONE)),
    ),
)
asks_about_offsets = asks_coordinator & offsets_verified
"""Whether a leader asks the coordinator about what a group's coordinator appends for one."""

TABLES = (
    data_appended,
    batch_appended,
    marker_appended,
    verification_started,
    verdict_given,
    producer_expires,
    question_expires,
    records_deleted,
)
