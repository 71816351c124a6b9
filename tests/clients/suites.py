"""The clients' own tests on a served cluster: renews their results in docs/clients.md.

`python tests/clients/suites.py sarama` takes this suite, and leaves the results of the others.
`--test NAME` takes one test, prints its output, and writes no page. Modules of Go come with their
tests. Those that need brokers run, each in a process of its own; one that fails runs on Kafka's own
broker, too. sarama's reach their brokers through toxiproxy. Needs Go.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Final, NamedTuple

from platformdirs import user_cache_path

from epochfence.model.conformance.classes.host import UnavailableError
from epochfence.model.conformance.kafka.broker import (
    VERSIONS,
    Broker,
    Listener,
    free_port,
    needed,
)
from epochfence.model.serve.server import Server
from epochfence.tests.clients.run import KAFKA, KAFKA_COLUMN, PAGE, Fault
from epochfence.tests.driver import record

HERE: Final = Path(__file__).parent / "suites"
RELEASE: Final = "4.4"
SLOWEST_S: Final = 240
WIDTH: Final = 100


class Suite(NamedTuple):
    """A client's own tests: its version and package, what a test that needs brokers has in it, and
    tags of the build; `served` and `on_kafka` start brokers, and give variables of the
    environment."""

    name: str
    version: str
    package: str
    needs_brokers: str
    tags: str
    served: Callable[[], AbstractContextManager[Mapping[str, str]]]
    on_kafka: Callable[[], AbstractContextManager[Mapping[str, str]]]


_KGO: Final = {"KGO_TEST_RF": "1", "KGO_TEST_RECORDS": "3000", "KGO_LOG_LEVEL": "none"}
_PROXIES: Final = tuple(range(1, 6))
"""The brokers that sarama's tests want, by id; proxies are on fixed ports behind this one."""
_PORT: Final = 29090
_TOXIPROXY: Final = "github.com/Shopify/toxiproxy/v2/cmd/server"
_ADDRESS, _BEHIND = "127.0.0.1", "127.0.0.2"


@contextmanager
def kgo_served() -> Generator[Mapping[str, str]]:
    """A served cluster for franz-go's tests."""
    with Server(RELEASE) as server:
        yield {**_KGO, "KGO_SEEDS": server.bootstrap}


@contextmanager
def kgo_on_kafka() -> Generator[Mapping[str, str]]:
    """Kafka's own broker for franz-go's tests."""
    settings = ("auto.create.topics.enable=true",)
    with tempfile.TemporaryDirectory() as made, Broker(KAFKA, Path(made), settings=settings) as one:
        yield {**_KGO, "KGO_SEEDS": one.bootstrap}


@contextmanager
def sarama_served() -> Generator[Mapping[str, str]]:
    """A served cluster of five brokers for sarama's tests, behind proxies."""
    settings = {"default.replication.factor": "2", "auto.create.topics.enable": "false"}
    ids = {"brokers": len(_PROXIES), "first_id": _PROXIES[0]}
    places = {"host": _BEHIND, "port": _PORT + _PROXIES[0], "advertised": _ADDRESS}
    with Server(RELEASE, settings=settings, **ids, **places) as server:
        told = server.brokers.addresses
        with _proxies({number: f"{_BEHIND}:{told[number][1]}" for number in _PROXIES}) as found:
            yield found


@contextmanager
def sarama_on_kafka() -> Generator[Mapping[str, str]]:
    """A cluster of three of Kafka's own brokers for sarama's tests, behind proxies; the other
    proxies lead nowhere."""
    with ExitStack() as stack:
        started: list[Broker] = []
        for number in _PROXIES[:3]:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            also = Listener("PROXY", advertised=_PORT + number)
            before = started[-1] if started else None
            broker = Broker(KAFKA, folder, also, beside=before)
            started.append(stack.enter_context(broker))
        upstream = {one.id: f"{_ADDRESS}:{one.also_port}" for one in started}
        yield stack.enter_context(_proxies(dict.fromkeys(_PROXIES, f"{_BEHIND}:1") | upstream))


