"""LLVM IR turned into machine code, in processes of their own where that is worth it.

What LLVM takes to compile stays with the process that it was loaded into, some 30 MB and more: a
search would carry it along to its end. This file is also the program of those other processes: IR
comes in on standard input, the object file goes out on standard output.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm

APART = 1_000  # lines of IR from which on another process compiles
LARGE = 3_000  # lines of IR from which on LLVM's own passes cost more than they win
PASSES = "--passes"
QUICK = "-enable-misched=false"  # the order that instructions are chosen in does as well


@dataclass(frozen=True)
class Code:
    """The IR of modules that belong together, and the object file made of each for a processor."""

    modules: tuple[str, ...]
    processor: str
    object_files: tuple[bytes, ...]


class Compilation:
    """Modules compiled for this machine, while others that belong to them are still written."""

    def __init__(self) -> None:
        self.modules: list[str] = []
        self._made: list[Future[bytes]] = []
        self._pool = ThreadPoolExecutor(os.cpu_count())

    def begin(self, module: str) -> None:
        """Has a module compiled."""
        lines = module.count("\n")
        compiled = _compiled_apart if lines > APART else object_file
        self.modules.append(module)
        self._made.append(self._pool.submit(compiled, module, lines < LARGE))

    def end(self) -> Code:
        """The code of all modules. Raises RuntimeError for IR that LLVM doesn't take."""
        with self._pool:
            object_files = tuple(made.result() for made in self._made)
        return Code(tuple(self.modules), _processor(), object_files)


def load(code: Code) -> Any:
    """An engine that holds the compiled functions of a module, for as long as it lives itself.

    What was compiled for another processor is compiled anew.
    """
    if code.processor != _processor():
        compilation = Compilation()
        for module in code.modules:
            compilation.begin(module)
        code = compilation.end()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine(1))
    for part in code.object_files:
        engine.add_object_file(llvm.ObjectFileRef.from_data(part))
    engine.finalize_object()
    return engine


def object_file(text: str, passes: bool) -> bytes:
    """A module compiled for this machine. Raises RuntimeError for IR that LLVM doesn't take."""
    machine = _target_machine(2 if passes else 1)
    module = llvm.parse_assembly(text)
    module.verify()
    if passes:
        tuning = llvm.PipelineTuningOptions(speed_level=2)
        builder = llvm.create_pass_builder(machine, tuning)
        builder.getModulePassManager().run(module, builder)
    return machine.emit_object(module)


def _processor() -> str:
    features = llvm.get_host_cpu_features().flatten()
    return f"{llvm.get_default_triple()} {llvm.get_host_cpu_name()} {features}"


def _target_machine(effort: int) -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=effort,
        codemodel="jitdefault",
    )


def _compiled_apart(text: str, passes: bool) -> bytes:
    command = [sys.executable, __file__, *([PASSES] if passes else [])]
    run = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    if run.returncode:
        raise RuntimeError(f"LLVM ended with {run.returncode}: {run.stderr.decode()[-2000:]}")
    return run.stdout


if __name__ == "__main__":
    with_passes = PASSES in sys.argv
    if not with_passes:
        llvm.set_option("", QUICK)
    sys.stdout.buffer.write(object_file(sys.stdin.read(), with_passes))
