"""LLVM IR of Python functions, by Numba."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

from __future__ import annotations

import re
from functools import cache
from types import FunctionType
from typing import Any

from numba import cfunc, njit, types
from numba.np.numpy_support import carray, from_dtype
from numpy import dtype

from .compiled import WHOLE, Compiled, Instruction

_DEFINED = re.compile(r"^define (?:linkonce_odr )?(.*@)(?!entry\()", re.MULTILINE)


def llvm_ir(function: Compiled, kinds: tuple[str, ...]) -> tuple[int, str]:
    """How many results a function has, and a module with a function `entry` that calls it.

    The first argument of `entry` is where results go; then come those of `kinds`: an array is its
    address and its shape.
    """
    callee = compilable(function)
    arrays = [
        None if kind == WHOLE else types.Array(from_dtype(dtype(kind[0])), int(kind[-1]), "C")
        for kind in kinds
    ]
    called_with = tuple(types.int64 if array is None else array for array in arrays)
    callee.compile(called_with)
    given = callee.overloads[called_with].signature.return_type
    results = 0 if given is types.none else len(given) if isinstance(given, types.BaseTuple) else 1
    parameters, arguments, kinds_of = ["results"], [], [types.CPointer(types.int64)]
    for at, array in enumerate(arrays):
        parameters.append(f"a{at}")
        if array is None:
            kinds_of.append(types.int64)
            arguments.append(f"a{at}")
        else:
            shape = [f"a{at}_{axis}" for axis in range(array.ndim)]
            parameters += shape
            kinds_of += [types.CPointer(array.dtype), *[types.int64] * array.ndim]
            arguments.append(f"carray(a{at}, ({', '.join(shape)},))")
    lines = [f"given = function({', '.join(arguments)})"]
    lines += [
        f"results[{at}] = {f'given[{at}]' if results > 1 else 'given'}" for at in range(results)
    ]
    scope: dict[str, Any] = {"function": callee, "carray": carray}
    exec(f"def entry({', '.join(parameters)}):\n    " + "\n    ".join(lines), scope)
    made = cfunc(types.void(*kinds_of), error_model="numpy")(scope["entry"])
    text = made.inspect_llvm().replace(made.native_name, "entry")
    return results, _DEFINED.sub(r"define internal \1", text)


@cache
def compilable(function: Compiled) -> Any:
    """What Numba takes for a function: one whose globals are what it takes for them."""
    python = function.function
    needed = {
        name: value.compilable if isinstance(value, Instruction) else compilable(value)
        for name in python.__code__.co_names
        if isinstance(value := python.__globals__.get(name), (Compiled, Instruction))
    }
    own = FunctionType(python.__code__, {**python.__globals__, **needed}, python.__name__)
    own.__module__ = python.__module__
    return njit(nogil=True, inline=function.inline, error_model="numpy")(own)
