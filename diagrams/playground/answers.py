"""The playground's answers: those of an explorer for any system, and of the gallery of puzzles.

They run in the browser, in a worker. `answered` takes and returns JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path as File
from typing import Any

from ...language import DeclarationError, Instance, System, instantiate
from ...spec.changes import VARIED
from ...spec.systems import SHIPPED
from ..explorer.explorer import WRONG, Explorer, Query
from ..explorer.link import Link, LinkError, difference, read_link
from ..explorer.session import Path, PathError, Run, Session, as_text, read_path
from ..explorer.view import between, comparable, part
from .puzzles import Puzzle, puzzle_of
from .search import Search

HERE = File(__file__).parent
FIRST = "resend"
"""The page's first system, at its release 1, which has a mistake."""
FEW = 5  # with fewer properties than this, the page opens their list
SLICE = 0.05  # seconds of a search between two checks for a cancellation


@dataclass(frozen=True)
class Choice:
    """Settings of a system, from a form or a link."""

    system: str
    release: str = ""
    bounds: str = "default"
    constants: Mapping[str, int] | None = None
    on: tuple[str, ...] = ()
    off: tuple[str, ...] = ()


class Playground:
    """A page's explorer, its search and its puzzle. `examples` are additional systems by name, and
    `runs` the shortest runs of puzzles."""

    def __init__(
        self, examples: Mapping[str, Callable[[], System]], runs: Mapping[str, Path]
    ) -> None:
        self.systems = {**examples, **SHIPPED, **VARIED}
        self._examples = tuple(examples)
        self._search: tuple[Search, Run, str] | None = None
        self._puzzle: tuple[Puzzle, Path] | None = None
        self._runs = runs
        self.explorer = self._explorer(Choice(FIRST, "1"))

    def answer(self, name: str, query: Query) -> dict[str, Any]:
        """The answer to a request of the page. Raises the errors of `WRONG`."""
        explorer = self.explorer
        match name:
            case "view":
                return explorer.view(query)
            case "blocked":
                return explorer.blocked(query)
            case "trace":
                return explorer.loaded(query["text"].encode())
            case "link":
                return self._followed(query.get("link", ""))
            case "open":
                return self._open(_choice(query))
            case "puzzle":
                return self._begin(puzzle_of(query["name"]))
            case "hint":
                return self._hint(read_path(query["path"]))
            case "mended":
                return self._mended(read_path(query["path"]))
            case "until":
                run, goal = explorer.run(query), query.get("goal", "")
                self._search = Search(explorer.session, run.state, goal, explorer.places), run, goal
                return {}
            case "more":
                return self._more()
            case _:
                raise PathError(f"no such request: {name}")

    # Systems ------------------------------------------------------------------------------------

    def _explorer(self, choice: Choice) -> Explorer:
        make = self.systems.get(choice.system)
        if make is None:
            raise DeclarationError("This page has no system of that name.")
        declared = make()

        def at(release: str, bounds: str = "default") -> Instance:
            return instantiate(
                declared, release or None, choice.constants, bounds=bounds, switch_on=choice.on,
                switch_off=choice.off,
            )  # fmt: skip

        return self._of(at(choice.release, choice.bounds), at)

    def _of(self, instance: Instance, at: Callable[[str], Instance]) -> Explorer:
        releases = instance.system.protocols.releases
        return Explorer(instance, [name for name in releases if name != instance.protocol], at)

    def _open(self, choice: Choice) -> dict[str, Any]:
        self.explorer, self._puzzle = self._explorer(choice), None
        return {"path": "0", **self.opened()}

    def opened(self) -> dict[str, Any]:
        """The parts of the page around the views, for the open system."""
        page = self.explorer.page()
        instance = self.explorer.session.instance
        settings = part(
            "settings", HERE, examples=self._examples, shipped=list(SHIPPED), varied=list(VARIED),
            bounds=list(instance.system.bounds), link=self.explorer.link((0,)),
            features=sorted(info.name for info in instance.system.protocols.infos), **page,
        )  # fmt: skip
        few = len(page["properties"]) < FEW
        return {
            "about": part("about", **page),
            "bar": part("bar", **page),
            "settings": settings,
            "few": few,
        }

    def _followed(self, text: str) -> dict[str, Any]:
        """The path of a link, after a change to its settings; or the reason why the link is
        refused. Then the page doesn't change."""
        try:
            link = read_link(text)
            if not difference(link, self.explorer.link((0,))):
                self.explorer.session.run(link.path)
                return {"path": as_text(link.path), "beside": link.beside}
            explorer = self._explorer(_of_link(link))
            explorer.follow(text)
        except (LinkError, PathError, DeclarationError) as error:
            return {"refused": " ".join(str(error).splitlines())}
        self.explorer, self._puzzle = explorer, None
        return {"path": as_text(link.path), "beside": link.beside, **self.opened()}

    # Searches -----------------------------------------------------------------------------------

    def _more(self) -> dict[str, Any]:
        """Continues the search: its result, or its progress."""
        if self._search is None:
            raise PathError("no search is in progress")
        search, run, goal = self._search
        found = search.go_on(SLICE)
        if found is None:
            return {"seen": search.seen}
        self._search = None
        if found.all_seen or found.states:
            self.explorer.decided(run, goal, found.why)
        session = self.explorer.session
        path = as_text(session.extended(run.path, found.states)) if found.states else None
        return {"path": path, "why": found.why}

    # Puzzles ------------------------------------------------------------------------------------

    def _begin(self, puzzle: Puzzle) -> dict[str, Any]:
        self.explorer = self._of(puzzle.instance(), partial(_at_release, puzzle))
        return self._puzzled(puzzle, self._runs[puzzle.of][:1])

    def _puzzled(self, puzzle: Puzzle, path: Path, **more: str) -> dict[str, Any]:
        self._puzzle = puzzle, self._runs[puzzle.of]
        return {
            "path": as_text(path),
            "broken": puzzle.bug.property,
            "puzzle": part("puzzle", HERE, puzzle=puzzle, least=len(self._puzzle[1]) - 1),
            **more,
            **self.opened(),
        }

    def _hint(self, path: Path) -> dict[str, Any]:
        """The number of the next step of the shortest run, if the path is on it; otherwise the
        step to go back to."""
        if self._puzzle is None:
            raise PathError("no puzzle is open")
        puzzle, best = self._puzzle
        same = next((n for n, (a, b) in enumerate(zip(path, best, strict=False)) if a != b), None)
        if same is not None:
            return {"told": f"Hint: the shortest run leaves yours after step {same - 1}. Go back."}
        if len(path) >= len(best):
            return {"told": f"Hint: {puzzle.bug.property} was broken at step {len(best) - 1}."}
        number = best[len(path)]
        state = self.explorer.session.run(path).state
        step = self.explorer.session.shown(state, self.explorer.session.steps(state)[number])
        hint = f"Hint: {step.actor}: {step.action}. Enter takes the step."
        return {"take": number, "told": hint}

    def _mended(self, path: Path) -> dict[str, Any]:
        """The same run with the fix of the bug, up to the first step that differs."""
        if self._puzzle is None:
            raise PathError("no puzzle is open")
        puzzle, _ = self._puzzle
        run = self.explorer.session.run(path)
        mended = self._of(puzzle.instance(mended=True), partial(_at_release, puzzle))
        other, sentence = repeated(self.explorer.session, run, mended.session)
        self.explorer = mended
        return self._puzzled(puzzle, other, told=f"With {puzzle.remedy}: {sentence}")


