"""A client's sending side: what goes to a partition, with which sequence, and what comes of it.

It is Kafka's Sender with its TransactionManager's sequences (TxnPartitionMap) and the accumulator's
queues, for a client that is idempotent and has no transactional id. A batch holds one record.
A record that waits in the accumulator has no part in anything before it is drained: it is sent and
drained in one step. A client asks any broker for a producer id, and a request or answer that is
lost then only uses up an id: asking and being told are one step, too.
"""

from __future__ import annotations

import dataclasses

from .features import (
    bump_when_settled,
    client_epoch_bump,
    renumbered_under_new_id,
)
from .language import (
    Bool,
    Expression,
    Int,
    Loss,
    Machine,
    Map,
    Optional,
    Row,
    Sending,
    Set,
    Table,
    all_of,
    any_of,
    constant,
    count_of,
    each,
    enum,
    event,
    if_,
    in_transit,
    lift,
    lost,
    maximum,
    position,
    record,
    replace,
    set_of,
    size,
    some,
    those,
    wrap,
)
from .language.expressions import Operand
from .messages import (
    DELAYS,
    EPOCH,
    EXPIRIES,
    LARGEST_EPOCH,
    LARGEST_SEQUENCE,
    LOSSES,
    NO_EPOCH,
    PARTITION,
    PRODUCER,
    PRODUCER_ID,
    PRODUCER_IDS,
    RECORD,
    SEQUENCE,
    Errors,
    Produce,
    ProduceResponse,
)

IN_FLIGHT = constant(
    "in_flight", 2, 1, 5, real=5, meaning="batches in flight to a partition at a time"
)
FIRST_EPOCH = constant(
    "first_epoch", 2, 0, 1000, meaning="the producer epoch that the client has come to at the start"
)

Status = enum("BatchStatus", "UNSENT", "SENT", "QUEUED", "ACKNOWLEDGED", "FAILED")
UNSENT, SENT, QUEUED = Status.UNSENT, Status.SENT, Status.QUEUED
ACKNOWLEDGED, FAILED = Status.ACKNOWLEDGED, Status.FAILED
Batch = record(
    "ProducerBatch", status=Status, producer_id=PRODUCER_ID, producer_epoch=EPOCH,
    base_sequence=SEQUENCE, in_retry=Bool(), sequence_reset=Bool(), unanswered=Bool(),
)  # fmt: skip
State = enum("ClientState", "UNINITIALIZED", "READY")
NO_SEQUENCE = -1

DelayedProduce = dataclasses.replace(
    Produce,
    name="DelayedProduce",
    doc="A Produce request on a connection that its client has closed: it arrives at any time or "
    "never, and nobody is answered.",
)

sender = Machine("sender", PRODUCER, doc="A client's sending side.")
state = sender.state_field("state", State, State.READY)
producer_id = sender.field("producer_id", PRODUCER_ID)
producer_epoch = sender.field("producer_epoch", EPOCH, FIRST_EPOCH, doc="Of the whole client.")
batches = sender.field(
    "batches", Map(PARTITION, Map(RECORD, Batch)),
    doc="The application's records: sent, queued again, or what the application was told.",
)  # fmt: skip
entry_id = sender.field("entry_id", Map(PARTITION, PRODUCER_ID))
entry_epoch = sender.field(
    "entry_epoch", Map(PARTITION, EPOCH), doc="With entry_id: what the partition's sequences count."
)
next_sequence = sender.field("next_sequence", Map(PARTITION, SEQUENCE))
last_acked = sender.field(
    "last_acked", Map(PARTITION, Int(NO_SEQUENCE, LARGEST_SEQUENCE)), doc="The largest one."
)
unresolved = sender.field(
    "unresolved", Map(PARTITION, Optional(Int(0, LARGEST_SEQUENCE + 1))),
    doc="The sequence behind a batch that expired after it had been sent: was it appended?",
)  # fmt: skip
bump_for = sender.field(
    "bump_for", Set(PARTITION), doc="Whose batches need a new epoch and new sequences."
)

