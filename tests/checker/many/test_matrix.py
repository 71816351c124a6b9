"""Properties against releases: cells as single runs have them, and bugs that a run agrees to."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from rich.console import Console

from epochfence.checker.check import Options, check
from epochfence.checker.many.journal import Journal
from epochfence.checker.many.matrix import DEADLOCK, Cell, Matrix, matrix, outcome
from epochfence.checker.many.sweep import Piece, digest, explore
from epochfence.checker.many.workers import Workers
from epochfence.checker.named_systems import load_system
from epochfence.checker.output.tables import print_matrix
from epochfence.checker.spark.options import SparkOptions
from epochfence.checker.verdict.result import Verdict
from epochfence.cli.options import bounds_of
from epochfence.language import Int, Machine, Row, System, Table, event, instantiate, invariant
from epochfence.spec.bugs import BUGS
from epochfence.spec.releases.features import RELEASED
from epochfence.spec.systems import shipped
from epochfence.tests.cli.test_cli import ROOT, epochfence
from epochfence.tests.systems.counter import Ticker

LEASE = str(ROOT / "docs" / "examples" / "lease.py")
RETRY = str(ROOT / "docs" / "examples" / "retry.py")
SYSTEM = load_system(LEASE)
PIECE = Piece(SYSTEM, "1", ())


@dataclass(frozen=True)
class Bug:
    """A known bug of the example."""

    id: str
    fix: tuple[str, ...]
    property: str
    system: str = SYSTEM.name
    since: str | None = None


def column(found: Matrix, protocol: str) -> dict[str, str]:
    return {name: found.cell(protocol, name).verdict for name in found.properties}


def alone(name: str, protocol: str) -> tuple[str, int | None]:
    """What a run of its own says of a property."""
    result = check(instantiate(SYSTEM, protocol, properties=[name]))
    return result.properties[0].verdict, result.properties[0].trace_length


@pytest.mark.slow(1)
def test_a_cell_is_what_a_run_of_its_own_finds() -> None:
    found = matrix(PIECE, ["1", "2"])
    for cell in found.every_cell:
        if cell.name != DEADLOCK:
            assert (cell.verdict, cell.steps) == alone(cell.name, cell.protocol)
    assert "broken" in column(found, "1").values()
    assert set(column(found, "2").values()) == {"holds"}
    broken = [cell for cell in found.every_cell if cell.verdict == "broken"]
    assert all(len(cell.trace["steps"]) == cell.steps for cell in broken)
    assert outcome([found]) is Verdict.BROKEN


SMALL_ONES = ("idempotence", "replication", "coordinators")
EVERY = [
    (name, protocol)
    for name in SMALL_ONES
    for protocol in dict.fromkeys(
        shipped(name).first_alike(shipped(name).protocols.releases).values()
    )
]


@pytest.mark.slow(6)
@pytest.mark.sample(1, of="engines: cells of a matrix")
@pytest.mark.parametrize(("name", "protocol"), EVERY, ids=map(" ".join, EVERY))
def test_the_cells_of_a_shipped_system_are_those_of_runs_of_their_own(
    name: str, protocol: str
) -> None:
    system = shipped(name)
    bounds = bounds_of(system, None)
    found = matrix(Piece(system, protocol, (), bounds=bounds), [protocol], progress=True)
    names = {item.name for item in (*system.properties, *system.progress)}
    assert set(found.properties) == names | {DEADLOCK}
    for cell in found.every_cell:
        asked = [] if cell.name == DEADLOCK else [cell.name]
        options = Options(deadlock=cell.name == DEADLOCK)
        result = check(instantiate(system, protocol, bounds=bounds, properties=asked), options)
        if cell.verdict != "broken":
            alone = Verdict.INCONCLUSIVE if cell.verdict == "vacuous" else Verdict.HOLDS
            assert result.verdict is alone
            empty = {x.subject for x in result.vacuous if x.kind in ("property", "premise")}
            assert (cell.verdict == "vacuous") == (cell.name in empty)
            continue
        assert result.verdict is not Verdict.HOLDS
        assert result.trace is not None
        assert cell.steps == len(cell.trace["steps"]) == len(result.trace.steps)


UNEXPLAINED = re.findall(
    r"^\| `([\w-]+)` \| (`\w.*?`) \| ([\d.]+) to ([\d.]+) \|.*\| (`\w.*`) \|$",
    (ROOT / "docs" / "matrix.md").read_text(),
    re.MULTILINE,
)


@pytest.mark.slow(6)
@pytest.mark.parametrize("row", UNEXPLAINED, ids=lambda row: f"{row[0]} {row[1]} {row[2]}")
def test_what_no_listed_bug_explains_is_as_the_page_has_it(row: tuple[str, ...]) -> None:
    """It breaks at the first and the last of these releases, and holds there with the features."""
    name, names, first, last, features = row
    properties, on = (text.replace("`", "").split(", ") for text in (names, features))
    options = Options(keep_going=True, brief=True, deadlock=False)
    none = list[str]()
    runs = ((first, none, "broken"), (last, none, "broken"), (last, on, "holds"))
    for protocol, fixes, wanted in runs:
        instance = instantiate(
            shipped(name), protocol, bounds="small", switch_on=fixes, properties=properties
        )
        found = check(instance, options).properties
        assert {item.name: item.verdict for item in found} == dict.fromkeys(properties, wanted)


def test_the_page_has_a_row_for_what_no_listed_bug_explains() -> None:
    assert len(UNEXPLAINED) == 5


OF_TRANSACTIONS = [
    (name, span, features)
    for names, spans, features in re.findall(
        r"^\| (`\w+`(?:, `\w+`)*) \| (\d[\d., to]+) \| .* \| (`\w.*`) \|$",
        (ROOT / "docs" / "matrix.md").read_text(),
        re.MULTILINE,
    )
    for name in names.replace("`", "").split(", ")
    if name in {item.name for item in shipped("transactions").properties}
    for span in spans.split(", ")
]


@pytest.mark.slow(8)
@pytest.mark.long
@pytest.mark.parametrize(("name", "span", "features"), OF_TRANSACTIONS)
def test_what_no_bug_explains_of_transactions_holds_with_what_the_page_says(
    name: str, span: str, features: str, seed: int
) -> None:
    """At the first and last release of the line, and at one in between."""
    first, last = ({"0.11": "0.11.0.0"}.get(end, end) for end in span.split(" to "))
    between = RELEASED[RELEASED.index(first) : RELEASED.index(last) + 1]
    on = features.replace("`", "").split(", ")
    options = Options(brief=True, deadlock=False)
    for release in dict.fromkeys((first, Random(seed).choice(between), last)):
        for fixes, wanted in (([], Verdict.BROKEN), (on, Verdict.HOLDS)):
            instance = instantiate(
                shipped("transactions"), release, bounds="small", switch_on=fixes, properties=[name]
            )
            assert check(instance, options).verdict is wanted, (release, fixes)


def test_the_page_has_lines_of_transactions() -> None:
    assert {name for name, *_ in OF_TRANSACTIONS} == {
        "MarkersMatchDecision",
        "NoLostAcknowledgement",
        "OutcomeAsReported",
        "NotFencedByItself",
    }


@pytest.mark.slow(5)
@pytest.mark.long
def test_every_broken_property_is_found_behind_the_others() -> None:
    """One that breaks later is not hidden by one that breaks first."""
    names = ("FencedForGood", "NoHangingTransaction")
    piece = Piece(shipped("transactions"), "2.7", (), bounds="small", properties=names)
    found = matrix(piece, ["2.7"])
    assert [found.cell("2.7", name).steps for name in names] == [18, 19]


FENCING = Bug("LEASE-1", ("fencing",), "StorageForward")


def broken_name() -> str:
    return next(cell.name for cell in matrix(PIECE, ["1"]).every_cell if cell.is_unexplained)


@pytest.mark.slow(1)
def test_a_bug_explains_what_its_fix_mends() -> None:
    name = broken_name()
    known = replace(FENCING, property=name)
    assert matrix(PIECE, ["1"], [known]).cell("1", name).bugs == ("LEASE-1",)
    # of another property as well: a run decides
    elsewhere = replace(known, property="Another")
    assert matrix(PIECE, ["1"], [elsewhere]).cell("1", name).bugs == ("LEASE-1",)
    assert outcome([matrix(PIECE, ["1"], [known])]) is Verdict.HOLDS


@pytest.mark.parametrize(
    "known",
    [
        replace(FENCING, fix=()),
        replace(FENCING, system="another"),
        replace(FENCING, since="2"),
    ],
    ids=["mends nothing", "of another system", "came later"],
)
def test_a_bug_that_no_run_agrees_to_explains_nothing(known: Bug) -> None:
    name = broken_name()
    cell = matrix(PIECE, ["1"], [replace(known, property=name)]).cell("1", name)
    assert cell.is_unexplained


@pytest.mark.slow
def test_releases_that_do_not_differ_are_explored_once() -> None:
    coordinators = shipped("coordinators")
    alike = coordinators.first_alike(coordinators.protocols.releases)
    assert set(alike) == set(coordinators.protocols.releases)
    assert len(set(alike.values())) < len(alike)
    done: list[str] = []
    matrix(
        Piece(coordinators, "3.6", (), bounds="small"),
        ["3.6", "3.7"],
        on_result=lambda result: done.append(result["protocol"]),
    )
    assert alike["3.7"] == alike["3.6"]
    assert set(done) == {"3.6"}


def test_what_is_kept_is_not_done_again(tmp_path: Path) -> None:
    done: list[dict[str, Any]] = []

    def again() -> Matrix:
        with closing(Journal(tmp_path / "kept.jsonl", digest(PIECE))) as journal:
            return matrix(PIECE, ["1", "2"], (), journal=journal, on_result=done.append)

    first = again()
    assert done
    done.clear()
    assert again() == first
    assert not done


@pytest.mark.slow(10)
@pytest.mark.long
@pytest.mark.usefixtures("spark")
def test_on_spark_it_goes_on_to_the_same(tmp_path: Path) -> None:
    """It has the cells of one machine, counterexamples and bugs among them, and makes the runs that
    the file of results hasn't yet."""
    names = ["0.11.0.0", "3.9", "4.3"]
    piece = Piece(shipped("coordinators"), names[0], (), bounds="small")
    file, rest = tmp_path / "kept.jsonl", list[dict[str, Any]]()
    known = digest(piece)
    with closing(Journal(file, known)) as journal:
        here = matrix(piece, names, BUGS, journal=journal)
    assert {"broken", "holds"} <= {cell.verdict for cell in here.every_cell}
    whole = file.read_text().splitlines(keepends=True)
    file.write_text(whole[0])
    with closing(Journal(file, known)) as journal:
        workers = Workers(2, SparkOptions(2))
        there = matrix(piece, names, BUGS, workers, journal, rest.append)
    assert there == here
    assert len(rest) == len(whole) - 1 > 0
    chosen = [
        [json.loads(line)["chosen"] for line in lines]
        for lines in (file.read_text().splitlines(), whole)
    ]
    assert sorted(map(repr, chosen[0])) == sorted(map(repr, chosen[1]))


