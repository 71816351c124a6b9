"""What README and docs/ show: commands with their output, and parts that come from elsewhere.

`python tests/documentation.py` renews what is printed and generated, `--slow` the long runs too,
and with names of pages it renews those alone.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from epochfence.checker.check import Options, check
from epochfence.checker.native.cache import object_cache
from epochfence.checker.prepare import available_threads
from epochfence.checker.spark.session import is_running
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.cli import app
from epochfence.diagrams.drawing.decision_table import decision_table
from epochfence.diagrams.drawing.graph import span
from epochfence.diagrams.reference.sections import FENCE
from epochfence.language import Protocols, System, Table, instantiate
from epochfence.language.instances.instance import ending_anywhere
from epochfence.model.doctor.causes import CAUSES
from epochfence.model.records import control
from epochfence.model.records.codec.codec import shapes
from epochfence.model.records.layouts import schema
from epochfence.spec.bugs import BUGS
from epochfence.spec.bugs.findings import FINDINGS
from epochfence.spec.bugs.hanging import HANGING
from epochfence.spec.settings.broker import BROKER_SETTINGS, BROKERS
from epochfence.spec.settings.consumer import CONSUMER_SETTINGS, CONSUMER_STEPS, CONSUMERS
from epochfence.spec.settings.producer import CLIENTS, SETTINGS, STEPS, Setting
from epochfence.spec.systems import shipped
from epochfence.tests.broker import mock_disagreements

ROOT = Path(__file__).parents[1]
# tests/mutation/test_sample.py and tests/checker/solver/proofs/test_page.py check them
GENERATED = {"mutation.md", "proofs.md"}
PAGES = [
    ROOT / "README.md",
    *sorted(path for path in (ROOT / "docs").glob("*.md") if path.name not in GENERATED),
]
EXAMPLE = Path("docs/examples/lease.py")
OF_PYTEST = Path("docs/examples/pytest/test_orders.py")
OF_JUNIT = Path("docs/examples/junit5/src/test/java/OrdersTest.java")

# Pages whose commands draw the pictures that they show: what these are called there, and here.
CHARTS = ROOT / "docs" / "charts"
PICTURES = {
    ROOT / "README.md": {"order.svg": CHARTS / "without-a-row.svg"},
    ROOT / "docs" / "traces.md": {
        "hanging-transaction.svg": CHARTS / "hanging-transaction.svg",
        "hanging.svg": CHARTS / "hanging.svg",
        "hanging-in-brief.svg": CHARTS / "hanging-in-brief.svg",
    },
    ROOT / "docs" / "tour.md": {
        f"{name}.svg": CHARTS / f"tour-{name}.svg"
        for name in ("duplicate", "fenced", "commit", "read", "streams", "commit-v2")
    },
}

# Commands that aren't run, and why.
NOT_RUN = {
    "mvn dependency:copy -Dartifact=org.apache.kafka:kafka-clients:4.3.1:jar:sources "
    "-DoutputDirectory=jars": "it needs Maven; tests/checker/drift makes jars of its own",
    "epochfence drift --kafka jars --since 4.3.0": "it needs the jars",
    **dict.fromkeys(
        (
            f"epochfence doctor --bootstrap 127.0.0.1:9092{more}"
            for more in ("", " --topic orders --json -", " --watch 60 --metrics doctor.prom")
        ),
        "it needs a broker; tests/model/doctor has a served one",
    ),
    **dict.fromkeys(
        (
            f"epochfence conform --classes {more}"
            for more in (
                "4.3",
                "4.3 --machine leader",
                "4.3 --bounds small --json result.json",
                "4.3 --jars FOLDER",
                "2.8,4.3 --bounds small --engine spark",
            )
        ),
        "it needs a JDK and Maven; tests/brokers/test_classes.py has a sample",
    ),
    **dict.fromkeys(
        (
            f"epochfence findings {more}"
            for more in (
                "12 --broker 4.4",
                "12 --bootstrap 127.0.0.1:9092",
                "9 --bootstrap 127.0.0.1:9092 --alter-features --client 4.3.1",
            )
        ),
        "it needs a broker; tests/brokers/test_findings.py has one",
    ),
    "make check": "it sets up .venv, and runs what is the first of RUNS",
    "java -cp build Runner vectors/coordinator.json": (
        "it needs a JDK; tests/model/conformance/vectors/test_vectors.py runs it where there is one"
    ),
    "epochfence check transactions": "the first of RUNS, which docs/checked.md tells, is just that",
}
# Commands that take long, and the test that runs a sample of what they print, line by line.
IN_PARTS = {
    "python tests/model/conformance/planted_faults.py": "tests/model/conformance/test_session.py",
    "epochfence prove transactions --property PrepareCompletes --protocol 4.2 "
    "--set producers=1 --set partitions=1 --set transactions=1": (
        "tests/checker/solver/test_ranked_transactions.py"
    ),
}

SYSTEM = shipped("transactions")
PRODUCER_IDS = shipped("producer-ids")
IDEMPOTENCE = shipped("idempotence")
CALLS = shipped("calls")
REPLICATION = shipped("replication")
EXACTLY_ONCE = shipped("exactly-once")
DELIVERY = shipped("delivery")
READING = shipped("reading")
MEMBERSHIP = shipped("membership")
GROUP_OFFSETS = shipped("group-offsets")
AUTHORIZATION = shipped("authorization")


# Commands ----------------------------------------------------------------------------------------

CALL = re.compile(r"epochfence ([\w./=-]+( |$))+(?<! -)")  # nothing for a shell, no `-` as a file
EXIT = re.compile(r"\s+# exit (?P<code>\d+)$")
ON_SPARK = "--engine spark"


@dataclass(frozen=True)
class Command:
    """A command as a page shows it; `output` is none where the page doesn't show any."""

    page: Path
    line: int
    text: str
    exit_code: int
    output: str | None

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def commands(page: Path) -> Iterator[Command]:
    """The commands of the page's fenced blocks.

    `sh` holds commands alone; in `console` a command has `$ ` before it and its output below.
    `# exit N` behind a command says how it ends.
    """
    text = page.read_text(encoding="utf-8")
    for fence in FENCE.finditer(text):
        line = text.count("\n", 0, fence.start()) + 2
        if fence["kind"] == "sh":
            for at, shown in enumerate(fence["text"].splitlines(), line):
                if shown and not shown.startswith("#"):
                    yield _command(page, at, shown, None)
        elif fence["kind"] == "console":
            for prompt, output in _prompts(fence["text"]):
                yield _command(page, line, prompt, output)
                line += 1 + len(output.splitlines())


