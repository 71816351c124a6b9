"""The ways in which a system is looked at, and what must come out the same in each."""

from __future__ import annotations

import ctypes
import os
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any
from unittest.mock import patch

import numpy as np

from epochfence.checker import check as checks
from epochfence.checker import prepare as preparation
from epochfence.checker.check import Options, check
from epochfence.checker.ground import ground
from epochfence.checker.native.cache import kernel, machine_code, object_cache
from epochfence.checker.native.cache.object_code import BEST, QUICK, object_file
from epochfence.checker.native.codegen import lower
from epochfence.checker.native.codegen.property_groups import NOTES
from epochfence.checker.native.jit.memory import Region
from epochfence.checker.native.search import explore
from epochfence.checker.native.search.explore import Progress
from epochfence.checker.native.search.vectors import in_words
from epochfence.checker.native.store import pack
from epochfence.checker.native.store.store import SLACK
from epochfence.checker.native.symmetry import renaming
from epochfence.checker.output.state_tables import Found
from epochfence.checker.prepare import Prepared, prepare
from epochfence.checker.solver.bound import bound
from epochfence.checker.spark.options import SparkOptions
from epochfence.checker.spark.search import engine, tasks
from epochfence.checker.trace.trace import represent
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import Instance
from epochfence.model.engine.interpreter import Interpreter
from epochfence.tests.checker.native.grouping import by_parts, in_lanes
from epochfence.tests.checker.plain_search import search
from epochfence.tests.checker.spark.in_process import InProcess
from epochfence.tests.checker.test_random_systems import expected, outcome, replay, verdict_of

MOST = 100_000  # states of the largest systems
PLAIN = 2_000  # of the largest that the plain interpreter searches
PLAIN_STEPS = 30_000  # in these: it takes over 5,000 a second
MEMORY = 2 << 30
SOLVED = 4  # steps that Z3 unrolls at most
SOLVING = 3  # seconds that it may take for them
WALK = 8  # states, of which all steps are compared
NEVER = 1 << 40  # steps, or lines of IR, that no system has


@dataclass(frozen=True)
class Case:
    """A system of so many reachable states, and what a run on one thread without reductions came
    to; what is drawn for a way comes from `random`, files go to `folder`."""

    instance: Instance
    first: Result
    states: int
    random: Random
    folder: Path


class Kept(dict[str, bytes]):
    """Object code by key, in memory."""

    def put(self, key: str, code: bytes) -> None:
        """Keeps an object file."""
        self[key] = code


@contextmanager
def compiled_once() -> Generator[None]:
    """Runs of an instance share what was made for the first of them: the grounded system, what was
    compiled. LLVM does the least that it can: more would cost more than it wins here."""
    made: dict[tuple[Any, ...], Any] = {}
    instances: list[Instance] = []  # an id is one object's as long as that is there

    def once(function: Callable[..., Any]) -> Callable[..., Any]:
        def shared(instance: Instance, **given: bool) -> Any:
            key = function, id(instance), tuple(given.items())
            if key not in made:
                instances.append(instance)
                made[key] = function(instance, **given)
            return made[key]

        return shared

    kept = Kept()
    with (
        patch.object(checks, "prepare", once(prepare)),
        patch.object(preparation, "ground", once(ground)),
        patch.object(object_cache, "chosen", lambda: kept),
        patch.object(machine_code, "APART", NEVER),
        # of systems alone: what is compiled of the package itself is kept for users
        patch.object(machine_code, "object_file", lambda text, _: object_file(text, QUICK)),
    ):
        yield


class AtOnce(Thread):
    """A thread whose work is done when it has been started."""

    def start(self) -> None:
        self.run()


@contextmanager
def compiled_anew() -> Generator[None]:
    """Runs share nothing with those before, and are compiled as for users: first quickly, and with
    LLVM's passes once the search has begun."""
    with (
        compiled_once(),
        patch.object(machine_code, "object_file", object_file),
        patch.object(explore, "IMPROVED_FROM", {BEST: 2}),
        patch.object(kernel, "Thread", AtOnce),
    ):
        yield


def plainly(instance: Instance, on_progress: Callable[[Progress], None] | None = None) -> Result:
    """A run on one thread without reductions."""
    options = Options(memory=MEMORY, symmetry=False, slicing=False, keep_states=True)
    return check(instance, options, on_progress)


# Ways. Each yields the name of a comparison once that was made ------------------------------------


def threads(case: Case) -> Iterator[str]:
    """Two threads do what one does."""
    options = Options(2, MEMORY, symmetry=False, slicing=False)
    alike(case.first, check(case.instance, options))
    yield "2 threads"


