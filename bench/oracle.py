"""Requests a second through the executable machines and operations a second through the judge.

    .venv/bin/python bench/oracle.py            renews a table of docs/performance.md
    .venv/bin/python bench/oracle.py --quick    fewer requests; writes nothing

All of it is plain Python on one core. Every response is checked: if a request is wrongly refused,
or no order explains a history, the exit code is 1.
"""

import argparse
import gc
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from heapq import heappop, heappush
from random import Random
from typing import Any

from run import Aim, publish, tell

from epochfence.model import PartitionLeader, TransactionCoordinator
from epochfence.model.judge.judge import Finding, judge
from epochfence.model.judge.operations import Operation, Settings
from epochfence.spec.releases.api_versions import OF_BROKERS

REQUESTS, QUICK = 60_000, 2_000
TIMES = 3
FRESH = 10
"""Fresh processes that are timed, of which the fastest counts."""
IDS = 100
CLIENTS = 5
"""Clients of a key that have a request in flight at once, in the judge's histories."""
OPERATIONS = 100
"""Operations of a history."""

Asked = tuple[str, dict[str, Any], dict[str, Any]]
"""A request, its fields and its answer."""


def best(work: Callable[[], int]) -> float:
    """The units of work per second of the fastest run."""
    rates: list[float] = []
    for _ in range(TIMES):
        begun = time.process_time()
        done = work()
        rates.append(done / (time.process_time() - begun))
    return max(rates)


def expect(answer: str, what: str) -> None:
    """Raises RuntimeError for an error."""
    if answer != "NONE":
        raise RuntimeError(f"{what} was answered with {answer}")


