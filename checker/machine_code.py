"""LLVM IR turned into machine code, in a process of its own where that is worth it.

What LLVM takes to compile stays with the process that it was loaded into, some 30 MB and more: a
search would carry it along to its end. This file is also the program of that other process: IR
comes in on standard input, the object file goes out on standard output.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm

APART = 1_000  # lines of IR from which on another process compiles
PASSES = "--passes"


@dataclass(frozen=True)
class Code:
    """A module's IR, and the object file that was made of it for a processor."""

    text: str
    passes: bool
    processor: str
    object_file: bytes


def compile_code(text: str, *, passes: bool) -> Code:
    """Compiles a module for this machine.

    `passes` asks for LLVM's own optimisations. Raises RuntimeError for IR that LLVM doesn't take.
    """
    compiled = _compiled_apart if text.count("\n") > APART else object_file
    return Code(text, passes, _processor(), compiled(text, passes))


def load(code: Code) -> Any:
    """An engine that holds the compiled functions of a module, for as long as it lives itself.

    What was compiled for another processor is compiled anew.
    """
    if code.processor != _processor():
        code = compile_code(code.text, passes=code.passes)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine(1))
    engine.add_object_file(llvm.ObjectFileRef.from_data(code.object_file))
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
    sys.stdout.buffer.write(object_file(sys.stdin.read(), PASSES in sys.argv))
