"""The table of clients' programs in docs/clients.md, and what is said where a tool is missing."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from epochfence.tests.clients import run
from epochfence.tests.clients.run import CLIENTS, FAULTS, PAGE, PASS, RELEASES, Client
from epochfence.tests.driver import recorded


def table() -> list[list[str]]:
    lines = recorded(PAGE, "programs").splitlines()
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def test_the_table_has_each_test_and_a_reason_for_each_failure() -> None:
    _, _, *lines = table()
    wanted = [(f"{each.name} {each.version}", test) for each in CLIENTS for test in each.tests]
    assert [(line[0], line[1]) for line in lines] == wanted
    for client, test, *cells, reason in lines:
        assert len(cells) == len(RELEASES) + 1
        assert set(cells) <= {"pass", "**fails**", ""}
        assert bool(reason) == ("**fails**" in cells), (client, test)
        if "**fails**" in cells:
            assert cells[-1] == "**fails**", "Kafka's own broker passes it"


def test_known_failures_are_of_tests_that_there_are() -> None:
    tests = {(client.name, test) for client in CLIENTS for test in client.tests}
    assert set(FAULTS) <= tests


def test_each_client_in_java_has_a_program_and_its_libraries() -> None:
    pom = (run.HERE / "java" / "pom.xml").read_text(encoding="utf-8")
    for client in CLIENTS:
        if client.folder == "java":
            program = client.call[-1]
            assert (run.HERE / "java" / "src" / f"{program}.java").exists()
            _, _, profile = pom.partition(f"<id>{program.lower()}</id>")
            assert f"<version>{client.version}</version>" in profile.partition("</profile>")[0]


SCRIPT = Client("x", "1", "js", ("sh", "dash"), ("true",), (sys.executable, "-c"), ())


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("pass", PASS),
        ("import sys; sys.exit(3)", "exit code 3"),
        ("import sys; sys.exit('a\\nthe reason')", "the reason"),
    ],
)
def test_an_outcome_is_the_last_line_of_what_a_program_says(
    tmp_path: Path, program: str, told: str
) -> None:
    assert run.outcome(SCRIPT, program, "127.0.0.1:1", tmp_path) == told


def test_a_history_without_a_request_needs_no_explanation(tmp_path: Path) -> None:
    client = SCRIPT._replace(tests=("pass",))
    assert run.on_served(client, "4.3", tmp_path) == {"pass": PASS}


def test_a_tool_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(run, "user_cache_path", lambda _: tmp_path)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(run.UnavailableError, match="install it"):
        run.built(CLIENTS[0])


def test_rows_of_clients_that_werent_run_stay(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    begin, end = "<!-- programs: begin -->\n", "<!-- programs: end -->\n"
    page.write_text(f"# A\n\n{begin}| franz-go 1 | old |\n| sarama 1 | old |\n{end}\nrest\n")
    monkeypatch.setattr(run, "PAGE", page)
    run.write({"sarama": ["| sarama 2 | new |"]})
    text = page.read_text(encoding="utf-8")
    assert "| franz-go 1 | old |\n| sarama 2 | new |\n" in text
    assert text.endswith(f"{end}\nrest\n")
    assert "sarama 1" not in text
