"""Clients that nobody here wrote, on a real broker behind the proxy, while requests and answers are
lost or held and the broker and clients are killed; then everything is judged: `make soak`.

`python tests/soak/run.py [--seconds S] [--release R] [--seed N] [--rate F] [--record]`. Ends with 0
where all is explained, with 1 where something isn't, and then names the folder with what there is.
"""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from shutil import rmtree
from typing import Any, Final, NamedTuple

import confluent_kafka
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from epochfence.model.conformance.kafka.broker import Broker, java, needed
from epochfence.model.judge.application.anomalies import find_anomalies
from epochfence.model.judge.histories import read_runs
from epochfence.model.judge.judge import Finding, Judgement, worst
from epochfence.model.judge.operations import Settings
from epochfence.model.judge.segments.directories import judge_segments
from epochfence.model.judge.verdicts import judge_run
from epochfence.model.serve.faults.faults import Drawn
from epochfence.model.serve.history import History
from epochfence.model.serve.proxy import Proxy
from epochfence.spec.releases.features import NEWEST
from epochfence.tests.driver import options, record
from epochfence.tests.model.serve.clients import read
from epochfence.tests.soak.worker import CLIENTS, TOPIC, TRANSACTION_TIMEOUT_MS

HERE: Final = Path(__file__).parent
PAGE: Final = HERE.parents[1] / "docs" / "soak.md"
KINDS: Final = ("lose_request", "lose_answer", "hold", "hold_answer")
"""What a network with TCP does between one client and its broker. A request that is overtaken by
its own retry ends the wrong transaction where epochs aren't one for each (KIP-890)."""
SLOT_S: Final = 5
BROKER_EVERY_S: Final = 30
CLIENT_EVERY_S: Final = 6
SETTLED_S: Final = 60
ALL: Final = (*CLIENTS, "Java")
SKIPPED: Final = re.compile(
    r"find leader endpoint for partitions Set\(([^)]*)\) while trying to send"
)
"""What a coordinator logs that leaves out a marker for good: docs/findings.md, 13."""
OUTCOMES: Final = {"ack": "acknowledged", "fail": "failed"}


MISSING: Final = re.compile(
    rf"(\S+): (COMMIT|ABORT) of producer .* is completed, and ({TOPIC}-\d+) has no such marker"
)
"""A marker that the files lack: its transactional id, the decision and the partition."""
UNDECIDED: Final = re.compile(
    rf"(ABORTED_READ|LOSS|TORN_TRANSACTION) of (\S+)-\d+/\S+ in ({TOPIC}-(\d+))"
)
"""An anomaly, the client of its record, and the partition, which belongs to a slot."""


def ended_by_next(anomaly: str) -> set[tuple[str, ...]]:
    """The marker without which the next one of the transactional id leaves this anomaly: it ends
    two transactions, and the first one otherwise than decided."""
    found = UNDECIDED.fullmatch(anomaly)
    if found is None:
        return set()
    name, client, partition, number = found.groups()
    decision = "ABORT" if name == "ABORTED_READ" else "COMMIT"
    return {(f"{client}-{int(number) // 2}", decision, partition)}


class Stuck(NamedTuple):
    """A partition with a transaction that is open for good: from which offset on, and the records
    there, which no read_committed consumer gets."""

    offset: int
    records: frozenset[str]


@dataclass
class Told:
    """What a run comes to: lines of a table by what they are about, what is wrong, which records
    each of that lacks, what is set apart, and what the run lacks that a long one has."""

    rows: dict[str, str] = field(default_factory=dict[str, str])
    wrong: list[str] = field(default_factory=list[str])
    missing: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    apart: list[str] = field(default_factory=list[str])
    lacking: list[str] = field(default_factory=list[str])

    def set_apart(self, log: str, stuck: Mapping[str, Stuck]) -> None:
        """Takes out what markers explain that the broker says to have left out: what is missing has
        to be behind a transaction that hangs there, and what hangs to be one of these. Or the next
        marker of the same transactional id has ended the transaction instead."""
        skipped = {part for found in SKIPPED.findall(log) for part in found.split(", ")}
        held = frozenset[str]().union(*(stuck[part].records for part in skipped & stuck.keys()))
        left: list[str] = []
        parts: set[str] = set()
        missing = {one.groups() for each in self.wrong if (one := MISSING.search(each))}
        for each in self.wrong:
            named = skipped & {*re.findall(rf"{TOPIC}-\d+", each)}
            first = [int(offset) for offset in re.findall(r"transaction from offset (\d+)", each)]
            is_behind = self.missing.get(each, frozenset()) <= held and all(
                part in stuck and stuck[part].offset <= offset for part in named for offset in first
            )
            if named and (is_behind or ended_by_next(each) & missing):
                parts |= named
                self.apart.append(each)
            else:
                left.append(each)
        self.wrong = left
        if parts:
            self.rows["finding 13 of docs/findings.md"] = (
                f"{len(self.apart)} of the wrong results, in {', '.join(sorted(parts))}: the "
                "broker's log says that it left out a marker there, which explains all of it"
            )


