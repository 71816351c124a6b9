"""Checks a system: grounds, slices, packs, compiles, searches, and reaches a verdict."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable
from contextlib import closing
from dataclasses import replace
from functools import partial
from heapq import nsmallest
from pathlib import Path
from typing import Any

import numpy as np

from ..checksums import DamagedError, program
from ..garbage import nothing_to_collect
from ..language import DeclarationError, Instance
from ..language.instances.instance import ending_anywhere, ends_anywhere
from ..model.engine.interpreter import Interpreter
from .named_systems import place_of
from .native.codegen.sharing import DEADLOCK, RANGE, Flags
from .native.jit.memory import fair_limit
from .native.search.checkpoint import REMEDY, Checkpoint, CheckpointError
from .native.search.coverage import sought
from .native.search.explore import (
    INTERRUPTED,
    MEMORY,
    Bad,
    Carrier,
    Explorer,
    Progress,
    search,
    spilled,
    why_stopped,
)
from .native.search.vectors import in_ranges
from .native.search.worker import MOST_KEPT
from .native.store.disk import Disk
from .output.state_tables import Found
from .prepare import Options, Prepared, prepare
from .spark.options import SparkOptions
from .trace.counterexamples import Tried, broken_by, enumerate_from
from .verdict.probes import Probe
from .verdict.property_results import check_number, judge, tell_each
from .verdict.result import Outcome, PropertyVerdict, Result, Verdict, counterexample_of, described
from .verdict.vacuity import could_say_more, untaken, vacuities, vacuously, waits, wrongly_unreached
from .verdict.violation import Kind, set_violation, violating_steps

NOT_REPORTED = "not reported"


def check(
    instance: Instance,
    options: Options | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Explores every state within the bounds, or up to a limit or the first violation. Then it
    searches for further counterexamples, if the options ask for them.

    Raises DeclarationError for a faulty declaration, CheckpointError for an unusable checkpoint
    folder, DiskError for an unusable folder of states, SparkError if Spark fails, ReplayError if
    native code and the executable model differ.
    """
    options = options or Options()
    if instance.progress and options.spark is not None:
        raise DeclarationError("progress properties can't be checked on Spark")
    if options.spill is not None and (instance.progress or options.spark is not None):
        raise DeclarationError("states can't go on disk with Spark or properties of progress")
    if options.keep_going:
        if options.spark or options.checkpoint or options.resume:
            raise DeclarationError("keep_going can't be used with Spark or a checkpoint")
        if options.all_traces > 1:
            raise DeclarationError(
                "keep_going finds only one counterexample of each property: leave all_traces out"
            )
        check_number(instance)
    if not options.deadlock:
        instance = ending_anywhere(instance)
    prepared = prepare(instance, symmetry=options.symmetry, slicing=options.slicing)
    result = _check(prepared, options, on_progress)
    if options.all_traces > 1 and result.verdict in (Verdict.BROKEN, Verdict.DEADLOCK):

        def look(number: int, off: frozenset[str]) -> Tried:
            return _without(prepared, options, result, number, off, on_progress)

        (first,) = result.counterexamples
        result.enumeration = enumerate_from(first, options.all_traces, look)
        result.properties = broken_by(result.enumeration.found, result.properties)
    return result


def _check(
    prepared: Prepared, options: Options, on_progress: Callable[[Progress], None] | None
) -> Result:
    instance = prepared.instance
    if options.spark is not None:
        return _checked_on_spark(prepared, options, options.spark, on_progress)
    explorer = explorer_of(prepared, options)
    try:
        _search(prepared, explorer, options, on_progress)
        engine = {"name": "local", "threads": options.threads}
        result = _result(prepared, explorer, engine, options)
        if instance.progress and result.verdict is Verdict.HOLDS:
            from .liveness import look_for_progress

            look_for_progress(
                prepared,
                explorer,
                result,
                every=options.keep_going,
                brief=options.brief,
                until=options.until,
            )
        if options.keep_going:
            judge(instance, result)
        _look_at_vacuity(result, options.strict)
        if options.keep_states:
            result.found = Found(prepared, explorer, result.trace)
        if options.explain_size:
            from .size import explain

            result.size = explain(
                prepared.grounded, prepared.packing, explorer.store, options.threads
            )
        return result
    finally:
        explorer.close()


