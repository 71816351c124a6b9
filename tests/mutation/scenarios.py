"""Small runs of the shipped systems, with which mutants are compared.

`baseline.tsv` has a line for each: its size, a digest of how often rows are taken, and the
properties that don't hold. It is a test of its own: a row that does something else shows in the
counts, even where no property notices. `python tests/mutation/run.py --baseline` renews it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from epochfence.checker.check import Options, check
from epochfence.checker.native.search.explore import Progress
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import DEFAULT, Instance, System, instantiate
from epochfence.spec.systems import SHIPPED, shipped

BASELINE = Path(__file__).parent / "baseline.tsv"
SMALL = "small"
MEMORY = 4 << 30
MOST_STATES = 3_000_000


@dataclass(frozen=True)
class Scenario:
    """A run of a system: a release, the system's bounds of the name "small" (its defaults, where it
    names none), constants on top of them, and features switched on and off."""

    protocol: str
    constants: tuple[tuple[str, int], ...] = ()
    on: tuple[str, ...] = ()
    off: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [self.protocol, *(f"{name}={value}" for name, value in self.constants)]
        parts += [f"with {name}" for name in self.on]
        return ", ".join([*parts, *(f"without {name}" for name in self.off)])

    def instance(self, system: System, properties: tuple[str, ...] | None = None) -> Instance:
        """The system settled."""
        bounds = SMALL if SMALL in system.bound_names else DEFAULT
        return instantiate(
            system, self.protocol, dict(self.constants), bounds=bounds, switch_on=self.on,
            switch_off=self.off, properties=properties,
        )  # fmt: skip


ONE_CLIENT = (("producers", 1), ("faults", 2))
ONE_TRANSACTION = (("transactions", 1),)
THREE_BLOCKS = (("block_size", 2), ("largest_producer_id", 6), ("faults", 1))
ONE_HANDLER = (("handlers", 1), *THREE_BLOCKS)
FORGETFUL_LEADER = (*ONE_CLIENT, *ONE_TRANSACTION, ("deletions", 1), ("producer_expiries", 1))
TWO_RECORDS = (("producers", 1), *ONE_TRANSACTION, ("records", 2), ("faults", 1))
EARLY_ENDS = (*FORGETFUL_LEADER, ("records", 2), ("early_ends", 1))
TWO_PARTITIONS = (("producers", 1), ("partitions", 2), ("transactions", 1))
# An id expires between two requests; nothing else happens to brokers.
EXPIRED_ID = (
    *TWO_PARTITIONS, ("faults", 2), ("leader_changes", 0), ("failovers", 0), ("timeouts", 0),
    ("delays", 0),
)  # fmt: skip

# Before version 2 the end of a fence that comes late is a deadlock (docs/findings.md, 8).
IN_TIME = ("late_fence_end_refused",)
# What no release of the idempotent client does, so that its properties hold (docs/findings.md).
MENDED = ("bump_when_settled", "renumbered_under_new_id", "idempotent_starts_at_0")
ONE_PARTITION = (("partitions", 1), ("faults", 3))
OTHER_PARTITION = (("partitions", 2), ("records", 2))  # whose epoch goes on meanwhile
FORGETFUL = (*ONE_PARTITION, ("producer_expiries", 1))

WITHOUT_ID = ("transactional",)
KNOWN = (("oldest_transaction_version", 2),)  # which these clients don't look at

WHAT_FAILS = (("power_losses", 1), ("unclean_elections", 1), ("min_insync_replicas", 1))
ONE_RECORD = (("replicas", 3), ("records", 1))
POWER_LOSS = (("power_losses", 1), ("crashes", 0))
BY_HIGH_WATERMARK = ("truncated_by_epoch",)

THREE_MEMBERS = (("producers", 3),)
ONE_INSTANCE = (("producers", 1), ("faults", 1))

NO_IDEMPOTENCE = ("idempotence", 0)
A_RECORD = ("records", 1)
SENT_AGAIN = (("sessions", 2), A_RECORD, ("consumer_crashes", 1))
IN_A_TRANSACTION = (("transactional_id", 1), ("read_committed", 1), ("extra_entries", 3))

# The scenarios of a system, small ones first; `scenarios` says what others are run with.
CHOSEN: dict[str, tuple[Scenario, ...]] = {
    "transactions": (
        Scenario("4.3", TWO_RECORDS),
        Scenario("4.3", TWO_PARTITIONS),
        Scenario("4.3", FORGETFUL_LEADER),
        Scenario("4.0.0", ONE_TRANSACTION),
        Scenario("2.0", ONE_TRANSACTION, IN_TIME),
        Scenario("3.5", EARLY_ENDS, IN_TIME),
        Scenario("3.5", EXPIRED_ID, IN_TIME),
        Scenario("4.3", ONE_CLIENT),
        Scenario("4.3"),
        Scenario("0.11.0.0", (*ONE_CLIENT, *ONE_TRANSACTION), IN_TIME),
        Scenario("2.5", ONE_CLIENT, IN_TIME),
        Scenario("3.6", ONE_CLIENT, IN_TIME),
    ),
    "idempotence": (
        Scenario("4.3", ONE_PARTITION, MENDED),
        Scenario("4.3", (*ONE_PARTITION, ("in_flight", 3), ("cached_batches", 1)), MENDED),
        Scenario("4.3", (*FORGETFUL, ("producer_ids", 2)), MENDED),
        Scenario("2.5", FORGETFUL),
        Scenario("2.5", OTHER_PARTITION),
        Scenario("2.0", (*FORGETFUL, ("producer_ids", 2))),
        Scenario("0.11.0.2", (*ONE_PARTITION, ("producer_ids", 2))),
    ),
    "calls": (
        Scenario("4.3"),
        Scenario("3.9", KNOWN),
        Scenario("3.6", KNOWN),
        Scenario("3.5", KNOWN),
        Scenario("2.0", KNOWN),
        Scenario("4.3", off=WITHOUT_ID),
        Scenario("2.0", off=WITHOUT_ID),
        Scenario("4.3", (*KNOWN, ("oldest_version", 2))),
        Scenario("3.2", KNOWN),
        Scenario("4.4"),
    ),
    "producer-ids": (
        Scenario("4.3", ONE_HANDLER),
        Scenario("3.5", ONE_HANDLER),
        Scenario("2.7", THREE_BLOCKS, ("block_current_once_written",)),
    ),
    "replication": (
        Scenario("4.3"),
        Scenario("4.3", (("acks", 0),)),
        Scenario("4.3", (("acks", 1), *WHAT_FAILS)),
        Scenario("4.3", WHAT_FAILS),
        Scenario("4.3", WHAT_FAILS, off=BY_HIGH_WATERMARK),
        Scenario("1.1", WHAT_FAILS),
        Scenario("3.6", (("unclean_elections", 1),)),
        Scenario("4.3", POWER_LOSS),
        Scenario("4.3", (*ONE_RECORD, *POWER_LOSS, ("leader_epochs", 2))),
        Scenario("2.0", (*ONE_RECORD, ("crashes", 0))),
        Scenario("4.3", ONE_RECORD),
    ),
    "exactly-once": (
        Scenario("4.3", ONE_INSTANCE),
        Scenario("4.3", (("producers", 1), ("own_id", 1))),
        Scenario("4.3", (("producers", 1), ("faults", 1))),
        Scenario("3.8", ONE_INSTANCE, IN_TIME),
        Scenario("2.4", ONE_INSTANCE, IN_TIME),
        Scenario("4.3"),
        Scenario("4.0.0", ONE_INSTANCE),
        Scenario("0.11.0.0", ONE_INSTANCE, IN_TIME),
    ),
    "delivery": (
        Scenario("4.3", (NO_IDEMPOTENCE, ("acks", 0), ("retries", 0), A_RECORD)),
        Scenario("4.3", (NO_IDEMPOTENCE, ("acks", 1), ("retries", 0), A_RECORD)),
        Scenario("4.3", (("offsets", 1), ("crashes", 0))),
        Scenario("4.3", (("offsets", 1), ("consumer_crashes", 1), A_RECORD)),
        Scenario("1.1", (A_RECORD, ("unclean_elections", 1), ("min_insync_replicas", 1))),
        Scenario("4.3"),
        Scenario("4.3", (*SENT_AGAIN, ("extra_entries", 2))),
        Scenario("4.3", (*SENT_AGAIN, *IN_A_TRANSACTION, ("offsets", 2))),
        Scenario("4.3", (NO_IDEMPOTENCE, ("acks", 1), ("min_insync_replicas", 1))),
        Scenario("4.3", (("leader_epochs", 3),)),
    ),
    "reading": (
        Scenario("4.3", (("entries", 4), ("leader_changes", 0))),
        Scenario("4.3"),
        Scenario("2.4", (("producer_ids", 1), ("entries", 3), ("cleanings", 0))),
        Scenario("2.1", (("producer_ids", 1), ("entries", 3), ("segment", 1))),
        Scenario("4.3", (("producer_ids", 1), ("entries", 6), ("cleanings", 2))),
        Scenario("4.3", (("producer_ids", 1), ("entries", 4), ("partial_cleanings", 1))),
        Scenario("2.7", (("producer_ids", 1), ("entries", 4), ("partial_cleanings", 1))),
    ),
    "membership": (
        Scenario("4.3"),
        Scenario("1.1"),
        Scenario("2.0", THREE_MEMBERS),
        Scenario("4.3", THREE_MEMBERS),
        Scenario("2.4", THREE_MEMBERS),
        Scenario("3.1", THREE_MEMBERS),
        Scenario("2.6"),
    ),
    "group-offsets": (
        Scenario("4.4"),
        Scenario("3.8"),
        Scenario("3.8", (("refusals", 0),)),
        Scenario("0.11.0.0", (("refusals", 0),)),
        Scenario("4.4", (("offset_records", 4),)),
        Scenario("4.3"),
    ),
    "authorization": (
        Scenario("4.3"),
        Scenario("2.0"),
        Scenario("0.11.0.0"),
        Scenario("2.8"),
    ),
}


def scenarios(system: System) -> tuple[Scenario, ...]:
    """Those chosen, or the newest and the oldest release."""
    releases = system.protocols.releases
    ends = dict.fromkeys((releases[-1], releases[0]))
    return CHOSEN.get(system.name, tuple(map(Scenario, ends)))


class Recorded(NamedTuple):
    """A line of the baseline: the size of a search, a digest of how often rows are taken, whatever
    their names, and the properties that are broken."""

    states: int
    transitions: int
    depth: int
    rows: str
    broken: tuple[str, ...]


@dataclass(frozen=True)
class Counts:
    """The result of a scenario: which properties hold, and the search's size.

    `rows` has every row that there is, with how often it is taken.
    """

    holds: tuple[str, ...]
    broken: tuple[str, ...]
    states: int
    transitions: int
    depth: int
    rows: Mapping[str, int]

    @property
    def taken(self) -> set[str]:
        """The rows that are taken, however often."""
        return {name for name, count in self.rows.items() if count}

    @property
    def recorded(self) -> Recorded:
        """The counts as the baseline has them."""
        often = " ".join(map(str, sorted(filter(None, self.rows.values()))))
        digest = sha256(often.encode()).hexdigest()[:16]
        return Recorded(self.states, self.transitions, self.depth, digest, self.broken)


@dataclass(frozen=True, eq=False)
class Trial:
    """A scenario of a system, and its result without a fault, as recorded."""

    system: System
    scenario: Scenario
    recorded: Recorded

    def __str__(self) -> str:
        return f"{self.system.name} {self.scenario}"

    @property
    def holds(self) -> tuple[str, ...]:
        """The properties that hold."""
        names = (item.name for item in self.system.properties)
        return tuple(name for name in names if name not in self.recorded.broken)

    @cached_property
    def row_names(self) -> frozenset[str]:
        """The rows that there are."""
        return frozenset(self.scenario.instance(self.system, self.holds).row_names)

    @cached_property
    def counts(self) -> Counts:
        """The result of a run. Raises RuntimeError if it isn't the recorded one."""
        result = run(self.scenario.instance(self.system, self.holds))
        counts = found(result, self.holds, self.recorded.broken)
        if result.verdict is not Verdict.HOLDS or counts.recorded != self.recorded:
            raise RuntimeError(
                f"{self}: {counts.recorded}, and not {self.recorded} "
                f"({result.reason or result.verdict.name}): "
                "python tests/mutation/run.py --baseline records it, if the change is meant"
            )
        return counts


