"""Delivery semantics as a table: how producer, brokers and consumer may be set, and the bounds of
the runs that say what each setting comes to.

A cell is asked about twice. The `CLIENTS` bounds have two records and the faults of clients, the
`REPLICAS` bounds three replicas and one record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from ...language import DeclarationError
from ..releases.features import KAFKA
from ..replication.state import NOT_ENOUGH_REPLICAS
from .state import AFTER, BEFORE, TOGETHER

REPLICATION_FACTOR = 3
SEVERAL = 5
"""Requests in flight by default; in a bounded run two stand for several."""
ACKS = {0: "0", 1: "1", -1: "all"}
COMMITS = {"after": AFTER, "before": BEFORE, "together": TOGETHER}
CLIENTS, REPLICAS = "clients", "replicas"

Constants = dict[str, int]


@dataclass(frozen=True, order=True)
class Cell:
    """The settings of a producer, a consumer and the brokers that matter for delivery.

    With acks=0 retries change nothing, because nothing is answered. Without transactions the
    isolation level changes nothing.
    """

    acks: int = -1
    retries: bool = True
    in_flight: int = SEVERAL
    idempotence: bool = True
    transactions: bool = False
    read_committed: bool = False
    min_isr: int = 2
    unclean: bool = False
    commit: str = "after"

    @property
    def producer(self) -> str:
        """The producer's settings as words."""
        kind = "transactional" if self.transactions else "idempotent" if self.idempotence else ""
        if kind:
            return kind
        if self.acks == 0:
            return "acks=0"
        several = "" if not self.retries or self.in_flight > 1 else ", one in flight"
        return f"acks={ACKS[self.acks]}, {'retries' if self.retries else 'no retries'}{several}"

    @property
    def id(self) -> str:
        """The cell's name: its settings, in words."""
        producer = self.producer.replace("=", "").replace(", ", ".").replace(" ", "-")
        words = [
            producer,
            f"isr{self.min_isr}",
            "unclean" if self.unclean else "clean",
            self.commit,
        ]
        if self.transactions:
            words.insert(1, "read_committed" if self.read_committed else "read_uncommitted")
        return ".".join(words)

    @property
    def settings(self) -> dict[str, str]:
        """The producer's settings by their names in Kafka."""
        settings = {
            "acks": ACKS[self.acks],
            "enable.idempotence": str(self.idempotence).lower(),
            "max.in.flight.requests.per.connection": str(self.in_flight),
        }
        if not self.retries:
            settings["retries"] = "0"
        if self.transactions:
            settings["transactional.id"] = "id"
        return settings

    def constants(self, bounds: str) -> Constants:
        """The constants of the system `delivery` for CLIENTS or REPLICAS."""
        by_clients = bounds == CLIENTS
        aborts = by_clients and self.transactions
        records = 2 if by_clients else 1
        markers, again = int(self.transactions), int(self.retries and not self.idempotence)
        return {
            "replicas": 2 if by_clients else REPLICATION_FACTOR,
            "records": records,
            "leader_epochs": 2,
            "acks": self.acks,
            "min_insync_replicas": self.min_isr,
            "retries": int(self.retries),
            "in_flight": min(self.in_flight, records),
            "idempotence": int(self.idempotence),
            "transactional_id": int(self.transactions),
            "read_committed": int(self.read_committed),
            "offsets": COMMITS[self.commit],
            "sessions": 2 if aborts else 1,
            "crashes": 1 if by_clients or not self.unclean else 2,
            "unclean_elections": int(self.unclean),
            "disconnections": 1,
            "consumer_crashes": int(by_clients),
            "extra_entries": markers + again + aborts * (records + 1),
        }


def _producers() -> Iterator[Cell]:
    yield Cell(0, retries=False, idempotence=False)
    for acks in (1, -1):
        yield Cell(acks, retries=False, idempotence=False)
        yield Cell(acks, idempotence=False)
        yield Cell(acks, in_flight=1, idempotence=False)
    yield Cell()
    yield Cell(transactions=True)
    yield Cell(transactions=True, read_committed=True)


def every_cell() -> list[Cell]:
    """The cells of the table, in its order."""
    return [
        Cell(
            each.acks, each.retries, each.in_flight, each.idempotence, each.transactions,
            each.read_committed, min_isr, unclean, commit,
        )
        for commit, each, min_isr, unclean in product(
            COMMITS, list(_producers()), (1, 2), (False, True)
        )
    ]  # fmt: skip


def cell_of(name: str) -> Cell:
    """The cell that is called so. Raises DeclarationError where there is none."""
    for cell in every_cell():
        if cell.id == name:
            return cell
    raise DeclarationError(f"no cell is called {name}: epochfence semantics lists them")


# What a user asks for ----------------------------------------------------------------------------

CHOICES: dict[str, tuple[str, ...]] = {
    "isolation.level": ("read_uncommitted", "read_committed"),
    "min.insync.replicas": ("1", "2"),
    "replication.factor": (str(REPLICATION_FACTOR),),
    "unclean.leader.election.enable": ("false", "true"),
    "commit": tuple(COMMITS),
}
"""Settings of consumer, topic and brokers, and when offsets are committed: the values that the
table has."""


def _listed(values: Sequence[str]) -> str:
    *others, newest = values
    return f"{', '.join(others)} and {newest}" if others else newest


def refusal(name: str, value: str, release: str) -> str | None:
    """Why the table has no such value of one of the CHOICES: Kafka's own error where it has one.

    Raises DeclarationError for an unknown release.
    """
    if value in CHOICES[name]:
        return None
    number = int(value) if value.lstrip("-").isdigit() else None
    if name == "min.insync.replicas" and number is not None and number > REPLICATION_FACTOR:
        wanted = {"acks": -1, "min_insync_replicas": number, "replicas": REPLICATION_FACTOR}
        if NOT_ENOUGH_REPLICAS.applies(wanted, KAFKA.features_at(release)):
            return (
                f"NOT_ENOUGH_REPLICAS: {name}={value} is more than the {REPLICATION_FACTOR} "
                "replicas that there are, so that every send with acks=all is refused"
            )
        return (
            f"{name}={value} counts as {REPLICATION_FACTOR}, as there are no more: the "
            f"table has {name} of {_listed(CHOICES[name])}"
        )
    if name == "replication.factor" and number is not None and number < 1:
        return (
            f"INVALID_REPLICATION_FACTOR: {name}={value}: Replication factor must be larger than 0"
        )
    return f"{name}={value}: the table has {name} of {_listed(CHOICES[name])}"


def fits(cell: Cell, choices: dict[str, str], resolved: dict[str, object]) -> bool:
    """Whether a cell is one of those with these choices, and with what a producer makes of its
    settings, as far as it has some."""
    isolation = "read_committed" if cell.read_committed else "read_uncommitted"
    at: dict[str, str] = {
        "min.insync.replicas": str(cell.min_isr),
        "replication.factor": str(REPLICATION_FACTOR),
        "unclean.leader.election.enable": str(cell.unclean).lower(),
        "commit": cell.commit,
    }
    if cell.transactions:
        at["isolation.level"] = isolation
    if any(at.get(name, value) != value for name, value in choices.items()):
        return False
    if not resolved:
        return True
    plain = not resolved["enable.idempotence"]
    several = resolved["max.in.flight.requests.per.connection"] != 1
    return (
        cell.acks == resolved["acks"]
        and cell.idempotence is not plain
        and cell.transactions is (resolved["transactional.id"] is not None)
        and (not plain or cell.acks == 0 or cell.retries is (resolved["retries"] != 0))
        and (not plain or not cell.retries or (cell.in_flight > 1) is several)
    )