def _without(
    prepared: Prepared,
    options: Options,
    first: Result,
    number: int,
    rows: frozenset[str],
    on_progress: Callable[[Progress], None] | None,
) -> Tried:
    """The verdict of a search without some rows."""
    names = prepared.instance.row_names
    off = {at for at, name in enumerate(names) if name in rows}
    machine, leaves = Interpreter(prepared.instance), prepared.grounded.initials[0]
    of_states = Flags(prepared.instance).invariants | DEADLOCK

    def is_violation(item: Bad) -> bool:
        if item.flags & of_states:
            return True
        state = prepared.grounded.plain(prepared.packing.unpack(item.state, leaves))
        return any(violating_steps(machine, state, machine.instance.properties, off=off))

    def on_round(progress: Progress) -> None:
        if on_progress is not None:
            on_progress(replace(progress, search=number + 1))

    explorer = explorer_of(prepared, options)
    try:
        explorer.switch_off([at for at, label in enumerate(prepared.labels) if label.row in off])
        insert_initials(prepared, explorer)
        search(
            explorer,
            on_round=on_round,
            is_violation=is_violation,
            depth=options.depth,
            until=options.until,
        )
        found = explorer.found
        if not found.wrong:
            return Tried(None, found.stopped, found.states)
        outcome = replace(first)
        set_shortest(prepared, explorer, outcome, off)
    finally:
        explorer.close()
    assert outcome.trace is not None
    without = tuple(name for name in names if name in rows)
    return Tried(counterexample_of(outcome, outcome.trace, without), "", found.states)


def explorer_of(prepared: Prepared, options: Options) -> Explorer:
    """An explorer without states, with the options' limits."""
    return Explorer(
        prepared.kernel,
        prepared.packing.stride,
        len(prepared.labels),
        options.threads,
        options.memory or fair_limit(),
        None if options.spill is None else Disk(options.spill),
    )


def insert_initials(prepared: Prepared, explorer: Explorer) -> None:
    """Inserts the initial states as the first level."""
    explorer.insert(prepared.initials())
    explorer.begin_level()


def _checked_on_spark(
    prepared: Prepared,
    options: Options,
    spark: SparkOptions,
    on_progress: Callable[[Progress], None] | None,
) -> Result:
    from .spark.search.engine import SparkRun

    def begin() -> Explorer:
        explorer = explorer_of(prepared, options)
        insert_initials(prepared, explorer)
        return explorer

    def tell(carrier: Carrier, figures: dict[str, Any], notes: list[str]) -> Result:
        result = _result(prepared, carrier, figures, options)
        _look_at_vacuity(result, options.strict)
        result.notes += notes
        return result

    resume = None if options.resume is None else str(options.resume)
    rows = len(prepared.instance.row_names)
    run = SparkRun(
        prepared.kernel, prepared.packing, tuple(prepared.grounded.leaves), rows,
        identity(prepared), place_of(prepared.instance.system), spark, options.memory, resume,
        begin,
    )  # fmt: skip
    return run.finish(on_progress, tell)