def idempotent(count: int) -> int:
    """Appends batches of idempotent producers, in order, to one leader; returns their number."""
    leader = PartitionLeader()
    for at in range(count // IDS):
        for producer_id in range(IDS):
            answer = leader.append(
                producer_id=producer_id, producer_epoch=0, base_sequence=at, count=1
            )
            expect(answer.error, "Produce")
    return count // IDS * IDS


def transactional(count: int) -> int:
    """Runs transactions of many ids, one after the other, with the markers of each."""
    coordinator, done = TransactionCoordinator(), 0
    for partition in range(50):
        coordinator.elect(partition, 0)
    held: dict[str, tuple[int, int]] = {}
    while done < count:
        for name in map(str, range(IDS)):
            if name not in held:
                first = coordinator.init_producer_id(name, 60_000)
                assert first is not None
                held[name] = (first.producer_id, first.producer_epoch)
                done += 1
            added = coordinator.add_partitions(name, *held[name], ["t-0"], api_version=OF_BROKERS)
            expect(str(added), "AddPartitionsToTxn")
            ended = coordinator.end_txn(name, *held[name], "COMMIT")
            assert ended is not None
            expect(ended.error, "EndTxn")
            held[name] = (ended.producer_id, ended.producer_epoch)
            for markers in coordinator.drain_markers().values():
                for marker in markers:
                    results = coordinator.markers_answered(
                        marker, dict.fromkeys(marker.partitions, "NONE")
                    )
                    expect(
                        "NONE" if results[0] == "COMPLETION_WRITTEN" else results[0], "the markers"
                    )
            done += 3
    return done


def overlapping(seed: int, clients: int, ask: Callable[[Random, int], Asked]) -> list[Operation]:
    """The history of `clients` clients of one key, whose requests may overlap. `ask` sends a
    request to the machine at a given time.
    """
    random = Random(seed)
    found: list[Operation] = []
    for at in range(CLIENTS, CLIENTS + OPERATIONS):
        request, fields, answer = ask(random, at)
        early, late = (random.random() * clients / 2 for _ in "ab")
        found.append(Operation(request, fields, at - early, at + late, answer, at))
    return found


def leader_history(seed: int, clients: int) -> list[Operation]:
    """The history of producers that write to one leader."""
    leader, following = PartitionLeader(), [0] * clients

    def ask(random: Random, now: int) -> Asked:
        who = random.randrange(clients)
        fields: dict[str, Any] = {
            "producer_id": who,
            "producer_epoch": 0,
            "base_sequence": following[who],
            "count": 1,
        }
        answer = leader.append(**fields)
        expect(answer.error, "Produce")
        following[who] += 1
        return "Produce", fields, {"error": answer.error, "base_offset": answer.first_offset}

    return overlapping(seed, clients, ask)


class Coordinating:
    """The coordinator of one transactional id, with the requests of histories."""

    def __init__(self) -> None:
        self.inner, self.name = TransactionCoordinator(), "judged"
        self.inner.elect(self.inner.state_partition_of(self.name), 0)

    def write_markers(self) -> None:
        """Writes all due markers."""
        for markers in self.inner.drain_markers().values():
            for marker in markers:
                self.inner.markers_answered(marker, dict.fromkeys(marker.partitions, "NONE"))

    def ask(self, request: str, fields: dict[str, Any]) -> dict[str, Any]:
        """The response to a request."""
        if request == "AddPartitionsToTxn":
            return {"error": self.inner.add_partitions(self.name, **fields)}
        ask = self.inner.end_txn if request == "EndTxn" else self.inner.init_producer_id
        answer = ask(self.name, **fields)
        assert answer is not None
        return answer._asdict()


def identity(answer: dict[str, Any]) -> dict[str, Any]:
    """The producer id and epoch in a response, or nothing."""
    if answer.get("producer_epoch", -1) < 0:
        return {}
    return {name: answer[name] for name in ("producer_id", "producer_epoch")}


INIT: dict[str, Any] = {"transaction_timeout_ms": 60_000}


def contended_history(seed: int, clients: int) -> list[Operation]:
    """The history of requests of one transactional id in random order. They fence each other, and
    the coordinator refuses nearly half of them.
    """
    coordinator = Coordinating()
    held: dict[str, Any] = {}

    def ask(random: Random, now: int) -> Asked:
        nonlocal held
        coordinator.inner.now_ms = now
        coordinator.write_markers()
        match random.choice(["init", "add", "end", "end"]) if held else "init":
            case "init":
                request, fields = "InitProducerId", INIT
            case "add":
                request, fields = "AddPartitionsToTxn", {**held, "partitions": ["t-0"]}
            case _:
                request, fields = "EndTxn", {**held, "result": random.choice(["COMMIT", "ABORT"])}
        answer = coordinator.ask(request, fields)
        held = identity(answer) or held
        return request, fields, answer

    return overlapping(seed, clients, ask)


def instance(random: Random) -> Generator[tuple[float, str, dict[str, Any]], dict[str, Any]]:
    """Yields the requests of an application's instance, with the ms since the last response. It
    repeats requests that have to wait, and restarts when it is fenced.
    """
    while True:
        wait, answer = 300 * random.random(), {"error": "CONCURRENT_TRANSACTIONS"}
        while answer["error"] == "CONCURRENT_TRANSACTIONS":
            answer = yield wait, "InitProducerId", INIT
            wait = 20
        work: list[tuple[str, dict[str, Any]]] = []
        held = identity(answer)
        while answer["error"] in ("NONE", "CONCURRENT_TRANSACTIONS"):
            if not work:
                work = [("AddPartitionsToTxn", {"partitions": [f"t-{at}"]}) for at in range(2)]
                work.append(("EndTxn", {"result": random.choice(["COMMIT", "COMMIT", "ABORT"])}))
            request, fields = work[0]
            answer = yield 5 * random.random(), request, held | fields
            if answer["error"] == "NONE":
                work.pop(0)
                held = identity(answer) or held


def restarted_history(seed: int, clients: int) -> list[Operation]:
    """The history of instances of one application. They run transactions, and fence each other when
    they start. Each has one request in flight.
    """
    random, coordinator = Random(seed), Coordinating()
    found: list[Operation] = []
    due: list[tuple[float, float, int, str, dict[str, Any]]] = []

    def send(who: int, answered: float, next_request: tuple[float, str, dict[str, Any]]) -> None:
        wait, request, fields = next_request
        start = answered + wait
        heappush(due, (start + 3 * random.random(), start, who, request, fields))

    instances = [instance(random) for _ in range(clients)]
    for who, one in enumerate(instances):
        send(who, 0, next(one))
    while len(found) < OPERATIONS:
        now, start, who, request, fields = heappop(due)
        coordinator.inner.now_ms = int(now)
        if random.random() < 0.7:  # otherwise they stay due
            coordinator.write_markers()
        answer, end = coordinator.ask(request, fields), now + 3 * random.random()
        found.append(Operation(request, fields, start, end, answer, len(found)))
        send(who, end, instances[who].send(answer))
    return found


def judged(histories: list[list[Operation]]) -> int:
    """Judges histories, each of a different key."""
    for operations in histories:
        if judge(operations, Settings()).finding is not Finding.EXPLAINED:
            raise RuntimeError("a history of a real run isn't explained")
    return len(histories) * OPERATIONS


def all_at_once() -> float:
    """Seconds to judge a history of 40 concurrent operations that no order explains."""
    operations = [
        Operation(
            "Produce",
            {"producer_id": at, "producer_epoch": 0, "base_sequence": 0, "count": 1},
            0,
            100,
            {"error": "NONE", "base_offset": 39 - at if at else 41},
            at,
        )
        for at in range(40)
    ]
    begun = time.process_time()
    if judge(operations).finding is not Finding.UNEXPLAINED:
        raise RuntimeError("an offset that nobody can have been given is explained")
    return time.process_time() - begun


FIRST_ANSWERS = {
    "a leader": "from epochfence.model import PartitionLeader as Made; answer = Made().append("
    "producer_id=1, producer_epoch=0, base_sequence=0, count=1)",
    "a cluster": "from epochfence.model import Cluster as Made; "
    "answer = Made().init_producer_id('t')",
}
"""What fresh processes run: the first answer of each."""
ANSWERED = "; print(answer.error); import time; print(time.process_time())"


def import_time() -> float:
    """Milliseconds that `import epochfence.model` takes: the fastest of several runs."""
    code = (
        "import time; begun = time.perf_counter(); import epochfence.model; "
        "print(time.perf_counter() - begun)"
    )
    return 1000 * min(float(*fresh(code)) for _ in range(2 * TIMES))


def fresh(code: str) -> list[str]:
    """The lines that a new process prints."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


def first_answers() -> list[Aim]:
    """Milliseconds of processor time from the start of a process to its first response, without the
    interpreter's own start: the fastest of several runs.
    """

    def least(code: str) -> float:
        runs = [fresh(code + ANSWERED) for _ in range(FRESH)]
        for answer, _ in runs:
            expect(answer, "the first request of a process")
        return min(float(seconds) for _, seconds in runs)

    start = min(float(*fresh("import time; print(time.process_time())")) for _ in range(FRESH))
    found: list[Aim] = []
    for who, code in FIRST_ANSWERS.items():
        taken = least(code)
        of_it = f"first answer of {who} in a fresh process"
        found += [
            Aim(f"processor milliseconds to the {of_it}", 150, 1000 * taken, at_most=True),
            Aim(f"{of_it}, in starts of Python alone", 8, taken / start, at_most=True),
        ]
    return found


def aims(count: int) -> list[Aim]:
    """The figures with their aims."""
    tell("leader")
    leader = best(lambda: idempotent(count))
    tell("coordinator")
    coordinator = best(lambda: transactional(count))
    tell("judge")
    histories = {
        f"operations/s judged, {CLIENTS} clients at once on a {what}": [
            made(seed, CLIENTS) for seed in range(count // OPERATIONS)
        ]
        for what, made in {
            "leader": leader_history,
            "coordinator, fencing each other": contended_history,
            "coordinator, restarting": restarted_history,
        }.items()
    }
    gc.freeze()  # otherwise the garbage collector scans the histories again and again
    judgements = [
        Aim(what, 50_000, best(lambda some=some: judged(some))) for what, some in histories.items()
    ]
    return [
        Aim("milliseconds to import epochfence.model", 150, import_time(), at_most=True),
        *first_answers(),
        Aim("requests/s through a partition leader", 100_000, leader),
        Aim("requests/s through a coordinator, with its markers", 50_000, coordinator),
        *judgements,
        Aim("seconds to judge 40 operations at once", 10, all_at_once(), at_most=True),
    ]


def main() -> int:
    """Runs the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description="Speed of the executable machines.")
    parser.add_argument("--quick", action="store_true", help="fewer requests, nothing written")
    given = parser.parse_args()
    try:
        found = aims(QUICK if given.quick else REQUESTS)
    except RuntimeError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    publish("oracle", found, quick=given.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