class Workers:
    """The clients' processes, each with a file for what it tells."""

    def __init__(self, broker: Broker, bootstrap: str, folder: Path, plan: Sequence[str]) -> None:
        self.folder, self.kills = folder, 0
        self._jars, self._bootstrap, self._plan = broker.jars, bootstrap, plan
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._begun = Counter[str]()
        compiler = (needed("javac", "openjdk-17-jdk-headless"), "-cp", f"{broker.jars}/*")
        subprocess.run((*compiler, "-d", folder, HERE / "Soak.java"), check=True)
        for client in ALL:
            self._begin(client)

    def _begin(self, client: str) -> None:
        self._begun[client] += 1
        name = f"{client}-{self._begun[client]}"
        given = (name, *self._plan[:-1], f"{self._plan[-1]} {name}")
        if client == "Java":
            command = (
                java(), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp",
                f"{self._jars}/*:{self.folder}", "Soak", self._bootstrap, *given,
                str(TRANSACTION_TIMEOUT_MS),
            )  # fmt: skip
        else:
            command = (sys.executable, HERE / "worker.py", client, self._bootstrap, *given)
        told, errors = self.folder / f"{name}.told", self.folder / f"{name}.errors"
        with told.open("wb") as out, errors.open("wb") as err:
            self._running[client] = subprocess.Popen(command, stdout=out, stderr=err)

    def kill(self, client: str) -> None:
        """Ends a client's process as if its machine had failed, and begins another one."""
        self.end(client)
        self.kills += 1
        self._begin(client)

    def end(self, client: str) -> None:
        """Ends a client's process."""
        running = self._running.pop(client)
        running.send_signal(signal.SIGKILL)
        running.wait()

    def dead(self) -> Iterator[str]:
        """The clients that have ended by themselves, with the last that they said."""
        for client, running in self._running.items():
            if running.poll() is not None:
                name = f"{client}-{self._begun[client]}"
                said = (self.folder / f"{name}.errors").read_text(errors="replace").splitlines()
                yield f"{name} has ended: {said[-1:]}"

    def told(self) -> Iterator[tuple[str, list[list[str]]]]:
        """The lines of each process, in words; half a line at the end is none."""
        for file in sorted(self.folder.glob("*.told")):
            lines = file.read_text(encoding="utf-8").split("\n")[:-1]
            yield file.stem, [line.split(" ") for line in lines]


def disturb(
    workers: Workers, broker: Broker, seconds: float, drawn: random.Random
) -> tuple[int, list[str]]:
    """Kills clients and the broker at random until the time is up: how often the broker, and which
    clients ended by themselves."""
    begun, kills = time.monotonic(), 0
    wanted = max(1, int(seconds / BROKER_EVERY_S))
    at = sorted(
        drawn.uniform(0.2, 0.8) * seconds / wanted + n * seconds / wanted for n in range(wanted)
    )
    while (now := time.monotonic() - begun) < seconds:
        if at and now > at[0]:
            at.pop(0)
            broker.kill()
            broker.start()
            kills += 1
        elif drawn.random() < 1 / CLIENT_EVERY_S:
            workers.kill(drawn.choice(ALL))
        dead = [*workers.dead()]
        if dead:
            return kills, dead
        time.sleep(1)
    return kills, []