def _search(
    prepared: Prepared,
    explorer: Explorer,
    options: Options,
    on_progress: Callable[[Progress], None] | None,
) -> None:
    folder = options.resume or options.checkpoint
    if folder is None:
        insert_initials(prepared, explorer)
        leave_out = _leave_out(prepared, explorer, options) if options.keep_going else None
        search(
            explorer,
            on_level=on_progress,
            on_round=on_progress,
            leave_out=leave_out,
            depth=options.depth,
            until=options.until,
        )
        return
    rows = len(prepared.labels)
    checkpoint = Checkpoint(Path(folder), identity(prepared), prepared.packing.stride, rows)

    def on_level(progress: Progress) -> None:
        level = progress.depth - 1
        found = explorer.found
        if level >= len(checkpoint.levels):
            is_kept = explorer.spilled is not None
            content = explorer.kept() if is_kept else explorer.level_bytes(level)
            checkpoint.save(
                level, explorer.frontier, content, found.taken, found.first, found.seconds,
                explorer.form if is_kept else None,
            )  # fmt: skip
        if on_progress is not None:
            on_progress(progress)

    with closing(checkpoint):
        if options.resume is None:
            checkpoint.begin()
            _keep(explorer, checkpoint)
            insert_initials(prepared, explorer)
        elif not _taken_over(prepared, explorer, checkpoint):
            return
        search(
            explorer,
            on_level=on_level,
            on_round=on_progress,
            depth=options.depth,
            until=options.until,
        )


def _keep(explorer: Explorer, checkpoint: Checkpoint) -> None:
    """Keeps states that go on disk in a checkpoint."""
    if explorer.disk is not None:
        explorer.disk.keep(checkpoint.records)
        explorer.disk.rewriting = checkpoint.rewriting
        form = partial(explorer.form, rewritten=True)
        explorer.disk.rewritten = partial(checkpoint.rewritten, form)


def _leave_out(prepared: Prepared, explorer: Explorer, options: Options) -> Callable[[int], bool]:
    """A function that gets the flags of all violations so far. It ends the search for these, and
    returns whether a run with these options needs no others.
    """
    instance = prepared.instance
    every = sum(Flags(instance).of.values()) | (DEADLOCK if instance.may_deadlock else 0)

    def leave_out(flags: int) -> bool:
        explorer.leave_out(flags)
        only = options.counterexamples_only and not instance.progress
        return only and not every & ~flags

    return leave_out


def _taken_over(prepared: Prepared, explorer: Explorer, checkpoint: Checkpoint) -> bool:
    """Inserts a checkpoint's levels; False if memory is short. Raises CheckpointError for a folder
    of another run.
    """
    found = explorer.found
    saved = checkpoint.load()
    _keep(explorer, checkpoint)
    if checkpoint.spilled is not None:
        return _reopened(prepared, explorer, checkpoint, saved)
    for level, states in enumerate(saved):
        if level == 0 and not _same(states, prepared.initials(), prepared.packing.stride):
            raise CheckpointError(
                f"{checkpoint.folder} holds another run: its initial states differ"
            )
        if not in_ranges(states, prepared.packing, prepared.grounded.leaves):
            raise CheckpointError(
                f"{checkpoint.folder}: level {level} holds a value that is out of its range; "
                f"{REMEDY}"
            )
        if not explorer.insert(states):
            found.states, found.depth = explorer.count, level
            found.stopped = found.stopped or MEMORY
            return False
        explorer.begin_level()
        if explorer.frontier != checkpoint.levels[level]["states"]:
            raise CheckpointError(
                f"{checkpoint.folder}: level {level} holds a state twice; {REMEDY}"
            )
    explorer.resume(checkpoint.taken, checkpoint.first, checkpoint.seconds)
    return True


def _reopened(
    prepared: Prepared, explorer: Explorer, checkpoint: Checkpoint, contents: Iterable[bytes]
) -> bool:
    """Takes over the states on disk of a checkpoint; False if memory is short, or the disk is full.
    Raises CheckpointError for damaged or other states.
    """
    folder, form, found = checkpoint.folder, checkpoint.spilled, explorer.found
    assert form is not None
    if explorer.disk is None:
        raise CheckpointError(f"{folder} has its states on disk: give --spill DIR as well")
    packing, leaves, initials = prepared.packing, prepared.grounded.leaves, prepared.initials()
    words = np.zeros(8 * packing.words, dtype=np.uint8)
    words[: packing.stride] = np.frombuffer(initials, np.uint8, packing.stride)

    def valid(begin: int, end: int, rows: Any) -> bool:
        states = np.tile(words, (len(rows), 1))
        states[:, 8 * begin : 8 * end] = rows
        return in_ranges(states[:, : packing.stride].tobytes(), packing, leaves)

    try:
        explorer.disk.reopen()
        if not explorer.reopen(form, contents, valid):
            found.states, found.depth = explorer.count, len(checkpoint.levels)
            found.stopped = found.stopped or MEMORY
            return False
    except OSError as error:
        raise CheckpointError(f"can't read {checkpoint.records}: {error.strerror}") from None
    except DamagedError as error:
        raise CheckpointError(f"{checkpoint.records}: {error}; {REMEDY}") from None
    if not _same(b"".join(explorer.level_bytes(0)), initials, packing.stride):
        raise CheckpointError(f"{folder} holds another run: its initial states differ")
    if not form["ends"]:
        every = explorer.store.all_rows()
        if not all(in_ranges(rows.tobytes(), packing, leaves) for rows in every):
            raise CheckpointError(
                f"{checkpoint.records} holds a value that is out of its range; {REMEDY}"
            )
    explorer.resume(checkpoint.taken, checkpoint.first, checkpoint.seconds)
    return True


