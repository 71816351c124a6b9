"""Programs of other clients on a served cluster: `make clients` builds them and renews their table
in docs/clients.md.

`python tests/clients/run.py franz-go kafkajs` takes these clients and leaves the rows of the
others. `--kafka` runs them on Kafka's own broker too, which shows who is at fault. Each client
makes the same tests: a commit, an abort, a fenced producer, and a group that consumes, processes
and produces. `judge` explains the history of each. Needs Go, Node.js, Rust, or Java and Maven.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from confluent_kafka import Producer
from platformdirs import user_cache_path
from typer.testing import CliRunner

from epochfence.cli import app
from epochfence.model.conformance.classes.host import UnavailableError
from epochfence.model.conformance.kafka.broker import VERSIONS, Broker, java, needed
from epochfence.model.serve.history import History
from epochfence.model.serve.server import Server
from epochfence.tests.driver import record, recorded

HERE: Final = Path(__file__).parent
PAGE: Final = HERE.parents[1] / "docs" / "clients.md"
RELEASES: Final = ("2.5", "3.6", "4.0.1", "4.3", "4.4")
KAFKA: Final = "4.4"
"""The release of Kafka's own broker that the tests are compared with."""
SLOWEST_S: Final = 120
TOOLS: Final = "4.3.1"
PASS: Final = "pass"


class Client(NamedTuple):
    """A client: its version, the folder of its program, what builds that, how it is called in
    front of a test's name, and its tests."""

    name: str
    version: str
    folder: str
    needs: tuple[str, str]
    build: tuple[str, ...]
    call: tuple[str, ...]
    tests: tuple[str, ...] = ("commit", "abort", "fenced", "process")


_GO: Final = ("go", ("go", "golang"), ("go", "build", "-mod=readonly", "-o", "clients", "."))
CLIENTS: Final = (
    Client("franz-go", "1.22.3", *_GO, ("./clients", "franz-go")),
    Client("sarama", "1.61.1", *_GO, ("./clients", "sarama")),
    Client("kafka-go", "0.4.51", *_GO, ("./clients", "kafka-go")),
    Client(
        "kafkajs", "2.2.4", "js", ("npm", "npm"), ("npm", "ci", "--silent"), ("node", "kafkajs.js"),
    ),
    Client(
        "krafka", "0.28.1", "rust", ("cargo", "cargo"), ("cargo", "build", "--locked"),
        ("target/debug/clients",),
    ),
    *(
        Client(
            name, version, "java", ("mvn", "maven"),
            ("mvn", "--quiet", "--batch-mode", "--strict-checksums", f"-P{main.lower()}",
             "compile", "dependency:copy-dependencies"),
            ("java", "-Xmx512m", "-XX:TieredStopAtLevel=1",
             "-cp", f"target/{main.lower()}/classes:target/{main.lower()}/jars/*", main),
        )
        for name, version, main in (
            ("Kafka Streams", "4.4.0", "Streams"),
            ("spring-kafka", "4.1.2", "Spring"),
            ("Kafka Connect", "4.4.0", "Connect"),
            ("Flink's KafkaSink", "5.0.0-2.2", "Flink"),
        )
    ),
    Client(
        "Kafka's tools", TOOLS, "tools", ("mvn", "maven"),
        ("mvn", "--quiet", "--batch-mode", "--strict-checksums", f"-Dkafka.version={TOOLS}",
         "-DoutputDirectory=jars", "dependency:copy-dependencies"),
        (), ("topics", "groups", "transactions", "abort", "offsets", "producer"),
    ),
)  # fmt: skip


class Fault(NamedTuple):
    """Who is at fault where a test fails, and why."""

    party: str
    why: str


FAULTS: Final = {
    ("kafka-go", test): Fault(
        "kafka-go",
        "with ReadCommitted it returns records of aborted transactions, and markers as messages",
    )
    for test in ("commit", "abort", "fenced")
}
"""The failures that are known, by client and test."""


class Step(NamedTuple):
    """A call of one of Kafka's tools: the class and its options, what the output has to have, and
    the standard input."""

    tool: str
    options: str
    output: str = ""
    given: str = ""


