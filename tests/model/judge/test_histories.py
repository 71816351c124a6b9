"""What is said twice, half or not at all is refused, and never judged as if it were whole."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochfence.model.engine.errors import ModelError
from epochfence.model.judge.histories import schema_of
from epochfence.model.judge.judge import Finding, judge
from epochfence.model.judge.operations import Operation
from epochfence.model.requests import read, run
from epochfence.strict_json import NotJsonError, read_json
from epochfence.tests.cli.test_cli import Ended, epochfence

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "histories"
LINE: dict[str, Any] = {
    "request": "Produce", "partition": "p", "start": 1, "end": 2, "producer_id": 0,
    "producer_epoch": 0, "base_sequence": 0, "count": 1,
    "response": {"error": "NONE", "base_offset": 0},
}  # fmt: skip
SEND = {
    "event": "send",
    "producer": "p",
    "transaction": "t",
    "partition": "o",
    "record": "r",
    "outcome": "acknowledged",
}
END = {"event": "end", "transaction": "t", "outcome": "committed"}
READ = {"event": "read", "consumer": "c", "partition": "o", "offset": 0, "record": "r"}
CAUGHT_UP = {"event": "caught_up", "consumer": "c", "partition": "o"}
WHOLE = [SEND, END, READ, CAUGHT_UP]

UNCLEAR = {
    '{"a": 1, "a": 1}': "'a' occurs twice",
    '{"a": {"b": 1, "b": 2}}': "'b' occurs twice",
    "NaN": "NaN is not a number",
    "[-Infinity]": "-Infinity is not a number",
    "1e400": "1e400 is too large a number",
    "1" * 5000: "a number has thousands of digits",
    '"\\ud800"': "half of a surrogate pair",
    '{"\\udfff": 1}': "half of a surrogate pair",
    "[" * 100_000: "nested too deep",
    '{"a":' * 100_000: "nested too deep",
    "": "column 1: Expecting value",
}


@pytest.mark.parametrize("text", UNCLEAR, ids=lambda text: text[:12])
def test_what_json_leaves_unclear_is_refused(text: str) -> None:
    with pytest.raises(NotJsonError, match=UNCLEAR[text].replace("\\", ".")):
        read_json(text.encode())


def test_half_of_a_surrogate_pair_is_refused_unescaped_as_well() -> None:
    with pytest.raises(NotJsonError, match="byte 2 is not UTF-8"):
        read_json(b'"\xed\xa0\x80"')


@given(
    st.recursive(
        st.none() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    ),
    st.booleans(),
)
@settings(max_examples=25)
def test_all_other_json_is_read_as_python_reads_it(value: Any, ascii_only: bool) -> None:
    assert read_json(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


def judged(tmp_path: Path, lines: list[Any], *options: str) -> Ended:
    """What the command makes of these lines, which are objects or texts."""
    file = tmp_path / "history.jsonl"
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    file.write_text("".join(f"{text}\n" for text in texts))
    return epochfence("judge", str(file), *options)


def with_text(line: dict[str, Any], name: str, value: str) -> str:
    """A line with this text as a field's value."""
    return json.dumps(line | {name: "@"}).replace('"@"', value)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("start", "NaN", "NaN is not a number"),
        ("end", "Infinity", "Infinity is not a number"),
        ("end", "1e400", "too large a number"),
        ("start", "9007199254740993", "start must be smaller"),
        ("end", "1e300", "end must be smaller"),
        ("producer_id", "0.0", "producer_id is 0.0, and should be a whole number: write 0"),
        ("count", "1.0", "count is 1.0, and should be a whole number"),
        ("response", '{"error": "NONE", "base_offset": 0.0}', "base_offset is 0.0"),
        ("response", '{"error": "NONE", "error": "NONE"}', "'error' occurs twice"),
        ("client", '"\\ud800"', "half of a surrogate pair"),
        ("client", "[" * 100_000, "nested too deep"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_its_place(
    tmp_path: Path, name: str, value: str, says: str
) -> None:
    done = judged(tmp_path, [LINE, with_text(LINE, name, value)])
    assert done.code == 2
    assert "history.jsonl, line 2: " in done.err
    assert says in done.err
    assert done.err.count("\n") == 1


def test_an_offset_that_is_no_whole_number_is_refused_in_a_view_as_well(tmp_path: Path) -> None:
    done = judged(tmp_path, [SEND, END, READ | {"offset": 0.0}], "--application")
    assert (done.code, done.err.count("line 3: offset is 0.0")) == (2, 1)


# Nothing to judge ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "options", "says"),
    [
        ([], (), "0 operations on 0 keys, 0 answers judged: UNJUDGED (exit 20)"),
        ([""], (), "no line, UNJUDGED"),
        ([LINE | {"end": None, "response": None}], (), "partition p: 1 operations, 0 answers"),
        ([LINE | {"response": {"error": "REQUEST_TIMED_OUT"}}], (), "0 answers judged, UNJUDGED"),
        (
            [LINE, LINE | {"partition": "q", "end": None, "response": None}],
            (),
            "2 operations on 2 keys, 1 answers judged: UNJUDGED",
        ),
        ([], ("--application",), "0 sends, 0 ends, 0 reads: 0 anomalies, UNJUDGED (exit 20)"),
        ([SEND, END], ("--application",), "UNJUDGED"),
        ([CAUGHT_UP], ("--application",), "UNJUDGED"),
    ],
)
def test_where_nothing_is_judged_it_is_said(
    tmp_path: Path, lines: list[Any], options: tuple[str, ...], says: str
) -> None:
    done = judged(tmp_path, lines, *options)
    assert done.code == 20
    assert says in done.out


