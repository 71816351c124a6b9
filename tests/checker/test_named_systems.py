"""Systems from a reader's own file, and what is said where there is none."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from epochfence.checker.named_systems import load_system
from epochfence.language import DeclarationError

BENCH = Path(__file__).parents[2] / "bench"

ONE = """\
from epochfence.language import *

machine = Machine("machine")
x = machine.field("x", Int(0, 3))
table = Table(machine, event("tick"), (Row("up", when=x < 3, set={x: x + 1}),))
small = invariant("Small", x <= 3, "x is small.")
system = System("mine", (table,), (small,), terminal=True)
"""
TWO = ONE + 'other = System("other", (table,), (small,))\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file to declare in."""
    return tmp_path / "declared.py"


def test_the_one_system_of_a_file(file: Path) -> None:
    file.write_text(ONE)
    assert load_system(str(file)).name == "mine"
    assert load_system(f"{file}:system").name == "mine"
    assert load_system(str(BENCH / "ktx.py")).name == "ktx"


def test_one_of_several_systems_by_name(file: Path) -> None:
    file.write_text(TWO)
    assert load_system(f"{file}:other").name == "other"
    with pytest.raises(DeclarationError, match=r"must hold one system or .*: system, other$"):
        load_system(str(file))
    with pytest.raises(DeclarationError, match=r"called third \(choose one of system, other\)"):
        load_system(f"{file}:third")


def test_a_system_with_two_names_is_one(file: Path) -> None:
    file.write_text(ONE + "again = system\n")
    assert load_system(str(file)).name == "mine"


def test_a_file_is_read_each_time(file: Path) -> None:
    file.write_text(ONE)
    load_system(str(file))
    file.write_text(ONE.replace('"mine"', '"changed"'))
    assert load_system(str(file)).name == "changed"


