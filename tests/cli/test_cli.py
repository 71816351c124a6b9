"""The commands: what they print, what they answer to what is wrong, and how they end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from epochfence.cli import app
from epochfence.spec.systems import SHIPPED

ROOT = Path(__file__).parents[2]
KTX = str(ROOT / "bench" / "ktx.py")
TINY = ("--set", "I=1", "--set", "K=1", "--set", "E=2", "--set", "S=2")

DECLARED = """\
from epochfence.language import *

N = constant("N", 2, 1, 3, meaning="how far it counts [in steps]")
KEY = Key("key", 2)
machine = Machine("machine")
x = machine.field("x", Int(0, N), doc="a number")
unread = machine.field("unread", Map(KEY, Bool()))
k = KEY.variable("k")
up = Table(machine, event("up"), (Row("up", when=x < N, set={x: x + 1}),))
turn = Table(machine, event("turn", k), (Row("turn", set={unread[k]: ~unread[k]}),))
over = Table(machine, event("over", k), (Row("over", when=x == N, set={x: x + 1}),))
stay = Table(machine, event("stay", k), (Row("stay [on]", when=x > N, set={x: 0}),))
small = invariant("Small", x <= N, "x is at most N [of the constants].", "a book")
low = invariant("Low", x < N, "x stays below N [of the constants].")
up_only = step_property("UpOnly", after(x) >= x, "x never falls.")

holds = System("holds", (up, turn, stay), (small, up_only), constants=(N,), terminal=True,
               bounds={"large": {N: 3}})
breaks = System("breaks", (up, turn), (small, low), constants=(N,), terminal=True)
stuck = System("stuck", (up,), (small,), constants=(N,))
faulty = System("faulty", (up, over), (small,), constants=(N,), terminal=True)
empty = System("empty", (up,), (), constants=(N,), terminal=True)
"""


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


def epochfence(*arguments: str | Path) -> Ended:
    """A command, run in this process."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Ended(done.exit_code, done.stdout, done.stderr)


