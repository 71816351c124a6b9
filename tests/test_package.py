"""What a user installs: nothing is missing from it, and it runs with the base dependencies."""

import json
import os
import runpy
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NOT_IN_PACKAGE = {"tests", "docs", "bench", "requirements"}

pytestmark = pytest.mark.slow
audit = runpy.run_path(str(ROOT / ".ci" / "audit.py"))


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Standard output of a command that must succeed."""
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree as a fresh clone has it: an old build must not fill a gap in the new."""
    not_cloned = shutil.ignore_patterns(
        ".*", "build", "dist", "site", "*.egg-info", "__pycache__", "*.nbi", "*.nbc"
    )
    return shutil.copytree(ROOT, tmp_path_factory.mktemp("clone") / "source", ignore=not_cloned)


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution: each must be complete."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, source, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.mark.long
def test_the_wheel_holds_the_package_and_nothing_else(source: Path, wheel: Path) -> None:
    rooms = {f for f in source.iterdir() if f.is_dir() and f.name.isidentifier()}
    rooms -= {source / name for name in NOT_IN_PACKAGE}
    files = {f for room in rooms for f in room.rglob("*") if f.is_file() and f.suffix != ".md"}
    files |= {*source.glob("*.py"), source / "py.typed"} - {source / "setup.py"}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == {f"epochfence/{f.relative_to(source).as_posix()}" for f in files}


@pytest.mark.long
def test_a_clean_environment_runs_it(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", "venv", cwd=tmp_path)
    programs = tmp_path / "venv" / "bin"
    text = (ROOT / "requirements" / "all.txt").read_text()
    pins = [str(requirement) for requirement, _ in audit["pinned"](text)]
    (tmp_path / "pins.txt").write_text("\n".join(pins))
    run(programs / "pip", "install", "-c", tmp_path / "pins.txt", wheel, cwd=tmp_path)
    assert "check" in run(programs / "epochfence", "--help", cwd=tmp_path)
    assert "transactions" in run(programs / "epochfence", "list", cwd=tmp_path)
    assert "enable.idempotence" in run(programs / "epochfence", "config", cwd=tmp_path)


@pytest.mark.long
def test_the_wheel_is_the_same_twice_and_ready_to_publish(source: Path, tmp_path: Path) -> None:
    built: list[Path] = []
    for number in (1, 2):
        copy = shutil.copytree(source, tmp_path / str(number))
        for path in copy.rglob("*.py"):
            os.utime(path, (number * 1e9, number * 1e9))
        run(sys.executable, "-m", "build", "--wheel", "--no-isolation", copy, cwd=tmp_path,
            SOURCE_DATE_EPOCH="1700000000")  # fmt: skip
        built += (copy / "dist").glob("*.whl")
    first, second = built
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()
    told = run(sys.executable, "-m", "twine", "check", "--strict", first, cwd=tmp_path)
    assert "PASSED" in told
    with zipfile.ZipFile(first) as archive:
        (licence,) = (name for name in archive.namelist() if name.endswith("/LICENSE"))
        assert archive.read(licence) == (ROOT / "LICENSE").read_bytes()


def test_a_check_needs_no_more_than_its_extra() -> None:
    """What make check sets up, without Spark, brokers and tests."""
    recipe = (ROOT / "Makefile").read_text()
    assert "check: $(READY_TO_CHECK)" in recipe
    assert "--require-hashes -r requirements/check.txt" in recipe
    assert "--require-hashes -r requirements/all.txt" in recipe
    assert "--no-build-isolation" in recipe


def test_the_bill_of_materials_names_what_is_pinned(tmp_path: Path) -> None:
    """The same bytes each time, with a licence for each package."""
    text = audit["REQUIREMENTS"].read_text()
    bill = audit["bill"](text)
    assert audit["bill"](text) == bill
    components = json.loads(bill)["components"]
    taken = {f"{each.name}=={audit['version_of'](each)}" for each, _ in audit["here"](text)}
    assert {f"{c['name']}=={c['version']}" for c in components} == taken
    assert all(c["licenses"][0]["license"]["name"] for c in components)


def test_the_page_lists_the_licence_of_each_package() -> None:
    """For Python 3.11; another one takes some other packages."""
    text, page = audit["REQUIREMENTS"].read_text(), audit["PAGE"].read_text()
    for requirement, _ in audit["here"](text):
        assert f"| {requirement.name} | {audit['version_of'](requirement)} | " in page
    assert "| not installed here |" not in page
    if (3, 11, 5) <= sys.version_info < (3, 12):
        assert audit["page"](text) == page, "run make audit"


@pytest.mark.parametrize(
    ("answers", "code", "line"),
    [
        ("", 20, "can't be reached"),
        ('{"dependencies": [{"name": "a", "skip_reason": "unknown"}]}', 20, "can't be reached"),
        ('{"dependencies": [{"name": "a", "version": "1", "vulns": []}]}', 0, "0 advisories on 1"),
        ('{"dependencies": [{"name": "a", "version": "1", "vulns": [{"id": "X-1"}]}]}', 1, "X-1"),
    ],
)  # fmt: skip
def test_an_audit_without_an_answer_is_no_success(
    answers: str, code: int, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    done = subprocess.CompletedProcess[str]((), 0, stdout=answers)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    monkeypatch.setitem(audit["main"].__globals__, "PAGE", tmp_path / "page.md")
    (tmp_path / "page.md").write_text(audit["BEGIN"])
    assert audit["main"](str(tmp_path / "bill.json")) == code
    assert line in capsys.readouterr().out