@pytest.mark.parametrize("application", [True, False])
def test_an_empty_file_beside_a_whole_one_is_told(tmp_path: Path, application: bool) -> None:
    empty = tmp_path / "died.jsonl"
    empty.touch()
    options = ["--application"] if application else ["--protocol", "3.6"]
    whole = EXAMPLES / ("sound.jsonl" if application else "fenced.jsonl")
    assert epochfence("judge", str(whole), *options).code == 0
    done = epochfence("judge", str(whole), str(empty), *options)
    assert done.code == 20
    assert f"{empty}: no line, UNJUDGED" in done.out


@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_a_lost_answer_never_makes_a_key_better_than_unjudged(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 5))
    wrong = data.draw(st.integers(0, count - 1))
    history = [
        Operation(
            "Produce",
            LINE_FIELDS | {"base_sequence": at},
            at,
            at + 0.5,
            {"error": "NONE", "base_offset": at + 7 * (at == wrong)},
            at + 1,
        )
        for at in range(count)
    ]
    assert judge(history).finding is Finding.UNEXPLAINED
    history = [operation._replace(end=None, response=None) for operation in history]
    assert judge(history).finding is Finding.UNJUDGED


LINE_FIELDS = {"producer_id": 0, "producer_epoch": 0, "count": 1}


# An application's view --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([SEND, SEND, END], "line 2: record r was sent before (FILE, line 1): give each record a"),
        ([SEND, END, SEND | {"partition": "q"}], "line 3: record r was sent before"),
        ([SEND, END, END], "line 3: transaction t has ended before (FILE, line 2)"),
        ([SEND, END, END | {"outcome": "aborted"}], "line 3: transaction t has ended before"),
        ([SEND, SEND | {"record": "s", "producer": "q"}], "line 2: transaction t is of p (FILE,"),
        ([SEND, END, SEND | {"record": "s"}], "line 3: transaction t has ended (FILE, line 2)"),
        ([SEND | {"transaction": ""}], "line 1: transaction must be longer"),
    ],
)
def test_what_contradicts_an_earlier_line_is_refused(
    tmp_path: Path, lines: list[Any], says: str
) -> None:
    done = judged(tmp_path, lines, "--application")
    assert done.code == 2
    assert says.replace("FILE", str(tmp_path / "history.jsonl")) in done.err
    assert done.out == ""


