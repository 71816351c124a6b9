"""What a user installs: nothing is missing from it, and it runs with the base dependencies."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
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


def make_dist(source: Path) -> dict[str, Path]:
    """The wheel and the source archive of `make dist`, by suffix; the wheel is built from the
    archive, so each must be complete."""
    programs = Path(sys.executable).parent
    make = ("make", "-o", ".venv/.ready", f"BIN={programs}", "dist")
    run(*make, cwd=source, SOURCE_DATE_EPOCH="1700000000")
    return {path.suffix: path for path in (source / "dist").iterdir()}


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = shutil.copytree(source, tmp_path_factory.mktemp("built") / "source")
    return make_dist(copy)[".whl"]


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
    install = (programs / "pip", "install", "-c", tmp_path / "pins.txt")
    run(*install, wheel, cwd=tmp_path)
    assert "check" in run(programs / "epochfence", "--help", cwd=tmp_path)
    assert "transactions" in run(programs / "epochfence", "list", cwd=tmp_path)
    assert "enable.idempotence" in run(programs / "epochfence", "config", cwd=tmp_path)
    missing = subprocess.run(
        (programs / "epochfence", "check", "coordinators"), capture_output=True, text=True
    )
    assert missing.returncode == 2
    command = missing.stderr.partition(": run ")[2].strip()
    assert command == "pip install 'epochfence[check]'"
    run(*install, "epochfence[check,broker]", cwd=tmp_path)
    found = run(programs / "epochfence", "check", "coordinators", "--bounds", "small", cwd=tmp_path)
    assert "HOLDS" in found
    served = run(programs / "epochfence", "serve", "--port", "0", "--seconds", "1", cwd=tmp_path)
    assert "bootstrap.servers=127.0.0.1:" in served


@pytest.mark.long
def test_the_files_are_the_same_twice_and_hold_the_licence(source: Path, tmp_path: Path) -> None:
    first, second = (
        make_dist(shutil.copytree(source, tmp_path / name, copy_function=copy))
        for name, copy in (("1", shutil.copy2), ("2", shutil.copy))  # the second has other times
    )
    assert {suffix: file.name for suffix, file in first.items()} == {
        ".whl": f"epochfence-{VERSION}-py3-none-any.whl",
        ".gz": f"epochfence-{VERSION}.tar.gz",
    }
    for suffix, file in first.items():
        assert file.read_bytes() == second[suffix].read_bytes(), suffix
    with zipfile.ZipFile(first[".whl"]) as archive:
        (licence,) = (name for name in archive.namelist() if name.endswith("/LICENSE"))
        assert archive.read(licence) == (ROOT / "LICENSE").read_bytes()


def test_citation_and_changelog_have_the_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == VERSION
    heading = f"## [{VERSION}] - {citation['date-released']}"
    assert heading in (ROOT / "CHANGELOG.md").read_text().splitlines()


WORKFLOWS = sorted((ROOT / ".github" / "workflows").iterdir())


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_a_workflow_pins_actions_calls_make_and_needs_no_secret(file: Path) -> None:
    text = file.read_text()
    assert "secrets." not in text
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    used = [step["uses"] for step in steps if "uses" in step]
    assert [name for name in used if not re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", name)] == []
    runs = "\n".join(step.get("run", "") for step in steps)
    targets = re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"\bmake ([a-z]+)", runs)) <= set(targets)
    assert "make " in runs or ".ci/run" in runs


DOCKERFILE = (ROOT / "Dockerfile").read_text()


def test_the_dockerfile_copies_the_package() -> None:
    """Each source is there, and they make up the package; each stage that is named comes before."""
    copied: set[Path] = set()
    stages: set[str] = set()
    for name, *parts in (line.split() for line in DOCKERFILE.splitlines() if line):
        if name == "FROM":
            image, _, stage = parts
            python = re.fullmatch(r"python:(\d+)\.(\d+)\.\d+-slim-\w+", image)
            assert image in stages or (python and (int(python[1]), int(python[2])) >= (3, 11))
            stages.add(stage)
        elif name == "COPY" and parts[0].startswith("--from="):
            assert parts[0].removeprefix("--from=") in stages
            assert parts[1] == parts[2] == "/opt/epochfence"
        elif name == "COPY":
            for pattern in parts[:-1]:
                found = set(ROOT.glob(pattern))
                assert found, pattern
                copied |= found
    rooms = {f.parent for f in ROOT.glob("*/__init__.py")} | {*ROOT.glob("*.py"), ROOT / "py.typed"}
    assert rooms - {ROOT / name for name in NOT_IN_PACKAGE} <= copied
    assert {ROOT / "README.md", ROOT / "LICENSE", ROOT / "pyproject.toml"} <= copied


def test_the_dockerfile_installs_extras_at_the_pinned_versions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [set(found.split(",")) for found in re.findall(r"'\.\[(.*?)\]'", DOCKERFILE)]
    assert extras == [{"check", "broker", "explore"}, {"check", "broker", "explore", "spark"}]
    assert set().union(*extras) <= set(project["optional-dependencies"])
    (command,) = re.findall(r"^RUN (sed .*) > constraints.txt$", DOCKERFILE, re.MULTILINE)
    assert command in (ROOT / "action.yml").read_text().replace('"$SOURCE/', "").replace('t"', "t")
    pins = run("sh", "-c", command, cwd=ROOT).splitlines()
    text = (ROOT / "requirements" / "all.txt").read_text()
    assert [Requirement(pin) for pin in pins] == [pinned for pinned, _ in audit["pinned"](text)]


def test_each_image_runs_the_command_as_a_user_without_rights() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    images = [part for part in DOCKERFILE.split("\nFROM ") if "ENTRYPOINT" in part]
    names = [re.match(r"\S+ AS (\w+)", image)[1] for image in images]  # type: ignore[index]
    assert names == ["java", "executor", "plain"]
    assert "epochfence" in scripts
    executor = images.pop(1)
    assert executor.startswith("java AS executor\nENTRYPOINT ")  # all else is that one's
    for image in images:
        (entry,) = re.findall(r"^ENTRYPOINT (.*)$", image, re.MULTILINE)
        assert json.loads(entry) == ["epochfence"]
        assert "ENV PATH=/opt/epochfence/bin:$PATH" in image
        assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", image, re.MULTILINE)
    assert ("openjdk-17" in images[0], "openjdk" in images[1]) == (True, False)


IMAGE = re.compile(
    r"^FROM (?P<base>\S+) AS (?P<name>[\w-]+)\n(?P<steps>(?:(?!FROM ).*\n?)*)", re.MULTILINE
)


class Root:
    """A folder that stands for the root of an image's files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made: dict[str, tuple[dict[str, str], Path]] = {}

    def built(self, image: str) -> tuple[dict[str, str], Path]:
        """Takes the steps of an image, and of those that it needs: the environment that it sets,
        and its folder."""
        if image not in self._made:
            self._made[image] = self._take(image)
        return self._made[image]

    def _take(self, image: str) -> tuple[dict[str, str], Path]:
        images = {found["name"]: found for found in IMAGE.finditer(DOCKERFILE)}
        base = images[image]["base"]
        environment, here = self.built(base) if base in images else ({}, self.folder)
        for line in filter(None, images[image]["steps"].splitlines()):
            step, _, rest = line.partition(" ")
            if line.startswith("#"):
                continue
            if step == "WORKDIR":
                here = self.folder / rest.lstrip("/")
                here.mkdir(parents=True, exist_ok=True)
            elif step == "COPY" and rest.startswith("--from="):
                stage, source, target = rest.split()
                self.built(stage.removeprefix("--from="))
                assert source == target
            elif step == "COPY":
                *patterns, target = rest.split()
                for source in (found for pattern in patterns for found in ROOT.glob(pattern)):
                    to = here / target
                    shutil.copytree(source, to) if source.is_dir() else shutil.copy2(source, to)
            elif step == "RUN" and rest.startswith("apt-get "):
                assert "openjdk-17" in rest
                assert shutil.which("java")  # this machine's is as good
            elif step == "RUN":
                programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
                # What pip has downloaded before is as good.
                command = rest.replace(" --no-cache-dir", "")
                run("sh", "-c", self.placed(command), cwd=here, PATH=programs)
            elif step == "ENV":
                environment = environment | dict(
                    each.split("=", 1) for each in self.placed(rest).split()
                )
            else:
                assert step in ("USER", "ENTRYPOINT")
        return environment, here

    def placed(self, text: str) -> str:
        """Text with the image's own folders in this one."""
        return re.sub(r"(?<![\w.])/(opt|etc)/", rf"{self.folder}/\1/", text)