@cache
def shortest(puzzle: Puzzle) -> Path:
    """A shortest run to the goal of a puzzle."""
    session = Session(puzzle.instance())
    for first, state in enumerate(session.initials):
        found = Search(session, state, puzzle.broken, {}).go_on(float("inf"))
        if found is not None and found.states:
            return session.extended((first,), found.states)
    raise PathError(f"{puzzle.of}: no run reaches its goal")


def repeated(here: Session, run: Run, other: Session) -> tuple[Path, str]:
    """The path of the same events in another release, up to the first event that takes another row
    or is impossible; and a sentence about this event."""
    found: Path = (run.path[0],) if run.path[0] < len(other.initials) else (0,)
    is_comparable = comparable(here.instance, other.instance)
    for number, (state, step) in enumerate(zip(run.states, run.steps, strict=False), 1):
        shown = here.shown(state, step)
        possible = enumerate(other.steps(other.run(found).state))
        event = (step.action.table, tuple(value for _, value in step.bound))
        same = [
            (at, each)
            for at, each in possible
            if (each.action.table, tuple(value for _, value in each.bound)) == event
        ]
        if not same or same[0][1].state is None:
            return found, f"step {number}, {shown.action} by {shown.actor}, isn't possible."
        at, taken = same[0]
        row = other.instance.row_names[taken.row].partition("/")[2]
        found = (*found, at)
        assert taken.state is not None
        if row != shown.row:
            return found, f"step {number} takes the row {row} in place of {shown.row}."
        if is_comparable and taken.state != run.states[number]:
            parts = "; ".join(between(here.instance, run.states[number], taken.state))
            return found, f"step {number} leads to {parts}."
    return found, "the same steps are possible. Search on from here."


def _at_release(puzzle: Puzzle, release: str) -> Instance:
    bug = puzzle.bug
    return instantiate(bug.declared, release, bug.constants, switch_on=bug.on, switch_off=bug.off)


def _of_link(link: Link) -> Choice:
    return Choice(link.system, link.release, "default", link.constants, link.on, link.off)


def _choice(query: Query) -> Choice:
    """The settings of a form. Raises DeclarationError."""
    constants: dict[str, int] = {}
    for name, value in query.items():
        if name.startswith("set:"):
            try:
                constants[name.removeprefix("set:")] = int(value[:9])
            except ValueError:
                what = f"{name.removeprefix('set:')}: {value[:9]} is not a whole number"
                raise DeclarationError(what) from None
    return Choice(
        query.get("system", FIRST), query.get("release", ""), query.get("bounds") or "default",
        constants, tuple(query.get("with", "").split()), tuple(query.get("without", "").split()),
    )  # fmt: skip


def answered(playground: Playground, name: str, text: str) -> str:
    """The answer to a request, both as JSON; an error is a line."""
    try:
        return json.dumps(playground.answer(name, json.loads(text)))
    except WRONG as error:
        return json.dumps({"error": " ".join(str(error).splitlines())})
