"""What the command line says of itself: examples, completion, a terminal's width and colours."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from epochfence.cli import completion
from epochfence.cli.commands import NAMES
from epochfence.cli.examples import EXAMPLES
from epochfence.cli.screen import beside, screen, within_columns
from epochfence.tests.cli.test_cli import ROOT, Ended, epochfence
from epochfence.tests.documentation import PAGES, commands

LEASE = str(ROOT / "docs" / "examples" / "lease.py")
UNDOCUMENTED = {"new counter", "diagram transaction -o transaction.svg", "list transactions"}
# a broker, clients or a browser: tests of theirs have them
WITH_OTHERS = {
    "explore transactions --bounds small",
    "explore docs/examples/lease.py --protocol 1 --trace lease.itf.json",
    "conform --bootstrap 127.0.0.1:9092",
    "conform --classes 4.3 --bounds small",
    "findings",
    "serve --protocol 4.3 --port 9092 --topic orders:3",
    "proxy --listen 127.0.0.1:9192 --upstream 127.0.0.1:9092",
}


def complete(line: str) -> list[str]:
    """What bash offers behind a command line, in a process of its own."""
    words = line.split(" ")
    asked = {
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "_EPOCHFENCE_COMPLETE": "complete_bash",
    }
    done = subprocess.run(
        [str(Path(sys.executable).with_name("epochfence"))],
        cwd=ROOT,
        env=os.environ | asked,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_every_command_has_examples() -> None:
    assert set(NAMES) == EXAMPLES.keys()


@pytest.mark.parametrize("command", EXAMPLES)
def test_help_has_examples(command: str) -> None:
    told = " ".join(epochfence(command, "--help").out.split())
    assert all(f"epochfence {line}" in told for line in EXAMPLES[command])
    assert not re.search("<(int|float|bool)", told)


def test_help_shows_no_type_for_a_switch_and_breaks_its_own_lines() -> None:
    told = epochfence("check", "--help").out
    assert "<bool>" not in told
    assert "<int" not in told
    assert re.search(r"--threads +N \[1<=x<=64\]", told)
    short = epochfence("--help").out
    assert "<bool>" not in short
    # Typer keeps the ends of a docstring's lines, within which its own are.
    words = re.findall(r"^│ {12,}(\S+(?: \S+)*) *│$", short, re.MULTILINE)
    assert words
    assert not [line for line in words if len(line.split()) == 1 and not line.endswith(".")]


def test_text_between_colons_is_no_emoji(capsys: pytest.CaptureFixture[str]) -> None:
    screen().print(":bug:")
    beside().print(":bug:")
    told = capsys.readouterr()
    assert (told.out, told.err) == (":bug:\n", ":bug:\n")


def test_every_example_is_run_by_the_documentation() -> None:
    shown = {found.text for page in PAGES for found in commands(page)}
    named = {line for lines in EXAMPLES.values() for line in lines}
    assert {line for line in named if f"epochfence {line}" not in shown} == (
        UNDOCUMENTED | WITH_OTHERS
    )


@pytest.mark.slow(6)
def test_examples_that_no_page_has_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert {epochfence(*line.split()).code for line in UNDOCUMENTED} == {0}


@pytest.mark.slow(1)
def test_a_shell_completes_words() -> None:
    assert complete("epochfence check tr") == ["transactions"]
    assert "NoHangingTransaction" in complete("epochfence check transactions --property No")
    assert complete("epochfence check docs/examples/raft_l") == ["docs/examples/raft_log.py"]


def test_completion_runs_nobodys_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "evil.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    assert completion.systems("ev") == ["evil.py"]
    assert completion.systems("nowhere/ev") == []
    assert complete(f"epochfence check {tmp_path}/evil.py --property ") == []


def on_terminal(columns: int, *arguments: str, **environment: str) -> Ended:
    """A command before a terminal of that width."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    command = [sys.executable, "-m", "epochfence.cli", *arguments]
    left_out = ("NO_COLOR", "COLUMNS", "LINES")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    given = kept | {"TERM": "xterm"} | environment
    told = b""
    with subprocess.Popen(command, env=given, stdout=theirs, stderr=subprocess.PIPE) as process:
        os.close(theirs)
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # so Linux says that nobody writes any more
                break
            if not part:
                break
            told += part
    os.close(ours)
    return Ended(process.returncode, told.decode(), "")


@pytest.mark.slow(1)
def test_a_result_fits_a_terminal() -> None:
    """Verdict first, then what was checked, then what was not; colours unless NO_COLOR."""
    broken = ("check", LEASE, "--protocol", "1")
    plain = on_terminal(80, *broken, NO_COLOR="1")
    coloured = on_terminal(200, *broken)
    assert (plain.code, coloured.code) == (12, 12)
    assert re.search(r"\x1b\[[\d;]*3\d", coloured.out)
    assert "\x1b" not in plain.out  # nor at the end, by a package that resets the terminal
    for ended, widest in ((plain, 80), (coloured, 100)):
        lines = re.sub(r"\x1b\[[\d;]*m", "", ended.out).splitlines()
        assert max(map(len, lines)) <= widest
        assert "doesn't hold" in lines[0]
        order = [lines.index(line) for line in ("Checked", "Not checked")]
        assert order == sorted(order)


@pytest.mark.slow(2)
@pytest.mark.parametrize("command", [("--help",), ("check", "--help"), ("bugs",)])
def test_no_colour_is_no_escape_code(command: tuple[str, ...]) -> None:
    assert "\x1b[1m" in on_terminal(100, *command).out
    assert "\x1b" not in on_terminal(100, *command, NO_COLOR="1").out


@pytest.mark.parametrize(("columns", "width"), [("72", 72), ("140", 140), ("30", 60), ("", 100)])
def test_piped_output_is_as_wide_as_the_variable_says(
    monkeypatch: pytest.MonkeyPatch, columns: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert screen().width == width


def test_lines_of_a_verdict_are_as_wide_as_the_variable_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"  {'word ' * 30}end"
    for columns, widest in (("", len(line)), ("70", 70)):
        monkeypatch.setenv("COLUMNS", columns)
        with within_columns():
            print(line)
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) in range(widest - 4, widest + 1)
        assert all(each.startswith("    " if at else "  w") for at, each in enumerate(lines))