GIVEN = "from epochfence.language import *\nmachine = Machine('m')\n" + (
    "x = machine.field('x', Int(0, 3))\ntick = event('tick')\n"
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", r"^declared.py must hold one system or be given as FILE.py:NAME: none$"),
        ("x = 1\ny = x / 0\n", r"^declared.py:2: ZeroDivisionError: division by zero$"),
        ("x = 1\ndef f(:\n", r"^declared.py:2: SyntaxError: "),
        ("x = '\udcff'\n", r"^declared.py.*: SyntaxError: "),
        ("x = 1\0\n", r"^declared.py.*: .*null bytes"),
        ("import no_such_module\n", r"^declared.py:1: ModuleNotFoundError: No module named 'no_s"),
        ("from epochfence import nothing\n", r"^declared.py:1: ImportError: "),
        ("\nx = y\n", r"^declared.py:2: NameError: name 'y' is not defined$"),
        ("open('nothing')\n", r"^declared.py:1: FileNotFoundError: "),
        ("import sys\nsys.exit(3)\n", r"^declared.py:2: SystemExit: 3$"),
        ("raise GeneratorExit\n", r"^declared.py:1: GeneratorExit$"),
        ("raise KeyboardInterrupt\n", r"^declared.py:1: KeyboardInterrupt$"),
        ("def f():\n    f()\nf()\n", r"^declared.py:2: .* nested too deeply: .* calls itself w"),
        ("x = []\nx = x[0]\n", r"^declared.py:2: IndexError: "),
        ("raise ValueError('a\\nb')\n", r"^declared.py:1: ValueError: a b$"),
        ("import os\nos._exit(0)\n", r"^declared.py: ended the process with 0 before it had decl"),
        ("import os\nos.abort()\n", r"^declared.py: was ended by a signal \(Aborted\) before it"),
        ("x = [0] * 10**10\n", r"^declared.py:1: the declaration needs more memory than its lim"),
        (GIVEN + "event(1)\n", r"^declared.py:5: an event is called 1: write a name in quotes$"),
        (GIVEN + "x in {1, 2}\n", r"^declared.py:5: `x` in ...: write .is_in\(...\)"),
        (GIVEN + "x not in {}\n", r"^declared.py:5: `x` not in ...: write .is_in\(...\), with ~"),
        (GIVEN + "x is None\n", r"^declared.py:5: `x is None`: write x == None$"),
        (GIVEN + "x is not None\n", r"^declared.py:5: `x is not None`: write x != None$"),
        (GIVEN + "if x in {0}:\n  pass\n", r"^declared.py:5: `x` in ...: write .is_in\(...\)"),
        (GIVEN + "{x: 1, 'y': 2, x: 3}\n", r"^declared.py:5: {...} has `x` twice"),
        (GIVEN + "{**{x: 1}, x: 1, x: 2}\n", r"^declared.py:5: {...} has `x` twice"),
        (
            GIVEN + "class K(Key): pass\ny = machine.field('y', K('k', 2))\n"
            "system = System('s', (Table(machine, tick, (Row('r'),)),), ())\n",
            r"^declared.py: s holds more than declarations: an object of its own class K$",
        ),
        (
            ONE.replace("x + 1", "True"),
            r"^declared.py:5: table machine.tick, row 'up': `x` is 0..3: it can't be set to",
        ),
    ],
)
def test_a_file_that_declares_no_system(
    file: Path, text: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    monkeypatch.chdir(file.parent)
    with pytest.raises(DeclarationError, match=said):
        load_system(file.name, 2**29)


def test_python_that_asks_no_expression_does_what_it_does(file: Path) -> None:
    asked = """
def guard(given=None):
    return x < 3 if given is None else given
assert guard(x < 2) is not guard()
assert 1 in (1, 2) and 3 not in [1, 2] and [i for i in range(3) if i in {1}] == [1]
seen = {x: 1}
if x in seen and not x is None:
    seen = {**seen, x: 2, "more": 3}
assert list(seen.values()) == [2, 3] and {} == dict()
print("printed, but not to standard output")
"""
    file.write_text(ONE.replace("table =", asked + "table ="))
    assert load_system(str(file)).name == "mine"


def test_a_helper_beside_the_file(file: Path) -> None:
    file.write_text("from beside import made\n" + ONE + "made(x)\n")
    helper = file.with_name("beside.py")
    helper.write_text("def made(x):\n    return x and x\n")
    with pytest.raises(
        DeclarationError, match=r"declared.py:9 \(beside.py:2\): `x` is an expression"
    ):
        load_system(str(file))
    helper.write_text("def made(x):\n    return x\n")
    assert load_system(str(file)).name == "mine"
    helper.write_text("def made(x:\n")
    with pytest.raises(DeclarationError, match=r"declared.py:1 \(beside.py:1\): SyntaxError"):
        load_system(str(file))


@pytest.mark.parametrize("name", ["beside", "package.inner"])
def test_what_python_decides_in_silence_is_found_in_helpers_as_well(file: Path, name: str) -> None:
    file.write_text(f"from {name} import made\n" + ONE + "made(x)\n")
    helper = file.parent.joinpath(*name.split(".")).with_suffix(".py")
    helper.parent.mkdir(exist_ok=True)
    place = rf"declared.py:9 \({helper.relative_to(file.parent)}:2\): "
    for slip, said in (
        ("x in {1, 2}", r"`x` in ...: write .is_in\(...\)"),
        ("x is None", r"`x is None`: write x == None"),
        ("{x: 1, x: 2}", r"{...} has `x` twice"),
    ):
        helper.write_text(f"def made(x):\n    return {slip}\n")
        with pytest.raises(DeclarationError, match=place + said):
            load_system(str(file))
    helper.write_text(
        "import json\nMADE = json.dumps(3) in ('3', '4')\ndef made(x):\n    assert MADE\n"
    )
    assert load_system(str(file)).name == "mine"
    assert not list(file.parent.rglob("*.pyc"))


def test_a_file_never_runs_where_verdicts_are_told(file: Path) -> None:
    file.write_text("import sys\nsys.setrecursionlimit(77)\nsys.stolen = 1\n" + ONE)
    assert load_system(str(file)).name == "mine"
    assert not hasattr(sys, "stolen")


def test_what_comes_back_is_what_was_declared(file: Path) -> None:
    file.write_text(ONE)
    system = load_system(str(file))
    (table,) = system.tables
    x = table.machine.fields["x"].expression
    assert table.rows[0].guard.same_as(x < 3)
    assert system.properties[0].expression.same_as(x <= 3)


@pytest.mark.slow(1)
def test_a_file_that_never_ends_is_ended_with_the_reader(file: Path) -> None:
    file.write_text("import os\nprint(os.getpid(), flush=True)\nwhile True: pass\n")
    command = [
        sys.executable,
        "-c",
        f"from epochfence.checker.named_systems import load_system; load_system({str(file)!r})",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as reader:
        assert reader.stderr is not None
        child = int(reader.stderr.readline())
        reader.send_signal(signal.SIGKILL)
    for _ in range(600):
        if not Path(f"/proc/{child}").exists():
            return
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    pytest.fail("it runs on")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"missing.py: no such file"):
        load_system(str(tmp_path / "missing.py"))
    with pytest.raises(DeclarationError, match="no such file"):
        load_system(f"{tmp_path}/missing.py:system")


def test_a_file_whose_name_is_misspelt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lease.py").write_text("")
    with pytest.raises(DeclarationError, match=r"no such file; did you mean .*lease.py\?$"):
        load_system(str(tmp_path / "leese.py"))
    monkeypatch.chdir(tmp_path)
    for name in ("leese", "lease"):
        with pytest.raises(DeclarationError, match=rf"{name}: did you mean lease.py\?$"):
            load_system(name)
    with pytest.raises(DeclarationError, match=r"no such file$"):
        load_system(f"{'x' * 300}/y\0.py")
    (tmp_path / "peers.py").mkdir()
    with pytest.raises(DeclarationError, match=r"^peers\.py is a folder: give a file in it$"):
        load_system("peers.py")
    with pytest.raises(DeclarationError, match=r"no such file$"):
        load_system("peer.py")


def test_a_name_that_the_system_of_files_refuses() -> None:
    with pytest.raises(DeclarationError, match=r"^can't read x+\.py: File name too long$"):
        load_system(f"{'x' * 300}.py")


def test_a_name_that_no_system_has() -> None:
    with pytest.raises(DeclarationError, match="called nothing: choose one of transactions"):
        load_system("nothing")


def test_what_is_done_meanwhile_is_done_while_a_file_runs(tmp_path: Path) -> None:
    file, seen = tmp_path / "slow.py", tmp_path / "seen"
    waits = (
        "import time\nfrom pathlib import Path\n"
        f"while not Path({str(seen)!r}).exists():\n    time.sleep(0.01)\n"
    )
    file.write_text(waits + ONE)
    assert load_system(str(file), meanwhile=seen.touch).name == "mine"
    with pytest.raises(DeclarationError, match=r"missing.py: no such file"):
        load_system(f"{tmp_path}/missing.py", meanwhile=lambda: pytest.fail("nothing runs"))