drain = event("drain", partition=PARTITION, record=RECORD)
drain_again = event("drain again", partition=PARTITION, record=RECORD)
expire_batch = event(
    "batch expires", partition=PARTITION, record=RECORD,
    event_doc="delivery.timeout.ms is over, of older batches first; a request may still arrive.",
)  # fmt: skip
resolve = event("resolve sequences", partition=PARTITION)
bump = event("bump epoch")
give_producer_id = event("producer id given out")

overtaken = in_transit("held up", Produce)
answer_lost = lost(ProduceResponse)

q, s, lower = PARTITION.variable("q"), RECORD.variable("s"), RECORD.variable("lower")
me = sender.this

_SENDER, _MANAGER = "Sender", "TransactionManager"
_ACCUMULATOR = "RecordAccumulator"


def is_open(batch: Expression) -> Expression:
    """Whether the application waits to hear of the batch."""
    return batch.status.is_in(SENT, QUEUED)


def tracked(batch: Expression) -> Expression:
    """Whether the batch is in the partition's set of batches in flight; a new producer id used to
    empty the set."""
    same = (state == State.READY) & (batch.producer_id == producer_id)
    return is_open(batch) & (client_epoch_bump | same)


def _lower(where: Expression, batch: Expression) -> Expression:
    """How many batches in flight have a lower sequence."""
    other = batches[where][lower]
    return count_of(lower, tracked(other) & (other.base_sequence < batch.base_sequence))


# Draining --------------------------------------------------------------------------------------


def _produce(where: Expression, which: Expression, batch: Expression) -> Sending:
    return Produce(
        producer=me,
        partition=where,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        idempotent_only=True,
        record=which,
    )


def _numbered(sequence: Operand) -> Expression:
    """A batch with its place: the client's id and epoch, and the sequence."""
    return Batch(
        status=SENT,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
    )


_where, _which = drain.partition, drain.record
_stale = client_epoch_bump & (
    (entry_id[_where] != producer_id) | (entry_epoch[_where] != producer_epoch)
)
_none_in_flight = ~any_of(s, tracked(batches[_where][s]))
_first, _next = _numbered(0), _numbered(next_sequence[_where])
drained = Table(
    sender,
    on=drain,
    when=(state == State.READY)
    & if_(bump_when_settled, ~_where.is_in(bump_for), size(bump_for) == 0)
    & (batches[_where][_which].status == UNSENT)
    & all_of(s, (batches[_where][s].status == UNSENT).implies(position(s) >= position(_which)))
    & ~any_of(s, batches[_where][s].status == QUEUED)
    & ~unresolved[_where].is_set
    & (count_of(s, is_open(batches[_where][s])) < IN_FLIGHT)
    & (~_stale | _none_in_flight),
    doc="A batch that is queued again goes first, and a partition goes over to the client's new "
    "epoch when it has nothing in flight.",
    rows=(
        Row(
            "the first under this epoch",
            when=_stale,
            during=client_epoch_bump,
            set={
                batches[_where][_which]: _first,
                next_sequence[_where]: 1,
                entry_id[_where]: producer_id,
                entry_epoch[_where]: producer_epoch,
                last_acked[_where]: NO_SEQUENCE,
            },
            send=(_produce(_where, _which, _first),),
            source=f"{_MANAGER}.maybeUpdateProducerIdAndEpoch",
        ),
        Row(
            "the next in sequence",
            set={
                batches[_where][_which]: _next,
                next_sequence[_where]: wrap(next_sequence[_where] + 1, SEQUENCE),
            },
            send=(_produce(_where, _which, _next),),
            source=f"{_ACCUMULATOR}.drainBatchesForOneNode",
        ),
    ),
)

