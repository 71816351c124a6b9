"""For all tests: Hypothesis profiles, CI's rule on skipped tests, samples of cases, and how the
root is collected."""

import gc
import os
import random
import re
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Generator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.testing
from hypothesis import settings
from typer.main import get_command

from epochfence.checker import named_systems as load
from epochfence.checker.native.cache import object_cache
from epochfence.tests import hangs

SPARK, ON_SPARK = "tests/checker/spark/", "on_spark"
PAGES, TAKES_PAGES = "generated pages", re.compile(r"tests\.generated import .*\bgenerated\b")
# Most of Spark's time in a short test is the compilation of Java: the quicker compiler will do. And
# nothing here is so large that it had to be shuffled into 200 parts.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SPARK_SETTINGS = {
    "SPARK_LAUNCHER_OPTS": QUICK_JAVA,
    "SPARK_SUBMIT_OPTS": f"{QUICK_JAVA} -Dspark.sql.shuffle.partitions=4 "
    f"'-Dspark.executor.extraJavaOptions={QUICK_JAVA}'",
}
COMPILES = pytest.StashKey[subprocess.Popen[bytes]]()
COMPILED = ("check", "docs/examples/retry.py", "--progress", "--protocol", "1")
NEEDS_MUCH = ("browser", "spark")  # fixtures: a test that has one of them is slow
SLOW, LONGEST = 3, 10_000  # seconds of a slow test that doesn't say how many; more than any takes
SELDOM = (50_000, 20, 50)  # collections of garbage: systems are made of many small objects
QUICK = 0.05  # seconds of a test that isn't slow: of a thousand in one file, they add up
EXAMPLES = 30  # that Hypothesis draws where a test doesn't say
SAME_SEED = 0  # that of each run that names no other: a commit's tests have one outcome
IN_CI = os.environ.get("CI", "").lower() not in ("", "0", "false")

# No database: what an earlier run left must not decide whether a test passes.
for _name, _same in (("same", True), ("drawn", False)):
    settings.register_profile(
        _name,
        deadline=None,
        max_examples=EXAMPLES,
        database=None,
        print_blob=IN_CI,
        derandomize=_same,
    )
settings.load_profile("same")
# Readline, which pytest loads, sets them for the processes that it starts.
for _name in ("COLUMNS", "LINES"):
    os.environ.pop(_name, None)
# Else each command that a test runs in this process costs 40 ms before it begins.
typer.testing._get_command = cache(get_command)  # pyright: ignore[reportPrivateImportUsage]


class RootIsNoTestPackage:
    """Keeps pytest from importing the root's `__init__.py` again, under the folder's name."""

    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Dir | None:
        if path == parent.config.rootpath:
            return pytest.Dir.from_parent(parent, path=path)
        return None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--seed",
        type=int,
        metavar="N",
        default=SAME_SEED,
        help=f"draw other inputs than those of {SAME_SEED}, which is the default",
    )
    parser.addoption("--long", action="store_true", help="run tests marked long, and no other")
    parser.addoption(
        "--every-case", action="store_true", help="run long tests too, and all cases of samples"
    )
    parser.addoption(
        "--brokers",
        default="",
        metavar="RELEASES",
        help="run tests/brokers with Kafka's brokers of these releases, or of all",
    )


@pytest.hookimpl(tryfirst=True)  # Hypothesis reads its seed there, too
def pytest_configure(config: pytest.Config) -> None:
    # What a shell starts in the background ignores Ctrl-C, and so would what tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.option.seed != SAME_SEED:
        settings.load_profile("drawn")
        config.option.hypothesis_seed = str(config.option.seed)
    # Brokers, clients, browsers and the clock make a test fail once in thousands of runs. In CI a
    # failed test runs once more, and the summary has its first failure.
    if IN_CI and not config.option.reruns:
        config.option.reruns = 1
    # What one test compiles, others take from there, and the next run of the tests does.
    os.environ.setdefault(object_cache.VARIABLE, str(config.rootpath / ".pytest_cache"))
    for name, value in SPARK_SETTINGS.items():
        os.environ.setdefault(name, value)
    run_committed_files_once(config.rootpath)
    # A conftest's own hooks hold for its folder and below; a plugin's hold for the root as well.
    config.pluginmanager.register(RootIsNoTestPackage())
    config.pluginmanager.register(hangs)


def run_committed_files_once(root: Path) -> None:
    """Of a file of the repository, `load_system` gets the answer that it got before: thousands of
    tests read the same declarations, and the process that runs one takes 0.1 s. Files that tests
    write are run each time."""
    run, answers = load._run_apart, dict[tuple[object, ...], tuple[bytes, int]]()

    def run_once(
        path: Path, attribute: str, memory: int, meanwhile: Callable[[], object] | None = None
    ) -> tuple[bytes, int]:
        file = path.resolve()
        if not file.is_relative_to(root):
            return run(path, attribute, memory, meanwhile)
        key = str(path), attribute, memory, file.read_bytes()
        if key not in answers:
            answers[key] = run(path, attribute, memory)
        return answers[key]

    load._run_apart = run_once


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """While the workers collect, one process compiles the functions that each of them would compile
    for itself."""
    config.stash[COMPILES] = subprocess.Popen(
        [sys.executable, "-m", "epochfence.cli", *COMPILED],
        cwd=config.rootpath,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any) -> None:
    """No test begins before all are compiled."""
    node.config.stash[COMPILES].wait()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if (seed := terminalreporter.config.option.seed) != SAME_SEED:
        terminalreporter.write_line(f"Inputs were drawn with --seed {seed}.")
    for report in terminalreporter.stats.get("rerun", ()):
        terminalreporter.write_sep("_", f"failed once: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)


@pytest.hookimpl(tryfirst=True)  # before -m is looked at
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.nodeid.partition("::")[0])  # the same in all processes
    for item in items:
        if is_on_spark(item.nodeid) or {*NEEDS_MUCH} & {*getattr(item, "fixturenames", ())}:
            item.add_marker(pytest.mark.slow(1))
        if is_drawn(item):
            item.add_marker(pytest.mark.drawn)
    if not config.option.every_case:
        keep_long_or_others(config, items)
        keep_samples(config, items)
    put_longest_first(config.rootpath, items)