def can_run(program: Path, uid: int) -> bool:
    """Whether this process may start the program as another user, who may start it as well."""
    try:
        return subprocess.run((program, "-c", ""), user=uid).returncode == 0
    except PermissionError:
        return False


AS_USER = (
    'mount --bind "$0" /etc/passwd && exec setpriv --reuid={0} --regid={0} --clear-groups "$@"'
)


@pytest.mark.long
def test_the_steps_of_the_images_make_commands_that_run() -> None:
    """In an empty folder, by their entry points; as their user, with the image's list of users,
    where the system's Python allows it. Java is this machine's."""
    # Not in a folder of pytest, where other users may not look.
    with TemporaryDirectory() as folder:
        root = Root(Path(folder))
        root.folder.chmod(0o755)
        users = root.folder / "etc" / "passwd"
        users.parent.mkdir()
        users.write_text("root:x:0:0::/root:/bin/sh\n")
        (uid,) = set(re.findall(r"^USER (\d+):", DOCKERFILE, re.MULTILINE))
        for image, command, code, shown in (
            ("plain", "epochfence check coordinators --bounds small", 0, "HOLDS"),
            ("plain", "epochfence serve --port 0 --seconds 1", 0, "bootstrap.servers=127.0.0.1:"),
            ("java", "epochfence check coordinators --bounds small --engine spark", 0, "HOLDS"),
            ("executor", "python -m epochfence.checker.spark.kubernetes executor", 2, "SPARK_EXEC"),
        ):
            environment, here = root.built(image)
            home = root.folder / environment["HOME"].lstrip("/")
            home.mkdir(exist_ok=True)
            home.chmod(0o777)
            words = ["/usr/bin/env", *command.split()]
            if can_run(root.folder / "opt/epochfence/bin/python", int(uid)):
                words = ["unshare", "--mount", "sh", "-c", AS_USER.format(uid), str(users), *words]
            done = subprocess.run(
                words,
                cwd=here,
                env={"PATH": environment["PATH"].replace("$PATH", os.defpath), "HOME": str(home)},
                capture_output=True,
                text=True,
            )
            said = done.stdout + done.stderr
            assert (done.returncode, shown in said) == (code, True), said


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


