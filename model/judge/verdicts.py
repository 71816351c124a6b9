"""The printed result of `epochfence judge`, its exit code and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from .application.anomalies import ANOMALIES, find_anomalies
from .application.inputs import places
from .histories import Run, read_lines, read_runs
from .judge import Finding, Judgement, judge, worst
from .machines.decisions import OFFSETS
from .operations import Settings, shown


def print_judgements(
    paths: Sequence[Path], settings: Settings, limit: int, runs: str | None = None
) -> tuple[int, Mapping[str, Any]]:
    """Judges each key of the files' history, and prints the result. Returns the exit code, by the
    worst finding, and the result as plain data. Ctrl-C keeps the results so far. Raises
    BadLineError, ModelError, DeclarationError and OSError.
    """
    recorded = read_runs(paths, runs)
    history = {key: those for run in recorded for key, those in run.keys.items()}
    files = {o.file for operations in history.values() for o in operations}
    empty = sorted({str(path) for path in paths} - files)
    found: dict[str, Judgement] = {}
    left = [Finding.INTERRUPTED]
    with suppress(KeyboardInterrupt):
        for run in recorded:
            found.update(judge_run(run, settings, limit))
        left.clear()
    findings = [judgement.finding for judgement in found.values()]
    overall = worst([*left, *findings, *[Finding.UNJUDGED] * len(empty)])
    operations = sum(judgement.operations for judgement in found.values())
    answers = sum(judgement.answers for judgement in found.values())
    keys = f"{len(found)} of {len(history)}" if left else len(found)
    print(
        f"{operations} operations on {keys} keys, {answers} answers judged: "
        f"{overall.name} (exit {overall.exit_code})"
    )
    tell_without_lines(empty)
    for key, judgement in found.items():
        _tell(key, judgement, is_excerpt=settings.excerpt)
    by_key = {key: _as_json(judgement) for key, judgement in found.items()}
    summary = {"operations": operations, "answers": answers, "empty": empty}
    summary["excerpt"] = settings.excerpt
    return overall.exit_code, {
        "finding": overall.name,
        "protocol": settings.protocol,
        **summary,
        "keys": by_key,
    }


def judge_run(
    run: Run, settings: Settings, limit: int = 1_000_000
) -> Iterator[tuple[str, Judgement]]:
    """Judges each key of a run, partitions together with their transactional ids. Raises as
    `judge`."""
    decisions = run.decisions(settings.protocol)
    partitions = run.names.get("partition", {})
    for key, operations in run.keys.items():
        offsets = OFFSETS if key in run.names.get("group_id", {}) else None
        log = partitions.get(key, offsets)
        about = None if log is None else decisions.at(log)
        yield key, judge(operations, settings, limit, about=about)


def tell_without_lines(paths: Iterable[str]) -> None:
    """Prints the paths without lines: their recorder may have died."""
    for path in paths:
        print(f"{path}: no line, {Finding.UNJUDGED.name}")


EXCERPT = "Does the recording begin in the middle of a log? Then use --excerpt."


def _tell(key: str, judgement: Judgement, *, is_excerpt: bool) -> None:
    print(
        f"{key}: {judgement.operations} operations, {judgement.answers} answers judged, "
        f"{judgement.finding.name}{' from an unknown state' if is_excerpt else ''}"
    )
    for still in judgement.open:
        print(f"  at the end {still}")
    operation = judgement.operation
    if operation is None:
        return
    print(f"  {operation.file}, line {operation.line}: {operation}")
    if judgement.against:
        print(f"  {judgement.against}")
    if judgement.note:
        print(f"  No order explains it all: {judgement.note} (--limit)")
    if judgement.allowed or not (judgement.note or judgement.against):
        print("  No order explains this response. Allowed:")
    for answer, reasons in zip(judgement.allowed, judgement.reasons, strict=True):
        print(f"    {shown(answer)}")
        for line in reasons:
            print(f"      {line}")
    if not judgement.allowed and not judgement.note and not judgement.against:
        print("    none: what was answered by then can't be followed by this request")
    if judgement.may_be_excerpt:
        print(f"  {EXCERPT}")


def _as_json(judgement: Judgement) -> Mapping[str, Any]:
    operation = judgement.operation
    return {
        "finding": judgement.finding.name,
        "operations": judgement.operations,
        "answers": judgement.answers,
        "configurations": judgement.configurations,
        "file": operation and operation.file,
        "line": operation and operation.line,
        "response": operation and operation.response,
        "allowed": list(judgement.allowed),
        "reasons": list(judgement.reasons),
        "note": judgement.note,
        "against": judgement.against,
        "may_be_excerpt": judgement.may_be_excerpt,
        "open": list(judgement.open),
    }


def print_anomalies(paths: Sequence[Path]) -> tuple[int, Mapping[str, Any]]:
    """Prints the anomalies that an application saw, and the inputs that couldn't be judged. Returns
    the exit code and the result as plain data. Raises BadLineError and OSError."""
    lines = ((str(p), number, line) for p in paths for number, line in read_lines(p, "application"))
    view = find_anomalies(lines)
    empty = sorted({str(path) for path in paths} - set(view.files))
    finding = worst([view.finding, *[Finding.UNJUDGED] * len(empty)])
    counts = {"sends": view.sends, "ends": view.ends, "reads": view.reads}
    counts |= {"inputs": view.inputs} if view.inputs else {}
    print(
        f"{', '.join(f'{count} {name}' for name, count in counts.items())}: "
        f"{len(view.anomalies)} anomalies, {finding.name} (exit {finding.exit_code})"
    )
    for name, subject, partition, line, file, others in view.anomalies:
        print(f"{file}, line {line}: {name} of {subject} in {partition}. {ANOMALIES[name]}")
        if others:
            print(f"  see {places(others)}")
    for reason, line, file in view.unjudged:
        print(f"{file}, line {line}: {Finding.UNJUDGED.name}: {reason}")
    tell_without_lines(empty)
    return finding.exit_code, {
        "finding": finding.name,
        **counts,
        "empty": empty,
        "anomalies": [anomaly._asdict() for anomaly in view.anomalies],
        "unjudged": [one._asdict() for one in view.unjudged],
    }
