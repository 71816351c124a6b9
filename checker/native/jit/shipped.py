"""LLVM IR of compiled functions in the package: a first run doesn't load Numba.

`functions.xz` has it as JSON: for each function and kinds of arguments (`ENTRIES`) a digest of its
sources, the number of its results, and its IR after LLVM's passes. If a source has changed, Numba
compiles the function. `python -m epochfence.checker.native.jit.shipped` renews the file.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import ast
import json
import lzma
import os
import platform
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from ..cache.object_code import BEST, STRAIGHT, optimize
from .functions import Compiled

FILE = Path(__file__).with_name("functions.xz")
_NATIVE = str(__package__).rpartition(".")[0]
ENTRIES = {
    "search.components.broken_aims": "l1, I1, I1, B1, L2, L1, L1, I1, I1, I1, H1, I1, B1, L2",
    "search.components.components": "l1, I1, I1, B1, L2, L1, L1, I1, I1, I1, H1, I1, L2, i, I1",
    "search.components.reach_all": "l1, I1, I1, I1, I1, B1, B1",
    "search.transitions.link": "i, i, i, i, l1, l2, l2, i, l1, l1, l2, i, I1, L1, l1, l1, l1, l1, "
    "l1, B1, I1, B1, I1, l1, L1, i",
    "search.worker.deal": "i, i, i, i, l1, l1",
    "search.worker.deal_numbers": "l1, i, i, l2, l1, l1",
    "search.worker.drop_sent_of_all": "l1, l1, i, i, i, i, i",
    "search.worker.find": "i, i, i, i, i, l1, l2, i, l1, i, I1, L1, l1, B1, i, i, B1, l1",
    "search.worker.note_hashes": "i, i, i, B1",
    "search.worker.owners": "i, i, i, l1",
    "search.worker.scatter": "i, i, i, i, i, i, (l1 l2 l2 i l1 l1 l2 i I1 L1 l1 l1 l1 l1 i B1)",
    "store.distinct.keep_contents": "i, i, i, l1, l2, L1, l1, L1",
    "store.distinct.keep_masked": "i, i, i, l1, L1, L1, l1, L1",
    "store.distinct.most_bits": "i, i, i, l1, L1",
    "store.parts.begin_fold": "i, i, i, i, l1, l2, l1, i, l2, i",
    "store.parts.end_fold": "i, l2, l2, l2, i",
    "store.parts.move_slots": "i, i, l2, i",
    "store.parts.rewrite_records": "l1, l1, i, l2, i, l2, l1, L1",
    "store.store.divide": "(l2 l2 l2), i, i, i, i, l1, l1, i",
    "store.store.index_states": "i, i, i, i, i",
    "store.store.insert_all": "i, i, (l1 l1 l1 l1 l1 l1), (l2 l2 l2)",
    "store.store.packed_between": "l1, l1, l1, l1, l1, l2, l1, i",
    "store.store.packed_states": "i, i, i, i, l1, l2, l1, i, i",
    "walks.walks.follow": "i, i, i, i, I1, i, i, l1, l1, i, I1, L1, l1",
    "walks.walks.mark": "i, L1",
    "walks.walks.retrace": "i, i, i, I1, i, I1, L1, l1, I1",
    "walks.walks.walks": "i, i, i, i, l1, l1, i, i, i, i, i, i, l1, H1, B1, i, l1, i, i, L1, i, "
    "i, I1, L1, l1, l2, L1, l1, I1, I1, I1, I1, L1, l2, i, I1",
}
"""The functions that Python calls, and the kinds of their arguments (see `Compiled`)."""


def shipped(function: Compiled, kinds: tuple[str, ...]) -> tuple[int, str] | None:
    """The number of a function's results, and a module with a function `entry` that calls it (see
    `numba_ir`). None if the package has no IR of these sources for this machine and this LLVM.
    """
    kept = contents()
    if kept["target"] != target():
        return None
    found = kept["functions"].get(
        f"{function.name.removeprefix(_NATIVE + '.')}: {', '.join(kinds)}"
    )
    return found[1:] if found and found[0] == digest(function) else None


@cache
def contents() -> dict[str, Any]:
    """The content of the file: `target`, the `versions` that generated it, and the `functions`."""
    return json.loads(lzma.decompress(FILE.read_bytes()))


def target() -> str:
    """The machine and the LLVM version for which the IR is valid."""
    return f"{platform.machine()}, LLVM {llvm.llvm_version_info[0]}"


def versions() -> list[str]:
    """The libraries that decide the IR of a function."""
    return [f"{name} {version(name)}" for name in ("llvmlite", "numba", "numpy")]


@cache
def digest(function: Compiled) -> str:
    """A digest of a function, of the constants that it uses, and of its inlined functions."""
    python = function.function
    parts = [_definitions(python.__code__.co_filename)[python.__name__]]
    parts += (_all_of(name) for name in ("intrinsics.py", "numba_ir.py"))
    for name in sorted({*python.__code__.co_names}):
        value = python.__globals__.get(name)
        if isinstance(value, Compiled):
            parts.append(digest(value))
        elif isinstance(value, (int, np.integer)):
            parts.append(f"{name} = {type(value).__name__} {value}")
    return sha256("\n".join(parts).encode()).hexdigest()


@cache
def _definitions(path: str) -> dict[str, str]:
    """The functions of a file, without comments and docstrings."""
    body = ast.parse(Path(path).read_bytes()).body
    return {each.name: _bare(each) for each in body if isinstance(each, ast.FunctionDef)}


@cache
def _all_of(name: str) -> str:
    """A file of this folder, without comments and docstrings."""
    return _bare(ast.parse(Path(__file__).with_name(name).read_bytes()))


def _bare(tree: ast.AST) -> str:
    for each in ast.walk(tree):
        if isinstance(each, (ast.Module, ast.FunctionDef)) and ast.get_docstring(each):
            each.body = each.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def main(file: Path = FILE) -> None:
    """Writes the file."""
    # for every processor of this architecture
    os.environ |= {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    numba = import_module(f"{__package__}.numba_ir")
    functions: dict[str, Any] = {}
    for name, kinds in ENTRIES.items():
        function = named(name)
        results, text = numba.llvm_ir(function, tuple(kinds.split(", ")))
        functions[f"{name}: {kinds}"] = [digest(function), results, _optimized(text)]
    made = {"target": target(), "versions": versions(), "functions": functions}
    file.write_bytes(lzma.compress(json.dumps(made).encode(), preset=9))


def named(name: str) -> Compiled:
    """A function of `ENTRIES`."""
    module, _, own = name.rpartition(".")
    return getattr(import_module(f"{_NATIVE}.{module}"), own)


def _optimized(text: str) -> str:
    """The module after LLVM's passes, without names: Numba's names contain counters."""
    machine = llvm.Target.from_default_triple().create_target_machine(opt=BEST)
    module = llvm.parse_assembly(text.replace("= common local_unnamed_addr", "= internal"))
    optimize(module, machine)
    names = llvm.create_new_module_pass_manager()
    names.add_global_dead_code_eliminate_pass()
    names.add_strip_dead_prototype_pass()
    names.add_strip_symbols_pass()
    names.run(module, llvm.create_pass_builder(machine, llvm.PipelineTuningOptions()))
    return STRAIGHT + str(module)


if __name__ == "__main__":
    main()