def _same(some: bytes, others: bytes, stride: int) -> bool:
    """Whether two contiguous lists of packed states are equal, in any order."""

    def each(states: bytes) -> list[bytes]:
        return sorted(states[at : at + stride] for at in range(0, len(states), stride))

    return each(some) == each(others)


def identity(prepared: Prepared) -> dict[str, Any]:
    """The settings that a run must share to resume this one."""
    instance = prepared.instance
    return {
        "program": program(),
        "system": instance.system.name,
        "protocol": instance.protocol,
        "features": _listed(sorted(instance.features)),
        **{f"constant {name}": value for name, value in instance.constants.items()},
        "properties": _listed(x.name for x in (*instance.properties, *instance.progress)),
        "symmetry": _listed(prepared.symmetry.keys),
        "left out": _listed(prepared.left_out),
        "deadlocks": "reported" if instance.may_deadlock else NOT_REPORTED,
        "rows": hashlib.sha256("".join(prepared.kernel.code.modules).encode()).hexdigest(),
    }


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def names_in(listed: str) -> list[str]:
    """The names in a value of `identity`."""
    return [] if listed == "none" else listed.split(", ")


def _look_at_vacuity(result: Result, strict: bool) -> None:
    """Makes a result inconclusive if all properties hold vacuously or, with `strict`, if a vacuity
    has no known reason.
    """
    untested = result.untested
    if result.verdict is Verdict.HOLDS and untested and len(untested) == len(result.properties):
        result.verdict = Verdict.INCONCLUSIVE
        result.reason = vacuously(untested)
    elif strict and result.verdict is Verdict.HOLDS and result.unexplained:
        result.verdict = Verdict.INCONCLUSIVE
        many = len(result.unexplained)
        result.reason = f"{many} {'thing is' if many == 1 else 'things are'} vacuous (--strict)"


def _result(
    prepared: Prepared, carrier: Carrier, engine: dict[str, Any], options: Options
) -> Result:
    instance = prepared.instance
    found = carrier.found
    names = instance.row_names
    taken = prepared.by_row(found.taken or [0] * len(prepared.labels))
    result = Result(
        **described(instance),
        verdict=Verdict.HOLDS,
        reason="",
        properties=[PropertyVerdict(item.name, "holds") for item in instance.properties],
        states=found.states,
        transitions=found.transitions,
        depth=found.depth,
        seconds=found.seconds,
        compile_seconds=prepared.seconds + found.compiling,
        kernel_from_cache=prepared.kernel.code.from_cache and not found.compiling,
        memory=found.memory,
        rows=list(zip(names, taken, strict=True)),
        first_depths=dict(zip(names, prepared.first_of_row(found.first), strict=True)),
        levels=carrier.level_sizes()[: found.depth],
        left_out=list(prepared.left_out),
        deadlocks=instance.may_deadlock,
        ends_anywhere=not instance.may_deadlock and ends_anywhere(instance),
        symmetry=list(prepared.symmetry.keys),
        engine=engine,
        notes=[f"symmetry not used for {reason}" for reason in prepared.symmetry.refused]
        + list(spilled(carrier)),
        progress_left=len(instance.system.progress) - len(instance.progress),
    )
    if found.wrong and not options.keep_going:
        set_shortest(prepared, carrier, result)
    elif found.stopped:
        interrupted = found.stopped == INTERRUPTED
        result.verdict = Verdict.INTERRUPTED if interrupted else Verdict.INCONCLUSIVE
        result.reason = why_stopped(carrier)
        result.properties = [PropertyVerdict(p.name, "unknown") for p in result.properties]
    elif not found.states:
        result.verdict, result.reason = Verdict.INCONCLUSIVE, "no state was explored"
        result.properties = [PropertyVerdict(p.name, "unknown") for p in result.properties]
    elif RANGE not in found.wrong and not (options.brief or options.counterexamples_only):
        _tell_vacuity(prepared, carrier, taken, result)
    if found.wrong and options.keep_going:
        tell_each(prepared, carrier, result, None if options.brief else _path)
    return result


