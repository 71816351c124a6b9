"""The clients' own tests on a served cluster: renews their results in docs/clients.md.

`--test NAME` takes one test, prints its output, and writes no page. Modules of Go come with their
tests. Those that need brokers run, each in a process of its own; one that fails runs on Kafka's own
broker, too. Needs Go.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from platformdirs import user_cache_path

from epochfence.model.conformance.classes.host import UnavailableError
from epochfence.model.conformance.kafka.broker import Broker, needed
from epochfence.model.serve.server import Server
from epochfence.tests.clients.run import KAFKA, KAFKA_COLUMN, PAGE, Fault
from epochfence.tests.driver import record

HERE: Final = Path(__file__).parent / "suites"
RELEASE: Final = "4.4"
SLOWEST_S: Final = 240
WIDTH: Final = 100


class Suite(NamedTuple):
    """A client's own tests: its version and package, what a test that needs brokers has in it, and
    variables of the environment; `seeds` is the one with the brokers' addresses."""

    name: str
    version: str
    package: str
    needs_brokers: str
    seeds: str
    environment: Mapping[str, str]


SUITES: Final = (
    Suite(
        "franz-go",
        "1.22.3",
        "github.com/twmb/franz-go/pkg/kgo",
        r"newTestClient|getSeedBrokers|tmpTopic|tmpGroup|\badm\(|testClientOpts|tmpNamedTopic",
        "KGO_SEEDS",
        {"KGO_TEST_RF": "1", "KGO_TEST_RECORDS": "3000", "KGO_LOG_LEVEL": "none"},
    ),
)
FAULTS: Final[Mapping[tuple[str, str], Fault]] = {}
"""Who is at fault where a test fails, by suite and test."""
_TEST: Final = re.compile(r"^func (Test\w+)\(\w+ \*testing\.T\) \{(.*?)^\}", re.M | re.S)


class Outcome(NamedTuple):
    """The outcome of a test here (pass, skip or fails), and on Kafka's broker if it fails."""

    here: str
    on_kafka: str = ""


def tests_of(suite: Suite, folder: Path) -> list[str]:
    """The names of the tests in a package that need brokers."""
    return [
        name
        for file in sorted(folder.glob("*_test.go"))
        for name, body in _TEST.findall(file.read_text(encoding="utf-8"))
        if re.search(suite.needs_brokers, body)
    ]


def built(suite: Suite) -> tuple[Path, Path]:
    """The program with a suite's tests, and the folder of its package.

    Raises UnavailableError without Go, or if it can't be built.
    """
    needed("go", "golang")
    program = user_cache_path("epochfence") / "clients" / f"{suite.name}-{suite.version}.test"
    _go("test", "-c", "-o", str(program), suite.package)
    return program, Path(_go("list", "-f", "{{.Dir}}", suite.package).strip())


def _go(*arguments: str) -> str:
    done = subprocess.run(("go", *arguments), cwd=HERE, capture_output=True, text=True, check=False)
    if done.returncode:
        (*_, said) = done.stderr.strip().splitlines() or ["it failed"]
        raise UnavailableError(f"go {arguments[0]}: {said.strip()}")
    return done.stdout


def outcome(
    program: Path, folder: Path, test: str, environment: Mapping[str, str]
) -> tuple[str, str]:
    """The outcome of a test, and its output."""
    done = subprocess.run(
        (program, f"-test.run=^{test}$", "-test.v", f"-test.timeout={SLOWEST_S}s"),
        cwd=folder, capture_output=True, text=True, check=False, errors="replace",
        env={**os.environ, **environment},
    )  # fmt: skip
    told = done.stdout + done.stderr
    if done.returncode:
        return "fails", told
    return ("skip" if f"--- SKIP: {test} " in told else "pass"), told


def results(suite: Suite, found: Mapping[str, Outcome]) -> list[str]:
    """A suite's lines on the page: the tests that pass, those that skip themselves, and those that
    fail with the party at fault."""
    lines: list[str] = []
    for kind, words in (("pass", "pass"), ("skip", "skip themselves")):
        names = [name for name, one in found.items() if one.here == kind]
        if names:
            count = f"{len(names)} of {len(found)}"
            text = f"{suite.name} {suite.version}: {count} {words}: {', '.join(names)}."
            lines += [*textwrap.wrap(text, WIDTH), ""]
    rows = [
        f"| {name} | {one.on_kafka} | {_reason(suite, name)} |"
        for name, one in found.items()
        if one.here == "fails"
    ]
    if rows:
        lines += [f"| fails | {KAFKA_COLUMN} | at fault |", "|---|---|---|", *rows, ""]
    return lines


def _reason(suite: Suite, test: str) -> str:
    fault = FAULTS.get((suite.name, test))
    return "" if fault is None else f"{fault.party}: {fault.why}"


def main() -> int:
    """Runs the suites, and renews their results."""
    parser = argparse.ArgumentParser(description="Runs the clients' own tests.")
    parser.add_argument("--test", help="only this one; prints its output, and writes no page")
    given = parser.parse_args()
    code, lines = 0, list[str]()
    for suite in SUITES:
        try:
            program, package = built(suite)
        except UnavailableError as error:
            print(f"{suite.name}: {error}", file=sys.stderr)
            return 1
        found: dict[str, Outcome] = {}
        with Server(RELEASE) as server:
            for test in [given.test] if given.test else tests_of(suite, package):
                environment = {**suite.environment, suite.seeds: server.bootstrap}
                here, told = outcome(program, package, test, environment)
                found[test] = Outcome(here)
                print(told if given.test else f"{suite.name} {test}: {here}", flush=True)
        failed = [test for test, one in found.items() if one.here == "fails"]
        for test in failed:
            with (
                tempfile.TemporaryDirectory() as made,
                Broker(KAFKA, Path(made), settings=("auto.create.topics.enable=true",)) as broker,
            ):
                environment = {**suite.environment, suite.seeds: broker.bootstrap}
                found[test] = Outcome("fails", outcome(program, package, test, environment)[0])
                print(f"{suite.name} {test} on Kafka: {found[test].on_kafka}", flush=True)
        code = code or int(any((suite.name, test) not in FAULTS for test in failed))
        lines += results(suite, found)
    if not given.test:
        record(PAGE, "suites", "\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main())
