"""A client's sending side at real ranges: batches of many records, when they are drained and with
which sequence, what an answer or a timeout does to them, and how they are split.

`sender` and `epoch_bump` have what of it a bounded run explores. A batch is known by a number; its
records are the caller's to keep.
"""

from __future__ import annotations

from ...language import (
    Bool,
    Expression,
    Int,
    Key,
    Map,
    Optional,
    Row,
    Sending,
    Set,
    Table,
    all_of,
    any_of,
    any_true,
    constant,
    count_of,
    each,
    enum,
    event,
    if_,
    lift,
    maximum,
    message,
    minimum,
    record,
    replace,
    set_of,
    some,
    wrap,
)
from ...language.expressions import Operand
from ..errors import Errors, is_retriable
from ..features import (
    backoff_grows,
    client_epoch_bump,
    epoch_by_partition,
    expires_in_flight,
    late_errors_ignored,
    transactional,
)
from ..messages import (
    EPOCH,
    IN_FLIGHT,
    LARGEST_EPOCH,
    LARGEST_SEQUENCE,
    NO_EPOCH,
    PARTITION,
    PRODUCER_ID,
    SEQUENCE,
    TIMESTAMP,
    clock,
    now,
    producer,
)
from .state import (
    ABORTABLE_ERROR,
    FATAL_ERROR,
    NO_SEQUENCE,
    READY,
    UNINITIALIZED,
    added,
    all_appended,
    bump_for,
    is_behind_another,
    loses_order,
    marked,
    must_bump,
    producer_epoch,
    producer_id,
    state,
    unresolved,
)
from .transaction_manager import (
    API_VERSION,
    BACKOFF,
    NEEDS_BUMP,
    NOT_ALLOWED,
    NOT_ALLOWED_ERROR,
    RETRY_BACKOFF,
    TO_ABORTABLE,
    ClientStep,
    Reaction,
    abortable,
    caller,
    can_bump,
    completing,
    has_id,
    is_closed,
    last_error,
    pending_call,
    react,
)

DELIVERY_TIMEOUT = constant(
    "delivery_timeout_ms", 0, 0, 0, real=120_000, meaning="delivery.timeout.ms"
)
REQUEST_TIMEOUT = constant("request_timeout_ms", 0, 0, 0, real=30_000, meaning="request.timeout.ms")
LINGER = constant("linger_ms", 0, 0, 0, real=0, meaning="linger.ms")
RETRIES = constant("retries", 0, 0, 0, real=2**31 - 1, meaning="retries")
LARGEST_BACKOFF = constant(
    "retry_backoff_max_ms", 0, 0, 0, real=1000, meaning="retry.backoff.max.ms"
)
BATCH_SIZE = constant("batch_size", 0, 0, 0, real=16_384, meaning="batch.size")
LARGEST_COUNT = constant(
    "largest_count", 0, 0, 0, real=2**31 - 1, meaning="records or bytes of a batch"
)
BATCHES = constant("client_batches", 1, 1, 1, meaning="batches that a client holds")
TOPICS = constant("topics", 1, 1, 1, meaning="topics written to")
LARGEST_OFFSET = constant("largest_offset", 0, 0, 0, real=2**63 - 1, meaning="the largest offset")

BATCH = Key("client_batch", BATCHES)
TOPIC = Key("topic", TOPICS)
COUNT = Int(0, LARGEST_COUNT, "count")
ANY_SEQUENCE = Int(NO_SEQUENCE, LARGEST_SEQUENCE, "sequence")
ANY_OFFSET = Int(-1, LARGEST_OFFSET, "offset")
HEADER = 61  # bytes of a batch without its records
WITH_PRODUCER_ID = 3  # the first version of Produce whose batches have a producer id

# A compression ratio, in millionths. Source: CompressionRatioEstimator.
ONE = 1_000_000
RATIO = Int(1, 1_000 * ONE, "compression ratio")
IMPROVING, DETERIORATING = 5_000, 50_000
SAFETY = 1.05  # how much more room a compressed record is given