def reductions(case: Case) -> Iterator[str]:
    """With fewer states or leaves the outcome is the same, where there is something to reduce."""
    whole: Prepared = checks.prepare(case.instance, symmetry=True, slicing=True)
    symmetric, sliced = bool(whole.symmetry.keys), bool(whole.left_out)
    for name, applies, options in (
        ("symmetry", symmetric, Options(memory=MEMORY, slicing=False)),
        ("slicing", sliced, Options(memory=MEMORY, symmetry=False)),
        ("symmetry and slicing, 2 threads", symmetric and sliced, Options(2, MEMORY)),
    ):
        if not applies:
            continue
        first, result = case.first, check(case.instance, replace(options, keep_states=True))
        assert outcome(result) == outcome(first), name
        if verdict_of(result) is Verdict.HOLDS:
            assert states_of(result.data) == represented(first.data, result.data), name
            assert taken(result) == taken(first), name
        else:
            replay(case.instance, result)
        yield name


def passes(case: Case) -> Iterator[str]:
    """What LLVM's passes make of the code does the same."""
    with compiled_anew():
        alike(case.first, plainly(case.instance))
    yield "LLVM's passes"


def in_parts(case: Case) -> Iterator[str]:
    """States of many words, kept by their parts, and code in many parts, as large systems have
    them."""
    with (
        by_parts(),
        compiled_anew(),
        patch.object(pack, "WORD", 4),  # bits, of 64
        patch.object(renaming, "WORD", 4),
        patch.multiple(lower, INLINE=0, PART=0, COPIED=0),
    ):
        result = plainly(case.instance)
    assert outcome(result) == outcome(case.first)
    if verdict_of(result) is Verdict.HOLDS:
        assert counts(result) == counts(case.first)
    else:
        replay(case.instance, result)  # of faults at one level, another comes first
    yield "in many words and parts"


def eight(case: Case) -> Iterator[str]:
    """Eight states that are expanded at once, where that can be done, have the same successors."""
    with in_lanes(), compiled_anew():
        code: Prepared = checks.prepare(case.instance, symmetry=False, slicing=False)
        if code.kernel.block_address != code.kernel.address:
            alike(case.first, plainly(case.instance))
            yield "eight states at once"


def killed(case: Case) -> Iterator[str]:
    """A run that is killed as it writes a file comes to the same result when it goes on."""
    whole = check(case.instance, Options(memory=MEMORY))
    folder = case.folder / "run"
    if whole.depth < 2:
        return
    # two files for each level; before the first two, there is nothing to go on with
    left = case.random.randrange(3, 2 * whole.depth + 1)
    child = os.fork()
    if child == 0:
        _run_and_die(case.instance, folder, left)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        threads = case.random.choice((1, 2))
        result = check(case.instance, Options(threads, MEMORY, resume=folder))
        assert same(result) == same(whole)
        yield "killed and resumed"
    else:  # a counterexample ended the run before its last level
        assert os.waitstatus_to_exitcode(status) == 0


def _run_and_die(instance: Instance, folder: Path, files: int) -> None:
    """Kills this process with signal 9 as a run writes its last file of so many; ends it anyhow."""
    synced = os.fsync

    def die(descriptor: int) -> None:
        nonlocal files
        files -= 1
        if files == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        synced(descriptor)

    try:
        with patch.object(os, "fsync", die):
            check(instance, Options(memory=MEMORY, checkpoint=folder))
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def spark(case: Case) -> Iterator[str]:
    """A run whose Spark is played in this process, from the first level on, is the same."""
    whole = check(case.instance, Options(memory=MEMORY))
    session = InProcess()
    options = SparkOptions(
        storage=str(case.folder / "spark"), hand_over=0, shards=case.random.choice((1, 2, 7))
    )
    with (
        patch.dict(os.environ, SPARK_LOCAL_DIRS=str(case.folder / "local")),
        patch.object(tasks, "_process", None),
        patch.object(engine, "find_java", lambda: "java"),
        patch.object(engine, "is_running", lambda: True),
        patch.object(engine, "start", lambda *_, **__: session),
    ):
        result = check(case.instance, Options(memory=MEMORY, spark=options))
    assert session.stages, "Spark had no part in it"
    assert same(result) == same(whole)
    yield "Spark's part played"


def solved(case: Case) -> Iterator[str]:
    """Z3 finds a counterexample of few steps, of the same length, and none that is shorter."""
    wanted = outcome(case.first)
    depth = SOLVED if wanted.steps is None else min(wanted.steps, SOLVED)
    result = bound(case.instance, depth, timeout=SOLVING)
    if wanted.steps is not None and wanted.steps <= depth and result.trace is not None:
        assert outcome_of(result) == (wanted.verdict, wanted.steps)
        replay(case.instance, result)
        yield "Z3 finds it"
        return
    assert result.trace is None, "Z3 finds what isn't there, or a longer run before a shorter one"
    if result.depth == depth:  # else it couldn't tell in its time
        assert wanted.steps is None or wanted.steps > depth, "Z3 doesn't find it"
        yield "Z3 finds none"


def interpreted(case: Case) -> Iterator[str]:
    """A plain search on the interpreter finds the same."""
    first, reference = case.first, search(case.instance, MOST)
    assert expected(reference, case.instance) == outcome(first)
    assert reference.states == case.states
    if verdict_of(first) is Verdict.HOLDS:
        assert (reference.transitions, reference.depth) == (first.transitions, first.depth)
        assert reference.taken == [count for _, count in first.rows]
        assert reference.first == [*first.first_depths.values()]
    yield "interpreter"


