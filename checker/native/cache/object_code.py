"""LLVM IR turned into an object file for this machine. This file is also a program, which depends
on nothing else of the package: IR comes in on standard input, the object file goes out on standard
output.
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
"""The first line of a module that LLVM's passes make no faster: it has next to no branches, or they
were applied before."""
UNORDERED = "-enable-misched=false"  # the order that instructions are chosen in does as well


def object_file(text: str, effort: int) -> bytes:
    """A module compiled for this machine. Raises RuntimeError for IR that LLVM doesn't take."""
    machine = target_machine(effort)
    module = llvm.parse_assembly(text)
    module.verify()
    if effort == BEST and not text.startswith(STRAIGHT):
        optimize(module, machine)
    return machine.emit_object(module)


def optimize(module: Any, machine: Any) -> None:
    """Applies LLVM's passes to a parsed module, for a machine."""
    tuning = llvm.PipelineTuningOptions(speed_level=2)
    tuning.loop_vectorization = False  # the loops are of few turns
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
    """The machine that object files run on."""
    features = llvm.get_host_cpu_features().flatten()
    return f"{llvm.get_default_triple()} {llvm.get_host_cpu_name()} {features}"


def has_wide_vectors() -> bool:
    """Whether this machine computes with vectors of eight numbers of 64 bits, and masks of them."""
    return bool(llvm.get_host_cpu_features().get("avx512f"))


@cache
def compiler() -> str:
    """Everything that decides the code of a module, except its effort."""
    this_file = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    llvm_version = ".".join(map(str, llvm.llvm_version_info))
    return f"{this_file} llvmlite {llvmlite.__version__} LLVM {llvm_version} {processor()}"


if __name__ == "__main__":
    asked, is_patient = map(int, sys.argv[1:])
    if is_patient:  # a search goes on meanwhile
        os.nice(NICE)
    if asked != BEST:
        llvm.set_option("", UNORDERED)
    sys.stdout.buffer.write(object_file(sys.stdin.read(), asked))
