"""A pytest plugin: a served cluster, faults on demand and a judged history, as fixtures.

pytest loads it wherever the package is installed. It imports nothing else until a test uses a
fixture. docs/pytest.md describes it.
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from functools import partialmethod
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from .model.serve.faults.faults import Fault
    from .model.serve.server import Server

_MARK: Final = "kafka"
_STEPS: Final = 1_000_000
"""So many steps a search of `kafka_history` takes at most, as in `epochfence judge`."""
_UNSEEN: Final = frozenset(
    ("time_out_transaction", "skip_to_epoch", "expire_producer", "expire_members")
)
"""Faults that a history can't show (docs/serve.md): after one, `judge` may find no explanation."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --kafka-release."""
    parser.getgroup("epochfence").addoption(
        "--kafka-release",
        action="append",
        default=[],
        metavar="R",
        help="Run each test with the fixture `kafka` at this release of Kafka (repeatable). "
        "A test whose mark names releases keeps them.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declares the mark."""
    config.addinivalue_line(
        "markers",
        "kafka(*releases, brokers=1, partitions=1, topics={}): the cluster of the fixture `kafka`; "
        "with several releases the test runs at each",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test at each of its releases. Raises UsageError for an unknown release."""
    if "kafka" not in metafunc.fixturenames:
        return
    from .language.declaration.arguments import one_of
    from .spec.releases.features import RELEASED

    mark = metafunc.definition.get_closest_marker(_MARK)
    given: list[str] = metafunc.config.getoption("kafka_release") or []
    releases = (mark.args if mark else ()) or given
    for release in releases:
        if release not in RELEASED:
            raise pytest.UsageError(f"{release}: unknown release: {one_of(str(release), RELEASED)}")
    if releases:
        metafunc.parametrize("kafka", releases, indirect=True)


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A cluster in memory on loopback: `model.serve.server.Server`, whose `bootstrap` is a client's
    `bootstrap.servers`. The mark `kafka` sets its release and its topics."""
    from .language.declaration.arguments import one_of
    from .model.serve.history import History
    from .model.serve.server import Server
    from .spec.releases.features import NEWEST

    mark: pytest.Mark | None = request.node.get_closest_marker(_MARK)
    settings: Mapping[str, Any] = mark.kwargs if mark else {}
    known = list(signature(Server).parameters)[1:]  # the first is the release, which has no name
    for name in settings:
        if name not in known:
            words = f"{name}: unknown setting: {one_of(name, known)}; kafka('3.6') sets the release"
            raise pytest.fail.Exception(f"@pytest.mark.kafka: {words}", pytrace=False)
    try:
        server = Server(getattr(request, "param", NEWEST), **settings)
    except (TypeError, ValueError) as error:
        raise pytest.fail.Exception(f"@pytest.mark.kafka: {error}", pytrace=False) from None
    if "kafka_history" not in request.fixturenames:
        with server:
            yield server
        return
    history: KafkaHistory = request.getfixturevalue("kafka_history")
    history.server = server
    with history.wire.open("wb") as file:
        server.record_in(History(file))
        with server:
            yield server


class KafkaFaults:
    """Injects faults into the cluster of the fixture `kafka`.

    A method is a fault's `do` (docs/serve.md): `kafka_faults.lose_answer("EndTxn", nth=2)`. It
    returns the fault: `fired` counts how often it happened, and `release()` lets go what it holds.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self._at_once: list[Fault] = []

    def inject(
        self,
        do: str,
        request: str | None = None,
        *,
        nth: int = 1,
        times: int = 1,
        until: str | float | dict[str, Any] | None = None,
        only: dict[str, str] | None = None,
        **fields: Any,
    ) -> Fault:
        """Injects the fault `do` at the `nth` `request`, and at `times` of them from there on.

        `until` ends a wait: a number of ms, the name of a request, or an object of a script.
        `only` names the request's `transactional_id`, `client_id`, `topic` or `group_id`. `fields`
        are others of a script, as `name`, `when` and `loading_ms`. Without `request` a fault of the
        cluster acts at once. Raises ValueError for a wrong fault.
        """
        from .model.serve.faults.faults import fault_of

        given = {"do": do, **fields}
        if isinstance(until, str):
            given["until"] = {"request": until}
        elif until is not None:
            given["until"] = until if isinstance(until, dict) else {"ms": until}
        if request is not None:
            given["on"] = {"request": request, "nth": nth, "times": times, **(only or {})}
            return self.server.faults.add(given)
        fault = fault_of(given, name=f"at-once-{len(self._at_once) + 1}")
        self.server.brokers.do(self.server.act(fault))
        fault.fired += 1
        self._at_once.append(fault)
        return fault

    lose_request = partialmethod(inject, "lose_request")
    lose_answer = partialmethod(inject, "lose_answer")
    hold = partialmethod(inject, "hold")
    hold_answer = partialmethod(inject, "hold_answer")
    hold_markers = partialmethod(inject, "hold_markers")
    hide_partition = partialmethod(inject, "hide_partition")
    delay = partialmethod(inject, "delay")
    duplicate = partialmethod(inject, "duplicate")
    reorder = partialmethod(inject, "reorder")
    fail_over_coordinator = partialmethod(inject, "fail_over_coordinator")
    time_out_transaction = partialmethod(inject, "time_out_transaction")
    bump_epoch = partialmethod(inject, "bump_epoch")
    skip_to_epoch = partialmethod(inject, "skip_to_epoch")
    expire_producer = partialmethod(inject, "expire_producer")
    expire_members = partialmethod(inject, "expire_members")

    def replay(self, trace: str | Path) -> str:
        """Injects the faults of a counterexample (ITF), as `epochfence serve --trace` does.

        Returns a sentence that says what the clients have to do. Raises ValueError if the file
        holds no such trace, or one of another release.
        """
        from .cli.checking.traces import schedule_in

        release = self.server.cluster.protocol
        try:
            _, schedule = schedule_in(Path(trace).read_bytes(), release, by_clock=False)
        except ValueError as error:
            raise ValueError(f"{trace}: {error}") from None
        for given in schedule.faults:
            self.server.faults.add(dict(given))
        return schedule.text()

    @property
    def fired(self) -> set[str]:
        """The kinds (`do`) of the faults that happened."""
        faults = (*self.server.faults.all.values(), *self._at_once)
        return {fault.do for fault in faults if fault.fired}


@pytest.fixture
def kafka_faults(request: pytest.FixtureRequest, kafka: Server) -> Iterator[KafkaFaults]:
    """Injects faults. The test fails if one of them didn't happen: it tested another run."""
    faults = KafkaFaults(kafka)
    yield faults
    if "kafka_history" in request.fixturenames:
        history: KafkaHistory = request.getfixturevalue("kafka_history")
        history.is_partial = not faults.fired.isdisjoint(_UNSEEN)
    if kafka.faults.unfired:
        pytest.fail("\n".join(fault.text() for fault in kafka.faults.unfired), pytrace=False)


class KafkaHistory:
    """The history of a test: requests and answers in `wire`, and the lines that the test adds.

    `wire` is a file for `epochfence judge`, `application` one for `epochfence judge --application`.
    """

    def __init__(self, folder: Path) -> None:
        self.wire = folder / "wire.jsonl"
        self.application = folder / "application.jsonl"
        self.server: Server | None = None
        self.is_partial = False
        """Whether a fault happened that a history can't show."""

    def add(self, **line: Any) -> None:
        """Adds a line of the application's view (docs/judge.md): `add(event="read", …)`."""
        with self.application.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def judge(self) -> dict[Path, tuple[int, str]]:
        """The exit code and the output of `epochfence judge` for each file that has a line."""
        from .model.judge.operations import Settings
        from .model.judge.verdicts import print_anomalies, print_judgements

        assert self.server is not None
        cluster = self.server.cluster
        settings = Settings(
            protocol=cluster.protocol, transaction_version=cluster.transaction_version
        )
        found: dict[Path, tuple[int, str]] = {}
        for file in (self.wire, self.application):
            if file.exists() and file.stat().st_size:
                with redirect_stdout(io.StringIO()) as output:
                    code, _ = (
                        print_judgements([file], settings, _STEPS)
                        if file == self.wire
                        else print_anomalies([file])
                    )
                found[file] = code, output.getvalue()
        return found


@pytest.fixture
def kafka_history(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KafkaHistory]:
    """Records a history, and judges it when the cluster of the test has ended. The test fails if
    no order explains it; it warns if that is unknown."""
    if "kafka" not in request.fixturenames:
        pytest.fail("kafka_history records the cluster of the fixture kafka: add it", pytrace=False)
    folder = tmp_path / "kafka_history"
    folder.mkdir()
    history = KafkaHistory(folder)
    yield history
    if history.server is None:
        return  # it didn't start
    found = history.judge()
    for file, (code, text) in found.items():
        if code == 12 and not (history.is_partial and file == history.wire):
            pytest.fail(text, pytrace=False)
        if code:
            _warn(text)
    if not found:
        _warn("no request of the protocol came")


def _warn(reason: str) -> None:
    warnings.warn(pytest.PytestWarning(f"kafka_history isn't judged: {reason}"), stacklevel=2)
