"""Types: what they hold, what they refuse, and the one order of a bag's elements."""

import itertools
import pickle

import pytest

from epochfence.language import (
    Bag,
    Bool,
    DeclarationError,
    Enum,
    Int,
    Key,
    Machine,
    Map,
    Optional,
    Record,
    Sequence,
    Set,
    constant,
    enum,
    event,
    message,
    record,
)
from epochfence.language.terms.values import canonical
from epochfence.language.types import (
    Type,
    Value,
    choices,
    contains,
    initial_value,
    rank,
    show_value,
)

N = constant("N", 2)
SHELF = Key("shelf", N)
COLOUR = enum("colour", "red", "green")
BOX = record("box", weight=Int(1, 3), colour=Optional(COLOUR))
CONSTANTS = {"N": 2}


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        (Bool(), False),
        (Int(2, 5), 2),
        (COLOUR, "red"),
        (SHELF, 0),
        (Optional(Bool()), None),
        (Set(SHELF), frozenset()),
        (Sequence(Bool(), 2), ()),
        (Bag(Bool(), 2), ()),
        (BOX, (1, None)),
        (Map(SHELF, BOX), ((1, None), (1, None))),
    ],
    ids=str,
)
def test_the_first_value_belongs_to_the_type(kind: Type, first: Value) -> None:
    assert initial_value(kind, CONSTANTS) == first
    assert contains(kind, first, CONSTANTS)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Bool(), 1),
        (Int(0, 3), 4),
        (Int(0, 3), -1),
        (Int(0, 3), True),
        (Int(0, N), 3),
        (COLOUR, "blue"),
        (SHELF, 2),
        (Optional(Int(0, 3)), 4),
        (Set(SHELF), frozenset({2})),
        (Sequence(Bool(), 1), (True, False)),
        (Sequence(Int(0, 1), 1), (2,)),
        (Bag(Bool(), N), (True, True, True)),
        (BOX, (0, None)),
        (Map(SHELF, Int(0, 1)), (0, 2)),
    ],
    ids=str,
)
def test_a_value_outside_of_the_type(kind: Type, value: Value) -> None:
    assert not contains(kind, value, CONSTANTS)


def test_a_real_range_is_never_listed() -> None:
    sequence = Int(0, 2**31 - 1)
    assert contains(sequence, 2**31 - 1, {})
    assert not contains(sequence, 2**31, {})


def test_the_choices_of_a_scalar_are_in_order() -> None:
    assert choices(Optional(Int(0, N)), CONSTANTS) == (None, 0, 1, 2)
    assert choices(COLOUR, {}) == ("red", "green")
    assert choices(SHELF, CONSTANTS) == (0, 1)
    with pytest.raises(DeclarationError, match=r"the values of .* can't be listed"):
        choices(Sequence(Bool(), 2), {})


def test_ranks_order_values_and_tell_them_apart() -> None:
    boxes: list[Value] = [(w, c) for w in (1, 2, 3) for c in (None, "red", "green")]
    ranks = [rank(BOX, value, CONSTANTS) for value in boxes]
    assert ranks == sorted(ranks)
    assert len(set(ranks)) == len(boxes)
    assert len({len(r) for r in ranks}) == 1


@pytest.mark.parametrize(
    "kind",
    [Set(SHELF), Sequence(Int(0, 1), 2), record("r", s=Set(SHELF), o=Optional(BOX))],
    ids=str,
)
def test_ranks_of_structured_values_are_equally_long(kind: Type) -> None:
    some: list[Value] = {
        "set of shelf": [frozenset(), frozenset({0}), frozenset({0, 1})],
        "sequence of 0..1 up to 2": [(), (0,), (0, 0), (1,), (0, 1)],
        "r": [(frozenset(), None), (frozenset({1}), (1, None)), (frozenset(), (2, "red"))],
    }[str(kind)]  # type: ignore[assignment]
    ranks = [rank(kind, value, CONSTANTS) for value in some]
    assert len({len(r) for r in ranks}) == 1
    assert len(set(ranks)) == len(some)


