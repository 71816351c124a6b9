"""Settings of consumers and brokers, as Kafka's own classes of each release have them."""

from __future__ import annotations

import re
import subprocess
from itertools import product
from pathlib import Path

from epochfence.model.client.config import ConfigError, Value, resolve_broker, resolve_consumer
from epochfence.model.conformance.kafka.broker import Broker, java

PROGRAM = Path(__file__).parent / "Settings.java"
GRID = [
    {name: value for name, value in chosen if value is not None}
    for chosen in product(
        [("group.id", value) for value in (None, "", "g")],
        [("enable.auto.commit", value) for value in (None, "true", "false")],
        [("group.instance.id", value) for value in (None, "i", "a b")],
        [("heartbeat.interval.ms", value) for value in (None, "60000")],
        [("group.protocol", value) for value in (None, "Consumer")],
        [("group.remote.assignor", value) for value in (None, "range")],
        [("client.id", value) for value in (None, "c")],
    )
]
ALONE = [
    {name: value}
    for name, values in {
        "isolation.level": ("read_committed", "READ_COMMITTED", "x", ""),
        "auto.offset.reset": ("earliest", "none", "Latest", "x", "by_duration:PT1H", "by_duration:",
                              "by_duration:P", "by_duration:P1DT2.5S"),
        "group.instance.id": ("", ".", "..", "a" * 249, "a" * 250, "ä"),
        "max.poll.records": ("0", "1", "x", ""),
        "max.poll.interval.ms": ("0", "1"),
        "enable.auto.commit": ("yes", "TRUE"),
        "request.timeout.ms": ("10000", "10001", "500", "-1"),
        "fetch.max.wait.ms": ("305000", "304999", "-1"),
        "fetch.min.bytes": ("-1",), "session.timeout.ms": ("3000", "3001", "-5"),
        "group.protocol": ("x", "CLASSIC"), "default.api.timeout.ms": ("-1",),
        "exclude.internal.topics": ("1",), "retry.backoff.ms": ("-1",),
    }.items()
    for value in values
]  # fmt: skip


def told(settings: dict[str, str], release: str) -> str:
    """What becomes of a consumer, as the program says it."""
    try:
        resolve_consumer(settings, release)
    except ConfigError as error:
        return f"{error.name}\t{error}"
    return "ACCEPTED"


def as_java(value: Value) -> str:
    """A value as Java prints it."""
    return "null" if value is None else str(value).lower()


def test_settings_are_those_of_kafka_s_own_classes(broker: Broker) -> None:
    cases = [*GRID, *ALONE]
    lines = "".join("\t".join(f"{n}={v}" for n, v in case.items()) + "\n" for case in cases)
    done = subprocess.run(
        [java(), "-Dfile.encoding=UTF-8", "-cp", f"{broker.jars}/*", PROGRAM],
        input=lines,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
        timeout=120,
    )
    defaults: dict[tuple[str, str], str] = {}
    found: list[str] = []
    for line in done.stdout.splitlines():
        kind, _, rest = line.partition("\t")
        if kind == "case":
            found.append(rest)
        elif kind in ("consumer", "broker"):
            name, of_type, default = rest.split("\t", 2)
            defaults[kind, name] = f"{of_type} {default}"
    assert len(found) == len(cases)
    # the words of a choice in any case come in an order that Java leaves open
    same = {"CLASSIC, CONSUMER": "CONSUMER, CLASSIC"}
    differing = [
        (case, mine, theirs)
        for case, theirs in zip(cases, found, strict=True)
        if (mine := told(case, broker.release))
        != re.sub("|".join(same), lambda match: same[match[0]], theirs)
    ]
    assert differing == []
    for kind, values in (
        ("broker", resolve_broker({}, broker.release)),
        ("consumer", resolve_consumer({"group.id": "g"}, broker.release)),
    ):
        for name, value in values.items():
            known = defaults[kind, name].partition(" ")[2]
            if name not in ("group.id", "client.id"):
                assert as_java(value) == known.lower(), (kind, name)
