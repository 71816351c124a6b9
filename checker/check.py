"""A system checked: grounded, sliced, packed, compiled, searched, and the verdict told."""

from __future__ import annotations

import gc
import hashlib
import os
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from ..model.interpreter import FullState
from ..spec.language import Instance
from .checkpoint import Checkpoint
from .explore import Bad, Carrier, Explorer, Progress, search
from .fault import Kind, tell_fault
from .ground import Grounded, ground
from .lower import BROKEN, DEADLOCK, FAULT, Kernel, lower
from .pack import Packing, packed
from .slicing import sliced, without_constants
from .spark.options import SparkOptions
from .symmetry import NO_SYMMETRY, Sorter, Symmetry, find_symmetry
from .trace import represent
from .verdict import PropertyVerdict, Result, Verdict


def available_threads() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True)
class Options:
    """How to check. `memory` is in bytes (none: three quarters of what is free).

    With `spark`, Spark carries the search; `resume` may then be a URI.
    """

    threads: int = 1
    memory: int | None = None
    symmetry: bool = True
    slicing: bool = True
    checkpoint: Path | None = None
    resume: Path | str | None = None
    spark: SparkOptions | None = None


@dataclass(frozen=True)
class Prepared:
    """An instance ready to be explored.

    `seconds` are those that it took, `lowering` the part of them for lowering and compiling.
    """

    instance: Instance
    grounded: Grounded
    left_out: tuple[str, ...]
    symmetry: Symmetry
    packing: Packing
    kernel: Kernel
    seconds: float
    lowering: float

    def pack(self, state: FullState) -> bytes:
        """The packed state that stands for a state of the model."""
        state_bytes = self.packing.pack(self.grounded.vector(state))
        return represent(self.kernel.canonical_address, state_bytes)

    def initials(self) -> bytes:
        """The packed initial states, one behind the other."""
        packed_ones = {self.packing.pack(vector) for vector in self.grounded.initials}
        address = self.kernel.canonical_address
        return b"".join(sorted({represent(address, state) for state in packed_ones}))


@contextmanager
def _no_collection() -> Generator[None]:
    """Python looks for no garbage: of many objects that all stay, the search finds none, again and
    again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def prepare(instance: Instance, *, symmetry: bool = True, slicing: bool = True) -> Prepared:
    """Grounds and compiles an instance. Raises DeclarationError where that can't be done."""
    begun = time.perf_counter()
    with _no_collection():
        varying = without_constants(ground(instance))
        grounded = sliced(varying) if slicing else varying
        reduction = find_symmetry(grounded) if symmetry else NO_SYMMETRY
        packing = packed(reduction.groups(grounded))
        sorter = Sorter(reduction, packing) if reduction.orbits else None
        grounding = time.perf_counter() - begun
        kernel = lower(grounded, packing, sorter)
    seconds = time.perf_counter() - begun
    left_out = tuple(x.name for x in grounded.leaves if x.index in varying.kept - grounded.kept)
    return Prepared(
        instance, grounded, left_out, reduction, packing, kernel, seconds, seconds - grounding
    )


