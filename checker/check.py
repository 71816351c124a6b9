"""A system checked: grounded, sliced, packed, compiled, searched, and the verdict told."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from ..model.interpreter import FullState, Interpreter, Step
from ..spec.language import Instance, Property
from .checkpoint import Checkpoint
from .explore import Bad, Explorer, Progress, Search, search
from .ground import Grounded, ground
from .lower import BROKEN, DEADLOCK, FAULT, Kernel, lower
from .pack import Packing, packed
from .slicing import sliced, without_constants
from .symmetry import NO_SYMMETRY, Sorter, Symmetry, find_symmetry
from .trace import Disagreement, follow, represent, told
from .verdict import PropertyVerdict, Result, Verdict

RANGE = "every value stays in the range of its type"


def available_threads() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True)
class Options:
    """How to check. `memory` is in bytes (none: three quarters of what is free)."""

    threads: int = 1
    memory: int | None = None
    symmetry: bool = True
    slicing: bool = True
    checkpoint: Path | None = None
    resume: Path | None = None


@dataclass(frozen=True)
class Prepared:
    """An instance ready to be explored."""

    instance: Instance
    grounded: Grounded
    left_out: tuple[str, ...]
    symmetry: Symmetry
    packing: Packing
    kernel: Kernel
    seconds: float

    def pack(self, state: FullState) -> bytes:
        """The packed state that stands for a state of the model."""
        state_bytes = self.packing.pack(self.grounded.vector(state))
        return represent(self.kernel.canonical_address, state_bytes)

    def initials(self) -> bytes:
        """The packed initial states, one behind the other."""
        packed_ones = {self.packing.pack(vector) for vector in self.grounded.initials}
        address = self.kernel.canonical_address
        return b"".join(sorted({represent(address, state) for state in packed_ones}))


def prepare(instance: Instance, *, symmetry: bool = True, slicing: bool = True) -> Prepared:
    """Grounds and compiles an instance. Raises DeclarationError where that can't be done."""
    begun = time.perf_counter()
    varying = without_constants(ground(instance))
    grounded = sliced(varying) if slicing else varying
    reduction = find_symmetry(grounded) if symmetry else NO_SYMMETRY
    packing = packed(reduction.groups(grounded))
    sorter = Sorter(reduction, packing) if reduction.orbits else None
    kernel = lower(grounded, packing, sorter)
    left_out = tuple(x.name for x in grounded.leaves if x.index in varying.kept - grounded.kept)
    return Prepared(
        instance, grounded, left_out, reduction, packing, kernel, time.perf_counter() - begun
    )