Stage = enum(
    "BatchStage",
    "GONE",  # its records' fate is known
    "UNSENT",
    "SENT",
    "QUEUED",  # again
)
GONE, UNSENT, SENT, QUEUED = Stage.GONE, Stage.UNSENT, Stage.SENT, Stage.QUEUED
ClientBatch = record(
    "ClientBatch", stage=Stage, partition=PARTITION, count=COUNT, place=COUNT,
    producer_id=PRODUCER_ID, producer_epoch=EPOCH, base_sequence=ANY_SEQUENCE,
    is_tracked=Bool(), sequence_reset=Bool(), in_retry=Bool(), attempts=COUNT,
    created_ms=TIMESTAMP, last_attempt_ms=TIMESTAMP, backoff_ms=BACKOFF,
    is_open=Bool(), written=COUNT, limit=COUNT,
)  # fmt: skip
PartitionEntry = record(
    "TxnPartitionEntry", producer_id=PRODUCER_ID, producer_epoch=EPOCH, next_sequence=SEQUENCE,
    last_acked=ANY_SEQUENCE, last_acked_offset=ANY_OFFSET,
)  # fmt: skip

batches = producer.field(
    "client_batches", Map(BATCH, ClientBatch), only_real=True,
    doc="`place`: which came before which in the queue.",
)  # fmt: skip
entries = producer.field("entries", Map(PARTITION, PartitionEntry), only_real=True)
muted = producer.field(
    "muted", Set(PARTITION), only_real=True,
    doc="With a batch under way, where order is kept.",
)  # fmt: skip
keeps_order = producer.field(
    "keeps_order", Bool(), only_real=True,
    doc="One batch at a time to a partition: max.in.flight is 1.",
)  # fmt: skip
opened = producer.field("opened", COUNT, only_real=True, doc="How many batches there have been.")
produce_version = producer.field(
    "produce_version", API_VERSION, only_real=True, doc="The highest of Produce."
)
ratios = producer.field(
    "ratios", Map(TOPIC, Optional(RATIO)), only_real=True, doc="What is expected of batches."
)

q, c = PARTITION.variable("q"), BATCH.variable("c")
_other = batches[c]

# An idempotent client that lost the order of its sequences
_BUMPS_EPOCH, _RESETS_ID = ~transactional & client_epoch_bump, ~transactional & ~client_epoch_bump

_MANAGER, _ACCUMULATOR, _SENDER = "TransactionManager", "RecordAccumulator", "Sender"


def has_tracked(where: Expression) -> Expression:
    """TransactionManager.hasInflightBatches"""
    return any_of(c, _other.is_tracked & (_other.partition == where))


def _is_clients(counted: Expression) -> Expression:
    """Whether what a batch or a partition's entry counts under is the client's id and epoch."""
    same_id = ~has_id | (counted.producer_id == producer_id)
    return same_id & (counted.producer_epoch == producer_epoch)


def is_stale(where: Expression) -> Expression:
    """Before 2.7.1 a partition is known by its batches in flight.

    TransactionManager.hasStaleProducerIdAndEpoch, producerIdOrEpochNotMatch
    """
    return if_(
        epoch_by_partition,
        ~_is_clients(entries[where]),
        any_of(c, _other.is_tracked & (_other.partition == where) & ~_is_clients(_other)),
    )


def is_allowed(where: Expression) -> Expression:
    """TransactionManager.isSendToPartitionAllowed"""
    return (state != FATAL_ERROR) & (~transactional | where.is_in(added))


# Appending --------------------------------------------------------------------------------------

AppendResponse = message(
    "AppendToBatch", caller, only_real=True, raises=Optional(Errors), is_full=Bool(),
    message_doc="`is_full`: the record needs a batch of its own.",
)  # fmt: skip
_TAKEN = AppendResponse(raises=None, is_full=False)
append_record = event(
    "append record", batch=BATCH, size=COUNT, written=COUNT,
    event_doc="`written`: how many bytes the batch is expected to have with it, as compressed as "
    "its topic's batches are.",
)  # fmt: skip
_whole = batches[append_record.batch]


def is_full(batch: Expression) -> Expression:
    """MemoryRecordsBuilder.isFull"""
    return batch.written >= batch.limit


record_appended = Table(
    producer,
    on=append_record,
    response=AppendResponse,
    rows=(
        Row(
            "there is room",
            when=_whole.is_open
            & ~is_full(_whole)
            & (_whole.written + append_record.size <= _whole.limit),
            set={_whole: replace(_whole, count=_whole.count + 1, written=append_record.written)},
            reply=_TAKEN,
            source="MemoryRecordsBuilder.hasRoomFor",
        ),
        Row(
            "no more room",
            set={_whole: replace(_whole, is_open=False)},
            reply=AppendResponse(raises=None, is_full=True),
            source=f"{_ACCUMULATOR}.tryAppend",
        ),
    ),
)

