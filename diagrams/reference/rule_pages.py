"""The generated page of the rules for clients, and the same as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from ...model.serve.rules.book import RULES, Rule, Step, Wanted, number_of
from ...spec.bugs import bug_of

PAGE, DATA = "rules.md", "rules.json"
_NOTE: Final = "<!-- Generated from model/serve/rules/book.py by `make docs`. -->"
_HEAD: Final = f"""\
{_NOTE}

# Rules for clients

A client keeps exactly-once only if it keeps these {len(RULES)} rules. Each has the row of Kafka's
own client that keeps it, and its source. It names the property that breaks without it, a run of the
checker that shows this, the broker's answer that the rule relies on, and released clients that
broke it. [rules.json](rules.json) has the same for programs.

`epochfence serve --rules COMMAND` tries a client on the rules. COMMAND starts a small program of
yours, which makes the calls of its standard input with the client's library:

| line | call |
| --- | --- |
| `initTransactions`, `beginTransaction`, `commitTransaction`, `abortTransaction` | that call |
| `send PARTITION VALUE` | sends a record, and doesn't wait for its answer |
| `flush` | waits until all records are answered, and fails if one has failed |
| `values PARTITION` | prints the committed records of the partition, separated by commas |
| `poll` | prints the next records that a member of the group gets: none if none comes in 8 s |
| `sendOffsets` | sends the offsets behind these records in the transaction |
| `leave` | closes the member |

The program gets its settings as arguments, such as `bootstrap.servers=127.0.0.1:4001`,
`topic=orders`, `client.id=a` and, for a transactional producer, `transactional.id=id-a`. A member
of a group gets `group.id=workers`, joins it at the first `poll`, and reads the topic `input=input`
with read_committed and from the earliest offset on; its requests have the same client id. The
program prints `ready`, then a line for each call: `ok`, an error, or `unsupported`. Everything else
belongs on standard error. `tests/clients/` has such programs for [clients](clients.md#rules).

Each rule has a cluster and a program of its own. The suite injects the faults, and compares three
things: the reported outcomes, the requests, and the log. A rule is not tried if the program lacks a
call, or if the client never sends the request that the fault is for. The exit code is 0 if no rule
is broken, and 12 if one is. `--rule RULE` tries one, and `--junit FILE` and `--json FILE` write
reports.

| rule | in short | breaks without it |
| --- | --- | --- |
"""


def pages() -> dict[str, bytes]:
    """The generated files by their path in the documentation's folder."""
    table = "".join(
        f"| [{number_of(rule)}](#{number_of(rule)}-{rule.id}) | "
        f"{rule.text.partition('. ')[0].rstrip('.')} | {rule.breaks or '–'} |\n"
        for rule in RULES
    )
    text = _HEAD + table + "".join("\n" + "\n".join(_lines(rule)) for rule in RULES)
    data = json.dumps({"rules": [as_json(rule) for rule in RULES]}, indent=2) + "\n"
    return {PAGE: text.encode(), DATA: data.encode()}


def _lines(rule: Rule) -> Iterator[str]:
    yield f"## {number_of(rule)}. {rule.id}\n"
    yield f"{rule.text}\n"
    yield f"**Otherwise:** {rule.why}\n"
    rows = ", ".join(f"`{row}`" for row in rule.rows)
    yield f"* Rows: {rows} ({rule.source})."
    yield f"* {_shown(rule)}"
    yield f"* The broker's answer: `{rule.vector}`, in the files of [vectors](vectors.md)."
    if rule.broke:
        yield f"* Broken by {', '.join(rule.broke)}."
    given = "".join(f", with `{name}={value}`" for name, value in rule.client.items())
    yield f"* Tried at {rule.release}{given}: {_calls(rule.steps)}.\n"
    if rule.faults:
        faults = json.dumps([dict(fault) for fault in rule.faults])
        yield f"```json\n{faults}\n```\n"


def _shown(rule: Rule) -> str:
    if rule.bug:
        bug = bug_of(rule.bug)
        shown = f"`epochfence bugs {bug.id}` prints the shortest run"
        return f"Breaks {rule.breaks}: {shown} ({bug.title})."
    if rule.without is not None:
        return (
            f"Breaks {rule.breaks}, if the system {rule.without.system} has no row "
            f"`{rule.without.row}`. This prints the shortest run: `{rule.command}`."
        )
    assert rule.harmless is not None
    given = {name: n for name, n in rule.harmless.constants.items() if n}
    constants = ", ".join(f"{name}={n}" for name, n in given.items())
    return (
        f"No run that was tried breaks a property: without the row `{rule.harmless.row}` all of "
        f"them hold in the system {rule.harmless.system} at {rule.harmless.release}, with "
        f"{constants}."
    )


def _calls(steps: tuple[Step, ...]) -> str:
    several = len({step.by for step in steps}) > 1
    return ", ".join(
        f"`{f'{step.by}: ' if several else ''}{_short(step.call)}`"
        + (" (fails)" if step.wanted is Wanted.FAILS else "")
        + ("" if step.gives is None else f" ({step.gives or 'none'})")
        for step in steps
    )


def _short(call: str) -> str:
    return call if len(call) < 40 else f"{call[:16]}…"


def as_json(rule: Rule) -> dict[str, Any]:
    """A rule for other programs."""
    run: dict[str, Any] | None = None
    if rule.bug:
        run = {"bug": rule.bug, "command": rule.command}
    elif rule.without is not None:
        run = {
            "system": rule.without.system,
            "without_row": rule.without.row,
            "constants": dict(rule.without.constants),
            "release": rule.without.release,
            "command": rule.command,
        }
    return {
        "number": number_of(rule), "id": rule.id, "text": rule.text, "otherwise": rule.why,
        "rows": rule.rows, "source": rule.source, "property": rule.breaks or None, "run": run,
        "vector": rule.vector, "broke": rule.broke, "release": rule.release,
        "steps": [
            {"by": step.by, "call": step.call, "wanted": step.wanted.value}
            | ({} if step.gives is None else {"gives": step.gives})
            for step in rule.steps
        ],
        "faults": [dict(fault) for fault in rule.faults], "settings": dict(rule.settings),
        "client": dict(rule.client), "checks": rule.checks,
    }  # fmt: skip
