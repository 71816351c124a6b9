"""Judges consume-process-produce by input: the transactions that took each input, and the inputs
that the committed offset passed.

An input is an offset of a partition. A record without inputs that was sent in several transactions
counts as an input itself.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import Any, NamedTuple

from ..histories import BadLineError


class Place(NamedTuple):
    """A line of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}"


class Input(NamedTuple):
    """An input: its offset, or (-1) the name of the record that counts as the input."""

    partition: str
    offset: int
    record: str = ""

    @property
    def subject(self) -> str:
        """The input's name in its partition."""
        return self.record or f"offset {self.offset}"


class Known(Enum):
    """The truth of a statement, as far as it is known."""

    NO = 0
    MAYBE = 1
    YES = 2


class Take(NamedTuple):
    """A line about a transaction that takes an input. `record` is the output; None: the input has
    no output."""

    transaction: str
    place: Place
    partition: str = ""
    record: str | None = None
    outcome: str = "acknowledged"


class Commit(NamedTuple):
    """An offset that a transaction commits for a partition: the offset of the next input."""

    offset: int
    outcome: str
    place: Place


class Finding(NamedTuple):
    """An input that is wrong or can't be judged (`reason`), with the lines that show it, the main
    one first."""

    name: str
    input: Input
    lines: tuple[Place, ...]
    reason: str = ""


class Reads:
    """The content of partitions as consumers read it: the reads of each record, and the partitions
    that were read to their ends. `outcomes` has the outcome of each transaction."""

    def __init__(
        self,
        found: Mapping[tuple[str, str], list[Place]],
        caught_up: set[str],
        outcomes: Mapping[str, str | None],
    ) -> None:
        self.found, self.caught_up, self.outcomes = found, caught_up, outcomes
        self.shown: dict[str, Place] = {}
        self.lacks: set[str] = set()
        self._read: set[Place] = set()

    def compare(self, partition: str, record: str, takes: list[Take]) -> None:
        """Compares a record's sends to a partition, in transactions, with its reads. If there are
        as many reads as transactions that may be committed, all of these are committed. If an
        acknowledged record is missing from the reads, because they are those of other committed
        transactions, its transaction isn't committed."""
        reads = self.found.get((partition, record), [])
        live = [t for t in takes if self.outcomes[t.transaction] != "aborted"]
        if len(takes) == 1 or (live and len(reads) >= len(live)):
            for take, read in zip(takes if len(takes) == 1 else live, reads, strict=False):
                self.shown.setdefault(take.transaction, read)
                self._read.add(take.place)
        kept = {t.transaction for t in live if t.outcome == "acknowledged"}
        committed = {name for name in kept if self.outcomes[name] == "committed"}
        if partition in self.caught_up and len(reads) <= len(committed):
            self.lacks |= kept - committed

    def is_committed(self, transaction: str) -> Known:
        """Whether a transaction is committed, as far as its end or its records show."""
        outcome = self.outcomes[transaction]
        if outcome == "committed" or (outcome != "aborted" and transaction in self.shown):
            return Known.YES
        is_out = outcome == "aborted" or transaction in self.lacks
        return Known.NO if is_out else Known.MAYBE

    def is_taken(self, take: Take) -> Known:
        """Whether this line takes the input, if its transaction is committed."""
        if take.record is None or take.outcome == "acknowledged" or take.place in self._read:
            return Known.YES
        is_there = bool(self.found.get((take.partition, take.record)))
        is_out = take.partition in self.caught_up and not is_there
        return Known.NO if is_out else Known.MAYBE


@dataclass
class _Judged:
    """An input, and the transactions that took it, each with its line: certainly, if they are
    committed, and perhaps."""

    input: Input
    certain: dict[str, Place]
    if_committed: dict[str, Place]
    unknown: dict[str, Place]


