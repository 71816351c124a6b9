"""An idempotent client, the leaders that it writes to, and all that happens between them."""

from __future__ import annotations

from dataclasses import replace

from .. import messages as machines
from .. import partition, sender
from ..features import KAFKA
from ..language import Channel, Expression, Row, Sending, System, Table, all_of
from ..language.expressions import lift, rewrite
from ..messages import (
    CACHED_BATCHES,
    DELAYS,
    EXPIRIES,
    FAULTS,
    LARGEST_EPOCH,
    LOSSES,
    PARTITION,
    PARTITIONS,
    PRODUCER_IDS,
    PRODUCERS,
    RECORD,
    RECORDS,
    TRANSACTIONS,
    Errors,
    Produce,
    ProduceResponse,
)
from ..properties_idempotence import PROPERTIES

_p, _r = PARTITION.variable("p"), RECORD.variable("r")


_awaited = (
    sender.batches.at(Produce.producer)[Produce.partition][Produce.record].status == sender.SENT
)


def _answered(row: Row) -> Row:
    """An answer that nobody would see is not put in flight."""
    assert isinstance(row.reply, Sending)
    return replace(row, reply=replace(row.reply, when=_awaited))


def _unanswered(row: Row) -> Row:
    """The same row for a request whose client is not there to be answered."""
    request = {name: (getattr(Produce, name), getattr(sender.DelayedProduce, name)) for name, _ in Produce.parameters}
    values = {was: now for was, now in request.values()}

    def late(part: object) -> Expression:
        return rewrite(lift(part), values.get)

    return replace(
        row, when=late(row.when), set={late(t): late(v) for t, v in row.set.items()}, reply=None
    )


_rows = [row for row in partition.produce.rows if row.name not in ("ask the coordinator", "stale epoch, before asking")]
LEADER = (
    Table(
        machines.partition, on=Produce, elsewhere=(sender.sender,), rows=tuple(map(_answered, _rows))
    ),
    Table(
        machines.partition, on=sender.DelayedProduce, rows=tuple(map(_unanswered, _rows))
    ),
    Table(
        machines.partition,
        on=sender.refused,
        elsewhere=(sender.sender,),
        when=sender.REFUSALS > 0,
        rows=(
            Row(
                "refuse for good",
                send=(
                    ProduceResponse(
                        producer=sender.refused.producer,
                        partition=sender.refused.partition,
                        error=Errors.UNKNOWN_SERVER_ERROR,
                        record=sender.refused.record,
                        txn=sender.refused.txn,
                    ),
                ),
            ),
        ),
    ),
)

system = System(
    name="idempotence",
    doc="An idempotent client without transactions, and the leaders of the partitions that it "
    "writes to.",
    tables=sender.TABLES + LEADER,
    properties=PROPERTIES,
    constants=(
        RECORDS,
        PARTITIONS,
        sender.IN_FLIGHT,
        CACHED_BATCHES,
        LARGEST_EPOCH,
        sender.FIRST_EPOCH,
        PRODUCER_IDS,
        FAULTS,
        LOSSES,
        DELAYS,
        EXPIRIES,
        sender.REFUSALS,
    ),
    fixed={PRODUCERS: 1, TRANSACTIONS: 4},
    protocols=KAFKA,
    channels=(
        Channel(Produce, sender.IN_FLIGHT, ordered=True),
        Channel(ProduceResponse, sender.IN_FLIGHT, ordered=True),
        Channel(sender.DelayedProduce, FAULTS),
    ),
    budgets={sender.FAULTY_EVENTS: FAULTS},
    interchangeable=(PARTITION,),
    terminal=(sender.state.at(0) == sender.State.FATAL_ERROR)
    | ((sender.state.at(0) == sender.State.UNINITIALIZED) & ~sender.id_left.at(0))
    | all_of(_p, all_of(_r, ~sender.is_open(sender.batches.at(0)[_p][_r]))),
)
