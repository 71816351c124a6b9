"""Compiled in this process or in others, whole or in parts, a module does the same."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path

import pytest

from epochfence.checker.native.cache import machine_code, object_cache, object_code
from epochfence.checker.native.cache.machine_code import Code, Compilation, code_of
from epochfence.checker.native.cache.object_code import BEST, PLAIN, QUICK
from epochfence.checker.native.codegen.instructions import I64, Builder, Function, module, number

DOUBLE = """
define i64 @double(i64 %n) {
  %twice = add i64 %n, %n
  ret i64 %twice
}
"""


@pytest.fixture(autouse=True)
def _cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(object_cache.VARIABLE, str(tmp_path))


def compiled(*modules: str) -> Code:
    compilation = Compilation()
    for text in modules:
        compilation.begin(text)
    return compilation.end()


def called(code: Code, name: str, argument: int) -> int:
    engine = machine_code.load(code)
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(engine.get_function_address(name))
    return function(argument)


@pytest.mark.parametrize("apart", [0, 100])
@pytest.mark.parametrize("large", [0, 100])
def test_code_is_the_same_from_either_process(
    monkeypatch: pytest.MonkeyPatch, apart: int, large: int
) -> None:
    monkeypatch.setattr(machine_code, "APART", apart)
    monkeypatch.setattr(machine_code, "LARGE", large)
    first = compiled(DOUBLE)
    best = first.with_effort(PLAIN)
    assert (first.effort, best.effort) == (QUICK, PLAIN if large == 0 else BEST)
    assert called(first, "double", 21) == called(best, "double", 21) == 42


def test_quick_code_is_made_only_without_better_code() -> None:
    quick = compiled(DOUBLE)
    assert quick.effort == QUICK
    assert compiled(DOUBLE).from_cache
    best = quick.with_effort(BEST)
    again = compiled(DOUBLE)
    assert (again.effort, again.from_cache) == (BEST, True)
    assert again.object_files == best.object_files


@pytest.mark.parametrize("apart", [0, 100])
def test_faulty_code_is_refused(monkeypatch: pytest.MonkeyPatch, apart: int) -> None:
    monkeypatch.setattr(machine_code, "APART", apart)
    with pytest.raises(RuntimeError, match=r"%missing|undefined value"):
        compiled("define i64 @f() {\n  ret i64 %missing\n}\n")


@pytest.mark.parametrize("apart", [0, 100])
def test_a_function_of_another_module_is_called(
    monkeypatch: pytest.MonkeyPatch, apart: int
) -> None:
    monkeypatch.setattr(machine_code, "APART", apart)
    functions: list[Function] = []
    for name in ("five_more", "ten_more"):
        function = Function(name, I64, [I64], shared=True)
        b = Builder(function)
        value = function.args[0]
        if functions:
            value = b.call(functions[0], [value])
        b.ret(b.add(value, number(5)))
        functions.append(function)
    code = compiled(module(functions[:1]), module(functions[1:], functions[:1]))
    assert called(code, "ten_more", 1) == 11


def test_code_of_another_processor_is_compiled_anew() -> None:
    code = replace(compiled(DOUBLE), processor="another", object_files=(b"not for here",))
    assert called(code, "double", 21) == 42


@pytest.mark.parametrize("apart", [0, 100])
def test_what_was_compiled_is_not_compiled_again(
    monkeypatch: pytest.MonkeyPatch, apart: int
) -> None:
    monkeypatch.setattr(machine_code, "APART", apart)
    first = compiled(DOUBLE)
    for name in ("object_file", "_compiled_apart"):
        monkeypatch.setattr(machine_code, name, None)  # nobody can compile any more
    second = compiled(DOUBLE)
    assert (first.from_cache, second.from_cache) == (False, True)
    assert second.object_files == first.object_files
    assert called(second, "double", 21) == 42


def test_what_is_compiled_in_part_is_not_told_to_be_of_the_cache() -> None:
    compiled(DOUBLE)
    assert not compiled(DOUBLE, DOUBLE.replace("@double", "@other")).from_cache


def test_without_a_cache_all_is_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(object_cache.VARIABLE, object_cache.OFF)
    compiled(DOUBLE)
    assert not compiled(DOUBLE).from_cache
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "change", ["module", "effort", "apart", "compiler", "object_code.py is another"]
)
def test_all_that_code_depends_on_is_in_its_key(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, change: str
) -> None:
    code_of([DOUBLE])
    text = DOUBLE
    match change:
        case "module":
            text = DOUBLE.replace("%n, %n", "%n, 3")
        case "effort":
            text = DOUBLE.replace("%n, %n", "%n, 3")
            compiled(text)
        case "apart":
            monkeypatch.setattr(machine_code, "APART", 0)
        case "compiler":
            monkeypatch.setattr(machine_code, "compiler", lambda: "another processor")
        case _:
            other = tmp_path / "object_code.py"
            other.write_text("# other passes")
            monkeypatch.setattr(object_code, "__file__", str(other))
            compiler = object_code.compiler.__wrapped__
            monkeypatch.setattr(machine_code, "compiler", compiler)
    assert not code_of([text]).from_cache
