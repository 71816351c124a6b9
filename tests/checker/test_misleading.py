"""Small declarations that would mislead, and what the result says of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from epochfence.checker.check import Options, check
from epochfence.checker.output.summary import tell
from epochfence.checker.trace.chart.chart import chart_of
from epochfence.checker.trace.chart.text import to_lines
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import instantiate
from epochfence.language.declaration.loading import declared

HEAD = "from epochfence.language import *\n"

OVERTAKING = """
V = Int(0, 2)
writer, store = Machine("writer"), Machine("store")
sent = writer.field("sent", V)
value = store.field("value", V)
Write = message("Write", store, value=V)
system = System(
    name="overtaking",
    tables=(
        Table(writer, event("write"), when=sent < 2, rows=(
            Row("write", set={sent: sent + 1}, send=(Write(value=sent + 1),)),
        )),
        Table(store, Write, rows=(Row("store", set={value: Write.value}),)),
    ),
    properties=(step_property("Newer", after(value) >= value, "A later write never loses."),),
    channels=(Channel(Write$),), terminal=value == 2,
)
"""

STUCK = """
V = Int(0, 3)
client, server = Machine("client"), Machine("server")
sent, done = client.field("sent", V), server.field("done", V)
ticks = client.field("ticks", Int(0, 1))
Ask = message("Ask", server, value=V)
system = System(
    name="stuck",
    tables=(
        Table(client, event("ask"), when=sent < 3, rows=(
            Row("ask", set={sent: sent + 1}, send=(Ask(value=sent + 1),)),
        )),
        Table(client, event("tick"), rows=(Row("tick", set={ticks: 1 - ticks}),)),
        Table(server, Ask, rows=(
            Row("one", when=Ask.value == 1, set={done: Ask.value}),$
        )),
    ),
    properties=(invariant("NotAhead", done <= sent, "Nothing is done that wasn't asked."),),
    channels=(Channel(Ask, 3),), terminal=sent == 3,
)
"""

GOAL = """
S = enum("S", "A", "B", "C")
m = Machine("m")
s = m.state_field("s", S)
go = event("go")
system = System(
    name="goal",
    tables=(Table(m, go, when=s == S.A, rows=(Row("go", goto=S.B),)),),
    properties=(), progress=($,), fairness=weak_fairness(go), terminal=s == S.B,
)
"""

SPREAD = """
K = Key("server", 3)
server, boss = Machine("server", K), Machine("boss")
told, got = boss.field("told", Bool()), boss.field("got", Set(K))
Go = message("Go", server, server=K)
Done = message("Done", boss, server=K)
k = K.variable("k")
system = System(
    name="spread",
    tables=(
        Table(boss, event("start"), when=~told, rows=(
            Row("tell", set={told: True}, send=(to_each(k, True, Go(server=k)),)),
        )),
        Table(server, Go, rows=(Row("go", send=(Done(server=server.this),)),)),
        Table(boss, Done, rows=(Row("done", set={got: got | set_of(Done.server)}),)),
    ),
    properties=(invariant("Few", size(got) < 2, "Two aren't done."),),
    channels=(Channel(Go, 1), Channel(Done, 1)), terminal=size(got) == 3,
)
"""


def _run(folder: Path, source: str, instead: str = "", **options: Any) -> Result:
    file = folder / "drawn.py"
    file.write_text(HEAD + source.replace("$", instead))
    progress = options.pop("progress", False)
    return check(instantiate(declared(str(file)), progress=progress), Options(**options))


def _told(result: Result) -> str:
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    tell(result, console)
    return console.export_text()


WAITED = "rows waited for a full channel: writer.write (Write, capacity 1)"


def test_rows_that_wait_for_a_channel_of_the_default_capacity_are_named(tmp_path: Path) -> None:
    result = _run(tmp_path, OVERTAKING)
    assert result.verdict is Verdict.HOLDS
    assert f"HOLDS, but: {WAITED}." in _told(result)
    assert f"  within this bound: {WAITED}" in _told(result).splitlines()
    strict = _run(tmp_path, OVERTAKING, strict=True)
    assert (strict.verdict, strict.reason) == (
        Verdict.INCONCLUSIVE,
        "1 thing is vacuous (--strict)",
    )
    assert WAITED in _told(strict)


def test_a_capacity_that_was_chosen_is_a_bound(tmp_path: Path) -> None:
    assert not _run(tmp_path, OVERTAKING, ", 1").vacuous
    assert not _run(tmp_path, OVERTAKING, ", capacity=1", strict=True).vacuous
    assert _run(tmp_path, OVERTAKING, ", 2").verdict is Verdict.BROKEN


def test_a_channel_that_is_never_full_is_not_named(tmp_path: Path) -> None:
    once = OVERTAKING.replace("sent < 2", "sent < 1").replace("value == 2", "value == 1")
    result = _run(tmp_path, once)
    assert "waited" not in _told(result)


@pytest.mark.parametrize("kind", ["", ", ordered=True", ", lossy=True", ", duplicates=1"])
def test_every_kind_of_channel_is_looked_at(tmp_path: Path, kind: str) -> None:
    # a doubled message finds the first one's place taken
    assert "Write, capacity 1" in _told(_run(tmp_path, OVERTAKING, kind, deadlock=False))


UNTAKEN = "some message in flight waits, maybe for ever, because no row of server.Ask takes it"


def test_a_message_that_no_row_takes_is_noted(tmp_path: Path) -> None:
    result = _run(tmp_path, STUCK)
    assert result.verdict is Verdict.HOLDS
    assert UNTAKEN in _told(result)


@pytest.mark.parametrize(
    "rows",
    [
        '\nRow("more"),',
        '\nRow("more", when=Ask.value > 1),',
        '\nRow("two", when=Ask.value == 2), Row("three", when=Ask.value == 3),',
    ],
)
def test_messages_that_rows_take_are_not_noted(tmp_path: Path, rows: str) -> None:
    assert UNTAKEN not in _told(_run(tmp_path, STUCK, rows))


def test_a_message_that_shall_wait_is_not_noted(tmp_path: Path) -> None:
    waits = STUCK.replace("Table(server, Ask, rows", "Table(server, Ask, when=Ask.value == 1, rows")
    assert UNTAKEN not in _told(_run(tmp_path, waits))


WHERE = "its goal holds in every state where its premise holds"
NOTHING = {
    'leads_to("P", s == S.A, s.is_in(S.A, S.B), "P.")': WHERE,
    'leads_to("P", s == S.A, s != S.C, "P.")': WHERE,
    'leads_to("P", s == S.B, s == S.B, "P.")': "",
    'always_possible("P", s != S.C, "P.")': "its goal holds in every state",
    'leads_to("P", s == S.C, s == S.B, "P.")': "its premise is never true",
    'leads_to("P", s == S.A, s == S.B, "P.")': None,
    'leads_to("P", s != S.C, s == S.B, "P.")': None,
    'always_possible("P", s == S.B, "P.")': None,
}


@pytest.mark.parametrize("item", [x for x, why in NOTHING.items() if why != ""])
def test_progress_that_asks_for_nothing_is_said(tmp_path: Path, item: str) -> None:
    why = NOTHING[item]
    result = _run(tmp_path, GOAL, item, progress=True)
    assert [x.what.partition(": ")[2] for x in result.vacuous] == ([] if why is None else [why])
    strict = _run(tmp_path, GOAL, item, progress=True, strict=True)
    assert (strict.verdict is Verdict.HOLDS) is (why is None)


def test_terminal_that_is_true_is_in_the_verdict(tmp_path: Path) -> None:
    ends = _run(tmp_path, OVERTAKING.replace("terminal=value == 2", "terminal=True"), ", 1")
    verdict, *lines = _told(ends).splitlines()
    assert verdict == (
        "Every property holds in every state within the bounds (exhaustive); terminal=True: a run "
        "may end anywhere. (exit 0, HOLDS)"
    )
    assert "  deadlocks (terminal=True)" in lines
    off = _told(_run(tmp_path, OVERTAKING, ", 1", deadlock=False))
    assert "terminal=True" not in off
    assert "  deadlocks (--no-deadlock)" in off.splitlines()


def test_a_trace_shows_every_receiver(tmp_path: Path) -> None:
    trace = _run(tmp_path, SPREAD).trace
    assert trace is not None
    lines = "\n".join(to_lines(chart_of(trace)))
    for server in ("server0", "server1", "server2"):
        assert f"sends Go to {server}, " in lines
    assert "Go of step 1 to server" in lines
