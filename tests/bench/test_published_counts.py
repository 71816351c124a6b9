"""The models in bench/ have exactly the numbers of states and steps that other checkers found."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import instantiate

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Published:
    """A model's size and what is known of it; `rows` counts steps, by the action's name."""

    model: str
    constants: dict[str, int]
    states: int
    transitions: int | None
    depth: int | None = None
    rows: dict[str, int] = field(default_factory=dict[str, int])
    slow: bool = False

    def __str__(self) -> str:
        return "-".join((self.model, *map(str, self.constants.values())))


def ktx(*size: int, states: int, transitions: int, depth: int, slow: bool = False) -> Published:
    """The benchmark protocol at the constants I, K, E and S, as SPIN, rumur and TLC counted it."""
    return Published(
        "bench/ktx", dict(zip("IKES", size, strict=True)), states, transitions, depth, slow=slow
    )


def mutex(
    n: int, max_clock: int, states: int, within: int, cut: int, depth: int, **rows: int
) -> Published:
    """Mutual exclusion: steps within the clock bound, and those cut by it."""
    counted = {**rows, "ReceiveRequest/beyond the clock bound": cut}
    constants = {"N": n, "MAX_CLOCK": max_clock}
    return Published("bench/lamport_mutex", constants, states, within + cut, depth, counted)


PUBLISHED = (
    ktx(1, 1, 2, 2, states=5_094, transitions=22_028, depth=28),
    ktx(1, 1, 3, 3, states=17_566, transitions=82_299, depth=33),
    ktx(2, 1, 2, 1, states=58_320, transitions=365_562, depth=31),
    ktx(1, 2, 2, 2, states=592_812, transitions=3_709_243, depth=42),
    ktx(1, 2, 3, 2, states=2_194_905, transitions=14_759_157, depth=48),
    ktx(2, 2, 2, 1, states=11_995_156, transitions=97_326_890, depth=49, slow=True),
    # At 3 from the TLA+ examples' manifest, at 6 from TwoPhase.tla, at 5 and 8 from Stateright.
    Published("docs/examples/two_phase_commit", {"RM": 3}, 288, 1_145, 11),
    Published("docs/examples/two_phase_commit", {"RM": 5}, 8_832, 58_145),
    Published("docs/examples/two_phase_commit", {"RM": 6}, 50_816, None),
    Published("docs/examples/two_phase_commit", {"RM": 8}, 1_745_408, 18_507_777),
    mutex(2, 3, 191, 339, 44, 22),
    mutex(2, 6, 1_043, 1_908, 92, 40),
    mutex(3, 3, 10_209, 31_490, 10_042, 31),
    mutex(3, 4, 70_472, 232_040, 44_073, 41),
    # The TLA+ examples' manifest: 724,274 distinct of 2,729,079 generated, the initial one too.
    mutex(
        3,
        6,
        724_274,
        2_729_078 - 232_728,
        232_728,
        61,
        Request=299_011,
        **{"ReceiveRequest/acknowledge": 578_405},
        ReceiveAck=751_401,
        ReceiveRelease=733_820,
        Enter=89_142,
        Exit=44_571,
    ),
)


def run(model: str, constants: dict[str, int], *, threads: int, symmetry: bool) -> Result:
    """The result of the model's check, by which every property must hold."""
    instance = instantiate(load_system(str(ROOT / f"{model}.py")), constants=constants)
    result = check(instance, Options(threads=threads, symmetry=symmetry))
    assert result.verdict is Verdict.HOLDS
    return result


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "published",
    [
        pytest.param(
            # those of 10 million states and more are counted by `make bench`
            p,
            marks=[pytest.mark.slow, pytest.mark.long] if p.slow else [],
            id=str(p),
        )
        for p in PUBLISHED
    ],
)
def test_counts(published: Published, threads: int) -> None:
    result = run(published.model, published.constants, threads=threads, symmetry=False)
    assert result.states == published.states
    assert published.transitions in (None, result.transitions)
    assert published.depth in (None, result.depth)
    for name, steps in published.rows.items():
        assert sum(n for row, n in result.rows if f".{name}" in row) == steps, name
    assert result.never_taken == []


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("managers", "states"), [(5, 314), (8, 1_461)])
def test_two_phase_states_up_to_renaming(managers: int, states: int, threads: int) -> None:
    result = run("docs/examples/two_phase_commit", {"RM": managers}, threads=threads, symmetry=True)
    assert result.symmetry == ["rm"]
    assert result.states == states
