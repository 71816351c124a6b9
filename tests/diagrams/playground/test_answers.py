"""The playground's answers, and each puzzle played to its end in the interpreter."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from epochfence.diagrams.explorer.goals import GoalError
from epochfence.diagrams.explorer.link import read_link
from epochfence.diagrams.explorer.session import as_text
from epochfence.diagrams.explorer.until import until
from epochfence.diagrams.playground.answers import Playground, answered, shortest
from epochfence.diagrams.playground.browser import examples
from epochfence.diagrams.playground.puzzles import PUZZLES, Puzzle
from epochfence.diagrams.playground.search import Search
from epochfence.spec.bugs.findings import FINDINGS
from epochfence.tests.cli.test_cli import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.together]  # the runs are searched for once

NAMES = [puzzle.of for puzzle in PUZZLES]
LONG = ("KAFKA-4545", "KAFKA-6119", "KAFKA-8522", "KAFKA-12620", "KIP-890b")
"""The puzzles whose search takes half a second or more."""
EACH = [
    pytest.param(puzzle, id=puzzle.of, marks=[pytest.mark.long] if puzzle.of in LONG else [])
    for puzzle in PUZZLES
]


@pytest.fixture
def opened() -> Playground:
    return Playground(examples(), {})


def found(playground: Playground, path: str, goal: str) -> dict[str, Any]:
    """The end of a search."""
    playground.answer("until", {"path": path, "goal": goal})
    while True:
        answer = playground.answer("more", {})
        if "seen" not in answer:
            return answer


# Puzzles -----------------------------------------------------------------------------------------


def test_the_gallery_has_bugs_and_findings() -> None:
    assert len(PUZZLES) >= 15
    assert len(set(NAMES)) == len(PUZZLES)
    assert any(puzzle.finding for puzzle in PUZZLES)
    assert {puzzle.finding for puzzle in PUZZLES} <= {None, *(found.number for found in FINDINGS)}


@pytest.mark.parametrize("puzzle", EACH)
def test_hints_lead_to_the_goal_in_the_fewest_steps(puzzle: Puzzle) -> None:
    """As few as the native checker counts, to docs/bugs.md; and the goal isn't met before."""
    best = shortest(puzzle)
    playground = Playground(examples(), {puzzle.of: best})
    path = playground.answer("puzzle", {"name": puzzle.of})["path"]
    for number in range(len(best) - 1):
        view = playground.answer("view", {"path": path})
        assert puzzle.bug.property not in view["broken"], number
        path = f"{path}.{playground.answer('hint', {'path': path})['take']}"
    assert puzzle.bug.property in playground.answer("view", {"path": path})["broken"]
    assert "was broken" in playground.answer("hint", {"path": path})["told"]
    (line,) = re.findall(rf"^\| `{puzzle.of}`.*$", (ROOT / "docs/bugs.md").read_text(), re.M)
    assert line.split("|")[5].strip() == str(len(best) - 1)


@pytest.mark.parametrize("puzzle", EACH[:8])
def test_the_mended_release_does_otherwise_and_the_goal_is_out_of_reach(puzzle: Puzzle) -> None:
    best = shortest(puzzle)
    playground = Playground(examples(), {puzzle.of: best})
    playground.answer("puzzle", {"name": puzzle.of})
    answer = playground.answer("mended", {"path": as_text(best)})
    assert re.search(r"step \d+.* (isn't possible|takes the row|leads to)", answer["told"])
    assert found(playground, answer["path"], puzzle.broken)["path"] is None


def test_a_path_beside_the_shortest_run_is_led_back() -> None:
    (puzzle,) = (each for each in PUZZLES if each.of == "KAFKA-14402")
    best = shortest(puzzle)
    playground = Playground(examples(), {puzzle.of: best})
    playground.answer("puzzle", {"name": puzzle.of})
    other = as_text((*best[:10], best[10] + 1))
    assert playground.answer("hint", {"path": other}) == {
        "told": "Hint: the shortest run leaves yours after step 9. Go back."
    }


