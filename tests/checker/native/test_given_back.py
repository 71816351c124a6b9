"""A search gives back the memory that it reserved with its last use: thousands of searches in one
process would reserve more addresses than there are, if they waited for a search for garbage."""

from __future__ import annotations

import gc
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from weakref import ref

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.native.search.explore import Explorer
from epochfence.tests.checker.native.codegen.test_property_groups import two_counters
from epochfence.tests.checker.native.grouping import by_parts


@pytest.mark.parametrize("parts", [False, True], ids=["whole", "by parts"])
@pytest.mark.parametrize("bound", [25, 99], ids=["broken", "holds"])
@pytest.mark.parametrize("options", [{}, {"threads": 2}, {"keep_going": True}, {"spill": Path()}])
def test_a_search_is_gone_with_its_last_use(
    options: dict[str, Any],
    bound: int,
    parts: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known: list[Any] = []
    begin = Explorer.begin_level

    def begun(explorer: Explorer) -> None:
        known.append(ref(explorer))
        begin(explorer)

    monkeypatch.setattr(Explorer, "begin_level", begun)
    monkeypatch.chdir(tmp_path)
    gc.disable()
    try:
        with by_parts() if parts else nullcontext([]) as made:
            result = check(two_counters(bound, 99), Options(**options))
            made.clear()
        assert known
        assert result.states
        assert all(search() is None for search in known)
    finally:
        gc.enable()
