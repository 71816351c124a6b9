"""Compiled in this process or in one of its own, a module does the same."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import pytest

from epochfence.checker import machine_code

DOUBLE = """
define i64 @double(i64 %n) {
  %twice = add i64 %n, %n
  ret i64 %twice
}
"""


@pytest.mark.parametrize("passes", [True, False])
@pytest.mark.parametrize("apart", [0, 100])
def test_code_is_the_same_from_either_process(
    monkeypatch: pytest.MonkeyPatch, apart: int, passes: bool
) -> None:
    monkeypatch.setattr(machine_code, "APART", apart)
    engine = machine_code.load(machine_code.compile_code(DOUBLE, passes=passes))
    double = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(engine.get_function_address("double"))
    assert double(21) == 42


@pytest.mark.parametrize("apart", [0, 100])
def test_faulty_code_is_refused(monkeypatch: pytest.MonkeyPatch, apart: int) -> None:
    monkeypatch.setattr(machine_code, "APART", apart)
    with pytest.raises(RuntimeError, match=r"%missing|undefined value"):
        machine_code.compile_code("define i64 @f() {\n  ret i64 %missing\n}\n", passes=False)


def test_code_of_another_processor_is_compiled_anew() -> None:
    code = machine_code.compile_code(DOUBLE, passes=False)
    engine = machine_code.load(replace(code, processor="another", object_file=b"not for here"))
    double = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(engine.get_function_address("double"))
    assert double(21) == 42
