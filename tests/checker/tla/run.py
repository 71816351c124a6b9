"""TLC on the modules that we write: the same states, depth and verdict, and a trace to replay?

`python tests/checker/tla/run.py` (make crosscheck) runs it on every system of SYSTEMS. The jar of
TLC is the one that TLA2TOOLS_JAR names.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.checker.tla.module import module
from epochfence.checker.tla.names import LIBRARY
from epochfence.checker.trace.itf import read_trace
from epochfence.checker.trace.replay import replay
from epochfence.checker.verdict.result import Verdict
from epochfence.language import Instance, instantiate

JAR, TRACE = "TLA2TOOLS_JAR", "trace.json"
VERDICTS = {0: Verdict.HOLDS, 11: Verdict.DEADLOCK, 12: Verdict.BROKEN, 13: Verdict.BROKEN}
"""What TLC ends with: 12 for an invariant, 13 for a property of steps."""


@dataclass(frozen=True)
class Case:
    """A system to compare on."""

    system: str
    protocol: str | None = None
    bounds: str = "default"
    constants: tuple[tuple[str, int], ...] = ()
    properties: tuple[str, ...] = ()

    def __str__(self) -> str:
        constants = (f"{name}={value}" for name, value in self.constants)
        said = (Path(self.system).stem, self.protocol, *constants, *self.properties)
        return " ".join(filter(None, said))

    def instance(self) -> Instance:
        """What is explored."""
        system = load_system(self.system)
        return instantiate(
            system,
            self.protocol,
            dict(self.constants),
            bounds=self.bounds,
            properties=self.properties or None,
        )


ONE = (("transactions", 1),)
EXAMPLES = str(Path(__file__).parents[3] / "docs" / "examples" / "{}.py")
SYSTEMS = (
    *(
        Case(EXAMPLES.format(name))
        for name in ("lease", "peterson", "token_ring", "two_phase_commit", "raft_log", "cache")
    ),
    *(
        Case(EXAMPLES.format(name))
        for name in ("bounded_queue", "chain_replication", "primary_backup", "resend", "retry")
    ),
    Case(EXAMPLES.format("lease"), "1"),
    Case(EXAMPLES.format("resend"), "1"),
    Case("transactions", "4.3", "small", (*ONE, ("faults", 0))),
    Case("transactions", "4.3", "small", ONE),
    Case("transactions", "2.5", "small", ONE, ("NoHangingTransaction",)),
    Case("idempotence", "4.3", "small", (("faults", 0), ("delays", 0))),
    Case("coordinators", None, "small"),
    Case("replication", None, "small"),
)


def missing() -> str | None:
    """Why TLC can't run here, if it can't."""
    if not Path(os.environ.get(JAR, "")).is_file():
        return f"TLC isn't at hand: set {JAR} to the path of a tla2tools.jar"
    return None if shutil.which("java") else "TLC isn't at hand: no java on the path"


@dataclass(frozen=True)
class Found:
    """What a checker comes to; no counts where it ended before all was seen."""

    verdict: Verdict
    states: int | None
    depth: int | None


def by_tlc(instance: Instance, folder: Path) -> Found:
    """What TLC finds, and what its trace comes to here. Raises RuntimeError with its words where it
    doesn't come that far."""
    written = module(instance)
    (folder / f"{written.name}.tla").write_text(written.text, encoding="utf-8")
    (folder / f"{written.name}.cfg").write_text(written.configuration, encoding="utf-8")
    shutil.copy(LIBRARY, folder)
    command = [
        "java",
        "-XX:+UseParallelGC",
        "-cp",
        str(Path(os.environ[JAR]).resolve()),
        "tlc2.TLC",
    ]
    command += ["-cleanup", "-dumpTrace", "json", TRACE, f"{written.name}.tla"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in VERDICTS:
        said = [line for line in done.stdout.splitlines() if not line.startswith("Parsing")]
        raise RuntimeError("\n".join(said[-40:]))
    verdict = VERDICTS[done.returncode]
    if verdict is not Verdict.HOLDS:
        replayed = replay(instance, read_trace((folder / TRACE).read_bytes()))
        return Found(replayed.verdict, None, None)
    (states,) = re.findall(r"(\d+) distinct states found, 0 states left", done.stdout)
    (depth,) = re.findall(r"depth of the complete state graph search is (\d+)", done.stdout)
    return Found(verdict, int(states), int(depth))


def by_us(instance: Instance) -> Found:
    """What the explorer finds, with nothing reduced."""
    result = check(instance, Options(symmetry=False, slicing=False, brief=True))
    if result.verdict is not Verdict.HOLDS:
        return Found(result.verdict, None, None)
    return Found(result.verdict, result.states, result.depth)


def main() -> int:
    """Compares on every system; 1 where they differ."""
    if (why := missing()) is not None:
        print(why)
        return 1
    wrong = 0
    for case in SYSTEMS:
        with tempfile.TemporaryDirectory() as folder:
            ours, tlcs = by_us(case.instance()), by_tlc(case.instance(), Path(folder))
        wrong += ours != tlcs
        counts = "" if ours.states is None else f", {ours.states:,} states, depth {ours.depth}"
        said = "TLC too" if ours == tlcs else f"TLC: {tlcs}"
        print(f"{case}: {ours.verdict.name}{counts}; {said}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
