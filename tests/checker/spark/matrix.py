"""Every system at every release, on Spark beside the local engine, with 1, 2, 7 and 16 shards.

    .venv/bin/python tests/checker/spark/matrix.py
    .venv/bin/python tests/checker/spark/matrix.py --master "local-cluster[2,1,1024]"
    .venv/bin/python tests/checker/spark/matrix.py --in-process --each --system reading
    .venv/bin/python tests/checker/spark/matrix.py --sample 1 --seed 7

Bounds are small. A system at a release is run with one number of shards, the next release with the
next number; `--each` runs all numbers at every release, and `--sample` so many of a few runs in
which every system and every number are. `--in-process` plays Spark's part in this process. What
differs in verdict, counts, depth, rows taken or counterexample is told, and ends it with 1; so does
a shard of which two executors have a cache.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from epochfence.checker import check as checking
from epochfence.checker.spark.search import engine
from epochfence.checker.spark.session import start
from epochfence.language import instantiate
from epochfence.spec.systems import SHIPPED, shipped
from epochfence.tests.checker.spark.conftest import found, on_spark
from epochfence.tests.checker.spark.in_process import InProcess

SHARDS = (1, 2, 7, 16)
SIZES = {
    "transactions": {"partitions": 1, "transactions": 1},
    "producer-ids": {"brokers": 1},
    "idempotence": {"records": 1},
    "coordinators": {},
    "calls": {"oldest_version": 3, "oldest_transaction_version": 2},
    "replication": {"replicas": 2},
    "exactly-once": {"inputs": 1, "transactions": 1},
    "delivery": {"records": 1},
    "reading": {"entries": 3, "partial_cleanings": 1},
    "membership": {"producers": 2},
    "group-offsets": {"offset_records": 2},
    "authorization": {"acls": 1},
}
HAND_OVER = 2
"""States of a level from which on it is expanded on Spark."""


class Case(NamedTuple):
    """A system at a release, and with how many shards it is run."""

    system: str
    release: str
    shards: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.system} {self.release}"

    def differs(self) -> list[str]:
        """Runs it on both engines; returns what differs."""
        instance = instantiate(shipped(self.system), self.release, SIZES[self.system])
        once, wrong = checking.prepare(instance), list[str]()
        with mock.patch.object(checking, "prepare", return_value=once):
            local = checking.check(instance)
            for count in self.shards:
                begun = time.perf_counter()
                with tempfile.TemporaryDirectory() as folder:
                    told = on_spark(instance, f"{folder}/run", shards=count, hand_over=HAND_OVER)
                print(
                    f"{self}: {told.verdict.name}, {told.states:,} states, depth {told.depth}, "
                    f"{count} shards, {told.engine['levels_on_spark']} levels on Spark, "
                    f"{time.perf_counter() - begun:.1f} s",
                    flush=True,
                )
                if told.engine["name"] != "spark" or found(told) != found(local):
                    wrong.append(f"{self}, {count} shards: {found(told)}, not {found(local)}")
                    print(wrong[-1], file=sys.stderr, flush=True)  # a long run may be cut short
        return wrong


def cases(*, each: bool) -> list[Case]:
    """All systems and releases, with all numbers of shards or one after the other."""
    return [
        Case(name, release, SHARDS if each else (SHARDS[(first + at) % len(SHARDS)],))
        for first, name in enumerate(SHIPPED)
        for at, release in enumerate(shipped(name).protocols.releases)
    ]


def sampled() -> list[Case]:
    """Systems at their oldest release, whose faults are soon found, and one that has none."""
    some = [name for name in SHIPPED if name != "calls"]
    oldest = [(name, shipped(name).protocols.releases[0]) for name in some]
    newest = [("idempotence", shipped("idempotence").protocols.newest)]
    each = zip(oldest + newest, itertools.cycle(SHARDS), strict=False)
    return [Case(*which, (count,)) for which, count in each]


def twice(local: str) -> list[str]:
    """The shards of which several executors have a cache: their tasks had no home."""
    caches = Counter(
        f"{cache.parent.name}: shard {cache.name} has two homes"
        for cache in Path(local).glob("**/epochfence-*/*-of-*")
    )
    return [shard for shard, count in caches.items() if count > 1]


def wait_for_executors(session: Any, master: str) -> None:
    """Until all of a local cluster's executors are there: who comes late gets shards of others."""
    if found := re.match(r"local-cluster\[(\d+)", master):
        context = session.sparkContext._jsc.sc()
        while context.getExecutorMemoryStatus().size() <= int(found[1]):  # the driver counts, too
            time.sleep(0.1)


def main() -> int:
    """Runs the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description="All systems and releases on Spark.")
    parser.add_argument("--master", default="local[2]", help="Spark's address")
    parser.add_argument("--in-process", action="store_true", help="without Spark")
    parser.add_argument("--each", action="store_true", help="all numbers of shards everywhere")
    parser.add_argument("--sample", type=int, metavar="N", help="so many of a few runs only")
    parser.add_argument("--seed", type=int, default=0, metavar="K", help="which (default: 0)")
    parser.add_argument("--system", action="append", choices=SHIPPED, help="only this one")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as local:
        os.environ["SPARK_LOCAL_DIRS"] = local
        if given.in_process:
            session = InProcess()
            for name, told in (("find_java", "java"), ("is_running", True), ("start", session)):
                mock.patch.object(engine, name, return_value=told).start()
        else:
            running = start(given.master, "matrix")
            running.sparkContext.setLogLevel("WARN")
            wait_for_executors(running, given.master)
        chosen = [
            case for case in cases(each=given.each) if case.system in (given.system or SHIPPED)
        ]
        if given.sample is not None:
            chosen = random.Random(given.seed).sample(sampled(), given.sample)
        wrong = list(itertools.chain.from_iterable(case.differs() for case in chosen))
        homeless = twice(local)
        for line in homeless:
            print(line, file=sys.stderr)
        wrong += homeless
    print(f"{len(wrong)} runs differ" if wrong else "the same everywhere")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
