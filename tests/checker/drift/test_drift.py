"""Drift: digests of Kafka's methods, and the rows that a change of them concerns."""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from epochfence.checker.drift.affected import affected
from epochfence.checker.drift.citations import Citation, citations, cited, resolves
from epochfence.checker.drift.class_files import bytecode_of, class_jars_of
from epochfence.checker.drift.comparison import compared
from epochfence.checker.drift.patch import touched
from epochfence.checker.drift.record import Recorded, recorded, written
from epochfence.checker.drift.sources import SourceError, methods_of, sources_of
from epochfence.cli import app
from epochfence.spec.releases.features import KAFKA, RELEASED
from epochfence.spec.systems.coverage.declared_rows import declared_tables

JAVA = """
package org.apache.kafka;
/** A class. */
class TransactionManager {
    private int epoch; // the epoch
    TransactionManager() { epoch = 0; }
    int beginCommit() { return epoch + 1; }
    int beginCommit(int by) { return epoch + by; }
    class TxnRequestHandler { void onComplete() { epoch = 2; } }
}
"""
SCALA = """
package kafka.coordinator
object TransactionCoordinator { def apply(): Int = 1 }
class TransactionCoordinator {
  // a comment
  def handleEndTransaction(epoch: Int): Unit = {
    def inner(): Int = epoch
    println(inner())
  }
}
"""


def jar(folder: Path, version: str, java: str = JAVA, scala: str = SCALA) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"kafka-clients-{version}-sources.jar"
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("org/apache/kafka/TransactionManager.java", java)
        archive.writestr("kafka/coordinator/TransactionCoordinator.scala", scala)
    return made


def digests(folder: Path, java: str = JAVA, scala: str = SCALA) -> dict[str, str]:
    return methods_of([jar(folder, "9.0.0", java, scala)])


# Sources ------------------------------------------------------------------------------------------


def test_methods_of_java_and_scala_are_found(tmp_path: Path) -> None:
    assert sorted(digests(tmp_path)) == [
        "TransactionCoordinator.apply",
        "TransactionCoordinator.handleEndTransaction",
        "TransactionCoordinator.inner",
        "TransactionManager.<init>",
        "TransactionManager.TxnRequestHandler.onComplete",
        "TransactionManager.beginCommit",
    ]


def test_comments_and_white_space_have_no_effect(tmp_path: Path) -> None:
    java = JAVA.replace("// the epoch", "/* another */").replace("return epoch", "return\n  epoch")
    scala = SCALA.replace("// a comment", "/* none */").replace("  def", "    def")
    assert digests(tmp_path, java, scala) == digests(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "method"),
    [
        ("epoch + 1", "epoch + 2", "TransactionManager.beginCommit"),
        ("epoch + by", "by + epoch", "TransactionManager.beginCommit"),
        ("epoch = 2", "epoch = 3", "TransactionManager.TxnRequestHandler.onComplete"),
        ("epoch = 0", "epoch = 1", "TransactionManager.<init>"),
    ],
)
def test_a_changed_body_changes_its_digest_alone(
    tmp_path: Path, old: str, new: str, method: str
) -> None:
    before, after = digests(tmp_path), digests(tmp_path, JAVA.replace(old, new))
    assert [name for name in before if before[name] != after[name]] == [method]


def test_a_renamed_method_keeps_its_digest(tmp_path: Path) -> None:
    before = digests(tmp_path)
    after = digests(tmp_path, JAVA.replace("onComplete", "onResponse"))
    old, new = (f"TransactionManager.TxnRequestHandler.{n}" for n in ("onComplete", "onResponse"))
    assert before[old] == after[new]


def test_only_classes_that_are_wanted_are_read(tmp_path: Path) -> None:
    found = methods_of([jar(tmp_path, "9.0.0")], {"TransactionCoordinator"})
    assert {name.partition(".")[0] for name in found} == {"TransactionCoordinator"}


def test_versions_are_told_by_the_names_of_jars(tmp_path: Path) -> None:
    jar(tmp_path, "9.0.0")
    jar(tmp_path / "inner", "9.1.0")
    assert sorted(sources_of(tmp_path)) == ["9.0.0", "9.1.0"]
    with pytest.raises(SourceError, match="no source jars"):
        sources_of(tmp_path / "nothing")
    broken = tmp_path / "kafka-clients-9.2.0-sources.jar"
    broken.write_bytes(b"no zip")
    with pytest.raises(SourceError, match="not a jar that can be read"):
        methods_of([broken])


