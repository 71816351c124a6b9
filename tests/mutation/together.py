"""Many mutants in one system, compiled once: a field that only the initial state decides chooses
which of their faults is there.

A row of the system then has the faults of all its mutants, each where the field has its number:
0 is the system without a fault. Two rows are swapped by a further condition on the upper one, that
the lower one's guard doesn't hold. A leaf that only one of the faults changes or reads is a leaf of
all runs; so the one without a fault has to come to what is recorded, for the others to count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace

import numpy as np

from epochfence import language as lang
from epochfence.checker.ground.graph import Node
from epochfence.checker.native.codegen.sharing import DEADLOCK, Flags
from epochfence.checker.native.search.explore import Explorer, Progress, search
from epochfence.checker.prepare import prepare
from epochfence.language import Expression, Machine, Row, Sending, System, Table
from epochfence.tests.mutation.mutants import Mutant, Place
from epochfence.tests.mutation.scenarios import (
    MEMORY,
    MOST_STATES,
    Counts,
    TooLargeError,
    Trial,
)

NAME, FIELD = "mutation", "chosen"
CHOSEN = f"{NAME}.{FIELD}"
AT_ONCE = 128  # mutants in one system: each is a part of its code


def together(system: System, mutants: list[Mutant]) -> System:
    """The system with mutants, numbered from 1 on in the order in which they are given."""
    machine = Machine(NAME)
    chosen = machine.field(FIELD, lang.Int(0, len(mutants)), any_initial=True)
    tables: dict[Table, dict[int, Place]] = {}
    for number, mutant in enumerate(mutants, 1):
        for place in mutant.within(system):
            tables.setdefault(place.table, {})[number] = place
    changed = {
        table: replace(
            table, rows=_Merger(chosen, table, faults).rows(), others=(*table.others, machine)
        )
        for table, faults in tables.items()
    }
    return replace(system, tables=tuple(changed.get(table, table) for table in system.tables))


class _Merger:
    """The rows of a table with its mutants' faults, each where the field `chosen` is its number."""

    def __init__(self, chosen: Expression, table: Table, faults: Mapping[int, Place]) -> None:
        self.chosen = chosen
        self.table = table
        self.faults = faults

    def rows(self) -> tuple[Row, ...]:
        rows = [{0: row} for row in self.table.rows]
        for number, place in self.faults.items():
            at = place.at
            if len(place.touched) == 2:
                upper, lower = (row[0] for row in rows[at : at + 2])
                rows[at][number] = replace(upper, when=upper.guard & ~lower.guard)
            else:
                rows[at][number] = place.rows[at]
        return tuple(map(self.row, rows))

    def row(self, variants: Mapping[int, Row]) -> Row:
        """A row that is each of these where its number is chosen, and the one of 0 elsewhere."""
        row = variants[0]
        if len(variants) == 1:
            return row
        updates = {number: dict(self.table.updates(one)) for number, one in variants.items()}
        sent = {number: self.table.sendings(one) for number, one in variants.items()}
        return replace(
            row,
            when=self.choice({number: one.guard for number, one in variants.items()}),
            goto=None,
            set={
                target: self.choice({n: each.get(target, target) for n, each in updates.items()})
                for target in updates[0]
            },
            reply=None,
            send=tuple(
                self.sending({number: _at(place, sent[0], each) for number, each in sent.items()})
                for place in range(len(sent[0]))
            ),
        )

    def sending(self, variants: Mapping[int, Sending | None]) -> Sending:
        """A message that is each of these, or isn't sent, where its number is chosen."""
        sending = variants[0]
        assert sending is not None
        when = sending.when
        for number, each in variants.items():
            if each is None:
                when &= self.chosen != number
        fields = {number: dict(each.fields) for number, each in variants.items() if each}
        return replace(
            sending,
            fields=tuple(
                (name, self.choice({number: each[name] for number, each in fields.items()}))
                for name, _ in sending.fields
            ),
            when=when,
        )

    def choice(self, variants: Mapping[int, Expression]) -> Expression:
        value = variants[0]
        for number, other in variants.items():
            if other is not variants[0]:  # equal trees are one object
                value = lang.if_(self.chosen == number, other, value)
        return value


def _at(place: int, sent: tuple[Sending, ...], those: tuple[Sending, ...]) -> Sending | None:
    """What one of the messages `sent` is among `those`, where one of them may be missing."""
    if len(those) == len(sent):
        return those[place]
    kept = (at for at, pair in enumerate(zip(sent, those, strict=False)) if pair[0] != pair[1])
    missing = next(kept, len(those))
    return None if place == missing else sent[place]