open_batch = event(
    "open batch", batch=BATCH, partition=PARTITION, size=COUNT, written=COUNT,
    event_doc="For a record; `batch` is a number that no batch has.",
)  # fmt: skip
batch_opened = Table(
    producer,
    on=open_batch,
    response=AppendResponse,
    elsewhere=(clock,),
    rows=(
        Row(
            "brokers know no producer ids",
            when=produce_version < WITH_PRODUCER_ID,
            reply=AppendResponse(raises=some(Errors.UNSUPPORTED_VERSION), is_full=False),
            source=f"{_ACCUMULATOR}.recordsBuilder",
        ),
        Row(
            "closed",
            when=is_closed,
            reply=AppendResponse(raises=some(Errors.KAFKA_EXCEPTION), is_full=False),
            source=f"{_ACCUMULATOR}.tryAppend",
        ),
        Row(
            "open",
            set={
                batches[open_batch.batch]: ClientBatch(
                    stage=UNSENT,
                    partition=open_batch.partition,
                    count=1,
                    place=opened,
                    created_ms=now,
                    last_attempt_ms=now,
                    is_open=True,
                    written=open_batch.written,
                    limit=maximum(BATCH_SIZE, open_batch.size + HEADER),
                ),
                opened: opened + 1,
            },
            reply=_TAKEN,
            source=f"{_ACCUMULATOR}.appendNewBatch",
        ),
    ),
)

observe_ratio = event(
    "batch compressed", topic=TOPIC, ratio=RATIO, is_too_large=Bool(),
    event_doc="What compression came to; `is_too_large`: and the batch had to be split.",
)  # fmt: skip
_ratio = ratios[observe_ratio.topic]
_estimate = if_(_ratio.is_set, _ratio.value, lift(ONE))
_ESTIMATOR = "CompressionRatioEstimator"
ratio_observed = Table(
    producer,
    on=observe_ratio,
    rows=(
        Row(
            "it had to be split",
            when=observe_ratio.is_too_large,
            set={_ratio: some(maximum(lift(ONE), observe_ratio.ratio))},
            source=f"{_ACCUMULATOR}.splitAndReenqueue",
        ),
        Row(
            "worse than expected",
            when=observe_ratio.ratio > _estimate,
            set={_ratio: some(maximum(_estimate + DETERIORATING, observe_ratio.ratio))},
            source=f"{_ESTIMATOR}.updateEstimation",
        ),
        Row(
            "as expected, or better",
            set={_ratio: some(maximum(_estimate - IMPROVING, observe_ratio.ratio))},
            source=f"{_ESTIMATOR}.updateEstimation",
        ),
    ),
)

# Draining ---------------------------------------------------------------------------------------

drain = event("drain batch", batch=BATCH)
_batch = drain.batch
_whole = batches[_batch]
_where = _whole.partition
_here = _other.partition == _where
_queued = _other.stage == QUEUED
_waited = now - _whole.last_attempt_ms
_behind = (_other.stage == UNSENT) & _here & (_other.place > _whole.place)
_ready = any_true(
    _whole.stage == QUEUED,
    is_full(_whole),
    any_of(c, _behind),
    _waited >= LINGER,
    is_closed,
    completing,
)
_is_head = if_(
    _whole.stage == QUEUED,
    all_of(
        c,
        (_queued & _here).implies(_whole.base_sequence <= _other.base_sequence)
    ),
    (_whole.stage == UNSENT)
    & ~any_of(c, _here & (_queued | ((_other.stage == UNSENT) & (_other.place < _whole.place)))),
)  # fmt: skip
_is_lowest = ~any_of(c, _other.is_tracked & _here & (_other.base_sequence < _whole.base_sequence))
_entry = entries[_where]
_begins = _whole.stage == UNSENT
_stale = is_stale(_where)


def _numbered(sequence: Operand) -> Expression:
    return replace(
        _whole,
        stage=SENT,
        is_open=False,
        is_tracked=True,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
    )


