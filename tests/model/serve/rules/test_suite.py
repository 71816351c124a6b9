"""The rule book, and the suite with clients that keep a rule and that break one."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import pytest

from epochfence.checker.check import check
from epochfence.checker.verdict.result import Verdict as Checked
from epochfence.model.client.producer import TABLES
from epochfence.model.serve.faults.faults import fault_of
from epochfence.model.serve.rules.book import RULES, Rule, system_without
from epochfence.model.serve.rules.checks import CHECKS, broken
from epochfence.model.serve.rules.program import HungError, Program
from epochfence.model.serve.rules.suite import Verdict, to_junit, tried
from epochfence.spec.bugs import bug_of
from epochfence.spec.coordinator.tables import DRIVEN as COORDINATOR
from epochfence.spec.leader.tables import DRIVEN as LEADER
from epochfence.spec.systems import shipped
from epochfence.tests.cli.test_cli import epochfence
from epochfence.tests.clients.rules import python

BY_ID: Final = {rule.id: rule for rule in RULES}
IDS: Final = list(BY_ID)
STEADY: Final = ("commit-until-answered", "same-batch-again", "fenced-for-good")
"""Rules on which a client's own threads have no part in the outcome."""
SILENT: Final = (
    "import sys\n"
    "print('ready', flush=True)\n"
    "for line in sys.stdin: print('', 'ok', sep='', flush=True)\n"
)
"""A program that says ok to everything, and does nothing."""


FORGETFUL: Final = """
import sys
sys.path.insert(0, {folder!r})
import driven, kafka
class Forgetful(driven.KafkaPython):
    def __init__(self, settings, topic):
        super().__init__(settings, topic)
        self._producer._metadata.add_listener(self.seen)
    def seen(self, cluster):
        if 1 not in (cluster.partitions_for_topic(self._topic) or (1,)):
            place = kafka.TopicPartition(self._topic, 1)
            self._producer._transaction_manager.reset_sequence_for_partition(place)
driven.CLIENTS["kafka-python"] = Forgetful
driven.main()
"""
"""kafka-python, if it forgot the sequences of a partition that metadata doesn't have."""


@pytest.mark.parametrize("rule", RULES, ids=IDS)
def test_a_rule_names_what_is_there(rule: Rule) -> None:
    tables = (*TABLES, *shipped("reading").tables)
    labels = {f"{table.name}/{row.id}" for table in tables for row in table.rows}
    assert set(rule.rows) <= labels
    answers = {f"{table.name}/{r.id}" for table in (*COORDINATOR, *LEADER) for r in table.rows}
    assert rule.vector in answers
    assert set(rule.checks) <= CHECKS.keys()
    assert rule.steps
    for fault in rule.faults:
        fault_of(dict(fault), name="one")
    assert bool(rule.breaks) == bool(rule.bug or rule.without)
    assert bool(rule.breaks) != bool(rule.harmless)
    if rule.bug:
        assert bug_of(rule.bug).property == rule.breaks


@pytest.mark.long
@pytest.mark.slow(20)
@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.without], ids=lambda r: r.id)
def test_the_property_breaks_without_the_row(rule: Rule) -> None:
    assert rule.run is not None
    result = check(rule.run)
    assert result.verdict is Checked.BROKEN
    shown = epochfence(*shlex.split(rule.command)[1:])
    assert shown.code == 12
    assert result.trace is not None
    steps = len(result.trace.steps)
    assert f"{rule.breaks} doesn't hold after {steps} steps" in " ".join(shown.out.split())


@pytest.mark.long
@pytest.mark.slow(10)
@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.harmless], ids=lambda r: r.id)
def test_nothing_breaks_in_the_run_that_was_tried(rule: Rule) -> None:
    assert rule.harmless is not None
    assert check(rule.harmless.instance()).verdict is Checked.HOLDS


def test_a_rule_without_such_a_row_has_no_system() -> None:
    with pytest.raises(ValueError, match="no row is known without which keep-the-order breaks"):
        system_without("keep-the-order")


@pytest.mark.slow(5)
@pytest.mark.parametrize("name", STEADY)
def test_librdkafka_keeps_a_rule(name: str) -> None:
    (finding,) = tried(python("librdkafka"), [BY_ID[name]])
    assert finding.verdict is Verdict.PASSED, finding.why


@pytest.mark.slow(5)
def test_aiokafka_commits_a_failed_record() -> None:
    (finding,) = tried(python("aiokafka"), [BY_ID["failed-record-fails-commit"]])
    assert finding.verdict is Verdict.FAILED
    assert "not all of it is read" in finding.why


@pytest.mark.slow(6)
def test_a_client_that_forgets_sequences_loses_records(tmp_path: Path) -> None:
    rules = [BY_ID["sequences-outlive-metadata"]]
    (finding,) = tried(python("kafka-python"), rules)
    assert finding.verdict is Verdict.PASSED, finding.why
    program = tmp_path / "forgetful.py"
    program.write_text(FORGETFUL.format(folder=str(Path(python("aiokafka")[1]).parent)))
    (finding,) = tried([sys.executable, str(program), "kafka-python"], rules)
    assert finding.verdict is Verdict.FAILED
    assert finding.why == "record r1 is acknowledged, and isn't in the log"