def pytest_collection_finish() -> None:
    """What is imported and collected stays: the garbage collector looks at it no more."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*SELDOM)


def put_longest_first(root: Path, items: list[pytest.Item]) -> None:
    """Spark's tests first, then the scopes that take longest, so that no process is left with one
    at the end. A test's mark `slow` may say what it takes, in seconds."""
    scopes = {item: scope(root, item.nodeid) for item in items}
    seconds = defaultdict[str, float](float)
    for item, name in scopes.items():
        marker = item.get_closest_marker("slow")
        seconds[name] += QUICK if marker is None else (*marker.args, SLOW)[0]
    seconds[SPARK] = seconds[PAGES] = LONGEST
    places = {name: place for place, name in enumerate(dict.fromkeys(scopes.values()))}
    items.sort(key=lambda item: (-seconds[scopes[item]], places[scopes[item]]))


def is_drawn(item: pytest.Item) -> bool:
    """Whether other inputs are tested with another seed: by Hypothesis, by the test itself, or by a
    sample of cases."""
    by_hypothesis = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    takes_seed = "seed" in getattr(item, "fixturenames", ())
    return by_hypothesis or takes_seed or item.get_closest_marker("sample") is not None


def keep(config: pytest.Config, items: list[pytest.Item], kept: list[pytest.Item]) -> None:
    """Deselects all items but these."""
    staying = {*kept}
    if left_out := [item for item in items if item not in staying]:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def keep_long_or_others(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps the tests that are marked `long` with `--long`, and the others without it."""
    is_long = {item: item.get_closest_marker("long") is not None for item in items}
    keep(config, items, [item for item in items if is_long[item] == config.option.long])


def keep_samples(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a test that is marked `sample(n)`, keeps n of its cases; of those with the same `of`, n of
    them all."""
    cases: dict[tuple[str, int], list[pytest.Item]] = {}
    for item in items:
        if (marker := item.get_closest_marker("sample")) is not None:
            name = marker.kwargs.get("of", item.nodeid.partition("[")[0])
            cases.setdefault((name, *marker.args), []).append(item)
    left_out: set[pytest.Item] = set()
    for (name, count), every in cases.items():
        drawn = random.Random(f"{config.option.seed} {name}")
        left_out |= {*drawn.sample(every, max(0, len(every) - count))}
    keep(config, items, [item for item in items if item not in left_out])


def is_on_spark(nodeid: str) -> bool:
    """Whether a test needs Spark, which its folder or its name says."""
    return nodeid.startswith(SPARK) or ON_SPARK in nodeid.partition("[")[0]


@cache
def stays_together(file: Path) -> bool:
    """Whether one process should run all tests of a file: quick ones, and what shares a fixture or
    a cached function."""
    text = file.read_text(encoding="utf-8")
    return "mark.slow" not in text or 'scope="module"' in text or "mark.together" in text


@cache
def takes_pages(file: Path) -> bool:
    """Whether tests of a file take generated pages, which cost a minute."""
    return TAKES_PAGES.search(file.read_text(encoding="utf-8")) is not None


def scope(root: Path, nodeid: str) -> str:
    """What one process runs as a whole: a file's tests, or those of a function where some of the
    file are slow. Spark's are one scope, as they share a session, and those that take generated
    pages."""
    if is_on_spark(nodeid):
        return SPARK
    file = nodeid.partition("::")[0]
    if takes_pages(root / file):
        return PAGES
    return file if stays_together(root / file) else nodeid.partition("[")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadscope`, processes share scopes out among them."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope(config.rootpath, nodeid)

    return Scheduling(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.fixture(scope="session")
def spark() -> Generator[Any]:
    """A session on this machine, for all tests that need a real one."""
    from epochfence.checker.spark.session import start

    session = start("local[2,4]", "tests")
    yield session
    session.stop()


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """What a test that draws a sample by itself draws it with."""
    return request.config.option.seed


def fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """In CI, what didn't run has failed; an expected failure did run."""
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI doesn't allow: {report.longrepr}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Each of xdist's processes reads a folder from another place on: so in a fresh clone each
    compiles a part of the files, and finds the others compiled."""
    report = yield
    fail_if_skipped(report)
    if isinstance(collector, pytest.Dir) and report.result:
        process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
        processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        first = len(report.result) * process // processes
        report.result = report.result[first:] + report.result[:first]
    return report
