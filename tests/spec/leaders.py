"""A partition leader on its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epochfence.language import Expression, Message, Property
from epochfence.language.terms.values import evaluate
from epochfence.language.types import Value
from epochfence.spec import messages
from epochfence.spec.leader.state import last_stable_offset
from epochfence.spec.releases.features import KAFKA, NEWEST
from epochfence.spec.systems import shipped
from epochfence.tests.spec.alone import Alone

BOUNDS = {
    "producers": 2,
    "partitions": 1,
    "transactions": 6,
    "producer_ids": 2,
    "largest_epoch": 9,
    "largest_sequence": 9,
    "cached_batches": 5,
    "faults": 6,
    "leader_changes": 1,
    "deletions": 1,
    "producer_expiries": 1,
}
IDEMPOTENCE_ONLY = ("transaction_version_2", "verification")  # without them nobody is asked


def entry(
    epoch: int, *sequences: int, opened: int | None = None, coordinator_epoch: int = 0
) -> Value:
    """A ProducerStateEntry with these batches cached, their offsets from 0 on."""
    batches = tuple((sequence, offset) for offset, sequence in enumerate(sequences))
    return (epoch, batches, coordinator_epoch, opened)


def _full(name: str, value: Any, bumps: bool) -> Any:
    """A field with what has one value in a bounded run: times, guards and lengths of batches, and
    whether questions are of a version that `bumps` epochs."""
    match name:
        case "producers":
            return tuple(
                (epoch, tuple((*batch, 0, 0) for batch in batches), coordinator_epoch, opened, 0)
                for epoch, batches, coordinator_epoch, opened in value
            )
        case "verification_states":
            return tuple(question and (*question, 0, 0, bumps) for question in value)
        case _:
            return value


def _short(name: str, value: Any, bumps: bool) -> Any:
    """A field without that."""
    match name:
        case "producers":
            short: Any = tuple(
                (epoch, tuple(batch[:2] for batch in batches), *others)
                for epoch, batches, *others, _ in value
            )
        case "verification_states":
            short = tuple(question and question[:2] for question in value)
        case _:
            return value
    assert _full(name, short, bumps) == value
    return short


class Leader(Alone):
    """A leader. Every client awaits an answer, so that none is left out."""

    machine = "partition"
    system = shipped("transactions")
    bounds = BOUNDS

    def __init__(self, release: str = NEWEST, *off: str, **given: Value) -> None:
        super().__init__(release, *off)
        self.bumps = "transaction_version_2" in KAFKA.features_at(release) - {*off}
        sent = ("SENT", 0, -1, 0, False, False, False)
        self.state["producer.batches"] = (((sent,),),) * BOUNDS["producers"]
        self.state["producer.txn"] = (0,) * BOUNDS["producers"]
        for name, value in given.items():
            self.put(name, value)

    def field(self, name: str) -> Any:
        """A field of the leader."""
        return _short(name, self[name], self.bumps)

    def put(self, name: str, value: Any) -> None:
        """Sets a field of the leader."""
        self.set(**{name: _full(name, value, self.bumps)})

    def entry(self, producer_id: int = 0) -> Any:
        """What it knows of a producer id: epoch, batches, coordinator epoch, open since."""
        return self.field("producers")[producer_id]

    @property
    def log(self) -> list[str]:
        """The kinds of what was appended."""
        return [line[0] for line in self.field("log")]

    def stable(self) -> int:
        """The last stable offset."""
        value = self.value(last_stable_offset.at(0))
        assert isinstance(value, int)
        return value

    def value(
        self, expression: Expression, bound: Mapping[Expression, Value] | None = None
    ) -> Value:
        """What an expression comes to now, with names bound."""
        assert self.system.reduced is not None
        expression = self.system.reduced.expression(expression)
        return evaluate(expression, self.state, self.model.instance.constants, bound)

    def holds(self, item: Property) -> bool:
        """Whether an invariant holds now."""
        return bool(self.value(item.expression))

    def receives(self, message: Message, address: Mapping[str, int], **content: Value) -> None:
        """Puts a message on the network; what isn't said of it has initial values."""
        self.arrives(message, *(address[key] for key, _ in message.address), **content)

    def takes(self, message: Message, address: Mapping[str, int], **content: Value) -> str | None:
        """Takes a message; the row taken."""
        self.receives(message, address, **content)
        return self.does(message)

    def sent_to(self, message: Message, client: int = 0) -> dict[str, Value] | None:
        """What it has sent to or for a client, taken off the network; none where there is none."""
        return self.sent(message, *(client * (key == "producer") for key, _ in message.address))

    def produce(
        self, epoch: int, sequence: int, *, producer_id: int = 0, client: int = 0,
        idempotent_only: bool = False, txn: int = 0,
    ) -> str:  # fmt: skip
        """Its answer to a batch: an error, `written`, `duplicate`, `asks`, or `waits`."""
        before = len(self.log)
        row = self.takes(
            messages.Produce,
            {"producer": client, "partition": 0},
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            idempotent_only=idempotent_only,
            txn=txn,
        )
        if row is None:
            return "waits"
        if self.sent_to(messages.AddPartitionsByLeader, client):
            return "asks"
        return self.told(before, client)

    def hears(self, error: str, client: int = 0) -> str:
        """Its answer to the batch that waits, once the coordinator has answered; empty: none."""
        before = len(self.log)
        address = {"producer": client, "partition": 0}
        assert self.takes(messages.AddPartitionsByLeaderResponse, address, error=error)
        return self.told(before, client)

    def told(self, before: int, client: int) -> str:
        """The answer to a batch, where the log had `before` entries when it came."""
        answer = self.sent_to(messages.ProduceResponse, client)
        if answer is None:
            return ""
        if answer["error"] != "NONE":
            assert len(self.log) == before
            return str(answer["error"])
        return "written" if len(self.log) > before else "duplicate"

    def verified(self, epoch: int, sequence: int, *, client: int = 0, producer_id: int = 0) -> str:
        """Its answer to a batch about which the coordinator, asked, has nothing to say."""
        told = self.produce(epoch, sequence, client=client, producer_id=producer_id)
        return self.hears("NONE", client) if told == "asks" else told

    def marker(
        self, epoch: int, result: str = "ABORT", *, producer_id: int = 0, coordinator_epoch: int = 0
    ) -> str:
        """Its answer to a marker: an error, or what that ended: `ended` or `nothing`."""
        before = len(self.log)
        assert self.takes(
            messages.WriteTxnMarkers,
            {"partition": 0},
            producer_id=producer_id,
            producer_epoch=epoch,
            result=result,
            coordinator_epoch=coordinator_epoch,
        )
        answer = self.sent_to(messages.WriteTxnMarkersResponse)
        assert answer is not None
        if answer["error"] != "NONE":
            return str(answer["error"])
        return "ended" if len(self.log) > before else "nothing"


NOBODY = entry(-1)


def leader(release: str, *off: str, known: Value = NOBODY, **given: Value) -> Leader:
    """A leader that knows this of producer id 0 and nothing of the other."""
    return Leader(release, *off, producers=(known, NOBODY), **given)
