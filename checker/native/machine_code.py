"""LLVM IR turned into machine code, in processes of their own where that is worth it.

What LLVM takes to compile stays with the process that it was loaded into, some 30 MB and more: a
search would carry it along to its end. What was compiled before is taken from the cache on disk.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm

from . import object_cache
from .object_code import PASSES, compiler, object_file, processor, target_machine
from .object_code import __file__ as program

APART = 1_000  # lines of IR from which on another process compiles
LARGE = 3_000  # lines of IR from which on LLVM's own passes cost more than they win


@dataclass(frozen=True)
class Code:
    """The IR of modules that belong together, and the object file made of each for a processor.

    `from_cache` says that nothing had to be compiled for it.
    """

    modules: tuple[str, ...]
    processor: str
    object_files: tuple[bytes, ...]
    from_cache: bool = False


class Compilation:
    """Modules compiled for this machine, while others that belong to them are still written."""

    def __init__(self) -> None:
        self.modules: list[str] = []
        self._made: list[Future[tuple[bytes, bool]]] = []
        self._pool = ThreadPoolExecutor(os.cpu_count())
        self._cache = object_cache.chosen()

    def begin(self, module: str) -> None:
        """Has a module compiled, unless the cache has it."""
        self.modules.append(module)
        self._made.append(self._pool.submit(self._object_file, module))

    def _object_file(self, module: str) -> tuple[bytes, bool]:
        """A module's object file, and whether it is the cache's."""
        lines = module.count("\n")
        apart, passes = lines > APART, lines < LARGE
        key = hashlib.sha256(f"{compiler()}\n{apart} {passes}\n{module}".encode()).hexdigest()
        kept = None if self._cache is None else self._cache.get(key)
        if kept is not None:
            return kept, True
        made = (_compiled_apart if apart else object_file)(module, passes)
        if self._cache is not None:
            self._cache.put(key, made)
        return made, False

    def end(self) -> Code:
        """The code of all modules. Raises RuntimeError for IR that LLVM doesn't take."""
        with self._pool:
            made = [future.result() for future in self._made]
        object_files = tuple(object_file for object_file, _ in made)
        from_cache = all(kept for _, kept in made)
        return Code(tuple(self.modules), processor(), object_files, from_cache)


def code_of(modules: Iterable[str]) -> Code:
    """The code of modules that are there already. Raises RuntimeError as `Compilation.end` does."""
    compilation = Compilation()
    for each in modules:
        compilation.begin(each)
    return compilation.end()


def load(code: Code) -> Any:
    """An engine that holds the compiled functions of a module, for as long as it lives itself.

    What was compiled for another processor is compiled anew.
    """
    if code.processor != processor():
        code = code_of(code.modules)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine(1))
    for part in code.object_files:
        engine.add_object_file(llvm.ObjectFileRef.from_data(part))
    engine.finalize_object()
    return engine


def _compiled_apart(text: str, passes: bool) -> bytes:
    command = [sys.executable, program, *([PASSES] if passes else [])]
    run = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    if run.returncode:
        raise RuntimeError(f"LLVM ended with {run.returncode}: {run.stderr.decode()[-2000:]}")
    return run.stdout
