"""The result of a run against real brokers: as text, JSON, JUnit XML, and traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final
from xml.etree import ElementTree as Xml

from ....junit import suite_text
from ..possible_states import RowName
from .causes import RANKS, Cause, Finding, causes, name_of, rank_of
from .run import Report, why_not

SHOWN: Final = 2
"""The number of a cause's disagreements that are shown in full."""
_RANDOM: Final = "random requests didn't reach it"
_NOT_RUN: Final = "the directed suite, which tests each row, didn't finish"


def text(report: Report) -> str:
    """The printed report."""
    mode = "settled: each end is over before the next request" if report.is_settled else (
        "raw: while an end is in progress, both answers are allowed; races aren't distinguished"
    )  # fmt: skip
    lines = [
        f"{report.bootstrap}: compared with {report.protocol}, transaction.version "
        f"{report.transaction_version}",
        mode,
    ]
    if report.level == "well-behaved":
        lines.append("well-behaved: requests of honest clients alone (--level)")
    if report.without:
        without = ", ".join(report.without)
        lines.append(
            "not asked, as the user has no CLUSTER_ACTION on the cluster, or may not describe "
            f"__transaction_state: {without}"
        )
    for suite, requests in report.requests.items():
        seconds = report.seconds[suite]
        seed = f", --seed {report.seed}" if suite == "random" else ""
        lines.append(
            f"{suite}: {requests:,} requests in {seconds:.0f} s "
            f"({requests / max(seconds, 0.001):,.0f} a second){seed}"
        )
    lines.append(f"{len(report.answers)} outcomes: {_outcomes(report)}")
    lines += _rows(report)
    if report.findings:
        ranks = Counter(cause.rank for cause in causes(report.findings))
        lines.append(
            f"causes: {', '.join(f'{ranks[rank]} of {rank}' for rank in RANKS if ranks[rank])}"
        )
    number = 0
    for at, cause in enumerate(causes(report.findings), 1):
        lines.append(f"cause {at}, {cause.rank}: {cause.name}")
        for place, finding in enumerate(shortest_first(cause)):
            number += 1
            lines += _shown(number, finding, is_whole=place < SHOWN)
    for name, times in report.known.items():
        lines.append(f"known, {_count(times, 'time') if times else 'not met'}: {name}")
    lines += dict.fromkeys(f"{each}, and others took over" for each in report.went_away)
    if report.ended_early is not None:
        lines.append(f"ended early: {report.ended_early}")
    found = _count(len(report.findings), "disagreement")
    if report.known.total():
        found += f" but those that are known ({_count(report.known.total(), 'time')})"
    lines.append(f"{found}: {verdict(report)} (exit {exit_code(report)})")
    return "\n".join(lines)


def _shown(number: int, finding: Finding, *, is_whole: bool) -> list[str]:
    """A disagreement as lines: its run, or (if not `is_whole`) only the run's length."""
    how = "" if finding.count == 1 else f", {finding.count} times"
    how += ", not again by the same requests" if finding.is_repeated is False else ""
    head = f"disagreement {number}, {finding.suite}{how}:"
    if is_whole:
        return [head, str(finding.disagreement)]
    rows = " or ".join(sorted(finding.difference.rows))
    lines = len(finding.disagreement.trace)
    return [f"{head} {_count(lines, 'line')} to {rows or finding.difference.request} (--save)"]


def _rows(report: Report) -> list[str]:
    """Lines about the provoked rows, and the reasons for the others. A run with only random
    requests has only their number."""
    lines: list[str] = []
    outside = report.from_outside
    reached = [row for row in outside if row in report.provoked]
    others = [row for row in report.rows if row not in outside]
    share = 100 * len(report.provoked) / max(len(report.existing), 1)
    lines.append(
        f"{len(report.provoked)} rows of coordinator and leader provoked of {len(report.existing)} "
        f"that a broker can take ({share:.0f} of 100)"
    )
    if not report.is_directed:
        return lines
    lines.append(
        f"{len(reached)} rows provoked of {len(outside)} that a run like this one reaches; "
        f"{len(others)} others, of {len(report.rows)} of coordinator and leader, need more:"
    )
    missing = [row for row in outside if row not in report.provoked]
    not_run = [row for row in missing if _why(row, report) == _NOT_RUN]
    for row in missing:
        if row not in not_run:
            lines.append(f"  not {_named(row)}: {_why(row, report)}")
    if not_run:
        lines.append(f"  {_count(len(not_run), 'row')}: {_NOT_RUN}")
    reasons: dict[str, list[RowName]] = {}
    for row in others:
        reasons.setdefault(_why(row, report), []).append(row)
    for why, rows in reasons.items():
        events = ", ".join(dict.fromkeys(row.event for row in rows))
        lines.append(f"  {_count(len(rows), 'row')} of {events}: {why}")
    return lines


def shortest_first(cause: Cause) -> list[Finding]:
    """The disagreements of a cause, the shortest run first."""
    return sorted(cause.findings, key=lambda finding: len(finding.disagreement.trace))


