"""What Python would drop in silence raises instead: every use of a truth, in every context."""

import math
import operator
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from epochfence import language as declared
from epochfence.language import DeclarationError, Row, Table
from epochfence.language.expressions import Expression

lang: Any = declared  # wrong use is refused by type checkers as well
KEY = lang.Key("worker", 3)
STATE = lang.enum("State", "IDLE", "BUSY")
worker = lang.Machine("worker", KEY)
a: Any = worker.field("a", lang.Int(0, 3))
b: Any = worker.field("b", lang.Int(0, 3))
ok: Any = worker.field("ok", lang.Bool())
many: Any = worker.field("many", lang.Set(KEY))
state: Any = worker.state_field("state", STATE)
Ask = lang.message("Ask", worker, worker=KEY, number=lang.Int(0, 3), yes=lang.Bool())
tick = lang.event("tick")
i = KEY.variable("i")


def _chosen(condition: Any) -> Any:
    if condition:
        return a
    return b


def _matched(value: Any) -> Any:
    match value:
        case 0:
            return True
        case _:
            return False


def _looped(condition: Any) -> Any:
    while condition:
        return True
    return False


def _asserted(condition: Any) -> Any:
    assert condition
    return True


# Each of these loses an operand where a comparison has a truth.
SLIPS: dict[str, Callable[[], Any]] = {
    "and": lambda: (a == 0) and (b == 0),
    "and of a truth": lambda: ok and (b == 0),
    "or": lambda: (a == 0) or (b == 0),
    "not": lambda: not (a == 3),
    "not of unequal": lambda: not (a != 3),
    "chain": lambda: 0 < a < 3,
    "chain of equals": lambda: a == b == 0,
    "in a tuple": lambda: a in (0, 1),
    "not in a list": lambda: a not in [0, 1],
    "in a set field": lambda: i in many,
    "not in a set field": lambda: i not in many,
    "ternary": lambda: a if ok else b,
    "if": lambda: _chosen(a == b),
    "while": lambda: _looped(a == b),
    "assert": lambda: _asserted(a == b),
    "match": lambda: _matched(a),
    "match of a member": lambda: _matched(state),
    "bool": lambda: bool(a == b),
    "any": lambda: any([a == 0, b == 0]),
    "all": lambda: all(x == 0 for x in (a, b)),
    "filter": lambda: list(filter(None, [a == b])),
    "min": lambda: min(a, b),
    "max": lambda: max(a, 1),
    "sorted": lambda: sorted([a, b]),
    "index": lambda: [a, b].index(b),
    "count": lambda: (a, b).count(b),
    "remove": lambda: [a, b].remove(b),
    "tuples": lambda: (a, 1) == (b, 1),
    "lists": lambda: [a] != [b],
    "truth_": lambda: operator.truth(a == b),
    "comprehension": lambda: [x for x in (a, b) if x == 0],
}
# Where a condition or a value can stand.
CONTEXTS: dict[str, Callable[[Callable[[], Any]], Any]] = {
    "guard": lambda slip: Table(worker, tick, (Row("r", when=slip()),)),
    "update": lambda slip: Table(worker, tick, (Row("r", set={ok: slip()}),)),
    "goto": lambda slip: Table(worker, tick, (Row("r", goto=slip()),)),
    "when of a table": lambda slip: Table(worker, tick, (Row("r"),), when=slip()),
    "sending": lambda slip: Row("r", send=(Ask(worker=0, number=0, yes=slip()),)),
    "to_each": lambda slip: lang.to_each(i, slip(), Ask(worker=i, number=0, yes=True)),
    "invariant": lambda slip: lang.invariant("P", slip(), "..."),
    "step property": lambda slip: lang.step_property("P", slip(), "..."),
    "terminal": lambda slip: lang.System("s", (), (), terminal=slip()),
    "capacity": lambda slip: lang.Channel(Ask, slip()),
    "bound": lambda slip: lang.Int(0, slip()),
    "initial value": lambda slip: lang.Machine("m").field("f", lang.Bool(), slip()),
    "quantifier": lambda slip: lang.all_of(i, slip()),
    "choice": lambda slip: lang.if_(slip(), 1, 2),
    "at": lambda slip: a.at(slip()),
    "operand": lambda slip: ok & slip(),
    "budget": lambda slip: {tick: slip()},
}


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("slip", SLIPS)
def test_no_operand_is_dropped(slip: str, context: str) -> None:
    with pytest.raises(DeclarationError, match=r"write |don't work on expressions: use & \| ~"):
        CONTEXTS[context](SLIPS[slip])