class TooLargeError(Exception):
    """A run has gone beyond what any scenario may take."""


def run(instance: Instance, most_states: int = MOST_STATES) -> Result:
    """The instance checked on one thread. Raises TooLargeError beyond `most_states`."""

    def watch(progress: Progress) -> None:
        if progress.states > most_states:
            raise TooLargeError

    result = check(instance, Options(threads=1, memory=MEMORY, brief=True), watch)
    if result.verdict is Verdict.INCONCLUSIVE:
        raise TooLargeError
    return result


def counted(system: System, scenario: Scenario) -> Counts:
    """The scenario run without those properties that don't hold in it.

    Raises ValueError where it is at fault in another way.
    """
    holds = [item.name for item in system.properties]
    while True:
        result = run(scenario.instance(system, tuple(holds)))
        if result.verdict is Verdict.HOLDS:
            break
        broken = {item.name for item in result.properties if item.verdict == "broken"}
        if not broken & set(holds):
            raise ValueError(f"{system.name} {scenario}: {result.reason}")
        holds = [name for name in holds if name not in broken]
    broken = tuple(item.name for item in system.properties if item.name not in holds)
    return found(result, tuple(holds), broken)


def found(result: Result, holds: tuple[str, ...], broken: tuple[str, ...]) -> Counts:
    """What a run without a fault came to."""
    size = (result.states, result.transitions, result.depth)
    return Counts(holds, broken, *size, dict(result.rows))


