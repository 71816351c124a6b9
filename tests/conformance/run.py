"""Conformance cases from a directory: `make cases [CASES=DIR] [JSON=FILE]`.

Prints, for each file, the cases passed, the fields met that Kafka's tests assert (`expect`) and
those that its source has (`also`), what was skipped and why, and what failed. Exit code 0 where
every case that was run has passed, 12 where one has not, 2 for wrong usage, and where none was run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

from epochfence.files import CantWriteError, Output
from epochfence.tests.conformance import config, records
from epochfence.tests.conformance.client_cases import Client
from epochfence.tests.conformance.coordinator_cases import Coordinator
from epochfence.tests.conformance.harness import (
    Adapter,
    Report,
    as_json,
    run_case,
    stateless,
)
from epochfence.tests.conformance.leader_cases import Log, ProducerState
from epochfence.tests.conformance.metadata_cases import CoordinatorMetadata
from epochfence.tests.conformance.producer_id_cases import ProducerIds

MOST_SHOWN = 20  # of a file's failures; the JSON has all
HERE = Path(__file__).parent / "cases"
ADAPTERS: dict[str, type[Adapter]] = {
    "producer_state": ProducerState,
    "log": Log,
    "client": Client,
    "coordinator": Coordinator,
    "coordinator_metadata": CoordinatorMetadata,
    "producer_id": ProducerIds,
    "txn_log_bytes": stateless(records.OPERATIONS),
    "config": stateless(config.OPERATIONS),
}


def adapter_for(path: Path, cases: list[dict[str, object]]) -> type[Adapter] | None:
    """The vocabulary of a file: by its name, else the one that knows most of its operations."""
    if path.stem in ADAPTERS:
        return ADAPTERS[path.stem]
    steps = [step for case in cases for step in case["steps"]]  # type: ignore[attr-defined]
    operations = {str(step["op"]) for step in steps}
    known = {a: sum(a.knows(op) for op in operations) for a in ADAPTERS.values()}
    best = max(known, key=lambda adapter: known[adapter])
    return best if known[best] == len(operations) else None


def run_directory(directory: Path) -> list[Report]:
    """Runs every file of cases in a directory."""
    reports: list[Report] = []
    for path in sorted(directory.glob("*.json")):
        cases = json.loads(path.read_text(encoding="utf-8"))
        adapter, report = adapter_for(path, cases), Report(path.name)
        for case in cases:
            if adapter is None:
                report.cases += 1
                report.skipped.append({"id": case["id"], "reason": "no adapter for this file"})
            else:
                run_case(case, adapter, report)
        reports.append(report)
    return reports


def show(reports: list[Report]) -> None:
    """Prints the reports."""
    for report in reports:
        run = report.cases - len(report.skipped)
        print(
            f"{report.file}: {report.passed} of {run} cases passed, "
            f"expect {report.expect_met} of {report.expect_total}, "
            f"also {report.also_met} of {report.also_total}"
        )
        for reason, count in Counter(item["reason"] for item in report.skipped).items():
            print(f"  {count} skipped: {reason}")
        for failure in report.failed[:MOST_SHOWN]:
            where = f"{failure.id}, step {failure.step}, {failure.field}"
            print(f"  {where}: {failure.got!r} instead of {failure.want!r}")


def main(arguments: list[str] | None = None) -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=Path, default=HERE, help="a directory of case files")
    parser.add_argument("--json", type=Path, help="where to write the results for machines")
    options = parser.parse_args(arguments)
    if not list(options.cases.glob("*.json")):
        print(f"{options.cases}: no case files there; name a directory with some", file=sys.stderr)
        return 2
    try:
        output = None if options.json is None else Output(options.json)
    except CantWriteError as error:
        print(error, file=sys.stderr)
        return 2
    reports = run_directory(options.cases)
    show(reports)
    if output is not None:
        output.write(json.dumps(as_json(reports), indent=1) + "\n")
    if not any(r.cases - len(r.skipped) for r in reports):
        print(f"{options.cases}: no case could be run", file=sys.stderr)
        return 2
    met = all(r.passed == r.cases - len(r.skipped) for r in reports)
    return 0 if met else 12


if __name__ == "__main__":
    sys.exit(main())
