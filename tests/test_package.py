"""What a user installs: nothing is missing from it, and it runs with the base dependencies."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NOT_IN_PACKAGE = {"tests", "docs", "bench"}

pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path) -> str:
    """Standard output of a command that must succeed."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
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
    run(sys.executable, "-m", "build", "--outdir", folder, source, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_package_and_nothing_else(source: Path, wheel: Path) -> None:
    rooms = {f for f in source.iterdir() if f.is_dir() and f.name.isidentifier()}
    rooms -= {source / name for name in NOT_IN_PACKAGE}
    files = {f for room in rooms for f in room.rglob("*") if f.is_file() and f.suffix != ".md"}
    files |= {*source.glob("*.py"), source / "py.typed"} - {source / "setup.py"}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == {f"epochfence/{f.relative_to(source).as_posix()}" for f in files}


def test_a_clean_environment_runs_it(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", "venv", cwd=tmp_path)
    programs = tmp_path / "venv" / "bin"
    run(programs / "pip", "install", "-c", ROOT / "constraints.txt", wheel, cwd=tmp_path)
    assert "check" in run(programs / "epochfence", "--help", cwd=tmp_path)
    assert "transactions" in run(programs / "epochfence", "list", cwd=tmp_path)
    assert "enable.idempotence" in run(programs / "epochfence", "config", cwd=tmp_path)