def test_without_java_it_says_so_and_keeps_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    file = tmp_path / "kept.jsonl"
    monkeypatch.setattr("epochfence.checker.spark.session.is_running", lambda: False)
    ended = epochfence("matrix", LEASE, "--engine", "spark", "--results", file)
    assert (ended.code, ended.err.count("\n"), ended.out) == (2, 1, "")
    assert "Spark needs Java 17 or newer" in ended.err
    assert not file.exists()


def test_no_verdict_without_an_end() -> None:
    """What ran out of memory is inconclusive, and so is what it comes to."""
    found = matrix(replace(PIECE, memory=1), ["2"])
    assert set(column(found, "2").values()) == {"inconclusive"}
    assert outcome([found]) is Verdict.INCONCLUSIVE
    assert Cell("2", "P", "inconclusive").is_unexplained is False


def test_no_verdict_of_what_nothing_can_break() -> None:
    """Nor of deadlocks, for which `terminal=True` lets nobody look."""
    machine = Machine("machine")
    x, y = machine.field("x", Int(0, 2)), machine.field("y", Int(0, 2))
    up = Table(machine, event("up"), (Row("up", when=x < 1, set={x: x + 1}),))
    empty = invariant("Empty", (x > 1).implies(y > 1), "It speaks of nothing.")
    said = invariant("Said", x < 2, "x is small.")
    for properties, verdict in (((empty,), Verdict.INCONCLUSIVE), ((empty, said), Verdict.HOLDS)):
        system = System("hollow", (up,), properties, terminal=True)
        found = matrix(Piece(system, "1", ()), ["1"])
        assert found.properties == tuple(item.name for item in properties)
        assert found.cell("1", "Empty").verdict == "vacuous"
        assert outcome([found]) is verdict
        with (console := Console(width=80)).capture() as told:
            print_matrix(found, console)
        assert "  deadlocks: not checked\n" in told.get()


