"""Marks each state for the aims of progress properties: several aims at once, a bit for each.

    mark(words, count, begins, within)

For each of `count` states from address `words` on, as rows of 64-bit words, it writes a number to
`begins`: the bits of the aims whose premise holds and whose goal doesn't. It writes another number
to `within`: the bits of the aims whose goal doesn't hold. It returns the bits of the aims whose
premise holds in some state, with or without the goal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import CFUNCTYPE, c_int64, c_uint64
from typing import Any, TypeAlias

import numpy as np

from ..cache.machine_code import code_of, load
from ..cache.object_code import PLAIN
from ..codegen.conditions import Conditions, each_state
from ..codegen.instructions import I64, Builder, Function, module, number
from ..store.pack import Packing
from .vectors import COMPILED_FROM, Formula

Pair: TypeAlias = tuple[Formula, Formula]
"""An aim: its premise and its goal."""

Mark: TypeAlias = Callable[[Any, Any, Any], int]
"""Marks states, given as rows of words, in two arrays; returns the aims whose premise holds."""

AT_ONCE = 32  # aims

_MARK = CFUNCTYPE(c_uint64, c_int64, c_int64, c_int64, c_int64)


def kind_of_bits(aims: int) -> Any:
    """The NumPy type of numbers with a bit for each of `aims` aims."""
    return np.dtype(f"u{max(1, 1 << (aims - 1).bit_length() >> 3)}")


def marker(pairs: Sequence[Pair], packing: Packing, states: int) -> Mark:
    """The function that marks states for these aims: compiled if there are many `states`. Several
    threads may call it.
    """
    return interpreted(pairs) if states < COMPILED_FROM else compiled(pairs, packing)


def interpreted(pairs: Sequence[Pair]) -> Mark:
    """A function that marks by NumPy, for few states."""

    def mark(words: Any, begins: Any, within: Any) -> int:
        begins[:] = within[:] = met = 0
        for at, (premise, goal) in enumerate(pairs):
            begin, open_ = premise(words), ~goal(words)
            begins |= (begin & open_).astype(begins.dtype) << begins.dtype.type(at)
            within |= open_.astype(within.dtype) << within.dtype.type(at)
            met |= bool(begin.any()) << at
        return met

    return mark


def compiled(pairs: Sequence[Pair], packing: Packing) -> Mark:
    """A function that marks by machine code, for many states."""
    kind = kind_of_bits(len(pairs))
    made = code_of([module([_function(pairs, packing, f"i{8 * kind.itemsize}")])], PLAIN)
    engine = load(made)
    function = _MARK(engine.get_function_address("mark"))

    def mark(words: Any, begins: Any, within: Any) -> int:
        assert engine is not None  # it owns the code
        assert words.flags.c_contiguous
        assert len(words) == len(begins) == len(within)
        assert begins.dtype == within.dtype == kind
        return function(words.ctypes.data, len(words), begins.ctypes.data, within.ctypes.data)

    return mark


def _function(pairs: Sequence[Pair], packing: Packing, kind: str) -> Function:
    function = Function("mark", I64, [I64] * 4, shared=True)
    b = Builder(function)
    words, count, begins, within = function.args
    begins, within = b.inttoptr(begins), b.inttoptr(within)
    met = b.alloca(I64)
    b.store(number(0), met)
    with each_state(b, words, count, packing) as (state, at):
        conditions = Conditions(b, state, packing)
        supposed = open_ = number(0)
        for bit, (premise, goal) in enumerate(pairs):
            begin, came = (next(conditions.truths(part)) for part in (premise, goal))
            supposed = b.or_(supposed, b.shl(b.zext(begin, I64), number(bit)))
            open_ = b.or_(open_, b.shl(b.zext(b.not_(came), I64), number(bit)))
        b.store(b.or_(b.load(met, I64), supposed), met)
        for marks, place in ((b.and_(supposed, open_), begins), (open_, within)):
            b.store(b.trunc(marks, kind), b.gep(place, at, kind))
    b.ret(b.load(met, I64))
    return function
