"""What `epochfence judge` prints, and its exit code and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .anomalies import ANOMALIES, find_anomalies
from .histories import read_history, read_lines
from .judge import Finding, Judgement, Settings, judge, shown


def tell_judgements(
    paths: Sequence[Path], protocol: str | None, limit: int
) -> tuple[int, Mapping[str, Any]]:
    """Judges each key of the files' history; the exit code and the result for machines. What is
    unexplained outweighs what was given up. Raises BadLine, ModelError, DeclarationError, OSError.
    """
    settings = Settings() if protocol is None else Settings(protocol=protocol)
    found = {
        key: judge(operations, settings, limit) for key, operations in read_history(paths).items()
    }
    for key, judgement in found.items():
        _tell(key, judgement)
    findings = {judgement.finding for judgement in found.values()}
    worst = next(
        (f for f in (Finding.UNEXPLAINED, Finding.GAVE_UP) if f in findings), Finding.EXPLAINED
    )
    count = sum(judgement.operations for judgement in found.values())
    print(f"{count} operations on {len(found)} keys: {worst.name} (exit {worst.value})")
    keys = {key: _as_json(judgement) for key, judgement in found.items()}
    return worst.value, {"finding": worst.name, "protocol": settings.protocol, "keys": keys}


def _tell(key: str, judgement: Judgement) -> None:
    print(f"{key}: {judgement.operations} operations, {judgement.finding.name}")
    operation = judgement.operation
    if operation is None:
        return
    print(f"  {operation.file}, line {operation.line}: {operation}")
    print("  No order explains this response. Allowed:")
    for answer in judgement.allowed:
        print(f"    {shown(answer)}")
    if not judgement.allowed:
        print("    none: what was answered by then can't be followed by this request")


def _as_json(judgement: Judgement) -> Mapping[str, Any]:
    operation = judgement.operation
    return {
        "finding": judgement.finding.name,
        "operations": judgement.operations,
        "configurations": judgement.configurations,
        "file": operation and operation.file,
        "line": operation and operation.line,
        "response": operation and operation.response,
        "allowed": list(judgement.allowed),
    }


def tell_anomalies(paths: Sequence[Path]) -> tuple[int, Mapping[str, Any]]:
    """Tells the anomalies that an application saw; the exit code and the result for machines.
    Raises BadLine and OSError."""
    lines = ((str(p), number, line) for p in paths for number, line in read_lines(p, "application"))
    found = find_anomalies(lines)
    for name, subject, partition, line, file in found:
        print(f"{file}, line {line}: {name} of {subject} in {partition}. {ANOMALIES[name]}")
    finding = Finding.UNEXPLAINED if found else Finding.EXPLAINED
    print(f"{len(found)} anomalies (exit {finding.value})")
    return finding.value, {"anomalies": [anomaly._asdict() for anomaly in found]}