def _prompts(console: str) -> Iterator[tuple[str, str]]:
    """The lines with `$ ` before them in a console's text, each with the lines below."""
    before, *rest = re.split(r"^\$ ", console, flags=re.MULTILINE)
    assert not before, f"a console block begins with a command, not with {before!r}"
    for part in rest:
        prompt, _, output = part.partition("\n")
        yield prompt, output.removesuffix("\n")


def _command(page: Path, line: int, text: str, output: str | None) -> Command:
    code = EXIT.search(text)
    return Command(page, line, EXIT.sub("", text), int(code["code"]) if code else 0, output)


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it printed (on standard error, if nowhere else)."""

    exit_code: int
    printed: str


class Workplace:
    """A folder that looks like the repository's root: what commands write stays in it.

    A command that stands on two pages is run once, and one that only calls `epochfence` without
    starting anything. For one on Spark there has to be a session: the command takes that.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.done: dict[str, Done] = {}
        for path in ROOT.iterdir():
            (folder / path.name).symlink_to(path)

    def run(self, text: str) -> Done:
        """What comes of the command, in a shell that finds this environment's programs first."""
        if text not in self.done:
            code, out, err = self._called(text) if _is_call(text) else self._started(text)
            lines = (line.rstrip() for line in (out or err).rstrip().splitlines())
            self.done[text] = Done(code, "\n".join(lines))
        return self.done[text]

    def _called(self, text: str) -> tuple[int, str, str]:
        with chdir(self.folder):
            ended = CliRunner().invoke(app, shlex.split(text)[1:])
        if ended.exception is not None and not isinstance(ended.exception, SystemExit):
            raise ended.exception
        return ended.exit_code, ended.stdout, ended.stderr

    def _started(self, text: str) -> tuple[int, str, str]:
        programs = Path(sys.executable).parent
        ended = subprocess.run(
            text,
            shell=True,
            cwd=self.folder,
            env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            encoding="utf-8",
        )
        return ended.returncode, ended.stdout, ended.stderr