def check(
    instance: Instance,
    options: Options | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Explores every state within the bounds, or up to a limit, or to the first fault.

    Raises DeclarationError for a faulty declaration, CheckpointError for a folder that can't be
    used, SparkError where Spark can't do its work, Disagreement where native code and the
    executable model differ.
    """
    options = options or Options()
    prepared = prepare(instance, symmetry=options.symmetry, slicing=options.slicing)
    if options.spark is not None:
        return _checked_on_spark(prepared, options, options.spark, on_progress)
    explorer = _explorer(prepared, options)
    try:
        _search(prepared, explorer, options, on_progress)
        return _result(prepared, explorer, {"name": "local", "threads": options.threads})
    finally:
        explorer.close()


def _explorer(prepared: Prepared, options: Options) -> Explorer:
    return Explorer(
        prepared.kernel,
        prepared.packing.stride,
        len(prepared.instance.row_names),
        options.threads,
        options.memory or psutil.virtual_memory().available * 3 // 4,
    )


def _begin(prepared: Prepared, explorer: Explorer) -> None:
    """The initial states are the first level."""
    explorer.insert(prepared.initials())
    explorer.begin_level()


def _checked_on_spark(
    prepared: Prepared,
    options: Options,
    spark: SparkOptions,
    on_progress: Callable[[Progress], None] | None,
) -> Result:
    from .spark.engine import SparkRun

    def begin() -> Explorer:
        explorer = _explorer(prepared, options)
        _begin(prepared, explorer)
        return explorer

    def tell(carrier: Carrier, figures: dict[str, Any], notes: list[str]) -> Result:
        result = _result(prepared, carrier, figures)
        result.notes += notes
        return result

    resume = None if options.resume is None else str(options.resume)
    rows = len(prepared.instance.row_names)
    run = SparkRun(
        prepared.kernel, prepared.packing.stride, rows, identity(prepared), spark,
        options.memory, resume, begin,
    )  # fmt: skip
    return run.finish(on_progress, tell)


def _search(
    prepared: Prepared,
    explorer: Explorer,
    options: Options,
    on_progress: Callable[[Progress], None] | None,
) -> None:
    checkpoint = None
    folder = options.resume or options.checkpoint
    if folder is not None:
        checkpoint = Checkpoint(Path(folder), identity(prepared))
    if checkpoint is not None and options.resume is not None:
        for states in checkpoint.load():
            if not explorer.insert(states):
                explorer.found.stopped = "memory"
                return
            explorer.begin_level()
        explorer.resume(checkpoint.transitions, checkpoint.taken, checkpoint.seconds)
    else:
        if checkpoint is not None:
            checkpoint.begin()
        _begin(prepared, explorer)

    def on_level(progress: Progress) -> None:
        if checkpoint is not None:
            level = progress.depth - 1
            found = explorer.found
            checkpoint.save(
                level, explorer.level_bytes(level), found.transitions, found.taken, found.seconds
            )
        if on_progress is not None:
            on_progress(progress)

    search(explorer, on_level=on_level, on_round=on_progress)


def identity(prepared: Prepared) -> dict[str, Any]:
    """What another run must share to go on with what this one has found."""
    instance = prepared.instance
    return {
        "system": instance.system.name,
        "protocol": instance.protocol,
        "features": _listed(sorted(instance.features)),
        **{f"constant {name}": value for name, value in instance.constants.items()},
        "properties": _listed(item.name for item in instance.properties),
        "symmetry": _listed(orbit.key.name for orbit in prepared.symmetry.orbits),
        "left out": _listed(prepared.left_out),
        "rows": hashlib.sha256("".join(prepared.kernel.code.modules).encode()).hexdigest(),
    }


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _result(prepared: Prepared, carrier: Carrier, engine: dict[str, Any]) -> Result:
    instance = prepared.instance
    found = carrier.found
    names = instance.row_names
    taken = found.taken or [0] * len(names)
    result = Result(
        system=instance.system.name,
        protocol=instance.protocol,
        constants=instance.chosen,
        features=sorted(instance.features),
        verdict=Verdict.HOLDS,
        reason="",
        properties=[PropertyVerdict(item.name, "holds") for item in instance.properties],
        states=found.states,
        transitions=found.transitions,
        depth=found.depth,
        seconds=found.seconds,
        compile_seconds=prepared.seconds,
        memory=found.memory,
        rows=list(zip(names, taken, strict=True)),
        left_out=list(prepared.left_out),
        symmetry=[orbit.key.name for orbit in prepared.symmetry.orbits],
        engine=engine,
        notes=[f"symmetry not used for {reason}" for reason in prepared.symmetry.refused],
    )
    if found.bad:
        _tell_fault(prepared, carrier, found.bad, result)
    elif found.stopped:
        result.verdict = Verdict.INCONCLUSIVE
        result.reason = f"the {found.stopped} limit was met after level {found.depth - 1}"
        result.properties = [PropertyVerdict(p.name, "unknown") for p in result.properties]
    return result


def _tell_fault(prepared: Prepared, carrier: Carrier, bad: list[Bad], result: Result) -> None:
    """The shortest counterexample: an invariant or a deadlock first, as a faulty step is longer."""
    kinds = {BROKEN: Kind.STATE, DEADLOCK: Kind.DEADLOCK, FAULT: Kind.STEP}
    flag = next(flag for flag in kinds if any(item.flags & flag for item in bad))
    at_fault = sorted(item.state for item in bad if item.flags & flag)
    path = [at_fault[0]]
    for level in range(carrier.found.depth - 2, -1, -1):
        path.insert(0, carrier.predecessor(path[0], level))
    tell_fault(prepared.instance, kinds[flag], path, prepared.pack, result)