_mute = {muted: if_(keeps_order, muted | set_of(_where), muted)}
drained = Table(
    producer,
    on=drain,
    elsewhere=(clock,),
    when=is_allowed(_where)
    & has_id
    & _is_head
    & _ready
    & ~_where.is_in(muted)
    & ((_whole.attempts == 0) | (_waited >= _whole.backoff_ms))
    & if_(
        _begins,
        ~(_stale & has_tracked(_where))
        & ~unresolved[_where].is_set
        & (count_of(c, (_other.stage == SENT) & _here) < IN_FLIGHT),
        _is_lowest,
    ),
    doc="A batch that is queued again goes first, the lowest sequence in flight and no other; a "
    "transaction has the partition before, and a partition goes over to a new epoch when it has "
    "nothing in flight.",
    rows=(
        Row(
            "with the same id, epoch and sequence",
            when=~_begins,
            set={_whole: replace(_whole, stage=SENT, sequence_reset=False)} | _mute,
            source=f"{_ACCUMULATOR}.shouldStopDrainBatchesForPartition, ProducerBatch.close",
        ),
        Row(
            "the first under this epoch",
            when=_stale,
            set={
                _whole: _numbered(0),
                _entry.producer_id: producer_id,
                _entry.producer_epoch: producer_epoch,
                _entry.next_sequence: wrap(_whole.count, SEQUENCE),
                _entry.last_acked: NO_SEQUENCE,
            }
            | _mute,
            source=f"{_MANAGER}.maybeUpdateProducerIdAndEpoch",
        ),
        Row(
            "the next in sequence",
            set={
                _whole: _numbered(_entry.next_sequence),
                _entry.next_sequence: wrap(_entry.next_sequence + _whole.count, SEQUENCE),
            }
            | _mute,
            source=f"{_ACCUMULATOR}.drainBatchesForOneNode",
        ),
    ),
)

look = event("look at partition", partition=PARTITION)
PartitionView = message(
    "PartitionView", caller, only_real=True, is_allowed=Bool(), is_stale=Bool(), has_tracked=Bool(),
    message_doc="`is_stale`: its id or epoch is no longer the client's.",
)  # fmt: skip
looked_at = Table(
    producer,
    on=look,
    response=PartitionView,
    rows=(
        Row(
            "answer",
            reply=PartitionView(
                is_allowed=is_allowed(look.partition),
                is_stale=is_stale(look.partition),
                has_tracked=has_tracked(look.partition),
            ),
        ),
    ),
)

# New sequences ----------------------------------------------------------------------------------

restart = event(
    "start at the beginning", partition=PARTITION,
    event_doc="Its batches in flight are renumbered next, in the order of their sequences.",
)  # fmt: skip
_entry = entries[restart.partition]
restarted = Table(
    producer,
    on=restart,
    rows=(
        Row(
            "from sequence 0",
            set={
                _entry.producer_id: producer_id,
                _entry.producer_epoch: producer_epoch,
                _entry.next_sequence: 0,
                _entry.last_acked: NO_SEQUENCE,
            },
            source="TxnPartitionEntry.startSequencesAtBeginning",
        ),
    ),
)
renumber = event("renumber", batch=BATCH)
_whole = batches[renumber.batch]
_entry = entries[_whole.partition]
renumbered = Table(
    producer,
    on=renumber,
    when=_whole.is_tracked,
    rows=(
        Row(
            "the next in sequence",
            set={
                _whole: replace(
                    _whole,
                    producer_id=_entry.producer_id,
                    producer_epoch=_entry.producer_epoch,
                    base_sequence=_entry.next_sequence,
                    sequence_reset=True,
                ),
                _entry.next_sequence: wrap(_entry.next_sequence + _whole.count, SEQUENCE),
            },
            source="TxnPartitionEntry.startSequencesAtBeginning",
        ),
    ),
)

increment = event("increment sequence", partition=PARTITION, by=COUNT)
_entry = entries[increment.partition]
incremented = Table(
    producer,
    on=increment,
    rows=(
        Row(
            "wrap behind the largest",
            set={_entry.next_sequence: wrap(_entry.next_sequence + increment.by, SEQUENCE)},
            source="DefaultRecordBatch.incrementSequence",
        ),
    ),
)

_ALL_FORGOTTEN: dict[Expression, Operand] = {
    entries: each(q, PartitionEntry()),
    unresolved: each(q, None),
    batches: each(c, replace(_other, is_tracked=False)),
}
forget_sequences = event("forget sequences")
sequences_forgotten = Table(
    producer,
    on=forget_sequences,
    rows=(Row("forget them", set=_ALL_FORGOTTEN, source=f"{_MANAGER}.resetSequenceNumbers"),),
)

request_bump = event("request epoch bump", partition=PARTITION)


def _wants_bump(where: Expression) -> dict[Expression, Operand]:
    return {bump_for: bump_for | set_of(where), must_bump: True}


