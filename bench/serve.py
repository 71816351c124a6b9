"""Load on a served cluster: clients of librdkafka with transactions, and faults between them.

`python bench/serve.py` starts `epochfence serve` and 200 clients. Each sends transactions of one
record, one after another, and a consumer reads the committed records. The script prints the
transactions per minute of processor time, the growth of memory, and whether a committed record is
missing.
"""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer

PARTITIONS, SIZE = 4, 1000
PATIENCE_S = 60
QUIET = logging.getLogger("quiet")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


def used(process: int) -> tuple[float, float]:
    """The processor time of a process in seconds, and its memory in MB."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return (int(fields[11]) + int(fields[12])) / ticks, pages * os.sysconf("SC_PAGE_SIZE") / 1e6


class Load:
    """The clients, with the records that they committed and read."""

    def __init__(self, bootstrap: str, clients: int) -> None:
        self.bootstrap, self.clients = bootstrap, clients
        self.producers: dict[int, Producer] = {}
        """By client. Frames don't name them: exceptions keep these, and with them connections."""
        self.committed: set[str] = set()
        self.failed = 0
        self.read: set[str] = set()
        self.over = threading.Event()
        self.ended = threading.Event()

    def produce(self, number: int) -> None:
        """One client's transactions."""
        while not self.over.is_set():
            self.producers[number] = Producer(
                {
                    "bootstrap.servers": self.bootstrap,
                    "transactional.id": f"client-{number}",
                    "linger.ms": 0,
                    "socket.timeout.ms": 10_000,
                },
                logger=QUIET,
            )
            try:
                self.producers[number].init_transactions(PATIENCE_S)
                self._transactions(number)
            except KafkaException:
                self.failed += 1  # after a fatal error another instance continues

    def _transactions(self, number: int) -> None:
        count = 0
        while not self.over.is_set():
            value = f"{number}.{os.urandom(4).hex()}.{count}".ljust(SIZE)
            self.producers[number].begin_transaction()
            self.producers[number].produce("load", value, partition=number % PARTITIONS)
            try:
                self.producers[number].commit_transaction(PATIENCE_S)
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
                self.failed += 1
                self.producers[number].abort_transaction(PATIENCE_S)
            else:
                self.committed.add(value)
            count += 1

    def consume(self) -> None:
        """Reads the committed records."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "load",
                "log_level": 0,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe(["load"])
        until = None
        while until is None or time.monotonic() < until:
            messages = consumer.consume(1000, 0.2)
            self.read |= {(one.value() or b"").decode() for one in messages if one.error() is None}
            if self.ended.is_set() and (until is None or self.committed - self.read):
                until = until or time.monotonic() + PATIENCE_S
            if self.ended.is_set() and not self.committed - self.read:
                break
        consumer.close()

    def run(self, seconds: float, process: int) -> list[tuple[float, float, int]]:
        """Processor time, memory and committed transactions, at the start and after each fifth."""
        threads = [
            threading.Thread(target=self.produce, args=(number,), daemon=True)
            for number in range(self.clients)
        ]
        consumer = threading.Thread(target=self.consume)
        for thread in (*threads, consumer):
            thread.start()
        while len(self.committed) < self.clients:
            time.sleep(0.1)
        found = [(*used(process), len(self.committed))]
        for _ in range(5):
            time.sleep(seconds / 5)
            found.append((*used(process), len(self.committed)))
        self.over.set()
        for thread in threads:
            thread.join(PATIENCE_S)
        self.ended.set()
        consumer.join()
        return found


def main() -> int:
    """Runs the load and prints the figures."""
    parser = argparse.ArgumentParser(description="Load on a served cluster.")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--segment", type=int, default=1 << 20, help="bytes of a segment")
    parser.add_argument("--random", type=float, default=0.01, help="rate of faults")
    parser.add_argument("--release", default="4.4")
    given = parser.parse_args()
    command = [sys.executable, "-m", "epochfence.cli", "serve", "--port", "0"]
    command += ["--topic", f"load:{PARTITIONS}"]
    command += ["--broker-config", f"log.segment.bytes={given.segment}"]
    command += ["--broker-config", f"log.retention.bytes={given.segment}"]
    command += ["--protocol", given.release]
    command += ["--random", str(given.random)] if given.random else []
    served = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert served.stdout is not None
    load = Load(served.stdout.readline().strip().partition("bootstrap.servers=")[2], given.clients)
    found = load.run(given.seconds, served.pid)
    served.terminate()
    said, _ = served.communicate()
    (begun, _, first), (ended, _, last) = found[0], found[-1]
    count, minutes = last - first, (ended - begun) / 60
    print(
        f"{count:,} transactions of {given.clients} clients in {given.seconds:g} s, "
        f"{load.failed} failed; {count / minutes:,.0f} in a minute of processor time"
    )
    print("memory in MB after each fifth: " + ", ".join(f"{memory:.0f}" for _, memory, _ in found))
    print(f"{len(load.committed - load.read)} of {len(load.committed):,} records are missing")
    print("\n".join(said.splitlines()[:1]))
    return int(bool(load.committed - load.read))


if __name__ == "__main__":
    sys.exit(main())
