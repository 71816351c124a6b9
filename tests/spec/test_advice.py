"""Advice on a client and brokers, against the bugs' own releases and runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from epochfence.model.serve.server import Server
from epochfence.spec.bugs import BUGS, Bug
from epochfence.spec.bugs.advice import (
    IDEMPOTENCE,
    TRANSACTIONS,
    Setting,
    advice,
    client_of,
)
from epochfence.spec.bugs.damage import DAMAGES, Damage
from epochfence.spec.bugs.findings import FINDINGS
from epochfence.spec.releases.features import KAFKA, RELEASED
from epochfence.tests.cli.test_cli import epochfence

DOCS = Path(__file__).parents[2] / "docs"
ALL = Setting()
VERSION_1 = Setting(version_2=False)
OWN = [bug for bug in BUGS if "+" not in bug.system and bug.id.startswith(("KAFKA-", "KIP-"))]


def ids(client: str, broker: str, setting: Setting = ALL) -> set[str]:
    return {item.id for item in advice(client_of(client), broker, setting)}


@pytest.mark.parametrize("release", RELEASED)
def test_a_bug_is_listed_in_the_releases_that_have_it(release: str) -> None:
    """With client and brokers of one release, transaction.version as the bug's runs have it."""
    known = {one.bug for one in FINDINGS}
    for bug in OWN:
        setting = VERSION_1 if "transaction_version_2" in bug.off else Setting()
        listed = bug.id in ids(f"java-{release}", release, setting)
        assert listed == (release in bug.releases and bug.id not in known), bug.id


@pytest.mark.parametrize("bug", OWN, ids=[bug.id for bug in OWN])
def test_the_release_with_the_fix_is_free_of_the_bug(bug: Bug) -> None:
    shown, fixed = bug.shown_at, bug.fixed_at
    if shown != fixed and bug.releases:
        assert bug.id not in ids(f"java-{fixed}", fixed)


def test_the_findings_are_those_of_the_page() -> None:
    text = (DOCS / "findings.md").read_text(encoding="utf-8")
    numbers = [one.number for one in FINDINGS]
    assert numbers == list(range(1, len(FINDINGS) + 1))
    assert all(f"\n## {number}. " in text for number in numbers)
    assert f"\n## {len(FINDINGS) + 1}. " not in text


def test_every_bug_has_a_damage_and_the_worst_comes_first() -> None:
    assert {bug.property for bug in BUGS} <= {*DAMAGES}
    found = [item.damage for item in advice(client_of("java-2.5"), "2.5")]
    assert found == sorted(found, key=list(Damage).index)


def test_an_old_client_keeps_a_bug_of_the_pair() -> None:
    """KIP-890c takes both sides: a client before 4.0 keeps it at brokers of 4.4."""
    assert "KIP-890c" in ids("java-3.9", "4.4")
    assert "KIP-890c" in ids("librdkafka-2.3", "4.4")
    assert "KIP-890c" not in ids("java-4.4", "4.4")
    assert "KIP-890c" in ids("java-4.4", "4.4", VERSION_1)


def test_a_bug_of_another_client_is_listed_by_its_version() -> None:
    for version, has in (("1.6.1", True), ("1.6.2", False), ("1.7.0", True), ("1.8.2", False)):
        assert ("librdkafka-3575" in ids(f"librdkafka-{version}", "3.6")) == has
        assert ("librdkafka-3575" in ids(f"confluent-kafka-go-{version}", "3.6")) == has
    assert not any(name.startswith("franz-go") for name in ids("librdkafka-1.6.1", "3.6"))
    (item,) = (i for i in advice(client_of("franz-go-1.18"), "4.4") if i.id.endswith("6ecd2f9f"))
    assert not item.is_certain


def test_without_verification_a_transaction_may_hang() -> None:
    setting = Setting(verification=False)
    assert "KAFKA-14402" in ids("java-3.9", "3.9", setting)
    assert "KAFKA-14402" not in ids("java-3.9", "3.9")


def test_uses_and_requests_in_flight_leave_out_the_rest() -> None:
    idempotent = ids("java-4.4", "4.4", Setting(uses=(IDEMPOTENCE,)))
    assert "finding 1" in idempotent
    assert "finding 13" not in idempotent
    assert "finding 1" not in ids("java-4.4", "4.4", Setting(uses=(TRANSACTIONS,)))
    assert "finding 1" not in ids("java-4.4", "4.4", Setting(pipelined=False))


def test_a_release_is_taken_with_its_patches() -> None:
    assert KAFKA.one_release("3.6.2") == "3.6"
    assert [KAFKA.one_release(name) for name in ("2.0.0", "2.0.1")] == ["2.0.0", "2.0"]
    assert client_of("3.4.1").release == "3.4"


def test_an_upgrade_and_a_downgrade(tmp_path: Path) -> None:
    out = tmp_path / "advice.json"
    shown = epochfence(
        "advise", "--client", "java-3.4", "--broker", "3.5", "--to", "4.4", "--json", out
    )
    assert shown.code == 0
    assert "Gone: " in shown.out
    told = json.loads(out.read_text(encoding="utf-8"))
    gone = {one["id"] for one in told["found"]} - {one["id"] for one in told["then"]["found"]}
    assert {"KAFKA-14402", "KAFKA-17507"} <= gone


