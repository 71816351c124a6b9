"""LLVM IR turned into machine code, in processes of their own where that is worth it.

What LLVM takes to compile stays with the process that it was loaded into, some 30 MB and more: a
search would carry it along to its end. What was compiled before is taken from the cache on disk.

A large module takes LLVM a second, longer than most searches last. Its first code is therefore made
quickly and here, and takes less than half as much again to run: a long search asks for better code.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm

from . import object_cache
from .object_code import BEST, QUICK, compiler, object_file, processor, target_machine
from .object_code import __file__ as program

APART = 1_000  # lines of IR from which on another process compiles
LARGE = 3_000  # lines of IR from which on the first code is made quickly


@dataclass(frozen=True)
class Code:
    """The IR of modules that belong together, and the object file made of each for a processor.

    `is_quick` says that there is faster code of some of them; `from_cache` that nothing had to be
    compiled for it.
    """

    modules: tuple[str, ...]
    processor: str
    object_files: tuple[bytes, ...]
    is_quick: bool = False
    from_cache: bool = False

    def best(self) -> Code:
        """The fastest code of the same modules. Raises RuntimeError where a compiler ends."""
        return code_of(self.modules) if self.is_quick else self


@dataclass(frozen=True)
class _Made:
    object_file: bytes
    is_quick: bool
    from_cache: bool


class Compilation:
    """Modules compiled for this machine, while others that belong to them are still written: large
    ones quickly, unless the cache has better code."""

    def __init__(self) -> None:
        self.modules: list[str] = []
        self._made: list[Future[_Made]] = []
        self._pool = ThreadPoolExecutor(os.cpu_count())

    def begin(self, module: str) -> None:
        """Has a module compiled, unless the cache has it."""
        self.modules.append(module)
        self._made.append(self._pool.submit(_made_of, module, quickly=True))

    def end(self) -> Code:
        """The code of all modules. Raises RuntimeError for IR that LLVM doesn't take."""
        with self._pool:
            return _code(self.modules, [future.result() for future in self._made])


def code_of(modules: Iterable[str]) -> Code:
    """The fastest code of modules, one after the other. Raises RuntimeError as `Compilation.end`
    does."""
    every = tuple(modules)
    return _code(every, [_made_of(module, quickly=False) for module in every])


def _code(modules: Iterable[str], made: Sequence[_Made]) -> Code:
    return Code(
        tuple(modules), processor(), tuple(each.object_file for each in made),
        any(each.is_quick for each in made), all(each.from_cache for each in made),
    )  # fmt: skip


def _made_of(module: str, *, quickly: bool) -> _Made:
    """A module's object file, the cache's if it has one that does."""
    lines = module.count("\n")
    efforts = (BEST, QUICK) if quickly and lines >= LARGE else (BEST,)
    cache = object_cache.chosen()
    for effort in efforts:
        kept = None if cache is None else cache.get(_key(module, effort))
        if kept is not None:
            return _Made(kept, effort == QUICK, from_cache=True)
    effort = efforts[-1]
    made = (_compiled_apart if _is_apart(lines, effort) else object_file)(module, effort)
    if cache is not None:
        cache.put(_key(module, effort), made)
    return _Made(made, effort == QUICK, from_cache=False)


def _is_apart(lines: int, effort: int) -> bool:
    """Whether another process compiles: it would take longer to start than quick code takes."""
    return lines > APART and effort != QUICK


def _key(module: str, effort: int) -> str:
    apart = _is_apart(module.count("\n"), effort)
    return hashlib.sha256(f"{compiler()}\n{apart} {effort}\n{module}".encode()).hexdigest()


def load(code: Code) -> Any:
    """An engine that holds the compiled functions of a module, for as long as it lives itself.

    What was compiled for another processor is compiled anew.
    """
    if code.processor != processor():
        code = code_of(code.modules)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine(2))
    for part in code.object_files:
        engine.add_object_file(llvm.ObjectFileRef.from_data(part))
    engine.finalize_object()
    return engine


def _compiled_apart(text: str, effort: int) -> bytes:
    command = [sys.executable, program, str(effort)]
    run = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    if run.returncode:
        raise RuntimeError(f"LLVM ended with {run.returncode}: {run.stderr.decode()[-2000:]}")
    return run.stdout
