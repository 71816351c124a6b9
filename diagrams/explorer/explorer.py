"""An explorer's answers as data, for the page of `epochfence explore` and the playground."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version
from threading import Lock
from typing import Any

from ...checker.trace.itf import TraceError, TraceFile, read_trace
from ...checker.trace.replay import run_of
from ...language import DeclarationError, Instance
from .goals import GoalError, places
from .link import Link, LinkError, difference, link_to, read_link
from .session import Path, PathError, Run, Session, as_text, read_path
from .view import Views, comparable, first_states

LONGEST = 200  # characters of words to filter by
WRONG = (PathError, GoalError, LinkError, TraceError, DeclarationError)
"""The exceptions of an answer; each has a message of one line for the user."""

Query = Mapping[str, str]


class Explorer:
    """One system at one release. `of_release` makes an explorer of the same system at another
    release."""

    def __init__(
        self, instance: Instance, releases: list[str], of_release: Callable[[str], Instance]
    ) -> None:
        self.session = Session(instance)
        self.views = Views(self.session)
        self.places = places(instance)
        self.releases = releases
        self.searched: dict[str, str] = {}
        """The results of searches from the first state, by goal."""
        self._of_release = of_release
        self._beside: dict[str, Session] = {}
        self._making = Lock()

    def link(self, path: Path, beside: str = "") -> Link:
        """The link to a path."""
        return link_to(self.session.instance, self.session.declaration, path, beside)

    def follow(self, text: str) -> Link:
        """The link of this text. Raises LinkError and PathError if it isn't a link of this
        explorer."""
        link = read_link(text)
        other = difference(link, self.link((0,)))
        if other:
            raise LinkError(other)
        self.session.run(link.path)
        return link

    def path_of(self, file: TraceFile) -> Path:
        """The path of a trace. Raises TraceError or PathError if the trace isn't of this system."""
        of, here = file.settings, self.session.instance
        named = (here.protocol, tuple(sorted(here.features)), dict(here.chosen))
        if of is not None and named != (
            of.protocol,
            tuple(sorted(of.features)),
            dict(of.constants),
        ):
            raise TraceError(
                f"it is of {of.system} at protocol {of.protocol}, with other settings than these: "
                "`epochfence explore SYSTEM --trace FILE` takes those of the trace"
            )
        states, steps = run_of(here, file)
        return self.session.path_of(states, steps)

    def beside(self, release: str) -> Session | None:
        """The same system at another release. Raises DeclarationError."""
        if not release:
            return None
        if release not in self.releases:
            raise DeclarationError("there is no such release to compare with")
        with self._making:
            if release not in self._beside:
                other = self._of_release(release)
                if not comparable(self.session.instance, other):
                    raise DeclarationError(f"{release} has other variables: it can't be compared")
                self._beside[release] = Session(other)
            return self._beside[release]

    # Answers ------------------------------------------------------------------------------------

    def page(self) -> dict[str, Any]:
        """The values of the page around all views."""
        instance = self.session.instance
        infos = {info.name: info for info in instance.system.constant_infos}
        return {
            "system": instance.system.name,
            "protocol": instance.protocol,
            "constants": [
                (name, value, infos[name].meaning) for name, value in instance.chosen.items()
            ],
            "switched": instance.switched,
            "releases": self.releases,
            "firsts": first_states(self.session),
            "places": list(self.places),
            "properties": [item.name for item in instance.properties],
            "version": version("epochfence"),
        }

    def run(self, query: Query) -> Run:
        """The run of a path."""
        return self.session.run(read_path(query.get("path", "")))

    def view(self, query: Query) -> dict[str, Any]:
        """A path's view; of another release, too, with `beside`."""
        release, run = query.get("beside", ""), self.run(query)
        beside = self.beside(release)
        shown = self.views.of(run, beside, query.get("find", "")[:LONGEST], self.searched)
        return {**shown, "link": str(self.link(run.path, release))}

    def blocked(self, query: Query) -> dict[str, Any]:
        """The reasons for which impossible steps are impossible."""
        return {"blocked": self.views.blocked(self.run(query))}

    def followed(self, query: Query) -> dict[str, Any]:
        """The path of a link, or the reason why it is refused."""
        try:
            link = self.follow(query.get("link", ""))
        except (LinkError, PathError) as error:
            return {"refused": str(error)}
        return {"path": as_text(link.path), "beside": link.beside}

    def loaded(self, text: bytes) -> dict[str, Any]:
        """The path of a trace in ITF."""
        path = self.path_of(read_trace(text))
        return {"path": as_text(path), "told": f"{len(path) - 1} steps"}

    def decided(self, run: Run, goal: str, result: str) -> None:
        """Stores the result of a search for a goal, if it began in the only first state."""
        if not run.steps and len(self.session.initials) == 1:
            self.searched[goal] = result
