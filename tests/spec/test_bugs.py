"""Known bugs: each breaks where it was, holds where it is mended, and breaks there without that."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from epochfence.checker.check import check
from epochfence.checker.named_systems import load_system
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import DeclarationError, Instance
from epochfence.spec.bugs import BUGS, Bug, bug_of
from epochfence.spec.changes import VARIED
from epochfence.spec.releases.features import RELEASED
from epochfence.tests.cli.test_cli import epochfence
from epochfence.tests.driver import recorded
from epochfence.tests.spec.bugs_page import PAGE, line_of

RENEW = "python tests/spec/bugs_page.py renews docs/bugs.md"
AT_FAULT = (Verdict.BROKEN, Verdict.LEADS_TO_BROKEN)


def run(instance: Instance) -> Result:
    result = check(instance)
    assert result.verdict in (*AT_FAULT, Verdict.HOLDS), result.reason
    return result


@pytest.mark.slow(10)
@pytest.mark.long
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.id)
def test_a_bug_shows_where_it_was_and_nowhere_else(bug: Bug) -> None:
    for instance in (bug.broken(), bug.control()):
        broken = run(instance)
        assert broken.verdict in AT_FAULT
        assert [item.verdict for item in broken.properties] == ["broken"]
        assert broken.trace is not None
        assert bug.is_in(broken.trace.taken), broken.trace.taken
        assert line_of(bug, len(broken.trace.steps)) in PAGE.read_text(encoding="utf-8"), RENEW
    fixed = run(bug.fixed())
    assert fixed.verdict is Verdict.HOLDS
    assert bug.property not in [item.subject for item in fixed.vacuous]


# With the release of the fix came another protocol, in which there is nothing to break.
FIXED_BEFORE = ("KAFKA-12620",)


def test_a_fix_that_a_release_has_is_there_without_being_switched_on() -> None:
    for bug in (bug for bug in BUGS if bug.id not in FIXED_BEFORE):
        here = bug.declared.protocols.features_at(bug.fixed_at)
        infos = {info.name: info for info in bug.declared.protocols.infos}
        for name in bug.fix:
            assert infos[name].since is None or name in here, f"{bug.id}: {name}"


def test_releases_that_have_a_bug_are_those_without_its_fix() -> None:
    assert bug_of("KAFKA-19446").releases == ("4.0.0", "4.0.1", "4.1")
    assert bug_of("KAFKA-18660").releases == ()
    assert bug_of("KAFKA-20634").releases == ("4.0.0", "4.0.1", "4.1", "4.2", "4.3")
    assert bug_of("KAFKA-14034").releases == RELEASED[RELEASED.index("2.5") :]


def test_the_page_has_a_line_for_each_bug_and_no_other() -> None:
    lines = recorded(PAGE, "bugs").splitlines()[2:]
    assert [line.split("`")[1] for line in lines] == [bug.id for bug in BUGS], RENEW


def test_no_two_bugs_go_by_one_name() -> None:
    names = Counter(name.casefold() for bug in BUGS for name in (bug.id, *bug.also))
    assert [name for name, count in names.items() if count > 1] == []
    assert bug_of("kip-890A").id == "KAFKA-14402"


def test_an_unknown_bug_lists_what_there_is() -> None:
    with pytest.raises(DeclarationError, match=r"called nothing: choose one of .*KAFKA-19446"):
        bug_of("nothing")
    with pytest.raises(DeclarationError, match=r"did you mean KAFKA-20357\?"):
        bug_of("KAFKA-2035")


def test_every_rule_of_a_variant_is_a_bugs() -> None:
    products = {bug.system for bug in BUGS if "+" in bug.system}
    for name, varied in ((name, made) for name, made in VARIED.items() if name in products):
        plain = load_system(name.rpartition("+")[0]).protocols.infos
        released = {info.name for info in varied().protocols.infos if info.since is not None}
        own = released - {info.name for info in plain}
        switched = {rule for bug in BUGS if bug.system == name for rule in (*bug.fix, *bug.off)}
        assert own & switched == own - {"transactional"}


def test_a_run_is_a_bugs_only_if_it_takes_its_rows_in_order() -> None:
    bug = bug_of("KAFKA-14402")
    assert bug.is_in(["a/b", *bug.takes])
    assert not bug.is_in(reversed(bug.takes))


@pytest.mark.parametrize(("verdict", "code"), [("INCONCLUSIVE", 20), ("INTERRUPTED", 130)])
def test_a_bug_whose_run_has_no_end_is_not_said_to_hold(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, verdict: str, code: int
) -> None:
    """It went on with the next run, and ended with an internal error."""
    asked: list[Instance] = []

    def ended_early(instance: Instance) -> Result:
        asked.append(instance)
        return replace(check(instance), verdict=Verdict[verdict], reason="no end", trace=None)

    monkeypatch.setattr("epochfence.checker.check.check", ended_early)
    ended = epochfence("bugs", "KAFKA-14034", "--json", tmp_path / "bug.json")
    assert (ended.code, len(asked)) == (code, 1)
    assert ended.out.endswith(f"no end (exit {code}, {verdict})\n")
    assert " holds" not in ended.out
    assert [*tmp_path.iterdir()] == []
