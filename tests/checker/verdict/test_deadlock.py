"""A deadlock says who waits for what, and points at the rows that would go on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.output.sarif import to_sarif
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.diagrams.report.page import to_html
from epochfence.language import Instance, instantiate
from epochfence.language.declaration.loading import declared

LINES = """\
from epochfence.language import *
K = Key("client", 2)
S = enum("S", "IDLE", "WAITING", "DONE")
client, server = Machine("client", K), Machine("server")
s = client.state_field("s", S)
busy, n = server.field("busy", Bool()), server.field("n", Int(0, 2))
Ask = message("Ask", server, client=K)
Answer = message("Answer", client, answers=Ask)
ask = event("ask")
i = K.variable("i")
system = System(
    name="dead",
    tables=(
        Table(client, ask, when=s == S.IDLE, rows=(
            Row("ask", goto=S.WAITING, send=(Ask(client=client.this),)),
        )),
        Table(server, Ask, response=Answer, rows=(
            Row("answer", when=~busy & (n < 2), set={busy: True, n: n + 1}, reply=Answer()),
        )),
        Table(client, Answer, rows=(Row("done", goto=S.DONE),)),
    ),
    properties=(invariant("Two", n <= 2, "At most two."),),
    channels=(Channel(Ask, 1), Channel(Answer, 1)),
    terminal=all_of(i, s.at(i) == S.DONE),
)
"""


def _stuck(folder: Path, source: str = LINES) -> tuple[Instance, Result]:
    file = folder / "dead.py"
    file.write_text(source)
    instance = instantiate(declared(str(file)))
    result = check(instance, Options())
    assert result.verdict is Verdict.DEADLOCK
    return instance, result


def _why(folder: Path, source: str = LINES) -> tuple[str, ...]:
    trace = _stuck(folder, source)[1].trace
    assert trace is not None
    return trace.why


def test_each_machine_with_work_left_is_named_with_what_refuses_it(tmp_path: Path) -> None:
    lines = _why(tmp_path)
    waits = next(line for line in lines if line.startswith("client"))
    assert waits.endswith(" can't take ask (no Answer is in flight to it):")
    assert lines[lines.index("server can't take Ask [answer]:") + 1] == "  busy"
    assert sum(line.startswith("client") for line in lines) == 1  # the other one is done


def test_a_machine_that_nothing_travels_to_waits_for_its_message(tmp_path: Path) -> None:
    lost = LINES.replace(", reply=Answer()", "").replace("~busy & (n < 2)", "n < 2")
    lines = _why(tmp_path, lost)
    assert [line for line in lines if not line.startswith(" ")] == [
        "client0 can't take ask (no Answer is in flight to it):",
        "client1 can't take ask (no Answer is in flight to it):",
    ]


PEERS = """\
from epochfence.language import *
left, right = Machine("left"), Machine("right")
sent, got = left.field("sent", Int(0, 2)), left.field("got", Int(0, 2))
taken = right.field("taken", Int(0, 2))
ToLeft, ToRight = message("ToLeft", left), message("ToRight", right)
system = System(
    name="peers",
    tables=(
        Table(left, event("begin"), rows=(
            Row("begin", when=sent == 0, set={sent: 1}, send=(ToRight(),)),
        )),
        Table(right, event("answer"), rows=(Row("answer", when=taken > 1, send=(ToLeft(),)),)),
        Table(left, ToLeft, rows=(Row("get", set={got: got + 1}),)),
        Table(right, ToRight, rows=(Row("take", set={taken: taken + 1}),)),
    ),
    properties=(invariant("Few", got <= 2, "At most two."),),
    channels=(Channel(ToLeft, 1), Channel(ToRight, 1)),
    terminal=got == 1,
)
"""


def test_who_would_send_the_awaited_message_is_named_too(tmp_path: Path) -> None:
    """`terminal` names only the left one, which waits for the right one."""
    assert _why(tmp_path, PEERS) == (
        "left can't take begin [begin] (no ToLeft is in flight to it):",
        "  sent = 1, not 0",
        "right can't take answer [answer] (no ToRight is in flight to it):",
        "  taken = 1, not above 1",
    )


def test_a_full_channel_is_named(tmp_path: Path) -> None:
    full = LINES.replace("Channel(Answer, 1)", "Channel(Answer, 0)").replace("~busy & ", "")
    assert _why(tmp_path, full)[-1] == "  no room for Answer"


@pytest.mark.parametrize("terminal", ["False", "n == 2"])
def test_every_machine_is_named_if_terminal_names_none(tmp_path: Path, terminal: str) -> None:
    source = LINES.replace("all_of(i, s.at(i) == S.DONE)", terminal)
    assert "server can't take Ask [answer]:" in _why(tmp_path, source)


def test_sarif_points_at_the_row_that_refused(tmp_path: Path) -> None:
    instance, result = _stuck(tmp_path)
    (run,) = json.loads(to_sarif(instance, result, tmp_path))["runs"]
    first, second = run["results"][0]["locations"]
    assert first["physicalLocation"]["region"]["startLine"] == 18  # the server's row
    assert second["physicalLocation"]["region"]["startLine"] == 14  # the client's table
    assert [x["logicalLocations"][0]["fullyQualifiedName"] for x in (first, second)] == [
        "server.Ask/answer",
        "client.ask",
    ]


def test_the_report_shows_the_row_that_refused(tmp_path: Path) -> None:
    page = to_html(*_stuck(tmp_path))
    assert page.count('class="refused"') == 2
    assert 'class="step fault"' not in page
