"""Whether a rule between settings does anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from epochfence.language import Protocols, Table
from epochfence.model.client import config
from epochfence.model.client.config import ConfigError

Resolve = Callable[[dict[str, Any], str], object]


def rules(steps: Sequence[Table]) -> list[Any]:
    """Each rule as a case: the place of its step, and its place there."""
    return [
        pytest.param(step, row, id=f"{step}-{table.on.name}, {table.rows[row].name}")
        for step, table in enumerate(steps)
        for row in range(len(table.rows))
    ]


def is_missed(
    name: str, step: int, row: int, protocols: Protocols, resolve: Resolve,
    grid: Iterable[dict[str, Any]], monkeypatch: pytest.MonkeyPatch,
) -> bool:  # fmt: skip
    """Whether some settings come to something else without a rule, in a release that has it;
    `name` is what the model calls the steps."""
    steps: tuple[Table, ...] = getattr(config, name)
    table, every = steps[step], list(grid)
    left = (*table.rows[:row], *table.rows[row + 1 :])
    without = [Table(table.machine, table.on, left)] if left else []
    changed = (*steps[:step], *without, *steps[step + 1 :])
    during = table.rows[row].during

    def outcome(given: dict[str, Any], release: str) -> object:
        try:
            return resolve(given, release)
        except ConfigError as error:
            return str(error)

    def differs(given: dict[str, Any], release: str) -> bool:
        before = outcome(given, release)
        with monkeypatch.context() as patched:
            patched.setattr(config, name, changed)
            return outcome(given, release) != before

    releases = [r for r in protocols.releases if protocols.holds(during, protocols.features_at(r))]
    return any(differs(given, release) for release in releases for given in every)