class Inputs:
    """A history's lines about inputs. Raises BadLineError for a line that contradicts an earlier
    one."""

    def __init__(self) -> None:
        self.takes: dict[Input, dict[str, list[Take]]] = {}
        self.commits: dict[str, dict[str, Commit]] = {}
        self.group_of: dict[str, tuple[str, Place]] = {}
        self.unnamed: set[str] = set()
        self.named: set[str] = set()
        self.started: dict[tuple[str, str], int] = {}
        self.unclear: dict[str, Place] = {}
        self._group: dict[str, str] = {}
        self._only: str | None = ""

    @property
    def partitions(self) -> set[str]:
        """The partitions of the inputs."""
        return self.named | self.commits.keys()

    def take(self, line: Mapping[str, Any], take: Take) -> None:
        """Takes a line with the inputs of a transaction."""
        for partition, offsets in line["inputs"].items():
            self.named.add(partition)
            for offset in offsets:
                self._take(Input(partition, offset), take)

    def stands_for_itself(self, record: str, takes: Sequence[Take]) -> None:
        """Counts a record as an input: it has no inputs and was sent in several transactions."""
        for take in takes:
            self._take(Input(takes[0].partition, -1, record), take)

    def _take(self, of: Input, take: Take) -> None:
        known = self.takes.setdefault(of, {}).setdefault(take.transaction, [])
        if known and (known[0].record is None) != (take.record is None):
            what = f"{of.subject} of {of.partition} has and lacks a record ({known[0].place})"
            remedy = "write filter only for inputs without a record"
            raise BadLineError(take.place.file, take.place.line, what, remedy)
        known.append(take)

    def commit(self, line: Mapping[str, Any], place: Place) -> None:
        """Takes a line with an offset that a transaction commits. A later line replaces an earlier
        one."""
        name, group = line["transaction"], line.get("group", "")
        known, where = self.group_of.setdefault(name, (group, place))
        if known != group:
            what = f"transaction {name} commits for the group {known or '(none)'} ({where})"
            raise BadLineError(place.file, place.line, what, "give a transaction one group")
        found = Commit(line["offset"], line["outcome"], place)
        self.commits.setdefault(line["partition"], {})[name] = found

    def start(self, group: str, partition: str, offset: int) -> None:
        """Notes that a member of a group read an input. The group must take all inputs from there
        on."""
        key = group, partition
        self.started[key] = min(offset, self.started.get(key, offset))

    # Findings -------------------------------------------------------------------------------------

    def findings(
        self, reads: Reads, there: Mapping[str, Mapping[int, tuple[str, int, str]]]
    ) -> Iterator[Finding]:
        """All inputs that are wrong or can't be judged. `there` has the read records of each
        partition, by offset."""
        groups = {group for group, _ in self.group_of.values()} or {""}
        self._group = {name: group for name, (group, _) in self.group_of.items()}
        self._only = next(iter(groups)) if len(groups) == 1 else None
        judged: dict[tuple[str, str], dict[int, _Judged]] = defaultdict(dict)
        unclear: dict[str, Place] = {}
        for of, takes in self.takes.items():
            mine: dict[str, dict[str, list[Take]]] = defaultdict(dict)
            for name, lines in takes.items():
                group = self._group.get(name, self._only)
                if group is not None:
                    mine[group][name] = lines
                elif reads.is_committed(name) is not Known.NO:
                    unclear.setdefault(name, lines[0].place)
            for group, those in mine.items():
                one = self._judged(of, those, reads)
                yield from self._twice(one, reads)
                if of.offset >= 0:
                    judged[group, of.partition][of.offset] = one
        for name, place in unclear.items():
            reason = f"transaction {name} names inputs and no group: write its commit_offset"
            yield Finding("", Input("", -1), (place,), reason)
        self.unclear = unclear
        self.unnamed |= unclear.keys()
        commits: dict[tuple[str, str], dict[str, Commit]] = defaultdict(dict)
        for partition, by_name in self.commits.items():
            for name, commit in by_name.items():
                if commit.outcome != "failed":
                    commits[self._group[name], partition][name] = commit
        for key in sorted(judged.keys() | commits.keys()):
            named, offsets = judged.get(key, {}), commits.get(key, {})
            if named and offsets:
                yield from self._skipped(key, named, offsets, reads, there.get(key[1], {}))
            else:
                yield from self._without(key[1], named, offsets)

    def _judged(self, of: Input, takes: Mapping[str, list[Take]], reads: Reads) -> _Judged:
        found = _Judged(of, {}, {}, {})
        for name, lines in takes.items():
            is_committed = reads.is_committed(name)
            taken = max(lines, key=lambda take: reads.is_taken(take).value)
            is_taken = reads.is_taken(taken)
            if Known.NO in (is_committed, is_taken):
                continue
            if is_taken is not Known.YES:
                found.unknown[name] = taken.place
            elif is_committed is Known.YES:
                found.certain[name] = taken.place
            else:
                found.if_committed[name] = taken.place
        return found

    def _twice(self, one: _Judged, reads: Reads) -> Iterator[Finding]:
        """The finding for an input that two committed transactions took, or may have taken."""
        if len(one.certain) > 1:
            lines = [*one.certain.values()]
            shown = [reads.shown[name] for name in one.certain if name in reads.shown]
            yield Finding("PROCESSED_TWICE", one.input, (lines[1], lines[0], *lines[2:], *shown))
        elif one.certain and (one.if_committed or one.unknown):
            (first,) = one.certain
            name, place = next(iter((one.if_committed | one.unknown).items()))
            reason = (
                f"{first} took {one.input.subject} of {one.input.partition}, and it isn't known "
                f"whether {name} did"
            )
            yield Finding("", one.input, (place, one.certain[first]), reason)

    def _skipped(
        self, key: tuple[str, str], named: Mapping[int, _Judged], commits: Mapping[str, Commit],
        reads: Reads, there: Mapping[int, tuple[str, int, str]],
    ) -> Iterator[Finding]:  # fmt: skip
        """The findings for inputs that the group's committed offset passed, though no committed
        transaction took them. Only inputs that were read or named are known."""
        passing, partition = _Passing(commits, reads), key[1]
        starts = [*named, *(commit.offset for commit in passing.certain)]
        lowest = min((*starts, self.started.get(key, starts[0])))
        unsure = next((name for name in (*commits, *self.unclear) if name in self.unnamed), None)
        is_reported = False
        for offset in sorted(named.keys() | there.keys()):
            one = named.get(offset) or _Judged(Input(partition, offset), {}, {}, {})
            if offset < lowest or one.certain:
                continue
            passed = passing.over(offset)
            takers = {**one.if_committed, **one.unknown}
            if passed is not None and not takers and unsure is None:
                lines = [passed.place]
                lines += (t[0].place for t in self.takes.get(one.input, {}).values())
                if offset in there:
                    _, number, file = there[offset]
                    lines.append(Place(file, number))
                yield Finding("SKIPPED", one.input, tuple(lines))
            elif not is_reported and (passed or passing.may_pass(offset, one.if_committed)):
                is_reported = True
                yield Finding("", one.input, _lines(passed, takers, passing), _why(one, unsure))

    def _without(
        self, partition: str, named: Mapping[int, _Judged], commits: Mapping[str, Commit]
    ) -> Iterator[Finding]:
        """A finding with the reason why skipped inputs of a partition can't be known."""
        reason = f"nothing names the inputs of {partition}: write inputs of records, and filter"
        places = [commit.place for commit in commits.values()]
        if named:
            reason = f"no committed offset of {partition} is known: write commit_offset"
            takes = next(iter(self.takes[next(iter(named.values())).input].values()))
            places = [takes[0].place]
        yield Finding("", Input(partition, -1), (places[0],), reason)


