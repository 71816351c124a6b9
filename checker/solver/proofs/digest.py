"""A digest of a proof: equal digests mean equal obligations for Z3.

It covers grounded rows, without the names of rows, fields and lemmas, and without the order of rows
and lemmas.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping

from ....language.systems import BUDGET
from ...ground import GroundAction, Grounded
from ...ground.graph import Node
from ...trace.lasso import Fairnesses

_IN_ANY_ORDER = ("and", "or", "eq", "add")


class Forms:
    """Digests of nodes: equal for equal expressions of any two systems. `leaves` has the name of a
    leaf by its index.
    """

    def __init__(self, leaves: Mapping[int, object]) -> None:
        self.leaves = leaves
        self._known: dict[int, str] = {}

    def of(self, node: Node) -> str:
        """The digest of one node."""
        known = self._known.get(node.number)
        if known is None:
            args = [self.of(arg) for arg in node.args]
            value: object = node.value
            if node.op == "leaf" and node.value >= 0:  # not a choice
                value = self.leaves[node.value]
            form = node.op, value, node.is_truth, *_in_order(node.op, args)
            known = self._known[node.number] = _of(form)
        return known

    def all(self, nodes: Iterable[Node]) -> list[str]:
        """The digests of several nodes."""
        return [self.of(node) for node in nodes]


def _in_order(op: str, args: list[str]) -> list[str]:
    return sorted(args) if op in _IN_ANY_ORDER else args


def _of(content: object) -> str:
    """The digest of numbers, strings, tuples and lists: their text is the same in every Python."""
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]


def digest(grounded: Grounded) -> str:
    """The digest of a sliced system: its leaves and their ranges, initial states, rows, and the
    properties to prove."""
    kept = [leaf for leaf in grounded.leaves if leaf.index in grounded.kept]
    settled = [leaf.index for leaf in kept if leaf.index not in grounded.open]
    leaves = {
        leaf.index: (at, leaf.low, leaf.high, leaf.index in grounded.open)
        for at, leaf in enumerate(kept)
    }
    forms = Forms(leaves)
    fair = Fairnesses(grounded.instance) if grounded.rankings else None
    return _of(
        (
            list(leaves.values()),
            sorted({tuple(vector[at] for at in settled) for vector in grounded.initials}),
            sorted(_of(_action(forms, fair, action)) for action in grounded.actions),
            sorted(forms.all(grounded.invariants)),
            sorted(forms.all(grounded.well_formed)),
            sorted(map(_of, _rankings(grounded, forms))),
        )
    )


def _action(forms: Forms, fair: Fairnesses | None, action: GroundAction) -> tuple[object, ...]:
    """An action with its rows; with rankings, also its owner and its fairness."""
    rows = [
        (
            forms.of(row.guard),
            sorted((forms.leaves[at], forms.of(node)) for at, node in row.updates.items()),
            forms.of(row.out_of_range),
            forms.all(row.broken),
            [(fair.every[at].kind, fair.every[at].event.name) for at in fair.of_row[row.row]]
            if fair
            else [],
        )
        for row in action.rows
    ]
    instances = [(key.name, number) for key, number in action.instances] if fair else []
    return forms.all(action.possible), sorted(map(_of, rows)), instances


def _rankings(grounded: Grounded, forms: Forms) -> Iterator[tuple[object, ...]]:
    """The progress properties and their rankings."""
    spent = [
        forms.leaves[leaf.index]
        for leaf in grounded.leaves
        if leaf.index in grounded.kept and str(leaf.path[0]).startswith(f"{BUDGET}.")
    ]
    for item in grounded.rankings:
        aim = grounded.aims[item.aim]
        helpful = [
            (
                each.place,
                item.of.helpful[each.place].event.name,
                [(key.name, number) for key, number in each.instances],
                forms.of(each.when),
            )
            for each in item.helpful
        ]
        yield forms.of(aim.premise), forms.of(aim.goal), forms.all(item.rank), helpful, spent