_where, _which = drain_again.partition, drain_again.record
_again = batches[_where][_which]
_other = batches[_where][s]
_sequence = _again.base_sequence
drained_again = Table(
    sender,
    on=drain_again,
    when=(state == State.READY)
    & (bump_when_settled | (size(bump_for) == 0))
    & (_again.status == QUEUED)
    & all_of(s, (_other.status == QUEUED).implies(_sequence <= _other.base_sequence))
    & (
        ~any_of(s, tracked(_other))
        | (
            all_of(s, tracked(_other).implies(_sequence <= _other.base_sequence))
            & any_of(s, tracked(_other) & (_sequence == _other.base_sequence))
        )
    ),
    doc="The lowest sequence in flight, and no other, so that they go one by one.",
    rows=(
        Row(
            "with the same id, epoch and sequence",
            set={_again: replace(_again, status=SENT)},
            send=(_produce(_where, _which, _again),),
            source=f"{_ACCUMULATOR}.shouldStopDrainBatchesForPartition",
        ),
    ),
)

# What comes of a batch -------------------------------------------------------------------------


def _told(batch: Expression, status: Expression) -> dict[Expression, Operand]:
    """The application is told; what the batch was sent with is forgotten."""
    return {batch: Batch(status=status)}


def _queued(batch: Expression, **changed: Operand) -> dict[Expression, Operand]:
    return {batch: replace(batch, status=QUEUED, in_retry=True, **changed)}


def _wants_bump(where: Expression) -> dict[Expression, Operand]:
    return {bump_for: bump_for | set_of(where)}


def _new_id() -> dict[Expression, Operand]:
    """All that the client knew of its sequences goes with its producer id."""
    return {
        state: State.UNINITIALIZED,
        producer_epoch: NO_EPOCH,
        next_sequence: each(q, 0),
        last_acked: each(q, NO_SEQUENCE),
        unresolved: each(q, None),
    }


def _under_old_id(batch: Expression, when: Operand, send: tuple[Sending, ...] = ()) -> Row:
    return Row(
        "under an old producer id, and given up",
        when=lift(when) & ~tracked(batch),
        during=~client_epoch_bump,
        set=_told(batch, FAILED),
        send=send,
        source=f"{_SENDER}.completeBatch before 2.5",
    )


_answer = ProduceResponse
_where, _which = _answer.partition, _answer.record
_batch = batches[_where][_which]
_error = _answer.error
_sequence = _batch.base_sequence
_out_of_order = _error == Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
_unknown = _error == Errors.UNKNOWN_PRODUCER_ID
_is_next = _sequence == last_acked[_where] + 1
_unresolved = unresolved[_where]
_other = batches[_where][s]