class _Passing:
    """The offsets that transactions commit for a partition: those of certainly committed
    transactions, and those of transactions that may be committed."""

    def __init__(self, commits: Mapping[str, Commit], reads: Reads) -> None:
        self.certain: list[Commit] = []
        self.maybe: dict[str, Commit] = {}
        for name, commit in commits.items():
            known = reads.is_committed(name)
            if known is Known.YES and commit.outcome == "acknowledged":
                self.certain.append(commit)
            elif known is not Known.NO:
                self.maybe[name] = commit
        self.certain.sort(key=lambda commit: commit.offset)
        self._offsets = [commit.offset for commit in self.certain]
        self._maybe = sorted(commit.offset for commit in self.maybe.values())

    def over(self, offset: int) -> Commit | None:
        """The nearest committed offset that passed an input."""
        at = bisect_right(self._offsets, offset)
        return self.certain[at] if at < len(self.certain) else None

    def may_pass(self, offset: int, takers: Iterable[str]) -> bool:
        """Whether a transaction that may be committed passed an input, apart from those that take
        it."""
        mine = sum(name in self.maybe and self.maybe[name].offset > offset for name in takers)
        return len(self._maybe) - bisect_right(self._maybe, offset) > mine


def _lines(
    passed: Commit | None, takers: Mapping[str, Place], passing: _Passing
) -> tuple[Place, ...]:
    found = [] if passed is None else [passed.place]
    found += takers.values()
    return tuple(found) or tuple(commit.place for commit in passing.maybe.values())[:1]


def _why(one: _Judged, unsure: str | None) -> str:
    about = f"{one.input.subject} of {one.input.partition}"
    if one.if_committed or one.unknown:
        name = next(iter(one.if_committed | one.unknown))
        return f"it isn't known whether {about} was skipped, nor whether {name} took it"
    if unsure is not None:
        return f"it isn't known whether {about} was skipped: a record of {unsure} names no inputs"
    why = "the end of a transaction that may have skipped it isn't known"
    return f"it isn't known whether {about} was skipped: {why}"


def places(lines: Iterable[Place]) -> str:
    """Lines as text, grouped by file."""
    found = sorted(set(lines))
    parts: list[str] = []
    for file, those in groupby(found, key=lambda place: place.file):
        numbers = [str(place.line) for place in those]
        parts.append(f"{file}, line{'s' * (len(numbers) > 1)} {', '.join(numbers)}")
    return "; ".join(parts)