def _is_call(text: str) -> bool:
    """Whether the command can run in this process, in another folder than it started in: Spark
    itself, which reads what `--input` names, stays where it was."""
    on_spark = ON_SPARK in text
    return bool(CALL.fullmatch(text)) and not (on_spark and ("--input" in text or not is_running()))


def is_shown(printed: str, shown: str) -> bool:
    """Whether a page shows what was printed, but for what is measured."""
    return _without_measures(printed) == _without_measures(shown)


def _without_measures(text: str) -> str:
    # where a line wraps depends on the figures: any space is one
    text = " ".join(text.split())
    text = text.replace("kernel loaded from the cache in", "compiled in")
    return re.sub(r"\d[\d,.]*(?= (?:s|states/s|MiB|GiB)\b)", "N", text)


# Runs --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """A run of `transactions` whose figures docs/checked.md tells; no `properties` stand for all.

    A `slow` one takes seconds, one of `millions` of states takes minutes.
    """

    protocol: str
    constants: tuple[tuple[str, int], ...] = ()
    properties: tuple[str, ...] = ()
    slow: bool = False
    millions: bool = False

    def __str__(self) -> str:
        constants = (f"{name}={value}" for name, value in self.constants)
        return " ".join([self.protocol, *constants, *self.properties[:1]])

    def row(self) -> str:
        """The run as a line of a table."""
        instance = instantiate(
            SYSTEM, self.protocol, dict(self.constants), properties=self.properties or None
        )
        if self.properties:  # before version 2 a run may be stuck (docs/findings.md, 8)
            instance = ending_anywhere(instance)
        found = check(instance, Options(threads=available_threads()))
        bounds = ", ".join(f"`{name}={value}`" for name, value in self.constants)
        checked = f"`{self.properties[0]}`" if len(self.properties) == 1 else "all"
        if len(self.properties) > 1:
            checked = f"the {len(self.properties)} others"
        counts = " | ".join(f"{n:,}" for n in (found.states, found.transitions, found.depth))
        start = f"| {self.protocol} | {bounds or 'the defaults'} | {checked}"
        return f"{start} | {counts} | {_outcome(found)} |"


def _outcome(result: Result) -> str:
    if result.verdict is Verdict.HOLDS:
        return "holds"
    (broken,) = (p for p in result.properties if p.verdict == "broken")
    return f"breaks after {broken.trace_length} steps"


ONE_PARTITION = (("partitions", 1),)
SMALL = (*ONE_PARTITION, ("transactions", 1))
TWO_FAULTS = ("faults", 2)
BROKEN_BEFORE = (
    "EpochsNotWasted",
    "FencedForGood",
    "NoHangingTransaction",
    "ZombieFenced",
    "MarkersMatchDecision",
    "OutcomeAsReported",
    "NoLostAcknowledgement",
    "NotFencedByItself",
    "EpochsInTurn",
    "OneEpochForADecision",
)
OTHERS = tuple(p.name for p in SYSTEM.properties if p.name not in BROKEN_BEFORE)
# the late end of a fence, and a lost answer (docs/findings.md, 8)
WITH_TWO_FAULTS = tuple(p.name for p in SYSTEM.properties if p.name != "NotFencedByItself")
RUNS = (
    Run("4.4", millions=True),
    Run("4.4", SMALL),
    Run("4.4", (*SMALL, TWO_FAULTS), ("NotFencedByItself",), slow=True),
    Run("4.4", (*SMALL, TWO_FAULTS), WITH_TWO_FAULTS, slow=True),
    *(Run("2.5", ONE_PARTITION, (name,), slow=True) for name in BROKEN_BEFORE),
    Run("2.5", ONE_PARTITION, OTHERS, slow=True),
)
RUNS_HEAD = (
    "| protocol | bounds | properties | states | transitions | depth | outcome |",
    "|---|---|---|---:|---:|---:|---|",
)


# Parts that come from elsewhere ------------------------------------------------------------------

BLOCK = re.compile(
    r"(?P<begin><!-- begin: (?P<name>.*?) -->\n)(?P<text>.*?)(?P<end><!-- end -->)", re.DOTALL
)
MEASURED, MEASURED_ON = "runs", ROOT / "docs" / "checked.md"
DOCS = ROOT / "docs"


def _properties() -> str:
    rows = ["| property | statement |", "|---|---|"]
    rows += [f"| `{item.name}` | {item.sentence} |" for item in SYSTEM.properties]
    return "\n".join(rows)


def _sources(system: System) -> str:
    rows = ["| property | kind | source |", "|---|---|---|"]
    every = (*system.properties, *system.progress)
    rows += [f"| `{item.name}` | {item.kind} | {item.source} |" for item in every]
    return "\n".join(rows)


def _features() -> str:
    rows = ["| feature | effect | source |", "|---|---|---|"]
    rows += [f"| `{i.name}` | {i.sentence} | {i.source} |" for i in SYSTEM.protocols.infos]
    return "\n".join(rows)


def _constants(system: System) -> str:
    named = {name: system.values(name) for name in system.bound_names}
    names = " | ".join(named)
    rows = [f"| constant | {names} | range | Kafka's | meaning |"]
    rows.append("|---" * rows[0].count(" |") + "|")
    for info in system.constant_infos:
        real = "" if info.real is None else f"{info.real:,}"
        span = f"{info.low}..{info.high}"
        values = " | ".join(str(values[info.name]) for values in named.values())
        rows.append(f"| `{info.name}` | {values} | {span} | {real} | {info.meaning} |")
    return "\n".join(rows)


def _figures() -> str:
    """Why anyone should look closer: each figure is that of the page that it links to."""
    brokers = rows_of("conformance.md", "release | Kafka")
    assert all(row[-1] == "0" for row in brokers)
    span = f"{brokers[0][0]} to {brokers[-1][0]}"
    findings = [finding for finding in FINDINGS if finding.before is None]
    mocks = rows_of("findings.md", "case | the mock answers")
    aims = {row[0]: row[2] for row in rows_of("performance.md", "figure | aim")}
    spin = float(aims["states/s with 1 thread, times SPIN DFS's with 1"])
    alike = "states/s with 2 threads, times {}'s with 2"
    peers = ", ".join(
        f"{float(aims[alike.format(peer)]):.1f} times {peer}"
        for peer in ("Stateright", "rumur", "TLC")
    )
    measured = (DOCS / "performance.md").read_text(encoding="utf-8")
    (processor,) = re.findall(r"^`python bench/run.py`, [\d-]+\. (.*?), ", measured, re.MULTILINE)
    (score,) = (row[2] for row in rows_of("mutation.md", "machine | mutants") if row[0] == "all")
    rows = [
        ("[It agrees with real brokers](docs/conformance.md#kafkas-own-brokers)",
         f"0 disagreements with {len(brokers)} releases, {span}"),
        ("[It finds bugs in Kafka](docs/findings.md)",
         f"{len(findings)} in the newest release, with the shortest runs"),
        ("[It knows the old ones](docs/bugs.md)",
         f"{len(BUGS)} published bugs, each with the run that shows it"),
        ("[It judges mocks](docs/findings.md#librdkafkas-mock-cluster)",
         f"{len(mocks)} answers of librdkafka's mock that no broker gives"),
        ("[It is fast](docs/performance.md)",
         f"states a second: {spin:.1f} times SPIN, with one thread each; with two each, {peers} "
         f"({processor}, a small benchmark model)"),
        ("[Its tests catch mistakes](docs/mutation.md)", f"{score} of 100 mutants are killed"),
    ]  # fmt: skip
    return "\n".join(["| | |", "|---|---|", *(f"| {' | '.join(row)} |" for row in rows)])


def _findings() -> str:
    """The findings, each with a link to its entry and the newest broker that shows it."""
    entries = re.findall(
        r"^## ((\d+)\. .*)$", (DOCS / "findings.md").read_text("utf-8"), re.MULTILINE
    )
    link = {int(number): _anchor(heading) for heading, number in entries}
    seen: dict[int, str] = {}
    for of, _, releases in rows_of("findings.md", "finding | how"):
        for number in re.findall(r"^\d+|(?<=, )\d+$", of):
            seen.setdefault(int(number), releases.rpartition(" ")[2])
    rows = [
        "| | finding | severity | releases | needs | seen at | ticket |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in FINDINGS:
        title = f"[{one.title}](#{link[one.number]})"
        cells = (
            one.number,
            title,
            one.damage.value,
            one.affected,
            one.needs,
            seen.get(one.number, "–"),
            f"[{one.bug}](https://issues.apache.org/jira/browse/{one.bug})" if one.bug else "–",
        )
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(rows)


def _anchor(heading: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def rows_of(page: str, head: str) -> list[list[str]]:
    """The cells of the page's first table whose head has these words, without the head."""
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    squeezed = [" ".join(line.split()) for line in lines]
    at = next(i for i, line in enumerate(squeezed) if line.startswith("|") and head in line)
    rest = itertools.takewhile(lambda line: line.startswith("|"), squeezed[at + 2 :])
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in rest]