def test_a_checkout_is_read_without_its_tests(tmp_path: Path) -> None:
    (tmp_path / "build.gradle").write_text("")
    for place in ("clients/src/main/java", "clients/src/test/java"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / f"{Path(place).parts[2]}.java").write_text(
            f"class {Path(place).parts[2].title()} {{ void run() {{}} }}"
        )
    (version,) = sources_of(tmp_path)
    assert (version, list(methods_of(sources_of(tmp_path)[version]))) == ("checkout", ["Main.run"])


# Class files --------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("javac") is None, reason="needs a JDK")
def test_bytecode_is_compared_without_packages_and_positions(tmp_path: Path) -> None:
    def compiled(version: str, package: str, java: str) -> dict[str, str]:
        source = tmp_path / version / "TransactionManager.java"
        source.parent.mkdir()
        source.write_text(java.replace("org.apache.kafka", package))
        subprocess.run(["javac", "-d", tmp_path / version, source], check=True)
        made = tmp_path / f"kafka-clients-{version}.jar"
        with zipfile.ZipFile(made, "w") as archive:
            for file in (tmp_path / version).rglob("*.class"):
                archive.write(file, file.relative_to(tmp_path / version))
        (jars,) = class_jars_of(made).values()
        return bytecode_of(jars, {"TransactionManager"})

    first = compiled("9.0.0", "org.apache.kafka", JAVA)
    moved = compiled("9.1.0", "org.apache.other", JAVA.replace("class T", "\n\nclass T", 1))
    other = compiled("9.2.0", "org.apache.kafka", JAVA.replace("epoch + 1", "epoch + 7"))
    assert sorted(first) == [
        "TransactionManager.<init>",
        "TransactionManager.TxnRequestHandler.<init>",
        "TransactionManager.TxnRequestHandler.onComplete",
        "TransactionManager.beginCommit",
    ]
    assert first == moved
    assert [name for name in first if first[name] != other[name]] == [
        "TransactionManager.beginCommit"
    ]


# Citations ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("Sender.canRetry", ["Sender.canRetry"]),
        ("KIP-890, Log.append before 2.5", ["Log.append"]),
        ("Partition.makeLeader, maybeExpandIsr",
         ["Partition.makeLeader", "Partition.maybeExpandIsr"]),
        ("TransactionManager.EndTxnHandler.handleResponse, KAFKA-1",
         ["TransactionManager.EndTxnHandler.handleResponse"]),
        ("QuorumController, ControllerPurgatory", ["QuorumController", "ControllerPurgatory"]),
        ("KAFKA-9600", []),
        ("ProducerAppendInfo.checkSequence: the sequence is used twice",
         ["ProducerAppendInfo.checkSequence"]),
        ("", []),
    ],
)  # fmt: skip
def test_a_source_is_read(source: str, found: list[str]) -> None:
    assert cited(source) == found


NOT_OF_THESE = {
    "PrepRequestProcessor.checkAndIncVersion": "of ZooKeeper",
    "DataTree.setData": "of ZooKeeper",
    "IllegalArgumentException": "Java's own",
    "TaskManager": "of Kafka Streams, whose jars aren't recorded",
    "FetchIsolation.HIGH_WATERMARK": "a constant",
}
CLUSTER = ("transaction_version_2",)
"""A cluster chooses these features; its release doesn't settle them."""


def releases_of(during: object) -> set[str]:
    """The releases that may have a row."""
    found: set[str] = set()
    for release in RELEASED:
        own = KAFKA.features_at(release)
        for features in (own, own | {*CLUSTER}, own - {*CLUSTER}):
            if KAFKA.holds(during, features):  # type: ignore[arg-type]
                found.add(release)
    return found


@pytest.mark.parametrize(
    ("cited", "method", "same"),
    [
        ("Outer.name", "Outer.name", True),
        ("Outer.name", "Outer.Inner.name", True),
        ("Outer.Inner.name", "Outer.name", True),
        ("Outer.Inner.name", "Outer.Other.name", False),
        ("Outer.name", "Outer.other", False),
        ("Outer.name", "Other.Inner.name", False),
    ],
)
def test_a_citation_resolves_to_a_method(cited: str, method: str, same: bool) -> None:
    assert resolves(cited, method) is same


