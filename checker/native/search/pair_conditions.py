"""Pairs of conditions on packed states as machine code, to evaluate them on many states.

    seek(words, count, found)

For each of `count` states from address `words` on, as rows of 64-bit words, it writes 1 to the byte
in `found` of each pair if both its conditions hold. The second condition is a separate function,
which is called only where the first one holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import CFUNCTYPE, c_int64
from typing import Any

import numpy as np

from ..cache.machine_code import code_of, load
from ..cache.object_code import PLAIN
from ..codegen.conditions import Conditions, each_state, truth_function
from ..codegen.instructions import I8, I64, VOID, Builder, Function, Value, module, number
from ..store.pack import Packing
from .vectors import Formula

_SEEK = CFUNCTYPE(None, c_int64, c_int64, c_int64)


class Seeker:
    """The compiled pairs. Several threads may call it at once."""

    def __init__(self, pairs: Sequence[tuple[Formula, Formula]], packing: Packing) -> None:
        seconds = list({id(second): second for _, second in pairs}.values())
        functions = {
            id(second): truth_function(f"holds{at}", second, packing)
            for at, second in enumerate(seconds)
        }
        seek = _seek([(first, functions[id(second)]) for first, second in pairs], packing)
        self.count = len(pairs)
        made = code_of([module([*functions.values(), seek])], PLAIN)
        self.engine = load(made)  # the engine owns the code
        self.seek = _SEEK(self.engine.get_function_address(seek.name))

    def __call__(self, words: Any) -> Any:
        """Whether one of the states, as rows of words, meets both conditions of each pair."""
        found = np.zeros(self.count, dtype=np.bool_)
        rows = np.ascontiguousarray(words)
        self.seek(rows.ctypes.data, len(rows), found.ctypes.data)
        return found


def _seek(pairs: Sequence[tuple[Formula, Function]], packing: Packing) -> Function:
    function = Function("seek", VOID, [I64] * 3, shared=True)
    b = Builder(function)
    words, count, flags = function.args
    found = b.inttoptr(flags)
    with each_state(b, words, count, packing) as (state, _):
        conditions = Conditions(b, state, packing)
        firsts = [next(conditions.truths(first)) for first, _ in pairs]
        for place, (first, (_, second)) in enumerate(zip(firsts, pairs, strict=True)):
            with b.if_unlikely(first), b.if_unlikely(b.call(second, [state])):
                b.store(Value(I8, "1"), b.gep(found, number(place), I8))
    b.ret()
    return function
