"""The JVM that has Kafka's classes: its jars, its own classes, and the pipe to it.

`java/Host.java` has the format of the pipe.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from array import array
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from platformdirs import user_cache_path

from ....files import CantWriteError

IN, OUT = 48, 48
"""The most numbers of a step, and of its result."""
SCALA: Final = "2.13"
STEP_MS: Final = 20_000
"""The limit of a step's time in ms. The first step also loads classes."""
_END_S: Final = 5
_ZEROS: Final = (0,) * IN
_HERE: Final = Path(__file__).with_name("java")
_SHARED: Final = Path(__file__).parents[3] / "checker" / "trace" / "schedule" / "java" / "classes"
_SOURCES: Final = (
    _HERE / "Host.java",
    *(_SHARED / f"{name}.java" for name in ("Kafka", "StandIns", "TransactionLog")),
)
_OTHER_SCALA: Final = re.compile(r"kafka_(2\.1[0-2])-.*\.jar")
UNUSABLE, BLOCKED = 3, 4
"""Exit codes of the JVM: the classes can't be used, and a step took too long."""


class UnavailableError(Exception):
    """The classes can't run here; the message says why, in one line."""


class DiedError(Exception):
    """The JVM ended in the middle of the steps; the message says how."""


def program(name: str) -> str:
    """The path of one of a JDK's programs. Raises UnavailableError."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(f"{home}/bin/{name}" if home else name)
    if found is None:
        raise UnavailableError(
            f"{name} isn't found: install a JDK, 17 or newer, or name it in JAVA_HOME"
        )
    return found


def jars_of(version: str) -> str:
    """The class path of a version of Kafka, with Mockito, from Maven. Raises UnavailableError."""
    mvn = shutil.which("mvn")
    if mvn is None:
        raise UnavailableError("Kafka's jars need Maven (mvn); --classes also takes --jars FOLDER")
    known = user_cache_path("epochfence") / "classes" / f"{version}.path"
    try:
        path = known.read_text(encoding="utf-8")
        if path and all(Path(jar).exists() for jar in path.split(os.pathsep)):
            return path
    except OSError:
        pass
    try:
        known.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=known.parent) as folder:
            made = Path(folder) / "path"
            command = (
                mvn, "--quiet", "--batch-mode", "--file", str(_HERE / "pom.xml"),
                f"-Dkafka.version={version}", f"-Dmdep.outputFile={made}",
                "dependency:build-classpath",
            )  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode or not made.exists():
                said = [line for line in done.stdout.splitlines() if "ERROR" in line]
                raise UnavailableError(
                    f"Maven can't download Kafka {version}: {(said or ['it failed'])[0]}"
                )
            made.replace(known)
    except OSError as error:
        raise UnavailableError(CantWriteError(known.parent, error)) from error
    return known.read_text(encoding="utf-8")


def jars_in(folder: Path) -> str:
    """The class path of a folder of jars, of any one version. Raises UnavailableError."""
    jars = sorted(folder.glob("*.jar"))
    if not jars:
        raise UnavailableError(f"--jars {folder}: it has no jars")
    for jar in jars:
        other = _OTHER_SCALA.fullmatch(jar.name)
        if other:
            raise UnavailableError(
                f"--jars {folder}: {jar.name} is of Scala {other[1]}, and not of {SCALA}"
            )
    for name, why in ((f"kafka_{SCALA}-", "Kafka's classes"), ("mockito-core-", "the stand-ins")):
        if not any(jar.name.startswith(name) for jar in jars):
            raise UnavailableError(f"--jars {folder}: {name}VERSION.jar isn't there, for {why}")
    return os.pathsep.join(map(str, jars))


def compile_java(what: str, class_path: str, out: Path, *sources: Path) -> None:
    """Compiles sources into a folder, with the needed classes from the last source's folder. Raises
    UnavailableError without a JDK, and with javac's first error; the message names `what`."""
    options = ("-nowarn", "-proc:none", "-Xlint:-removal", "-d", str(out), "-cp", class_path)
    beside = ("-sourcepath", str(sources[-1].parent))
    command = (program("javac"), *options, *beside, *map(str, sources))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "error:" in line]
        raise UnavailableError(
            f"{what} doesn't compile against these jars: {(said or ['javac failed'])[0]}"
        )


def _compiled(steps: str, path: str) -> Path:
    """The folder with the host's classes and those of one machine, compiled against these jars."""
    digest = hashlib.sha256(f"{steps} {path}".encode())
    sources = (*_SOURCES, _HERE / f"{steps}.java")
    for source in (*_SOURCES, *sorted(_HERE.glob("*.java"))):
        digest.update(source.read_bytes())
    folder = user_cache_path("epochfence") / "classes" / digest.hexdigest()[:20]
    if folder.exists():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            out = Path(made) / "out"
            out.mkdir()
            compile_java("the host", path, out, *sources)
            out.replace(folder)
    except OSError as error:
        if not folder.exists():  # another process may have made it
            raise UnavailableError(CantWriteError(folder.parent, error)) from error
    return folder


class Host:
    """A JVM that runs a machine's steps with the Java class `steps`. As a context manager it ends
    the JVM.

    Raises UnavailableError if the JVM can't start, and DiedError if it ends before all results.
    """

    def __init__(self, steps: str, path: str, *, step_ms: int = STEP_MS) -> None:
        java = program("java")
        classes = _compiled(steps, path)
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        self._java = subprocess.Popen(
            (
                java, "-Xmx512m", "-XX:+UseSerialGC", "-Xshare:auto",
                "-cp", f"{classes}{os.pathsep}{path}", "Host", steps, str(step_ms),
            ),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said,
        )  # fmt: skip

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._java.stdin is not None
        with suppress(BrokenPipeError):
            self._java.stdin.close()  # the JVM ends, and deletes its files
        try:
            self._java.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._java.kill()
            self._java.wait()
        assert self._java.stdout is not None
        self._java.stdout.close()
        self._said.close()

    def send(self, steps: Sequence[Sequence[int]]) -> None:
        """Sends steps to the JVM. Read their `results` before the next call."""
        numbers = array("q")
        for step in steps:
            numbers.extend(step)
            numbers.extend(_ZEROS[len(step) :])
        if sys.byteorder == "little":
            numbers.byteswap()
        assert self._java.stdin is not None
        try:
            self._java.stdin.write(len(steps).to_bytes(4, "big") + numbers.tobytes())
            self._java.stdin.flush()
        except BrokenPipeError:
            self._ended()

    def results(self, count: int) -> list[tuple[int, ...]]:
        """The results of the last sent steps, in their order."""
        assert self._java.stdout is not None
        size = count * OUT * 8
        read = self._java.stdout.read(size)
        if len(read) < size:
            self._ended()
        numbers = array("q", read)
        if sys.byteorder == "little":
            numbers.byteswap()
        return [tuple(numbers[at : at + OUT]) for at in range(0, count * OUT, OUT)]

    def _ended(self) -> None:
        code = self._java.wait()
        self._said.seek(0)
        lines = self._said.read().decode("utf-8", "replace").splitlines()
        said = [line for line in lines if not line.startswith(("SLF4J", "OpenJDK"))]
        ended = [line for line in said if not line.startswith("\tat ")]
        if code == UNUSABLE:
            raise UnavailableError((said or ["the classes can't be used"])[-1])
        if code == BLOCKED:
            raise DiedError("; ".join(line.strip() for line in said[:12]))
        raise DiedError(f"the JVM ended with {code}: {(ended or ['it printed nothing'])[-1]}")