def alone(*arguments: str | Path, **environment: str) -> Ended:
    """A command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "epochfence.cli", *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def declared(tmp_path: Path) -> Path:
    """A file with systems that come to different verdicts."""
    (tmp_path / "declared.py").write_text(DECLARED)
    return tmp_path / "declared.py"


# Verdicts -----------------------------------------------------------------------------------------


@pytest.mark.slow(1)
def test_a_number_that_is_no_release_is_reported() -> None:
    run = [sys.executable, "-m", "epochfence.cli", "config", "--protocol", "3.99"]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == "epochfence: 3.99 isn't a release; taken as 3.9\n"


@pytest.mark.parametrize(
    ("system", "code", "name"),
    [
        ("holds", 0, "HOLDS"),
        ("stuck", 11, "DEADLOCK"),
        ("breaks", 12, "BROKEN"),
        ("faulty", 12, "BROKEN"),
    ],
)
def test_the_exit_code_is_the_verdict_and_its_name_is_printed(
    declared: Path, system: str, code: int, name: str
) -> None:
    ended = epochfence("check", f"{declared}:{system}")
    assert ended.code == code
    assert f"(exit {code}, {name})" in " ".join(ended.out.split())
    # a slow machine shows progress
    assert all(line.startswith("level ") for line in ended.err.splitlines())


@pytest.mark.slow(1)
@pytest.mark.parametrize("more", [0.1, None], ids=["some memory", "less than it starts with"])
def test_a_limit_is_inconclusive(more: float | None) -> None:
    base = psutil.Process().memory_info().rss / 2**30
    limit = 0.001 if more is None else base + more
    ended = epochfence("check", KTX, "--memory", f"{limit:.3f}")
    assert ended.code == 20
    assert "the memory limit was reached after level" in ended.out
    words = " ".join(ended.out.split())
    assert ("MiB that the process takes without any state" in words) == (more is None)
    assert "(exit 20, INCONCLUSIVE)" in words
    assert "HOLDS" not in ended.out


@pytest.mark.parametrize("command", [("check",), ("sweep",), ("bound", "--depth", "6")])
def test_deadlocks_may_be_passed_over(declared: Path, tmp_path: Path, command: list[str]) -> None:
    name, *rest = command
    told, plain = tmp_path / "told.json", epochfence(name, f"{declared}:stuck", *rest)
    assert plain.code == 11
    assert "  deadlocks" not in plain.out
    assert "not checked" not in plain.out
    ended = epochfence(name, f"{declared}:stuck", *rest, "--no-deadlock", "--json", told)
    assert ended.code == 0
    assert "\n  deadlocks (--no-deadlock)\n" in ended.out or "Deadlocks: not checked." in ended.out
    assert '"deadlocks": "not looked for"' in told.read_text()


def test_a_run_says_what_it_covered(declared: Path) -> None:
    ended = epochfence("check", f"{declared}:holds", "--set", "N=3")
    assert "holds, protocol 1; N=3" in ended.out
    assert "4 states, 11 transitions, depth 4" in ended.out
    assert "HOLDS, but: machine.stay never happens." in ended.out
    assert "nothing reads were left out (slicing; --json FILE lists them)" in ended.out


def test_bounds_by_name_and_constants_on_top_of_them(declared: Path) -> None:
    assert (
        "holds, protocol 1; N=3"
        in epochfence("check", f"{declared}:holds", "--bounds", "large").out
    )
    smaller = epochfence("check", f"{declared}:holds", "--bounds", "large", "--set", "N=1")
    assert "holds, protocol 1; N=1" in smaller.out


def test_what_stands_in_brackets_is_printed(declared: Path) -> None:
    broken = epochfence("check", f"{declared}:breaks")
    assert "[of the constants]" in broken.out
    assert broken.out.count("[of the constants]") >= 2


def test_a_counterexample_is_printed_in_steps(declared: Path) -> None:
    ended = epochfence("check", f"{declared}:breaks", "--property", "Low")
    lines = ended.out.splitlines()
    at = [line.strip() for line in lines].index("machine")
    assert [line.split() for line in lines[at + 1 : at + 5]] == [
        ["1", "●", "up", "[up]"],
        ["│", "x:", "0", "→", "1"],
        ["2", "●", "up", "[up]"],
        ["│", "x:", "1", "→", "2"],
    ]
    assert "Low doesn't hold after 2 steps. (x stays below N" in ended.out
    assert "  x = 2, not below 2" in lines


@pytest.mark.slow(1)
def test_options_change_what_is_explored(declared: Path) -> None:
    assert "(slicing;" in epochfence("check", f"{declared}:holds").out
    whole = epochfence("check", f"{declared}:holds", "--no-slicing")
    assert "(slicing;" not in whole.out
    assert "12 states" in whole.out
    assert "Low" not in epochfence("check", f"{declared}:breaks", "--property", "Small").out
    two_phase = str(ROOT / "docs" / "examples" / "two_phase_commit.py")
    assert "314 states" in epochfence("check", two_phase, "--set", "RM=5").out
    all_states = epochfence("check", two_phase, "--set", "RM=5", "--no-symmetry", "--threads", "2")
    assert "8,832 states" in all_states.out


@pytest.mark.parametrize("arguments", [("check", "{}:holds"), ("check", "{}:breaks"),
                                       ("check", "{}:stuck"), ("check", "{}:faulty"), ("list",),
                                       ("check", KTX, "--set", "V=0", "--set", "K=1")])  # fmt: skip
def test_output_fits_100_columns(declared: Path, arguments: tuple[str, ...]) -> None:
    ended = epochfence(*(argument.format(declared) for argument in arguments))
    assert max(map(len, ended.out.splitlines())) <= 100


# The result for machines --------------------------------------------------------------------------


def result(tmp_path: Path, *arguments: str | Path) -> dict[str, Any]:
    """What --json holds."""
    output = tmp_path / "result.json"
    epochfence("check", *arguments, "--json", output)
    return json.loads(output.read_text())


def test_json_has_what_was_promised(tmp_path: Path) -> None:
    found = result(tmp_path, KTX, *TINY)
    assert {
        "system": "ktx", "protocol": "1", "constants": {"I": 1, "K": 1, "E": 2, "S": 2, "V": 1},
        "verdict": "holds", "exit_code": 0, "states": 5_094, "transitions": 22_028, "depth": 28,
    }.items() <= found.items()  # fmt: skip
    assert found["properties"][0] == {"name": "EpochBound", "verdict": "holds",
                                      "trace_length": None, "note": "", "trace": None}  # fmt: skip
    assert len(found["properties"]) == 6
    assert sum(row["taken"] for row in found["rows"]) == 22_028
    assert {"name", "taken", "first_depth"} == found["rows"][0].keys()
    assert found["seconds"] > 0
    assert found["states_per_second"] > 0
    assert found["memory_bytes"] > 0
    assert found["trace"] is None


def test_json_of_a_counterexample(tmp_path: Path) -> None:
    found = result(tmp_path, KTX, *TINY, "--set", "V=0")
    assert (found["verdict"], found["exit_code"]) == ("broken", 12)
    broken = [p for p in found["properties"] if p["verdict"] == "broken"]
    assert broken == [
        {"name": "NoHanging", "verdict": "broken", "trace_length": 9, "note": "", "trace": None}
    ]
    assert len(found["trace"]["steps"]) == 9
    assert found["trace"]["steps"][0]["row"] == "StartInit"


def test_json_is_whole_or_not_there(tmp_path: Path, declared: Path) -> None:
    missing = tmp_path / "missing" / "result.json"
    ended = epochfence("check", f"{declared}:holds", "--json", missing)
    assert (ended.code, ended.out) == (2, "")
    assert f"no folder {missing.parent}" in ended.err
    folder = tmp_path / "folder"
    folder.mkdir()
    ended = epochfence("check", f"{declared}:holds", "--json", folder)
    assert ended.code == 2
    assert "can't write" in ended.err
    assert "it is a folder" in ended.err
    assert ended.out == ""
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []


def test_a_report_and_test_cases_are_written(tmp_path: Path, declared: Path) -> None:
    files = ("--report", tmp_path / "report.html", "--junit", tmp_path / "report.xml")
    ended = epochfence("check", f"{declared}:breaks", *files)
    assert ended.code == 12
    assert "<h1>" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<failure " in (tmp_path / "report.xml").read_text(encoding="utf-8")
    ended = epochfence("check", f"{declared}:holds", "--report", "-")
    assert ended.code == 0
    assert ended.out.startswith("<!doctype html>")


# What is wrong ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nothing",), "no system is called nothing: choose one of transactions"),
        ((KTX, "--protocol", "9"), "unknown protocol 9: choose one of 1"),
        ((KTX, "--set", "Z=1"), "ktx has no constant Z (choose one of I, K, E, S, V)"),
        ((KTX, "--set", "E=0"), "constant E=0 is outside 1..1000"),
        ((KTX, "--bounds", "huge"), "ktx has no bounds called huge (choose one of default)"),
        ((KTX, "--set", "E"), "--set E: write NAME=VALUE with a whole number"),
        ((KTX, "--set", "E=many"), "--set E=many: write NAME=VALUE with a whole number"),
        ((KTX, "--set", "=1"), "--set =1: the name of the constant is missing"),
        ((KTX, "--property", "Absent"), "ktx has no property Absent (choose one of EpochBound,"),
        (
            (KTX, "--property", "NoHangin"),
            "NoHangin (did you mean NoHanging? choose one of ",
        ),
        (
            (KTX, "--property", "bound"),
            "bound (did you mean EpochBound? choose one of ",
        ),
        ((KTX, "--set", "e=1"), "ktx has no constant e (did you mean E? choose one of "),
        (("transaction",), "no system is called transaction: did you mean transactions?\n"),
        (("transactions", "--property", "NoDuplicat"), "(did you mean NoDuplicate?)\n"),
        ((KTX, "--without", "speed"), "no feature of ktx is called speed"),
        (("missing.py",), "missing.py: no such file"),
        ((KTX + ":other",), "has no system called other (choose one of system)"),
        ((KTX, "--memory", "0"), "--memory 0: must be above 0"),
        ((KTX, "--memory", "-1"), "--memory -1: must be above 0"),
        ((KTX, "--checkpoint", "a", "--resume", "b"), "give --checkpoint or --resume, not both"),
        ((KTX, "--resume", "no-such-folder"), "no-such-folder holds no run to resume"),
    ],
)
def test_wrong_input_gets_one_clear_line(arguments: tuple[str, ...], said: str) -> None:
    ended = epochfence("check", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("epochfence: ")
    assert said in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [("check",), ("explode",), ("check", KTX, "--threads", "0"), ("check", KTX, "--memory", "x"),
     ("check", KTX, "--fast"), ()],
)  # fmt: skip
def test_wrong_usage_ends_with_2(arguments: tuple[str, ...]) -> None:
    ended = epochfence(*arguments)
    assert ended.code == 2
    assert ended.out + ended.err != ""


@pytest.mark.parametrize("command", ["check", "sweep", "matrix"])
def test_a_system_without_a_property_is_an_error_and_no_pass(declared: Path, command: str) -> None:
    ended = epochfence(command, f"{declared}:empty")
    assert (ended.code, ended.out) == (2, "")
    assert "declares no property: there is nothing to check" in ended.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1 / 0\n", "declared.py:1: ZeroDivisionError"),
        ("def f(:\n", "declared.py:1: SyntaxError"),
        ("x = 1\n", "must hold one system or be given as FILE.py:NAME: none"),
        (DECLARED, "FILE.py:NAME: holds, breaks, stuck, faulty, empty"),
        (DECLARED.replace("x + 1", "k", 1), ":9: table machine.up, row 'up'"),
    ],
)
def test_a_file_at_fault_is_named_with_the_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "declared.py"
    file.write_text(text)
    ended = epochfence("check", file)
    assert (ended.code, ended.out) == (2, "")
    assert str(file) in ended.err
    assert said in ended.err


def test_a_declaration_that_fails_under_the_constants_given(declared: Path) -> None:
    declared.write_text(DECLARED.replace("Int(0, N)", "Int(0, N), 3"))
    ended = epochfence("check", f"{declared}:holds")
    assert ended.code == 2
    assert "machine.x is 0..N: its first value can't be 3" in ended.err
    assert epochfence("check", f"{declared}:holds", "--set", "N=3").code in (0, 12)


@pytest.mark.slow(1)
def test_runs_are_saved_and_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert epochfence("check", KTX, *TINY, "--checkpoint", folder).code == 0
    again = epochfence("check", KTX, *TINY, "--checkpoint", folder)
    assert again.code == 2
    assert f"{folder} already holds a run: resume it with --resume {folder}" in again.err
    resumed = epochfence("check", KTX, *TINY, "--resume", folder)
    assert resumed.code == 0
    assert "5,094 states, 22,028 transitions, depth 28" in resumed.out
    other = epochfence("check", KTX, *TINY[:4], *TINY[6:], "--set", "E=3", "--resume", folder)
    assert other.code == 2
    assert "holds another run: constant E is 3 here and 2 there" in other.err


# The shipped systems ------------------------------------------------------------------------------


def test_list_tells_what_can_be_chosen() -> None:
    ended = epochfence("list", "transactions")
    assert ended.code == 0
    for word in ("transactions", "Protocols: 0.11", "constant", "default", "large", "range",
                 "property", "NoHangingTransaction", "invariant", "step"):  # fmt: skip
        assert word in ended.out


def test_list_prints_a_line_for_each_system() -> None:
    names = [line.partition(" ")[0] for line in epochfence("list").out.splitlines()]
    assert set(SHIPPED) <= set(names)
    assert epochfence("list", "--all").out.count("Protocols: ") == len(SHIPPED)
    assert "max_request_size" in epochfence("list", "drain-order").out
    wrong = epochfence("list", "transaction")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)


@pytest.mark.slow(1)
def test_bugs_are_listed_and_shown_one_by_one(tmp_path: Path) -> None:
    ended = epochfence("bugs")
    assert ended.code == 0
    assert re.search(r"^KAFKA-19446 +OutcomeAsReported ", ended.out, re.MULTILINE)
    assert all(len(line) <= 100 for line in ended.out.splitlines())
    file = tmp_path / "bug.json"
    ended = epochfence("bugs", "kafka-14034", "--json", file)
    assert (ended.code, ended.err) == (0, "")
    last = " ".join(ended.out.split("Broken: ")[1].split())
    told = re.findall(r"with(?:out)? bump_when_settled: NoDuplicate (breaks after 9|holds)", last)
    assert told == ["breaks after 9", "holds", "breaks after 9"]
    data = json.loads(file.read_text())
    assert [data[run]["verdict"] for run in ("broken", "fixed", "control")] == [
        "broken",
        "holds",
        "broken",
    ]
    ended = epochfence("bugs", "nothing")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "no bug is called nothing: choose one of KAFKA-" in ended.err


# What is loaded -----------------------------------------------------------------------------------

HEAVY = ("numpy", "numba", "llvmlite", "z3", "pyspark", "hypothesis")


def heavy_after(statement: str) -> list[str]:
    """The heavy libraries that a statement loads, in a process of its own."""
    code = f"{statement}\nimport sys\nprint([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return eval(done.stdout.splitlines()[-1])


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    "statement",
    [
        "import epochfence.model.engine.interpreter",
        "import epochfence.model",
        "import epochfence.language",
        "import epochfence.cli",
        "from epochfence.spec.systems import shipped; shipped('transactions')",
        "import contextlib, io\n"
        "from epochfence.cli.views.tables import list_\n"
        "with contextlib.redirect_stdout(io.StringIO()): list_()",
    ],
)
def test_what_explores_nothing_loads_no_compiler(statement: str) -> None:
    assert heavy_after(statement) == []


def test_a_wrong_name_is_told_before_anything_is_loaded() -> None:
    code = "from epochfence.cli import app\ntry: app(['check', 'nothing'])\nexcept SystemExit: pass"
    assert heavy_after(code) == []


@pytest.mark.slow(1)
def test_nothing_but_results_goes_to_standard_output() -> None:
    ended = alone("check", KTX, *TINY)
    assert ended.code == 0
    assert "  ktx, protocol 1; I=1, K=1, E=2, S=2, V=1\n" in ended.out
    assert ended.err == ""


@pytest.mark.slow
@pytest.mark.long
def test_two_processes_may_compile_at_once(tmp_path: Path) -> None:
    """Each finds the cache of compiled functions empty, and they race for it."""
    command = [sys.executable, "-m", "epochfence.cli", "check", KTX, *TINY]
    for processes in (2, 1):  # the one takes what the two have left
        environment = os.environ | {"PYTHONPYCACHEPREFIX": str(tmp_path / "cache")}
        runs = [
            subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for _ in range(processes)
        ]
        for run in runs:
            out, err = run.communicate(timeout=300)
            assert run.returncode == 0, err
            assert "5,094 states, 22,028 transitions, depth 28" in out
        assert list((tmp_path / "cache").rglob("native/?/*"))


# The solver --------------------------------------------------------------------------------------

LEASE = str(Path(__file__).parents[2] / "docs" / "examples" / "lease.py")


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("bound", LEASE, "--depth", "0"), 2, "--depth"),
        (("bound", LEASE, "--depth", "3", "--property", "X"), 2, "no property X"),
        (("prove", LEASE, "--timeout", "0"), 2, "above 0"),
        (("prove", LEASE, "--timeout", "nan"), 2, "above 0"),
        (("prove", LEASE, "--suggest", "--deadline", "0"), 2, "above 0"),
        (("prove", LEASE, "--certificate", f"{LEASE}/folder"), 2, "Not a directory"),
        (("prove", LEASE, "--property", "X"), 2, "no property X"),
        (("prove", LEASE, "--results", LEASE), 2, "line 1: not a saved result"),
        (("prove", "nothing"), 2, "nothing is called nothing"),
        (("prove", "clock"), 2, "no property of transactions looks at clock"),
        (("lint", "nothing"), 2, "nothing is called nothing"),
        (("bound", LEASE, "--depth", "2"), 20, "nothing broken in 2 steps"),
        (("bound", LEASE, "--depth", "12", "--protocol", "1"), 12, "NoStaleWrite"),
        (("bound", LEASE, "--depth", "11", "--protocol", "1", "--integers"), 12, "NoStaleWrite"),
        (("prove", LEASE, "--property", "NoStaleWrite", "--jobs", "1"), 0, "1 of 1 properties"),
        (("lint", LEASE), 0, "can't have: none"),
    ],
)
def test_what_the_solver_says(arguments: tuple[str, ...], code: int, words: str) -> None:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code
    assert words in " ".join(result.output.split())


# Where output goes --------------------------------------------------------------------------------

LOG = str(ROOT / "docs" / "examples" / "broker" / "orders-0" / "00000000000000000012.log")
HISTORY = str(ROOT / "docs" / "examples" / "histories" / "fenced.jsonl")

WITH_JSON = [
    ("check", "{}:holds"), ("check", "{}:breaks"), ("sweep", "{}:holds", "--jobs", "1"),
    ("bound", "{}:breaks", "--depth", "3"), ("prove", "{}:holds", "--jobs", "1"),
    ("lint", "{}:holds"), ("judge", HISTORY, "--protocol", "3.6"), ("decode", LOG),
    ("config", "acks=1"), ("diff", "--protocols", "2.0", "2.5", "clock"),
]  # fmt: skip


@pytest.mark.parametrize("arguments", WITH_JSON, ids=lambda words: words[0])
def test_a_dash_prints_the_json_of_a_file_and_nothing_else(
    declared: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    command = [argument.format(declared) for argument in arguments]
    file = tmp_path / "result.json"
    shown = epochfence(*command, "--json", file)
    alone = epochfence(*command, "--json", "-")
    assert shown.code == alone.code
    assert shown.out != ""

    def same(found: Any) -> Any:
        """What is the same in two runs."""
        match found:
            case dict():
                return {
                    k: same(v)
                    for k, v in found.items()
                    if not re.search("second|bytes|longest|cache", k)
                }
            case list():
                return [same(item) for item in found]
            case _:
                return found

    def read(text: str) -> Any:
        lines = text.splitlines() if command[0] == "decode" else [text]
        return [same(json.loads(line)) for line in lines]

    assert read(alone.out) == read(file.read_text())


@pytest.mark.parametrize("arguments", WITH_JSON, ids=lambda words: words[0])
def test_where_json_goes_is_looked_at_first(
    declared: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "link").symlink_to(declared)
    for place, why in ((tmp_path, "it is a folder"), (tmp_path / "link", "symbolic link")):
        ended = epochfence(*(argument.format(declared) for argument in arguments), "--json", place)
        assert (ended.code, ended.out) == (2, "")
        assert ended.err == f"epochfence: can't write {place}: {why}\n" or why == "symbolic link"
        assert why in ended.err
    assert declared.read_text() == DECLARED


@pytest.mark.slow(1)
def test_a_full_disk_is_one_line() -> None:
    run = [sys.executable, "-m", "epochfence.cli", "decode", LOG]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(run, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == "epochfence: can't write to standard output: No space left on device\n"
    assert alone("decode", LOG, "--json", "/dev/full").err == (
        "epochfence: can't write /dev/full: No space left on device\n"
    )


@pytest.mark.slow(1)
@pytest.mark.parametrize("command", [["list"], ["decode", LOG], ["decode", LOG, "--json", "-"]])
def test_a_pipe_that_nobody_reads_ends_it_by_its_signal(command: list[str]) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    run = [sys.executable, "-m", "epochfence.cli", *command]
    done = subprocess.run(run, cwd=ROOT, stdout=writes, stderr=subprocess.PIPE, text=True)
    os.close(writes)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, "")


@pytest.mark.slow(1)
def test_files_are_written_though_nobody_reads_what_is_printed(
    declared: Path, tmp_path: Path
) -> None:
    """As in `check --json FILE | grep -q broken`."""
    reads, writes = os.pipe()
    os.close(reads)
    result, trace = tmp_path / "result.json", tmp_path / "trace.itf.json"
    check = ["check", f"{declared}:stuck", "--json", str(result), "--trace", str(trace)]
    run = [sys.executable, "-m", "epochfence.cli", *check]
    done = subprocess.run(run, cwd=ROOT, stdout=writes, stderr=subprocess.PIPE, text=True)
    os.close(writes)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, "")
    assert json.loads(result.read_text())["exit_code"] == 11
    assert trace.exists()


@pytest.mark.slow(1)
@pytest.mark.parametrize("closed", [">&-", ">&- <&-"])
def test_a_closed_standard_output_is_one_line(closed: str, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    script = f'"$0" -m epochfence.cli decode {LOG} --json {result} {closed}'
    done = subprocess.run(
        ["sh", "-c", script, sys.executable], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr == "epochfence: can't write to standard output: Bad file descriptor\n"
    assert result.read_text()


@pytest.mark.slow(1)
def test_what_an_encoding_lacks_is_printed_as_a_question_mark() -> None:
    ended = alone("bugs", "KAFKA-14402", PYTHONIOENCODING="ascii")
    assert (ended.code, ended.err) == (0, "")
    assert "state: UNINITIALIZED ? INITIALIZING" in ended.out
