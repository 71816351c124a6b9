"""The environment's bill of materials, and what advisories say of it: `make audit`.

`python .ci/audit.py FILE` writes constraints.txt as CycloneDX, the same bytes for the same
versions, and asks pip-audit. Where the advisory database can't be reached, it says so, and when
these versions were looked at last (.ci/audit.json); `--record` keeps the answer there.
"""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from epochfence.files import Output

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
RECORD = Path(__file__).with_name("audit.json")
WITHIN = "15"  # seconds for the database to take a connection


def bill(constraints: str) -> str:
    """The packages of constraints.txt as CycloneDX, in JSON."""
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_OID, constraints))
    bom.metadata.timestamp = datetime(1980, 1, 1, tzinfo=UTC)  # of the versions, not of the day
    bom.metadata.component = Component(
        name="epochfence", type=ComponentType.LIBRARY, bom_ref="epochfence"
    )
    for line in constraints.splitlines():
        name, version = line.split("==")
        purl = PackageURL("pypi", None, name, version)
        bom.components.add(Component(name=name, version=version, purl=purl, bom_ref=str(purl)))
    bom.register_dependency(bom.metadata.component, bom.components)
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def last_audit() -> str:
    """When these versions were looked at last, in words."""
    record = json.loads(RECORD.read_text())
    if record["date"] is None:
        return "there is no audit on record"
    packages = CONSTRAINTS.read_text().splitlines()
    new = len({*packages} - {*record["packages"]})
    return f"the last audit was on {record['date']}, {new} of {len(packages)} packages are newer"


def main(file: str, *more: str) -> int:
    """Writes the bill, asks, and says what came of it: 1 where an advisory names a version."""
    packages = CONSTRAINTS.read_text()
    Output(Path(file)).write(bill(packages))
    print(f"{file}: {len(packages.splitlines())} packages")
    asked = subprocess.run(
        [sys.executable, "-m", "pip_audit", "--requirement", CONSTRAINTS, "--no-deps",
         "--disable-pip", "--progress-spinner", "off", "--timeout", WITHIN, "--format", "json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    try:
        answers = json.loads(asked.stdout)["dependencies"]
    except ValueError:
        answers = []
    known = [answer for answer in answers if "skip_reason" not in answer]
    if not known:  # an index without advisories answers, too
        print(f"Advisories can't be reached from here; {last_audit()}.")
        return 0
    found = [
        f"{answer['name']} {answer['version']}: {advisory['id']}"
        for answer in known
        for advisory in answer["vulns"]
    ]
    print("\n".join([*found, f"{len(found)} advisories on {len(known)} packages"]))
    if "--record" in more and len(known) == len(answers):
        told = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "found": found,
                "packages": packages.splitlines()}  # fmt: skip
        RECORD.write_text(json.dumps(told, indent=1) + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
