"""The action of the repository: its shell steps, and the files that it writes for CI."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
import yaml

from epochfence.cli.oracle.ci import Case, Outcome, badge, junit, outcome, sarif, summary

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
HISTORIES = ROOT / "docs" / "examples" / "histories"


class Runner:
    """Runs the action's steps as GitHub does, with this environment's programs installed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "epochfence").mkdir()
        for name in ("bin", "lib", "pyvenv.cfg"):
            (folder / "epochfence" / name).symlink_to(Path(sys.prefix) / name)
        self.outputs, self.summary = folder / "outputs", folder / "summary"
        self.said = ""

    def use(self, command: str, arguments: str = "") -> int:
        """The exit code of the first step that fails, or 0."""
        given = {"command": command, "arguments": arguments, "python": sys.executable}
        context = {f"inputs.{name}": value for name, value in given.items()}
        context["github.action_path"] = str(ROOT)
        for step in ACTION["runs"]["steps"]:
            assert "${{" not in step["run"]  # an input in a script could add commands to it
            variables = {
                name: context[value.removeprefix("${{ ").removesuffix(" }}")]
                for name, value in step["env"].items()
            }
            there = {
                "RUNNER_TEMP": self.folder,
                "GITHUB_OUTPUT": self.outputs,
                "GITHUB_STEP_SUMMARY": self.summary,
            }
            done = subprocess.run(
                ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]),
                cwd=self.folder,
                env=os.environ | variables | {k: str(v) for k, v in there.items()},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            self.said = done.stdout
            if done.returncode:
                return done.returncode
        return 0

    @property
    def output(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.outputs.read_text().splitlines())


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    yield Runner(tmp_path)
    running = tmp_path / "epochfence" / "serve.pid"
    if running.exists():
        with suppress(ProcessLookupError):
            os.kill(int(running.read_text()), signal.SIGKILL)


@pytest.mark.slow(4)
def test_a_served_cluster_is_diagnosed_and_judged(runner: Runner) -> None:
    assert runner.use("serve", "--port 0 --topic 'orders:2'") == 0
    address = runner.output["bootstrap"]
    assert runner.use("doctor", f"--bootstrap {address}") == 0, runner.said
    folder = Path(runner.output["folder"])
    assert json.loads((folder / "badge.json").read_text())["color"] == "brightgreen"
    assert runner.use("stop") == 0
    assert "requests answered" in runner.said
    assert runner.use("judge", f"'{HISTORIES / 'overlap.jsonl'}' --protocol 3.6") == 12
    folder = Path(runner.output["folder"])
    assert Xml.parse(folder / "junit.xml").getroot().get("failures") == "1"
    (found,) = json.loads((folder / "results.sarif").read_text())["runs"][0]["results"]
    place = found["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"].endswith("overlap.jsonl")
    assert place["region"]["startLine"] == 5
    assert "history UNEXPLAINED" in runner.summary.read_text()


@pytest.mark.long
def test_a_fault_that_does_not_fire_fails_the_step(runner: Runner) -> None:
    assert runner.use("serve", "--port 0 --fault lose_answer:EndTxn") == 0
    assert runner.use("stop") == 1
    assert "DID NOT FIRE" in runner.said


@pytest.mark.slow(2)
@pytest.mark.parametrize("command", ["check", "serve"])
def test_a_wrong_use_fails(runner: Runner, command: str) -> None:
    assert runner.use(command, "--no-such-option") == 2
    assert "no-such-option" in runner.said or "choose one of conform" in runner.said


@pytest.mark.slow(2)
def test_arguments_are_words_and_no_script(runner: Runner) -> None:
    assert runner.use("serve", '--topic "$(touch here)"') == 2
    assert "$(touch here)" in runner.said
    assert not (runner.folder / "here").exists()


def conformed(verdict: str, *disagreements: str) -> dict[str, object]:
    """A result of `conform` with three rows."""
    row = {"machine": "partition", "event": "Produce"}
    rows = [
        {**row, "row": "append", "reachable": True, "provoked": True},
        {**row, "row": "duplicate", "reachable": True, "provoked": False},
        {**row, "row": "held", "reachable": False, "provoked": False},
    ]
    found = [{"cause": "a cause", "text": text} for text in disagreements]
    return {
        "settled": True,
        "protocol": "4.4",
        "verdict": verdict,
        "rows": rows,
        "disagreements": found,
    }


@pytest.mark.parametrize(
    ("result", "sentence", "colour"),
    [
        (conformed("CONFORMS"), "agrees with Kafka 4.4 in 1 of 2 rows", "brightgreen"),
        (conformed("DISAGREES", "a", "b"), "differs from Kafka 4.4 in 2 answers", "red"),
        (conformed("INCOMPLETE"), "INCOMPLETE, compared with Kafka 4.4", "lightgrey"),
        ({"finding": "GAVE_UP", "keys": {}}, "history GAVE_UP", "lightgrey"),
    ],
)
def test_the_badge_is_green_only_if_all_agrees(
    result: dict[str, object], sentence: str, colour: str
) -> None:
    told = json.loads(badge(outcome(result)))
    assert (told["message"], told["color"]) == (sentence, colour)
    undecided = Xml.fromstring(junit(outcome(result))).get("errors") == "1"
    assert undecided == (colour == "lightgrey")


def test_text_of_a_broker_is_shown_as_it_is() -> None:
    hostile = Outcome(False, "x", [Case("a", "b", "</pre><script>`|`", line=3)])
    assert "<script>" not in summary(hostile)
    assert (
        "</pre><script>`|`"
        in json.loads(sarif(hostile, Path("r.json")))["runs"][0]["results"][0]["message"]["text"]
    )
    (failure,) = Xml.fromstring(junit(hostile)).iter("failure")
    assert failure.text == "</pre><script>`|`"


def test_another_result_is_refused() -> None:
    with pytest.raises(ValueError, match="not a result of conform"):
        outcome({"verdict": "HOLDS"})
