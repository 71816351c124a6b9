"""Other checkers on the benchmark protocol (peers/MODEL.md), each as a measured process: SPIN,
rumur, Stateright and TLC.

A peer is built (its model is written for the constants, its checker is generated and compiled)
before it is measured: no figure includes compile time. A peer whose tool is not on this machine is
left out, with a line on how to install it.

    peers, left_out = build_peers(Size(2, 2, 2, 1), folder, expected_states=11_995_156)
    for peer in peers:
        print(peer.run())

Needs Linux (peak memory is read as the kernel's kibibytes).
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

MODELS = Path(__file__).with_suffix("")
"""Where the protocol's text for each peer is."""

CRATE = MODELS / "stateright"
BUILT = MODELS.parents[1] / "build" / "stateright"
"""Where cargo keeps what it has compiled, so that a second run compiles the model alone."""
INSTALL = "apt-get install spin rumur gcc"
TLC_JAR = "TLA2TOOLS_JAR"
"""The environment variable that names a tla2tools.jar."""


class PeerLeftOutError(Exception):
    """A peer can't be built here. The message has its name, the reason, and how to install it."""


class Size(NamedTuple):
    """The benchmark protocol's constants I, K, E, S and V."""

    instances: int
    partitions: int
    epochs: int
    sequences: int
    verified: int = 1


@dataclass(frozen=True, slots=True)
class Measured:
    """The output of one process, and its resource use."""

    output: str
    """Standard output and standard error."""
    exit_code: int
    """A negative number is the signal that ended the process."""
    seconds: float
    """Wall time of the whole process, start-up included."""
    cpu_seconds: float
    """User and system time of all threads."""
    peak_rss_bytes: int


@dataclass(frozen=True, slots=True)
class PeerRun:
    """One exhaustive search by one peer."""

    tool: str
    threads: int
    states: int
    """Distinct states, the initial one included."""
    transitions: int | None
    """Enabled action instances summed over the states; None when not printed exactly."""
    seconds: float
    """Wall time of the search process, without compilation (TLC: the JVM's start included)."""
    cpu_seconds: float
    """User and system time, of all threads."""
    peak_rss_bytes: int
    """At least 11 MB, which the launcher takes (peers/launch.py)."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer built for one size, ready to be run any number of times."""

    tool: str
    threads: int
    command: tuple[str, ...]
    folder: Path
    counts: Callable[[str], tuple[int, int | None] | None]
    """Returns states and transitions from the output, or None if the search isn't complete."""

    def run(self) -> PeerRun:
        """Searches the whole state space once.

        Raises RuntimeError when the peer doesn't report a complete search without an error.
        """
        used = measure(self.command, self.folder)
        counts = self.counts(used.output)
        if counts is None:
            raise RuntimeError(
                f"{self.tool} did not finish cleanly (exit {used.exit_code}):\n"
                + used.output[-2000:]
            )
        return PeerRun(
            self.tool, self.threads, *counts, used.seconds, used.cpu_seconds, used.peak_rss_bytes
        )