@contextmanager
def _proxies(upstream: Mapping[int, str]) -> Generator[Mapping[str, str]]:
    """toxiproxy in front of brokers, by id: what sarama's tests have to know."""
    program = user_cache_path("epochfence") / "clients" / "toxiproxy"
    _go("build", "-o", str(program), _TOXIPROXY)
    place = f"{_ADDRESS}:{(port := free_port())}"
    command = (program, "-host", _ADDRESS, "-port", str(port))
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        try:
            for number, address in upstream.items():
                listens = f"{_ADDRESS}:{_PORT + number}"
                _ask(place, {"name": f"kafka{number}", "listen": listens, "upstream": address})
            yield {"TOXIPROXY_ADDR": f"http://{place}", "KAFKA_VERSION": VERSIONS[RELEASE]}
        finally:
            running.terminate()


def _ask(place: str, proxy: Mapping[str, str]) -> None:
    """Makes a proxy, once toxiproxy answers."""
    body = json.dumps({**proxy, "enabled": True}).encode()
    until = time.monotonic() + 10
    while True:
        try:
            urllib.request.urlopen(f"http://{place}/proxies", body).close()
        except urllib.error.URLError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return


SUITES: Final = (
    Suite(
        "franz-go",
        "1.22.3",
        "github.com/twmb/franz-go/pkg/kgo",
        r"newTestClient|getSeedBrokers|tmpTopic|tmpGroup|\badm\(|testClientOpts|tmpNamedTopic",
        "",
        kgo_served,
        kgo_on_kafka,
    ),
    Suite(
        "sarama",
        "1.61.1",
        "github.com/IBM/sarama",
        r"FunctionalTest|checkKafkaVersion|runAcrossVersions",
        "functional",
        sarama_served,
        sarama_on_kafka,
    ),
)
_STOPS: Final = Fault("the test", "it stops or asks a broker with Docker Compose")
FAULTS: Final[Mapping[tuple[str, str], Fault]] = {
    ("sarama", "TestFuncAdminQuotas"): Fault("the served cluster", "it has no quotas"),
    ("sarama", "TestFuncAdminIncrementalAlterConfigs"): Fault(
        "the served cluster", "settings of brokers can't be changed"
    ),
    ("sarama", "TestFuncAdminUpdateFeatures"): Fault(
        "the served cluster", "features can't be changed"
    ),
    **{
        ("sarama", f"Test{test}"): _STOPS
        for test in (
            "FuncAdminListConsumerGroupOffsets",
            "ConsumerFetchFollowerFailover",
            "FuncTxnProduceWithBrokerFailure",
            "FuncIdempotentBufferedSequence",
        )
    },
}
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
    _go("test", "-c", "-tags", suite.tags, "-o", str(program), suite.package)
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


def block(suite: Suite) -> str:
    """The name of the page's block with the results of a suite."""
    return f"{suite.name}'s tests"


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
    names = [suite.name for suite in SUITES]
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"one of {', '.join(names)}")
    parser.add_argument("--test", help="only this one; prints its output, and writes no page")
    given = parser.parse_args()
    if unknown := set(given.suites) - set(names):
        parser.error(f"{', '.join(sorted(unknown))}: choose from {', '.join(names)}")
    code = 0
    for suite in SUITES:
        if given.suites and suite.name not in given.suites:
            continue
        try:
            program, package = built(suite)
        except UnavailableError as error:
            print(f"{suite.name}: {error}", file=sys.stderr)
            return 1
        found: dict[str, Outcome] = {}
        with suite.served() as environment:
            for test in [given.test] if given.test else tests_of(suite, package):
                here, told = outcome(program, package, test, environment)
                found[test] = Outcome(here)
                print(told if given.test else f"{suite.name} {test}: {here}", flush=True)
        failed = [test for test, one in found.items() if one.here == "fails"]
        with suite.on_kafka() if failed else nullcontext({}) as environment:
            for test in failed:
                found[test] = Outcome("fails", outcome(program, package, test, environment)[0])
                print(f"{suite.name} {test} on Kafka: {found[test].on_kafka}", flush=True)
        code = code or int(any((suite.name, test) not in FAULTS for test in failed))
        if not given.test:
            record(PAGE, block(suite), "\n".join(results(suite, found)))
    return code


if __name__ == "__main__":
    sys.exit(main())
