"""What a property of progress says of each state, written by machine code.

    mark<n>(words, count, flags, met)

For each of `count` states from address `words` on, as rows of 64-bit words, it writes a byte of
`flags`: WITHIN where the goal doesn't hold, and BEGINS as well where the premise does. `met`
becomes 1 where the premise holds in some state, with the goal or without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import CFUNCTYPE, c_int64
from typing import Any

import numpy as np

from .conditions import Conditions, each_state
from .instructions import I8, I64, VOID, Builder, Function, Value, module
from .machine_code import Compilation, load
from .pack import Packing
from .vectors import Formula

BEGINS, WITHIN = 1, 2  # of a state: a run may begin to be bad, may stay so

_MARK = CFUNCTYPE(None, c_int64, c_int64, c_int64, c_int64)


Mark = Callable[[Any, Any], bool]
"""Marks states, given as rows of words; says whether the premise holds in one of them."""


def interpreted(premise: Formula, goal: Formula) -> Mark:
    """Marks by NumPy, for few states."""

    def mark(words: Any, flags: Any) -> bool:
        begins, open_ = premise(words), ~goal(words)
        flags[:] = np.where(open_, np.where(begins, BEGINS | WITHIN, WITHIN), 0)
        return bool(begins.any())

    return mark


def compiled(pairs: Sequence[tuple[Formula, Formula]], packing: Packing) -> list[Mark]:
    """Marks by machine code, for each pair of premise and goal. Several threads may use them."""
    functions = [_function(f"mark{at}", *pair, packing) for at, pair in enumerate(pairs)]
    compilation = Compilation()
    compilation.begin(module(functions))
    engine = load(compilation.end())
    return [_marks(engine, each.name) for each in functions]


def _marks(engine: Any, name: str) -> Mark:
    function = _MARK(engine.get_function_address(name))

    def mark(words: Any, flags: Any) -> bool:
        assert engine is not None  # it owns the code
        met = np.zeros(1, dtype=np.uint8)
        assert words.flags.c_contiguous
        assert len(flags) == len(words)
        function(words.ctypes.data, len(words), flags.ctypes.data, met.ctypes.data)
        return bool(met[0])

    return mark


def _function(name: str, premise: Formula, goal: Formula, packing: Packing) -> Function:
    function = Function(name, VOID, [I64] * 4, shared=True)
    b = Builder(function, function.new_block("entry"))
    words, count, flags_at, met_at = function.args
    flags, met = b.inttoptr(flags_at), b.inttoptr(met_at)
    with each_state(b, words, count, packing) as each:
        conditions = Conditions(b, each.state, packing)
        begins, comes = (next(conditions.truths(part)) for part in (premise, goal))
        marks = b.select(begins, Value(I8, str(BEGINS | WITHIN)), Value(I8, str(WITHIN)))
        b.store(b.select(comes, Value(I8, "0"), marks), b.gep(flags, each.at, I8))
        with b.if_unlikely(begins):
            b.store(Value(I8, "1"), met)
    b.ret()
    return function
