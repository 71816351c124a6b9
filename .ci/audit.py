"""What the project depends on: versions, licences, and what advisories say: `make audit`.

`python .ci/audit.py FILE` writes requirements/all.txt as CycloneDX, the same bytes for the same
versions, renews the table of licences in docs/dependencies.md, and asks pip-audit. Exit code 1: an
advisory names a version. 20: the advisory database can't be reached, so nobody knows. `--record`
keeps an answer in .ci/audit.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement

from epochfence.files import Output

ROOT = Path(__file__).parents[1]
REQUIREMENTS = ROOT / "requirements" / "all.txt"
RECORD = Path(__file__).with_name("audit.json")
PAGE = ROOT / "docs" / "dependencies.md"
BEGIN, END = "<!-- licences -->\n", "<!-- end of licences -->"
OF_PAGE = {"python_version": "3.11", "python_full_version": "3.11.14"}
"""The Python whose packages the page has, whichever runs this."""
WITHIN = "15"  # seconds for the database to take a connection
UNKNOWN = 20
LONGEST = 60  # characters of a licence's name: longer is its text


def pinned(text: str) -> Iterator[tuple[Requirement, list[str]]]:
    """The requirements of a file with hashes, and the SHA-256 of each one's files."""
    for block in text.replace("\\\n", " ").splitlines():
        stated, *hashes = block.split("--hash=sha256:")
        if stated.strip():
            yield Requirement(stated), [each.strip() for each in hashes]


def version_of(requirement: Requirement) -> str:
    """The version that a requirement pins."""
    (pin,) = requirement.specifier
    return pin.version


def here(text: str, python: dict[str, str] | None = None) -> list[tuple[Requirement, list[str]]]:
    """Those that this Python takes, or one with these markers."""
    return [
        (requirement, hashes)
        for requirement, hashes in pinned(text)
        if requirement.marker is None or requirement.marker.evaluate(python)
    ]


def licence_of(package: Distribution) -> str:
    """A package's licence, as it states it: an SPDX expression, a classifier, or a name."""
    about = package.metadata
    if expression := about.get("License-Expression"):
        return expression
    classified = [
        line.rpartition(" :: ")[-1]
        for line in about.get_all("Classifier") or ()
        if line.startswith("License :: ") and line != "License :: OSI Approved"
    ]
    if classified:
        return ", ".join(sorted(classified))
    stated = (about.get("License") or "").strip().splitlines()
    return stated[0] if len(stated) == 1 and len(stated[0]) <= LONGEST else "see the package"


def licence(requirement: Requirement) -> str:
    """The licence of the pinned version: the installed one states it, or the page has it already.
    "not installed here" if another version is installed, or none."""
    name, version = requirement.name, version_of(requirement)
    with suppress(PackageNotFoundError):
        if (package := distribution(name)).version == version:
            return licence_of(package)
    row = f"| {name} | {version} | "
    rows = (line for line in PAGE.read_text().splitlines() if line.startswith(row))
    return next(rows, f"{row}not installed here |").removeprefix(row).removesuffix(" |")


def bill(requirements: str) -> str:
    """The packages of a file of requirements as CycloneDX, in JSON."""
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_OID, requirements))
    bom.metadata.timestamp = datetime(1980, 1, 1, tzinfo=UTC)  # of the versions, not of the day
    bom.metadata.component = Component(
        name="epochfence", type=ComponentType.LIBRARY, bom_ref="epochfence"
    )
    for requirement, _ in here(requirements):
        name, version = requirement.name, version_of(requirement)
        purl = PackageURL("pypi", None, name, version)
        bom.components.add(
            Component(
                name=name,
                version=version,
                purl=purl,
                bom_ref=str(purl),
                licenses=[DisjunctiveLicense(name=licence(requirement))],
            )
        )
    bom.register_dependency(bom.metadata.component, bom.components)
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def table(requirements: str) -> str:
    """The packages with their licences, as a table of Markdown."""
    lines = ["| package | version | licence |\n|---|---|---|\n"]
    for requirement, _ in here(requirements, OF_PAGE):
        version = version_of(requirement)
        lines.append(f"| {requirement.name} | {version} | {licence(requirement)} |\n")
    return "".join(lines)


def page(requirements: str) -> str:
    """docs/dependencies.md with a new table."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return before + BEGIN + table(requirements) + END + rest.partition(END)[2]


def last_audit() -> str:
    """When these versions were looked up last."""
    record = json.loads(RECORD.read_text())
    if record["date"] is None:
        return "no audit is on record"
    packages = names(REQUIREMENTS.read_text())
    new = len({*packages} - {*record["packages"]})
    return f"the last audit was on {record['date']}; {new} of {len(packages)} packages are newer"


def names(requirements: str) -> list[str]:
    """Each package with its version."""
    return [f"{each.name}=={version_of(each)}" for each, _ in pinned(requirements)]


def main(file: str, *more: str) -> int:
    """Writes the bill and the licences, asks, and says what came of it."""
    requirements = REQUIREMENTS.read_text()
    Output(Path(file)).write(bill(requirements))
    Output(PAGE).write(page(requirements))
    print(f"{file}: {len(here(requirements))} packages")
    asked = subprocess.run(
        [sys.executable, "-m", "pip_audit", "--requirement", REQUIREMENTS, "--no-deps",
         "--disable-pip", "--progress-spinner", "off", "--timeout", WITHIN, "--format", "json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    try:
        answers = json.loads(asked.stdout)["dependencies"]
    except ValueError:
        answers = []
    known = [answer for answer in answers if "skip_reason" not in answer]
    if not known:  # an index without advisories answers, too
        print(f"The advisory database can't be reached; {last_audit()}. (exit {UNKNOWN})")
        return UNKNOWN
    found = [
        f"{answer['name']} {answer['version']}: {advisory['id']}"
        for answer in known
        for advisory in answer["vulns"]
    ]
    print("\n".join([*found, f"{len(found)} advisories on {len(known)} packages"]))
    if "--record" in more and len(known) == len(answers):
        record = {
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "found": found,
            "packages": names(requirements),
        }
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