_CAN_RETRY = f"{_MANAGER}.canRetry"
completed = Table(
    sender,
    on=ProduceResponse,
    rows=(
        Row("nobody waits for it", when=_batch.status != SENT, source=f"{_SENDER}.completeBatch"),
        Row(
            "acknowledged",
            when=_error == Errors.NONE,
            set=_told(_batch, ACKNOWLEDGED)
            | {
                last_acked[_where]: if_(
                    tracked(_batch), maximum(last_acked[_where], _sequence), last_acked[_where]
                )
            },
            source=f"{_MANAGER}.handleCompletedBatch",
        ),
        _under_old_id(_batch, _error != Errors.NONE),
        Row(
            "try again",
            when=_error == Errors.NOT_ENOUGH_REPLICAS,
            set=_queued(_batch),
            source=f"{_SENDER}.canRetry",
        ),
        Row(
            "out of order behind another",
            when=_out_of_order & ~_unresolved.is_set & (_batch.sequence_reset | ~_is_next),
            set=_queued(_batch),
            source=_CAN_RETRY,
        ),
        Row(
            "out of order as the next: a new epoch",
            when=_out_of_order & (~_unresolved.is_set | (_unresolved == _sequence)),
            during=client_epoch_bump,
            set=_queued(_batch) | _wants_bump(_where),
            source=_CAN_RETRY,
        ),
        Row(
            "out of order behind what is unresolved",
            when=_out_of_order,
            during=client_epoch_bump,
            set=_queued(_batch),
            source=_CAN_RETRY,
        ),
        Row(
            "out of order as the next: a new producer id",
            when=_out_of_order,
            during=~client_epoch_bump,
            set=_told(_batch, FAILED) | _new_id(),
            source=f"{_MANAGER}.resetProducerId",
        ),
        Row(
            "unknown at the leader, after new sequences",
            when=_unknown & _batch.sequence_reset,
            during=~client_epoch_bump,
            set=_queued(_batch),
            source=_CAN_RETRY,
        ),
        Row(
            "unknown at the leader: new sequences",
            when=_unknown,
            during=~client_epoch_bump,
            set={
                batches[_where]: each(
                    s,
                    if_(
                        tracked(_other),
                        replace(
                            _other,
                            status=if_(s == _which, QUEUED, _other.status),
                            in_retry=_other.in_retry | (s == _which),
                            base_sequence=_lower(_where, _other),
                            sequence_reset=True,
                        ),
                        _other,
                    ),
                ),
                next_sequence[_where]: count_of(s, tracked(_other)),
                last_acked[_where]: NO_SEQUENCE,
            },
            source="KAFKA-5793, TransactionManager.startSequencesAtBeginning",
            note="Retention has deleted the records that the leader knew the producer id by.",
        ),
        Row(
            "refused: a new epoch",
            during=client_epoch_bump,
            set=_told(_batch, FAILED) | _wants_bump(_where),
            source=f"{_MANAGER}.handleFailedBatch",
        ),
        Row(
            "refused, and those behind it move up",
            during=~client_epoch_bump,
            set={
                batches[_where]: each(
                    s,
                    if_(
                        s == _which,
                        Batch(status=FAILED),
                        if_(
                            tracked(_other) & (_other.base_sequence > _sequence),
                            replace(
                                _other,
                                base_sequence=_other.base_sequence - 1,
                                sequence_reset=True,
                            ),
                            _other,
                        ),
                    ),
                ),
                next_sequence[_where]: next_sequence[_where] - 1,
            },
            source=f"{_MANAGER}.adjustSequencesDueToFailedBatch before 2.5",
        ),
    ),
)

_expired = batches[expire_batch.partition][expire_batch.record]
_older = batches[expire_batch.partition][s]
_mark = unresolved[expire_batch.partition]
_behind = _expired.base_sequence + 1
expired = Table(
    sender,
    on=expire_batch,
    when=(EXPIRIES > 0)
    & is_open(_expired)
    & all_of(s, is_open(_older).implies(position(s) >= position(expire_batch.record))),
    rows=(
        Row(
            "after a retry: was it appended?",
            when=_expired.in_retry,
            set=_told(_expired, FAILED)
            | {_mark: some(if_(_mark.is_set, maximum(_mark.value, _behind), _behind))},
            source=f"{_MANAGER}.markSequenceUnresolved",
        ),
        Row(
            "at its first attempt",
            set=_told(_expired, FAILED),
            source=f"{_SENDER}.getExpiredInflightBatches",
        ),
    ),
)

_where = resolve.partition
resolved = Table(
    sender,
    on=resolve,
    when=(state == State.READY)
    & unresolved[_where].is_set
    & ~any_of(s, tracked(batches[_where][s])),
    rows=(
        Row(
            "all were appended",
            when=next_sequence[_where] - last_acked[_where] == 1,
            set={unresolved[_where]: None},
            source=f"{_MANAGER}.maybeResolveSequences",
        ),
        Row(
            "order lost: a new epoch",
            during=client_epoch_bump,
            set={unresolved[_where]: None} | _wants_bump(_where),
            source=f"{_MANAGER}.maybeResolveSequences",
        ),
        Row(
            "order lost: a new producer id",
            during=~client_epoch_bump,
            set=_new_id(),
            source=f"{_MANAGER}.shouldResetProducerStateAfterResolvingSequences",
        ),
    ),
)

# A new epoch -----------------------------------------------------------------------------------


_held = batches[q][s]
_settled = all_of(s, is_open(_held).implies((_held.status == QUEUED) & ~_held.unanswered))
_due = q.is_in(bump_for) & (~bump_when_settled | _settled)


