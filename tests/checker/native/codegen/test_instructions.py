"""Code that is written as text computes what it says."""

from __future__ import annotations

import ctypes

import pytest

from epochfence.checker.native.cache.machine_code import code_of, load
from epochfence.checker.native.codegen.instructions import I64, Builder, Function, module, number


@pytest.mark.parametrize("first", [0, 3, 12])
@pytest.mark.parametrize("end", [0, 10, 12])
def test_a_loop_within_a_loop_carries_values_on(first: int, end: int) -> None:
    function = Function("sums", I64, [I64, I64], shared=True)
    b = Builder(function)
    with b.loop(*function.args, step=3, carried=[number(0), number(1)]) as outer:
        total, turns = outer.carried
        with b.loop(number(0), outer.at, carried=[total]) as inner:
            inner.carried = [b.add(inner.carried[0], inner.at)]
        outer.carried = [*inner.carried, b.add(turns, number(1))]
    total, turns = outer.carried
    b.ret(b.add(b.mul(total, number(100)), turns))

    engine = load(code_of([module([function])]))
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    found = kind(engine.get_function_address("sums"))(first, end)
    outer_turns = range(first, end, 3)
    assert found == 100 * sum(sum(range(at)) for at in outer_turns) + 1 + len(outer_turns)
