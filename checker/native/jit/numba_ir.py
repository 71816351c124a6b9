"""LLVM IR of Python functions, by Numba."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from types import FunctionType
from typing import Any

import numpy
from numba import cfunc, njit, types
from numba.np.numpy_support import carray, from_dtype

from .functions import WHOLE, Compiled, Instruction
from .intrinsics import pointer

_DEFINED = re.compile(r"^define (?:linkonce_odr )?(.*@)(?!entry\()", re.MULTILINE)


def llvm_ir(function: Compiled, kinds: tuple[str, ...]) -> tuple[int, str]:
    """How many results a function has, and a module with a function `entry` that calls it.

    All that `entry` takes are words of 64 bits: first the address where results go, then those of
    `kinds`: an array is its address and its shape; a `Passed` tuple is the address of its words.
    """
    callee = compilable(function)
    taken: list[Any] = []
    arguments, words = _arguments(kinds, "a{}".format, taken)
    callee.compile(tuple(taken))
    given = callee.overloads[tuple(taken)].signature.return_type
    results = 0 if given is types.none else len(given) if isinstance(given, types.BaseTuple) else 1
    lines = [f"given = function({', '.join(arguments)})"]
    if results:
        lines.append(f"results = carray(pointer(to), ({results},), int64)")
    for at in range(results):
        lines.append(f"results[{at}] = {f'given[{at}]' if results > 1 else 'given'}")
    parameters = ", ".join(["to", *(f"a{at}" for at in range(words))])
    scope: dict[str, Any] = {"function": callee, "carray": carray, "pointer": pointer}
    scope |= {name: getattr(numpy, name) for name in map(_name_of, "bBhHiIlL")}
    exec(f"def entry({parameters}):\n    " + "\n    ".join(lines), scope)
    kind = types.void(*[types.int64] * (1 + words))
    made = cfunc(kind, error_model="numpy")(scope["entry"])
    text = made.inspect_llvm().replace(made.native_name, "entry")
    return results, _DEFINED.sub(r"define internal \1", text)


def _arguments(
    kinds: Iterable[str], word: Callable[[int], str], taken: list[Any]
) -> tuple[list[str], int]:
    """The expressions of arguments by those of their words, and how many words these are; adds the
    types that Numba has for the arguments."""
    arguments: list[str] = []
    at = 0
    for kind in kinds:
        if kind == WHOLE:
            taken.append(types.int64)
            arguments.append(word(at))
            at += 1
        elif kind.startswith("("):
            inside = kind[1:-1].split()
            _, size = _arguments(inside, word, [])
            place = f"carray(pointer({word(at)}), ({size},), int64)[{{}}]"
            arguments += _arguments(inside, place.format, taken)[0]
            at += 1
        else:
            axes = int(kind[-1])
            taken.append(types.Array(from_dtype(numpy.dtype(kind[0])), axes, "C"))
            shape = "".join(f"{word(at + 1 + axis)}, " for axis in range(axes))
            arguments.append(f"carray(pointer({word(at)}), ({shape}), {_name_of(kind[0])})")
            at += 1 + axes
    return arguments, at


def _name_of(char: str) -> str:
    return numpy.dtype(char).name


@cache
def compilable(function: Compiled) -> Any:
    """A function in the form that Numba takes, with its globals in that form."""
    python = function.function
    needed = {
        name: value.compilable if isinstance(value, Instruction) else compilable(value)
        for name in python.__code__.co_names
        if isinstance(value := python.__globals__.get(name), (Compiled, Instruction))
    }
    own = FunctionType(python.__code__, {**python.__globals__, **needed}, python.__name__)
    own.__module__ = python.__module__
    return njit(nogil=True, inline=function.inline, error_model="numpy")(own)
