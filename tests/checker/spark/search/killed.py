"""A run whose driver is killed with signal 9 at ten moments, each time resumed from there.

    .venv/bin/python tests/checker/spark/search/killed.py FOLDER

Spark's part is played by the driver's own process, so that its tasks die with it, in the middle of
a level. Each driver is a fork of this process, which has no threads. Ends with 1 where the last
one, which nothing kills, doesn't come to what the local engine comes to.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from unittest import mock

from epochfence.checker import check as checking
from epochfence.checker.named_systems import load_system
from epochfence.checker.spark.search import engine
from epochfence.checker.verdict.result import Result
from epochfence.language import Instance, instantiate
from epochfence.tests.checker.spark.conftest import found, on_spark
from epochfence.tests.checker.spark.in_process import InProcess

KTX = Path(__file__).parents[4] / "bench" / "ktx.py"
MOMENTS = (1, 6, 4, 9, 7, 2, 12, 11, 5, 14)
"""Before which of its tasks each driver is killed; a level has two, its first one two more."""


def drive(instance: Instance, folder: Path, moment: int = 0) -> Result:
    """Begins or resumes the run, and kills this process before that task, if any."""
    tasks = 0

    def disturb(stage: str, shard: int) -> None:
        nonlocal tasks
        tasks += 1
        if tasks == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    with mock.patch.object(engine, "start", return_value=InProcess(disturb)):
        return on_spark(instance, folder, resume=folder.exists())


def main(folder: Path) -> int:
    """Kills all drivers but the last; returns the exit code."""
    os.environ["SPARK_LOCAL_DIRS"] = str(folder / "local")
    instance = instantiate(load_system(str(KTX)), constants={"I": 1, "K": 1, "E": 2, "S": 2})
    once = checking.prepare(instance)
    for name, told in (("find_java", "java"), ("is_running", True)):
        mock.patch.object(engine, name, return_value=told).start()
    mock.patch.object(checking, "prepare", return_value=once).start()
    for moment in MOMENTS:
        driver = os.fork()
        if not driver:
            drive(instance, folder / "run", moment)
            os._exit(0)  # it was to be killed
        _, status = os.waitpid(driver, 0)
        if not os.WIFSIGNALED(status):
            print(f"the driver to be killed at task {moment} came to its end", file=sys.stderr)
            return 1
    last, local = found(drive(instance, folder / "run")), found(checking.check(instance))
    print(f"{len(MOMENTS)} drivers killed, {last[2]:,} states" if last == local else f"{last}")
    return 0 if last == local else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
