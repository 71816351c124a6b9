"""Compiles LLVM IR to machine code; large modules in separate processes.

LLVM's memory, 30 MB and more, stays with the process that compiles: a search would hold it to its
end. Code that was compiled before comes from the cache on disk.

LLVM's best code of a large module takes a second or more, longer than most searches last. So the
first code is compiled quickly, in this process, and is half as fast. A long search requests better
code.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import Any

import llvmlite.binding as llvm

from . import object_cache
from .object_code import BEST, QUICK, compiler, object_file, processor, target_machine
from .object_code import __file__ as program

APART = 1_000  # least lines of IR for a separate process
LARGE = 3_000  # least lines of IR for which LLVM's passes are slow

_compilers: set[subprocess.Popen[bytes]] = set()  # running
_ending = Event()


@dataclass(frozen=True)
class Code:
    """The IR of the modules of a system, and the object file of each for a processor.

    All were compiled with at least this `effort`. `from_cache`: all came from the cache.
    """

    modules: tuple[str, ...]
    processor: str
    object_files: tuple[bytes, ...]
    effort: int = BEST
    from_cache: bool = False

    def with_effort(self, effort: int) -> Code:
        """Code of the same modules, compiled with at least this effort (see `code_of`)."""
        return self if self.effort >= effort else code_of(self.modules, effort)


@dataclass(frozen=True)
class _Made:
    object_file: bytes
    effort: int
    from_cache: bool


class Compilation:
    """Compiles modules for this machine in threads, while others of the system are still written.
    It compiles quickly, unless the cache has better code.
    """

    def __init__(self) -> None:
        self.modules: list[str] = []
        self._made: list[Future[_Made]] = []
        self._pool = ThreadPoolExecutor(os.cpu_count())

    def begin(self, module: str, effort: int = QUICK) -> None:
        """Begins to compile a module, unless the cache has it."""
        self.modules.append(module)
        self._made.append(self._pool.submit(_made_of, module, effort))

    def end(self) -> Code:
        """The code of all modules. Raises RuntimeError for invalid IR."""
        with self._pool:
            return _code(self.modules, [future.result() for future in self._made])

    def close(self) -> None:
        """Cancels what isn't compiled yet. Otherwise a thread that starts during Ctrl-C would wait
        for ever, and the process for the thread.
        """
        self._pool.shutdown(wait=False, cancel_futures=True)


def code_of(modules: Sequence[str], effort: int = BEST) -> Code:
    """Compiles modules one after the other: large ones with at least this effort, small ones with
    the most effort, which takes little longer. Raises RuntimeError for invalid IR, and if a
    compiler process fails.
    """
    efforts = (effort if _is_large(module) else BEST for module in modules)
    return _code(modules, [*map(_made_of, modules, efforts)])


def _code(modules: Sequence[str], made: Sequence[_Made]) -> Code:
    return Code(
        tuple(modules),
        processor(),
        tuple(each.object_file for each in made),
        min(each.effort for each in made),
        all(each.from_cache for each in made),
    )


def _made_of(module: str, effort: int) -> _Made:
    """A module's object file, compiled with at least this effort: the cache's best, if it has
    one.
    """
    cache = object_cache.chosen()
    for more in range(BEST, effort - 1, -1):
        kept = cache.get(_key(module, more))
        if kept is not None:
            return _Made(kept, more, from_cache=True)
    if _ending.is_set():
        raise RuntimeError("the process ends")
    is_apart = _is_apart(module, effort)
    made = _compiled_apart(module, effort) if is_apart else object_file(module, effort)
    cache.put(_key(module, effort), made)
    return _Made(made, effort, from_cache=False)


def _is_large(module: str) -> bool:
    return module.count("\n") >= LARGE


def _is_apart(module: str, effort: int) -> bool:
    """Whether a separate process compiles the module. Its start takes longer than quick
    compilation.
    """
    return effort != QUICK and module.count("\n") > APART


def _key(module: str, effort: int) -> str:
    apart = _is_apart(module, effort)
    return hashlib.sha256(f"{compiler()}\n{apart} {effort}\n{module}".encode()).hexdigest()


def load(code: Code) -> Any:
    """An engine with the compiled functions. They are valid while it lives.

    Code for another processor is compiled again.
    """
    if code.processor != processor():
        code = code_of(code.modules)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine(2))
    for part in code.object_files:
        engine.add_object_file(llvm.ObjectFileRef.from_data(part))
    engine.finalize_object()
    return engine


def _compiled_apart(module: str, effort: int) -> bytes:
    is_patient = effort == BEST and _is_large(module)
    command = [sys.executable, program, str(effort), str(int(is_patient))]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as child:
        _compilers.add(child)
        try:
            made, errors = child.communicate(module.encode())
        finally:
            _compilers.discard(child)
            child.kill()
    if child.returncode:
        raise RuntimeError(f"LLVM ended with {child.returncode}: {errors.decode()[-2000:]}")
    return made


def give_up() -> None:
    """Stops all compilation at the end of this process: whoever waits for it gets a
    RuntimeError.
    """
    _ending.set()
    for child in list(_compilers):
        child.kill()
