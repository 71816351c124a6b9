"""Functions that Numba compiles, and whose machine code is kept on disk.

Numba makes LLVM IR of a function, or made it before it was shipped (`shipped`). The IR is compiled
and kept as that of systems is (`machine_code`). Where the code or the IR is there, Numba isn't
loaded: that would take 0.4 s and 60 MB, and seconds to compile. The key of the cache covers all
sources of `checker/native`, as functions of other files are compiled into a function.

A function that Python calls returns integers, or nothing. It may not take memory and raises
nothing: compiled code depends on nothing but the processor.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportArgumentType=false

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from ctypes import CFUNCTYPE, addressof, c_char, c_int64
from functools import cache, partial
from hashlib import sha256
from importlib import import_module
from importlib.util import cache_from_source, find_spec
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import numpy as np

from ..cache.machine_code import Code, load
from ..cache.object_cache import ObjectCache, cache_of
from ..cache.object_code import BEST, compiler, object_file, processor

WHOLE = "i"
_NOTHING = c_char * 0  # there may be an array of no bytes
_compiling = Lock()
_seconds = [0.0]


def compiling_seconds() -> float:
    """How long this process has waited for the compiler of functions: once in an installation."""
    return _seconds[0]


class Instruction:
    """One of `intrinsics` by its name, which is loaded where Numba is."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def compilable(self) -> Any:
        """The intrinsic as Numba takes it."""
        return getattr(import_module(f"{__package__}.intrinsics"), self.name)

    def __call__(self, *_: Any) -> Any:
        raise TypeError(f"{self.name} is for compiled functions")


class Passed:
    """Arguments as compiled functions take them: looked at once, and passed many times as one."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments  # they stay where they are
        kinds: list[str] = []
        flat: list[int] = []
        _flatten(arguments, kinds, flat)
        self.kind = f"({' '.join(kinds)})"
        self._words = (c_int64 * len(flat))(*flat)
        self.address = addressof(self._words)


class Compiled:
    """A function that is compiled where it is called first, or taken from a former run; it runs
    without the interpreter's lock.

    Arguments are whole numbers, contiguous arrays of whole numbers, or some of them as `Passed`,
    which come faster.
    """

    def __init__(self, function: Callable[..., Any], inline: Literal["never", "always"]) -> None:
        self.function = function
        self.inline: Literal["never", "always"] = inline
        # by kinds of arguments: how many results, what to call, what owns the code
        self.codes: dict[tuple[str, ...], tuple[int, Any, Any]] = {}

    @property
    def name(self) -> str:
        """The function with its module."""
        return f"{self.function.__module__}.{self.function.__qualname__}"

    def __call__(self, *arguments: Any) -> Any:
        kinds: list[str] = []
        flat: list[int] = []
        _flatten(arguments, kinds, flat)
        results, call, _ = self.codes.get(tuple(kinds)) or self._taken(tuple(kinds))
        if not results:
            call(0, *flat)
            return None
        given = (c_int64 * results)()
        call(addressof(given), *flat)
        return given[0] if results == 1 else tuple(given)

    def _taken(self, kinds: tuple[str, ...]) -> tuple[int, Any, Any]:
        """The code for some kinds of arguments, from the cache if that has it."""
        with _compiling:
            if kinds not in self.codes:
                self.codes[kinds] = self._loaded(kinds)
        return self.codes[kinds]

    def _loaded(self, kinds: tuple[str, ...]) -> tuple[int, Any, Any]:
        key = sha256(f"{_sources()} {compiler()} {self.name} {kinds}".encode()).hexdigest()
        kept = _kept()
        made = kept.get(key)
        if made is None:
            begun = time.perf_counter()
            with kept.making(key):
                made = kept.get(key)  # another process may have made it
                if made is None:
                    made = self._made(kinds)
                    kept.put(key, made)
            _seconds[0] += time.perf_counter() - begun
        engine = load(Code((), processor(), (made[1:],)))
        address = engine.get_function_address("entry")
        words = sum(1 + int(kind[-1]) if kind[-1].isdigit() else 1 for kind in kinds)
        return made[0], CFUNCTYPE(None, *[c_int64] * (1 + words))(address), engine

    def _made(self, kinds: tuple[str, ...]) -> bytes:
        """How many results there are, and the object file."""
        # by their names: they import this module, and are loaded here alone
        found = import_module(f"{__package__}.shipped").shipped(self, kinds)
        results, text = found or import_module(f"{__package__}.numba_ir").llvm_ir(self, kinds)
        return bytes([results]) + object_file(text, BEST)


def compiled(function: Any = None, *, inline: Literal["never", "always"] = "never") -> Any:
    """The function, compiled; with `inline` it becomes a part of each that calls it."""
    if function is None:
        return partial(compiled, inline=inline)
    return Compiled(function, inline)


def _flatten(arguments: Iterable[Any], kinds: list[str], flat: list[int]) -> None:
    """Adds the kinds of arguments, and the numbers that stand for them: an array is its address and
    its shape."""
    for each in arguments:
        if isinstance(each, int):
            kinds.append(WHOLE)
            flat.append(each)
        elif isinstance(each, Passed):
            kinds.append(each.kind)
            flat.append(each.address)
        elif isinstance(each, np.ndarray):
            kinds.append(f"{each.dtype.char}{each.ndim}")
            flat.append(addressof(_NOTHING.from_buffer(each)))
            flat += each.shape
        else:
            kinds.append(WHOLE)
            flat.append(int(each))


@cache
def _sources() -> str:
    """All that the IR of a function depends on. Numba is known by when it was installed, as its
    version would take longer to find than all sources to read."""
    digest = sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    numba = find_spec("numba")
    installed = os.stat(numba.origin).st_mtime_ns if numba and numba.origin else 0
    return f"{digest.hexdigest()} numba {installed} numpy {np.__version__}"


def _kept() -> ObjectCache:
    """The cache of compiled code: beside Python's own, or beside this user's code of systems."""
    beside = Path(cache_from_source(__file__)).parent
    there = next(folder for folder in (beside, *beside.parents) if folder.exists())
    return ObjectCache(beside / "native") if os.access(there, os.W_OK) else cache_of("functions")
