"""Tries clients on the rule book: `python tests/clients/rules.py [CLIENT...]` renews the tables in
docs/clients.md. Needs Go, Node.js, and Java with the jars that `make brokers` brings.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from epochfence.model.conformance.findings import java_client
from epochfence.model.conformance.kafka.broker import VERSIONS, bring
from epochfence.model.serve.rules.book import RULES, VALUES, number_of
from epochfence.model.serve.rules.suite import Finding, Verdict, tried
from epochfence.tests.clients.run import CLIENTS as BUILT
from epochfence.tests.clients.run import PAGE, built

HERE: Final = Path(__file__).parent
BEGIN, END = "<!-- tried rules -->\n", "<!-- until the tried rules' end -->\n"
KAFKA: Final = VERSIONS["4.4"]
SHOWN: Final = {Verdict.PASSED: "pass", Verdict.FAILED: "**fails**", Verdict.SKIPPED: "–"}


def python(name: str) -> list[str]:
    """The command of a client in Python."""
    return [sys.executable, str(HERE / "python" / "driven.py"), name]


def _built(name: str, *call: str) -> list[str]:
    (client,) = (each for each in BUILT if each.name == name)
    folder = built(client)
    return [str(folder / part) if (folder / part).exists() else part for part in call]


def _java() -> list[str]:
    folder = tempfile.mkdtemp()
    jars = f"{bring(KAFKA)}/*"
    source = Path(java_client.__file__).with_name("Driven.java")
    subprocess.run(
        ["javac", "-nowarn", "-proc:none", "-cp", jars, "-d", folder, str(source)],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    return ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp",
            f"{jars}{os.pathsep}{folder}", "Driven"]  # fmt: skip


COMMANDS: Final[dict[str, Callable[[], list[str]]]] = {
    f"Java {KAFKA}": _java,
    "librdkafka 2.16.1": lambda: python("librdkafka"),
    "aiokafka 0.14.0": lambda: python("aiokafka"),
    "kafka-python 3.0.12": lambda: python("kafka-python"),
    "franz-go 1.22.3": lambda: _built("franz-go", "clients", "franz-go", "rules"),
    "sarama 1.61.1": lambda: _built("sarama", "clients", "sarama", "rules"),
    "kafkajs 2.2.4": lambda: _built("kafkajs", "node", "kafkajs.js", "rules"),
    "krafka 0.28.1": lambda: _built("krafka", "target/debug/clients", "rules"),
    "kafka-go 0.4.51": lambda: _built("kafka-go", "clients", "kafka-go", "rules"),
}
READERS: Final = {"kafka-go 0.4.51": "it has no transactional producer: franz-go writes for it"}
"""Clients that are only tried as readers, and why."""


def verdicts(client: str, command: list[str]) -> Iterator[Finding]:
    """The findings of a client on all rules."""
    why = READERS.get(client)
    for rule in RULES:
        if why and VALUES not in rule.steps:
            yield Finding(rule, Verdict.SKIPPED, why)
        else:
            yield from tried(command, [rule])


_RECORDS: Final = "leaves it to the application, which looks at each record's result and aborts"
_EXPERIMENTAL: Final = "calls the idempotent producer experimental"
DOCUMENTED: Final = {
    ("aiokafka 0.14.0", "failed-record-fails-commit"): _RECORDS,
    ("franz-go 1.22.3", "failed-record-fails-commit"): _RECORDS,
    ("kafkajs 2.2.4", "failed-record-fails-commit"): _RECORDS,
    ("kafkajs 2.2.4", "five-in-flight"): _EXPERIMENTAL,
    ("kafkajs 2.2.4", "keep-the-order"): _EXPERIMENTAL,
}
"""What a client's documentation says of a rule that it breaks."""


def tables(found: dict[str, list[Finding]]) -> str:
    """The verdicts by rule and client, and the reasons of failures."""
    lines = [f"| rule | {' | '.join(found)} |", "|---" * (len(found) + 1) + "|"]
    for at, rule in enumerate(RULES):
        cells = [SHOWN[those[at].verdict] for those in found.values()]
        lines.append(f"| {number_of(rule)} {rule.id} | {' | '.join(cells)} |")
    lines += [
        "",
        "| client | rule | its run | Kafka's client | its documentation |",
        "|---" * 5 + "|",
    ]
    for client, those in found.items():
        for each in those:
            if each.verdict is Verdict.FAILED:
                why = each.why.replace("|", "/")
                short = why if len(why) < 160 else f"{why[:157]}..."
                row, said = each.rule.rows[0], DOCUMENTED.get((client, each.rule.id), "–")
                lines.append(f"| {client} | {each.rule.id} | {short} | {row} | {said} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Tries the clients, and renews the tables if all were tried."""
    chosen = sys.argv[1:] or list(COMMANDS)
    found: dict[str, list[Finding]] = {}
    for client, command in COMMANDS.items():
        if client not in chosen:
            continue
        found[client] = []
        for each in verdicts(client, command()):
            found[client].append(each)
            print(client, each.rule.id, each.verdict.value, each.why, flush=True)
    if chosen == list(COMMANDS):
        text = PAGE.read_text(encoding="utf-8")
        before, _, rest = text.partition(BEGIN)
        _, _, after = rest.partition(END)
        PAGE.write_text(f"{before}{BEGIN}{tables(found)}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
