"""The playground in the page's worker, with the shipped systems and the examples."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from ...language import System
from ..explorer.session import read_path
from .answers import Playground, answered

__all__ = ["EXAMPLES", "answered", "examples", "playground"]

ROOT = Path(__file__).parents[2]
EXAMPLES = (
    "resend", "lease", "bounded_queue", "cache", "chain_replication", "paxos", "peterson",
    "primary_backup", "raft_election", "raft_log", "retry", "token_ring", "two_phase_commit",
)  # fmt: skip


def examples() -> dict[str, Callable[[], System]]:
    """The systems of docs/examples, by the names of their files."""
    return {name: partial(_example, name) for name in EXAMPLES}


@cache
def _example(name: str) -> System:
    return runpy.run_path(str(ROOT / "docs" / "examples" / f"{name}.py"))["system"]


def playground(runs: str = "{}") -> Playground:
    """A playground that knows these shortest runs of puzzles, as JSON: a link's path for each."""
    known = {name: read_path(path) for name, path in json.loads(runs).items()}
    return Playground(examples(), known)