# The command -------------------------------------------------------------------------------------


def test_a_fault_of_the_declaration_ends_it() -> None:
    """Nothing is known behind a step that leaves a field's range, and leaving properties out
    doesn't mend it."""
    found = matrix(Piece(Ticker(1).system(), "1", ()), ["1"])
    told = {cell.name: cell.verdict for cell in found.every_cell}
    assert told.pop("every value stays in the range of its type") == "broken"
    assert told == {"Small": "inconclusive"}
    assert outcome([found]) is Verdict.BROKEN


def test_the_command_prints_a_sign_for_each_release(tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    ended = epochfence("matrix", LEASE, "--jobs", "1", "--json", told)
    assert ended.code == 12
    name = broken_name()
    row = next(line.split() for line in ended.out.splitlines() if line.startswith(name))
    assert row == [name, "!", "\u00b7"]
    cells = json.loads(told.read_text())["systems"][0]["cells"]
    assert {cell["verdict"] for cell in cells if cell["protocol"] == "2"} == {"holds"}


def test_progress_counts_too() -> None:
    ended = epochfence("matrix", RETRY, "--jobs", "1", "--progress")
    assert ended.code == 12
    assert "! Answered: 1 after 5 steps" in ended.out
    assert "! CanBeAnswered: 1 after 3 steps" in ended.out


def test_pairs_have_a_letter_for_all_that_breaks_however_much_that_is() -> None:
    """A cell is one letter wide: a capital where some of it is explained by no bug of the list."""
    brokers = [f"{major}.{minor}" for major in (2, 3) for minor in range(9)]
    pairs = [f"{broker}+client={client}" for client in ("1.0", "9.0") for broker in brokers]

    def cell(pair: str, name: str) -> Cell:
        old, broken = "1.0" in pair, name == "Kept" or pair < "3"
        bugs = () if old and name == "Kept" else (f"KAFKA-{name}", "KIP-1")
        return Cell(pair, name, "broken", 9, bugs) if broken else Cell(pair, name, "holds")

    cells = {(pair, name): cell(pair, name) for pair in pairs for name in ("Once", "Kept")}
    found = Matrix("s", ("Once", "Kept"), tuple(pairs), {pair: pair for pair in pairs}, cells)
    with (console := Console(width=80)).capture() as told:
        print_matrix(found, console)
    lines = [line.rstrip() for line in told.get().splitlines()]
    rows = {line.split()[0]: "".join(line.split()[1:]) for line in lines if line[:1].isdigit()}
    assert rows["1.0"] == "A" * 9 + "B" * 9
    assert rows["9.0"] == "a" * 9 + "b" * 9
    assert "  A broken by KAFKA-Once, KIP-1, ! Kept" in lines
    assert "  b broken by KIP-1, KAFKA-Kept" in lines
    assert "  ! broken by a run that no listed bug explains" in lines
    assert "2.3+client=1.0 and 14 more after 9 steps" in " ".join(told.get().split())


@pytest.mark.parametrize(
    ("systems", "code", "says"),
    [
        ((LEASE, RETRY), 130, "4 cells: 4 hold. (exit 130, INTERRUPTED)"),
        ((RETRY, LEASE), 130, ""),
    ],
)
def test_ctrl_c_ends_all_of_it(
    monkeypatch: pytest.MonkeyPatch, systems: tuple[str, ...], code: int, says: str
) -> None:
    """It leaves the workers by an exception, which ends them: else one whose pipe is full would be
    waited for without end. It went on with the next system, and ended with 20."""
    asked, left = list[str](), list[str]()

    def interrupted(piece: Piece) -> dict[str, Any]:
        asked.append(piece.system.name)
        if piece.system.name == "retry":
            raise KeyboardInterrupt
        return explore(piece)

    @contextmanager
    def together(self: Workers, name: str) -> Generator[Workers]:
        try:
            yield self
        except KeyboardInterrupt:
            left.append(name)
            raise

    monkeypatch.setattr("epochfence.checker.many.sweep.explore", interrupted)
    monkeypatch.setattr(Workers, "together", together)
    ended = epochfence("matrix", *systems, "--protocols", "2", "--jobs", "1")
    assert ended.code == code
    assert says in ended.out
    assert bool(ended.out) is bool(says)
    assert asked[-1] == "retry"
    assert left == ["matrix"]


@pytest.mark.slow(5)
@pytest.mark.long
def test_pairs_have_a_line_for_each_client() -> None:
    ended = epochfence(
        "matrix", "coordinators", "--protocols", "3.9,4.3", "--clients", "3.9", "--jobs", "1"
    )
    assert ended.code == 2
    assert "no part is called client (choose one of coordinator)" in ended.err
    given = ("matrix", "calls", "--protocols", "3.9,4.3", "--clients", "3.9,4.3", "--jobs", "1")
    ended = epochfence(*given)
    assert ended.code == Verdict.BROKEN.value, ended.out + ended.err  # KAFKA-18227
    lines = [line.split() for line in ended.out.splitlines()]
    assert ["3.9", "A", "A"] in lines
    assert ["4.3", "\u00b7", "\u00b7"] in lines


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("nothing",), "no system is called nothing"),
        ((LEASE, "--protocols", "1..9"), "unknown protocol 9: choose one of 1, 2"),
        ((LEASE, "--clients", "1"), "no part is called client (there is none)"),
        (("calls", "--clients", "9.9"), "unknown protocol 9.9: choose one of "),
        ((LEASE, "--bounds", "huge"), "no bounds called huge"),
        ((LEASE, "--set", "leases=x"), "--set leases=x: write NAME=VALUE"),
        ((LEASE, "--engine", "cluster"), "--engine cluster: must be local or spark"),
        ((LEASE, "--results", "no/such/folder.jsonl"), "no/such/folder.jsonl"),
    ],
)
def test_bad_input_is_one_line(more: tuple[str, ...], says: str) -> None:
    ended = epochfence("matrix", *more)
    assert ended.code == 2
    assert says in ended.err
    assert ended.err.count("\n") == 1