_GROUPS: Final = "consumer.group.ConsumerGroupCommand"
STEPS: Final = {
    "topics": (
        Step("TopicCommand", "--create --topic {n} --partitions 2 --config flush.ms=9", "Created"),
        Step("TopicCommand", "--alter --topic {n} --partitions 3"),
        Step("TopicCommand", "--describe --topic {n}", "PartitionCount: 3"),
        Step("TopicCommand", "--delete --topic {n}"),
    ),
    "groups": (
        Step("ConsoleProducer", "--topic {n}", "", "a\nb\n"),
        Step(
            "consumer.ConsoleConsumer",
            "--topic {n} --group {n} --from-beginning --max-messages 2 --timeout-ms 20000 "
            "--isolation-level read_committed",
            "total of 2 messages",
        ),
        Step(_GROUPS, "--list", "{n}"),
        Step(_GROUPS, "--describe --group {n}", "{n}"),
        Step(_GROUPS, "--reset-offsets --to-earliest --group {n} --topic {n} --execute", "{n}"),
        Step(_GROUPS, "--delete --group {n}", "was successful"),
        Step(_GROUPS, "--reset-offsets --to-latest --group {n} --topic {n} --execute", "{n}"),
        Step(_GROUPS, "--delete-offsets --group {n} --topic {n}", "Successful"),
    ),
    "transactions": (
        Step(
            "ProducerPerformance",
            "--topic {n} --num-records 20 --record-size 10 --throughput -1 --transactional-id {n} "
            "--transaction-duration-ms 100",
            "20 records sent",
        ),
        Step("TransactionsCommand", "list", "CompleteCommit"),
        Step("TransactionsCommand", "describe --transactional-id {n}", "CompleteCommit"),
        Step("TransactionsCommand", "describe-producers --topic {n} --partition 0", "None"),
        Step("TransactionsCommand", "find-hanging --topic {n}", "Topic"),
    ),
    "abort": (
        Step("TransactionsCommand", "abort --topic {n} --partition 0 --start-offset 0"),
        Step("TransactionsCommand", "describe-producers --topic {n} --partition 0", "None"),
        Step("ConsoleProducer", "--topic {n}", "", "a\n"),
        Step(
            "consumer.ConsoleConsumer",
            "--topic {n} --from-beginning --max-messages 1 --timeout-ms 20000 "
            "--isolation-level read_committed",
            "total of 1 messages",
        ),
    ),
    "offsets": (
        Step("ConsoleProducer", "--topic {n}", "", "a\nb\n"),
        Step("GetOffsetShell", "--topic {n} --time latest", "{n}:0:2"),
        Step("GetOffsetShell", "--topic {n} --time 1", "{n}:0:0"),
        Step("DeleteRecordsCommand", "--offset-json-file {f}", "low_watermark: 1"),
        Step("GetOffsetShell", "--topic {n} --time earliest", "{n}:0:1"),
    ),
    "producer": (Step("VerifiableProducer", "--topic {n} --max-messages 5", '"acked":5'),),
}
"""The calls of each test of Kafka's tools; {n} is a name of the test's own."""
NOT_BEFORE: Final = {("Kafka's tools", test): "3.0" for test in ("transactions", "abort")}
"""The first release whose brokers have the APIs that a test needs."""
UNJUDGED: Final = frozenset(("abort",))
"""Tests that write markers by themselves, which a history can't explain."""


