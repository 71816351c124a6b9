"""Whatever happens to files that a run goes on with: it is refused, or comes to the same result."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from epochfence.checker import check as checks
from epochfence.checker.check import Options, check
from epochfence.checker.many.journal import Journal, JournalError
from epochfence.checker.native.search.checkpoint import CheckpointError
from epochfence.checker.prepare import Prepared
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import Instance
from epochfence.tests.checker.damage import apply, damages
from epochfence.tests.checker.native.search.test_checkpoint import counted, killed_at, ktx

Damages = list[tuple[str, int, int, int]]
MANY = settings(
    max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)


@pytest.fixture(scope="module", autouse=True)
def compiled_once() -> Iterator[None]:
    """Each instance is compiled once: hundreds of runs explore it."""
    prepare: Callable[..., Prepared] = checks.prepare
    by_constants: dict[str, Prepared] = {}

    def once(instance: Instance, **options: Any) -> Prepared:
        key = f"{instance.system.name} {sorted(instance.constants.items())}"
        if key not in by_constants:
            by_constants[key] = prepare(instance, **options)
        return by_constants[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "prepare", once)
        yield


@lru_cache
def whole() -> Result:
    """The run that nobody interrupts."""
    return check(ktx(V=0))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run that was killed shortly before its counterexample, and one of another declaration."""
    folder = tmp_path_factory.mktemp("runs")
    killed_at(whole().depth - 1, folder / "one", ktx(V=0))
    killed_at(whole().depth - 1, folder / "other", ktx())
    return folder / "one", folder / "other"


@pytest.mark.slow
@MANY
@given(damages=damages())
def test_a_damaged_checkpoint(damages: Damages, runs: tuple[Path, Path], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(runs[0], folder)
    for damage in damages:
        apply(folder, runs[1], *damage)
    refused, found = "", None
    try:
        found = check(ktx(V=0), Options(resume=folder))
    except CheckpointError as error:
        refused = str(error)
    if found is not None:
        assert counted(found) == counted(whole())
    else:
        assert str(folder) in refused
        assert "\n" not in refused


@MANY
@given(damages=damages())
def test_a_damaged_file_of_results(damages: Damages, tmp_path: Path) -> None:
    """A result that is found is one that was kept under this name."""
    folders = tmp_path / "one", tmp_path / "other"
    results = {f"piece {n}": {"exit_code": 12 * (n % 2), "states": 7**n} for n in range(6)}
    for folder, digest in zip(folders, ("this declaration", "another"), strict=True):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        with closing(Journal(folder / "results.jsonl", digest)) as kept:
            for name, result in results.items():
                kept.add(name, result if digest != "another" else {"exit_code": 0, "states": 1})
    for damage in damages:
        apply(*folders, *damage)
    refused, found = "", None
    try:
        with closing(Journal(folders[0] / "results.jsonl", "this declaration")) as kept:
            found = {name: kept.get(name) for name in results}
    except JournalError as error:
        refused = str(error)
    if found is not None:
        assert all(found[name] in (None, result) for name, result in results.items())
    else:
        assert "results.jsonl" in refused
        assert "\n" not in refused


def test_a_run_of_no_states_holds_nothing() -> None:
    told = {**vars(whole()), "verdict": Verdict.HOLDS, "states": 0, "trace": None}
    result = Result(**told)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert {p.verdict for p in result.properties} == {"unknown"}
