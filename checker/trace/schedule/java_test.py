"""A schedule as a Java test for Maven: Kafka's own client connects to a broker through the
proxy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import fill
from typing import Final

from ....model.serve.faults.faults import script_text
from .schedule import CLOCK_MS, NoScheduleError, Schedule

_HERE: Final = Path(__file__).with_name("java")
_HANGING, _AS_REPORTED = "run.nothingHangs();", "run.committedAsTold();"
ENDS: Final[Mapping[str, str]] = {
    "NoHangingTransaction": _HANGING,
    "OutcomeAsReported": _AS_REPORTED,
    "NoLostAcknowledgement": _AS_REPORTED,
    "NotFencedByItself": "run.nothingFatal();",
    "OneEpochForADecision": "Epochs.inTurn(run, {decisions});",
    "EpochsInTurn": "Epochs.inTurn(run, {decisions});",
}
"""How a property shows from outside, at the end of a run."""
_WIDTH: Final = 96
_TEST: Final = """\
import java.util.Map;
import org.junit.jupiter.api.Test;

/*
{reason}
*/
class {name} {{
    @Test
    void run() throws Exception {{
        Map<String, String> settings = Map.of({settings});
        try (Run run = new Run("faults.json", {partitions}, settings)) {{
{body}
        }}
    }}
}}
"""


def java_test(
    schedule: Schedule, broken: str, reason: str, partitions: int
) -> tuple[str, dict[str, str]]:
    """The name of the test, and the files of its Maven project, by path.

    `broken` is the property that the run breaks, `reason` describes the run. Raises NoScheduleError
    if the property isn't visible outside of a broker.
    """
    if broken not in ENDS:
        known = ", ".join(sorted(ENDS))
        raise NoScheduleError(f"{broken or 'its end'} isn't visible from outside (as {known})")
    name = f"{broken}Test"
    test = _TEST.format(
        name=name,
        reason=comment(reason),
        partitions=partitions,
        settings=", ".join(_settings(schedule)),
        body="\n".join(f"            {line}" for line in _body(schedule, broken)),
    )
    source, resources = "src/test/java", "src/test/resources"
    files = {"pom.xml": _read("pom.xml"), f"{source}/Run.java": _read("Run.java")}
    if "Epochs." in ENDS[broken]:
        files[f"{source}/Epochs.java"] = _read("Epochs.java")
    files[f"{source}/{name}.java"] = test
    files[f"{resources}/faults.json"] = script_text(schedule.faults)
    return name, files


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def comment(text: str) -> str:
    """The text as lines of a Java comment."""
    return fill(text.replace("*/", "* /"), _WIDTH, initial_indent=" * ", subsequent_indent=" * ")


def _settings(schedule: Schedule) -> Iterator[str]:
    """The settings of the clients. Their batches expire in time if the run's do."""
    found = {"transaction.timeout.ms": "1000" if schedule.timeouts else "60000"}
    if schedule.expiries:
        found |= {"request.timeout.ms": "1500", "delivery.timeout.ms": "1500"}
    for name, value in found.items():
        yield f'"{name}", "{value}"'


def _body(schedule: Schedule, broken: str) -> Iterator[str]:
    """The steps of the application, and the checks at the end."""
    steps: list[tuple[int, list[str]]] = []
    for call in schedule.calls:
        of = f'"{call.client}"'
        if call.what == "send":
            of += f", {call.on.removeprefix('partition')}"
        elif call.what == "beginTransaction":
            of += f', "{call.on}"'
        steps.append((call.step, [f"run.{call.what}({of});"]))
        if call.ends is not None:
            steps.append((call.ends, [f'run.await("{call.client}");']))
    clients = list(dict.fromkeys(call.client for call in schedule.calls))
    for step in schedule.timeouts:
        steps.append((step, [f"Thread.sleep({CLOCK_MS});  // its transaction times out"]))
    for step in schedule.expiries:
        waits = [f'run.awaitRecords("{client}");' for client in clients]
        # Later requests would wait behind a held request on its connection.
        steps.append((step, [*waits, "Thread.sleep(1_000);  // its request is given up, too"]))
    for step, lines in sorted(steps, key=lambda each: each[0]):
        yield f"// step {step}"
        yield from lines
    decisions = len(schedule.timeouts) + sum(
        call.what in ("commitTransaction", "abortTransaction") for call in schedule.calls
    )
    yield f"// {broken}"
    yield "run.allFired();"
    yield ENDS[broken].format(decisions=decisions)