@pytest.mark.slow(12)
def test_offsets_are_those_of_a_member() -> None:
    rules = [BY_ID["offsets-of-members"]]
    (finding,) = tried(python("librdkafka"), rules)
    assert finding.verdict is Verdict.PASSED, finding.why
    (finding,) = tried(python("aiokafka"), rules)
    assert finding.verdict is Verdict.FAILED
    assert "poll gives 'i0', not ''" in finding.why  # it doesn't wait for stable offsets
    assert "commitTransaction says ok" in finding.why  # it names no member


@pytest.mark.slow(2)
def test_a_program_that_only_says_so_fails(tmp_path: Path) -> None:
    program = tmp_path / "silent.py"
    program.write_text(SILENT)
    junit, result = tmp_path / "rules.xml", tmp_path / "rules.json"
    command = shlex.join([sys.executable, str(program)])
    options = ("--rule", "commit-until-answered", "--junit", str(junit), "--json", str(result))
    said = epochfence("serve", "--rules", command, *options)
    assert said.code == 12
    (found,) = json.loads(result.read_text())["rules"]
    assert found["verdict"] == "fail"
    assert "reported committed" in found["why"]
    suite = ElementTree.fromstring(junit.read_bytes())
    assert suite.get("failures") == "1"


@pytest.mark.slow(2)
def test_answers_of_more_lines_are_refused(tmp_path: Path) -> None:
    program = tmp_path / "loud.py"
    # In one write: lines that come one by one are seen at the next call, or at the end.
    answer = "sys.stdout.write('ok\\nmore\\n'); sys.stdout.flush()"
    program.write_text(SILENT.replace("print('', 'ok', sep='', flush=True)", answer))
    command = shlex.join([sys.executable, str(program)])
    said = epochfence("serve", "--rules", command, "--rule", "fenced-for-good")
    assert said.code == 2
    assert "an answer must be one line" in said.err
    assert said.err.count("\n") == 1


def test_a_call_without_an_answer_has_a_limit() -> None:
    sleeping = "import time; print('ready', flush=True); time.sleep(600)"
    program = Program([sys.executable, "-c", sleeping], [], limit_s=0.5)
    with program, pytest.raises(HungError, match=r"no answer in 0\.5 s"):
        program.call("flush")


def test_a_rule_is_skipped_if_the_program_lacks_a_call(tmp_path: Path) -> None:
    program = tmp_path / "lacking.py"
    program.write_text(SILENT.replace("'ok'", "'unsupported' if line == 'poll\\n' else 'ok'"))
    findings = list(tried([sys.executable, str(program)], [BY_ID["offsets-of-members"]]))
    assert [one.verdict for one in findings] == [Verdict.SKIPPED]
    assert findings[0].why == "the program has no poll"
    assert ElementTree.fromstring(to_junit("it", findings)).get("skipped") == "1"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--rules", "no-such-program"), "--rules no-such-program: no-such-program: No such file"),
        (("--rules", "true"), "--rules true: the program's first line should be ready"),
        (("--rules", "'"), "--rules ': No closing quotation"),
        (("--rules", "true", "--rule", "x"), "--rule x: choose one of"),
        (("--junit", "x.xml"), "--rule, --junit and --json need --rules COMMAND"),
    ],
)
def test_wrong_words_are_refused_in_a_line(options: tuple[str, ...], message: str) -> None:
    said = epochfence("serve", *options)
    assert said.code == 2
    assert said.err.startswith(f"epochfence: {message}")
    assert said.err.count("\n") == 1


PRODUCE: Final = {
    "request": "Produce", "partition": "orders-0", "producer_id": 1, "producer_epoch": 0,
    "base_sequence": 0, "count": 1, "transactional": True, "start": 1, "end": 2,
    "response": {"error": "NONE"},
}  # fmt: skip
END: Final = {"request": "EndTxn", "result": "COMMIT", "producer_id": 1, "start": 3}


@pytest.mark.parametrize(
    ("check_name", "lines", "message"),
    [
        ("initialized_first", [PRODUCE], "Produce comes before InitProducerId"),
        ("added_first", [PRODUCE], "which isn't in the transaction"),
        ("ended_behind_batches", [PRODUCE | {"end": 5}, END], "EndTxn comes before the answer"),
        ("same_end", [END, PRODUCE | {"start": 4}], "Produce follows an EndTxn"),
        ("same_end", [END, END | {"result": "ABORT", "start": 4}], "ABORT follows COMMIT"),
        (
            "no_epoch_within",
            [PRODUCE, {"request": "InitProducerId", "start": 2}],
            "in the middle of a transaction",
        ),
        (
            "same_batch",
            [
                {k: v for k, v in PRODUCE.items() if k != "response"},
                PRODUCE | {"base_sequence": 1, "start": 2},
            ],
            "comes again with other",
        ),
        ("epochs_from_0", [PRODUCE | {"base_sequence": 3}], "at sequence 3"),
    ],
)
def test_a_check_finds_what_breaks_it(
    check_name: str, lines: list[dict[str, object]], message: str
) -> None:
    (said,) = broken(lines, [check_name])
    assert message in said
