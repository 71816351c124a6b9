"""The examples that docs/examples.md teaches with: their counts, and the mistake in each.

Counts are published ones where the same protocol is among the TLA+ examples, and otherwise those of
the plain search on the interpreter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.checker.verdict.result import Verdict
from epochfence.language import Instance, System, instantiate
from epochfence.tests.checker.plain_search import search

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
LONGEST = 150  # lines of an example


@cache
def example_system(name: str) -> System:
    """An example's system, read once."""
    return load_system(str(EXAMPLES / f"{name}.py"))


@dataclass(frozen=True)
class Example:
    """An example, the property that its mistake breaks and the steps of the shortest run that does.

    The mistake is release 1 of the protocol, or other `mistaken` constants. `constants` make a size
    that the plain search goes through.
    """

    name: str
    breaks: str
    steps: int
    mistaken: dict[str, int] = field(default_factory=dict[str, int])
    constants: dict[str, int] = field(default_factory=dict[str, int])

    def __str__(self) -> str:
        return self.name

    def instance(self, constants: dict[str, int], protocol: str | None = None) -> Instance:
        """The example with these constants, at a release."""
        return instantiate(example_system(self.name), protocol, constants)

    def with_mistake(self) -> Instance:
        """The example with its mistake."""
        return self.instance(self.mistaken, None if self.mistaken else "1")


COURSE = (
    Example("lease", "NoStaleWrite", 11),
    Example("peterson", "MutualExclusion", 8),
    Example("bounded_queue", "SomebodyIsAwake", 8),
    Example("token_ring", "Stabilizes", 13, mistaken={"values": 2}),
    Example("two_phase_commit", "Consistent", 9),
    Example("paxos", "OneValue", 12, constants={"acceptors": 1}),
    Example("raft_election", "OneLeader", 7, constants={"terms": 1, "crashes": 0}),
    Example("raft_log", "CommittedAgree", 10, constants={"terms": 2}),
    Example("primary_backup", "NothingLost", 7),
    Example("cache", "NotStaleForGood", 8, constants={"most_misses": 1, "writes": 1}),
    Example("chain_replication", "UpdatePropagation", 8),
    Example("resend", "NoDuplicate", 5),
)
BY_NAME = {example.name: example for example in COURSE}


@pytest.mark.parametrize("example", COURSE, ids=str)
def test_the_newest_release_holds_and_nothing_in_it_is_vacuous(example: Example) -> None:
    result = check(example.instance({}))
    assert result.verdict is Verdict.HOLDS
    assert result.unexplained == []


@pytest.mark.slow(1)
@pytest.mark.parametrize("example", COURSE, ids=str)
def test_the_mistake_breaks_the_property(example: Example) -> None:
    result = check(example.with_mistake())
    assert result.verdict is Verdict.BROKEN
    broken = {item.name: item for item in result.properties if item.verdict == "broken"}
    assert set(broken) == {example.breaks}
    assert result.trace is not None
    assert len(result.trace.steps) == example.steps
    when = "in step" if example.breaks == "NoStaleWrite" else "after"
    assert result.reason.startswith(f"{example.breaks} doesn't hold: {when} {example.steps} ")
    assert "{" not in result.reason


@pytest.mark.parametrize("example", [*COURSE, Example("retry", "", 0)], ids=str)
def test_each_property_says_how_it_fails(example: Example) -> None:
    instance = example.instance({})
    assert not [p.name for p in (*instance.properties, *instance.progress) if not p.failures]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("example", COURSE, ids=str)
def test_the_plain_search_finds_as_many_states(example: Example) -> None:
    instance = example.instance(example.constants)
    expected = search(instance)
    found = check(instance, Options(symmetry=False, slicing=False))
    assert (found.states, found.transitions, found.depth) == (
        expected.states,
        expected.transitions,
        expected.depth,
    )
    assert not expected.broken


@dataclass(frozen=True)
class Published:
    """What TLC found, as the manifests of the TLA+ examples have it. `generated` counts initial
    states as well, and is none where TLC's way to count a step is another one."""

    name: str
    constants: dict[str, int]
    states: int
    generated: int | None
    depth: int
    property: str


PUBLISHED = (
    Published("peterson", {}, 42, 77, 11, "MutualExclusion"),
    Published("two_phase_commit", {"RM": 3}, 288, 1_146, 11, "Consistent"),
    # A quorum that Phase2a may choose is a step of its own there.
    Published("paxos", {"acceptors": 3, "values": 2}, 3_921, None, 17, "OneValue"),
    Published("paxos", {"acceptors": 1, "values": 1}, 25, 82, 9, "OneValue"),
    # Without the count of moves, which is sliced away.
    Published("token_ring", {"nodes": 6, "values": 6}, 46_656, 248_832, 1, "SomeToken"),
)


@pytest.mark.slow(1)
@pytest.mark.parametrize("published", PUBLISHED, ids=lambda p: f"{p.name}-{p.states}")
def test_published_counts(published: Published) -> None:
    system = example_system(published.name)
    instance = instantiate(system, None, published.constants, properties=[published.property])
    result = check(instance, Options(symmetry=False))
    assert (result.verdict, result.states) == (Verdict.HOLDS, published.states)
    assert result.depth == published.depth
    initial = published.states if published.name == "token_ring" else 1  # any counters are a start
    assert published.generated in (None, result.transitions + initial)


@pytest.mark.slow(1)
def test_a_queue_is_safe_exactly_up_to_twice_its_capacity() -> None:
    """The rule that is known of one condition for all: threads, at most twice the capacity."""
    queue = BY_NAME["bounded_queue"]
    for producers in (1, 2, 3):
        for consumers in (1, 2):
            for capacity in (1, 2):
                sizes = {"producers": producers, "consumers": consumers, "capacity": capacity}
                one = queue.instance(sizes, "1")
                held = check(one).verdict is Verdict.HOLDS
                assert held is (producers + consumers <= 2 * capacity)


def test_the_course_has_every_example_and_none_is_long() -> None:
    # of progress: tests/checker/test_liveness.py; commands: docs/tour.md and README
    apart = {"memory_broker", "retry", "tour", "without_a_row", "without_rows"}
    found = {path.stem for path in EXAMPLES.glob("*.py")} - apart
    assert found == set(BY_NAME)
    for name in found:
        assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) < LONGEST, name