def test_a_bag_is_the_same_in_every_order() -> None:
    content: list[Value] = [(1, "red"), (3, None), (1, None), (3, None)]
    orders = {canonical(BOX, order, CONSTANTS) for order in itertools.permutations(content)}
    assert orders == {((1, None), (1, "red"), (3, None), (3, None))}


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (Bool(), True, "yes"),
        (COLOUR, "red", "red"),
        (SHELF, 1, "shelf1"),
        (Optional(SHELF), None, "none"),
        (Set(SHELF), frozenset({1, 0}), "{shelf0, shelf1}"),
        (Sequence(Bool(), 2), (True, False), "<yes, no>"),
        (Bag(BOX, 2), ((1, None),), "[(weight=1, colour=none)]"),
        (Map(SHELF, Int(0, 3)), (0, 3), "{shelf0: 0, shelf1: 3}"),
    ],
    ids=str,
)
def test_values_are_shown_in_words(kind: Type, value: Value, text: str) -> None:
    assert show_value(kind, value) == text


def test_types_can_be_pickled() -> None:
    for kind in (COLOUR, BOX, Map(SHELF, Set(SHELF)), Int(0, N, "n")):
        assert pickle.loads(pickle.dumps(kind)) == kind


def test_types_with_other_bounds_differ() -> None:
    assert Int(0, N) == Int(0, N)
    assert Int(0, N) != Int(0, 2)
    assert Key("shelf", N) != Key("shelf", 2)


# What can't be declared ---------------------------------------------------------------------------

machine = Machine("machine")
keyed = Machine("keyed", SHELF)
request = message("request", keyed, shelf=SHELF)


def test_an_enum_has_members_that_differ() -> None:
    with pytest.raises(DeclarationError, match="enum empty"):
        enum("empty")
    with pytest.raises(DeclarationError, match="enum twice"):
        enum("twice", "a", "a")
    with pytest.raises(DeclarationError, match="colour has no member blue"):
        _ = COLOUR.blue
    assert enum("numbered", on=4, off=7) == Enum("numbered", (("on", 4), ("off", 7)))


def test_a_range_holds_a_number() -> None:
    with pytest.raises(DeclarationError, match=r"3\.\.1 is empty"):
        Int(3, 1)
    with pytest.raises(DeclarationError, match=r"5\.\.2 is empty"):
        Int(5, N).range(CONSTANTS)


def test_a_range_fits_native_numbers() -> None:
    with pytest.raises(DeclarationError, match="is beyond"):
        Int(0, 2**63)


def test_a_key_has_an_instance() -> None:
    with pytest.raises(DeclarationError, match="key shelf: it needs at least one instance, not 0"):
        SHELF.count({"N": 0})


def test_a_bound_is_made_of_constants_and_numbers() -> None:
    assert Int(0, N + N - 1).range(CONSTANTS) == (0, 3)
    with pytest.raises(DeclarationError, match="constant N has no value here"):
        Int(0, N).range({})
    with pytest.raises(DeclarationError, match="a bound consists of numbers and constants"):
        Int(0, N == 1).range(CONSTANTS)


def test_optionals_do_not_nest() -> None:
    for outer in (Optional, lambda of: Sequence(of, 2), lambda of: Bag(of, 2)):
        with pytest.raises(DeclarationError, match="put into a record first"):
            outer(Optional(Bool()))  # type: ignore[arg-type]


@pytest.mark.parametrize("of", [BOX, Set(SHELF), Sequence(Bool(), 1), Optional(Bool())], ids=str)
def test_only_scalars_are_in_a_set(of: Type) -> None:
    with pytest.raises(DeclarationError, match="only scalars"):
        Set(of)


