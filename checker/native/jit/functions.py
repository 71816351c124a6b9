"""Functions that Numba compiles, with a cache of their machine code on disk.

Numba generates the LLVM IR of a function, or the package ships the IR (`shipped`). The IR is
compiled and cached as that of systems is (`machine_code`). If the code or the IR exists, Numba
isn't loaded: it would take 0.4 s and 60 MB, and seconds to compile. The key of the cache covers all
sources of `checker/native`, because functions of other files are inlined.

A function that Python calls returns integers, or nothing. It may not allocate memory or raise
errors: compiled code depends only on the processor.
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
_NOTHING = c_char * 0  # an array may be empty
_compiling = Lock()
_seconds = [0.0]


def compiling_seconds() -> float:
    """The seconds that this process has waited for the compiler of functions, once in an
    installation.
    """
    return _seconds[0]


class Instruction:
    """An operation of `intrinsics`, by its name. That module is loaded only together with Numba."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def compilable(self) -> Any:
        """The intrinsic in Numba's form."""
        return getattr(import_module(f"{__package__}.intrinsics"), self.name)

    def __call__(self, *_: Any) -> Any:
        raise TypeError(f"{self.name} is for compiled functions")


class Passed:
    """Converted arguments of compiled functions: converted once, and passed many times as one
    argument.
    """

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments  # keeps the arrays alive
        kinds: list[str] = []
        flat: list[int] = []
        _flatten(arguments, kinds, flat)
        self.kind = f"({' '.join(kinds)})"
        self._words = (c_int64 * len(flat))(*flat)
        self.address = addressof(self._words)


class Compiled:
    """A function that is compiled at its first call, or comes from the cache. It runs without the
    interpreter's lock.

    Arguments are whole numbers, contiguous arrays of whole numbers, or several of these as
    `Passed`, which is faster.
    """

    def __init__(self, function: Callable[..., Any], inline: Literal["never", "always"]) -> None:
        self.function = function
        self.inline: Literal["never", "always"] = inline
        # by kinds of arguments: number of results, function, owner of the code
        self.codes: dict[tuple[str, ...], tuple[int, Any, Any]] = {}

    @property
    def name(self) -> str:
        """The name of the function with its module."""
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
        """The code for these kinds of arguments, loaded or compiled at the first call."""
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
                made = kept.get(key)  # another process may have compiled it
                if made is None:
                    made = self._made(kinds)
                    kept.put(key, made)
            _seconds[0] += time.perf_counter() - begun
        engine = load(Code((), processor(), (made[1:],)))
        address = engine.get_function_address("entry")
        words = sum(1 + int(kind[-1]) if kind[-1].isdigit() else 1 for kind in kinds)
        return made[0], CFUNCTYPE(None, *[c_int64] * (1 + words))(address), engine

    def _made(self, kinds: tuple[str, ...]) -> bytes:
        """A byte with the number of results, and the object file."""
        # lazy: these modules import this one, and are slow to load
        found = import_module(f"{__package__}.shipped").shipped(self, kinds)
        results, text = found or import_module(f"{__package__}.numba_ir").llvm_ir(self, kinds)
        return bytes([results]) + object_file(text, BEST)


def compiled(function: Any = None, *, inline: Literal["never", "always"] = "never") -> Any:
    """Decorates a function to be compiled. `inline="always"` inlines it into its callers."""
    if function is None:
        return partial(compiled, inline=inline)
    return Compiled(function, inline)


def _flatten(arguments: Iterable[Any], kinds: list[str], flat: list[int]) -> None:
    """Adds the kinds of arguments to `kinds`, and their words to `flat`: an array is its address
    and its shape.
    """
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
    """A digest of the inputs of the IR. Numba is identified by its time of installation: reading
    its version takes longer than reading all sources.
    """
    digest = sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    numba = find_spec("numba")
    installed = os.stat(numba.origin).st_mtime_ns if numba and numba.origin else 0
    return f"{digest.hexdigest()} numba {installed} numpy {np.__version__}"


def _kept() -> ObjectCache:
    """The cache of compiled code: in Python's folder of bytecode, or in the user's cache folder."""
    beside = Path(cache_from_source(__file__)).parent
    there = next(folder for folder in (beside, *beside.parents) if folder.exists())
    return ObjectCache(beside / "native") if os.access(there, os.W_OK) else cache_of("functions")
