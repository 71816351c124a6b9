"""Eight states at once have the successors and faults that they have one by one."""

from __future__ import annotations

from collections import Counter
from ctypes import CFUNCTYPE, c_int64
from typing import Any

import numpy as np
import pytest

from epochfence.checker.named_systems import load_system
from epochfence.checker.native.codegen.property_groups import COUNT, NOTES, WATCHED
from epochfence.checker.native.codegen.sharing import COMMON
from epochfence.checker.native.codegen.simd import LANES
from epochfence.checker.native.jit.memory import Region, fair_limit
from epochfence.checker.native.search.explore import Explorer, search
from epochfence.checker.native.search.worker import ALL
from epochfence.checker.native.store.store import SLACK
from epochfence.checker.prepare import prepare
from epochfence.language import (
    Instance,
    Int,
    Machine,
    Row,
    System,
    Table,
    after,
    event,
    instantiate,
    invariant,
    step_property,
)
from epochfence.tests.checker.native.grouping import in_lanes

KTX = "bench/ktx.py"


def found(instance: Instance, *, lanes: bool, threads: int = 1) -> Any:
    """All that a search finds that goes on where something is wrong, and how many rows it took by
    their index."""
    with in_lanes(always=lanes):
        made = prepare(instance, symmetry=False)
    assert (made.kernel.block_address != made.kernel.address) == lanes
    stride = made.packing.stride
    explorer = Explorer(made.kernel, stride, len(made.labels), threads, fair_limit())
    explorer.insert(made.initials())
    explorer.begin_level()
    search(explorer, leave_out=lambda _: False)
    explorer.close()
    result = explorer.found
    states = {bytes(row) for rows in explorer.store.all_rows() for row in rows}
    return states, result.transitions, result.depth, result.taken, result.first, result.wrong


@pytest.mark.slow
@pytest.mark.sample(1, of="engines: lanes")
@pytest.mark.parametrize(
    ("name", "constants", "wrong"),
    [
        (KTX, {"I": 1, "K": 1, "E": 2, "S": 2}, 0),  # 64 bits or fewer
        (KTX, {"I": 2, "K": 1, "E": 1, "S": 1}, 0),
        (KTX, {"I": 2, "K": 1, "E": 1, "S": 1, "V": 0}, 1),
        (KTX, {"I": 2, "K": 2, "E": 1, "S": 1}, 0),  # more
        ("docs/examples/raft_log.py", {}, 0),
        ("docs/examples/chain_replication.py", {}, 0),
    ],
)
def test_the_same_search(name: str, constants: dict[str, int], wrong: int) -> None:
    instance = instantiate(load_system(name), constants=constants)
    plain = found(instance, lanes=False)
    assert found(instance, lanes=True) == plain
    assert found(instance, lanes=True, threads=2) == plain
    assert len(plain[-1]) == wrong


def counters(below: int) -> Instance:
    """Two counters, each in a word of its own. Many rows count the left one, and all of them break
    the same property of steps where the right one is at 3."""
    machine = Machine("counters")
    wide = Int(0, (1 << 36) - 1, "far more than a run counts")
    left, right = (machine.field(name, wide) for name in ("left", "right"))

    def counts(name: str, counter: Any) -> Table:
        return Table(
            machine, event(name), (Row(name, when=counter < 20, set={counter: counter + 1}),)
        )

    return instantiate(
        System(
            name="two counters",
            tables=(*(counts(f"left{n}", left) for n in range(COMMON)), counts("right", right)),
            properties=(
                invariant("BothSmall", left + right < below, "Both together are small."),
                step_property(
                    "NotAtThree", (after(left) == left) | (right != 3), "The left one waits at 3."
                ),
            ),
        )
    )


@pytest.mark.parametrize("below", [12, 30])
def test_what_is_wrong_with_several_states_and_with_many_rows(below: int) -> None:
    plain = found(counters(below), lanes=False)
    assert found(counters(below), lanes=True) == plain
    states, *_, wrong = plain
    assert {len(state) for state in states} == {13}
    assert sorted((level, len(bad)) for level, bad in wrong.values()) == [
        (3, 1),
        (below, below + 1 if below <= 20 else 41 - below),
        (40, 1),
    ]


def expanded(made: Any, address: int, states: list[bytes]) -> tuple[Any, list[int]]:
    """What a function of a kernel writes for some states: rows with successors, and notes."""
    stride, most = made.packing.stride, len(states) * made.kernel.most_successors
    before, out = Region(len(states) * stride + SLACK), Region(most * stride + SLACK)
    before.array[: len(states) * stride] = np.frombuffer(b"".join(states), dtype=np.uint8)
    rows = np.zeros(most + LANES, dtype=np.uint32)
    bad, noted = np.zeros(len(states), dtype=np.uint64), np.zeros(NOTES, dtype=np.int64)
    noted[WATCHED] = ALL
    places = (array.ctypes.data for array in (rows, bad, noted))
    function = CFUNCTYPE(c_int64, *[c_int64] * 6)(address)
    written = function(before.address, len(states), out.address, *places)
    after = out.array[: written * stride].reshape(written, stride)
    steps = Counter((int(row), bytes(to)) for row, to in zip(rows[:written], after, strict=True))
    return steps, bad[: noted[COUNT]].tolist()


@pytest.mark.parametrize("count", [1, 7, 8, 9, 40])
def test_a_block(count: int, seed: int) -> None:
    with in_lanes():
        made = prepare(counters(12), symmetry=False)
    random = np.random.default_rng(seed)
    states = [made.packing.pack((int(n), int(m))) for n, m in random.integers(0, 21, (count, 2))]
    lanes = expanded(made, made.kernel.block_address, states)
    assert lanes == expanded(made, made.kernel.address, states)
