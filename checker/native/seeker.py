"""Pairs of conditions on packed states as machine code, for those that many states are asked about.

    seek(words, count, found)

For each of `count` states from address `words` on, as rows of 64-bit words, it writes 1 to the byte
of `found` of each pair both of whose conditions hold. The second one is a function of its own,
which is called only where the first one holds.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from ctypes import CFUNCTYPE, c_int64
from typing import Any

import numpy as np

from .instructions import (
    I1,
    I8,
    I64,
    POINTER,
    VOID,
    Builder,
    Function,
    Value,
    module,
    number,
    truth,
)
from .machine_code import Compilation, load
from .pack import Packing, Place
from .values import applied, as_truth, of_leaf
from .vectors import Formula

_SEEK = CFUNCTYPE(None, c_int64, c_int64, c_int64)


class Seeker:
    """The compiled pairs. It may be asked by several threads at once."""

    def __init__(self, pairs: Sequence[tuple[Formula, Formula]], packing: Packing) -> None:
        seconds = list({id(second): second for _, second in pairs}.values())
        functions = {
            id(second): _function(f"holds{at}", second, packing)
            for at, second in enumerate(seconds)
        }
        compilation = Compilation()
        seek = _seek([(first, functions[id(second)]) for first, second in pairs], packing)
        compilation.begin(module([*functions.values(), seek]))
        self.count = len(pairs)
        self.engine = load(compilation.end())  # which owns the code
        self.seek = _SEEK(self.engine.get_function_address(seek.name))

    def __call__(self, words: Any) -> Any:
        """Of each pair whether both conditions hold in one of the states, as rows of words."""
        found = np.zeros(self.count, dtype=np.bool_)
        rows = np.ascontiguousarray(words)
        self.seek(rows.ctypes.data, len(rows), found.ctypes.data)
        return found


class _Writer:
    """Formulas over one state as values. Steps that formulas have in common are computed once."""

    def __init__(self, b: Builder, state: Value, packing: Packing) -> None:
        self.b = b
        places = (b.gep(state, number(at), I64) for at in range(packing.words))
        self.words = [b.load(place, I64) for place in places]
        self.known: dict[tuple[str, tuple[Value, ...], int | Place], Value] = {}

    def truths(self, formula: Formula, wanted: Sequence[int] = (-1,)) -> Iterator[Value]:
        """Each of the steps wanted, as an i1, and what it needs just before it."""
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
    """The steps that a step needs, itself the last, but for those that are done."""
    needed: set[int] = set()
    stack = [root]
    while stack:
        at = stack.pop()
        if at not in done and at not in needed:
            needed.add(at)
            stack += formula.steps[at][1]
    return sorted(needed)


def _function(name: str, formula: Formula, packing: Packing) -> Function:
    """Whether a formula holds in the state at an address: of what `or` or `and` joins, no more is
    looked at than decides it."""
    function = Function(name, I1, [POINTER])
    b = Builder(function, function.new_block("entry"))
    root, result = len(formula.steps) - 1, True
    while formula.steps[root][0] == "not":
        root, result = formula.steps[root][1][0], not result
    op, parts, _ = formula.steps[root]
    if op not in ("and", "or"):
        op, parts = "or", (root,)
    for part in _Writer(b, function.args[0], packing).truths(formula, parts):
        decided, next_part = b.append_basic_block("decided"), b.append_basic_block("next")
        b.cbranch(part, *((decided, next_part) if op == "or" else (next_part, decided)))
        b.position_at_end(decided)
        b.ret(truth(result is (op == "or")))
        b.position_at_end(next_part)
    b.ret(truth(result is (op == "and")))
    return function


def _seek(pairs: Sequence[tuple[Formula, Function]], packing: Packing) -> Function:
    function = Function("seek", VOID, [I64] * 3, shared=True)
    entry = function.new_block("entry")
    b = Builder(function, entry)
    rows, count, flags = function.args
    states, found = b.inttoptr(rows), b.inttoptr(flags)
    head, body, done = (b.append_basic_block(each) for each in ("head", "body", "done"))
    b.branch(head)

    b.position_at_end(head)
    at_phi = b.phi(I64)
    at_phi.add_incoming(number(0), entry)
    at = at_phi.value
    b.cbranch(b.icmp("ult", at, count), body, done)

    b.position_at_end(body)
    state = b.gep(states, b.mul(at, number(packing.words)), I64)
    writer = _Writer(b, state, packing)
    firsts = [next(writer.truths(first)) for first, _ in pairs]
    for place, (first, (_, second)) in enumerate(zip(firsts, pairs, strict=True)):
        with b.if_unlikely(first), b.if_unlikely(b.call(second, [state])):
            b.store(Value(I8, "1"), b.gep(found, number(place), I8))
    at_phi.add_incoming(b.add(at, number(1)), b.block)
    b.branch(head)

    b.position_at_end(done)
    b.ret()
    return function
