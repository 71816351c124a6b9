"""The extension for JUnit 5 and its example, built by Maven, with Kafka's client of Java."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as Xml
from pathlib import Path

import pytest
from typer.testing import CliRunner

import epochfence
from epochfence.cli import app

ROOT = Path(epochfence.__file__).parent
EXTENSION, EXAMPLE = ROOT / "model/serve/java", ROOT / "docs/examples/junit5"
BOTH = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>example</groupId><artifactId>both</artifactId><version>1</version>
  <packaging>pom</packaging>
  <modules><module>extension</module><module>example</module></modules>
</project>"""
PASS = {
    "aLostAnswerToACommit", "aMarkerIsLate", "anEndTxnIsLateAndCommitsTheNextTransaction",
    "aBatchIsSentAgain", "passes", "passesAgain",
}  # fmt: skip
FAIL = {
    "unfired": "fault fault-1: DID NOT FIRE: 0 such EndTxn came",
    "readTwice": "DUPLICATE of r in p-0.",
    "unexplained": "by transaction: EndTxn, row invalid-state (TransactionCoordinator.",
    "wrongFault": "no request is called 'EndTransaction': choose one of ",
    "otherRelease": "late-end.itf.json: the trace is of release 3.9, not 4.4",
    "unknownRelease": "epochfence: 4.4.9: unknown release: choose one of ",
    "wrongOption": "epochfence: --broker-config nonsense: write NAME=VALUE",
}
"""What the message of a failed test of WrongTest.java says."""


def test_its_version_is_the_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    written = f"<version>{project['version']}</version>"
    assert written in (EXTENSION / "pom.xml").read_text(encoding="utf-8")
    assert written in (EXAMPLE / "pom.xml").read_text(encoding="utf-8")


@pytest.mark.long
def test_the_example_passes_and_each_wrong_test_is_noticed(tmp_path: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None or shutil.which("javac") is None:
        pytest.skip("needs Maven and a JDK: install them (Debian and Ubuntu: apt install maven)")
    shutil.copytree(EXTENSION, tmp_path / "extension", ignore=shutil.ignore_patterns("target"))
    example = tmp_path / "example"
    shutil.copytree(EXAMPLE, example, ignore=shutil.ignore_patterns("target"))
    shutil.copy(Path(__file__).with_name("WrongTest.java"), example / "src/test/java")
    (tmp_path / "pom.xml").write_text(BOTH, encoding="utf-8")
    trace = example / "late-end.itf.json"
    made = CliRunner().invoke(app, ["bugs", "KIP-890c", "--trace", str(trace)])
    assert made.exit_code == 0, made.output
    done = subprocess.run(
        (
            maven, "--quiet", "--batch-mode", "--strict-checksums", "test",
            f"-Depochfence.command={Path(sys.executable).with_name('epochfence')}",
        ),
        cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    outcomes = {
        str(case.get("name")).partition("(")[0]: [
            kind.get("message", "") for tag in ("failure", "error") for kind in case.iter(tag)
        ]
        for report in (example / "target/surefire-reports").glob("*.xml")
        for case in Xml.parse(report).iter("testcase")
    }
    assert {name for name, failures in outcomes.items() if not failures} == PASS, done.stdout
    assert outcomes.keys() == PASS | FAIL.keys(), done.stdout
    for name, says in FAIL.items():
        assert any(says in failure for failure in outcomes[name]), outcomes[name]
