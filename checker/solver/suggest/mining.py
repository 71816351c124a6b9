"""Candidates for lemmas: the shortest clauses that no explored state breaks, found by NumPy.

The truths of all literals, in each explored state and for each choice of instances and messages,
are a row of bits. A clause of two literals holds if both are false in no row: one matrix product
finds all such clauses.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, combinations, product
from typing import Any

import numpy as np

from ....language import Expression, Instance
from ....language.expressions import rewrite
from ....language.instances.instance import ending_anywhere
from ...ground.graph import Node, leaves_of
from ...ground.shapes import Shape, Slots
from ...native.jit.memory import fair_limit
from ...native.search.explore import Explorer, Progress, search
from ...native.search.vectors import Columns, gathered, in_words
from ...prepare import prepare
from .grammar import NEVER, Grammar, Literal, Under

MOST_STATES = 1 << 15  # states after which no further level is explored
MOST_LITERALS = 400  # that are combined for one choice of instances and messages
MOST_CANDIDATES = 20_000


class LateError(Exception):
    """The time is up."""


@dataclass(frozen=True)
class Candidate:
    """A lemma that no explored state breaks, and its literals."""

    under: Under
    literals: tuple[Literal, ...]

    @property
    def expression(self) -> Expression:
        """The lemma as an expression."""
        return self.under.lemma(self.literals)

    @property
    def effort(self) -> tuple[int, int, int]:
        """A measure of how hard the lemma is to review."""
        return len(self.literals), len(self.under.messages), len(self.under.keys)


class States:
    """The states of an instance, in breadth-first order, up to about MOST_STATES.

    `whole`: these are all states. `wrong`: the search ended at a violation.
    """

    def __init__(self, instance: Instance, threads: int) -> None:
        self.prepared = prepare(ending_anywhere(instance))
        self.grounded = self.prepared.grounded
        self.packing = self.prepared.packing
        self.explorer = Explorer(
            self.prepared.kernel,
            self.packing.stride,
            len(self.prepared.labels),
            threads,
            fair_limit(),
        )
        self.explorer.insert(self.prepared.initials())
        self.explorer.begin_level()
        with suppress(_EnoughError):
            search(self.explorer, on_level=_stop)
        self.whole = not self.explorer.frontier
        self.wrong = bool(self.explorer.found.wrong)
        self.count = self.explorer.count

    @property
    def names(self) -> set[str]:
        """The names of the variables that are stored at least partly."""
        return {str(self.grounded.leaves[at].path[0]) for at in self.packing.places}

    @property
    def unchanging(self) -> dict[str, int]:
        """The numbers of leaves that never change, by name."""
        first, leaves = self.grounded.initials[0], self.grounded.leaves
        return {leaves[at].name: first[at] for at in self.prepared.unchanging}

    def broken(self) -> set[str]:
        """The invariants that an explored state breaks."""
        items = [p.name for p in self.prepared.instance.properties if p.kind == "invariant"]
        nodes = dict(zip(items, self.grounded.invariants, strict=True))
        return {name for columns in self for name, node in nodes.items() if not columns(node).all()}

    def known(self, node: Node) -> bool:
        """Whether all leaves of the node are stored or constant."""
        there = self.packing.places.keys() | self.prepared.unchanging
        return leaves_of([node]) <= there

    def __iter__(self) -> Iterator[Columns]:
        store, first = self.explorer.store, self.grounded.initials[0]
        parts = chain.from_iterable(
            store.rows(shard, *where)
            for level in range(self.explorer.depth)
            for shard, where in enumerate(self.explorer.level_ranges(level))
        )
        for states in gathered(parts):
            yield Columns(in_words(states, self.packing), self.packing, first)

    def close(self) -> None:
        """Releases the memory."""
        self.explorer.close()


class _EnoughError(Exception):
    """There are enough states."""


def _stop(progress: Progress) -> None:
    if progress.states >= MOST_STATES:
        raise _EnoughError


class Mine:
    """Mines the candidates of a grammar. `more`: there may be more than MOST_CANDIDATES.

    Raises LateError after the time `until`.
    """

    def __init__(self, states: States, grammar: Grammar, most: int, until: float) -> None:
        self.most = most
        self.states = states
        self.grammar = grammar
        self.until = until
        self.columns = [*states]  # each caches the values of nodes in its states
        self.seen: set[tuple[str, ...]] = set()
        self.more = False

    def candidates(self) -> list[Candidate]:
        """The shortest clauses, without those that differ only by names."""
        found: list[Candidate] = []
        for under in self.grammar.unders():
            if len(found) >= MOST_CANDIDATES:
                self.more = True
                break
            found += self.clauses(under)
        return found[:MOST_CANDIDATES]

    def clauses(self, under: Under) -> Iterator[Candidate]:
        """The clauses over these names."""
        literals, denied = self.denied(under)
        if denied is None:
            return
        if not len(denied):
            literals, sets = [NEVER], [(0,)]
        else:
            sets = [*_shortest(denied, literals, self.most)]
        for places in sets:
            chosen = tuple(literals[at] for at in places)
            names = frozenset[Expression]().union(*(each.names for each in chosen))
            if not under.said <= names and chosen[0] is not NEVER:
                continue
            if not self._is_new(under, chosen):
                continue
            yield Candidate(under, chosen)

    def denied(self, under: Under) -> tuple[list[Literal], Any]:
        """The literals over these names, and the different rows of their falsehoods; no rows if no
        values of the names exist.
        """
        literals = self.grammar.literals(under)
        cases = [
            case for bound in self.grammar.bindings(under) for case in self.cases(under, bound)
        ]
        nodes = [[self._node(item, names) for item in literals] for _, names in cases]
        good = [at for at in range(len(literals)) if all(self.states.known(r[at]) for r in nodes)]
        literals = [literals[at] for at in good][:MOST_LITERALS]
        nodes = [[row[at] for at in good][:MOST_LITERALS] for row in nodes]
        cases = [(there, names) for there, names in cases if self.states.known(there)]
        if not cases or not literals:
            return literals, None
        rows: set[bytes] = set()
        for columns in self.columns:
            if time.perf_counter() > self.until:
                raise LateError
            for (there, _), each in zip(cases, nodes, strict=True):
                present = columns(there).astype(bool)
                if not present.any():
                    continue
                denied = np.stack([columns(node)[present] == 0 for node in each], axis=1)
                packed = np.packbits(denied, axis=1)
                view = np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1])))
                rows.update(row.tobytes() for row in np.unique(view))
        together = np.frombuffer(b"".join(sorted(rows)), dtype=np.uint8)
        bits = together.reshape(len(rows), (len(literals) + 7) // 8)
        return literals, np.unpackbits(bits, axis=1)[:, : len(literals)].astype(np.float32)

    def cases(
        self, under: Under, bound: Mapping[Expression, int]
    ) -> Iterator[tuple[Node, dict[Expression, Shape]]]:
        """The values of the names for these instances, with the condition under which they
        exist.
        """
        graph = self.states.grounded.graph
        names: dict[Expression, Shape] = {n: graph.number(at) for n, at in bound.items()}
        bags = [self._bag(message, names) for message in under.messages]
        for slots in product(*(bag.slots for bag in bags)):
            contents = zip(under.messages, (slot.value for slot in slots), strict=True)
            yield graph.and_(*(slot.present for slot in slots)), {**names, **dict(contents)}

    def _bag(self, message: Expression, names: Mapping[Expression, Shape]) -> Slots:
        bag = self.states.grounded.read(self.grammar.bag(message), names)
        assert isinstance(bag, Slots)
        return bag

    def _node(self, literal: Literal, names: Mapping[Expression, Shape]) -> Node:
        said = self.grammar.as_grounded(literal.condition, names.keys())
        node = self.states.grounded.read(self.grammar.closed(said), names)
        assert isinstance(node, Node)
        return node

    def _is_new(self, under: Under, literals: Sequence[Literal]) -> bool:
        """Whether neither this clause nor a part of it is known, under any names."""
        whole = _key(under, literals)
        parts = (combinations(literals, n) for n in range(1, len(literals)))
        shorter = (_key(under, part) for part in chain.from_iterable(parts))
        is_new = whole not in self.seen and not any(key in self.seen for key in shorter)
        self.seen.add(whole)
        return is_new


def _shortest(denied: Any, literals: Sequence[Literal], most: int) -> Iterator[tuple[int, ...]]:
    """The minimal clauses of up to `most` literals (at most three) that hold in each row."""
    together = denied.T @ denied
    times = np.diagonal(together)
    for at in np.flatnonzero(times == 0):
        yield (int(at),)
    if most == 1:
        return
    # a literal that is always false is in no minimal clause
    use = np.flatnonzero((times > 0) & (times < len(denied)))
    numbers = {about: n for n, about in enumerate(dict.fromkeys(each.about for each in literals))}
    about = np.array([numbers[literals[int(at)].about] for at in use])
    other = about[:, None] != about[None, :]
    pairs = together[np.ix_(use, use)] == 0
    for a, b in np.argwhere(np.triu(pairs & other, 1)):
        yield int(use[a]), int(use[b])
    open_ = ~pairs & other
    for at in range(len(use) if most > 2 else 0):
        own = denied[denied[:, use[at]] > 0][:, use]
        three = (own.T @ own == 0) & open_ & open_[at][:, None] & open_[at][None, :]
        three[: at + 1] = False
        for a, b in np.argwhere(np.triu(three, 1)):
            yield int(use[at]), int(use[a]), int(use[b])


def _key(under: Under, literals: Sequence[Literal]) -> tuple[str, ...]:
    """A key that is equal for clauses that differ only in the names of instances and messages."""
    names = under.names
    return min(_named(under, names, literals), _named(under, names[::-1], literals))


def _named(
    under: Under, names: Sequence[Expression], literals: Sequence[Literal]
) -> tuple[str, ...]:
    """The literals as text, with names numbered in this order."""
    used = frozenset[Expression]().union(*(each.names for each in literals))
    renamed: dict[Expression, str] = {}
    counts: dict[object, int] = {}
    for name in names:
        if name not in used:
            continue
        kind = name.args[0].data if name.op == "element" else name.data.type
        counts[kind] = counts.get(kind, 0) + 1
        renamed[name] = f"{kind.name} {counts[kind]}"
    addresses = [
        f"{renamed[name]} at {', '.join(renamed.get(k, '') for k in name.args[0].args)}"
        for name in under.messages
        if name in renamed
    ]

    def change(node: Expression) -> Expression | None:
        if node in renamed:
            return Expression("element", (), renamed[node])
        return None

    said = sorted(_sorted(rewrite(each.condition, change)) for each in literals)
    return (*said, *sorted(addresses))


def _sorted(condition: Expression) -> str:
    """The condition as text, with sorted sides of equations."""
    if condition.op == "not":
        return f"~({_sorted(condition.args[0])})"
    if condition.op == "eq":
        return " == ".join(sorted(map(str, condition.args)))
    return str(condition)


def put_together(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates, with those combined that differ only in the member of an enum."""
    left = [*candidates]
    found: list[Candidate] = []
    while left:
        candidate = left.pop(0)
        for literal in candidate.literals:
            alike = [other for other in left if _is_alike(candidate, other, literal)]
            if literal.member is not None and alike:
                rest = tuple(each for each in candidate.literals if each is not literal)
                own = (next(x for x in each.literals if x not in rest) for each in alike)
                whole = literal.but_for([literal.member, *(each.member for each in own)])
                candidate = Candidate(candidate.under, (whole, *rest))
                left = [other for other in left if all(other is not each for each in alike)]
                break
        found.append(candidate)
    return found


def _is_alike(one: Candidate, other: Candidate, literal: Literal) -> bool:
    """Whether the candidates differ only in the enum's member of the literal."""
    rest = {each for each in one.literals if each is not literal}
    own = {*other.literals} - rest
    same = other.under is one.under and len(other.literals) == len(one.literals) == len(rest) + 1
    return (
        same
        and len(own) == 1
        and all(each.member is not None and each.about == literal.about for each in own)
    )