def _tell_vacuity(prepared: Prepared, carrier: Carrier, taken: list[int], result: Result) -> None:
    """Reports the properties that hold vacuously. If there are none, it also reports properties
    that could be stronger: this takes an evaluation of all states. Otherwise vacuity may be the
    reason.
    """
    instance = prepared.instance
    met, unmet = _met_and_unmet(prepared, carrier, taken, lambda probe: not probe.asks_for_more)
    result.vacuous = vacuities(instance, taken, unmet, prepared.unbreakable)
    if not result.vacuous:
        more, less = _met_and_unmet(prepared, carrier, taken, lambda probe: probe.asks_for_more)
        result.notes += could_say_more([*met, *more], [*unmet, *less])
    result.vacuous += waits(met)
    result.notes += untaken(met)
    result.notes += [
        f"{row} is declared unreached, but a run takes it"
        for row in wrongly_unreached(instance, taken)
    ]


def _met_and_unmet(
    prepared: Prepared, carrier: Carrier, taken: list[int], wanted: Callable[[Probe], bool]
) -> tuple[list[Probe], list[Probe]]:
    """The selected probes: those that the run met, and the others."""
    grounded = prepared.grounded
    some = [(probe, node) for probe, node in grounded.probes if wanted(probe)]
    if not some:
        return [], []
    with nothing_to_collect():
        answers = carrier.met(sought(grounded, some, taken, prepared.packing), prepared.packing)
    found = [(probe, is_met) for (probe, _), is_met in zip(some, answers, strict=True)]
    return [probe for probe, is_met in found if is_met], [x for x, is_met in found if not is_met]


def set_shortest(
    prepared: Prepared, carrier: Carrier, result: Outcome, off: Collection[int] = ()
) -> None:
    """Sets the shortest counterexample: first of an invariant, then of a deadlock, because a faulty
    step is longer.
    """
    wrong = carrier.found.wrong
    kind, flags = kind_in(prepared.instance, sum(wrong))
    found = [wrong[flag] for flag in wrong if flag & flags]
    level = min(level for level, _ in found)
    states = {state for at, states in found if at == level for state in states}
    path = _path(carrier, level, nsmallest(MOST_KEPT, states))
    set_violation(prepared.instance, kind, path, prepared.pack, result, off=off)


def kind_in(instance: Instance, flags: int) -> tuple[Kind, int]:
    """The kind of violation to show, and all flags of that kind: invariants first, then
    deadlocks.
    """
    invariants = Flags(instance).invariants
    kinds = {invariants: Kind.STATE, DEADLOCK: Kind.DEADLOCK, ~(invariants | DEADLOCK): Kind.STEP}
    return next((kind, of) for of, kind in kinds.items() if flags & of)


def _path(carrier: Carrier, level: int, states: list[bytes]) -> list[set[bytes]]:
    """The packed states on shortest runs to `states` of a level, by level."""
    path = [states]
    for before in range(level - 1, -1, -1):
        path.insert(0, carrier.predecessors(path[0], before))
    return [*map(set, path)]
