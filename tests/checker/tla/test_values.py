"""Values that TLC prints, and traces that it dumps."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from epochfence.checker.named_systems import load_system
from epochfence.checker.tla.values import value_of
from epochfence.checker.trace.itf import TraceError, decoded, read_trace
from epochfence.checker.trace.replay import replay
from epochfence.checker.verdict.result import Verdict
from epochfence.language import Bag, Int, Key, Map, Record, instantiate

DUMPED = Path(__file__).with_name("lease-tlc.json")
"""By TLC 1.8 of the module that `export tla docs/examples/lease.py --protocol 1` writes."""


@pytest.mark.parametrize("around", [False, True], ids=["TLC 1.8", "TLC of 2026"])
def test_a_trace_that_tlc_dumped_is_taken_again(around: bool) -> None:
    text = DUMPED.read_bytes()
    if around:
        text = b'{"counterexample":' + text + b',"vars":["client_state"]}'
    instance = instantiate(load_system("docs/examples/lease.py"), "1")
    found = replay(instance, read_trace(text))
    assert found.verdict is Verdict.BROKEN
    assert found.depth == 11
    assert found.reason.startswith("NoStaleWrite doesn't hold: in step")


def test_one_that_was_changed_is_refused() -> None:
    instance = instantiate(load_system("docs/examples/lease.py"), "1")
    whole = json.loads(DUMPED.read_text("utf-8"))
    whole["state"][5][1]["service_newest"] = 3
    with pytest.raises(TraceError, match="state 5: no row leads to it"):
        replay(instance, read_trace(json.dumps(whole).encode()))
    with pytest.raises(TraceError, match="not valid JSON"):
        read_trace(DUMPED.read_bytes()[:-300])


def test_the_last_action_of_a_lasso_leads_back() -> None:
    states = [[1, {"x": 0}], [2, {"x": 1}], [3, {"x": 2}]]
    on = [[a, {"name": "Next"}, b] for a, b in pairwise(states)]
    for back, loop in ((2, 1), (3, 2)):
        actions = [*on, [states[2], {"name": "Next"}, states[back - 1]]]
        dumped = json.dumps({"action": actions, "state": states}).encode()
        assert read_trace(dumped).loop == loop
    assert read_trace(json.dumps({"action": on, "state": states}).encode()).loop is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[present |-> FALSE]", {"present": False}),
        ('[error |-> "NO\\"NE", of |-> <<1, -2>>]', {"error": 'NO"NE', "of": [1, -2]}),
        ("{}", {"#set": []}),
        ("(0 :> {a} @@ 1 :> <<>>)", {"#map": [[0, {"#set": ["a"]}], [1, []]]}),
    ],
)
def test_values_are_read(text: str, value: Any) -> None:
    assert value_of(text) == value


@pytest.mark.parametrize(
    "text", ["", "[a |-> ]", "<<1", "1 2", "(1 :> 2", "@@", "[a |> 1]", "{1 2}"]
)
def test_what_is_no_value_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        value_of(text)


def test_a_list_of_tlc_is_no_bag() -> None:
    """It has the counts of 1, 2, and so on, and not these elements."""
    assert decoded(Bag(Int(0, 3), 2), {"2": 2}, {}, "here", tlc=True) == (2, 2)
    assert decoded(Bag(Int(0, 3), 2), [2], {}, "here") == (2,)
    with pytest.raises(TraceError):
        decoded(Bag(Int(0, 3), 2), [2], {}, "here", tlc=True)
    held = Record("held", (("lease", Int(0, 3)),))
    assert decoded(Bag(held, 2), {"[lease |-> 1]": 2}, {}, "here", tlc=True) == ((1,), (1,))
    assert decoded(Map(Key("k", 2), Int(0, 3)), {"0": 3, "1": 2}, {}, "here", tlc=True) == (3, 2)
    with pytest.raises(TraceError, match=r"is not a TLA\+ value"):
        decoded(Bag(held, 2), {"[lease |->": 2}, {}, "here", tlc=True)