bump_requested = Table(
    producer,
    on=request_bump,
    rows=(
        Row(
            "its batches are renumbered",
            set=_wants_bump(request_bump.partition),
            source=f"{_MANAGER}.requestEpochBumpForPartition",
        ),
    ),
)

bump = event("bumpIdempotentProducerEpoch")
_bumped: dict[Expression, Operand] = {
    must_bump: False,
    unresolved: each(q, if_(q.is_in(bump_for), None, unresolved[q])),
    bump_for: set_of(),
}
_may_reset = state.is_in(READY, ABORTABLE_ERROR)
_BUMP = f"{_MANAGER}.bumpIdempotentProducerEpoch"
bumped = Table(
    producer,
    on=bump,
    when=~transactional & must_bump,
    doc="Partitions that asked for it start at the beginning next.",
    rows=(
        Row(
            "the last epoch: forget the producer id",
            when=producer_epoch == LARGEST_EPOCH,
            goto=if_(_may_reset, UNINITIALIZED, NOT_ALLOWED),
            set={
                producer_epoch: NO_EPOCH,
                last_error: if_(_may_reset, None, NOT_ALLOWED_ERROR),
                **_bumped,
            },
            source=_BUMP,
        ),
        Row(
            "bump",
            when=has_id,
            set={producer_epoch: producer_epoch + 1} | _bumped,
            source=_BUMP,
        ),
        Row("when there is an id", set=_bumped, source=_BUMP),
    ),
)

# Answers ----------------------------------------------------------------------------------------

BatchStep = enum(
    "BatchStep",
    "COMPLETE",
    "AGAIN",
    "FAIL",
    "SPLIT",
)
BatchReaction = message(
    "BatchReaction", caller, only_real=True, step=BatchStep, adjusts=Bool(), restarts=Bool(),
    message_doc="`adjusts`: that nothing was appended is known, so that its sequences are free. "
    "`restarts`: its partition starts at the beginning.",
)  # fmt: skip


def _verdict(step: Expression, **more: Operand) -> Sending:
    return BatchReaction(step=step, **{"adjusts": False, "restarts": False, **more})


answered = event(
    "Produce answered", batch=BATCH, error=Errors, base_offset=ANY_OFFSET,
    log_start_offset=ANY_OFFSET, is_done=Bool(),
    event_doc="`is_done`: its records have been given up before.",
)  # fmt: skip
_whole = batches[answered.batch]
_where = _whole.partition
_entry = entries[_where]
_error = answered.error
_unmute: dict[Expression, Operand] = {muted: muted - set_of(_where)}
_last_sequence = _whole.base_sequence + _whole.count - 1
_last_offset = answered.base_offset + _whole.count - 1
_is_current = (
    has_id & (_whole.producer_id == producer_id) & (_whole.producer_epoch == producer_epoch)
)
_acked: dict[Expression, Operand] = {
    _whole: replace(_whole, stage=GONE, is_tracked=False),
    # plain comparison: past the largest sequence it stays behind
    _entry.last_acked: if_(
        (_last_sequence <= LARGEST_SEQUENCE) & (client_epoch_bump | _is_current),
        maximum(_entry.last_acked, _last_sequence),
        _entry.last_acked,
    ),
    _entry.last_acked_offset: if_(
        answered.base_offset < 0,
        _entry.last_acked_offset,
        maximum(_entry.last_acked_offset, _last_offset),
    ),
} | _unmute
_queued_again: dict[Expression, Operand] = {
    _whole: replace(
        _whole,
        stage=QUEUED,
        in_retry=True,
        attempts=_whole.attempts + 1,
        last_attempt_ms=now,
        backoff_ms=if_(
            (_whole.attempts == 0) | ~backoff_grows,
            minimum(RETRY_BACKOFF, LARGEST_BACKOFF),
            minimum(_whole.backoff_ms + _whole.backoff_ms, LARGEST_BACKOFF),
        ),
    )
} | _unmute
_is_last = ~any_of(c, _other.is_tracked & (_other.partition == _where) & (c != answered.batch))
_may_retry = (
    ~answered.is_done
    & (_whole.attempts < RETRIES)
    & (~expires_in_flight | (now - _whole.created_ms < DELIVERY_TIMEOUT))
)
_unresolved = unresolved[_where]
_out_of_order = _error == Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
_unknown = _error == Errors.UNKNOWN_PRODUCER_ID
_CAN_RETRY = f"{_MANAGER}.canRetry"