def test_the_licence_is_that_of_the_pinned_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version may be installed, with another licence."""
    page = tmp_path / "page.md"
    page.write_text("| pytest | 1.0 | The licence of 1.0 |\n")
    monkeypatch.setitem(audit["licence"].__globals__, "PAGE", page)
    pins = {"1.0": "The licence of 1.0", "1.1": "not installed here"}
    for version, licence in (pins | {metadata.version("pytest"): "MIT"}).items():
        assert audit["licence"](Requirement(f"pytest=={version}")) == licence


def test_the_page_lists_the_licence_of_each_package() -> None:
    """For the newest Python 3.11; another one takes some other packages, which aren't compared."""
    text, page = audit["REQUIREMENTS"].read_text(), audit["PAGE"].read_text()
    assert "| not installed here |" not in page
    assert audit["page"](text) == page, "run make audit"


@pytest.mark.parametrize(
    ("answers", "code", "line"),
    [
        ("", 20, "can't be reached"),
        ('{"dependencies": [{"name": "a", "skip_reason": "unknown"}]}', 20, "can't be reached"),
        ('{"dependencies": [{"name": "a", "version": "1", "vulns": []}]}', 0, "0 advisories on 1"),
        ('{"dependencies": [{"name": "a", "version": "1", "vulns": [{"id": "X-1"}]}]}', 1, "X-1"),
    ],
)
def test_an_audit_without_an_answer_is_no_success(
    answers: str,
    code: int,
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = subprocess.CompletedProcess[str]((), 0, stdout=answers)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    monkeypatch.setitem(audit["main"].__globals__, "PAGE", tmp_path / "page.md")
    (tmp_path / "page.md").write_text(audit["BEGIN"])
    assert audit["main"](str(tmp_path / "bill.json")) == code
    assert line in capsys.readouterr().out