def is_there(name: str, known: set[str]) -> bool:
    return any(resolves(name, method) for method in known)


def test_every_citation_is_in_a_release_of_its_row() -> None:
    record = recorded()
    at = {version: set(record.at(version)) for version in record.versions}
    every = set().union(*at.values())
    classes = {method.rpartition(".")[0] for method in every}
    missing: set[str] = set()
    for table in declared_tables():
        for row in table.rows:
            names = [n for n in cited(row.source) if n not in NOT_OF_THESE]
            for name in names:
                if not Citation("", name).names_a_method:
                    if name not in classes:
                        missing.add(f"{table.name}/{row.id}: {name}")
                elif not is_there(name, every):
                    missing.add(f"{table.name}/{row.id}: {name}")
            methods = [name for name in names if Citation("", name).names_a_method]
            versions = [v for r in releases_of(row.during) for v in record.versions_of(r)]
            there = set().union(*(at[version] for version in versions)) if versions else every
            if methods and not any(is_there(name, there) for name in methods):
                missing.add(f"{table.name}/{row.id}: {', '.join(methods)} in another release")
    assert sorted(missing) == []


def test_most_rows_cite_a_method() -> None:
    rows = {f"{table.name}/{row.id}" for table in declared_tables() for row in table.rows}
    citing = {each.row for each in citations() if each.names_a_method}
    assert len(citing) > 0.9 * len(rows)


# The record ---------------------------------------------------------------------------------------


def test_a_record_has_what_was_written(tmp_path: Path) -> None:
    by_version = {
        "2.5.1": {"A.a": "1111111", "A.b": "2222222"},
        "2.10.0": {"A.a": "1111111", "A.c": "3333333"},
        "3.0.0": {"A.a": "4444444", "A.b": "2222222", "A.c": "3333333"},
    }
    text = written(by_version)
    assert text.splitlines() == [
        "method\t2.5.1 2.10.0 3.0.0",
        "A.a\t2.5.1:1111111 3.0.0:4444444",
        "A.b\t2.5.1:2222222 2.10.0:- 3.0.0:2222222",
        "A.c\t2.10.0:3333333",
    ]
    changes = {
        line.split("\t")[0]: dict(c.split(":") for c in line.split("\t")[1].split(" "))
        for line in text.splitlines()[1:]
    }
    record = Recorded(("2.5.1", "2.10.0", "3.0.0"), changes)
    assert {version: record.at(version) for version in by_version} == by_version
    assert (record.newest_of("2.10"), record.newest_of("3.0.0"), record.newest_of("2.1")) == (
        "2.10.0",
        "3.0.0",
        None,
    )


def test_each_release_with_sources_is_recorded() -> None:
    record = recorded()
    assert [r for r in RELEASED if not record.versions_of(r)] == ["2.0.0", "4.2.2", "4.4"]
    assert "4.4.0" in recorded("bytecode").versions
    assert all(
        "TransactionCoordinator.handleEndTransaction" in record.at(v) for v in record.versions
    )


# Comparison ---------------------------------------------------------------------------------------


def test_two_states_are_compared() -> None:
    before = {
        "Log.append": "1",
        "Log.read": "2",
        "Log.roll": "3",
        "Log.flush": "4",
        "Log.gone": "5",
    }
    after = {"UnifiedLog.append": "1", "Log.read": "9", "Log.roll": "3", "Log.flush": "8"}
    found = compared(
        before, after, since="1", until="2",
        cited=[Citation("partition.Produce/append", "Log.append"), Citation("a/b", "Log.read"),
               Citation("a/c", "Log.roll"), Citation("a/d", "Elsewhere.run")],
    )  # fmt: skip
    assert [(each.method, each.rows, each.instead) for each in found.vanished] == [
        ("Log.append", ("partition.Produce/append",), "UnifiedLog.append")
    ]
    assert [(each.method, each.rows) for each in found.changed] == [("Log.read", ("a/b",))]
    assert found.uncited == (("Log.flush", "changed"), ("Log.gone", "removed"))
    assert found.concerns_rows
    assert not compared(before, before, since="1", until="1").concerns_rows


