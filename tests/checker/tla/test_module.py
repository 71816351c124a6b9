"""Modules in TLA+: their form, and what they name. What TLC makes of them: make crosscheck."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from epochfence import language as lang
from epochfence.checker.named_systems import load_system
from epochfence.checker.tla.layout import WIDTH, Choice, Headed, Junction, joined, line, lines
from epochfence.checker.tla.module import module
from epochfence.checker.tla.names import LIBRARY, Names, reserved
from epochfence.cli import app
from epochfence.language import instantiate
from epochfence.spec.systems import SHIPPED

LEASE = "docs/examples/lease.py"
DEFINED = re.compile(r"^(\w+)(?:\([^)]*\))? ==", re.MULTILINE)


def text_of(name: str, **constants: int) -> str:
    return module(instantiate(load_system(name), None, constants)).text


@pytest.mark.slow(1)
@pytest.mark.parametrize("name", [*SHIPPED, LEASE, "docs/examples/paxos.py"])
def test_each_row_and_property_is_defined_once_and_each_action_is_a_step(name: str) -> None:
    instance = instantiate(load_system(name))
    written = module(instance)
    defined = DEFINED.findall(written.text)
    assert len(defined) == len(set(defined))
    ours = {"vars", "TypeOK", "Init", "Terminated", "Next", "Spec"}
    assert reserved().isdisjoint(set(defined) - ours)
    steps = re.findall(r"^  \\/ (\w+)$", written.text, re.MULTILINE)
    assert len(steps) == len(instance.actions) + 1
    assert set(steps) <= set(defined)
    rows = len(instance.row_names)
    assert len(defined) >= rows + len(instance.actions) + len(instance.properties)
    looked_for = re.findall(r"^(?:INVARIANT|PROPERTY) (\w+)$", written.configuration, re.MULTILINE)
    assert len(looked_for) == len(instance.properties) + 1
    assert set(looked_for) <= set(defined)


@pytest.mark.slow(1)
@pytest.mark.parametrize("name", [*SHIPPED, LEASE])
def test_a_row_says_what_becomes_of_every_variable(name: str) -> None:
    instance = instantiate(load_system(name))
    text = module(instance).text
    names = re.search(r"^vars == <<(.*?)>>", text, re.MULTILINE | re.DOTALL)
    assert names is not None
    variables = set(re.split(r",\s+", names[1]))
    assert len(variables) == len(instance.variables)
    bodies = re.split(r"\n\n", text)
    rows = [
        body for body in bodies if "UNCHANGED <<" in body or ("' =" in body and "[][" not in body)
    ]
    assert len(rows) >= len(instance.row_names)
    for body in rows:
        changed = set(re.findall(r"(\w+)' =", body))
        same = re.search(r"UNCHANGED <<(.*?)>>", body, re.DOTALL)
        kept = set(re.split(r",\s+", same[1])) if same else set[str]()
        assert changed | kept == variables
        assert changed.isdisjoint(kept)


def test_lines_are_short_where_formulas_have_places_to_break() -> None:
    text = text_of(LEASE)
    assert all(len(one) <= WIDTH + 20 for one in text.splitlines())
    long = joined("/\\", *(f"a_condition_that_is_rather_long_{n}" for n in range(5)))
    assert lines(long)[1] == "/\\ a_condition_that_is_rather_long_1"
    assert len(lines(Choice(long, "TRUE", "FALSE"))) == 7


def test_a_quantifier_doesn_t_reach_beyond_a_premise() -> None:
    inner = Headed("\\E x \\in S :", "x > 1" + " + 0" * 20)
    assert line(Junction("=>", (inner, "done"))).startswith("((\\E")
    broken = lines(Junction("=>", (inner, "done")))
    assert broken[0].startswith("(")
    assert broken[-2].endswith(")")
    assert broken[-1] == "=> done"


def test_names_are_readable_and_none_is_taken_twice() -> None:
    names = Names()
    assert names.variable("client.state") == "client_state"
    assert names.operator("client state") == "client_state_2"
    assert names.operator("doesn't wait: 2nd") == "doesnt_wait_2nd"
    assert names.constant("Put") == "Put_2"
    assert names.bound("client_state", ["client_state_3"]) == "client_state_4"
    assert names.variable("client.state") == "client_state"
    assert {"Put", "None", "Spec", "DOMAIN"} <= reserved()


def test_names_are_such_that_tla_has() -> None:
    """It has ASCII letters alone, and WF_ and SF_ are operators of it."""
    names = Names()
    assert names.variable("état de l'élève") == "tat_de_l_l_ve"
    assert names.variable("锁.状态") == "x_"
    assert names.variable("锁") == "x__2"
    assert names.operator("WF_lock") == "x_WF_lock"
    assert names.constant("SF_") == "SF"


def test_what_tla_can_t_say_is_refused() -> None:
    machine = lang.Machine("m")
    bag = machine.field("bag", lang.Bag(lang.Int(0, 2), 2))
    one = lang.element("one", bag)
    row = lang.Row("row", when=lang.first_of(one, one > 0).is_set)
    system = lang.System("bags", (lang.Table(machine, lang.event("go"), (row,)),), ())
    with pytest.raises(lang.DeclarationError, match="no first_of of a bag"):
        module(instantiate(system))


def test_the_command_writes_a_module_its_configuration_and_what_both_extend(tmp_path: Path) -> None:
    folder = tmp_path / "lease"
    done = CliRunner().invoke(app, ["export", "tla", LEASE, "-o", str(folder)])
    assert done.exit_code == 0
    assert {path.name for path in folder.iterdir()} == {"lease.tla", "lease.cfg", LIBRARY.name}
    assert "lease.tla: " in done.output.replace("\n", "")
    (folder / "lease.cfg").unlink()
    (folder / "lease.cfg").mkdir()
    (folder / "lease.tla").write_text("as it was")
    refused = CliRunner().invoke(app, ["export", "tla", LEASE, "-o", str(folder)])
    assert refused.exit_code == 2
    assert (folder / "lease.tla").read_text() == "as it was"