@pytest.mark.parametrize(
    ("left_out", "says"),
    [
        (END, "transaction t has no end"),
        (CAUGHT_UP, "no consumer has caught up with o"),
    ],
)
def test_what_could_hide_a_loss_is_not_sound(
    tmp_path: Path, left_out: dict[str, Any], says: str
) -> None:
    lost = [line for line in WHOLE if line is not READ]
    assert judged(tmp_path, lost, "--application").code == 12
    done = judged(tmp_path, [line for line in lost if line is not left_out], "--application")
    assert done.code == 20
    assert "line 1: UNJUDGED: " in done.out
    assert says in done.out
    assert judged(tmp_path, WHOLE, "--application").code == 0


BROKEN = ("aborted-read", "conflict", "duplicate", "loss", "order-break", "phantom")
"""Of a torn transaction, the end may say that its producer knew nothing."""


@pytest.mark.slow(1)
@pytest.mark.parametrize("name", [*BROKEN, "torn-transaction"])
@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_an_anomaly_is_never_sound_without_the_line_of_an_end_or_twice_with_any_line(
    name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines = (EXAMPLES / f"{name}.jsonl").read_text().splitlines()
    at = data.draw(st.integers(0, len(lines) - 1))
    is_kept = '"send"' in lines[at] or '"read"' in lines[at]
    if data.draw(st.booleans()) or is_kept:
        lines.insert(data.draw(st.integers(0, len(lines))), lines[at])
    else:
        del lines[at]
    folder = tmp_path_factory.mktemp("damaged")
    assert judged(folder, lines, "--application").code in (2, 12, 20)


# Requests ---------------------------------------------------------------------------------------

ASKED: list[dict[str, Any]] = [
    {"request": "InitProducerId", "transactional_id": "a", "transaction_timeout_ms": 60000},
    {"request": "AddPartitionsToTxn", "transactional_id": "a", "producer_id": 0,
     "producer_epoch": 0, "partitions": ["t-0"]},
    {"request": "Produce", "partition": "t-0", "transactional_id": "a", "producer_id": 0,
     "producer_epoch": 0, "base_sequence": 0, "count": 3},
    {"request": "EndTxn", "transactional_id": "a", "producer_id": 0, "producer_epoch": 0,
     "result": "COMMIT"},
    {"request": "Fetch", "partition": "t-0", "offset": 0, "committed": True},
    {"sleep_ms": 60001},
    {"restart": True},
    {"skip_to_epoch": 32765, "transactional_id": "a"},
]  # fmt: skip
VALUES = st.sampled_from(
    [None, -1, 2**31, 2**70, 1.5, 0.0, 1e300, True, "", "b", [], [1], [[]], {}, {"a": 1}, [None]]
)


@pytest.mark.slow(1)
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_no_value_in_a_request_is_anything_but_answered_or_refused(data: st.DataObject) -> None:
    lines = [dict(line) for line in ASKED]
    line = data.draw(st.sampled_from(lines))
    line[data.draw(st.sampled_from(sorted(line)))] = data.draw(VALUES)
    with suppress(ModelError):
        run(lines, "4.1")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"sleep_ms": 1, "sleep_ms": 2}', "line 1: not valid JSON: 'sleep_ms' occurs twice"),
        ('{"sleep_ms": NaN}', "NaN is not a number"),
        ("\n\n", "it has no request"),
        ('{"sleep_ms": 1, "request": "Fetch", "partition": "p"}', "Fetch has no field sleep_ms"),
        ('{"sleep_ms": 1, "restart": true}', "sleep_ms has no field restart"),
        ('{"restart": false}', "restart is true: not False"),
        ('{"pause": 1}', "a line has request or one of sleep_ms, restart, release"),
        ('{"sleep_ms": 1.0}', "sleep_ms is a whole number"),
    ],
)
def test_a_request_that_says_two_things_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        run(read(text), "4.1")
    file = tmp_path / "trace.jsonl"
    file.write_text(text)
    done = epochfence("diff", "--protocols", "3.6", "4.1", file)
    assert (done.code, done.err.count("\n")) == (2, 1)


# Files ------------------------------------------------------------------------------------------