@cache
def baseline() -> dict[tuple[str, str], Recorded]:
    """The recorded results, by system and scenario."""
    lines = BASELINE.read_text(encoding="utf-8").splitlines()
    return dict(map(_read, (line.split("\t") for line in lines)))


def _read(cells: list[str]) -> tuple[tuple[str, str], Recorded]:
    system, scenario, states, transitions, depth, rows, broken = cells
    sizes = int(states), int(transitions), int(depth)
    return (system, scenario), Recorded(*sizes, rows, tuple(filter(None, broken.split(" "))))


def trials(system: System) -> list[Trial]:
    """The system's scenarios, as recorded."""
    return [Trial(system, each, baseline()[system.name, str(each)]) for each in scenarios(system)]


def rows_taken(system: System) -> set[str]:
    """The rows that some scenario of the system takes. Raises RuntimeError where a run's result
    isn't the recorded one."""
    return {name for trial in trials(system) for name in trial.counts.taken}


def renew_baseline(names: Iterable[str] = SHIPPED) -> None:
    """Runs every scenario of the systems with these names, and records its result."""
    every = baseline() if BASELINE.exists() else {}
    for system in map(shipped, names):
        kept = {key: old for key, old in every.items() if key[0] != system.name}
        new = {(system.name, str(s)): counted(system, s).recorded for s in scenarios(system)}
        every = kept | new
    order = list(SHIPPED)
    lines = [
        "\t".join((*key, *map(str, one[:4]), " ".join(one.broken)))
        for key, one in sorted(every.items(), key=lambda item: order.index(item[0][0]))
    ]
    BASELINE.write_text("\n".join(lines) + "\n", encoding="utf-8")
