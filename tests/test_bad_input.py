"""Wrong words on the command line, of each command: one line, exit 2, and nothing half-done."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from epochfence.cli.commands import loaded
from epochfence.cli.screen import WrongUsage
from epochfence.files import CantWriteError
from epochfence.tests.cli.test_cli import DECLARED, HISTORY, KTX, LOG, epochfence

DIGITS = "9" * 5_000
NOBODY = "127.0.0.1:1"
COMMON = [
    ("{system}", "--protocol", "9"), ("{system}", "--bounds", "huge"), ("{system}", "--set", "N"),
    ("{system}", "--set", "N=x"), ("{system}", "--set", "Z=1"), ("{system}", "--set", "N=99"),
    ("{system}", "--set", f"N={DIGITS}"), ("{system}", "--set"), ("{system}", "--property", "X"),
    ("{system}", "--with", "nope"), ("{system}", "--without", "nope"), ("{system}", "--json", "."),
    ("{system}", "--json", "no/file"), ("{system}", "--json"), ("{system}", "--nope"),
    ("{system}", "more"), ("nothing",), ("",), (".",), ("{folder}",), ("none.py",),
    ("{file}:nope",), ("{file}",), ("{file}:holds:x",), (),
]  # fmt: skip
NUMBERS = ("0", "-1", "x", "", "nan", "1.5", DIGITS)
REALS = ("0", "-1", "x", "", "nan", "inf", "-inf", "1e300")
RANGES = ("N=3..1", "N=..", "N=1..", "N=1,,2", "N=1..9999999999", "N=", "N=0..1", f"N=1..{DIGITS}")
ENGINES = [("--engine", "spork"), ("--master", "local[2]"), ("--spark-ui",), ("--engine",)]


def options(name: str, values: tuple[str, ...]) -> list[tuple[str, ...]]:
    """An option with each of these values."""
    return [("{system}", name, value) for value in values]


OWN: dict[str, list[tuple[str, ...]]] = {
    "check": [
        *COMMON, *options("--threads", (*NUMBERS, "65")), *options("--memory", REALS),
        *options("--trace", (".", "no/a")), *options("--report", (".", "no/a", "")),
        *options("--junit", (".", "no/a")), *options("--sarif", (".", "no/a")),
        *options("--spill", ("none", "{file}", "/proc")), *options("--shards", ("4",)),
        *options("--storage", ("a",)),
        *options("--hand-over", ("0",)), *(("{system}", *more) for more in ENGINES),
        ("{system}", "--resume", "none"),
        ("{system}", "--resume", "{file}"), ("{system}", "--checkpoint", "{file}"),
        ("{system}", "--checkpoint", "a", "--resume", "b"),
    ],
    "sweep": [
        *(words for words in COMMON if words[1:] != ("--protocol", "9")),
        *options("--protocols", ("9", "2..1", "", "..", "1,,")), *options("--set", RANGES),
        *options("--jobs", (*NUMBERS, "65")), *options("--memory", REALS),
        *options("--results", (".", "no/file", "{file}")),
        *(("{system}", *more) for more in ENGINES),
    ],
    "matrix": [
        *options("--protocols", ("9", "2..1", "", "..", "1,,")), *options("--set", NUMBERS),
        *options("--clients", ("1", "9", "")), *options("--bounds", ("huge", "")),
        *options("--jobs", (*NUMBERS, "65")), *options("--memory", REALS),
        *options("--results", (".", "no/file", "{file}")),
        *(("{system}", *more) for more in ENGINES), ("no/file.py",),
    ],
    "bound": [
        *(
            (*words, "--depth", "1") for words in COMMON
            if words[1:] not in (("--set",), ("--json",))
        ),
        *options("--depth", NUMBERS), ("{system}",),
    ],
    "prove": [
        *(words for words in COMMON if words != ("{system}", "--set", "N=99")),
        *options("--timeout", (*REALS, "1e6")), *options("--deadline", (*REALS, "1e6")),
        *options("--jobs", NUMBERS), *options("--set", RANGES),
        *options("--certificate", ("{file}", "{file}/a")),
        *options("--results", (".", "no/file", "{file}")),
        *(("{system}", *more) for more in ENGINES),
    ],
    "lint": [
        ("nothing",), ("{system}", "--protocol", "9"), ("{system}", "--set", "N=x"),
        ("{system}", "--json", "."), ("{file}:nope",), ("none.py",), ("{system}", "more"),
    ],
    "decode": [
        (), ("none.log",), ("{folder}",), ("{file}",), (LOG, "--as", "nope"), (LOG, "--as", ""),
        ("{folder}", "--as", "log"), (LOG, "--json", "."), (LOG, "more"), (LOG, "--limit"),
    ],
    "judge": [
        (), ("none",), ("{folder}",), ("{file}",), (HISTORY, "none"), (HISTORY, "--protocol", "9"),
        (HISTORY, "--json", "."), (HISTORY, "--limit", "0"), (HISTORY, "--limit", "x"),
        (HISTORY, "--engine", "spork"), (HISTORY, "--input", "a"), (HISTORY, "--output", "a"),
        (HISTORY, "--engine", "spark"), ("--engine", "spark", "--input", "a"),
        ("--engine", "spark", "--input", "a", "--output", "b", "--application"),
        ("--segments",), ("--segments", "{file}"), ("--segments", "none"),
        ("--segments", "--application", "{folder}"), ("--segments", "--runs", "one", "{folder}"),
        (HISTORY, "--transaction-version", "3"),
        (HISTORY, "--protocol", "3.9", "--transaction-version", "2"),
        (HISTORY, "--application", "--transaction-version", "0"),
        ("--segments", "{folder}", "--transaction-version", "0"),
    ],
    "config": [
        ("=",), ("=1",), ("none.properties",), ("{folder}",), ("{file}",), ("acks=9",), ("acks=",),
        (f"linger.ms={DIGITS}",), (f"linger.ms=-{DIGITS}",), ("linger.ms=1.5",), ("linger.ms=nan",),
        ("aks=1",), ("retrys=3",), ("ACKS=1",), ("nothing.like.it=1",), ("--protocol", "9"),
        ("--json", "."), ("retries=0", "enable.idempotence=true"), ("enable.idempotence=yes",),
    ],
    "diagram": [
        (), ("nothing",), ("{file}:nope",), ("none.py",), ("{system}", "--machine", "nope"),
        ("{system}", "--protocol", "9"), ("{system}", "-o", "a"), ("{system}", "-o", "a.jpg"),
        ("{system}", "-o", "no/a.svg"), ("{system}", "-o", "{folder}"),
        ("{system}", "-o", "no/a.html"), ("{system}", "-o", "a.html", "--trace", "{file}"),
        ("{system}", "-o", "a.html", "--event", "a"), ("{system}", "--trace", "{file}"),
    ],
    "diff": [
        ("--protocols", "1"), ("--protocols", "1", "9", KTX), ("--protocols", "1", "9"),
        ("--protocols", "1", "1", "nothing"), ("--protocols", "1", "1", KTX, "--json", "."),
        ("--protocols", "2.0", "2.5", "none.jsonl"), (KTX,), (),
        ("--protocols", "1", "1", KTX, "--states", "2"),
        *(("--protocols", "2.0", "2.5", "--behaviour", "--states", n) for n in ("0", "-1", "x")),
        ("--protocols", "2.0", "9.9", "--behaviour"), ("--protocols", "1", "1", "--behaviour", "x"),
    ],
    "replay": [
        (), ("none",), ("{folder}",), ("{file}",), ("{file}", "{system}"),
        ("{file}", "--json", "."), ("{file}", "--chart", "a.png"),
        ("{file}", "--chart", "no/a.svg"),
    ],
    "bugs": [
        ("nope",), ("",), ("--trace", "a"), ("KAFKA-5494", "--trace", "no/a"), ("--json", "."),
    ],
    "export": [
        (), ("tla",), ("tla", "{system}"), ("tla", "{system}", "-o"),
        ("ivy", "{system}", "-o", "a"),
        *(("tla", *words, "-o", "a") for words in COMMON if words and words[1:] != ("--json",)),
        ("tla", "{system}", "-o", "{file}"), ("tla", "{system}", "-o", "{file}/a"),
        ("tla", "{system}", "-o", "/proc/a"), ("tla", "{system}", "-o", "a", "--classes"),
        *(("junit", name, "-o", "a") for name in ("none", "{file}", "{folder}")),
        ("junit", "{file}", "-o", "a", "--protocol", "9"),
    ],
    "findings": [
        ("0",), ("19",), ("x",), ("1", "--json", "."), ("--bootstrap", NOBODY), ("--broker", "4.4"),
        *((number, "--bootstrap", NOBODY) for number in ("1", "8", "9", "13", "15", "17")),
        ("12", "--broker", "4.4.1"), ("12", "--broker", "4.4", "--bootstrap", NOBODY),
        ("8", "--broker", "4.4", "--debugger", NOBODY), ("13", "--broker", "2.5"),
        ("17", "--bootstrap", "nowhere"),
    ],
    "doctor": [
        (), ("none",), ("{file}",), ("--bootstrap", "nowhere"), ("--bootstrap", NOBODY),
        ("{folder}", "--bootstrap", NOBODY), ("{folder}", "--protocol", "9"),
        ("{folder}", "--json", "."), ("{folder}", "--watch", "x"), ("{folder}", "--watch", "0"),
    ],
    "advise": [
        ("--client", "java-9", "--broker", "3.6"), ("--client", "nobody", "--broker", "3.6"),
        ("--client", "java-3.6", "--broker", "9"), ("--client",),
    ],
    "explain-error": [
        (), ("NOPE",), ("PRODUCER_FENCED", "--client", "9"), ("PRODUCER_FENCED", "--broker", "9"),
        ("PRODUCER_FENCED", "--request", "Nope"), ("PRODUCER_FENCED", "--json", "."),
    ],
    "simulate": [
        *COMMON, *options("--seed", NUMBERS[1:]), *options("--threads", (*NUMBERS, "65")),
        *options("--seconds", REALS[1:]), *options("--report", (".", "no/a")),
    ],
    "explain": [(), ("none",), ("{folder}",), ("{file}",), ("{file}", "{system}")],
    "list": [("more",), ("--nope",), ("transactions", "--all")],
    "new": [(), ("Upper",), ("declared",), ("json",), ("a", "b"), ("folder/a",)],
    "nothing": [()],
}  # fmt: skip

CASES = [(command, *words) for command, every in OWN.items() for words in every]


@pytest.mark.parametrize("words", CASES, ids=lambda words: " ".join(words)[:60])
def test_it_is_told_in_a_line(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "declared.py"
    file.write_text(DECLARED)
    (tmp_path / "folder.svg").mkdir()
    monkeypatch.chdir(tmp_path)
    there = {"system": f"{file}:holds", "file": str(file), "folder": str(tmp_path / "folder.svg")}
    ended = epochfence(*(word.format(**there) for word in words))
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("epochfence: ")
    assert ended.err.count("\n") == 1
    assert "Value error" not in ended.err
    left = {path.name for path in tmp_path.iterdir()}
    assert left <= {"declared.py", "folder.svg", "__pycache__"}
    assert file.read_text() == DECLARED


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (("check", "{file}", "--checkpoint", ""), "--checkpoint"),
        (("check", "{file}", "--protocol="), "--protocol"),
        (("export", "tla", "{file}", "-o", ""), "-o"),
        (("judge", ""), "an argument"),
    ],
)
def test_an_empty_word_is_not_the_current_folder_nor_the_newest_release(
    words: tuple[str, ...], where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "declared.py").write_text(DECLARED)
    monkeypatch.chdir(tmp_path)
    ended = epochfence(*(word.format(file="declared.py:holds") for word in words))
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"epochfence: {where} is empty: ")
    assert [path.name for path in tmp_path.iterdir()] == ["declared.py"]


@pytest.mark.parametrize(
    ("words", "taker", "taken"),
    [
        (("check", "{file}", "--json", "--strict"), "--json", "--strict"),
        (("check", "{file}", "--strict", "--report", "--stirct"), "--report", "--stirct"),
        (("check", "--checkpoint", "--keep-going", "{file}"), "--checkpoint", "--keep-going"),
        (("diagram", "{file}", "-o", "--machine", "m"), "-o", "--machine"),
        (("export", "tla", "{file}", "-o", "-o"), "-o", "-o"),
    ],
)
def test_an_option_is_no_value(
    tmp_path: Path, words: tuple[str, ...], taker: str, taken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would have no effect, and a file or folder would have its name."""
    (tmp_path / "declared.py").write_text(DECLARED)
    monkeypatch.chdir(tmp_path)
    ended = epochfence(*(word.format(file="declared.py:holds") for word in words))
    assert (ended.code, ended.out) == (2, "")
    said = f"epochfence: {taker} has no value: the next word is {taken} (see "
    assert ended.err.startswith(said)
    assert [path.name for path in tmp_path.iterdir()] == ["declared.py"]