def _retried(
    name: str,
    when: Expression,
    source: str,
    more: dict[Expression, Operand] | None = None,
    *,
    restarts: bool = False,
    during: Operand = True,
) -> Row:
    return Row(
        name,
        when=_may_retry & when,
        during=lift(during),
        set=_queued_again | (more or {}),
        reply=_verdict(BatchStep.AGAIN, restarts=restarts),
        source=source,
    )


produce_answered = Table(
    producer,
    on=answered,
    response=BatchReaction,
    elsewhere=(clock,),
    rows=(
        Row(
            "acknowledged, the last under an old epoch",
            when=_error.is_in(Errors.NONE, Errors.DUPLICATE_SEQUENCE_NUMBER)
            & ~_is_clients(_whole)
            & _is_last,
            during=client_epoch_bump & ~epoch_by_partition,
            set=_acked
            | {
                _entry.producer_id: producer_id,
                _entry.producer_epoch: producer_epoch,
                _entry.next_sequence: 0,
                _entry.last_acked: NO_SEQUENCE,
            },
            reply=_verdict(BatchStep.COMPLETE),
            source=f"{_MANAGER}.handleCompletedBatch before 2.7.1",
        ),
        Row(
            "acknowledged",
            when=_error == Errors.NONE,
            set=_acked,
            reply=_verdict(BatchStep.COMPLETE),
            source=f"{_MANAGER}.handleCompletedBatch",
        ),
        Row(
            "too large: in parts",
            when=(_error == Errors.MESSAGE_TOO_LARGE) & (_whole.count > 1) & ~answered.is_done,
            set={_whole: replace(_whole, stage=GONE, is_tracked=False)} | _unmute,
            reply=_verdict(BatchStep.SPLIT),
            source=f"{_SENDER}.completeBatch",
        ),
        Row(
            "under an old producer id, and given up",
            when=~_is_current & (_error != Errors.DUPLICATE_SEQUENCE_NUMBER),
            during=_RESETS_ID,
            set=_unmute,
            reply=_verdict(
                BatchStep.FAIL, adjusts=~is_retriable(_error) & (_whole.attempts < RETRIES)
            ),
            source=f"{_SENDER}.completeBatch before 2.5",
        ),
        _retried(
            "unknown at the leader, whose log is not known",
            _unknown & (answered.log_start_offset < 0),
            _CAN_RETRY,
        ),
        _retried(
            "unknown at the leader, after new sequences",
            _unknown & _whole.sequence_reset,
            _CAN_RETRY,
        ),
        _retried(
            "unknown at the leader: a new epoch",
            _unknown,
            _CAN_RETRY,
            _wants_bump(_where),
            during=_BUMPS_EPOCH,
        ),
        _retried(
            "unknown at the leader: new sequences",
            _unknown & (_entry.last_acked_offset < answered.log_start_offset),
            "KAFKA-5793, TxnPartitionMap.startSequencesAtBeginning",
            restarts=True,
        ),
        _retried(
            "out of order behind another",
            _out_of_order
            & is_behind_another(
                _unresolved, _whole.sequence_reset, _whole.base_sequence, _entry.last_acked
            ),
            _CAN_RETRY,
        ),
        _retried(
            "out of order as the next: a new epoch",
            _out_of_order & loses_order(_unresolved, _whole.base_sequence),
            _CAN_RETRY,
            _wants_bump(_where),
            during=_BUMPS_EPOCH,
        ),
        _retried(
            "out of order behind what is unresolved",
            _out_of_order,
            _CAN_RETRY,
            during=_BUMPS_EPOCH,
        ),
        _retried("try again", is_retriable(_error), f"{_SENDER}.canRetry"),
        Row(
            "repeated",
            when=_error == Errors.DUPLICATE_SEQUENCE_NUMBER,
            set=_acked,
            reply=_verdict(BatchStep.COMPLETE),
            source=f"{_SENDER}.completeBatch",
        ),
        Row(
            "refused",
            set=_unmute,
            reply=_verdict(BatchStep.FAIL, adjusts=_whole.attempts < RETRIES),
            source=f"{_SENDER}.completeBatch",
        ),
    ),
)

