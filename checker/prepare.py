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
    """The options of a check. `memory` is in bytes (None: three quarters of the free memory).

    Without `deadlock`, a run may end in any state. With `strict`, a result that holds vacuously for
    no known reason is inconclusive. With `keep_states`, the result has the states as tables, and
    with `explain_size` the causes of states; neither works on Spark. If memory is short, states go
    on disk in the folder `spill`, except on Spark. With `spark`, Spark carries the search; `resume`
    may then be a URI. With `keep_going` a run continues after a violation: it finds the shortest
    counterexample of each property, has no checkpoint and doesn't use Spark. If it is also `brief`,
    the result has only verdicts and lengths: no counterexamples, and no check of vacuity. With
    `counterexamples_only` the result has counterexamples but no check of vacuity, and the run ends
    when all properties are broken. Of `all_traces` counterexamples, each after the first takes
    another search, in this process. The search ends after `depth` steps, and at the time `until` of
    time.monotonic.
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
    """An instance that is ready for a search.

    `unchanging` are leaves that always have their initial value. `unbreakable` are properties that
    always hold: no row changes their fields. `labels` are the rows and bindings of the kernel's
    numbers. `seconds` are the seconds of preparation, `lowering` the part for lowering and
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
        """The number of steps of each row, from the numbers of each label."""
        found = [0] * len(self.instance.row_names)
        for label, count in zip(self.labels, taken, strict=True):
            found[label.row] += count
        return found

    def first_of_row(self, first: Sequence[int]) -> list[int]:
        """The depth at which each row was first taken, from the depths of each label; 0 if
        never.
        """
        found: list[list[int]] = [[] for _ in self.instance.row_names]
        for label, depth in zip(self.labels, first, strict=True):
            found[label.row] += [depth] if depth else []
        return [min(depths, default=0) for depths in found]

    def pack(self, state: FullState) -> bytes:
        """The packed representative of a state of the model."""
        state_bytes = self.packing.pack(self.grounded.vector(state))
        return represent(self.kernel.canonical_address, state_bytes)

    def initials(self) -> bytes:
        """The packed initial states, contiguous."""
        packed_ones = {self.packing.pack(vector) for vector in self.grounded.initials}
        address = self.kernel.canonical_address
        return b"".join(sorted({represent(address, state) for state in packed_ones}))


def prepare(instance: Instance, *, symmetry: bool = True, slicing: bool = True) -> Prepared:
    """Grounds and compiles an instance. Raises DeclarationError if that fails."""
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
    """Numbers each row of each binding. Returns the labels of the numbers, and the numbered
    system.
    """
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
    """The names of the properties that are always true, after constant leaves are replaced."""
    changing = {str(leaf.path[0]) for leaf in varying.leaves if leaf.index in varying.kept}
    invariants = iter(varying.invariants)
    for item in varying.instance.properties:
        true = item.kind == "invariant" and next(invariants) is varying.graph.true
        if true or not fields_read(item.expression) & changing:
            yield item.name
