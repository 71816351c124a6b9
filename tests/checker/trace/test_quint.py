"""Traces that Quint has written, of the modules in the folder `quint`, and what Apalache's
definition of ITF has further."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from epochfence.checker.named_systems import load_system
from epochfence.checker.trace.itf import TraceError, decoded, read_trace
from epochfence.checker.trace.replay import replay
from epochfence.checker.verdict.result import Outcome, Verdict
from epochfence.language import Bag, Int, Key, enum, instantiate

FOLDER = Path(__file__).with_name("quint")
SYSTEMS = {"lease": "docs/examples/lease.py", "chain": "docs/examples/chain_replication.py"}
WRITTEN = {
    # quint test --backend typescript --out-itf FILE lease.qnt (Quint 0.33.1)
    "lease-test": (11, "NoStaleWrite doesn't hold: in step 11"),
    # quint run --backend typescript --mbt --seed 7 --max-steps 12 --invariant updatePropagation
    #   --out-itf FILE chain.qnt (Quint 0.33.1)
    "chain-run": (9, "UpdatePropagation doesn't hold: after 9 steps"),
}
State = enum("State", "IDLE", "ASKING")


def again(name: str, whole: dict[str, Any] | None = None) -> Outcome:
    """What a file comes to, or one that was changed."""
    text = json.dumps(whole) if whole else FOLDER.joinpath(f"{name}.itf.json").read_text("utf-8")
    system = load_system(SYSTEMS[name.partition("-")[0]])
    return replay(instantiate(system, "1"), read_trace(text.encode()))


def read(name: str) -> dict[str, Any]:
    """What a file has."""
    return json.loads(FOLDER.joinpath(f"{name}.itf.json").read_text("utf-8"))


@pytest.mark.parametrize("name", WRITTEN)
def test_a_trace_of_theirs_is_taken_again(name: str) -> None:
    depth, reason = WRITTEN[name]
    found = again(name)
    assert found.verdict is Verdict.BROKEN
    assert found.depth == depth
    assert found.reason.startswith(reason)


def test_names_of_an_instance_stand_for_its_variables() -> None:
    whole = read("lease-test")
    states = [{f"main::of::{k}": v for k, v in s.items() if k[0] != "#"} for s in whole["states"]]
    assert again("lease", {"states": states}).depth == 11
    for state in states:
        state["other::client_lease"] = state["main::of::client_lease"]
    with pytest.raises(TraceError, match="state 0: two instances have variables of the same name"):
        again("lease", {"states": states})


def test_a_changed_one_is_refused() -> None:
    whole = read("chain-run")
    whole["states"][5]["client_written"] = {"#bigint": "1"}
    with pytest.raises(TraceError, match="state 5: no row leads to it"):
        again("chain", whole)


@pytest.mark.parametrize("at", [0, 40, 300, 2000, -3])
def test_one_that_breaks_off_is_refused(at: int) -> None:
    with pytest.raises(TraceError):
        read_trace(FOLDER.joinpath("lease-test.itf.json").read_bytes()[:at])


def test_what_is_in_flight_may_be_a_set() -> None:
    assert decoded(Bag(Int(0, 3), 2), {"#set": [{"#bigint": "2"}]}, {}, "here") == (2,)


@pytest.mark.parametrize("unit", [{"#tup": []}, "U_OF_UNIT", "u_OF_UNIT"])
def test_a_variant_without_a_value_is_a_name(unit: Any) -> None:
    assert decoded(State, {"tag": "IDLE", "value": unit}, {}, "here") == "IDLE"


def test_an_instance_may_be_of_an_uninterpreted_type() -> None:
    client = Key("client", 2)
    assert [decoded(client, d, {}, "here") for d in ("1_OF_CLIENT", "client1_OF_CLIENT")] == [1, 1]
    with pytest.raises(TraceError, match='here: "_OF_CLIENT" is not of type client'):
        decoded(client, "_OF_CLIENT", {}, "here")


@pytest.mark.parametrize(
    "data",
    [
        {"tag": "GONE", "value": {"#tup": []}},
        {"tag": "IDLE", "value": {"#tup": [1]}},
        {"tag": "IDLE"},
        {"tag": 1, "value": {"#tup": []}},
        {"#unserializable": "Nat"},
        {"#bigint": "IDLE"},
        {"#tup": ["IDLE"]},
    ],
)
def test_a_name_that_is_none_is_refused(data: Any) -> None:
    with pytest.raises(TraceError, match=r"^here: .* is not of type State$"):
        decoded(State, data, {}, "here")