def walked(case: Case) -> Iterator[str]:
    """On a walk at random, the steps that code takes from a state, or from the one that stands for
    it, are those of the interpreter."""
    machine = Interpreter(case.instance)
    codes: list[Prepared] = [
        checks.prepare(case.instance, symmetry=symmetry, slicing=slicing)
        for symmetry, slicing in product((False, True), repeat=2)
    ]
    state = case.random.choice(list(machine.initial_states()))
    for _ in range(WALK):
        steps = [step for step in machine.steps(state) if step.state is not None]
        for code in codes:
            wanted = Counter((step.row, code.pack(step.state)) for step in steps if step.state)
            assert expanded(code, code.pack(state)) == wanted
        if not steps:
            break
        state = case.random.choice(steps).state
        assert state is not None
    yield "interpreter's steps"


def expanded(code: Prepared, state: bytes) -> Counter[tuple[int, bytes]]:
    """The steps that compiled code takes from a packed state: rows, and the packed states after."""
    stride, most = code.packing.stride, max(1, code.kernel.most_successors)
    before, after = Region(stride + SLACK), Region(most * stride + SLACK)
    before.array[:stride] = np.frombuffer(state, dtype=np.uint8)
    rows, bad = np.zeros(most, np.uint32), np.zeros(1, np.uint64)
    noted = np.zeros(NOTES, np.int64)  # of nothing that is looked for
    function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 6)(code.kernel.address)
    places = (array.ctypes.data for array in (rows, bad, noted))
    written = function(before.address, 1, after.address, *places)
    found = after.array[: written * stride].tobytes()
    return Counter(
        (int(row), found[at * stride : (at + 1) * stride]) for at, row in enumerate(rows[:written])
    )


BLOCK = 20
"""Systems that come one after the other; in each block, as many are taken for each way."""
WAYS: dict[Callable[[Case], Iterator[str]], int] = {
    threads: BLOCK, reductions: BLOCK, passes: 2, in_parts: 2, eight: 4, killed: 4, spark: 2,
    solved: 6, interpreted: 1, walked: 8,
}  # fmt: skip
NAMES = (
    "2 threads", "symmetry", "slicing", "symmetry and slicing, 2 threads", "LLVM's passes",
    "in many words and parts", "eight states at once", "killed and resumed", "Spark's part played",
    "Z3 finds it", "Z3 finds none", "interpreter", "interpreter's steps",
)  # fmt: skip


def is_taken(seed: int, number: int, what: str, share: int) -> bool:
    """Whether a system is one of the `share` that are taken for something, of its block."""
    block, place = divmod(number, BLOCK)
    return place in Random(f"{seed} {block} {what}").sample(range(BLOCK), share)


def ways_of(seed: int, number: int) -> list[Callable[[Case], Iterator[str]]]:
    """The ways in which a system is looked at."""
    return [way for way, share in WAYS.items() if is_taken(seed, number, way.__name__, share)]


# What is compared ---------------------------------------------------------------------------------


def counts(result: Result) -> tuple[Any, ...]:
    """How large a run was."""
    return result.states, result.transitions, result.depth, result.rows


def same(result: Result) -> tuple[Any, ...]:
    """What two runs with the same reductions have the same, whatever carries them."""
    return verdict_of(result), *counts(result), result.properties, result.trace


def alike(first: Result, second: Result) -> None:
    """Two runs with the same reductions are the same."""
    assert same(second) == same(first)


def outcome_of(result: Any) -> tuple[Verdict, int]:
    """The verdict of any engine, and the steps of its counterexample."""
    return result.verdict, len(result.trace.steps)


def taken(result: Result) -> set[str]:
    """The rows that some step took."""
    return {name for name, count in result.rows if count}


def states_of(found: Found) -> set[bytes]:
    """The packed states that a run found."""
    return _split(np.concatenate(list(found.explorer.store.all_rows())))


def represented(plain: Found, reduced: Found) -> set[bytes]:
    """What stands, with a run's reductions, for the states of a run without any."""
    before, packing = plain.prepared.packing, reduced.prepared.packing
    rows = np.concatenate(list(plain.explorer.store.all_rows()))
    words = in_words(rows, before)
    packed = np.zeros((len(words), packing.words), dtype=np.uint64)
    for index, place in packing.places.items():
        there = before.places[index]
        values = words[:, there.word] & np.uint64(there.mask)
        packed[:, place.word] |= values >> np.uint64(there.shift) << np.uint64(place.shift)
    states = _split(packed.view(np.uint8)[:, : packing.stride])
    if not reduced.prepared.symmetry.keys:
        return states
    address = reduced.prepared.kernel.canonical_address
    return {represent(address, state) for state in states}


def _split(rows: Any) -> set[bytes]:
    """Each row of bytes."""
    whole, stride = rows.tobytes(), rows.shape[1]
    return {whole[at : at + stride] for at in range(0, len(whole), stride)}