def read_all(bootstrap: str, partitions: int) -> list[dict[str, Any]]:
    """What a consumer that reads committed records finds, as an application tells it."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "log_level": 0,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(partitions)])
    found: list[dict[str, Any]] = []
    left = partitions
    while left:
        message = consumer.poll(SETTLED_S)
        assert message is not None, "a consumer comes to no end"
        partition = f"{TOPIC}-{message.partition()}"
        if message.error() is None:
            value = (message.value() or b"").decode()
            found.append({"event": "read", "consumer": "reader", "partition": partition,
                          "offset": message.offset(), "record": value})  # fmt: skip
        elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:  # type: ignore[reportPrivateUsage]
            found.append({"event": "caught_up", "consumer": "reader", "partition": partition})
            left -= 1
    consumer.close()
    return found


def settled(bootstrap: str, partitions: int) -> list[int]:
    """The partitions in which a transaction is open for good."""
    until = time.monotonic() + SETTLED_S
    while True:
        try:
            committed, every = (
                ends(bootstrap, partitions, f"read_{isolation}")
                for isolation in ("committed", "uncommitted")
            )
        except confluent_kafka.KafkaException:  # a broker that has just come back has no leaders
            if time.monotonic() > until:
                raise
        else:
            open_ = [number for number in range(partitions) if committed[number] != every[number]]
            if not open_ or time.monotonic() > until:
                return open_
        time.sleep(1)


def ends(bootstrap: str, partitions: int, isolation: str) -> list[int]:
    """The last offsets of all partitions. Raises KafkaException."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "ends",
            "log_level": 0,
            "isolation.level": isolation,
        }
    )
    try:
        places = (TopicPartition(TOPIC, number) for number in range(partitions))
        return [consumer.get_watermark_offsets(place, SETTLED_S)[1] for place in places]
    finally:
        consumer.close()


def behind(bootstrap: str, number: int) -> Stuck:
    """What is behind a partition's last stable offset."""
    offset = ends(bootstrap, number + 1, "read_committed")[number]
    found = read(bootstrap, TOPIC, committed=False, partition=number, offset=offset)
    return Stuck(offset, frozenset(found))