@pytest.mark.parametrize("name", ["value", "is_set", "data", "op", "args", "at", "_hidden"])
def test_a_field_must_be_readable_by_its_name(name: str) -> None:
    with pytest.raises(DeclarationError, match=f"record r: a field can't be called {name}"):
        record("r", **{name: Bool()})


@pytest.mark.parametrize("name", ["name", "parameters", "variables", "_hidden"])
def test_a_parameter_must_be_readable_by_its_name(name: str) -> None:
    with pytest.raises(DeclarationError, match=f"event e: a field can't be called {name}"):
        event("e", **{name: Bool()})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["content", "address", "parameters"])
def test_a_field_of_a_message_must_be_readable_by_its_name(name: str) -> None:
    with pytest.raises(DeclarationError, match=f"message m: a field can't be called {name}"):
        message("m", machine, **{name: Bool()})  # type: ignore[arg-type]


def test_a_record_may_have_any_other_field() -> None:
    assert isinstance(record("r", epoch=Bool(), name=Bool()), Record)


def test_two_fields_of_one_name() -> None:
    twice = Machine("twice")
    twice.field("x", Bool())
    with pytest.raises(DeclarationError, match="machine twice has two fields called x"):
        twice.field("x", Int(0, 1))


def test_a_copy_of_a_machine_has_fields_of_its_own() -> None:
    shared = Machine("shared", SHELF, "A machine.", title="Of {}")
    shared.state_field("state", COLOUR)
    shared.field("log", Bool())
    copied = shared.copy(without={"log"})
    copied.field("log", Int(0, 1))
    copied.field("more", Bool())
    assert [*shared.fields] == ["state", "log"]
    assert [*copied.fields] == ["state", "log", "more"]
    assert (copied.name, copied.key, copied.doc) == (shared.name, shared.key, shared.doc)
    assert (copied.title, copied.state) == (shared.title, shared.state)


def test_a_response_repeats_no_part_of_the_address() -> None:
    with pytest.raises(DeclarationError, match="message answer has two fields called shelf"):
        message("answer", machine, answers=request, shelf=Int(0, 3))


def test_a_message_says_where_it_goes() -> None:
    with pytest.raises(DeclarationError, match="message m: no field of key shelf names the"):
        message("m", keyed, weight=Int(0, 3))


def test_only_a_key_is_carried() -> None:
    said = "message m, carried: weight isn't a field that holds a key"
    with pytest.raises(DeclarationError, match=said):
        message("m", machine, carried=("weight",), weight=Int(0, 3))


def test_an_event_binds_a_variable_once() -> None:
    s = SHELF.variable("s")
    with pytest.raises(DeclarationError, match="event e: `s`"):
        event("e", s, s)
    with pytest.raises(DeclarationError, match="event e: `s`"):
        event("e", s, s=Bool())
    with pytest.raises(DeclarationError, match=r"event e: `s \+ 1` is not a variable"):
        event("e", s + 1)


@pytest.mark.parametrize(
    ("kind", "initial", "message_"),
    [
        (Int(0, 3), 4, r"4 is outside of its type 0\.\.3"),
        (Int(0, 3), True, "its initial value `True` is not 0..3"),
        (COLOUR, 1, "its initial value `1` is not colour"),
        (Bool(), None, None),
    ],
    ids=str,
)
def test_an_initial_value_fits_its_field(kind: Type, initial: int, message_: str | None) -> None:
    fresh = Machine("fresh")
    if message_ is None:
        fresh.field("x", kind, initial)
        return
    with pytest.raises(DeclarationError, match=f"machine fresh, field x.*{message_}"):
        fresh.field("x", kind, initial)


def test_an_initial_value_does_not_read_the_state() -> None:
    fresh = Machine("fresh")
    x = fresh.field("x", Bool())
    with pytest.raises(DeclarationError, match=r"machine fresh, field y: .* reads the state"):
        fresh.field("y", Bool(), ~x)
