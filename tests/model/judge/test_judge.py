"""Histories of real runs are explained, and a planted wrong answer is named."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from epochfence.cli import app
from epochfence.model import PartitionLeader, TransactionCoordinator
from epochfence.model.judge.histories import BadLineError, read_history
from epochfence.model.judge.judge import NOT_ALL, Finding, _until, begin, judge  # type: ignore[reportPrivateUsage]
from epochfence.model.judge.machines.canonical import TIMES, machine_for
from epochfence.model.judge.machines.coordinator import NAME, STEPS, Coordinator
from epochfence.model.judge.machines.leader import LEADER_REQUESTS
from epochfence.model.judge.operations import Operation, Settings, matches

RELEASES = ("2.5", "3.6", "4.3")
few = settings(max_examples=10, deadline=None)
seeds = st.integers(0, 2**32).map(Random)
releases = st.sampled_from(RELEASES)


class Recorder:
    """Writes a run down as clients would see it: around the moment at which it took effect, each
    operation has a start and an end, so that some overlap, and some answers are lost."""

    def __init__(self, random: Random, *, overlap: float = 0, losses: float = 0) -> None:
        self.random, self.overlap, self.losses = random, overlap, losses
        self.operations: list[Operation] = []
        self.now = 10

    def write(self, request: str, fields: dict[str, Any], response: dict[str, Any]) -> None:
        early, late = (self.random.random() * self.overlap for _ in "ab")
        lost = self.random.random() < self.losses
        self.operations.append(
            Operation(
                request,
                fields,
                self.now - early,
                None if lost else self.now + late,
                None if lost else response,
                len(self.operations),
            )
        )
        self.now += 1


def leader_run(recorder: Recorder, release: str, steps: int) -> list[Operation]:
    """Producers that write, repeat and go wrong on one leader, with markers in between. The leader
    starts again at times, from a snapshot."""
    random, leader = recorder.random, PartitionLeader(protocol=release)
    transactional = [True, False, False]
    following = [0, 0, 0]
    epochs = [0, 0, 0]
    for _ in range(steps):
        if random.random() < 0.1:
            leader.reopen(clean=True)
        at = random.randrange(3)
        entry = leader.producers.get(at)
        if entry and entry.current_txn_first_offset is not None and random.random() < 0.3:
            if "transaction_version_2" in leader.machine.features:
                epochs[at], following[at] = epochs[at] + 1, 0
            marker = {"producer_epoch": epochs[at], "result": "COMMIT"}
            assert leader.append_marker(producer_id=at, **marker).error == "NONE"
            continue
        asked: dict[str, Any] = {
            "producer_id": at,
            "producer_epoch": epochs[at] - (random.random() < 0.1 and epochs[at] > 0),
            "base_sequence": max(0, following[at] + random.choice([0, 0, 0, 0, -1, -2, 2])),
            "count": random.choice([1, 1, 2]),
        }
        if transactional[at]:
            asked["transactional"] = True
        leader.now_ms = recorder.now
        guard = None
        if transactional[at] and "verification" in leader.machine.features:
            names = ("producer_id", "producer_epoch", "base_sequence")
            guard = leader.maybe_start_transaction_verification(
                **{name: asked[name] for name in names}
            ).guard
        answer = leader.append(**asked, guard=guard)
        if answer.error == "NONE" and not answer.is_duplicate:
            following[at] = asked["base_sequence"] + asked["count"]
        recorder.write(
            "Produce", asked, {"error": answer.error, "base_offset": answer.first_offset}
        )
        if random.random() < 0.05 and not transactional[at]:
            epochs[at], following[at] = epochs[at] + 1, 0
    return recorder.operations


def coordinator_run(recorder: Recorder, release: str, steps: int) -> list[Operation]:
    """Instances of one transactional id that run transactions and fence each other."""
    random = recorder.random
    coordinator = TransactionCoordinator(protocol=release)
    coordinator.elect(coordinator.state_partition_of(NAME), 0)
    held = (0, 0)
    for _ in range(steps):
        coordinator.now_ms = recorder.now
        if random.random() < 0.5:
            for markers in coordinator.drain_markers().values():
                for marker in markers:
                    coordinator.markers_answered(marker, dict.fromkeys(marker.partitions, "NONE"))
        who = {"producer_id": held[0], "producer_epoch": held[1] - (random.random() < 0.1)}
        match random.choice(["init", "add", "end"]):
            case "init":
                answer = coordinator.init_producer_id(NAME, 60_000)
                assert answer is not None
                recorder.write(
                    "InitProducerId", {"transaction_timeout_ms": 60_000}, answer._asdict()
                )
            case "add":
                error = coordinator.add_partitions(
                    NAME, who["producer_id"], who["producer_epoch"], ["orders-0"]
                )
                fields = {**who, "partitions": ["orders-0"]}
                recorder.write("AddPartitionsToTxn", fields, {"error": error})
                continue
            case _:
                result = random.choice(["COMMIT", "ABORT"])
                answer = coordinator.end_txn(NAME, *who.values(), result)
                assert answer is not None
                recorder.write("EndTxn", {**who, "result": result}, answer._asdict())
        if answer.producer_epoch >= 0:
            held = answer[1:]
    return recorder.operations


RUNS = {"leader": leader_run, "coordinator": coordinator_run}
each_machine = pytest.mark.parametrize("machine", RUNS)


def test_a_leader_that_starts_again_forgets_the_lowest_sequence_that_it_asked_about() -> None:
    """After the first batch comes a marker. The second batch makes the leader ask about sequence 0,
    so that it refuses the third one, whose sequence follows. Started again, it takes it."""
    refused = {"error": "OUT_OF_ORDER_SEQUENCE_NUMBER", "base_offset": -1}
    history: list[Operation] = []
    for at, (sequence, count, told) in enumerate(
        [
            (0, 1, {"error": "NONE", "base_offset": 0}),
            (0, 2, refused),
            (1, 1, refused),
            (1, 1, {"error": "NONE", "base_offset": 2}),
        ]
    ):
        fields = {
            "producer_id": 0,
            "producer_epoch": 0,
            "base_sequence": sequence,
            "count": count,
            "transactional": True,
        }
        history.append(Operation("Produce", fields, 2 * at, 2 * at + 1, told, at))
    brokers = Settings(protocol="3.6")
    assert judge(history, brokers).finding is Finding.EXPLAINED
    told = {"error": "NONE", "base_offset": 100}
    beyond = [*history[:-1], history[-1]._replace(response=told)]
    assert judge(beyond, brokers).finding is Finding.UNEXPLAINED


@each_machine
@pytest.mark.parametrize("overlap", [4, 8])
@given(random=seeds, release=releases)
@few
def test_a_real_run_is_explained(machine: str, overlap: int, random: Random, release: str) -> None:
    recorder = Recorder(random, overlap=overlap, losses=0.1)
    history = RUNS[machine](recorder, release, 15)
    random.shuffle(history)
    found = judge(history, Settings(protocol=release), limit=2000)
    assert found.finding is not Finding.UNEXPLAINED, found.operation


@each_machine
@given(random=seeds, release=releases)
@few
def test_a_real_run_without_losses_is_explained(machine: str, random: Random, release: str) -> None:
    history = RUNS[machine](Recorder(random, overlap=0.4), release, 15)
    found = judge(history, Settings(protocol=release), limit=20_000)
    assert found.finding is Finding.EXPLAINED, found.operation


WRONG: dict[str, dict[str, Any]] = {
    "another offset": {"base_offset": 10_000},
    "an offset again": {"base_offset": 0},
    "refused for no reason": {"error": "OUT_OF_ORDER_SEQUENCE_NUMBER", "base_offset": -1},
    "an epoch that isn't": {"producer_epoch": 77},
    "fenced for no reason": {"error": "PRODUCER_FENCED"},
    "no such id": {"error": "INVALID_PRODUCER_ID_MAPPING"},
}


@pytest.mark.parametrize("what", WRONG)
@given(random=seeds, release=releases)
@settings(max_examples=4, deadline=None)
def test_a_wrong_answer_is_named(what: str, random: Random, release: str) -> None:
    wrong = WRONG[what]
    machine = "leader" if "offset" in "".join(wrong) else "coordinator"
    history = RUNS[machine](Recorder(random), release, 14)
    good = [
        at
        for at, o in enumerate(history)
        if at
        and o.response
        and o.response["error"] == "NONE"
        and wrong.keys() <= o.response.keys()
        and not o.fields.get("transactional")
        and o.response.get("base_offset") != 0
        and (o.request != "InitProducerId" or "error" not in wrong)
        and o.fields not in [other.fields for other in history[:at]]
        and not any(  # a client that comes back may have fenced it
            (other.response or {})["error"] == "CONCURRENT_TRANSACTIONS" for other in history[:at]
        )
    ]
    if not good:
        return
    at = random.choice(good)
    response = {**(history[at].response or {}), **wrong}
    if machine == "coordinator" and "error" in wrong:
        response = dict(wrong)
    right, history[at] = history[at].response, history[at]._replace(response=response)
    found = judge(history, Settings(protocol=release))
    assert found.finding is Finding.UNEXPLAINED
    assert found.operation is not None
    if found.operation != history[at]:  # a failover explains it, but then not what comes after it
        assert found.operation.line > history[at].line
        return
    assert right is not None
    assert any(right.items() <= answer.items() for answer in found.allowed)


class Exactly:
    """A coordinator whose steps are all taken by its rows, in their own epochs and times."""

    def __init__(self, machine: Coordinator, ids: tuple[int, ...], told: Any = None) -> None:
        self.machine, self.ids, self.told = machine, ids, told

    def after(self, machine: Coordinator, answer: Mapping[str, Any] | None) -> Exactly:
        """It afterwards, where clients know the epoch of its last answer."""
        made = Exactly(machine, self.ids, self.told)
        if answer is not None:
            made.told = made.held
        return made

    @property
    def held(self) -> Any:
        entry = self.machine.entry
        return entry and (entry["producer_id"], entry["producer_epoch"])

    def outcomes(self, operation: Operation) -> Iterator[tuple[Exactly, Mapping[str, Any] | None]]:
        told = (operation.response or {}).get("producer_id", -1)
        ids = (told,) if told >= 0 else self.ids
        for after, answer in self.machine.outcomes(operation, ids):
            yield self.after(after, answer), answer

    def events(
        self, since: float, until: float
    ) -> Iterator[tuple[Exactly, Mapping[str, Any] | None]]:
        entry = self.machine.entry
        behind = [0 if entry is None else entry[name] for name in TIMES]
        for step in STEPS:
            if step.by_client and self.held != self.told:
                continue
            for now in range(int(max(since, *behind)), int(until) + 1):
                taken = self.machine.take(step, now, self.ids[0])
                if taken is not None:
                    yield self.after(*taken), taken[1]
                if taken is not None or not step.is_timed:
                    break

    def key(self) -> Hashable:
        return self.machine.key(), self.told


class AtLeader:
    """A leader, asked in the same way."""

    def __init__(self, machine: Any) -> None:
        self.machine = machine

    def outcomes(self, operation: Operation) -> Iterator[tuple[AtLeader, Mapping[str, Any] | None]]:
        for answer in list(self.machine.answers(operation)):
            for after, _ in self.machine.outcomes(operation._replace(response=answer)):
                yield AtLeader(after), answer

    def events(
        self, since: float, until: float
    ) -> Iterator[tuple[AtLeader, Mapping[str, Any] | None]]:
        for after, answer in filter(None, self.machine.events(since, until, None)):
            yield AtLeader(after), answer

    def key(self) -> Hashable:
        return self.machine.key()


def plainly(history: list[Operation], release: str) -> Exactly | AtLeader:
    """The machine of a history, without anything that is remembered."""
    settings = Settings(protocol=release)
    if {operation.request for operation in history} & {*LEADER_REQUESTS}:
        return AtLeader(machine_for(history, settings))
    ids = {
        told["producer_id"]
        for operation in history
        for told in (operation.fields, operation.response or {})
        if told.get("producer_id", -1) >= 0
    }
    return Exactly(Coordinator(settings), (max(ids, default=0) + 1, *sorted(ids)))


def is_explained(history: list[Operation], release: str) -> bool:
    """The same question, put to every order without anything clever."""
    judged = machine_for(history, Settings(protocol=release))
    told = [
        o.response if o.response and judged.is_decided(o.request, o.response["error"]) else None
        for o in history
    ]
    answered = {at for at, response in enumerate(told) if response is not None}
    todo: list[tuple[frozenset[int], int | None, Exactly | AtLeader]]
    todo = [(frozenset(), None, plainly(history, release))]
    seen = set[Hashable]()
    while todo:
        done, waiting, now = todo.pop()
        if answered <= done:
            return True
        if (known := (done, waiting, now.key())) in seen:
            continue
        seen.add(known)
        until = min(history[at].end or 0 for at in answered - done)
        for at, operation in enumerate(history):
            if at in done or at == waiting or operation.start > until:
                continue
            for after, answer in now.outcomes(operation._replace(response=told[at])):
                if answer is None and waiting is None:
                    todo.append((done, at, after))
                elif answer is not None and matches(told[at], answer):
                    todo.append((done | {at}, waiting, after))
        since = max((history[at].start for at in done & answered), default=0)
        for after, answer in now.events(since, until):
            if answer is None or waiting is None:
                todo.append((done, waiting, after))
            elif matches(told[waiting], answer):
                todo.append((done | {waiting}, None, after))
    return False


def spoil(history: list[Operation], random: Random, wrong: str | None) -> None:
    """Puts one of `WRONG` into a response, if one is named and there is a response."""
    answered = [at for at, operation in enumerate(history) if operation.response]
    if wrong is not None and answered:
        at = random.choice(answered)
        response = dict(history[at].response or {})
        response |= {name: value for name, value in WRONG[wrong].items() if name in response}
        history[at] = history[at]._replace(response=response)


@pytest.mark.slow(1)
@each_machine
@given(random=seeds, release=releases, wrong=st.sampled_from([None, *WRONG]))
@settings(max_examples=30, deadline=None)
def test_the_search_finds_what_trying_every_order_finds(
    machine: str, random: Random, release: str, wrong: str | None
) -> None:
    history = RUNS[machine](Recorder(random, overlap=2, losses=0.1), release, 6)
    spoil(history, random, wrong)
    found = judge(history, Settings(protocol=release)).finding
    assert (found is Finding.EXPLAINED) == is_explained(history, release)


@pytest.mark.slow(1)
@each_machine
@given(random=seeds, release=releases, wrong=st.sampled_from([None, *WRONG]))
@settings(max_examples=30, deadline=None)
def test_times_are_as_one_where_nothing_is_over_by_the_end(
    machine: str, random: Random, release: str, wrong: str | None
) -> None:
    """Timeouts and expirations are over within the history, at its end, or just behind it."""
    history = RUNS[machine](Recorder(random, overlap=2, losses=0.1), release, 5)
    spoil(history, random, wrong)
    times = [time for o in history for time in (o.start, o.end or o.start)]

    def around_the_end() -> int:
        return max(1, int(max(times) - min(times)) + random.randint(-3, 2))

    for at, operation in enumerate(history):
        if operation.request == "InitProducerId":
            brief = {"transaction_timeout_ms": around_the_end()}
            history[at] = operation._replace(fields={**operation.fields, **brief})
    brokers = Settings(
        protocol=release,
        producer_id_expiration_ms=around_the_end(),
        transactional_id_expiration_ms=around_the_end(),
    )
    found = judge(history, brokers, limit=5_000)
    apart = judge(history, brokers, limit=5_000, carried=begin(history, brokers))
    if Finding.GAVE_UP in (found.finding, apart.finding) or found.note or apart.note:
        return
    assert (found.finding, found.operation) == (apart.finding, apart.operation)
    assert Counter(map(str, found.allowed)) == Counter(map(str, apart.allowed))


@pytest.mark.parametrize(("end", "finding"), [(11, "UNEXPLAINED"), (12, "EXPLAINED")])
@pytest.mark.parametrize("begun", [0, 1_800_000_000_000])
def test_a_transaction_times_out_in_its_ms(begun: int, end: int, finding: str) -> None:
    """A client is fenced by the timeout of a transaction that it began at 1, for 10 ms."""
    held = {"producer_id": 7, "producer_epoch": 0}
    timeout = {"transaction_timeout_ms": 10}
    none = {"error": "NONE"}
    history = [
        Operation("InitProducerId", timeout, begun, begun, {**none, **held}),
        Operation("AddPartitionsToTxn", {**held, "partitions": ["p"]}, begun + 1, begun + 1, none),
        Operation(
            "EndTxn",
            {**held, "result": "COMMIT"},
            begun + end,
            begun + end,
            {"error": "PRODUCER_FENCED"},
        ),
    ]
    assert judge(history, Settings(protocol="3.6")).finding.name == finding


def produce(at: int, start: float, end: float | None, offset: int, producer: int = 0) -> Operation:
    fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": at, "count": 1}
    told = None if end is None else {"error": "NONE", "base_offset": offset}
    return Operation("Produce", fields, start, end, told)


def test_forty_at_once_are_decided() -> None:
    history = [produce(0, 0, 100, 39 - at, producer=at) for at in range(40)]
    assert judge(history).finding is Finding.EXPLAINED
    history[7] = history[7]._replace(response={"error": "NONE", "base_offset": 40})
    assert judge(history).finding is Finding.UNEXPLAINED


def at_once(count: int, wrong: int, **fields: Any) -> list[Operation]:
    """Batches of so many producers, in flight at once; one answer has an offset behind all."""
    history = [produce(0, 0, 100, at, producer=at) for at in range(count)]
    history[wrong] = produce(0, 0, 100, 100 * count, producer=wrong)
    return [o._replace(fields={**o.fields, **fields}) for o in history]


@pytest.mark.parametrize("last", [False, True])
def test_a_wrong_offset_among_many_at_once_takes_steps_by_their_square(last: bool) -> None:
    counts = (30, 60)
    found = [judge(at_once(count, count - 1 if last else 7)) for count in counts]
    assert [one.finding for one in found] == [Finding.UNEXPLAINED] * 2
    for count, one in zip(counts, found, strict=True):
        assert one.configurations < 4 * count**2
        assert one.operation is not None
        assert one.operation.fields["producer_id"] == (count - 1 if last else 7)


@given(random=seeds, limit=st.integers(1, 400), wrong=st.sampled_from([None, *WRONG]))
@settings(max_examples=30, deadline=None)
def test_no_more_steps_are_taken_than_the_limit(
    random: Random, limit: int, wrong: str | None
) -> None:
    machine = random.choice(sorted(RUNS))
    history = RUNS[machine](Recorder(random, overlap=2, losses=0.1), "4.3", 10)
    spoil(history, random, wrong)
    whole = judge(history, limit=100_000)
    found = judge(history, limit=limit)
    assert found.configurations <= limit
    assert found.finding in (whole.finding, Finding.GAVE_UP)
    if found.finding is Finding.UNEXPLAINED and not found.note:
        assert (found.operation, found.allowed) == (whole.operation, whole.allowed)
    if found.note == NOT_ALL:
        assert found.operation == whole.operation
        assert set(map(str, found.allowed)) <= set(map(str, whole.allowed))


def test_markers_that_may_come_at_any_time_stop_at_the_limit() -> None:
    found = judge(at_once(200, 7, transactional=True), limit=500)
    assert (found.finding, found.configurations) == (Finding.GAVE_UP, 500)


@pytest.mark.slow(1)
@pytest.mark.parametrize("count", [15, 30])
def test_markers_of_producers_without_more_batches_are_alike(count: int) -> None:
    found = judge(at_once(count, count - 1, transactional=True), limit=20 * count**2)
    assert (found.finding, found.note) == (Finding.UNEXPLAINED, "")
    assert found.operation is not None
    assert found.operation.fields["producer_id"] == count - 1


@pytest.mark.slow(1)
@each_machine
@given(random=seeds, release=releases, wrong=st.sampled_from([*WRONG]))
@settings(max_examples=25, deadline=None)
def test_what_is_allowed_is_what_would_be_explained(
    machine: str, random: Random, release: str, wrong: str
) -> None:
    history = RUNS[machine](Recorder(random, overlap=2, losses=0.1), release, 6)
    spoil(history, random, wrong)
    settings = Settings(protocol=release)
    found = judge(history, settings)
    if found.operation is None:
        return
    answered = sorted((o for o in history if o.end is not None), key=lambda o: (o.end, o.line))
    part = _until(history, answered[: answered.index(found.operation) + 1])
    (at,) = (at for at, operation in part.items() if operation is found.operation)
    others = [o.response for o in history if o.response and o.request == found.operation.request]
    others += [answer | {"error": "NONE"} for answer in map(dict, others)]
    decides = partial(machine_for(history, settings).is_decided, found.operation.request)
    for answer in [*found.allowed, *(one for one in others if decides(one["error"]))]:
        now = list((part | {at: found.operation._replace(response=answer)}).values())
        is_allowed = any(matches(answer, one) for one in found.allowed)
        is_lost = not decides(answer["error"])  # as it says nothing
        # a marker may be of a producer that the part hasn't
        again = judge(now, carried=begin(history, settings))
        assert (again.finding is not Finding.UNEXPLAINED) == (is_allowed or is_lost)


def test_markers_fill_the_log_up_to_what_is_answered_later() -> None:
    """The newer epoch, which refuses the stale one, gets an offset behind two markers, when
    what is looked at is over."""

    def asked(
        producer: int,
        epoch: int,
        at: int,
        times: tuple[float, float | None],
        error: str,
        offset: int = -1,
    ) -> Operation:
        fields = {"producer_id": producer, "producer_epoch": epoch, "base_sequence": at, "count": 2}
        told = {"error": error, "base_offset": offset}
        return Operation("Produce", fields | {"transactional": producer == 0}, *times, told)

    stale = asked(1, 0, 2, (0, 3), "INVALID_PRODUCER_EPOCH")
    newer = asked(1, 1, 0, (1, None), "NONE", 2)
    other = asked(0, 0, 2, (2, None), "OUT_OF_ORDER_SEQUENCE_NUMBER")
    assert judge([stale, newer, other]).finding is Finding.EXPLAINED
    assert judge([stale, other]).finding is Finding.UNEXPLAINED


def test_a_lost_answer_may_have_come_late() -> None:
    lost, after, duplicate = produce(0, 0, None, 0), produce(1, 5, 6, 1), produce(0, 7, 8, 0)
    assert judge([lost, after, duplicate]).finding is Finding.EXPLAINED
    assert judge([after, duplicate]).operation == after


def test_a_search_gives_up_at_its_limit() -> None:
    assert judge([produce(at, at, at, at) for at in range(20)], limit=5).finding is Finding.GAVE_UP


def test_all_of_it_can_be_pickled() -> None:
    history = [produce(0, 0, 1, 3)]
    sent = pickle.loads(pickle.dumps((judge, history, Settings())))
    found = sent[0](*sent[1:])
    assert pickle.loads(pickle.dumps(found)) == judge(history)


LINE = {
    "request": "Produce", "partition": "p", "start": 1, "end": 2, "producer_id": 0,
    "producer_epoch": 0, "base_sequence": 0, "count": 1, "response": {"error": "NONE"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not valid JSON"),
        ("[]", "must be object"),
        (json.dumps(LINE | {"request": "Fetch"}), "request must be one of"),
        (json.dumps(LINE | {"count": 0}), "count must be bigger than or equal to 1"),
        (json.dumps(LINE | {"producer_epoch": 40_000}), "producer_epoch must be smaller"),
        (json.dumps({k: v for k, v in LINE.items() if k != "end"}), "it lacks its end"),
        (json.dumps(LINE | {"end": 0}), "before its start"),
        (json.dumps(LINE | {"response": {"error": "NO_SUCH"}}), "no error is called NO_SUCH"),
    ],
)
def test_a_bad_line_is_named(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    file.write_text(f"{json.dumps(LINE)}\n{text}\n")
    with pytest.raises(BadLineError, match="line 2: .*" + says):
        read_history([file])
    done = CliRunner().invoke(app, ["judge", str(file)])
    assert done.exit_code == 2


def test_the_command_ends_by_what_it_finds(tmp_path: Path) -> None:
    file, out = tmp_path / "history.jsonl", tmp_path / "out.json"
    file.write_text(json.dumps(LINE | {"response": {"error": "NONE", "base_offset": 4}}))
    done = CliRunner().invoke(app, ["judge", str(file), "--json", str(out)])
    assert done.exit_code == 12
    found = json.loads(out.read_text())["keys"]["partition p"]
    assert found["line"] == 1
    assert found["allowed"] == [{"error": "NONE", "base_offset": 0}]
    assert CliRunner().invoke(app, ["judge", str(file), "--limit", "1"]).exit_code in (12, 20)
    assert CliRunner().invoke(app, ["judge", str(tmp_path / "none")]).exit_code == 2


def test_no_two_fields_of_a_machine_are_one() -> None:
    coordinator = TransactionCoordinator(protocol="4.3")
    coordinator.elect(coordinator.state_partition_of(NAME), 0)
    first = coordinator.init_producer_id(NAME, 60_000)
    assert first is not None
    errors = [
        answer and answer.error
        for epoch in (0, 1)
        for answer in [coordinator.end_txn(NAME, first.producer_id, epoch, "ABORT")]
    ]
    assert errors == ["NONE", "NONE"]


def test_an_allowed_answer_has_the_row_behind_it_and_what_is_against_the_one_that_was_seen() -> (
    None
):
    asked = {"producer_id": 1, "producer_epoch": 0, "count": 1}
    wrong = {"error": "OUT_OF_ORDER_SEQUENCE_NUMBER"}
    history = [
        Operation(
            "Produce", {**asked, "base_sequence": 0}, 1, 2, {"error": "NONE", "base_offset": 0}
        ),
        Operation("Produce", {**asked, "base_sequence": 1}, 3, 4, wrong),
    ]
    found = judge(history)
    assert found.allowed == ({"error": "NONE", "base_offset": 1},)
    ((deciding, other, why),) = found.reasons
    assert deciding.startswith("by partition: Produce, row append (")
    assert other.startswith("not OUT_OF_ORDER_SEQUENCE_NUMBER: partition: Produce, row ")
    assert why.startswith("  as ")


def test_reasons_of_a_coordinator_are_those_of_the_very_epochs_and_ids() -> None:
    given = {"error": "NONE", "producer_id": 70, "producer_epoch": 20}
    asked = {"producer_id": 70, "producer_epoch": 19}
    history = [
        Operation("InitProducerId", {"transaction_timeout_ms": 1000}, 1, 2, given),
        Operation("AddPartitionsToTxn", {**asked, "partitions": ["p"]}, 3, 4, {"error": "NONE"}),
    ]
    begun = history[0]._replace(response={**given, "producer_epoch": 0})
    earlier = {"transaction_timeout_ms": 1000, "producer_id": 70}
    bumps = [
        Operation(
            "InitProducerId",
            {**earlier, "producer_epoch": epoch},
            2,
            2,
            {**given, "producer_epoch": epoch + 1},
        )
        for epoch in range(20)
    ]
    found = judge([begun, *bumps, history[1]], Settings(protocol="3.6"))
    assert [answer["error"] for answer in found.allowed][:1] == ["PRODUCER_FENCED"]
    deciding, other, *why = found.reasons[0]
    assert deciding.startswith("by transaction: AddPartitionsToTxn, row other-epoch (")
    assert other.startswith("not NONE: transaction: AddPartitionsToTxn, row add (")
    assert why or other.endswith("as row other-epoch comes first")


@pytest.mark.parametrize(("version", "explained"), [(11, False), (12, True)])
def test_version_2_relays_the_coordinators_error_without_verification(
    version: int, *, explained: bool
) -> None:
    """The leader of a broker without verification asks about a batch of version 2 alone."""
    fields = {
        "producer_id": 1,
        "producer_epoch": 0,
        "base_sequence": 0,
        "count": 1,
        "transactional": True,
        "api_version": version,
    }
    answer = {"error": "CONCURRENT_TRANSACTIONS", "base_offset": -1}
    found = judge(
        [Operation("Produce", fields, 0, 1, answer)], Settings(protocol="4.4", verification=False)
    )
    assert (found.finding is Finding.EXPLAINED) == explained


@pytest.mark.parametrize(("release", "explained"), [("3.5", False), ("3.6", True), ("4.4", True)])
def test_of_two_epochs_that_wait_to_be_verified_the_older_is_fenced(
    release: str, explained: bool, tmp_path: Path
) -> None:
    """AddPartitionsToTxnManager.addTxnData: no batch of the newer epoch is in the log yet."""
    mine, theirs = ({"producer_id": 7, "producer_epoch": epoch} for epoch in (0, 2))
    init = {"request": "InitProducerId", "transactional_id": "t", "transaction_timeout_ms": 60_000}
    add = {"request": "AddPartitionsToTxn", "transactional_id": "t", "partitions": ["orders-0"]}
    batch = {"request": "Produce", "partition": "orders-0", "base_sequence": 0, "count": 1,
             "transactional": True}  # fmt: skip
    fine = {"error": "NONE"}
    lines = [
        {**init, "start": 0, "end": 5, "response": {**fine, **mine}},
        {**add, **mine, "start": 6, "end": 8, "response": fine},
        {**batch, **mine, "start": 9, "end": 40, "response": {"error": "INVALID_PRODUCER_EPOCH"}},
        {**init, "start": 10, "end": 14, "response": {"error": "CONCURRENT_TRANSACTIONS"}},
        {**init, "start": 18, "end": 22, "response": {**fine, **theirs}},
        {**add, **theirs, "start": 24, "end": 26, "response": fine},
        {**batch, **theirs, "start": 28, "end": 44, "response": {"error": "NOT_ENOUGH_REPLICAS"}},
    ]
    if not explained:  # nobody is asked, and no marker of another epoch comes
        lines = lines[:3]
    file = tmp_path / "history.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    judged = CliRunner().invoke(app, ["judge", str(file), "--protocol", release])
    assert judged.exit_code == (0 if explained else 12), judged.output
    assert ("not INVALID_PRODUCER_EPOCH" in judged.output) is not explained
