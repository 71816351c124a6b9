"""Prepares an instance for the search: ground, slice, pack, lower and compile."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..garbage import nothing_to_collect
from ..language import Instance
from ..model.engine.interpreter import FullState
from .ground import GroundAction, Grounded, GroundRow, ground
from .native.cache.kernel import Kernel
from .native.codegen.lower import lower
from .native.store.pack import Packing, packed
from .native.symmetry.symmetry import NO_SYMMETRY, Sorter, Symmetry, find_symmetry, refused
from .slicing import sliced, without_constants
from .spark.options import SparkOptions
from .trace.lasso import Label
from .trace.trace import represent
from .verdict.probes import fields_read


def available_threads() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True)
class Options:
    """How to check. `memory` is in bytes (none: three quarters of the free memory).

    Without `deadlock`, a run may end in any state. With `strict`, a result that holds vacuously for
    no known reason is inconclusive. With `keep_states`, the result has the states as tables, and
    with `explain_size` the causes of states; neither works on Spark. Where memory is short, states
    are kept on disk in the folder `spill`, but not those of Spark. With `spark`, Spark carries the
    search; `resume` may then be a URI. With `keep_going` a run doesn't end where something breaks:
    the shortest counterexample of each property is found; no such run is saved, nor carried by
    Spark. If it is `brief` as well, the result has just verdicts and lengths: it has no
    counterexample, and vacuity isn't checked. With `counterexamples_only` it has these, isn't asked
    either, and ends as soon as all that it looks for is broken. Of `all_traces` counterexamples,
    those after the first take searches of their own, in this process. States are looked at that
    `depth` steps lead to, until the moment `until` of time.monotonic.
    """

    threads: int = 1
    memory: int | None = None
    symmetry: bool = True
    slicing: bool = True
    deadlock: bool = True
    explain_size: bool = False
    checkpoint: Path | None = None
    resume: Path | str | None = None
    spill: Path | None = None
    strict: bool = False
    keep_states: bool = False
    keep_going: bool = False
    brief: bool = False
    counterexamples_only: bool = False
    spark: SparkOptions | None = None
    all_traces: int = 1
    depth: int | None = None
    until: float | None = None


@dataclass(frozen=True)
class Prepared:
    """An instance ready to be explored.

    `unchanging` are leaves that always have their initial value. `unbreakable` are properties that
    always hold: no row changes their fields. `labels` are the rows and bindings behind the kernel's
    numbers. `seconds` are those that it took, `lowering` the part of them for lowering and
    compiling.
    """

    instance: Instance
    grounded: Grounded
    left_out: tuple[str, ...]
    unchanging: frozenset[int]
    unbreakable: tuple[str, ...]
    symmetry: Symmetry
    packing: Packing
    kernel: Kernel
    labels: tuple[Label, ...]
    seconds: float
    lowering: float

    @property
    def taken_names(self) -> list[str]:
        """The rows' names by the kernel's numbers."""
        return [self.instance.row_names[label.row] for label in self.labels]

    def by_row(self, taken: Sequence[int]) -> list[int]:
        """How often each row was taken, of how often each label was."""
        found = [0] * len(self.instance.row_names)
        for label, count in zip(self.labels, taken, strict=True):
            found[label.row] += count
        return found

    def first_of_row(self, first: Sequence[int]) -> list[int]:
        """The depth at which each row was first taken, of that of each label; 0 where none was."""
        found: list[list[int]] = [[] for _ in self.instance.row_names]
        for label, depth in zip(self.labels, first, strict=True):
            found[label.row] += [depth] if depth else []
        return [min(depths, default=0) for depths in found]

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
    with nothing_to_collect():
        varying = without_constants(ground(instance))
        grounded = sliced(varying) if slicing else varying
        fair = any(item.kind == "leads to" for item in instance.progress)
        reduction = NO_SYMMETRY
        if symmetry:
            reduction = refused(instance, _FAIR) if fair else find_symmetry(grounded)
        labels, labelled = labelled_by(grounded) if fair else (_rows(instance), grounded)
        packing = packed(reduction.groups(grounded))
        sorter = Sorter(reduction, packing) if reduction.keys else None
        grounding = time.perf_counter() - begun
        kernel = lower(labelled, packing, sorter)
    seconds = time.perf_counter() - begun
    left_out = tuple(x.name for x in grounded.leaves if x.index in varying.kept - grounded.kept)
    return Prepared(
        instance, grounded, left_out, _unchanging(varying), tuple(_unbreakable(varying)), reduction,
        packing, kernel, labels, seconds, seconds - grounding,
    )  # fmt: skip


_FAIR = "a leads-to makes instances distinct, by what is fair to each"


def _rows(instance: Instance) -> tuple[Label, ...]:
    return tuple(Label(row, ()) for row in range(len(instance.row_names)))


def labelled_by(grounded: Grounded) -> tuple[tuple[Label, ...], Grounded]:
    """The system with a number for each row of each binding, and the labels of these numbers."""
    labels: list[Label] = []
    actions: list[GroundAction] = []
    for action in grounded.actions:
        rows: list[GroundRow] = []
        for row in action.rows:
            rows.append(replace(row, row=len(labels)))
            labels.append(Label(row.row, action.instances))
        actions.append(replace(action, rows=tuple(rows)))
    return tuple(labels), replace(grounded, actions=actions)


def _unchanging(varying: Grounded) -> frozenset[int]:
    return frozenset(leaf.index for leaf in varying.leaves) - varying.kept


def _unbreakable(varying: Grounded) -> Iterator[str]:
    """The properties that are always true, without leaves that never change."""
    changing = {str(leaf.path[0]) for leaf in varying.leaves if leaf.index in varying.kept}
    invariants = iter(varying.invariants)
    for item in varying.instance.properties:
        true = item.kind == "invariant" and next(invariants) is varying.graph.true
        if true or not fields_read(item.expression) & changing:
            yield item.name