@pytest.mark.parametrize("command", ["check {}.py", "decode {}", "vectors {}"])
def test_a_name_that_is_too_long(command: str) -> None:
    """As a file in a folder that may not be entered, one can't even ask what it is."""
    name = "x" * 300
    ended = epochfence(*command.format(name).split())
    assert (ended.code, ended.out) == (2, "")
    assert name in ended.err
    assert ended.err.endswith(": File name too long\n")


@pytest.mark.parametrize(
    "words",
    [
        ("check", "declared.py:holds", "--json", "declared.py"),
        ("check", "./declared.py:holds", "--report", "declared.py"),
        ("judge", "declared.py", "--json", "declared.py"),
        ("replay", "declared.py", "--pytest", "declared.py"),
    ],
)
def test_a_result_replaces_nothing_that_is_read(
    tmp_path: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "declared.py").write_text(DECLARED)
    monkeypatch.chdir(tmp_path)
    ended = epochfence(*words)
    assert (ended.code, ended.out) == (2, "")
    assert "declared.py, and its result would overwrite it: choose another file" in ended.err


@pytest.mark.parametrize("command", ["check", "sweep", "prove"])
def test_no_feature_is_on_and_off_at_once(command: str) -> None:
    both = ("--with", "hedged", "--without", "hedged")
    ended = epochfence(command, "transactions", *both)
    assert (ended.code, ended.out) == (2, "")
    assert "--with hedged and --without hedged: leave one of them out" in ended.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("check transactions --protocol 3.6 --protocol 4.3", "--protocol or --broker"),
        ("check transactions --protocol 3.6 --broker 4.3", "--protocol or --broker"),
        ("check transactions --threads 1 --threads=2", "--threads"),
        ("diff --protocols 2.0 2.5 --protocols 2.5 4.3 clock", "--protocols"),
        ("diagram transactions -o a.svg --output b.svg", "--output or -o"),
    ],
)
def test_an_option_with_one_value_is_given_once(
    words: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one was taken, and the others were dropped."""
    monkeypatch.chdir(tmp_path)
    ended = epochfence(*words.split())
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"epochfence: {says} is given 2 times: give it once (see ")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        *(
            (f"{command} transactions --set faults=1 --set faults=2", "--set faults: it is set")
            for command in ("check", "sweep", "prove", "matrix", "bound --depth 1")
        ),
        ("check transactions --set =1", "--set =1: the name of the constant is missing"),
        ("config acks=1 acks=all", "acks is set twice"),
        ("semantics acks=1 acks=all", "acks is set twice"),
        ("semantics commit=before commit=after", "commit is set twice"),
    ],
)
def test_a_setting_has_one_value(words: str, says: str) -> None:
    """The last one was taken, and the others were dropped."""
    ended = epochfence(*words.split())
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("prove transactions --deadline 3", "--deadline needs --suggest"),
        ("judge --application --limit 5 x.jsonl", "can't be used with --application"),
        ("judge --application --protocol 2.5 x.jsonl", "can't be used with --application"),
        ("judge --segments --limit 5 .", "--runs, --limit, --excerpt"),
        ("diagram transactions --event Produce", "are drawn for one machine of transactions"),
        ("diagram transactions --all-rows", "are drawn for one machine of transactions"),
        ("diagram transactions --detail rows", "(transaction, producer)"),
        ("replay x.itf.json --brief", "--brief needs --chart"),
        ("serve --seed 3", "--seed needs --random RATE"),
        ("serve --random-script x.json", "--random-script needs --random RATE"),
        ("conform --bootstrap h:1 --suite directed --seed 3", "--suite directed leaves out"),
        ("conform --bootstrap h:1 --suite directed --seconds 3", "--suite directed leaves out"),
        ("check transactions --keep-going --all-traces 3", "can't be used with --all-traces"),
        ("semantics --show x --json a.json", "--show names a cell: leave --json out"),
        ("semantics --show x --results a.jsonl", "--show names a cell: leave --results out"),
        ("semantics --show x --jobs 1", "--show names a cell: leave --jobs out"),
        ("semantics --show x acks=1", "--show names a cell: leave settings out"),
    ],
)
def test_no_option_is_without_effect(
    words: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = epochfence(*words.split())
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    "words",
    [
        "sweep declared.py:holds --results both.out --json both.out",
        "prove declared.py:holds --results both.out --json ./both.out",
        "replay x.itf.json --chart both.out --pytest both.out",
    ],
)
def test_a_result_replaces_no_other_one(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of --results was overwritten, and with it all that was saved."""
    (tmp_path / "declared.py").write_text(DECLARED)
    monkeypatch.chdir(tmp_path)
    ended = epochfence(*words.split())
    assert (ended.code, ended.out) == (2, "")
    assert "both.out: give each a different file" in ended.err
    assert [*tmp_path.iterdir()] == [tmp_path / "declared.py"]


def test_a_wrong_word_behind_a_dash_leaves_standard_output_as_it_was() -> None:
    """`--json -` silences it as it is read; the next command of a process would print nowhere."""
    for words in (("--json", "-", "--report", "-"), ("--json", "-", "--junit", "no/file")):
        before = sys.stdout
        with pytest.raises((CantWriteError, WrongUsage)):
            loaded("check").make_context("check", ["transactions", *words])
        assert sys.stdout is before


@pytest.mark.parametrize("seconds", ["nan", "inf", "1e10", "-1"])
@pytest.mark.parametrize(
    "command", ["serve --port 0", "proxy --upstream h:1", "conform --bootstrap h:1"]
)
def test_no_time_is_beyond_the_clock(command: str, seconds: str) -> None:
    """With `inf`, `serve` ended with an internal error; NaN was taken for 0."""
    ended = epochfence(*command.split(), "--seconds", seconds)
    assert (ended.code, ended.out) == (2, "")
    assert "Invalid value for '--seconds'" in ended.err


@pytest.mark.parametrize(
    "words",
    [
        ("doctor", "--bootstrap", "127.0.0.1:²"),
        ("doctor", "--bootstrap", f"127.0.0.1:{DIGITS}"),
        ("serve", "--port", "0", "--fault", "drop:Produce:²"),
    ],
)
def test_a_number_has_digits_that_count(words: tuple[str, ...]) -> None:
    ended = epochfence(*words)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)


