"""Conditions on packed states as LLVM instructions: for one state, or for each of many."""

from __future__ import annotations

from collections.abc import Container, Generator, Iterator, Sequence
from contextlib import contextmanager

from ..search.vectors import Formula
from ..store.pack import Packing, Place
from .instructions import I1, I64, POINTER, Builder, Function, Value, number, truth
from .node_values import applied, as_truth, of_leaf


class Conditions:
    """Formulas over one state as values. Common steps of formulas are computed once."""

    def __init__(self, b: Builder, state: Value, packing: Packing) -> None:
        self.b = b
        places = (b.gep(state, number(at), I64) for at in range(packing.words))
        self.words = [b.load(place, I64) for place in places]
        self.known: dict[tuple[str, tuple[Value, ...], int | Place], Value] = {}

    def truths(self, formula: Formula, wanted: Sequence[int] = (-1,)) -> Iterator[Value]:
        """The values of the steps `wanted`, as i1. The operands of each are computed just before
        it.
        """
        done: dict[int, Value] = {}
        for root in wanted:
            for at in _needed(formula, root % len(formula.steps), done):
                op, args, value = formula.steps[at]
                of = tuple(done[arg] for arg in args)
                step = op, of, value
                if step not in self.known:
                    self.known[step] = (
                        applied(self.b, op, iter(of), value)
                        if isinstance(value, int)
                        else of_leaf(self.b, value, self.words)
                    )
                done[at] = self.known[step]
            yield as_truth(self.b, done[root % len(formula.steps)])


def _needed(formula: Formula, root: int, done: Container[int]) -> list[int]:
    """The steps that a step depends on, except those in `done`; the step itself is the last."""
    needed: set[int] = set()
    stack = [root]
    while stack:
        at = stack.pop()
        if at not in done and at not in needed:
            needed.add(at)
            stack += formula.steps[at][1]
    return sorted(needed)


def truth_function(name: str, formula: Formula, packing: Packing) -> Function:
    """A function that evaluates a formula in the state at an address, as an i1. `or` and `and` stop
    at the operand that decides.
    """
    function = Function(name, I1, [POINTER])
    b = Builder(function)
    root, result = len(formula.steps) - 1, True
    while formula.steps[root][0] == "not":
        root, result = formula.steps[root][1][0], not result
    op, parts, _ = formula.steps[root]
    if op not in ("and", "or"):
        op, parts = "or", (root,)
    for part in Conditions(b, function.args[0], packing).truths(formula, parts):
        decided, next_part = b.append_basic_block("decided"), b.append_basic_block("next")
        b.cbranch(part, *((decided, next_part) if op == "or" else (next_part, decided)))
        b.position_at_end(decided)
        b.ret(truth(result is (op == "or")))
        b.position_at_end(next_part)
    b.ret(truth(result is (op == "and")))
    return function


@contextmanager
def each_state(
    b: Builder, words: Value, count: Value, packing: Packing
) -> Generator[tuple[Value, Value]]:
    """A loop over `count` states from address `words` on, as rows of 64-bit words. It yields a
    state's address and its index.
    """
    states = b.inttoptr(words)
    with b.loop(number(0), count) as loop:
        yield b.gep(states, b.mul(loop.at, number(packing.words)), I64), loop.at
