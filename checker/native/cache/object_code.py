"""Compiles LLVM IR to an object file for this machine. This file is also a program without imports
from the package: it reads IR from standard input and writes the object file to standard output.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import hashlib
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm

QUICK, PLAIN, BEST = range(3)
"""Efforts: code that is there soonest; of usual speed; the fastest, after LLVM's own passes."""

NICE = 19
STRAIGHT = "; straight\n"
"""The first line of a module that LLVM's passes don't make faster: it has almost no branches, or
the passes were applied before.
"""
UNORDERED = "-enable-misched=false"  # the order of selection is as fast


def object_file(text: str, effort: int) -> bytes:
    """The object file of a module for this machine. Raises RuntimeError for invalid IR."""
    machine = target_machine(effort)
    module = llvm.parse_assembly(text)
    module.verify()
    if effort == BEST and not text.startswith(STRAIGHT):
        optimize(module, machine)
    return machine.emit_object(module)


def optimize(module: Any, machine: Any) -> None:
    """Applies LLVM's passes to a parsed module, for a machine."""
    tuning = llvm.PipelineTuningOptions(speed_level=2)
    tuning.loop_vectorization = False  # the loops have few iterations
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)


def target_machine(effort: int) -> Any:
    """LLVM's generator of code for this machine."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=effort,
        codemodel="jitdefault",
    )


@cache
def processor() -> str:
    """The processor of this machine, with its features."""
    features = llvm.get_host_cpu_features().flatten()
    return f"{llvm.get_default_triple()} {llvm.get_host_cpu_name()} {features}"


def has_wide_vectors() -> bool:
    """Whether this machine has vectors of eight numbers of 64 bits, with masks."""
    return bool(llvm.get_host_cpu_features().get("avx512f"))


@cache
def compiler() -> str:
    """The settings that decide the code of a module, without the effort."""
    this_file = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    llvm_version = ".".join(map(str, llvm.llvm_version_info))
    return f"{this_file} llvmlite {llvmlite.__version__} LLVM {llvm_version} {processor()}"


if __name__ == "__main__":
    requested, is_patient = map(int, sys.argv[1:])
    if is_patient:  # a search runs meanwhile
        os.nice(NICE)
    if requested != BEST:
        llvm.set_option("", UNORDERED)
    sys.stdout.buffer.write(object_file(sys.stdin.read(), requested))