def test_a_rate_is_a_number() -> None:
    ended = epochfence("serve", "--port", "0", "--random", "nan")
    assert (ended.code, ended.out) == (2, "")
    assert "Invalid value for '--random': nan isn't a number" in ended.err


@pytest.mark.parametrize("place", ["both.out", "-"])
def test_no_two_results_go_to_one_place(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "declared.py").write_text(DECLARED)
    monkeypatch.chdir(tmp_path)
    ended = epochfence("check", "declared.py:holds", "--json", place, "--report", place)
    assert (ended.code, ended.out) == (2, "")
    assert f"two results go to {place}: give each a different file" in ended.err
    assert [*tmp_path.iterdir()] == [tmp_path / "declared.py"]
    assert (tmp_path / "declared.py").read_text() == DECLARED


def test_a_value_may_begin_as_an_option_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "declared.py").write_text(DECLARED)
    monkeypatch.chdir(tmp_path)
    assert epochfence("check", "--json=--strict", "--", "declared.py:holds").code == 0
    assert Path("--strict").is_file()


def test_what_was_meant_is_named() -> None:
    assert "did you mean acks?" in epochfence("config", "aks=1").err
    assert "did you mean retries?" in epochfence("config", "retrys=3").err
    assert "(there is none)" in epochfence("check", KTX, "--with", "nope").err
    wrong = epochfence("check", "transactions", "--with", "nope").err
    assert "transactions_v2" in wrong or "(choose one of " in wrong
    assert "Did you mean 'check'?" in epochfence("chek").err
    for words in (("check", KTX, "--set"), ("check", KTX, "--sat"), ("diff", "--protocols", "1")):
        assert epochfence(*words).err.endswith(f" {words[0]} --help)\n")


def test_settings_that_no_rule_looks_at_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "producer.properties"
    file.write_text("bootstrap.servers=a:1\nsasl.jaas.config=x\nschema.registry.url=http://a\n")
    ended = epochfence("config", file)
    assert ended.code == 0
    assert ended.err == (
        "epochfence: schema.registry.url is ignored: no producer has this setting\n"
    )
    file.write_text("retrys=3\n")
    assert epochfence("config", file).code == 2


def test_the_version_is_told() -> None:
    ended = epochfence("--version")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("epochfence 0.")
