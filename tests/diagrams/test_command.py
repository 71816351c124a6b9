"""`epochfence diagram`, as it is called."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from epochfence.cli import app
from epochfence.spec.systems import SHIPPED

ORDERS = str(Path(__file__).parent / "orders.py")


def run(*arguments: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["diagram", *map(str, arguments)])
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.slow(1)
def test_a_machine_and_a_system_by_name() -> None:
    code, states, noise = run("transaction")
    assert (code, noise) == (0, "")
    assert states.startswith("digraph transaction {")
    assert "EMPTY -> ONGOING" in states
    code, machines, noise = run("transactions")
    assert (code, noise) == (0, "")
    assert "transaction -> partition" in machines
    assert run("transactions", "--machine", "transaction")[1] == states


@pytest.mark.slow(1)
def test_what_a_reader_declares() -> None:
    assert run(ORDERS)[1].startswith("digraph orders {")
    assert run(f"{ORDERS}:system")[1] == run(ORDERS)[1]
    assert "Held" in run(ORDERS, "--machine", "order")[1]


@pytest.mark.slow(1)
def test_one_release_and_all_rows() -> None:
    rows = (ORDERS, "--machine", "order", "--detail", "rows")
    assert "pay back: refund" in run(*rows)[1]
    assert "Held (6)" in run(*rows)[1]
    assert "pay back: refund" not in run(*rows, "--protocol", "1")[1]
    assert "not placed" not in run(*rows)[1]
    assert "not placed" in run(ORDERS, "--machine", "order", "--all-rows")[1]


def test_the_rows_of_one_event() -> None:
    one = run(ORDERS, "--machine", "order", "--event", "Place")[1]
    assert "after Place: place" in one
    assert "Place: hold" in one
    assert "pay back" not in one


def test_a_file_is_written_and_nothing_printed(tmp_path: Path) -> None:
    target = tmp_path / "order.mmd"
    assert run(ORDERS, "--machine", "order", "-o", target) == (0, "", "")
    assert target.read_text().startswith("stateDiagram-v2\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("orders",),
            f"{list(SHIPPED)[-1]}), a machine",
        ),
        (("orders", "--machine", "order"), "nothing is called orders"),
        (("transactions", "--machine", "coordinator"), "choose one of transaction, "),
        (("transactons",), "did you mean transactions?\n"),
        (("partition",), "no state field to draw (with one: transaction, producer)"),
        ((ORDERS, "--machine", "order", "--event", "Post"), "choose one of Pay, Place, "),
        (("transaction", "--protocol", "0.10"), "choose one of 0.11.0.0, 0.11.0.2, 1.0"),
        (("transaction", "-o", "transaction.jpg"), ".mmd"),
        (("transaction", "-o", "nowhere/transaction.svg"), "no folder"),
        (("nowhere.py",), "nowhere.py: no such file"),
        ((f"{ORDERS}:other",), "no system called other"),
    ],
)
def test_a_mistake_is_said_in_a_line(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, line = run(*arguments)
    assert (code, out) == (2, "")
    assert said in line
    assert line.startswith("epochfence: ")
    assert line.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
