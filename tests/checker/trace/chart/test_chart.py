"""Sequence charts: which message a step takes, and the chart in text."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import pytest

from epochfence.checker.trace.chart.chart import Chart, chart_of, text_of
from epochfence.checker.trace.chart.story import story
from epochfence.checker.trace.chart.text import to_lines
from epochfence.checker.trace.trace import Trace, TraceStep, shown_trace
from epochfence.checker.verdict.constant_folding import declared_rows
from epochfence.language import Instance, instantiate
from epochfence.model.engine.interpreter import FullState, Interpreter, Step
from epochfence.spec.systems import SHIPPED, shipped

pytestmark = pytest.mark.together  # a run is drawn once


def message(name: str, source: str | None, target: str, **fields: Any) -> dict[str, Any]:
    """A message as a trace has it."""
    return {"message": name, "from": source, "to": target, "fields": fields}


ASK, AGAIN = (message("Ask", "client", "server", number=number) for number in (1, 2))
ANSWER = message("Answer", "server", "client", error="NONE")


def step(
    actor: str, action: str, about: Any = None, sent: Any = (), dropped: Any = ()
) -> TraceStep:
    """A step that changes nothing."""
    return TraceStep(actor, action, "row", (), (), (), about, tuple(sent), tuple(dropped))


def trace(*steps: TraceStep, loop: int | None = None) -> Trace:
    """A trace of these steps."""
    return Trace((), steps, (), "It is broken.", loop=loop)


def test_a_message_goes_from_the_step_that_sent_it_to_the_one_that_takes_it() -> None:
    chart = chart_of(
        trace(
            step("client", "ask", sent=[ASK]),
            step("client", "ask", sent=[AGAIN]),
            step("server", "Ask(number=2)", AGAIN, [ANSWER]),
            step("server", "Ask(number=1)", ASK),
        )
    )
    taken = [each.took and (each.took.sent, each.took.taken) for each in chart.steps]
    assert taken == [None, None, (2, 3), (1, 4)]
    assert [each.took.is_late for each in chart.steps if each.took] == [False, True]
    assert [(arrow.message, arrow.sent) for arrow in chart.in_flight] == [("Answer", 3)]
    assert chart.lanes == ("client", "server")


def test_of_two_that_are_the_same_the_first_is_taken_first() -> None:
    ask = step("client", "ask", sent=[ASK])
    chart = chart_of(trace(ask, ask, step("server", "Ask(number=1)", ASK)))
    assert chart.steps[2].took is not None
    assert chart.steps[2].took.sent == 1
    assert [arrow.sent for arrow in chart.in_flight] == [2]


def test_what_is_lost_or_refused_says_so() -> None:
    chart = chart_of(
        trace(
            step("client", "ask", sent=[ASK, AGAIN]),
            step("server", "refused Ask(number=1)", ASK, dropped=[AGAIN]),
        )
    )
    assert [arrow.fate for arrow in chart.steps[0].sent] == ["refused", "lost"]


def test_a_message_that_stays_in_flight_is_taken_again_from_where_it_was_sent() -> None:
    chart = chart_of(
        trace(
            step("client", "ask", sent=[ASK]),
            step("server", "Ask(number=1)", ASK, [ASK, ANSWER]),
            step("server", "Ask(number=1)", ASK),
        )
    )
    took = [each.took for each in chart.steps if each.took]
    assert [(arrow.sent, arrow.again) for arrow in took] == [(1, False), (1, True)]
    assert [arrow.message for arrow in chart.steps[1].sent] == ["Answer"]


def test_a_message_that_was_in_flight_at_first_has_no_step_that_sent_it() -> None:
    chart = chart_of(trace(step("server", "Ask(number=1)", message("Ask", None, "server"))))
    assert chart.steps[0].took is not None
    assert chart.steps[0].took.sent == 0


def test_a_record_in_a_message_is_in_brackets() -> None:
    """Else nobody sees where one of several ends."""
    item = {"owner": "client0", "number": 1}
    assert text_of(item) == "(owner=client0, number=1)"
    assert text_of([item, None]) == "[(owner=client0, number=1), none]"


def test_a_message_to_oneself_is_told_where_it_is_sent() -> None:
    """No arrow shows it, even if it is taken at once."""
    own = message("Elect", "node", "node", id=1)
    lines = to_lines(
        chart_of(trace(step("node", "stand", sent=[own]), step("node", "Elect(id=1)", own)))
    )
    assert lines == [
        "   node",
        "1    ●    stand [row]",
        "     │      sends Elect, taken at step 2",
        "2    ●    Elect [row]",
        "     │      id=1",
    ]


def test_the_chart_in_text() -> None:
    lines = to_lines(
        chart_of(
            trace(
                step("client", "ask(once)", sent=[ASK]),
                step("client", "wait"),
                step("server", "Ask(number=1)", ASK, [ANSWER]),
                step("client", "lost Answer(error=NONE)", ANSWER),
                loop=2,
            )
        )
    )
    assert lines == [
        "  client server",
        "1    ●      │     ask(once) [row]",
        "     │      │       sends Ask, taken at step 3",
        "2    ●      │     wait [row]",
        "from here on, again and again:",
        "3    ├─────▶●     Ask [row], sent at step 1",
        "     │      │       number=1",
        "4    ●✗─────┤     lost Answer [row]",
        "     │      │       error=NONE",
    ]


@pytest.mark.slow(1)
@pytest.mark.parametrize("name", SHIPPED)
def test_a_run_of_any_length_fits_and_breaks_no_name(name: str, seed: int) -> None:
    _, chart = drawn(name, seed)
    lines = to_lines(chart)
    assert max(map(len, lines)) <= 100
    assert {*chart.lanes} <= {*" ".join(lines[:2]).split()}
    words = {word.strip(":;") for line in lines for word in line.split()}
    for each in chart.steps:
        assert {word for change in each.changes for word in change.split(":")[0].split()} <= words
        assert all(arrow.taken is None or arrow.taken > each.number for arrow in each.sent)


@pytest.mark.slow(1)
@pytest.mark.parametrize("name", SHIPPED)
def test_a_story_has_a_sentence_and_a_source_for_each_step(name: str, seed: int) -> None:
    instance, chart = drawn(name, seed)
    sentences = list(story(chart, instance))
    for step, sentence in zip(chart.steps, sentences, strict=False):
        assert sentence.startswith(f"{step.number}. ")
        assert f": {step.row}." in sentence
        assert step.lane in sentence
        rows = declared_rows(instance).items()  # not those of other releases
        sources = {row.source for (_, name), row in rows if name == step.row}
        assert any(sentence.endswith(f" ({source})" if source else ".") for source in sources)
    assert len(sentences) == len(chart.steps) + len(chart.in_flight)


def test_a_story_tells_what_became_of_messages() -> None:
    taken = step("server", "Ask(number=2)", AGAIN, [ASK])
    ask = step("client", "ask(once)", sent=[ASK, AGAIN])
    lost = step("server", "lost Ask(number=1)", ASK)
    told_of = list(
        story(chart_of(trace(ask, taken, lost, loop=1)), instantiate(shipped("transactions")))
    )
    assert told_of == [
        "1. client: ask(once): row. It sends Ask to server, which is lost at step 3. "
        "It sends Ask to server.",
        "From here on, again and again:",
        "2. server takes Ask from client: row. It sends Ask to server, which stays in flight.",
        "3. Ask from client to server is lost, sent at step 1: row.",
        "Ask of step 2 is still in flight to server.",
    ]


@cache
def drawn(name: str, seed: int) -> tuple[Instance, Chart]:
    """A shipped system, and the chart of a random run of it."""
    instance = instantiate(shipped(name))
    states, steps = walk(Interpreter(instance), Random(seed))
    return instance, chart_of(shown_trace(instance, states, steps, "It ended."))


def walk(machine: Interpreter, random: Random) -> tuple[list[FullState], list[Step]]:
    """A run of at most 40 steps."""
    states: list[FullState] = [next(iter(machine.initial_states()))]
    steps: list[Step] = []
    while len(steps) < 40:
        every = [each for each in machine.steps(states[-1]) if each.state is not None]
        if not every:
            break
        steps.append(random.choice(every))
        assert steps[-1].state is not None
        states.append(steps[-1].state)
    return states, steps
