"""What each client does in the schedule of each known bug, as docs/clients.md shows it.

`python tests/model/serve/gallery.py` runs all clients and writes the tables of the page;
`--schedules` first searches for the bugs' runs, and writes the calls and faults in them to
known_bugs.json. Java's client needs the jars that `make brokers` brings.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from epochfence.checker.check import check
from epochfence.checker.trace.chart.chart import chart_of
from epochfence.checker.trace.schedule.schedule import Call, NoScheduleError, Schedule, schedule_of
from epochfence.files import write_whole
from epochfence.model.serve.faults import scripts
from epochfence.spec.bugs import BUGS, bug_of
from epochfence.spec.bugs.bug import Bug
from epochfence.tests.driver import record
from epochfence.tests.model.serve.driven import CLIENTS, outcome

HERE: Final = Path(__file__).parent
FILE: Final = HERE.parents[2] / "model" / "serve" / "faults" / scripts.FILE
PAGE: Final = HERE.parents[2] / "docs" / "clients.md"
Entry = dict[str, Any]


def entry_of(bug: Bug) -> Entry:
    """What a bug's run asks of clients and network, or why it asks nothing of them."""
    if bug.declared.name not in ("transactions", "idempotence"):
        return {"bug": bug.id, "why": f"its system is {bug.declared.name}"}
    if not bug.releases:
        return {"bug": bug.id, "why": "no release of Kafka's has it"}
    instance = bug.broken()
    trace = check(instance).trace
    assert trace is not None
    try:
        found = schedule_of(chart_of(trace), by_clock=False)
    except NoScheduleError as error:
        return {"bug": bug.id, "why": str(error)}
    if instance.constants["faults"] and not (found.faults or found.expiries):
        return {"bug": bug.id, "why": "its faults happen inside of brokers"}
    return {
        "bug": bug.id,
        "transactional": instance.system.name == "transactions",
        "partitions": instance.constants.get("partitions", 1),
        "calls": [list(call) for call in found.calls],
        "faults": [dict(f) for f in found.faults],
        "expiries": list(found.expiries),
    }


def schedules() -> list[Entry]:
    """The entries of the file."""
    return scripts.entries()


def schedule(entry: Entry) -> Schedule:
    """The schedule of an entry."""
    calls = tuple(Call(*call) for call in entry["calls"])
    return Schedule(calls, tuple(entry["faults"]), (), tuple(entry["expiries"]))


def releases(bug: str) -> tuple[str, ...]:
    """The last release that has a bug, and the first that hasn't, where there is one."""
    found = bug_of(bug)
    mended = () if found.fixed_at in found.releases else (found.fixed_at,)
    return (found.releases[-1], *mended)


def cell(client: str, release: str, entry: Entry) -> str:
    """What a client does in a schedule on a release."""
    asked = schedule(entry), entry["partitions"]
    return outcome(client, release, *asked, transactional=entry["transactional"]).text()


def rows() -> Iterator[tuple[Entry, str]]:
    """Each schedule with each release that it is tried on."""
    for entry in schedules():
        if "calls" in entry:
            for release in releases(entry["bug"]):
                yield entry, release


def head(entry: Entry, release: str) -> str:
    """What a line of the table begins with."""
    return f"| {entry['bug']} | {release} |"


def tables() -> str:
    """The table of all schedules, and the bugs that have none, with the reasons."""
    lines = [f"| bug | at | {' | '.join(CLIENTS)} |", "|---" * (len(CLIENTS) + 2) + "|"]
    for entry, release in rows():
        cells = [cell(client, release, entry) for client in CLIENTS]
        lines.append(f"{head(entry, release)} {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    lines += ["", "| bug | why clients have no part in it |", "|---|---|"]
    lines += [f"| {each['bug']} | {each['why']} |" for each in schedules() if "why" in each]
    return "\n".join(lines) + "\n"


def shown(client: str, entry: Entry, release: str) -> str:
    """The cell that the page has."""
    text = PAGE.read_text(encoding="utf-8")
    (row,) = (line for line in text.splitlines() if line.startswith(head(entry, release)))
    return row.split(" | ")[2 + list(CLIENTS).index(client)].removesuffix(" |").strip()


if __name__ == "__main__":
    if "--schedules" in sys.argv:
        entries = [json.dumps(entry_of(bug)) for bug in BUGS]
        write_whole(FILE, "[\n" + ",\n".join(entries) + "\n]\n")
    record(PAGE, "bugs", tables())
