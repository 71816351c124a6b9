"""Results as test cases."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.output.junit import to_junit
from epochfence.language import Row, invariant
from epochfence.tests.systems.counter import Ticker


def suite(most: int, *, terminal: bool = True, strict: bool = False) -> ElementTree.Element:
    """Of a system that counts to 3, and says that it stays below `most`."""
    counter = Ticker()
    x = counter.x
    low = invariant("Low", x < most, "x stays <low> \x00.")
    rows = (Row("up \x01 <b>", set={x: x + 1}),)
    instance = counter.instance(counter.small, low, to=3, rows=rows, terminal=terminal)
    (found,) = ElementTree.fromstring(to_junit(instance, check(instance, Options(strict=strict))))
    return found


def outcomes(found: ElementTree.Element) -> dict[str, str]:
    return {case.attrib["name"]: "".join(each.tag for each in case) for case in found}


@pytest.mark.parametrize(
    ("most", "terminal", "strict", "told"),
    [
        (4, True, False, {"Small": "", "Low": ""}),
        (2, True, False, {"Small": "skipped", "Low": "failure"}),
        (4, False, False, {"Small": "skipped", "Low": "skipped", "no deadlock": "failure"}),
        (4, True, True, {"Small": "", "Low": "", "an end of the run": "error"}),
    ],
    ids=["holds", "broken", "deadlock", "vacuous"],
)
def test_each_property_is_a_test_case(
    most: int, terminal: bool, strict: bool, told: dict[str, str]
) -> None:
    found = suite(most, terminal=terminal, strict=strict)
    assert outcomes(found) == told
    counts = [found.attrib[name] for name in ("tests", "failures", "errors", "skipped")]
    tags = ("failure", "error", "skipped")
    assert counts == [str(len(told)), *(str([*told.values()].count(tag)) for tag in tags)]


def test_what_holds_vacuously_is_no_test_that_has_passed() -> None:
    counter = Ticker()
    far = invariant("Far", (counter.x > 2).implies(counter.x > 3), "No.")
    instance = counter.instance(counter.below(3, "Low"), far, to=2)
    (found,) = ElementTree.fromstring(to_junit(instance, check(instance)))
    assert outcomes(found) == {"Low": "", "Far": "skipped"}


def test_a_failure_has_the_counterexample_as_a_chart() -> None:
    (failure,) = suite(2).iter("failure")
    assert failure.attrib["message"] == "Low doesn't hold after 2 steps. (x stays <low> \ufffd.)"
    assert failure.text is not None
    assert "1     ●     tick" in failure.text
    assert "tick [up \ufffd <b>]" in failure.text
    assert "Low doesn't hold after 2 steps" in failure.text


def _counting(*, beyond: bool) -> ElementTree.Element:
    """A system of two properties that are broken, one that holds, and a deadlock, in a run that
    goes on; its counter may go `beyond` its range."""
    counter = Ticker()
    every = [counter.below(most, name) for name, most in (("A", 2), ("B", 3), ("C", 9))]
    instance = counter.instance(*every, to=None if beyond else 3, terminal=False)
    result = check(instance, Options(keep_going=True))
    (found,) = ElementTree.fromstring(to_junit(instance, result))
    return found


def test_a_run_that_goes_on_decides_each_case() -> None:
    found = _counting(beyond=False)
    failed = {"A": "failure", "B": "failure", "C": "", "no deadlock": "failure"}
    assert outcomes(found) == failed
    assert [each.attrib["type"] for each in found.iter("failure")] == [
        "BROKEN",
        "BROKEN",
        "DEADLOCK",
    ]


def test_what_nothing_is_known_of_in_such_a_run_is_no_success() -> None:
    assert outcomes(_counting(beyond=True))["C"] == "error"