def measure(command: Sequence[str], folder: Path) -> Measured:
    """Runs a command in a folder with peers/launch.py, and waits for its end.

    Raises RuntimeError when the command can't be started.
    """
    report = folder.resolve() / "usage.json"
    report.unlink(missing_ok=True)
    launched = subprocess.run(
        [sys.executable, "-I", "-S", str(MODELS / "launch.py"), str(report), *command],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if not report.exists():
        said = launched.stdout.strip().splitlines()[-1:]
        raise RuntimeError(f"{command[0]} could not be run: {''.join(said)}")
    return Measured(launched.stdout, **json.loads(report.read_text(encoding="utf-8")))


def build_peers(
    size: Size,
    folder: Path,
    *,
    expected_states: int,
    threads: Sequence[int] = (1, 2),
    without: Collection[str] = (),
) -> tuple[list[Peer], list[str]]:
    """Builds every peer whose tool is installed, in an empty or missing folder.

    `expected_states` sets the size of SPIN's hash table; a wrong number costs speed, not exactness.
    rumur, Stateright and TLC are built for each number of threads, SPIN's depth-first search for
    one. `without` are names of PEERS to leave out. Returns the peers and, for each tool left out, a
    line with the reason.
    """
    spin = partial(build_spin, size, folder / "spin", expected_states=expected_states)
    builds = [("spin", spin)] + [
        (name, partial(build, size, folder / f"{name}{n}", threads=n))
        for name, build in BUILDS.items()
        for n in threads
    ]
    peers: list[Peer] = []
    left_out: list[str] = []
    for name, build in builds:
        try:
            if name in without:
                raise PeerLeftOutError(f"{name} isn't wanted")
            peers.append(build())
        except PeerLeftOutError as why:
            if str(why) not in left_out:
                left_out.append(str(why))
    return peers, left_out


def build_spin(size: Size, folder: Path, *, expected_states: int) -> Peer:
    """SPIN's depth-first search: its fastest exact mode on this protocol.

    SPIN prints counts of nine digits and more rounded to eight: from there on its transitions
    are None and its states rounded. Raises PeerLeftOutError.
    """
    spin, gcc = _tool("SPIN", "spin"), _tool("SPIN", "gcc")
    folder.mkdir(parents=True, exist_ok=True)
    model = _step("SPIN", folder, sys.executable, str(MODELS / "ktx_pml.py"), *map(str, size))
    (folder / "ktx.pml").write_text(model, encoding="utf-8")
    _step("SPIN", folder, spin, "-a", "ktx.pml")
    # Not COLLAPSE (slower and larger for small states), nor HC4 (it misses states).
    flags = ["-O2", "-march=native", "-w"]
    modes = ["-DSAFETY", "-DNOFAIR", "-DNOREDUCE", "-DMEMLIM=20000"]
    _step("SPIN", folder, gcc, *flags, *modes, "-o", "pan", "pan.c")
    # Two to four slots a state: fewer make chains, more only cache misses.
    slot_bits = max(18, expected_states.bit_length() + 1)
    command = (str(folder.resolve() / "pan"), "-m20000", f"-w{slot_bits}", "-E", "-n")
    return Peer("SPIN DFS", 1, command, folder, _spin_counts)


def build_rumur(size: Size, folder: Path, *, threads: int) -> Peer:
    """rumur's generated checker, exact, without symmetry reduction. Raises PeerLeftOutError."""
    rumur, gcc = _tool("rumur", "rumur"), _tool("rumur", "gcc")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ktx.m").write_text(_with_constants("ktx.m", size, ": {};"), encoding="utf-8")
    off = ["--deadlock-detection", "off", "--symmetry-reduction", "off"]
    _step("rumur", folder, rumur, *off, "--threads", str(threads), "-o", "ktx.c", "ktx.m")
    # rumur swaps 16 bytes at once, for which x86-64 needs an option.
    wide = ["-mcx16"] if platform.machine() == "x86_64" else []
    flags = ["-std=c11", "-O3", "-march=native", *wide]
    _step("rumur", folder, gcc, *flags, "-o", "ktx", "ktx.c", "-lpthread")
    return Peer("rumur", threads, (str(folder.resolve() / "ktx"),), folder, _rumur_counts)


def build_stateright(size: Size, folder: Path, *, threads: int, built: Path = BUILT) -> Peer:
    """Stateright's breadth-first search: the crate is taken from crates.io, in the version that
    Cargo.lock pins, and compiled in the folder `built`. Raises PeerLeftOutError.

    It keeps 64 bits of each state's hash: of two states with the same bits it misses one, once in
    a quarter of a million runs of size X.
    """
    cargo = shutil.which("cargo")
    if cargo is None:
        raise PeerLeftOutError("Stateright is left out: no cargo on the path (https://rustup.rs)")
    shutil.copytree(CRATE, folder)
    constants = zip(["I: usize", "K: usize", "E: u8", "S: u8", "V: u8"], size, strict=True)
    lines = [f"pub const {constant} = {value};\n" for constant, value in constants]
    (folder / "src" / "size.rs").write_text("".join(lines), encoding="utf-8")
    flags = ["--config", "build.rustflags=['-C', 'target-cpu=native']"]
    build = ["build", "--release", "--locked", "--quiet", "--target-dir", str(built), *flags]
    _step("Stateright", folder, cargo, *build)
    shutil.copy(built / "release" / "ktx", folder)
    command = (str(folder.resolve() / "ktx"), str(threads))
    return Peer("Stateright", threads, command, folder, _stateright_counts)


def stateright_version() -> str:
    """The pinned version of the crate."""
    text = (CRATE / "Cargo.toml").read_text(encoding="utf-8")
    return text.partition('stateright = "=')[2].partition('"')[0]


def build_tlc(size: Size, folder: Path, *, threads: int, heap: str = "6g") -> Peer:
    """TLC with its jar taken from $TLA2TOOLS_JAR. Raises PeerLeftOutError."""
    jar = Path(os.environ.get(TLC_JAR, ""))
    if not jar.is_file():
        raise PeerLeftOutError(f"TLC was not at hand and is left out: {TLC_JAR} names no file")
    java = shutil.which("java")
    if java is None:
        raise PeerLeftOutError("TLC is left out: no java on the path")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(MODELS / "ktx.tla", folder)
    (folder / "ktx.cfg").write_text(_with_constants("ktx.cfg", size, " = {}"), encoding="utf-8")
    jvm = (java, f"-Xmx{heap}", "-XX:+UseParallelGC", "-cp", str(jar.resolve()), "tlc2.TLC")
    options = ("-deadlock", "-noGenerateSpecTE", "-checkpoint", "0", "-config", "ktx.cfg")
    command = (*jvm, *options, "-workers", str(threads), "ktx.tla")
    return Peer("TLC", threads, command, folder, _tlc_counts)


BUILDS = {"rumur": build_rumur, "stateright": build_stateright, "tlc": build_tlc}
PEERS = ("spin", *BUILDS)


def _tool(peer: str, name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise PeerLeftOutError(f"{peer} is left out: no {name} on the path ({INSTALL})")
    return path


def _step(peer: str, folder: Path, *command: str) -> str:
    """Runs one building step and returns its standard output."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise PeerLeftOutError(
            f"{peer} is left out: {Path(command[0]).name} failed with {done.returncode}: {said}"
        )
    return done.stdout


def _with_constants(name: str, size: Size, form: str) -> str:
    """A model file's text with its lines `  I<form>` to `  V<form>` set to a size."""
    text = (MODELS / name).read_text(encoding="utf-8")
    for constant, value in zip("IKESV", size, strict=True):
        line = re.escape(form).replace(r"\{\}", r"\d+")
        text, found = re.subn(
            rf"(?m)^( +{constant}){line}$", rf"\g<1>{form.format(value)}", text, count=1
        )
        if not found:
            raise ValueError(f"{name} has no line that sets {constant}")
    return text


def _spin_counts(output: str) -> tuple[int, int | None] | None:
    # SPIN prints "errors: 0" for an incomplete search, too: at a depth or memory limit.
    cut = "search not completed" in output.lower() or "max search depth too small" in output
    states = re.search(r"^\s*(\S+) states, stored", output, re.MULTILINE)
    transitions = re.search(r"^\s*(\S+) transitions \(=", output, re.MULTILINE)
    if cut or "errors: 0" not in output or states is None or transitions is None:
        return None
    # SPIN counts the initial state as a transition.
    return int(float(states[1])), int(transitions[1]) - 1 if transitions[1].isdigit() else None


def _rumur_counts(output: str) -> tuple[int, int | None] | None:
    found = re.search(r"^\s*(\d+) states, (\d+) rules fired in", output, re.MULTILINE)
    if "No error found." not in output or found is None:
        return None
    return int(found[1]), int(found[2])


def _stateright_counts(output: str) -> tuple[int, int | None] | None:
    found = re.fullmatch(r"(\d+) states, (\d+) transitions\n", output)
    return (int(found[1]), int(found[2])) if found else None


def _tlc_counts(output: str) -> tuple[int, int | None] | None:
    found = re.search(
        r"^(\d+) states generated, (\d+) distinct states found, 0 states left", output, re.MULTILINE
    )
    if "No error has been found." not in output or found is None:
        return None
    # TLC counts the initial state as generated.
    return int(found[2]), int(found[1]) - 1
