"""The benchmark protocol as the other checkers have it: all of it, and with the same counts."""

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench"
MODELS = BENCH / "peers"
TEXTS = ["ktx.m", "ktx.tla", "ktx_pml.py", "stateright/src/main.rs"]


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    yield importlib.import_module("peers")
    sys.modules.pop("peers", None)


def told(section: str, pattern: str) -> list[str]:
    """What MODEL.md has of a pattern under a heading."""
    text = (MODELS / "MODEL.md").read_text(encoding="utf-8")
    return re.findall(pattern, text.partition(f"## {section}")[2].partition("\n## ")[0], re.M)


@pytest.mark.parametrize("name", TEXTS)
def test_each_text_has_every_action_and_variable(name: str) -> None:
    text = (MODELS / name).read_text(encoding="utf-8")
    actions = told("Actions", r"^\| \d+ \| (\w+)")
    variables = told("Variables", r"^\| (\w+)(?:\[|\b) *.*\| \d\.\.")
    assert (len(actions), len(variables)) == (30, 19)
    assert [
        word for word in (*actions, *variables) if not re.search(rf"\b{word}", text, re.I)
    ] == []


def test_stateright_has_every_invariant() -> None:
    text = (MODELS / "stateright" / "src" / "main.rs").read_text(encoding="utf-8")
    assert re.findall(r'Property::always\("(\w+)"', text) == told("Invariants", r"^\* `(\w+)`")


def test_without_cargo_stateright_is_left_out_in_a_line(
    peers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("TLA2TOOLS_JAR", "")
    size = peers.Size(1, 1, 2, 2)
    built, left_out = peers.build_peers(size, tmp_path, expected_states=5_094, without=["spin"])
    assert not built
    assert len(left_out) == 4
    assert "Stateright is left out: no cargo on the path (https://rustup.rs)" in left_out
