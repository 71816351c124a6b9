"""Systems from a reader's own file, and what is said where there is none."""

from pathlib import Path

import pytest

from epochfence.spec.language import DeclarationError
from epochfence.spec.load import load_system

BENCH = Path(__file__).parents[2] / "bench"

ONE = """\
from epochfence.spec.language import *

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
    with pytest.raises(DeclarationError, match=r"no system called third \(it has: system, other\)"):
        load_system(f"{file}:third")


def test_a_system_with_two_names_is_one(file: Path) -> None:
    file.write_text(ONE + "again = system\n")
    assert load_system(str(file)).name == "mine"


def test_a_file_is_read_each_time(file: Path) -> None:
    file.write_text(ONE)
    load_system(str(file))
    file.write_text(ONE.replace('"mine"', '"changed"'))
    assert load_system(str(file)).name == "changed"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", r"declared.py must hold one system or be given as FILE.py:NAME: none"),
        ("x = 1\ny = x / 0\n", r"declared.py, line 2 fails .*: ZeroDivisionError: division by"),
        ("x = 1\ndef f(:\n", r"declared.py, line 2 fails when it is run: SyntaxError"),
        ("import no_such_module\n", r"line 1 fails when it is run: ModuleNotFoundError"),
        ("import sys\nsys.exit(3)\n", r"line 2 fails when it is run: SystemExit: 3"),
        (
            ONE.replace("x + 1", "True"),
            r"declared.py, line 5: table machine.tick, row 'up': `x` is 0..3: it can't be set to",
        ),
    ],
)
def test_a_file_that_declares_no_system(file: Path, text: str, said: str) -> None:
    file.write_text(text)
    with pytest.raises(DeclarationError, match=said):
        load_system(str(file))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"missing.py: no such file"):
        load_system(str(tmp_path / "missing.py"))
    with pytest.raises(DeclarationError, match="no such file"):
        load_system(f"{tmp_path}/missing.py:system")


def test_a_name_that_no_system_has() -> None:
    with pytest.raises(DeclarationError, match="no system is called nothing: take transactions"):
        load_system("nothing")