def built(client: Client) -> Path:
    """The folder with a client's program, which is built if it isn't there yet.

    Raises UnavailableError.
    """
    source = HERE / client.folder
    content = b"".join(path.read_bytes() for path in sorted(source.rglob("*")) if path.is_file())
    folder = user_cache_path("epochfence") / "clients" / f"{client.folder}-{crc32(content):08x}"
    is_built = folder / f".built-{crc32(repr(client.build).encode()):08x}"
    if not is_built.exists():
        needed(*client.needs)
        shutil.copytree(source, folder, dirs_exist_ok=True)
        done = subprocess.run(client.build, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            (*_, said) = (done.stderr + done.stdout).strip().splitlines() or ["it failed"]
            raise UnavailableError(f"{client.name} isn't built: {said.strip()}")
        is_built.touch()
    return folder


def outcome(client: Client, test: str, bootstrap: str, folder: Path) -> str:
    """PASS, or why a test fails."""
    name = f"{test}-{secrets.token_hex(4)}"
    if client.folder != "tools":
        program, *options = client.call
        program = java() if program == "java" else program
        return _ran((program, *options, test, bootstrap, name), folder)
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        if test == "abort":
            stack.enter_context(_open(bootstrap, name))
        file = Path(made) / "offsets.json"
        place = f'{{"topic": "{name}", "partition": 0, "offset": 1}}'
        file.write_text(f'{{"partitions": [{place}], "version": 1}}', encoding="utf-8")
        for step in STEPS[test]:
            options = [part.format(n=name, f=file) for part in step.options.split()]
            command = (
                java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", "jars/*",
                f"org.apache.kafka.tools.{step.tool}", "--bootstrap-server", bootstrap, *options,
            )  # fmt: skip
            told = _ran(command, folder, step.output.format(n=name), step.given)
            if told != PASS:
                return f"{step.tool} {' '.join(options)}: {told}"
    return PASS


@contextmanager
def _open(bootstrap: str, name: str) -> Generator[None]:
    """A transaction with a record in a topic of its name, which stays open."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(SLOWEST_S)
    producer.begin_transaction()
    producer.produce(name, "x", partition=0)
    producer.flush(SLOWEST_S)
    yield


def _ran(command: Sequence[str], folder: Path, output: str = "", given: str = "") -> str:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, input=given,
            timeout=SLOWEST_S, env={**os.environ, "KAFKAJS_NO_PARTITIONER_WARNING": "1"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"no end within {SLOWEST_S} s"
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        return lines[-1].strip() if lines else f"exit code {done.returncode}"
    is_said = output in done.stdout + done.stderr
    return PASS if is_said else f"{output!r} isn't in its output"


def on_served(client: Client, release: str, folder: Path) -> dict[str, str]:
    """The outcome of each test on a served cluster of a release. If `judge` can't explain the
    history, that is the outcome of a further test."""
    with tempfile.TemporaryDirectory() as made:
        file = Path(made) / "history.jsonl"
        with file.open("wb") as history, Server(release) as server:
            server.record_in(History(history))
            tests = [test for test in client.tests if is_there(client, test, release)]
            judged_ones = [test for test in tests if test not in UNJUDGED]
            found = {test: outcome(client, test, server.bootstrap, folder) for test in judged_ones}
        judged = CliRunner().invoke(app, ["judge", str(file), "--protocol", release])
        is_empty = not file.read_text(encoding="utf-8")
        if judged.exit_code and not is_empty:
            found["judge"] = judged.output.strip().splitlines()[-1]
    if others := [test for test in tests if test in UNJUDGED]:
        with Server(release) as server:
            found |= {test: outcome(client, test, server.bootstrap, folder) for test in others}
    return found


def is_there(client: Client, test: str, release: str) -> bool:
    """Whether brokers of a release have what a test needs."""
    first = NOT_BEFORE.get((client.name, test))
    return first is None or tuple(map(int, release.split("."))) >= tuple(map(int, first.split(".")))


def on_kafka(client: Client, folder: Path) -> dict[str, str]:
    """The outcome of each test on Kafka's own broker. Raises UnavailableError."""
    with (
        tempfile.TemporaryDirectory() as made,
        Broker(KAFKA, Path(made), settings=("auto.create.topics.enable=true",)) as broker,
    ):
        return {test: outcome(client, test, broker.bootstrap, folder) for test in client.tests}


def rows(client: Client, found: dict[str, dict[str, str]]) -> Iterator[str]:
    """The client's rows in the table: of its tests, by place."""
    for test in client.tests:
        cells: list[str] = []
        for place in (*RELEASES, KAFKA_COLUMN):
            told = found.get(place, {}).get(test)
            cells.append("" if told is None else "pass" if told == PASS else "**fails**")
        fault = FAULTS.get((client.name, test))
        reason = f"{fault.party}: {fault.why}" if fault and "**fails**" in cells else ""
        who = f"{client.name} {client.version}"
        yield f"| {who} | {test} | {' | '.join(cells)} | {reason} |"


KAFKA_COLUMN: Final = f"Kafka {VERSIONS[KAFKA]}"
_HEAD: Final = f"| client | test | {' | '.join((*RELEASES, KAFKA_COLUMN))} | at fault |"


def write(lines: dict[str, list[str]]) -> None:
    """Puts the rows of clients in their place on the page."""
    kept: dict[str, list[str]] = {client.name: [] for client in CLIENTS}
    for line in recorded(PAGE, "programs").splitlines():
        for name in kept:
            if line.startswith(f"| {name} "):
                kept[name].append(line)
    kept |= lines
    rule = re.sub(r"[^|]+", "---", _HEAD)
    every = [_HEAD, rule, *(line for name in kept for line in kept[name])]
    record(PAGE, "programs", "\n".join(every))


def main() -> int:
    """Runs the tests, and renews the table."""
    parser = argparse.ArgumentParser(description="Runs programs of clients.")
    parser.add_argument("clients", nargs="*", metavar="CLIENT")
    parser.add_argument("--kafka", action="store_true", help="also on Kafka's own broker")
    parser.add_argument("--release", choices=RELEASES, help="only at this one; writes no table")
    given = parser.parse_args()
    known = {client.name: client for client in CLIENTS}
    if unknown := set(given.clients) - known.keys():
        parser.error(f"{', '.join(unknown)}: choose from {', '.join(known)}")
    code = 0
    for client in CLIENTS:
        if given.clients and client.name not in given.clients:
            continue
        try:
            folder = built(client)
            places = [given.release] if given.release else [*RELEASES]
            found: dict[str, dict[str, str]] = {}
            for place in (*places, *((KAFKA_COLUMN,) if given.kafka else ())):
                is_kafka = place == KAFKA_COLUMN
                found[place] = (
                    on_kafka(client, folder) if is_kafka else on_served(client, place, folder)
                )
                for test, told in found[place].items():
                    is_known = told == PASS or (client.name, test) in FAULTS
                    code = code if is_known else 1
                    print(f"{client.name} {test} {place}: {told}", flush=True)
        except UnavailableError as error:
            print(f"{client.name}: {error}", file=sys.stderr)
            code = 1
            continue
        if not given.release:
            write({client.name: list(rows(client, found))})
    return code


if __name__ == "__main__":
    sys.exit(main())
