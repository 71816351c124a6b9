"""The documentation is true: its commands run and print what it shows, and its names exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from epochfence import language
from epochfence.checker.check import check
from epochfence.checker.named_systems import load_system
from epochfence.checker.verdict.result import Verdict
from epochfence.diagrams.reference.sections import FENCE
from epochfence.language import instantiate
from epochfence.spec.delivery.cells import every_cell
from epochfence.tests import house
from epochfence.tests.documentation import (
    BLOCKS,
    EXAMPLE,
    IN_PARTS,
    MEASURED,
    MEASURED_ON,
    NOT_RUN,
    ON_SPARK,
    PAGES,
    PICTURES,
    ROOT,
    RUNS,
    RUNS_HEAD,
    Command,
    Run,
    Workplace,
    blocks,
    commands,
    is_shown,
)
from epochfence.tests.generated import recorded

DOCS = ROOT / "docs"
SPARK_PAGE = DOCS / "spark.md"
ROOMS = tuple(
    init.parent.relative_to(ROOT)
    for room in ("cli", "language", "spec", "model", "checker", "diagrams")
    for init in sorted((ROOT / room).rglob("__init__.py"))
)
COMMANDS = [found for page in PAGES for found in commands(page)]
RENEW = "python tests/documentation.py renews it (--slow: long runs as well)"

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


# Commands ----------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    return Workplace(tmp_path_factory.mktemp("root"))


# Commands that take some seconds: searches of shipped systems, starts of Spark, and some others.
# None of them writes a file for another command, or reads such a file.
LONG = re.compile(
    r"epochfence (check|matrix) [a-z+-]+ (?!.*--(checkpoint|resume|trace))"
    r"|epochfence (bugs|diff|prove|semantics|sweep|vectors|window|diagram transactions|"
    r"check \S+/retry.py) (?!.*(--engine|--trace|\.jsonl))"
    r"|python tests/conformance/run.py|epochfence judge --engine spark --input"
)


def each_command(*, on_spark: bool) -> pytest.MarkDecorator:
    """The commands that are run, of those that need Spark or of the others."""
    not_run = NOT_RUN.keys() | IN_PARTS.keys()
    found = [c for c in COMMANDS if c.text not in not_run and (ON_SPARK in c.text) == on_spark]
    every = [
        pytest.param(c, id=str(c), marks=[pytest.mark.long] if LONG.match(f"{c.text} ") else [])
        for c in found
    ]
    return pytest.mark.parametrize("shown", every)


@pytest.mark.slow(1)
@each_command(on_spark=False)
def test_a_command_does_what_is_shown(shown: Command, workplace: Workplace) -> None:
    done = workplace.run(shown.text)
    assert done.exit_code == shown.exit_code, done.printed
    if shown.output is not None and not is_shown(done.printed, shown.output):
        assert done.printed.splitlines() == shown.output.splitlines(), RENEW


@pytest.mark.slow
@pytest.mark.together  # most of what pictures are drawn by was run for the pages
@pytest.mark.parametrize("page", PICTURES, ids=lambda page: page.name)
def test_pictures_that_commands_draw_are_current(page: Path, workplace: Workplace) -> None:
    for shown in commands(page):
        if re.search(r"--(trace|chart|animate)\b", shown.text):
            workplace.run(shown.text)
    for name, picture in PICTURES[page].items():
        assert picture.read_bytes() == (workplace.folder / name).read_bytes(), RENEW


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
@each_command(on_spark=True)
def test_a_command_on_spark_does_what_is_shown(shown: Command, workplace: Workplace) -> None:
    test_a_command_does_what_is_shown(shown, workplace)


def python(page: Path) -> list[str]:
    """The page's programs."""
    fences = FENCE.finditer(page.read_text(encoding="utf-8"))
    return [fence["text"] for fence in fences if fence["kind"] == "python"]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    "page", [page for page in PAGES if python(page) and page != SPARK_PAGE], ids=lambda p: p.name
)
def test_python_on_a_page_runs(page: Path, workplace: Workplace) -> None:
    for text in python(page):
        done = workplace.run(f"python -c {shlex.quote(text)}")
        assert done.exit_code == 0, done.printed


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_python_on_spark_runs(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, with the session that there is."""
    monkeypatch.chdir(workplace.folder)
    (text,) = python(SPARK_PAGE)
    exec(compile(text, str(SPARK_PAGE), "exec"), {"__name__": "__main__"})
    assert (workplace.folder / "lease-run").is_dir()


def test_make_has_every_target_that_is_named() -> None:
    targets = set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        named = re.findall(r"(?:`|^|\$ )make ([a-z]+)", page.read_text(), re.MULTILINE)
        assert set(named) <= targets, page.name


def test_no_exception_outlives_its_command() -> None:
    assert NOT_RUN.keys() | IN_PARTS.keys() <= {found.text for found in COMMANDS}


def test_the_parser_sees_commands_exit_codes_and_output(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "a\n```sh\nmake it # exit 3\n# a remark\n```\n```console\n$ b\n1\n2\n$ c\n```\n"
    )
    found = [(c.line, c.text, c.exit_code, c.output) for c in commands(page)]
    assert found == [(3, "make it", 3, None), (7, "b", 0, "1\n2"), (10, "c", 0, "")]


@pytest.mark.parametrize(
    ("printed", "shown", "same"),
    [
        ("3 states, 0.51 s (6 states/s)", "3 states, 12.00 s (1,200 states/s)", True),
        ("3 states in 2 MiB", "4 states in 2 MiB", False),
        ("a; kernel loaded from the cache\nin 0.1 s", "a; compiled in 2.00 s", True),
        ("a; compiled in 0.51\ns.", "a; compiled in 2 s.", True),
        ("a\nb", "a", False),
        ("a b\nc", "a\nb c", True),
    ],
)
def test_outputs_are_compared_but_for_measures(printed: str, shown: str, same: bool) -> None:
    assert is_shown(printed, shown) == same


# What is declared or counted ---------------------------------------------------------------------


@each_page
def test_what_is_declared_is_told_as_it_is(page: Path) -> None:
    told = blocks(page)
    told.pop(MEASURED, None)
    assert told == {name: BLOCKS[name]() for name in told}, RENEW


def test_every_part_is_on_some_page() -> None:
    assert {name for page in PAGES for name in blocks(page)} == {*BLOCKS, MEASURED}


LONG_RUN = [pytest.mark.slow, pytest.mark.long]


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    ("at", "run"),
    [
        pytest.param(at, run, id=str(run), marks=LONG_RUN if run.slow or run.millions else [])
        for at, run in enumerate(RUNS)
    ],
)
def test_the_figures_are_those_of_a_run(at: int, run: Run) -> None:
    rows = blocks(MEASURED_ON)[MEASURED].splitlines()[len(RUNS_HEAD) :]
    assert len(rows) == len(RUNS)
    assert rows[at] == run.row(), RENEW


def test_every_exit_code_and_field_of_the_result_is_told() -> None:
    text = (DOCS / "systems.md").read_text(encoding="utf-8")
    codes = re.findall(r"^\| (\d+) \| `(\w+)` \|", text, re.MULTILINE)
    assert {(int(code), name) for code, name in codes} == {(v.value, v.name) for v in Verdict}
    table = text[text.index("| field |") :].partition("\n\n")[0]
    fields = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    result = check(instantiate(load_system(str(ROOT / EXAMPLE))))
    assert fields == list(result.as_json())


# Names -------------------------------------------------------------------------------------------

CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
PATH = re.compile(r"[\w.-]+(/[\w.*-]*)+|[\w-]+\.(py|md|yml|toml|txt)")
DOTTED = re.compile(r"(language|spec|model|checker|diagrams)(\.\w+)+")


def code(page: Path) -> list[str]:
    """The pieces of code in the page's text."""
    return CODE.findall(FENCE.sub("", page.read_text(encoding="utf-8")))


CELLS = {cell.id for cell in every_cell()}
"""Cells of the table of delivery semantics, by name."""


def unknown(piece: str) -> Iterator[str]:
    """What stands for nothing in a piece of code: a path, a dotted name, an option or a word."""
    if piece in CELLS:
        return
    if PATH.fullmatch(piece):
        if not any(any(folder.glob(piece.rstrip("/"))) for folder in (ROOT, DOCS)):
            yield piece
    elif DOTTED.fullmatch(piece):
        if not resolves(piece):
            yield piece
    else:
        yield from set(re.findall(r"(?<!\w)--[a-z-]+", piece)) - options()
        yield from set(re.findall(r"(?<![\w-])[A-Za-z_]\w+", piece)) - words()


@cache
def program() -> str:
    """The program's text."""
    files = [
        ROOT / name for name in ("Makefile", "pyproject.toml", "pytest_plugin.py", "strict_json.py")
    ]
    for room in (*ROOMS, "bench", "docs/examples", ".ci"):
        files += [*(ROOT / room).rglob("*.py"), *(ROOT / room).rglob("*.java")]
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


@cache
def words() -> frozenset[str]:
    """Every word of the program's text."""
    return frozenset(re.findall(r"\w+", " ".join((program(), *CELLS))))


TYPERS = {"--help", "--install-completion"}


@cache
def options() -> frozenset[str]:
    """Every option that a command takes."""
    return frozenset(re.findall(r'"(--[a-z-]+)"', program())) | TYPERS


def resolves(dotted: str) -> bool:
    """Whether the dotted name is a module of the package, or something in one."""
    parts = ["epochfence", *dotted.split(".")]
    for end in range(len(parts), 1, -1):
        try:
            found = import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for name in parts[end:]:
            found = getattr(found, name, None)
        return found is not None
    return False


@each_page
def test_names_exist(page: Path) -> None:
    assert {piece: gone for piece in code(page) if (gone := list(unknown(piece)))} == {}


@pytest.mark.parametrize(
    "piece", ["checker/gone.py", "checker.check.gone", "--no-such", "no_such_word(1)", "gone.md"]
)
def test_names_that_are_gone_are_seen(piece: str) -> None:
    assert list(unknown(piece))


def told(page: str) -> set[str]:
    """The words of the page's pieces of code."""
    return set(re.findall(r"\w+", " ".join(code(DOCS / page))))


def test_the_language_is_told_whole() -> None:
    assert set(language.__all__) - told("language.md") == set()


@pytest.mark.slow(1)
def test_every_module_says_what_it_is() -> None:
    every = [path for path in house.modules().values() if path.name != "__init__.py"]
    assert [path for path in every if not house.first_sentence(path)] == []


@pytest.mark.slow(3)
def test_no_module_imports_itself_through_others() -> None:
    assert set(house.in_order()) == set(house.modules())


def test_imports_point_down() -> None:
    assert house.upward() == set()


def test_folders_have_few_modules() -> None:
    assert house.crowded() == {}


@pytest.mark.parametrize("room", ["language", "model.engine", "checker.ground", "checker.native"])
def test_the_language_and_its_engines_know_nothing_of_kafka(room: str) -> None:
    inside = [name for name in house.modules() if f"{name}.".startswith(f"{room}.")]
    reached = {imported for name in inside for imported in house.imports(name)}
    assert inside
    assert {name for name in reached if f"{name}.".startswith("spec.")} == set()


# Form --------------------------------------------------------------------------------------------


@each_page
def test_pages_are_in_form(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    kinds = {fence["kind"] for fence in FENCE.finditer(text)}
    assert kinds <= {
        "sh",
        "console",
        "py",
        "python",
        "text",
        "go",
        "rust",
        "js",
        "java",
        "json",
    }  # `py` isn't run
    may_be_long = ("|", "[![", "<!--", "#")
    lines = FENCE.sub("", text).splitlines()
    assert [x for x in lines if len(x) > 100 and not x.startswith(may_be_long)] == []


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    inside = [target.partition("#")[0] for target in targets if "://" not in target]
    missing = [page.parent / target for target in inside if not (page.parent / target).exists()]
    # README and the other pages at the root are read in the repository, which lacks what is built.
    built = {DOCS / name for name in recorded()} if page.is_relative_to(DOCS) else set[Path]()
    assert {path.resolve() for path in missing} - built == set()