expire = event("expire", batch=BATCH)
_whole = batches[expire.batch]
# A batch that is full at once expired without the time that others linger (before 2.1).
_delay = if_(_whole.stage == QUEUED, RETRY_BACKOFF, LINGER)
expired = Table(
    producer,
    on=expire,
    response=BatchReaction,
    elsewhere=(clock,),
    when=if_(
        expires_in_flight,
        (_whole.stage != GONE) & (now - _whole.created_ms >= DELIVERY_TIMEOUT),
        _whole.stage.is_in(UNSENT, QUEUED)
        & (now - _whole.last_attempt_ms > REQUEST_TIMEOUT + _delay),
    ),
    rows=(Row("it is over", reply=_verdict(BatchStep.FAIL), source=f"{_SENDER}.sendProducerData"),),
)
mark_unresolved = event("mark sequence unresolved", batch=BATCH)
_whole = batches[mark_unresolved.batch]
_mark = unresolved[_whole.partition]
_next = _whole.base_sequence + _whole.count
marked_unresolved = Table(
    producer,
    on=mark_unresolved,
    rows=(
        Row(
            "was it appended?",
            set={_mark: marked(_mark, _next)},
            source=f"{_MANAGER}.markSequenceUnresolved",
        ),
    ),
)

ignores_late_errors = lift(late_errors_ignored)
"""Whether an error for a batch whose records have been given up changes nothing."""
fail_batch = event(
    "batch failed", batch=BATCH, error=Errors, adjusts=Bool(),
    event_doc="For good; what it is for the client as a whole is `failure`.",
)  # fmt: skip
_whole = batches[fail_batch.batch]
_where = _whole.partition
_entry = entries[_where]
_is_it = c == fail_batch.batch
_here = _other.is_tracked & (_other.partition == _where)
_moves = _here & ~_is_it & (_other.base_sequence >= _whole.base_sequence)
_dropped = replace(_other, stage=GONE, is_tracked=False)
_drop: dict[Expression, Operand] = {_whole: replace(_whole, stage=GONE, is_tracked=False)}
# UnknownProducerIdException is an OutOfOrderSequenceException.
_lost_order = fail_batch.error.is_in(
    Errors.OUT_OF_ORDER_SEQUENCE_NUMBER, Errors.UNKNOWN_PRODUCER_ID
)
_FAILED = f"{_MANAGER}.handleFailedBatch"
batch_failed = Table(
    producer,
    on=fail_batch,
    rows=(
        Row("nothing matters any more", when=state == FATAL_ERROR, set=_drop, source=_FAILED),
        Row(
            "under an old epoch",
            when=~_is_clients(_whole),
            during=client_epoch_bump & ~epoch_by_partition,
            set=_drop,
            source=f"{_FAILED} before 2.7.1",
        ),
        Row(
            "order lost: a new producer id",
            when=_lost_order & has_id & (_whole.producer_id == producer_id),
            during=_RESETS_ID,
            goto=UNINITIALIZED,
            set={
                **_ALL_FORGOTTEN,
                batches: each(c, if_(_is_it, _dropped, replace(_other, is_tracked=False))),
                producer_epoch: NO_EPOCH,
            },
            source=f"{_MANAGER}.resetProducerId",
        ),
        Row(
            "out of order: a new epoch",
            when=_lost_order,
            during=_BUMPS_EPOCH,
            set=_drop | _wants_bump(_where),
            source=_FAILED,
        ),
        Row(
            "unknown at the leader: start again",
            when=fail_batch.error == Errors.UNKNOWN_PRODUCER_ID,
            during=transactional & client_epoch_bump,
            set={
                batches: each(
                    c,
                    if_(_is_it, _dropped, if_(_here, replace(_other, is_tracked=False), _other)),
                ),
                _entry: PartitionEntry(),
                unresolved[_where]: None,
            },
            source=f"{_MANAGER}.resetSequenceForPartition",
        ),
        Row(
            "a hole in the sequence: a new epoch",
            when=fail_batch.adjusts,
            during=_BUMPS_EPOCH,
            set=_drop | _wants_bump(_where),
            source=_FAILED,
        ),
        Row(
            "those behind it move up",
            when=fail_batch.adjusts
            & (_entry.next_sequence >= _whole.count)
            & ~any_of(c, _moves & (_other.base_sequence < _whole.count)),
            set={
                batches: each(
                    c,
                    if_(
                        _is_it,
                        _dropped,
                        if_(
                            _moves,
                            replace(
                                _other,
                                base_sequence=_other.base_sequence - _whole.count,
                                sequence_reset=True,
                            ),
                            _other,
                        ),
                    ),
                ),
                _entry.next_sequence: _entry.next_sequence - _whole.count,
            },
            source="TxnPartitionMap.adjustSequencesDueToFailedBatch",
        ),
        Row("whether it was appended isn't known", set=_drop, source=_FAILED),
    ),
)