LAYOUTS = (
    ("A key in `__transaction_state`, behind an int16 version 0", schema.TransactionLogKey),
    ("A value in `__transaction_state`, behind its int16 version 0", schema.TransactionLogValueV0),
    ("The same, version 1", schema.TransactionLogValue),
    ("A topic in it", schema.TransactionPartitions),
    ("A control record's key, behind an int16 version 0", control.ControlRecordTypeSchema),
    ("A marker's value, behind an int16 version 0", control.EndTransactionMarker),
    ("A snapshot's head, behind an int16 version 1", schema.SnapshotHeader),
    ("A snapshot's entry", schema.ProducerEntry),
    ("A transaction index's entry, behind an int16 version 0", schema.AbortedTransaction),
    ("A batch's header", schema.BatchHeader),
)


def _layouts() -> str:
    parts: list[str] = []
    for title, kind in LAYOUTS:
        rows = ["| field | type | tag | default |", "|---|---|---|---|"]
        defaults = {field.name: field.default for field in dataclasses.fields(kind)}
        for name, shape in shapes(kind):
            wire = shape.wire or "topic"
            array = f"array of {wire}" if shape.array else wire
            tag, default = ("", "") if shape.tag is None else (shape.tag, defaults[name])
            null = ", or null" if shape.nullable else ""
            rows.append(f"| `{name}` | {array}{null} | {tag} | {default} |")
        parts.append("\n".join([f"### {title}", "", *rows, ""]))
    return "\n".join(parts).strip()