class Compiled:
    """A scenario's system with mutants, ready to be run with one of them at a time."""

    def __init__(self, trial: Trial, mutants: list[Mutant], *, slicing: bool = True) -> None:
        system = together(trial.system, mutants)
        self.prepared = prepare(trial.scenario.instance(system, trial.holds), slicing=slicing)
        self.holds, self.broken = trial.holds, trial.recorded.broken
        (self.leaf,) = (x.index for x in self.prepared.grounded.leaves if x.name == CHOSEN)

    def run(self, number: int, most_states: int = MOST_STATES) -> tuple[str, Counts]:
        """What is broken, if anything is, and what a run with that mutant (0: without a fault)
        comes to. Raises TooLargeError."""

        def watch(progress: Progress) -> None:
            if progress.states > most_states:
                raise TooLargeError

        with self._started(number) as explorer:
            search(explorer, on_level=watch, on_round=watch)
            found = explorer.found
        if found.stopped:
            raise TooLargeError
        rows = dict(zip(self.prepared.instance.row_names, found.taken, strict=True))
        size = (found.states, found.transitions, found.depth)
        return self._broken(found.wrong), Counts(self.holds, self.broken, *size, rows)

    def levels(self, number: int, like: list[str] | None = None) -> list[str] | None:
        """A digest of the states of each level; none where they aren't those of `like`."""
        digests: list[str] = []
        with self._started(number) as explorer:

            def note(progress: Progress) -> None:
                digests.append(self._digest(explorer, progress.depth - 1))
                if like is not None and digests != like[: len(digests)]:
                    raise _Unlike

            try:
                search(explorer, on_level=note)
                digests.append(str(explorer.found.transitions))
            except _Unlike:
                return None
        return digests if like is None or digests == like else None

    @contextmanager
    def _started(self, number: int) -> Iterator[Explorer]:
        """An explorer with the initial states of that mutant."""
        ready = self.prepared
        initials = [v for v in ready.grounded.initials if v[self.leaf] == number]
        ready = replace(ready, grounded=replace(ready.grounded, initials=initials))
        rows = len(ready.instance.row_names)
        with closing(Explorer(ready.kernel, ready.packing.stride, rows, 1, MEMORY)) as explorer:
            explorer.insert(ready.initials())
            explorer.begin_level()
            yield explorer

    def _broken(self, wrong: Mapping[int, tuple[int, list[bytes]]]) -> str:
        """The first property that doesn't hold in the last level, or what else is wrong there."""
        invariants = Flags(self.prepared.instance).invariants
        states = [
            state for flag, (_, least) in wrong.items() if flag & invariants for state in least
        ]
        if not wrong:
            return ""
        if not states:
            return "deadlock" if DEADLOCK in wrong else "a step"
        state = min(states)
        graph, numbers = self.prepared.grounded.graph, self._numbers(state)
        invariants = (p for p in self.prepared.instance.properties if p.kind == "invariant")
        return next(
            item.name
            for item, node in zip(invariants, self.prepared.grounded.invariants, strict=True)
            if graph.substitute(node, numbers) is graph.false
        )

    def _numbers(self, state: bytes) -> dict[int, Node]:
        """The leaves of a packed state, as nodes."""
        grounded, packing = self.prepared.grounded, self.prepared.packing
        bits = int.from_bytes(state, "little")
        numbers: dict[int, Node] = {}
        for index, place in packing.places.items():
            number = (bits >> 64 * place.word + place.shift & (1 << place.width) - 1) + place.low
            truth = isinstance(grounded.leaves[index].type, lang.Bool)
            graph = grounded.graph
            numbers[index] = graph.truth(bool(number)) if truth else graph.number(number)
        return numbers

    def _digest(self, explorer: Explorer, level: int) -> str:
        """Of the states of a level, without the number of the mutant."""
        packing = self.prepared.packing
        place = packing.places[self.leaf]
        kept = ~(place.mask << 64 * place.word) & (1 << 64 * packing.words) - 1
        mask = np.frombuffer(kept.to_bytes(8 * packing.words, "little"), dtype=np.uint8)
        every = np.frombuffer(b"".join(explorer.level_bytes(level)), dtype=np.uint8)
        states = every.reshape(-1, packing.stride) & mask[: packing.stride]
        ordered = np.sort(states.view(f"S{packing.stride}"), axis=0)
        return hashlib.sha256(ordered.tobytes()).hexdigest()


class _Unlike(Exception):
    """A level has other states than it should."""