def check(
    instance: Instance,
    options: Options | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Explores every state within the bounds, or up to a limit, or to the first fault.

    Raises DeclarationError for a faulty declaration, CheckpointError for a folder that can't be
    used, Disagreement where native code and the executable model differ.
    """
    options = options or Options()
    prepared = prepare(instance, symmetry=options.symmetry, slicing=options.slicing)
    memory = options.memory or psutil.virtual_memory().available * 3 // 4
    explorer = Explorer(
        prepared.kernel,
        prepared.packing.stride,
        len(instance.row_names),
        options.threads,
        memory,
    )
    try:
        found = _searched(prepared, explorer, options, on_progress)
        return _result(prepared, explorer, found)
    finally:
        explorer.close()


def _searched(
    prepared: Prepared,
    explorer: Explorer,
    options: Options,
    on_progress: Callable[[Progress], None] | None,
) -> Search:
    checkpoint = None
    folder = options.resume or options.checkpoint
    if folder is not None:
        checkpoint = Checkpoint(folder, _identity(prepared))
    if checkpoint is not None and options.resume is not None:
        for states in checkpoint.load():
            if not explorer.insert(states):
                explorer.found.stopped = "memory"
                return explorer.found
            explorer.begin_level()
        explorer.resume(checkpoint.transitions, checkpoint.taken, checkpoint.seconds)
    else:
        if checkpoint is not None:
            checkpoint.begin()
        explorer.insert(prepared.initials())
        explorer.begin_level()

    def on_level(progress: Progress) -> None:
        if checkpoint is not None:
            level = progress.depth - 1
            found = explorer.found
            checkpoint.save(
                level, explorer.level_bytes(level), found.transitions, found.taken, found.seconds
            )
        if on_progress is not None:
            on_progress(progress)

    return search(explorer, on_level=on_level, on_round=on_progress)


def _identity(prepared: Prepared) -> dict[str, Any]:
    instance = prepared.instance
    return {
        "system": instance.system.name,
        "protocol": instance.protocol,
        "features": _listed(sorted(instance.features)),
        **{f"constant {name}": value for name, value in instance.constants.items()},
        "properties": _listed(item.name for item in instance.properties),
        "symmetry": _listed(orbit.key.name for orbit in prepared.symmetry.orbits),
        "left out": _listed(prepared.left_out),
        "rows": hashlib.sha256(prepared.kernel.text.encode()).hexdigest(),
    }


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _result(prepared: Prepared, explorer: Explorer, found: Search) -> Result:
    instance = prepared.instance
    names = instance.row_names
    taken = found.taken or [0] * len(names)
    result = Result(
        system=instance.system.name,
        protocol=instance.protocol,
        constants={i.name: instance.constants[i.name] for i in instance.system.constant_infos},
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
        notes=[f"symmetry not used for {reason}" for reason in prepared.symmetry.refused],
    )
    if found.bad:
        _tell_fault(prepared, explorer, found.bad, result)
    elif found.stopped:
        result.verdict = Verdict.INCONCLUSIVE
        result.reason = f"the {found.stopped} limit was met after level {found.depth - 1}"
        result.properties = [PropertyVerdict(p.name, "unknown") for p in result.properties]
    return result


def _tell_fault(prepared: Prepared, explorer: Explorer, bad: list[Bad], result: Result) -> None:
    """The shortest counterexample: an invariant or a deadlock first, as a faulty step is longer."""
    instance = prepared.instance
    machine = Interpreter(instance)
    for kind in (BROKEN, DEADLOCK, FAULT):
        at_fault = sorted(item.state for item in bad if item.flags & kind)
        if at_fault:
            break
    else:
        raise Disagreement("a fault of no kind")
    path = [at_fault[0]]
    for level in range(len(explorer.levels) - 2, -1, -1):
        path.insert(0, explorer.predecessor(path[0], level))
    states, steps = follow(machine, path, prepared.pack)
    broken = ""
    if kind == BROKEN:
        broken, conclusion = _broken_invariant(machine, states[-1])
        result.verdict = Verdict.BROKEN
    elif kind == DEADLOCK:
        conclusion = "Deadlock: no row can be taken in the last state."
        if next(machine.steps(states[-1]), None) is not None:
            raise Disagreement("native code sees a deadlock where the model can take a step")
        result.verdict = Verdict.DEADLOCK
    else:
        broken, conclusion, step = _faulty_step(machine, states[-1])
        steps.append(step)
        if step.state is not None:
            states.append(step.state)
        result.verdict = Verdict.BROKEN
    result.reason = conclusion
    result.trace = told(instance, states, steps, conclusion)
    result.properties = [
        PropertyVerdict(p.name, "broken", len(steps), _known(instance, p))
        if p.name == broken
        else PropertyVerdict(p.name, "unknown")
        for p in instance.properties
    ]
    if kind == FAULT and not any(p.name == broken for p in instance.properties):
        result.properties.append(PropertyVerdict(RANGE, "broken", len(steps)))


def _known(instance: Instance, item: Property) -> str:
    """What is known of a property that is broken, and how it would hold."""
    bug = item.known_bug
    if bug is None or not instance.system.protocols.holds(bug.during, instance.features):
        return ""
    mends = (feature.data.name for feature in bug.mended_by)
    off = [f"--with {name}" for name in mends if name not in instance.features]
    return f"{bug.what}; holds {' '.join(off)}" if off else ""


def _broken_invariant(machine: Interpreter, state: FullState) -> tuple[str, str]:
    for item in machine.instance.properties:
        if item.kind == "invariant" and not machine.holds(item.expression, state):
            return item.name, f"{item.name} is broken in the last state: {item.sentence}"
    raise Disagreement("native code sees an invariant broken where the model sees none")


def _faulty_step(machine: Interpreter, state: FullState) -> tuple[str, str, Step]:
    for step in machine.steps(state):
        if step.state is None:
            return RANGE, f"The last step is out of range: {step.fault}", step
        for item in machine.instance.properties:
            if item.kind == "step" and not machine.step_holds(item, state, step.state):
                return item.name, f"{item.name} is broken by the last step: {item.sentence}", step
    raise Disagreement("native code sees a faulty step where the model sees none")