def application(workers: Workers, reads: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """What the application did and saw, as judge takes it. It is unknown what a process did that
    died before it said so."""
    found: list[Mapping[str, Any]] = []
    for producer, lines in workers.told():
        outcomes = {line[1]: OUTCOMES[line[0]] for line in lines if line[0] in OUTCOMES}
        ends = {line[1]: line[2] for line in lines if line[0] == "end"}
        sends = [line[1:] for line in lines if line[0] == "send"]
        for transaction, value, partition in sends:
            outcome = outcomes.get(value, "unknown")
            found.append({"event": "send", "producer": producer, "transaction": transaction,
                          "partition": partition, "record": value,
                          "outcome": outcome})  # fmt: skip
        for transaction in dict.fromkeys(transaction for transaction, *_ in sends):
            outcome = ends.get(transaction, "unknown")
            found.append({"event": "end", "transaction": transaction, "outcome": outcome})
    return [*found, *reads]


def judge_application(told: Told, workers: Workers, events: Sequence[Mapping[str, Any]]) -> None:
    """Compares the producers' answers with what was read."""
    view = find_anomalies(("application.jsonl", n, dict(e)) for n, e in enumerate(events, 1))
    ends = Counter(e["outcome"] for e in events if e["event"] == "end")
    told.rows["transactions, as clients reported them"] = ", ".join(
        f"{ends[outcome]:,} {outcome}" for outcome in ("committed", "aborted", "unknown")
    )
    by_client = Counter[str]()
    for producer, lines in workers.told():
        client = producer.rpartition("-")[0]
        by_client[client] += sum(line[0] == "end" and line[2] == "committed" for line in lines)
    told.rows["committed by client"] = ", ".join(f"{c} {by_client[c]:,}" for c in ALL)
    told.lacking += (f"{c} has committed nothing" for c in ALL if not by_client[c])
    told.rows["the application's view"] = (
        f"{view.sends:,} records sent, {view.reads:,} read: {len(view.anomalies)} anomalies, "
        f"{view.finding.name}"
    )
    seen = {event["record"] for event in events if event["event"] == "read"}
    for one in view.anomalies:
        text = f"{one.name} of {one.subject} in {one.partition}"
        told.wrong.append(text)
        told.missing[text] = frozenset(
            event["record"]
            for event in events
            if event["event"] == "send"
            and event["outcome"] == "acknowledged"
            and one.subject in (event["record"], event["transaction"])
        ) - seen or frozenset((one.subject,))
    if view.finding is not Finding.EXPLAINED and not view.anomalies:
        told.wrong.append(f"the application's view is {view.finding.name}: {view.unjudged[:1]}")


def judge_history(told: Told, history: Path, release: str) -> None:
    """Judges what the proxy recorded."""
    (run,) = read_runs([history])
    found: dict[str, Judgement] = dict(judge_run(run, Settings(protocol=release)))
    counts = Counter(one.finding.name for one in found.values())
    answers = sum(one.answers for one in found.values())
    overall = worst(one.finding for one in found.values())
    told.rows["the recorded history"] = (
        f"{sum(one.operations for one in found.values()):,} operations on {len(found)} keys, "
        f"{answers:,} answers judged: "
        + ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    )
    told.wrong += (
        f"{key}: {one.finding.name}: {one.operation} {one.against}"
        for key, one in found.items()
        if one.finding in (Finding.UNEXPLAINED, Finding.GAVE_UP)
    )
    if overall is Finding.UNJUDGED and not answers:
        told.wrong.append("no answer was recorded")


def judge_files(told: Told, data: Path, release: str) -> None:
    """Judges the broker's data directory."""
    found = judge_segments([data], release)
    batches = sum(part.batches for part in found.partitions)
    markers = sum(len(part.markers) for part in found.partitions)
    told.rows["the broker's files"] = (
        f"{len(found.partitions)} partitions, {batches:,} batches, {found.matched:,} of "
        f"{markers:,} markers have a decision: {found.outcome.name}"
    )
    told.wrong += map(str, found.every)


def soak(release: str, seconds: float, seed: int, rate: float, folder: Path) -> Told:
    """A run, judged."""
    told, drawn = Told(), random.Random(f"{seed} kills")
    partitions = 2 * (int(seconds / SLOT_S) + 2)
    history = folder / "history.jsonl"
    with Broker(release, folder / "broker") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for made in admin.create_topics([NewTopic(TOPIC, partitions, 1)]).values():
            made.result(SETTLED_S)
        with history.open("wb") as file, Proxy(broker.bootstrap) as proxy:
            proxy.record_in(History(file))
            proxy.faults.drawn = faults = Drawn(rate, seed, KINDS)
            plan = (str(int(time.time() * 1000)), str(SLOT_S), str(partitions), str(seed))
            workers = Workers(broker, proxy.bootstrap, folder, plan)
            try:
                kills, dead = disturb(workers, broker, seconds, drawn)
            finally:
                for client in ALL:
                    workers.end(client)
            faults.rate = 0
            told.wrong += dead
            told.rows["requests answered"] = f"{proxy.answered.total():,}"
        hanging = settled(broker.bootstrap, partitions)
        told.wrong += (f"a transaction hangs in {TOPIC}-{number}" for number in hanging)
        stuck = {f"{TOPIC}-{number}": behind(broker.bootstrap, number) for number in hanging}
        reads = read_all(broker.bootstrap, partitions)
    kinds = faults.fired_kinds
    told.rows["faults fired"] = ", ".join(f"{do} {kinds[do]:,}" for do in KINDS)
    told.rows["kills"] = f"the broker {kills}, clients {workers.kills}"
    if not kinds or not kills or not workers.kills:
        told.lacking.append("not everything was disturbed")
    events = application(workers, reads)
    (folder / "application.jsonl").write_text("\n".join(map(json.dumps, events)), encoding="utf-8")
    judge_application(told, workers, events)
    judge_history(told, history, release)
    judge_files(told, folder / "broker" / "data", release)
    told.set_apart(broker.log.read_text(errors="replace"), stuck)
    return told


def page(told: Told, release: str, seconds: float, seed: int) -> str:
    """The run as the page has it."""
    libraries = ", ".join(
        f"{name} {of}"
        for name, of in (
            ("librdkafka", confluent_kafka.libversion()[0]),
            ("aiokafka", version("aiokafka")),
            ("kafka-python", version("kafka-python")),
        )
    )
    head = {
        "the run": f"{seconds:g} s on Kafka {release}, seed {seed}",
        "clients": f"{libraries}, Java's of the broker's version",
    }
    rows = head | told.rows | {"wrong": "; ".join(told.wrong[:3]) or "nothing"}
    lines = (f"| {what} | {said} |" for what, said in rows.items())
    return "\n".join(["| subject | result |", "|---|---|", *lines]) + "\n"


def main(arguments: Sequence[str]) -> int:
    """A run; returns the exit code."""
    parser = options(__doc__, seconds=600, page=PAGE)
    parser.add_argument("--release", default=NEWEST)
    parser.add_argument("--rate", type=float, default=0.02, help="of the requests meet a fault")
    given = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="epochfence-soak-"))
    print(f"seed {given.seed}", flush=True)
    told = soak(given.release, given.seconds, given.seed, given.rate, folder)
    told.wrong += told.lacking
    made = page(told, given.release, given.seconds, given.seed)
    print(made, end="")
    print("".join(f"set apart: {each}\n" for each in told.apart), end="")
    if given.record:
        record(PAGE, "soak", made)
    if told.wrong:
        print("\n".join(told.wrong[:20]))
        print(f"all of it is in {folder}")
        return 1
    rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