@pytest.mark.parametrize(
    ("use", "instead"),
    [
        (lambda: len(many), r"write size\("),
        (lambda: list(many), "use all_of"),
        (lambda: sum(many), "use all_of"),
        (lambda: ", ".join(many), "use all_of"),
        (lambda: [*many], "use all_of"),
        (lambda: list(reversed(many)), "use all_of"),
        (lambda: dict(many), "leave out the brackets"),
        (lambda: next(many), "use all_of"),
        (lambda: range(a), "instead of a loop"),
        (lambda: int(a), "not yet a number"),
        (lambda: float(a), "not yet a number"),
        (lambda: complex(a), "not yet a number"),
        (lambda: round(a), "not yet a number"),
        (lambda: round(a, 2), "not yet a number"),
        (lambda: math.floor(a), "not yet a number"),
        (lambda: math.ceil(a), "not yet a number"),
        (lambda: math.trunc(a), "not yet a number"),
        (lambda: [1, 2][a], "not yet a number"),
        (lambda: "x" * a, "not yet a number|neither an expression"),
        (lambda: f"{a:d}", "not yet a number"),
        (lambda: -a, "write 0 - x"),
        (lambda: +a, "leave it out"),
        (lambda: abs(a), r"write if_\(x < 0"),
        (lambda: a / 2, "write // with a number"),
        (lambda: a**2, "write the product"),
        (lambda: pow(a, 2, 3), "write the product"),
        (lambda: a << 1, r"write 2 \* x"),
        (lambda: 1 >> a, "write // with a number"),
        (lambda: divmod(a, 2), "write // with a number"),
        (lambda: ok ^ ok, "write a != b"),
        (lambda: a @ b, "no matrix product"),
        (lambda: a.is_set(), "leave out the brackets"),
        (lambda: operator.setitem(many, 0, 1), "can't be changed"),
        (lambda: operator.delitem(many, 0), "can't be changed"),
        (lambda: setattr(a, "x", 1), "can't be changed"),
        (lambda: state == "IDLE", "write a member of its enum"),
        (lambda: a.is_in((0, 1)), "write the values one by one"),
        (lambda: lang.all_true(ok for _ in range(2)), r"put \* before it"),
        (lambda: lang.any_true([ok, ok]), "one by one"),
        (lambda: lang.if_(tick, 1, 2), "Event has no value"),
        (lambda: lang.lift(STATE), "State is neither .*: Enum has no value: write a part"),
        (lambda: lang.lift(worker), "neither an expression"),
    ],
)
def test_what_an_expression_does_not_have_says_what_to_write(
    use: Callable[[], Any], instead: str
) -> None:
    with pytest.raises(DeclarationError, match=instead):
        use()


def test_dictionaries_and_sets_find_trees_by_identity() -> None:
    trees: list[Expression] = [a + n for n in range(200)]
    table = {tree: n for n, tree in enumerate(trees)}
    assert [table[a + n] for n in range(200)] == list(range(200))
    assert len({hash(tree) for tree in trees}) == 200
    assert (a + 200) not in set(trees)


def test_what_holds_expressions_is_compared_without_a_truth() -> None:
    n, m = lang.constant("N", 2), lang.constant("M", 2)
    assert lang.Int(0, n) != lang.Int(0, m)
    assert lang.Int(0, n) is lang.Int(0, n)
    assert lang.Key("k", n) != lang.Key("k", m)
    assert lang.Map(KEY, lang.Int(0, n)) == lang.Map(KEY, lang.Int(0, n))
    one = lang.message("M", lang.Machine("m"), x=lang.Int(0, n))
    other = lang.message("M", lang.Machine("m"), x=lang.Int(0, m))
    assert one != other
    assert one(x=n) == one(x=n) != one(x=m)
    assert pickle.loads(pickle.dumps((one, other))) == (one, other)
    assert lang.event("e", i) == lang.event("e", i) != lang.event("e", KEY.variable("j"))


def test_a_long_value_is_shortened() -> None:
    with pytest.raises(DeclarationError, match="one by one") as raised:
        lang.lift({name: [name] * 100 for name in "abcdefghijklmnop"})
    assert len(str(raised.value)) < 300