# Patches ------------------------------------------------------------------------------------------

PATCH = """\
diff --git a/src/TransactionManager.java b/src/TransactionManager.java
--- a/src/TransactionManager.java
+++ b/src/TransactionManager.java
@@ -6,3 +6,3 @@ class TransactionManager {
     TransactionManager() { epoch = 0; }
-    int beginCommit() { return epoch + 1; }
+    int beginCommit() { return epoch + 2; }
     int beginCommit(int by) { return epoch + by; }
diff --git a/README.md b/README.md
--- a/README.md
+++ b/README.md
@@ -1 +1 @@
-a
+b
"""


def test_a_patch_names_its_methods(tmp_path: Path) -> None:
    (loose,) = touched(PATCH)
    assert (loose.is_exact, loose.methods) == (False, ("TransactionManager.beginCommit",))
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "TransactionManager.java").write_text(JAVA)
    (exact,) = touched(PATCH, tmp_path)
    assert (exact.is_exact, exact.methods) == (True, ("TransactionManager.beginCommit",))
    with pytest.raises(SourceError, match=r"has no src/TransactionManager\.java"):
        touched(PATCH, tmp_path / "elsewhere")
    with pytest.raises(SourceError, match="no unified diff"):
        touched("hello\n")


def test_a_change_concerns_rows_systems_properties_bugs_and_findings() -> None:
    found = affected(["TransactionManager.beginCommit", "Sender.completeBatch", "Sender.wakeup"])
    rows = dict(found.rows)
    assert any(row.startswith("producer.commitTransaction/") for row in rows)
    assert any(row.startswith("producer.ProduceResponse/") for row in rows)
    assert found.uncited == ("Sender.wakeup",)
    assert "transactions" in found.systems
    assert "epochfence check transactions" in found.commands
    assert found.properties
    assert any(title.startswith("1. ") for title in found.findings)


# The command --------------------------------------------------------------------------------------


def drift(*arguments: str | Path, code: int) -> str:
    done = CliRunner().invoke(app, ["drift", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done.output


def test_the_command_compares_a_version_with_a_recorded_one(tmp_path: Path) -> None:
    jar(tmp_path, "9.0.0")
    output = tmp_path / "drift.json"
    text = drift("--kafka", tmp_path, "--since", "4.3.0", "--json", output, code=12)
    assert "4.3.0 to 9.0.0 (sources)" in text
    found = json.loads(output.read_text())
    assert {"since", "until", "vanished", "changed", "uncited"} == found.keys()
    assert any(e["method"] == "TransactionManager.beginCommit" for e in found["changed"])
    assert any(e["method"] == "Sender.canRetry" for e in found["vanished"])


def test_the_command_names_the_rows_of_a_patch(tmp_path: Path) -> None:
    patch = tmp_path / "a.diff"
    patch.write_text(PATCH)
    text = drift("--diff", patch, code=12)
    assert "producer.commitTransaction/" in text
    assert "epochfence check transactions" in text
    patch.write_text(PATCH.replace("TransactionManager", "Unknown"))
    assert "0 rows are concerned" in drift("--diff", patch, code=0)


def test_wrong_input_is_one_line(tmp_path: Path) -> None:
    jar(tmp_path / "two", "9.0.0")
    jar(tmp_path / "two", "9.1.0")
    patch = tmp_path / "a.diff"
    patch.write_text("nothing")
    for arguments, words in (
        ((), "needs --kafka PLACE, --diff FILE"),
        (("--kafka", tmp_path / "none"), "no such file or folder"),
        (("--kafka", tmp_path / "two"), "several versions (9.0.0, 9.1.0)"),
        (("--diff", patch), "no unified diff"),
        (("--diff", tmp_path / "none"), "No such file"),
        (("--diff", patch, "--since", "4.3"), "choose one"),
        (
            ("--diff", patch, "--kafka", tmp_path / "two" / "kafka-clients-9.0.0-sources.jar"),
            "needs a checkout",
        ),
    ):
        done = CliRunner().invoke(app, ["drift", *map(str, arguments)])
        assert (done.exit_code, words in done.output) == (2, True), done.output
    jar(tmp_path / "one", "9.0.0")
    assert "no sources of 1.9 are recorded" in drift(
        "--kafka", tmp_path / "one", "--since", "1.9", code=20
    )
