"""Compiled in this process or in others, whole or in parts, a module does the same."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import pytest

from epochfence.checker import machine_code
from epochfence.checker.instructions import I64, Builder, Function, module, number
from epochfence.checker.machine_code import Code, Compilation

DOUBLE = """
define i64 @double(i64 %n) {
  %twice = add i64 %n, %n
  ret i64 %twice
}
"""


def whole(*, passes: bool) -> Code:
    return Compilation().end(DOUBLE, passes=passes)


def called(code: Code, name: str, argument: int) -> int:
    engine = machine_code.load(code)
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(engine.get_function_address(name))
    return function(argument)


@pytest.mark.parametrize("passes", [True, False])
@pytest.mark.parametrize("apart", [0, 100])
def test_code_is_the_same_from_either_process(
    monkeypatch: pytest.MonkeyPatch, apart: int, passes: bool
) -> None:
    monkeypatch.setattr(machine_code, "APART", apart)
    assert called(whole(passes=passes), "double", 21) == 42


@pytest.mark.parametrize("apart", [0, 100])
def test_faulty_code_is_refused(monkeypatch: pytest.MonkeyPatch, apart: int) -> None:
    monkeypatch.setattr(machine_code, "APART", apart)
    with pytest.raises(RuntimeError, match=r"%missing|undefined value"):
        Compilation().end("define i64 @f() {\n  ret i64 %missing\n}\n", passes=False)


@pytest.mark.parametrize("apart", [0, 100])
def test_a_function_of_another_module_is_called(
    monkeypatch: pytest.MonkeyPatch, apart: int
) -> None:
    monkeypatch.setattr(machine_code, "APART", apart)
    functions: list[Function] = []
    for name in ("five_more", "ten_more"):
        function = Function(name, I64, [I64], shared=True)
        b = Builder(function, function.new_block("entry"))
        value = function.args[0]
        if functions:
            value = b.call(functions[0], [value])
        b.ret(b.add(value, number(5)))
        functions.append(function)
    compilation = Compilation()
    compilation.begin(module(functions[:1]), passes=True)
    code = compilation.end(module(functions[1:], functions[:1]), passes=True)
    assert called(code, "ten_more", 1) == 11


def test_code_of_another_processor_is_compiled_anew() -> None:
    code = replace(whole(passes=False), processor="another", object_files=(b"not for here",))
    assert called(code, "double", 21) == 42
