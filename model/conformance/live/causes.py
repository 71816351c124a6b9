"""The causes behind the disagreements of a run, the worst first."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from ..difference import Difference
from ..session import DisagreementError

Rank = Literal["lost or duplicated data", "fencing", "no answer", "wrong error", "a field"]
RANKS: Final[tuple[Rank, ...]] = (
    "lost or duplicated data", "fencing", "no answer", "wrong error", "a field"
)  # fmt: skip
"""The kinds of causes, the worst first."""
FENCES: Final = frozenset(
    ("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "TRANSACTION_COORDINATOR_FENCED",
     "INVALID_PRODUCER_ID_MAPPING", "FENCED_INSTANCE_ID")
)  # fmt: skip
"""The errors that fence the sender of a request."""
APPENDS: Final = frozenset(("Produce", "TxnOffsetCommit", "WriteTxnMarkers"))
"""The requests that write to a log."""
OF_LOGS: Final = frozenset(("batches", "base_offset", "last_stable_offset", "offset"))
"""The fields that show a log's content, and the readable part of it."""
IDENTITY: Final = frozenset(("producer_id", "producer_epoch"))
_SOURCE = re.compile(r"^(.*?, row .*?)(?: \([^()]*\))?$")
_NONE: Final = "NONE"


@dataclass
class Finding:
    """A disagreement, with the smallest run that shows it. `suite` found it `count` times.
    `is_repeated`: whether the same requests show it again (None: not tried)."""

    suite: str
    disagreement: DisagreementError
    count: int = 1
    is_repeated: bool | None = None

    @property
    def difference(self) -> Difference:
        """The disagreement without its numbers."""
        return Difference.of(self.disagreement)


@dataclass(frozen=True)
class Cause:
    """The disagreements with one cause. `name` is a line about the cause, as `--known` takes it."""

    rank: Rank
    name: str
    findings: tuple[Finding, ...]

    @property
    def count(self) -> int:
        """The number of times that they occurred."""
        return sum(finding.count for finding in self.findings)

    @property
    def rows(self) -> list[str]:
        """The rows that a broker doesn't follow, with their sources."""
        return sorted({row for finding in self.findings for row in finding.difference.rows})


def causes(findings: Iterable[Finding]) -> list[Cause]:
    """The causes of disagreements: the worst kind first, and within a kind the most frequent."""
    found: dict[tuple[Rank, str], list[Finding]] = {}
    for finding in findings:
        key = rank_of(finding.disagreement), name_of(finding.disagreement)
        found.setdefault(key, []).append(finding)
    every = [Cause(rank, name, tuple(those)) for (rank, name), those in found.items()]
    return sorted(every, key=lambda one: (RANKS.index(one.rank), -one.count, one.name))


def rank_of(found: DisagreementError) -> Rank:
    """The kind of a disagreement."""
    difference, error = Difference.of(found), _error(found)
    if found.no_answer is not None:
        return "no answer"
    if error is None or error in difference.expected:
        fields = {given.partition(":")[0] for given in difference.given}
        if error not in (None, _NONE):
            return "a field"
        if fields & OF_LOGS:
            return "lost or duplicated data"
        return "fencing" if fields and fields <= IDENTITY else "a field"
    if error != _NONE:
        return "wrong error"
    request = difference.request.split()[0]
    if difference.expected <= FENCES:
        return "fencing"
    if request == "InitProducerId" and "CONCURRENT_TRANSACTIONS" in difference.expected:
        return "fencing"
    return "lost or duplicated data" if request in APPENDS else "wrong error"


def name_of(found: DisagreementError) -> str:
    """The name of a disagreement's cause: the row that should decide, and the actual answer. If one
    refusal replaces another, or has a wrong field, all rows have the same cause."""
    difference, error = Difference.of(found), _error(found)
    if found.no_answer is not None:
        return f"{difference.request}: {difference.given[0]}"
    given = ", ".join(difference.given)
    if error is None or error in difference.expected:
        if error in (None, _NONE):
            return f"{_rows(difference) or difference.request}: {given}"
        return f"{difference.request}: a refusal's {given}"
    expected = " or ".join(sorted(difference.expected))
    if _NONE in difference.expected or error == _NONE:
        return f"{_rows(difference) or difference.request}: {error} instead of {expected}"
    return f"{error} instead of {expected}"


def changes_nothing(found: DisagreementError) -> bool:
    """Whether both answers are refusals: the states after them are the same."""
    error = _error(found)
    return (
        found.no_answer is None
        and error not in (None, _NONE)
        and _NONE not in Difference.of(found).expected
    )


def is_known(found: DisagreementError, known: Collection[str]) -> str | None:
    """The line of `known` that names a disagreement: its cause, or the deciding row. None: no line
    does."""
    for name in (name_of(found), _rows(Difference.of(found))):
        if name in known:
            return name
    return None


def known_in(text: str) -> list[str]:
    """The lines of a file of known differences, without comments."""
    lines = (line.partition(" #")[0].strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _error(found: DisagreementError) -> str | None:
    response: Mapping[str, Any] = found.trace[-1].response or {}
    error = response.get("error")
    return None if error is None else str(error)


def _rows(difference: Difference) -> str:
    """The deciding rows, without their sources: the first row of each allowed answer."""
    names = {row.split(", then ")[0] for row in difference.rows}
    return " or ".join(sorted(_SOURCE.sub(r"\1", name) for name in names))
