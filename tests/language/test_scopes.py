"""A variable that is bound twice, and an instance that stands in the place of a variable."""

from __future__ import annotations

from pathlib import Path

import pytest

from epochfence.checker.check import check
from epochfence.language import (
    Channel,
    DeclarationError,
    Expression,
    Int,
    Key,
    Machine,
    Operand,
    Row,
    Set,
    System,
    Table,
    all_of,
    any_of,
    count_of,
    element,
    event,
    if_,
    instantiate,
    invariant,
    message,
    position,
    set_of,
    size,
    some,
    those,
    to_each,
)
from epochfence.language.declaration.loading import declared
from epochfence.model.engine.interpreter import Interpreter

KEY = Key("server", 3)
server, boss = Machine("server", KEY), Machine("boss")
waiting = server.field("waiting", Set(KEY))
got = boss.field("got", Set(KEY))
told = server.field("told", Int(0, 3))
Go = message("Go", server, server=KEY, number=Int(0, 3))
i, j, k = (KEY.variable(name) for name in "ijk")


def _waits(than: Expression) -> Expression:
    return any_of(i, i.is_in(got) & (i != than))


def _is_any(bound: Expression) -> Expression:
    return any_of(bound, bound.is_in(got))


CAPTURES = {
    "any_of in all_of": lambda: all_of(i, ~(i.is_in(got) & _waits(i))),
    "in a set": lambda: size(those(i, i.is_in(got) & _waits(i))) == 0,
    "two levels below": lambda: all_of(i, all_of(j, (i == j) | _waits(i))),
    "an element": lambda: all_of(element("e", got), _is_any(element("e", got)) & True),
    "a count": lambda: count_of(i, _waits(i)) == 0,
}


@pytest.mark.parametrize("what", CAPTURES)
def test_a_helper_that_binds_a_variable_of_its_caller_is_refused(what: str) -> None:
    with pytest.raises(
        DeclarationError, match=r"property P: .*a second time inside .*another name"
    ):
        invariant("P", CAPTURES[what](), "P.")


def test_a_helper_with_a_variable_of_its_own_is_taken() -> None:
    invariant("P", all_of(j, ~(j.is_in(got) & _waits(j))), "P.")
    # what doesn't speak of the variable can't be misread
    invariant("Q", all_of(i, i.is_in(got) | any_of(i, size(got) == 0)), "Q.")


SHADOW = """\
from epochfence.language import *
K = Key("p", 2)
m = Machine("m", K)
inside = m.field("inside", Bool())
i = K.variable("i")

def other_inside(than):
    return any_of(i, inside.at(i) & (i != than))

system = System(
    name="shadow",
    tables=(Table(m, event("go"), when=~inside, rows=(Row("go", set={inside: True}),)),),
    properties=(
        invariant("Mutex", all_of(i, ~(inside.at(i) & other_inside(i))), "One at a time."),
    ),
    terminal=True,
)
"""


def test_the_refusal_names_the_line(tmp_path: Path) -> None:
    file = tmp_path / "shadow.py"
    file.write_text(SHADOW)
    with pytest.raises(DeclarationError) as refused:
        declared(str(file))
    assert str(refused.value).startswith(f"{file}:14: property Mutex: `any(i in p: ")


def _told(when: Operand, number: Operand = 1) -> set[int]:
    """The servers that the boss tells, with a message for each for which a condition holds."""
    tell = to_each(k, when, Go(server=k, number=number))
    system = System(
        name="boss",
        tables=(
            Table(
                boss,
                event("start"),
                when=size(got) == 0,
                rows=(Row("tell", set={got: set_of(0, 1)}, send=(tell,)),),
            ),
            Table(server, Go, rows=(Row("go", set={told: Go.number}),)),
        ),
        properties=(invariant("P", size(got) < 3, "P."),),
        channels=(Channel(Go),),
    )
    instance = instantiate(system)
    check(instance)  # which grounds it
    machine = Interpreter(instance)
    (step,) = machine.steps(next(iter(machine.initial_states())))
    assert step.state is not None
    (in_flight,) = [
        value for name, value in machine.as_mapping(step.state).items() if name == "network.Go"
    ]
    assert isinstance(in_flight, tuple)
    return {at for at, bag in enumerate(in_flight) if bag}


def test_an_instance_takes_the_place_of_a_variable_in_every_operator() -> None:
    assert _told(position(k) == 1) == {1}
    assert _told(position(k) < 2, position(k) + 1) == {0, 1}
    assert _told((k == 2) | k.is_in(set_of(0, 2))) == {0, 2}
    assert _told(some(k) == 1) == {1}
    assert _told(if_(k == 1, True, False), if_(position(k) == 1, 2, 0)) == {1}
    assert _told(any_of(j, (position(j) > position(k)) & (j == 2)), position(k)) == {0, 1}
    assert _told(size(set_of(k) | set_of(1)) == 1) == {1}
