"""A disagreement without its numbers. Two runs with the same difference have one cause."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from .possible_states import NEW
from .session import DisagreementError

_NUMBER = re.compile(r"\d[\d,.]*")
_BY = "by "


class Difference(NamedTuple):
    """The last request of a run, its answer, and the expected answers.

    `given` and `expected` are errors. If the error is right, `given` are the wrong fields, such as
    `base_offset: -1 expected`. `rows` are the rows of the expected answers, with their sources.
    Without an answer, `given` is the reason, and `rows` is empty.
    """

    request: str
    given: tuple[str, ...]
    expected: frozenset[str]
    rows: frozenset[str]

    @staticmethod
    def of(found: DisagreementError) -> Difference:
        """The difference of a disagreement."""
        line, response = found.trace[-1]
        name = str(line.get("request") or "release")
        if line.get("committed") is False:
            name += " of uncommitted records"
        errors = frozenset(str(answer["error"]) for answer in found.allowed if "error" in answer)
        if found.no_answer is not None:
            return Difference(name, (_NUMBER.sub("N", found.no_answer),), errors, frozenset())
        given = dict(response or {})
        error = str(given.get("error"))
        alike = [answer for answer in found.allowed if str(answer.get("error")) == error]
        if not alike:
            return Difference(name, (error,), errors, _rows(found))
        fields = min((tuple(_fields(given, answer)) for answer in alike), key=len)
        return Difference(name, fields, errors, _rows(found))

    def is_shown_by(self, other: Difference) -> bool:
        """Whether a smaller run with the difference `other` also shows this one. It may allow fewer
        answers."""
        return (
            (self.request, self.given) == (other.request, other.given)
            and other.expected <= self.expected
            and other.rows <= self.rows
            and bool(other.rows) == bool(self.rows)
        )


def _rows(found: DisagreementError) -> frozenset[str]:
    lines = (line for reason in found.reasons for line in reason)
    return frozenset(line.removeprefix(_BY) for line in lines if line.startswith(_BY))


def _fields(given: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[str]:
    for name, value in sorted(given.items()):
        if name not in expected:
            yield f"{name}: none expected"
        elif value != expected[name]:
            yield f"{name}: {_compared(value, expected[name])}"


def _compared(given: Any, expected: Any) -> str:
    """A description of a wrong value."""
    if isinstance(given, list) and isinstance(expected, list):
        return _lists(cast("list[Any]", given), cast("list[Any]", expected))
    if isinstance(given, int) and isinstance(expected, int):
        if -1 in (given, expected):
            return "-1 given" if given == -1 else "-1 expected"
        return "lower than expected" if given < expected else "higher than expected"
    if expected == NEW:
        return "a known one given, a new one expected"
    if isinstance(given, str):
        return f"{given} given, {expected} expected"
    return "another one expected"


def _lists(given: list[Any], expected: list[Any]) -> str:
    """A description of a wrong list: elements are extra, missing or different. Entries with the
    same first part are compared part by part."""
    given_counts, expected_counts = Counter(map(str, given)), Counter(map(str, expected))
    if not given_counts - expected_counts or not expected_counts - given_counts:
        return "some missing" if expected_counts - given_counts else "too many"
    by_key = {str(entry[0]): entry for entry in _lists_in(expected)}
    parts = {
        str(at)
        for entry in _lists_in(given)
        for at, part in enumerate(entry)
        if (other := by_key.get(str(entry[0]))) is not None and other[at : at + 1] != [part]
    }
    return f"others expected{', at ' if parts else ''}{' and '.join(sorted(parts))}"


def _lists_in(entries: list[Any]) -> list[list[Any]]:
    return [cast("list[Any]", entry) for entry in entries if isinstance(entry, list) and entry]
