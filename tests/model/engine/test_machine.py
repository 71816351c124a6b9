"""Machines at real ranges: how they are driven, and what they refuse."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transitions import MachineError
from transitions.extensions import GraphMachine

from epochfence.language import (
    Bag,
    Int,
    Key,
    Map,
    Optional,
    Row,
    Set,
    Table,
    all_of,
    any_of,
    constant,
    count_of,
    each,
    element,
    enum,
    event,
    if_,
    message,
    position,
    record,
    size,
    those,
)
from epochfence.language import Machine as Declared
from epochfence.model import (
    Machine,
    PartitionLeader,
    ProducerClient,
    TransactionCoordinator,
    states,
)
from epochfence.model import partition_for as home
from epochfence.model.broker.transactions.transaction_log import java_hash
from epochfence.model.engine.errors import (
    MissingFieldError,
    ModelError,
    NotNowError,
    OutOfRangeError,
    UnknownEventError,
    UnknownFieldError,
    WrongTypeError,
)
from epochfence.model.engine.values import Sparse, UnboundedError
from epochfence.spec.coordinator import tables as coordinator
from epochfence.spec.leader import tables as leader
from epochfence.spec.systems.reductions.leader import LEADER_ALONE

BATCH: dict[str, Any] = {
    "producer_id": 2**62, "producer_epoch": 32767, "base_sequence": 2**31 - 2,
    "last_sequence": 1, "offset_delta": 3, "idempotent_only": True, "timestamp": 5,
    "from_client": True, "from_coordinator": False, "beneath_log": False,
}  # fmt: skip
END: dict[str, Any] = {
    "producer": "anybody",
    "connection": 0,
    "producer_id": 7,
    "producer_epoch": 3,
    "result": "COMMIT",
}


def entry(protocol: str = "4.1", **fields: Any) -> Machine:
    machine = Machine(coordinator.DRIVEN, protocol=protocol)
    machine.put(producer_id=7, producer_epoch=3, state="ONGOING", partitions={"t-0"}, **fields)
    return machine


def test_a_sequence_wraps_at_its_real_end() -> None:
    machine = Machine(leader.DRIVEN, reductions=LEADER_ALONE)
    answer = machine.handle("Produce", **BATCH).reply
    assert (answer.error, answer.first_offset, answer.last_offset) == ("NONE", 0, 3)
    following: dict[str, Any] = BATCH | {"base_sequence": 2, "last_sequence": 2, "offset_delta": 0}
    assert machine.handle("Produce", **following).reply.first_offset == 4
    known = machine["producers"][2**62]
    assert [batch.last_sequence for batch in known.batch_metadata] == [1, 2]


def test_an_event_is_answered_and_moves_the_state() -> None:
    machine = entry()
    outcome = machine.handle("EndTxn", **END)
    assert (outcome.row, outcome.reply) == ("prepare", None)
    assert machine.state["pending"] == "PREPARE_COMMIT"
    machine.handle("log append")
    assert (machine["state"], machine["producer_epoch"]) == ("PREPARE_COMMIT", 4)
    answer = machine.handle("begin completion").sent[0]
    assert (answer.producer, answer.error, answer.producer_epoch) == ("anybody", "NONE", 4)
    assert machine.handle("EndTxn", **END).reply.error == "CONCURRENT_TRANSACTIONS"


def test_releases_differ() -> None:
    older = entry("3.6")
    older.handle("EndTxn", **END)
    older.handle("log append")
    assert older["producer_epoch"] == 3


def test_a_request_of_an_older_version() -> None:
    machine = entry()
    outcome = machine.handle("EndTxn", switch_off=("transaction_version_2",), **END)
    assert outcome.row == "prepare"


@pytest.mark.parametrize(
    ("wrong", "error", "field"),
    [
        ({"producer_epoch": 32768}, OutOfRangeError, "producer_epoch"),
        ({"producer_epoch": "3"}, WrongTypeError, "producer_epoch"),
        ({"producer_epoch": True}, WrongTypeError, "producer_epoch"),
        ({"producer_id": -2}, OutOfRangeError, "producer_id"),
        ({"producer_id": 2**63}, OutOfRangeError, "producer_id"),
        ({"producer": []}, WrongTypeError, "producer"),
        ({"result": "PERHAPS"}, OutOfRangeError, "result"),
        ({"result": 1}, WrongTypeError, "result"),
        ({"producer_epok": 3}, UnknownFieldError, "producer_epok"),
    ],
)
def test_what_an_event_refuses(wrong: dict[str, Any], error: type, field: str) -> None:
    machine = entry()
    before = machine.state
    with pytest.raises(error) as raised:
        machine.handle("EndTxn", **(END | wrong))
    assert isinstance(raised.value, ModelError)
    assert raised.value.field == field
    assert field in str(raised.value)
    assert machine.state == before


def test_other_mistakes_are_named() -> None:
    machine = entry()
    with pytest.raises(UnknownEventError, match="no event 'EndTransaction'"):
        machine.handle("EndTransaction")
    with pytest.raises(MissingFieldError, match="lacks its field result"):
        machine.handle("EndTxn", **{k: v for k, v in END.items() if k != "result"})
    with pytest.raises(NotNowError, match="log append can't happen"):
        machine.handle("log append")
    with pytest.raises(OutOfRangeError, match="producer_epoch"):
        machine.put(producer_epoch=-2)
    with pytest.raises(UnknownFieldError, match="no field epoch"):
        machine.put(epoch=1)
    with pytest.raises(UnknownFieldError, match=r"nothing reads clock__then"):
        machine.outside(clock__then=1)
    with pytest.raises(OutOfRangeError, match="count"):
        PartitionLeader().append(producer_id=1, producer_epoch=0, base_sequence=0, count=0)


@pytest.mark.parametrize("key", [-1, 2**63 - 1, True, "7"])
def test_a_key_of_a_map_has_its_range(key: Any) -> None:
    machine = PartitionLeader().machine
    before = machine.state
    with pytest.raises(ModelError, match=r"^producers is a mapping of a whole number 0\.\."):
        machine.put(producers={key: {"producer_epoch": 0}})
    assert machine.state == before
    machine.put(producers={2**63 - 2: {"producer_epoch": 0}})
    assert machine.keys("producers") == (2**63 - 2,)


ANY: Any = (5, None)


@pytest.mark.parametrize(
    ("call", "error", "field"),
    [
        (lambda: leader_asked(count="1"), WrongTypeError, "count"),
        (lambda: leader_asked(count=2.5), WrongTypeError, "count"),
        (lambda: leader_asked(base_sequence="0"), WrongTypeError, "base_sequence"),
        (lambda: PartitionLeader().append_plain(-1), OutOfRangeError, "count"),
        (
            lambda: coordinator_asked().init_producer_id(ANY[0], 1),
            WrongTypeError,
            "transactional_id",
        ),
        (
            lambda: coordinator_asked().add_partitions("id", 0, 0, "orders-0"),
            WrongTypeError,
            "partitions",
        ),
        (
            lambda: coordinator_asked().verify_partitions("id", 0, 0, "orders-0"),
            WrongTypeError,
            "partitions",
        ),
        (
            lambda: TransactionCoordinator(transaction_version=7),
            OutOfRangeError,
            "transaction_version",
        ),
        (lambda: ProducerClient(ANY[0]), WrongTypeError, "transactional_id"),
        (lambda: ProducerClient(max_in_flight=0), OutOfRangeError, "max_in_flight"),
        (lambda: ProducerClient(linger_ms=-1), OutOfRangeError, "linger_ms"),
        (
            lambda: PartitionLeader(producer_id_expiration_ms=ANY[1]),
            WrongTypeError,
            "producer_id_expiration_ms",
        ),
    ],
)
def test_what_callers_give_wrong_is_named(call: Any, error: type, field: str) -> None:
    with pytest.raises(error, match=f"^{field} is ") as raised:
        call()
    assert isinstance(raised.value, ModelError)
    assert raised.value.field == field


def leader_asked(**wrong: Any) -> None:
    asked: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "count": 1}
    PartitionLeader().append(**(asked | wrong))


def coordinator_asked() -> TransactionCoordinator:
    coordinator = TransactionCoordinator()
    coordinator.elect(home("id"), 0)
    coordinator.init_producer_id("id", 60_000)
    return coordinator


def test_looking_ahead_changes_nothing() -> None:
    machine = entry()
    before = machine.state
    assert machine.may("EndTxn", **END) == "prepare"
    assert machine.may("log append") is None
    assert machine.attempt("log append") is None
    assert machine.state == before
    copy = machine.copy()
    copy.handle("EndTxn", **END)
    assert machine.state == before


def test_records_and_maps_are_given_as_mappings() -> None:
    machine = Machine(leader.DRIVEN, reductions=LEADER_ALONE)
    machine.put(producers={9: {"producer_epoch": 1, "batch_metadata": [(4, 10, 0, 0)]}})
    known = machine["producers"][9]
    assert (known.producer_epoch, known.batch_metadata[0].last_sequence) == (1, 4)
    known = machine["producers"]
    known[9] = None
    assert machine["producers"][9] is not None


def test_messages_carry_records_maps_and_bags() -> None:
    entry = record("Entry", term=Int(0, 9))
    who = Key("who", constant("whos", 1, 1, 1, meaning="as many as there are"))
    keeper = Declared("keeper")
    kept = keeper.field("kept", Map(who, Optional(entry)))
    heap = keeper.field("heap", Bag(entry, 3))
    asked = message("Asked", keeper, by=Map(who, Optional(entry)), heap=Bag(entry, 3))
    answer = message("Answer", keeper, answers=asked, heap=Bag(entry, 3), kept=Map(who, entry))
    b = element("b", heap)
    told = answer(heap=asked.heap, kept=each(who.variable("w"), asked.by[who.variable("w")].value))
    take = Row(
        "take", when=size(asked.heap) > 0, set={kept: asked.by, heap: asked.heap}, reply=told
    )
    machine = Machine((Table(keeper, asked, rows=(take, Row("nothing")), response=answer),))
    fields: dict[str, Any] = {"by": {"a": {"term": 1}}, "heap": [{"term": 2}, (1,)]}
    assert machine.may("Asked", **fields) == "take"
    outcome = machine.handle("Asked", **fields)
    assert [part.term for part in outcome.reply.heap] == [1, 2]
    assert outcome.reply.kept["a"].term == 1
    assert machine["kept"]["a"].term == 1
    assert machine["kept"]["b"] is None
    assert machine.value(count_of(b, b.term > 1)) == 1
    assert machine.may("Asked", by={}, heap=()) == "nothing"


# Keys of any kind -------------------------------------------------------------------------------

MANY = Key("many", constant("many", 1, 1, 1, meaning="as many as there are"))
thing = Declared("thing")
score = thing.field("score", Map(MANY, Int(0, 9)))
twice = thing.field("twice", Map(MANY, Int(0, 9)))
seen = thing.field("seen", Set(MANY))
most = thing.field("most", Int(0, 9))
k = MANY.variable("k")
add = event("add", who=MANY)
ADD = Table(thing, add, rows=(Row("add", set={score[add.who]: score[add.who] + 1}),))


def changes(field: Any, value: Any) -> Table:
    return Table(thing, event("go"), rows=(Row("go", set={field: value}),))


def test_quantifiers_look_at_the_keys_that_can_be_told_apart() -> None:
    machine = Machine((ADD, changes(seen, those(k, score[k] > 1))))
    for who in ("a", "b", "a", (1, 2)):
        machine.handle("add", who=who)
    machine.handle("go")
    assert machine["seen"] == {"a"}
    assert machine["score"] == Sparse(0, {"a": 2, "b": 1, (1, 2): 1})


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["add", "copy", "go"]))))
def test_copies_have_nothing_in_common(steps: list[tuple[int, str]]) -> None:
    machines = [Machine((ADD, changes(twice, score)))]
    expected: list[tuple[dict[Any, int], dict[Any, int]]] = [({}, {})]
    for at, what in steps:
        one, (scores, copied) = machines[at % len(machines)], expected[at % len(machines)]
        if what == "copy":
            machines.append(one.copy())
            expected.append((dict(scores), dict(copied)))
        elif what == "go":
            one.handle("go")
            copied.clear()
            copied.update(scores)
        elif scores.get(at, 0) < 9:
            one.handle("add", who=at)
            scores[at] = scores.get(at, 0) + 1
    for one, (scores, copied) in zip(machines, expected, strict=True):
        assert (dict(one["score"]), dict(one["twice"])) == (scores, copied)


def test_a_condition_speaks_of_all_other_keys_as_well() -> None:
    machine = Machine((ADD, changes(most, if_(all_of(k, score[k] > 0), 1, 2))))
    machine.handle("add", who="a")
    machine.handle("go")
    assert machine["most"] == 2
    machine = Machine((ADD, changes(most, if_(any_of(k, score[k] == 0), 1, 2))))
    machine.handle("go")
    assert machine["most"] == 1


def test_each_changes_what_other_keys_have() -> None:
    machine = Machine((ADD, changes(score, each(k, if_(k.is_in(seen), 7, score[k] + 1)))))
    machine.handle("add", who="a")
    machine.put(seen={"b"})
    machine.handle("go")
    assert [machine.at("score", who) for who in "abc"] == [2, 7, 1]


def test_what_has_no_end_is_refused() -> None:
    machine = Machine((ADD, changes(seen, those(k, score[k] == 0))))
    with pytest.raises(Exception, match="for infinitely many"):
        machine.handle("go")
    machine = Machine((ADD, changes(most, count_of(k, position(k) > 1))))
    with pytest.raises(UnboundedError):
        machine.handle("go")


def test_an_update_out_of_range_changes_nothing() -> None:
    machine = Machine((ADD,))
    for _ in range(9):
        machine.handle("add", who="a")
    with pytest.raises(OutOfRangeError, match="score"):
        machine.handle("add", who="a")
    assert machine.at("score", "a") == 9


# The fsm ---------------------------------------------------------------------------------------


def test_states_and_triggers() -> None:
    fsm = states(entry())
    entered: list[str] = []
    fsm.fsm.on_enter_PREPARE_COMMIT(lambda data: entered.append(data.event.name))
    assert fsm.state == "ONGOING"
    assert not fsm.may_log_append()
    assert fsm.may_EndTxn(**END)
    assert fsm.EndTxn(**END)
    assert (fsm.state, fsm.outcome.row) == ("ONGOING", "prepare")
    assert fsm.log_append()
    assert (fsm.state, entered) == ("PREPARE_COMMIT", ["log_append"])
    assert fsm.machine["state"] == "PREPARE_COMMIT"
    assert "EndTxn" in fsm.fsm.get_triggers("ONGOING")
    assert not fsm.log_append()
    with pytest.raises((AttributeError, MachineError)):
        fsm.trigger("no_such_event")


def test_its_own_diagram_shows_the_states_that_rows_leave() -> None:
    model = states(entry(), GraphMachine, graph_engine="mermaid", show_conditions=True)
    timed_out = model.fsm.events["transaction_timeout"].transitions
    assert list(timed_out) == ["ONGOING"]
    assert "transaction_timeout" in model.fsm.get_triggers("ONGOING")
    assert "transaction_timeout" not in model.fsm.get_triggers("EMPTY")
    drawn = model.fsm.get_graph().source.splitlines()
    left = [line.strip() for line in drawn if "transaction_timeout" in line]
    assert [line.split(":")[0] for line in left] == ["ONGOING --> ONGOING"]


def test_a_machine_without_states_has_one() -> None:
    assert states(Machine((ADD,))).state == "RUNNING"


def test_a_row_may_go_to_one_of_several_states() -> None:
    lamp = Declared("lamp")
    colour = enum("Colour", "RED", "GREEN")
    state = lamp.state_field("state", colour)
    press = event("press", on=Int(0, 1))
    rows = (Row("press", goto=if_(press.on == 1, colour.GREEN, colour.RED)),)
    fsm = states(Machine((Table(lamp, press, rows=rows),)))
    del state
    fsm.press(on=1)
    assert fsm.state == "GREEN"
    fsm.press(on=0)
    assert fsm.state == "RED"


# What it costs ----------------------------------------------------------------------------------


def test_importing_it_is_light() -> None:
    heavy = ["numpy", "numba", "llvmlite", "z3", "pyspark", "pyarrow", "hypothesis"]
    program = (
        "import sys, time; start = time.process_time(); import epochfence.model;"
        "took = time.process_time() - start; from epochfence.model import *;"
        f"print(took, [name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    took, _, found = done.stdout.partition(" ")
    assert found.strip() == "[]"
    assert float(took) < 0.15


def test_the_log_s_partition_is_kafka_s() -> None:
    assert (java_hash(""), java_hash("a"), java_hash("ab")) == (0, 97, 31 * 97 + 98)
    assert java_hash("polygenelubricants") == -(2**31)
    assert home("polygenelubricants") == 0
    assert 0 <= home("\U0001f600") < 50


def test_an_append_may_be_acknowledged_later() -> None:
    model = TransactionCoordinator(protocol="4.1", state_partition_of=lambda _: 0)
    model.elect(0, 5)
    assert model.init_producer_id("a", 1000, append="PENDING") is None
    busy = model.init_producer_id("a", 1000)
    assert busy is not None
    assert busy.error == "CONCURRENT_TRANSACTIONS"
    (answer,) = model.acknowledge("a")
    assert (answer.error, answer.producer_epoch) == ("NONE", 0)
