"""Cases that come to the same thing, in one test; outcomes by release."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from epochfence.spec.releases.features import RELEASED as RELEASES

Test = Callable[..., None]
Outcome: TypeAlias = str | dict[str, str]  # in all releases, or from each of those named on


def in_release(told: Outcome, release: str) -> str:
    """The outcome in a release."""
    if isinstance(told, str):
        return told
    here = RELEASES.index(release)
    first, *_ = told.values()  # before the first that is named, too
    return [first, *(text for since, text in told.items() if RELEASES.index(since) <= here)][-1]


def since(release: str) -> tuple[str, ...]:
    """The releases from this one on."""
    return RELEASES[RELEASES.index(release) :]


def before(release: str) -> tuple[str, ...]:
    """The releases before this one."""
    return RELEASES[: RELEASES.index(release)]


def in_each(name: str, values: Iterable[Any]) -> Callable[[Test], Test]:
    """Calls a test with each of the values as the argument of that name, all in one case.

    For values with one outcome: thousands of cases take more time than what they test. A failure
    has a note of the value.
    """
    every = list(values)
    assert every, f"no value of {name}: the test would test nothing"

    def decorated(test: Test) -> Test:
        @functools.wraps(test)
        def with_each(**given: Any) -> None:
            for value in every:
                try:
                    test(**given, **{name: value})
                except BaseException as error:
                    error.add_note(f"with {name} = {value!r}")
                    raise

        own = inspect.signature(test)
        others = [given for given in own.parameters.values() if given.name != name]
        assert len(others) < len(own.parameters), f"{test.__name__} has no argument {name}"
        with_each.__signature__ = own.replace(parameters=others)  # pyright: ignore[reportAttributeAccessIssue]
        del with_each.__wrapped__
        return with_each

    return decorated