drop = event("drop batch", batch=BATCH, event_doc="Unsent, or after a fatal error.")
_whole = batches[drop.batch]
dropped = Table(
    producer,
    on=drop,
    rows=(
        Row(
            "its records are given up",
            set={_whole: replace(_whole, stage=GONE)},
            source=f"{_ACCUMULATOR}.abortBatches",
        ),
    ),
)
release = event("release batch", batch=BATCH, event_doc="Nobody knows of it any more.")
released = Table(
    producer, on=release, rows=(Row("release", set={batches[release.batch]: ClientBatch()}),)
)

resolve = event("maybeResolveSequences", partition=PARTITION)
_where = resolve.partition
_RESOLVE = f"{_MANAGER}.maybeResolveSequences"
resolved = Table(
    producer,
    on=resolve,
    response=Reaction,
    when=unresolved[_where].is_set & (~has_tracked(_where) | (transactional & ~client_epoch_bump)),
    rows=(
        Row(
            "never resolved",
            during=transactional & ~client_epoch_bump,
            goto=FATAL_ERROR,
            set={unresolved[_where]: None, last_error: some(Errors.KAFKA_EXCEPTION)},
            reply=react(ClientStep.FAIL, Errors.KAFKA_EXCEPTION, ends_call=pending_call.is_set),
            source=f"{_SENDER}.run before 2.5",
        ),
        Row(
            "all were appended",
            when=all_appended(entries[_where].next_sequence, entries[_where].last_acked),
            set={unresolved[_where]: None},
            reply=react(ClientStep.GO_ON),
            source=_RESOLVE,
        ),
        Row(
            "order lost: a new producer id",
            during=_RESETS_ID,
            goto=UNINITIALIZED,
            set={producer_epoch: NO_EPOCH, **_ALL_FORGOTTEN},
            reply=react(ClientStep.GO_ON),
            source=f"{_MANAGER}.shouldResetProducerStateAfterResolvingSequences",
        ),
        Row(
            "order lost: a new epoch",
            during=_BUMPS_EPOCH,
            set={unresolved[_where]: None} | _wants_bump(_where),
            reply=react(ClientStep.GO_ON),
            source=_RESOLVE,
        ),
        Row(
            "order lost: abortable",
            when=can_bump,
            goto=TO_ABORTABLE,
            set={unresolved[_where]: None} | NEEDS_BUMP | abortable(Errors.KAFKA_EXCEPTION),
            reply=react(ClientStep.FAIL, Errors.KAFKA_EXCEPTION),
            source=f"{_MANAGER}.transitionToAbortableErrorOrFatalError",
        ),
        Row(
            "order lost for good",
            goto=FATAL_ERROR,
            set={unresolved[_where]: None, last_error: some(Errors.KAFKA_EXCEPTION)},
            reply=react(ClientStep.FAIL, Errors.KAFKA_EXCEPTION, ends_call=pending_call.is_set),
            source=_RESOLVE,
        ),
    ),
)

# Splitting --------------------------------------------------------------------------------------

split_off = event(
    "split off", batch=BATCH, whole=BATCH, before=COUNT, size=COUNT, written=COUNT,
    event_doc="A part of a batch that was too large begins, with a record; `before` it are so many "
    "others. Further ones are appended.",
)  # fmt: skip
_whole = batches[split_off.whole]
part_begun = Table(
    producer,
    on=split_off,
    rows=(
        Row(
            "with the sequence that its first record had",
            set={
                batches[split_off.batch]: replace(
                    _whole,
                    stage=QUEUED,
                    is_tracked=True,
                    count=1,
                    base_sequence=_whole.base_sequence + split_off.before,
                    sequence_reset=False,
                    in_retry=False,
                    attempts=0,
                    last_attempt_ms=_whole.created_ms,
                    backoff_ms=0,
                    is_open=True,
                    written=split_off.written,
                    limit=maximum(BATCH_SIZE, split_off.size + HEADER),
                )
            },
            source="ProducerBatch.split",
        ),
    ),
)

TABLES = (
    record_appended,
    batch_opened,
    ratio_observed,
    drained,
    looked_at,
    restarted,
    renumbered,
    incremented,
    sequences_forgotten,
    bump_requested,
    bumped,
    produce_answered,
    expired,
    marked_unresolved,
    batch_failed,
    dropped,
    released,
    resolved,
    part_begun,
)