@pytest.mark.parametrize(
    ("release", "level", "noted"),
    [("3.6", 2, True), ("3.9", 1, True), ("3.9", 0, False), ("4.0.0", 2, False), ("4.4", 1, False)],
)
def test_a_level_of_a_feature_that_the_brokers_lack_is_noted(
    release: str, level: int, noted: bool
) -> None:
    feature = f"transaction.version={level}"
    note = f"--features {feature}: brokers {release} have no such feature. It came with 4.0.0."
    words = ("advise", "--broker", release, "--features", feature)
    assert (f"note: {note}" in " ".join(epochfence(*words).out.split())) is noted
    notes = json.loads(epochfence(*words, "--json", "-").out)["notes"]
    assert [each for each in notes if each.startswith("--features")] == [note] * noted


def test_what_earlier_patch_releases_have_is_noted() -> None:
    def notes(broker: str) -> list[str]:
        return json.loads(epochfence("advise", "--broker", broker, "--json", "-").out)["notes"]

    note = "3.0 is the last patch release; from 3.0.0 on, some have KAFKA-13727, KAFKA-14055, too."
    assert notes("3.0") == [note]
    assert notes("3.0.0") == notes("3.0.2") == notes("3.4") == []


@pytest.mark.parametrize(
    ("given", "goes_down"),
    [
        (("--broker", "4.4", "--to-features", "transaction.version=1"), True),
        (("--broker", "4.4", "--to", "3.9"), True),
        (("--broker", "4.4", "--to-features", "transaction.version=2"), False),
        (("--broker", "3.9", "--to", "4.4"), False),
        (
            ("--broker", "4.4", "--features", "transaction.version=1", "--to", "3.9"),
            False,
        ),
    ],
)
def test_a_downgrade_of_transaction_version_is_not_called_safe(
    given: tuple[str, ...], goes_down: bool, tmp_path: Path
) -> None:
    out = tmp_path / "advice.json"
    shown = epochfence("advise", *given, "--json", out)
    told = json.loads(out.read_text(encoding="utf-8"))
    assert ("Findings 9 and 11" in shown.out) == goes_down == ("downgrade" in told)


def test_a_change_of_level_brings_the_bugs_of_before_version_2(tmp_path: Path) -> None:
    out = tmp_path / "advice.json"
    epochfence("advise", "--broker", "4.4", "--to-features", "transaction.version=1", "--json", out)
    told = json.loads(out.read_text(encoding="utf-8"))
    new = {one["id"] for one in told["then"]["found"]} - {one["id"] for one in told["found"]}
    assert {"KIP-890c", "finding 8"} <= new


@pytest.mark.parametrize("release", ["3.9", "4.4"])
def test_a_cluster_is_asked_for_its_release_and_level(release: str, tmp_path: Path) -> None:
    out = tmp_path / "advice.json"
    with Server(release, topics={"orders": 1}) as server:
        assert epochfence("advise", "--bootstrap", server.bootstrap, "--json", out).code == 0
    told = json.loads(out.read_text(encoding="utf-8"))
    assert told["broker"] == release
    assert ("KIP-890c" in {one["id"] for one in told["found"]}) == (release == "3.9")


def test_properties_of_a_producer_count(tmp_path: Path) -> None:
    file = tmp_path / "producer.properties"
    file.write_text("transactional.id=orders\n", encoding="utf-8")
    assert "finding 1:" not in epochfence("advise", "--config", file).out
    file.write_text("acks=all\nmax.in.flight.requests.per.connection=1\n", encoding="utf-8")
    told = epochfence("advise", "--config", file).out
    assert "finding 3:" in told
    assert "finding 1:" not in told
    assert "finding 13:" not in told
    file.write_text("enable.idempotence=false\n", encoding="utf-8")
    assert epochfence("advise", "--config", file).code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--client", "foo-1"], "no client is called foo"),
        (["--client", "java"], "client java: write NAME-VERSION"),
        (["--client", "java-9"], "unknown protocol 9"),
        (["--broker", "9"], "unknown protocol 9"),
        (["--uses", "strems"], "--uses strems: did you mean streams?"),
        (["--features", "kraft.version=1"], "--features kraft.version=1: write"),
        (["--features", "transaction.version=3"], "--features transaction.version=3: write"),
        (["--features", "transaction.version=²"], "--features transaction.version=²: write"),
        (["--to-features", "transaction.version=3"], "--to-features transaction.version=3: write"),
        (["--config", "/nowhere"], "can't read /nowhere: "),
        (["--bootstrap", "127.0.0.1:1"], ""),
        (["--bootstrap", "127.0.0.1:1", "--broker", "4.4"], "--bootstrap and --broker: choose one"),
    ],
)
def test_wrong_words_are_refused_in_a_line(arguments: list[str], message: str) -> None:
    ended = epochfence("advise", *arguments)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert ended.err.startswith(f"epochfence: {message}")
