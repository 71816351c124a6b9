"""The explorer over HTTP: what it answers to its own page, and to anybody else."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import uvicorn

from epochfence.checker.named_systems import load_system
from epochfence.diagrams.explorer.app import LARGEST, application
from epochfence.diagrams.explorer.explorer import Explorer
from epochfence.diagrams.explorer.goals import Found
from epochfence.diagrams.explorer.view import Views
from epochfence.language import Instance, instantiate
from epochfence.tests.cli.test_cli import ROOT, epochfence

LEASE = str(ROOT / "docs" / "examples" / "lease.py")


def lease_at(release: str) -> Instance:
    return instantiate(load_system(LEASE), release)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The port of an explorer of the lease at release 1."""
    listening = socket.create_server(("127.0.0.1", 0))
    application_ = application(Explorer(lease_at("1"), ["2"], lease_at))
    server = uvicorn.Server(uvicorn.Config(application_, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield listening.getsockname()[1]
    server.should_exit = True
    thread.join()


def ask(
    port: int, target: str, method: str = "GET", body: bytes = b"", **headers: str
) -> tuple[int, str]:
    """The code and text of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, target, body or None, named)
    answer = connection.getresponse()
    text = answer.read().decode()
    assert answer.headers["X-Content-Type-Options"] == "nosniff" or answer.status == 400
    connection.close()
    return answer.status, text


def view(port: int, **values: str) -> dict[str, Any]:
    code, text = ask(port, f"/api/view?{urlencode(values)}")
    assert code == 200, text
    return json.loads(text)


def test_its_page_needs_nothing_from_elsewhere(port: int) -> None:
    code, page = ask(port, "/")
    assert code == 200
    assert "<b>lease</b> · protocol 1" in page
    for path in ("/explorer.js", "/explorer.css", "/report.css"):
        assert path in page
        assert ask(port, path)[0] == 200
    assert "http://" not in page + ask(port, "/explorer.js")[1]


def test_a_view_has_the_run_the_state_and_the_steps(port: int) -> None:
    first, second = view(port), view(port, path="0.0")
    assert (first["length"], second["length"], second["path"]) == (0, 1, "0.0")
    assert first["steps"].count("data-take") == 2
    assert "ASKING" in second["state"]
    assert view(port, path="0", find="client1 lock")["steps"].count("data-take") == 1
    code, text = ask(port, "/api/blocked?path=0.0")
    assert code == 200
    assert "state.at(client) = ASKING, not HOLDING" in json.loads(text)["blocked"]


@pytest.mark.parametrize(
    "target",
    ["/api/view?path=0.99", "/api/view?path=99999999999999999999", "/api/view?path=../../etc",
     "/api/view?path=" + "0." * 4_000, "/api/view?path=%00", "/api/view?path=0&beside=9.9",
     "/api/view?path=0&beside=1", "/api/until?path=0&goal=", "/api/until?path=0&goal=x",
     "/api/until?path=0&goal=service.newest+%3D+99999999999999999999999", "/api/blocked?path=-1",
     "/api/until?path=0&goal=" + "a" * 4_000, "/api/view?path=%ff%fe"],
)  # fmt: skip
def test_hostile_values_are_refused_in_a_line(port: int, target: str) -> None:
    code, text = ask(port, target)
    assert code == 400
    error = json.loads(text)["error"]
    assert "\n" not in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("method", "target", "code"),
    [("GET", "/nothing", 404), ("GET", "/../../etc/passwd", 404), ("GET", "/%2e%2e/x", 404),
     ("POST", "/api/view", 405), ("GET", "/api/trace", 405), ("DELETE", "/", 405)],
)  # fmt: skip
def test_other_paths_and_methods_are_refused(
    port: int, method: str, target: str, code: int
) -> None:
    assert ask(port, target, method)[0] == code


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", ""])
def test_another_name_for_this_machine_is_refused(port: int, host: str) -> None:
    """A resolver may be made to lead any name here (DNS rebinding)."""
    for target in ("/", "/api/view", "/explorer.js"):
        assert ask(port, target, Host=f"{host}:{port}" if host else host)[0] == 400
    assert ask(port, "/", Host=f"localhost:{port}")[0] == 200


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Sec_Fetch_Site": "same-origin"}, 200),
    ],
)
def test_another_sites_page_is_refused(port: int, headers: dict[str, str], code: int) -> None:
    assert ask(port, "/api/view", "GET", b"", **headers)[0] == code
    posted = ask(port, "/api/trace", "POST", b"{}", **headers)
    assert posted[0] == (403 if code == 403 else 400)


def test_a_link_from_another_site_opens_the_page(port: int) -> None:
    assert ask(port, "/", Sec_Fetch_Site="cross-site")[0] == 200


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"{}", b'{"states": []}', b'{"states": [{"x": 1}]}', b"\xff\xfe",
     b"1" * 5_000, b'{"states": [{"service.newest": 1e999}]}', b'{"states": [[]], "loop": 7}',
     b"[" * 100_000],
)  # fmt: skip
def test_what_is_no_trace_is_refused(port: int, body: bytes) -> None:
    code, text = ask(port, "/api/trace", "POST", body)
    assert code == 400, text
    assert json.loads(text)["error"].count("\n") == 0


def test_a_trace_has_a_largest_size(port: int) -> None:
    assert ask(port, "/api/trace", "POST", b" " * (LARGEST + 1))[0] == 413


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traces")
    words = ("--protocol", "1", "--trace")
    assert epochfence("check", LEASE, *words, folder / "lease.itf.json").code == 12
    more = ("--set", "clients=3")
    assert epochfence("check", LEASE, *more, *words, folder / "more.itf.json").code == 12
    return folder


def test_a_trace_is_loaded_to_its_end(port: int, traces: Path) -> None:
    code, text = ask(port, "/api/trace", "POST", (traces / "lease.itf.json").read_bytes())
    assert code == 200, text
    shown = view(port, path=json.loads(text)["path"])
    assert shown["length"] == 11
    assert 'data-broken="NoStaleWrite"' in shown["told"]


def test_a_trace_of_other_settings_is_refused(port: int, traces: Path) -> None:
    code, text = ask(port, "/api/trace", "POST", (traces / "more.itf.json").read_bytes())
    assert code == 400
    assert "with other settings" in text


def test_a_run_goes_on_until_a_goal(port: int) -> None:
    target = f"/api/until?{urlencode({'path': '0.1', 'goal': 'client0.state = HOLDING'})}"
    found = json.loads(ask(port, target)[1])
    assert found["path"].startswith("0.1.")
    assert found["why"] == "after 3 steps"


def test_a_search_is_cancelled(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One search at a time, and another request ends it."""
    begun = threading.Event()

    def searched(*arguments: Any) -> Found:
        begun.set()
        while not arguments[-1]():
            pass
        return Found((), "cancelled: 7 states looked at")

    monkeypatch.setattr("epochfence.diagrams.explorer.app.until", searched)
    answers: list[tuple[int, str]] = []
    target = f"/api/until?{urlencode({'goal': 'stuck'})}"
    asking = threading.Thread(target=lambda: answers.append(ask(port, target)))
    asking.start()
    begun.wait(60)
    code, text = ask(port, target)
    assert code == 400
    assert "in progress" in text
    assert ask(port, "/api/cancel")[0] == 200
    asking.join(60)
    (answer,) = answers
    assert json.loads(answer[1]) == {"path": None, "why": "cancelled: 7 states looked at"}


def test_a_fault_of_ours_is_a_line_in_the_terminal(
    port: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("one\ntwo")

    monkeypatch.setattr(Views, "of", fails)
    assert ask(port, "/api/view") == (500, '{"error":"internal error: see the terminal"}')
    said = "epochfence: internal error, please report it: RuntimeError: one two\n"
    assert capsys.readouterr().err == said


# The command --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nothing",), "no system is called nothing"),
        ((LEASE, "--protocol", "9"), "unknown protocol"),
        ((LEASE, "--port", "70000"), "is not in the range 0<=x<=65535"),
        ((LEASE, "--trace", "gone.json"), "can't read"),
        ((LEASE, "--trace", str(ROOT / "README.md")), "not valid JSON"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(words: tuple[str, ...], says: str) -> None:
    ended = epochfence("explore", *words)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert says in ended.err


def test_a_port_in_use_is_said_in_a_line(port: int) -> None:
    ended = epochfence("explore", LEASE, "--port", str(port))
    assert (ended.code, ended.out) == (2, "")
    assert f"--port {port}: in use by another program" in ended.err


def test_a_trace_of_another_declaration_is_said_in_a_line(traces: Path) -> None:
    ended = epochfence("explore", LEASE, "--protocol", "1", "--trace", traces / "more.itf.json")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "with other settings" in ended.err
    ended = epochfence("explore", "idempotence", "--trace", traces / "lease.itf.json")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "not of idempotence" in ended.err


@pytest.mark.slow(1)
def test_it_says_where_it_is_and_ends_by_ctrl_c(traces: Path) -> None:
    command = [sys.executable, "-m", "epochfence.cli", "explore", LEASE]  # release 1, as the trace
    command += ["--port", "0", "--trace", str(traces / "lease.itf.json")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        at = int(line.partition("127.0.0.1:")[2].partition("/")[0])
        assert ask(at, "/")[0] == 200
        assert "/#system=lease&release=1&" in line
        with socket.create_connection(("127.0.0.1", at)) as slow:  # a request that is in flight
            head = "POST /api/trace HTTP/1.1", "Host: localhost", "Content-Length: 9"
            slow.sendall("\r\n".join([*head, "", "{"]).encode())
            assert ask(at, "/")[0] == 200  # by then it has begun
            process.send_signal(2)
            out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, b"", b"")