def _settings(settings: Iterable[Setting], protocols: Protocols) -> str:
    releases = protocols.releases
    features = {release: protocols.features_at(release) for release in releases}
    rows = ["| setting | type | range | default | releases |", "|---|---|---|---|---|"]
    for item in settings:
        there = {r for r in releases if protocols.holds(item.during, features[r])}
        low, high = item.low, item.high
        limits = "" if low is None else f"{low} or more" if high is None else f"{low}..{high}"
        default = "none" if item.default is None else str(item.default).lower()
        rows.append(
            f"| `{item.name}` | {item.kind} | {', '.join(item.choices) or limits} | {default} "
            f"| {span(there, releases) or 'all'} |"
        )
    return "\n".join(rows)


def _rules(steps: Iterable[Table], protocols: Protocols) -> str:
    parts = [f"### {table.on.name}\n\n{decision_table(table, protocols)}" for table in steps]
    return "\n".join(parts).strip()


ROW_OF, ROW = ROOT / "spec" / "leader" / "produce.py", "out-of-order"
"""The row that the first screens show, and its file."""


def _row() -> str:
    """The row as its file has it."""
    text = ROW_OF.read_text(encoding="utf-8")
    rows = re.findall(r"^( +)Row\(\n(.*?)^\1\),\n", text, re.MULTILINE | re.DOTALL)
    (row,) = (
        f"{indent}Row(\n{body}{indent})"
        for indent, body in rows
        if body.lstrip().startswith(f'"{ROW}",')
    )
    ruff = [sys.executable, "-m", "ruff", "format", "-"]  # there is more room without the indent
    formatted = subprocess.run(
        ruff, cwd=ROOT, input=textwrap.dedent(row), capture_output=True, text=True, check=True
    )
    return f"```py\n{formatted.stdout}```"


