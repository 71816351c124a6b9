"""Exploration on Apache Spark: shards on many machines, levels on durable storage.

For notebooks it provides Spark's DataFrames: `Explored` (states and transitions of a run),
`verdicts`, `judge_histories` and `decode`. They are loaded at first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .frames import Explored, verdicts
    from .judge.decoded_files import decode
    from .judge.histories import Judging, judge_histories
    from .session import start

__all__ = ["Explored", "Judging", "decode", "judge_histories", "start", "verdicts"]

_HOMES = {
    "Explored": "frames", "Judging": "judge.histories", "decode": "judge.decoded_files",
    "judge_histories": "judge.histories", "start": "session", "verdicts": "frames",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(name)
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
