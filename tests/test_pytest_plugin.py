"""The pytest plugin in projects of its users."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

import epochfence

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow(6)

ROOT = Path(epochfence.__file__).parent
PLUGIN = ("-p", "no:epochfence", "-p", "epochfence.pytest_plugin")  # once, installed or not


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    """Runs the project's tests in a process of its own, as its user does."""
    return pytester.runpytest_subprocess(*PLUGIN, "-p", "no:randomly", *options)


def test_the_example_passes(pytester: pytest.Pytester) -> None:
    for file in (ROOT / "docs/examples/pytest").glob("*.py"):
        shutil.copy(file, pytester.path)
    run(pytester, "-n", "2").assert_outcomes(passed=3)


def test_each_wrong_test_is_noticed(pytester: pytest.Pytester) -> None:
    overlap = ROOT / "docs/examples/histories/overlap.jsonl"
    pytester.makepyfile(f"""
        from pathlib import Path
        import pytest

        def test_unfired(kafka, kafka_faults):
            kafka_faults.lose_answer("EndTxn", nth=2)

        def test_twice(kafka, kafka_history):
            send = dict(event="send", producer="a", record="r", partition="p-0")
            kafka_history.add(**send, outcome="acknowledged")
            for offset in (0, 1):
                read = dict(event="read", consumer="c", record="r", partition="p-0")
                kafka_history.add(**read, offset=offset)

        @pytest.mark.kafka("3.6")
        def test_unexplained(kafka, kafka_history):
            kafka_history.wire.write_bytes(Path({str(overlap)!r}).read_bytes())

        def test_nothing_came(kafka, kafka_history):
            pass

        def test_wrong_fault(kafka, kafka_faults):
            kafka_faults.lose_answer("EndTransaction")

        @pytest.mark.kafka(topics={{"a b": 1}})
        def test_wrong_topic(kafka):
            pass

        @pytest.mark.kafka(release="3.6")
        def test_wrong_setting(kafka):
            pass

        @pytest.mark.kafka("3.9", transaction_version=2)
        def test_wrong_level(kafka):
            pass

        @pytest.mark.kafka("4.1", transaction_version=0)
        def test_level(kafka):
            assert kafka.cluster.transaction_version == 0

        def test_no_cluster(kafka_history):
            pass
    """)
    found = run(pytester)
    found.assert_outcomes(passed=5, failed=1, errors=7, warnings=1)
    found.stdout.fnmatch_lines_random(
        [
            "fault fault-1: DID NOT FIRE: 0 such EndTxn came*",
            "*DUPLICATE of r in p-0.*",
            "  No order explains this response. Allowed:",
            "      by partition: AddPartitionsByLeaderResponse, row append*",
            "*kafka_history isn't judged: no request of the protocol came",
            "*BadFaultError: no request is called 'EndTransaction': choose one of *EndTxn*",
            "@pytest.mark.kafka: no topic can be called 'a b'*",
            "@pytest.mark.kafka: release: unknown setting: *; kafka('3.6') sets the release",
            "@pytest.mark.kafka: transaction.version 2: Kafka 3.9 has 0",
            "kafka_history records the cluster of the fixture kafka: add it",
        ]
    )


def test_a_test_runs_at_each_release(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest

        def test_it(kafka):
            assert kafka.bootstrap

        @pytest.mark.kafka("3.9")
        def test_marked(kafka):
            assert kafka.cluster.protocol == "3.9"
    """)
    found = run(pytester, "-v", "--kafka-release", "3.6", "--kafka-release", "4.4")
    found.assert_outcomes(passed=3)
    found.stdout.fnmatch_lines(["*test_it?3.6? PASSED*", "*test_it?4.4? PASSED*", "*marked?3.9?*"])


def test_an_unknown_release_is_a_line_and_nothing_runs(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(kafka): pass")
    found = run(pytester, "--kafka-release", "4.4.9")
    found.assert_outcomes(errors=1)
    found.stdout.fnmatch_lines(["*4.4.9: unknown release: *"])


def test_a_trace_is_replayed_at_its_release_alone(pytester: pytest.Pytester) -> None:
    made = ["-m", "epochfence.cli", "bugs", "KIP-890c", "--trace", "late.itf.json"]
    done = pytester.run(sys.executable, *made)
    assert done.ret in (0, 12), done.stderr.str()
    pytester.makepyfile("""
        import pytest

        @pytest.mark.kafka("3.9")
        def test_it(kafka, kafka_faults):
            assert "a" in kafka_faults.replay("late.itf.json")
            assert kafka.faults.all

        @pytest.mark.kafka("4.4")
        def test_other(kafka, kafka_faults):
            with pytest.raises(ValueError, match="late.itf.json: the trace is .*, not 4.4"):
                kafka_faults.replay("late.itf.json")
    """)
    found = run(pytester)
    found.assert_outcomes(passed=2, errors=1)  # no client took part: the faults didn't fire


def test_the_plugin_loads_little() -> None:
    """pytest loads it for every project."""
    text = (ROOT / "pytest_plugin.py").read_text(encoding="utf-8")
    loaded = [line for line in text.splitlines() if line.startswith(("import ", "from "))]
    assert [line for line in loaded if line.startswith("from .")] == []