def _renumbered(new_id: Operand, epoch: Operand) -> dict[Expression, Operand]:
    """The batches in flight of the partitions that asked start at sequence 0."""
    r = RECORD.variable("r")
    batch = batches[q][r]
    return {
        batches: each(
            q,
            each(
                r,
                if_(
                    _due & is_open(batch),
                    replace(
                        batch,
                        producer_id=new_id,
                        producer_epoch=epoch,
                        base_sequence=_lower(q, batch),
                        sequence_reset=True,
                    ),
                    batch,
                ),
            ),
        ),
        next_sequence: each(q, if_(_due, count_of(s, is_open(_held)), next_sequence[q])),
        last_acked: each(q, if_(_due, NO_SEQUENCE, last_acked[q])),
        entry_id: each(q, if_(_due, new_id, entry_id[q])),
        entry_epoch: each(q, if_(_due, epoch, entry_epoch[q])),
        unresolved: each(q, if_(_due, None, unresolved[q])),
        bump_for: bump_for - those(q, _due),
    }


_BUMP = f"{_MANAGER}.bumpIdempotentProducerEpoch"
_ready = state == State.READY
_last = producer_epoch == LARGEST_EPOCH
bumped = Table(
    sender,
    on=bump,
    when=any_of(q, _due) & (_ready | ~renumbered_under_new_id),
    rows=(
        Row(
            "while there is no producer id",
            when=~_ready,
            during=client_epoch_bump & ~renumbered_under_new_id,
            set=_renumbered(producer_id, NO_EPOCH),
            source=_BUMP,
        ),
        Row(
            "the last epoch: a new producer id first",
            when=_last,
            during=client_epoch_bump & renumbered_under_new_id,
            goto=State.UNINITIALIZED,
            set={producer_epoch: NO_EPOCH},
        ),
        Row(
            "the last epoch: forget the producer id",
            when=_last,
            during=client_epoch_bump & ~renumbered_under_new_id,
            goto=State.UNINITIALIZED,
            set={producer_epoch: NO_EPOCH} | _renumbered(producer_id, NO_EPOCH),
            source=_BUMP,
        ),
        Row(
            "bump",
            during=client_epoch_bump,
            set={producer_epoch: producer_epoch + 1} | _renumbered(producer_id, producer_epoch + 1),
            source=_BUMP,
        ),
    ),
)

_given = position(producer_id) + 1
id_left = _given < PRODUCER_IDS
initialized = Table(
    sender,
    on=give_producer_id,
    when=(state == State.UNINITIALIZED) & id_left,
    rows=(
        Row(
            "a new producer id, and new sequences",
            during=renumbered_under_new_id,
            goto=State.READY,
            set={producer_id: _given, producer_epoch: 0} | _renumbered(_given, 0),
        ),
        Row(
            "a new producer id",
            during=~renumbered_under_new_id,
            goto=State.READY,
            set={producer_id: _given, producer_epoch: 0},
            source=f"{_MANAGER}.bumpIdempotentEpochAndResetIdIfNeeded",
        ),
    ),
)

# What goes wrong -------------------------------------------------------------------------------

_DISCONNECT = "NetworkClient.handleDisconnections"


def _given_up(event: Loss, kind: Expression, send: tuple[Sending, ...] = ()) -> Table:
    """A request is given up, or its answer is lost: the batch is queued again."""
    batch = batches[event.partition][event.record]
    again = Row("queue again", set=_queued(batch, unanswered=True), send=send, source=_DISCONNECT)
    return Table(
        sender,
        on=event,
        when=(kind > 0) & (batch.status == SENT),
        rows=(_under_old_id(batch, True, send), again),
    )


_request = {name: getattr(overtaken, name) for name, _ in Produce.parameters}

FAULTY_EVENTS = (expire_batch, overtaken, answer_lost)
TABLES = (
    drained,
    drained_again,
    completed,
    expired,
    resolved,
    bumped,
    initialized,
    _given_up(answer_lost, LOSSES),
    _given_up(overtaken, DELAYS, (DelayedProduce(**_request),)),
)