def write(path: Path, *lines: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_folder_stands_for_its_files_and_what_is_skipped_is_said(tmp_path: Path) -> None:
    write(tmp_path / "in" / "b.jsonl", LINE | {"partition": "b"})
    write(tmp_path / "in" / "deep" / "a.jsonl", LINE | {"partition": "a"})
    other = write(tmp_path / "in" / "broker.log")
    done = epochfence("judge", tmp_path / "in")
    assert done.code == 0
    assert "2 operations on 2 keys, 2 answers judged" in done.out
    assert done.err == f"epochfence: {other}: skipped: its name isn't *.jsonl\n"
    twice = epochfence("judge", tmp_path / "in", tmp_path / "in" / "b.jsonl")
    assert (twice.code, "is given twice" in twice.err) == (2, True)
    (tmp_path / "none").mkdir()
    assert epochfence("judge", tmp_path / "none").err.endswith("there is no *.jsonl file in it\n")


def test_files_of_one_key_are_only_merged_where_that_is_said(tmp_path: Path) -> None:
    one, two = (write(tmp_path / f"{name}.jsonl", LINE) for name in "ab")
    later = write(tmp_path / "c.jsonl", LINE | {"start": 5, "end": 6, "base_sequence": 1})
    done = epochfence("judge", one, two)
    assert (done.code, "give --runs one" in done.err) == (2, True)
    assert epochfence("judge", "--runs", "each", one, two).code == 0
    assert epochfence("judge", "--runs", "one", one, two).code == 0  # a repetition
    assert epochfence("judge", "--runs", "one", one, later).code == 12  # at offset 0 again
    told = epochfence("judge", "--runs", "each", one, later)
    assert (told.code, f"partition p in {later}: 1 operations" in told.out) == (0, True)
    named = [write(tmp_path / f"{name}.jsonl", LINE | {"run": name}) for name in "xy"]
    done = epochfence("judge", *named, one)
    assert (done.code, "partition p of run x: 1 operations" in done.out) == (0, True)


def test_the_other_kind_of_history_gets_a_hint(tmp_path: Path) -> None:
    assert "is judged with --application" in judged(tmp_path, WHOLE).err
    assert "is judged without --application" in judged(tmp_path, [LINE], "--application").err


@pytest.mark.parametrize("name", ["start", "end"])
def test_seconds_are_not_taken_for_ms(name: str, tmp_path: Path) -> None:
    line = LINE | {"start": 1_700_000_000_000, "end": 1_700_000_000_001.5}
    assert judged(tmp_path, [line]).code == 0
    ended = judged(tmp_path, [line | {name: 1_700_000_000.25}])
    assert ended.code == 2
    assert (
        f"line 1: {name} is 1700000000.25, which looks like seconds since 1970: give ms"
        in ended.err
    )
    assert judged(tmp_path, [line | {"start": 1, "end": 1_700_000_000_000_000}]).code == 2  # in µs


def test_a_timeout_need_not_be_recorded(tmp_path: Path) -> None:
    init = {
        "request": "InitProducerId",
        "transactional_id": "t",
        "start": 0,
        "end": 1,
        "response": {"error": "NONE", "producer_id": 4, "producer_epoch": 0},
    }
    refused = init | {"start": 2, "end": 3, "response": {"error": "INVALID_TRANSACTION_TIMEOUT"}}
    assert judged(tmp_path, [init, refused]).code == 0
    assert judged(tmp_path, [init, refused | {"transaction_timeout_ms": 60_000}]).code == 12


def test_what_is_open_at_the_end_is_printed(tmp_path: Path) -> None:
    ended = judged(tmp_path, [LINE | {"transactional": True, "producer_id": 1}])
    assert ended.code == 0
    assert "  at the end producer 1's transaction from offset 0 is open\n" in ended.out
    assert "at the end" not in judged(tmp_path, [LINE]).out


def test_the_page_lists_the_fields_of_each_request() -> None:
    page = (EXAMPLES.parents[1] / "judge.md").read_text(encoding="utf-8")
    common = {"request", "client", "run", "start", "end", "api_version", "response"}
    for request, kind in schema_of("history")["definitions"].items():
        rows = [line for line in page.splitlines() if line.startswith(f"| `{request}` |")]
        (row,) = [line for line in rows if line.count("|") == 5]
        told = {word for word in row.split("`")[1::2] if word != request}
        assert told == set(kind["properties"]) - common, request