# Searches ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "goal", ["NoStaleWrite is broken", "client1.state = HOLDING and client1.lease >= 2", "stuck",
             "service.newest = 0", "storage.written = 9", "OneHolder is broken"],
)  # fmt: skip
def test_a_search_finds_what_the_checker_finds(opened: Playground, goal: str) -> None:
    opened.answer("open", {"system": "lease", "release": "1"})
    explorer = opened.explorer
    session = explorer.session
    native = until(session.instance, session.initials[0], goal, explorer.places)
    plain = found(opened, "0", goal)
    if native.states:
        assert plain["path"].count(".") == len(native.states) - 1
        run = session.run(session.extended((0,), native.states))
        assert plain["why"] == f"after {len(run.steps)} steps"
    else:
        assert plain["path"] is None
        assert plain["why"].startswith("no run from here reaches it: ")


def test_a_search_goes_on_where_it_was(opened: Playground) -> None:
    opened.answer("open", {"system": "lease", "release": "1"})
    session = opened.explorer.session
    search = Search(session, session.initials[0], "stuck", {})
    parts = 0
    while search.go_on(0.001) is None:
        parts += 1
    assert parts > 1
    with pytest.raises(GoalError, match="write PART"):
        Search(session, session.initials[0], "nonsense", {})


# Systems and links -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*examples()])
def test_each_example_is_shown(opened: Playground, name: str) -> None:
    answer = opened.answer("open", {"system": name})
    assert f"<b>{name.replace('_', '-')}</b>" in answer["about"].replace("_", "-")
    assert opened.answer("view", {"path": "0"})["steps"].count("data-take")


def test_settings_are_those_of_the_command(opened: Playground) -> None:
    opened.answer("open", {"system": "idempotence", "release": "2.5", "bounds": "small",
                           "set:faults": "0", "without": "expected_epoch"})  # fmt: skip
    instance = opened.explorer.session.instance
    assert (instance.protocol, instance.constants["faults"]) == ("2.5", 0)
    assert "expected_epoch" not in instance.features


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"system": "<b>"}, "no system"),
        ({"system": "lease", "release": "<b>"}, "unknown protocol"),
        ({"system": "lease", "set:clients": "x"}, "not a whole number"),
        ({"system": "lease", "set:clients": "999999999999"}, "clients"),
        ({"system": "lease", "with": "x"}, "no feature"),
        ({"system": "lease", "bounds": "x"}, "x"),
    ],
)
def test_wrong_settings_are_a_line(opened: Playground, query: dict[str, str], says: str) -> None:
    answer = json.loads(answered(opened, "open", json.dumps(query)))
    assert says in answer["error"]
    assert "\n" not in answer["error"]
    assert opened.explorer.session.instance.system.name == "resend"


def test_a_link_opens_its_system(opened: Playground) -> None:
    other = Playground(examples(), {})
    other.answer("open", {"system": "lease", "release": "1", "set:clients": "3"})
    link = other.answer("view", {"path": "0.1.0"})["link"]
    answer = opened.answer("link", {"link": link})
    assert answer["path"] == "0.1.0"
    assert opened.explorer.session.instance.chosen["clients"] == 3
    assert opened.answer("view", {"path": "0.1.0"}) == other.answer("view", {"path": "0.1.0"})


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"system": "nothing"}, "no system of that name"),
        ({"release": "9"}, "unknown protocol"),
        ({"version": "9.0", "declaration": "0123456789"}, "of Epochfence 9.0"),
        ({"declaration": "0123456789"}, "another declaration"),
        ({"path": (0, 99)}, "step 1"),
        ({"system": "<script>alert(1)</script>"}, "This version doesn't write such a link"),
    ],
)
def test_a_link_that_does_not_fit_opens_nothing(
    opened: Playground, changed: dict[str, Any], says: str
) -> None:
    session = opened.explorer.session
    link = read_link(str(opened.explorer.link((0, 0))))
    refused = opened.answer("link", {"link": str(replace(link, **changed))})["refused"]
    assert says in refused
    assert "\n" not in refused
    assert "<" not in refused
    assert opened.explorer.session is session