def in_order(report: Report) -> list[Finding]:
    """All disagreements, in the order of their causes."""
    return [finding for cause in causes(report.findings) for finding in shortest_first(cause)]


def exit_code(report: Report) -> int:
    """12 if the brokers disagree; else 1 after an internal error, 130 if the run was interrupted, 2
    if the brokers went away before the end, and 20 if nothing was compared or a broker went away
    while others took over: it may have crashed."""
    if report.findings:
        return 12
    if report.internal is not None:
        return 1
    if report.interrupted:
        return 130
    if report.ended_early is not None:
        return 2
    return 20 if report.went_away or not report.answers else 0


def verdict(report: Report) -> str:
    """The verdict in a word."""
    words = {12: "DISAGREES", 0: "CONFORMS", 20: "UNJUDGED", 130: "INTERRUPTED"}
    return words.get(exit_code(report), "INCOMPLETE")


def as_json(report: Report) -> Mapping[str, Any]:
    """The result as plain data. A row is `reachable` if a run of this kind can provoke it."""
    outside = report.from_outside
    return {
        "bootstrap": report.bootstrap,
        "protocol": report.protocol,
        "transaction_version": report.transaction_version,
        "settled": report.is_settled,
        "level": report.level,
        "seed": report.seed,
        "verdict": verdict(report),
        "ended_early": report.ended_early,
        "without": report.without,
        "went_away": report.went_away,
        "lacking": [one._asdict() for one in report.lacking],
        "versions": {name: list(span) for name, span in sorted(report.versions.items())},
        "requests": report.requests,
        "seconds": report.seconds,
        "outcomes": [
            {"request": request, "error": error, "count": count}
            for (request, error), count in sorted(report.answers.items())
        ],
        "rows": [
            {
                **row._asdict(),
                "reachable": row in outside,
                "provoked": row in report.provoked,
                "why": None if row in report.provoked else _why(row, report),
            }
            for row in report.rows
        ],
        "disagreements": [
            {
                "cause": name_of(finding.disagreement),
                "rank": rank_of(finding.disagreement),
                "suite": finding.suite,
                "text": str(finding.disagreement),
                "count": finding.count,
                "repeated": finding.is_repeated,
                "trace": [exchange.line for exchange in finding.disagreement.trace],
                "response": finding.disagreement.trace[-1].response,
                "allowed": finding.disagreement.allowed,
                "reasons": [list(lines) for lines in finding.disagreement.reasons],
            }
            for finding in in_order(report)
        ],
        "causes": [
            {"rank": cause.rank, "name": cause.name, "count": cause.count, "rows": cause.rows}
            for cause in causes(report.findings)
        ],
        "known": dict(report.known),
    }


def junit(report: Report) -> str:
    """JUnit XML: a test case for each row, skipped if the row wasn't provoked, and one for each
    cause of disagreements. A run with only random requests has only the provoked rows."""
    suite = Xml.Element("testsuite", name=f"epochfence {report.protocol}")
    for row in report.rows:
        name = f"{row.event}, {row.row}"
        case = Xml.SubElement(suite, "testcase", classname=row.machine, name=name)
        if row not in report.provoked:
            if not report.is_directed:
                suite.remove(case)
                continue
            Xml.SubElement(case, "skipped", message=_why(row, report))
    for cause in causes(report.findings):
        kind = f"disagreement: {cause.rank}"
        case = Xml.SubElement(suite, "testcase", classname=kind, name=cause.name)
        texts = [str(finding.disagreement) for finding in shortest_first(cause)]
        message = f"{texts[0].partition(chr(10))[0]}, {_count(cause.count, 'time')}"
        Xml.SubElement(case, "failure", message=message).text = "\n\n".join(texts)
    for name, times in report.known.items():
        case = Xml.SubElement(suite, "testcase", classname="known difference", name=name)
        Xml.SubElement(case, "skipped", message=_count(times, "time"))
    if report.ended_early is not None:
        case = Xml.SubElement(suite, "testcase", classname="run", name="to the end")
        Xml.SubElement(case, "error", message=report.ended_early)
    elif not report.answers:
        case = Xml.SubElement(suite, "testcase", classname="run", name="some answer")
        Xml.SubElement(case, "error", message="nothing was compared")
    return suite_text(suite)


def traces(report: Report) -> Iterator[tuple[str, str]]:
    """A file for each disagreement (name and text), for `replay` and `epochfence diff`."""
    for number, finding in enumerate(in_order(report), 1):
        yield f"disagreement-{number}.jsonl", finding.disagreement.lines()


def _why(row: RowName, report: Report) -> str:
    if not report.is_directed:
        return _RANDOM
    return report.missed.get(row) or why_not(row) or _NOT_RUN


def _named(row: RowName) -> str:
    source = f" ({row.source})" if row.source else ""
    return f"{row.machine}: {row.event}, row {row.row}{source}"


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"


def _outcomes(report: Report) -> str:
    refused = sum(count for (_, error), count in report.answers.items() if error != "NONE")
    total = sum(report.answers.values())
    return f"{total - refused:,} answers without an error, {refused:,} refusals"
