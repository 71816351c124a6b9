"""The habits that a machine can check: what is committed, what is pinned, what CI lets pass."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]

# A path that starts at the root of somebody's machine, not one inside an address or another path.
MACHINE_PATH = re.compile(r"(?<![\w.:/$}~-])/(?:home|root|Users|work|tmp|mnt|scratch)/\w+")
# Where packages come from is a setting of the machine.
PACKAGE_INDEX = re.compile(
    r"https?://[\w.:@-]+/(?:[\w-]+/)*simple\b"
    r"|--(?:index-url|extra-index-url|find-links|trusted-host)"
)


def committed() -> list[Path]:
    """The files that are committed, or would be by adding everything."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = (ROOT / name for name in listed.stdout.split("\0") if name)
    return [path for path in paths if path.is_file()]


@pytest.mark.parametrize("pattern", [MACHINE_PATH, PACKAGE_INDEX], ids=["paths", "indexes"])
def test_nothing_committed_names_a_machine(pattern: re.Pattern[str]) -> None:
    found: list[str] = []
    for path in committed():
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        found += [
            f"{path.relative_to(ROOT)}:{number}: {match.group()}"
            for number, line in enumerate(lines, 1)
            if (match := pattern.search(line))
        ]
    assert found == []


def test_the_patterns_see_what_they_are_for() -> None:
    somebody = "home/" + "somebody"
    assert MACHINE_PATH.search(f"open('/{somebody}/x')")
    assert not MACHINE_PATH.search(f"https://kafka.apache.org/{somebody}")
    assert PACKAGE_INDEX.search("https:" + "//index.example/simple")
    assert not PACKAGE_INDEX.search("https:" + "//kafka.apache.org")


@pytest.mark.parametrize("name", ["all", "check"])
def test_every_package_is_pinned_with_the_hashes_of_its_files(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text().replace("\\\n", " ")
    assert text
    for line in text.splitlines():
        stated, *hashes = line.split("--hash=sha256:")
        assert str(Requirement(stated).specifier).startswith("=="), line
        assert hashes, line
        assert all(re.fullmatch(r"[0-9a-f]{64} *", each) for each in hashes), line


def test_what_check_installs_is_pinned_alike_for_all() -> None:
    lines = [
        {*(ROOT / "requirements" / f"{name}.txt").read_text().splitlines()}
        for name in ("check", "all")
    ]
    pins = [{line for line in each if "==" in line} for each in lines]
    assert {pin.partition(" ")[0] for pin in pins[0]} <= {pin.partition(" ")[0] for pin in pins[1]}


def test_requirements_pin_everything_as_pyproject_allows() -> None:
    text = (ROOT / "requirements" / "all.txt").read_text()
    pairs = re.findall(r"^([\w.-]+)==([\w.!+]+)", text, re.MULTILINE)
    pinned = {canonicalize_name(name): version for name, version in pairs}
    stated = [*PROJECT["dependencies"], *(line for lines in EXTRAS.values() for line in lines)]
    for requirement in map(Requirement, stated):
        if requirement.name == PROJECT["name"]:
            continue
        version = pinned.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement}: run make lock"
        assert version in requirement.specifier, f"{requirement}: pinned to {version}"


def test_the_extra_all_names_every_other() -> None:
    (everything,) = map(Requirement, EXTRAS["all"])
    assert everything.extras == EXTRAS.keys() - {"all"}


def test_the_changelog_has_a_place_for_what_comes() -> None:
    assert "\n## [Unreleased]\n" in (ROOT / "CHANGELOG.md").read_text()


SKIPPED = {
    "marked": "import pytest\n\n@pytest.mark.skip\ndef test(): ...\n",
    "called": "import pytest\n\ndef test(): pytest.skip()\n",
    "module": "import pytest\n\npytest.importorskip('no_such_module')\n\ndef test(): ...\n",
}


FAILS_ONCE = """
from pathlib import Path
def test():
    ran = Path(__file__).with_name("ran")
    is_first = not ran.exists()
    ran.touch()
    assert not is_first, "the first of them"
"""
FAILS_ALWAYS = "def test(): assert False\n"


def outcome(folder: Path, files: Mapping[str, str], ci: str) -> tuple[int, str]:
    """Exit code and output of pytest on these files, with the root's conftest."""
    shutil.copy(ROOT / "tests" / "conftest.py", folder)
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    options = ("-q", "-p", "no:cacheprovider", "--continue-on-collection-errors")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, folder],
        cwd=folder,
        env={**os.environ, "CI": ci},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("ci", ["true", ""])
def test_a_skipped_test_fails_in_ci(ci: str, tmp_path: Path) -> None:
    code, output = outcome(tmp_path, SKIPPED, ci)
    assert "skipped" in output
    assert code == (1 if ci else 0), output
    assert f"{'1 failed, 2 errors, 2 rerun' if ci else '3 skipped'} in" in output


@pytest.mark.parametrize("ci", ["true", ""])
def test_in_ci_a_failed_test_runs_once_more(ci: str, tmp_path: Path) -> None:
    code, output = outcome(tmp_path, {"once": FAILS_ONCE, "twice": FAILS_ALWAYS}, ci)
    assert code == 1
    assert f"{'1 failed, 1 passed, 2 rerun' if ci else '2 failed'} in" in output
    assert ("failed once: test_once.py::test" in output) == bool(ci)
    assert "the first of them" in output


def twice(text: str) -> list[str]:
    """Keys that a dictionary of a program has twice: Python drops the first value in silence."""
    found: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Dict):
            keys = [ast.dump(key) for key in node.keys if key is not None]
            found += [f"line {node.lineno}: {key}" for key in set(keys) if keys.count(key) > 1]
    return found


@pytest.mark.slow(1)
def test_no_dictionary_has_a_key_twice() -> None:
    programs = [path for path in committed() if path.suffix == ".py"]
    found = {path.name: twice(path.read_text(encoding="utf-8")) for path in programs}
    assert {name: keys for name, keys in found.items() if keys} == {}
    assert twice("Row('r', set={x: 1, y: 2, x: 3})") == ["line 1: Name(id='x', ctx=Load())"]


def bound_twice(source: str) -> set[str]:
    """The names that a module's own statements bind more than once."""
    bound: list[str] = []
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            parts = (part for target in targets for part in ast.walk(target))
            bound += [part.id for part in parts if isinstance(part, ast.Name)]
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            bound += [alias.asname or alias.name for alias in statement.names]
    return {name for name in bound if bound.count(name) > 1}


@pytest.mark.parametrize("path", sorted((ROOT / "spec").rglob("*.py")), ids=lambda p: p.stem)
def test_a_name_of_the_specification_stands_for_one_thing(path: Path) -> None:
    """Else a table would mean something else where it is moved up or down."""
    assert bound_twice(path.read_text(encoding="utf-8")) == set()


def test_a_name_that_is_bound_again_is_seen() -> None:
    assert bound_twice("a = 1\nb, c = 2, 3\nb: int = 4\n") == {"b"}
    assert bound_twice("from a import b\nb = 1\n") == {"b"}
    assert bound_twice("a = [i for i in b]\nc = [i for i in b]\n") == set()