def _example(file: Path, kind: str = "python") -> str:
    return f"```{kind}\n{(ROOT / file).read_text(encoding='utf-8')}```"


def _causes_of_doctor() -> str:
    rows = ["| cause | verdict | meaning | by |", "|---|---|---|---|"]
    rows += [
        f"| `{name}` | {each.verdict.name} | {each.what} | {each.seen_by} |"
        for name, each in CAUSES.items()
    ]
    return "\n".join(rows)


def _bugs_that_leave_transactions() -> str:
    rows = ["| left behind | bug | releases | effect |", "|---|---|---|---|"]
    rows += [
        f"| {left.value} | {each.name} | {each.affected} | {each.of.title} |"
        for left, those in HANGING.items()
        for each in those
    ]
    return "\n".join(rows)


BLOCKS: dict[str, Callable[[], str]] = {
    "figures": _figures,
    "figures of the site": lambda: _figures().replace("](docs/", "]("),
    "findings": _findings,
    "a row": _row,
    "properties": _properties,
    "sources": lambda: _sources(SYSTEM),
    "features": _features,
    "constants": lambda: _constants(SYSTEM),
    "constants of idempotence": lambda: _constants(IDEMPOTENCE),
    "sources of idempotence": lambda: _sources(IDEMPOTENCE),
    "constants of producer-ids": lambda: _constants(PRODUCER_IDS),
    "sources of producer-ids": lambda: _sources(PRODUCER_IDS),
    "constants of calls": lambda: _constants(CALLS),
    "sources of calls": lambda: _sources(CALLS),
    "constants of replication": lambda: _constants(REPLICATION),
    "sources of replication": lambda: _sources(REPLICATION),
    "constants of exactly-once": lambda: _constants(EXACTLY_ONCE),
    "sources of exactly-once": lambda: _sources(EXACTLY_ONCE),
    "constants of delivery": lambda: _constants(DELIVERY),
    "sources of delivery": lambda: _sources(DELIVERY),
    "constants of reading": lambda: _constants(READING),
    "sources of reading": lambda: _sources(READING),
    "constants of membership": lambda: _constants(MEMBERSHIP),
    "sources of membership": lambda: _sources(MEMBERSHIP),
    "constants of group-offsets": lambda: _constants(GROUP_OFFSETS),
    "sources of group-offsets": lambda: _sources(GROUP_OFFSETS),
    "constants of authorization": lambda: _constants(AUTHORIZATION),
    "sources of authorization": lambda: _sources(AUTHORIZATION),
    EXAMPLE.as_posix(): lambda: _example(EXAMPLE),
    OF_PYTEST.as_posix(): lambda: _example(OF_PYTEST),
    OF_JUNIT.as_posix(): lambda: _example(OF_JUNIT, "java"),
    "disagreements of the mock": mock_disagreements.table,
    "layouts": _layouts,
    "settings by release": lambda: _settings(SETTINGS, CLIENTS),
    "rules of settings": lambda: _rules(STEPS, CLIENTS),
    "a consumer's settings": lambda: _settings(CONSUMER_SETTINGS, CONSUMERS),
    "rules of a consumer's settings": lambda: _rules(CONSUMER_STEPS, CONSUMERS),
    "causes of doctor": _causes_of_doctor,
    "bugs that leave transactions": _bugs_that_leave_transactions,
    "a broker's settings": lambda: _settings(BROKER_SETTINGS, BROKERS),
}


def blocks(page: Path) -> dict[str, str]:
    """The page's marked parts by name; each is one of BLOCKS, or MEASURED."""
    return {b["name"]: b["text"].strip() for b in BLOCK.finditer(page.read_text(encoding="utf-8"))}


# Renewing ----------------------------------------------------------------------------------------


def renew(pages: list[Path], *, slow: bool) -> None:
    """Writes what is printed and generated into the pages, as it is now."""
    if pages == PAGES:
        os.environ[object_cache.VARIABLE] = object_cache.OFF  # figures are those of a first run
    with tempfile.TemporaryDirectory() as folder:
        workplace = Workplace(Path(folder))
        for page in pages:
            old = page.read_text(encoding="utf-8")
            # in the order of the page: a command may need what an earlier one wrote
            shown = {
                found.text: _printed(found, workplace)
                for found in commands(page)
                if found.text not in NOT_RUN
            }
            text = FENCE.sub(lambda fence, shown=shown: _retold(fence, shown), old)
            text = BLOCK.sub(lambda block: _renewed(block, slow=slow), text)
            if text != old:
                page.write_text(text, encoding="utf-8")
                print(f"renewed: {page.relative_to(ROOT)}", file=sys.stderr)
        for page in PICTURES.keys() & {*pages}:
            for name, picture in PICTURES[page].items():
                picture.write_bytes((Path(folder) / name).read_bytes())


def _printed(shown: Command, workplace: Workplace) -> str:
    """What a page should show below a command: as it is now, if it is true."""
    done = workplace.run(shown.text)
    if done.exit_code != shown.exit_code:
        print(f"{shown}: exit {done.exit_code}, not {shown.exit_code}", file=sys.stderr)
    if shown.output is None or is_shown(done.printed, shown.output):
        return shown.output or ""
    return done.printed


def _retold(fence: re.Match[str], shown: dict[str, str]) -> str:
    if fence["kind"] != "console":
        return fence[0]
    lines: list[str] = []
    for prompt, output in _prompts(fence["text"]):
        printed = shown.get(EXIT.sub("", prompt), output)
        lines += [f"$ {prompt}", *([printed] if printed else [])]
    return "\n".join(["```console", *lines, "```"])


def _renewed(block: re.Match[str], *, slow: bool) -> str:
    if block["name"] == MEASURED:
        old = dict(zip(RUNS, block["text"].splitlines()[len(RUNS_HEAD) :], strict=False))
        kept = set[Run]() if slow else {run for run in RUNS if run.slow or run.millions}
        rows = [old.get(run, "") if run in kept else run.row() for run in RUNS]
        text = "\n".join([*RUNS_HEAD, *rows])
    else:
        text = BLOCKS[block["name"]]()
    return f"{block['begin']}{text}\n{block['end']}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Renews what the documentation shows of runs.")
    parser.add_argument("--slow", action="store_true", help="the slow runs too")
    parser.add_argument("pages", nargs="*", type=Path, help="these pages alone")
    given = parser.parse_args()
    renew([page.resolve() for page in given.pages] or PAGES, slow=given.slow)
