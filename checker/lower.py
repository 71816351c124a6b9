"""A grounded system as LLVM IR, compiled: a function that expands a block of packed states.

    expand(states, count, out, rows, bad, bad_count) -> successors written

For each of `count` packed states from address `states` on, every successor is written to `out`
(packed, one behind the other, with room for one word beyond the last), the index of its row to
`rows` (uint32). A state that breaks an invariant, has a step that breaks a step property or leaves
a range, or has no successor where it should is noted in `bad` (uint64: the state's index in the
block shifted by 8, and what is wrong in the lower bits).
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from .graph import Node
from .ground import GroundAction, Grounded, GroundRow
from .machine_code import Code, compile_code, load
from .pack import Packing, Place
from .symmetry import Orbit, Sorter

BROKEN, FAULT, DEADLOCK = 1, 2, 4

_I1, _I8, _I32, _I64 = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64)
_POINTER = ir.PointerType()

INLINE = 120  # nodes up to which rows are written where they are tried
LARGE = 15_000  # lines of IR from which on LLVM's own passes cost more than they win
COPIED = 4  # words up to which a successor is written word by word


@dataclass
class Kernel:
    """The compiled functions: how many successors a state can have at most, and the code.

    Holds the engine that owns the code: the addresses are valid while the kernel lives.
    """

    most_successors: int
    code: Code
    engine: Any = field(init=False, repr=False)
    address: int = field(init=False)
    canonical_address: int = field(init=False)

    def __post_init__(self) -> None:
        self.engine = load(self.code)
        self.address = self.engine.get_function_address("expand")
        self.canonical_address = self.engine.get_function_address("represent")


def lower(grounded: Grounded, packing: Packing, canonical: Sorter | None = None) -> Kernel:
    """Compiles the system. `canonical` writes how a state becomes its representative."""
    writer = _Writer(grounded, packing, canonical)
    text = str(writer.module())
    return Kernel(writer.most_successors, compile_code(text, passes=text.count("\n") < LARGE))


class _Writer:
    def __init__(self, grounded: Grounded, packing: Packing, canonical: Sorter | None) -> None:
        self.grounded = grounded
        self.packing = packing
        self.canonical = canonical
        self.most_successors = sum(len(action.possible) for action in grounded.actions)
        self.ir = ir.Module("system")
        self.ir.triple = llvm.get_default_triple()

    def module(self) -> ir.Module:
        self.represent()
        self.expand()
        return self.ir

    # Frame ---------------------------------------------------------------------------------

    def expand(self) -> None:
        function = ir.Function(self.ir, ir.FunctionType(_I64, [_I64] * 6), "expand")
        b = ir.IRBuilder(function.append_basic_block("entry"))
        states, count, out, rows, bad, bad_count = (
            b.inttoptr(arg, _POINTER) if at != 1 else arg for at, arg in enumerate(function.args)
        )
        fault = b.alloca(_I8)
        exchanged = b.alloca(_I64, size=self.packing.words)
        head = function.append_basic_block("head")
        body = function.append_basic_block("body")
        done = function.append_basic_block("done")
        entry = b.block
        b.branch(head)

        b.position_at_end(head)
        at = b.phi(_I64, "at")
        written = b.phi(_I64, "written")
        at.add_incoming(ir.Constant(_I64, 0), entry)
        written.add_incoming(ir.Constant(_I64, 0), entry)
        b.cbranch(b.icmp_unsigned("<", at, count), body, done)

        b.position_at_end(body)
        source = b.gep(states, [b.mul(at, self.i64(self.packing.stride))], source_etype=_I8)
        values = _Values(self, b, self.load(b, source))
        b.store(ir.Constant(_I8, 0), fault)
        cursor: Any = written
        alone, alike = self.divided()
        for action in alone:
            cursor = self.action(b, action, values, source, out, rows, cursor, fault)
        for orbit, actions in alike:
            first = self.actions_function(actions)
            cursor = b.call(first, [source, out, rows, cursor, fault])
            for instance in range(1, len(orbit.rows)):
                assert self.canonical is not None
                words = self.canonical.swapped(b, values.words, orbit, instance)
                self.store_within(b, exchanged, words)
                cursor = b.call(first, [exchanged, out, rows, cursor, fault])
        if self.canonical is not None:
            self.call_represent(b, out, written, cursor)
        broken, terminal = self.judged(b, values, source)
        stuck = b.and_(b.icmp_unsigned("==", cursor, written), b.not_(terminal))
        flags = b.zext(broken, _I64)
        flags = b.or_(flags, b.zext(b.load(fault, typ=_I8), _I64))
        flags = b.or_(flags, b.shl(b.zext(stuck, _I64), self.i64(2)))
        with b.if_then(b.icmp_unsigned("!=", flags, self.i64(0)), likely=False):
            noted = b.load(bad_count, typ=_I64)
            note = b.or_(b.shl(at, self.i64(8)), flags)
            b.store(note, b.gep(bad, [noted], source_etype=_I64))
            b.store(b.add(noted, self.i64(1)), bad_count)
        at.add_incoming(b.add(at, self.i64(1)), b.block)
        written.add_incoming(cursor, b.block)
        b.branch(head)

        b.position_at_end(done)
        b.ret(written)

    def divided(self) -> tuple[list[GroundAction], list[tuple[Orbit, list[GroundAction]]]]:
        """The actions, apart from those of orbits' instances, of which only the first's are kept.

        What another instance does is what the first would do if both were exchanged, as successors
        count up to such exchanges.
        """
        orbits = [] if self.canonical is None else self.canonical.symmetry.orbits
        alone = list(self.grounded.actions)
        alike: list[tuple[Orbit, list[GroundAction]]] = []
        for orbit in orbits:
            key = orbit.key
            alike.append((orbit, [action for action in alone if action.instance_of(key) == 0]))
            alone = [action for action in alone if action.instance_of(key) is None]
        return alone, alike

    def actions_function(self, actions: list[GroundAction]) -> Any:
        """Several actions as a function of their own."""
        kind = ir.FunctionType(_I64, [_POINTER, _POINTER, _POINTER, _I64, _POINTER])
        function = ir.Function(self.ir, kind, self.ir.get_unique_name("actions"))
        function.linkage = "internal"
        b = ir.IRBuilder(function.append_basic_block("entry"))
        source, out, rows, cursor, fault = function.args
        values = _Values(self, b, self.load(b, source))
        for action in actions:
            cursor = self.action(b, action, values, source, out, rows, cursor, fault)
        b.ret(cursor)
        return function

    def represent(self) -> None:
        """represent(state): replaces the packed state at the address by its representative."""
        function = ir.Function(self.ir, ir.FunctionType(ir.VoidType(), [_I64]), "represent")
        b = ir.IRBuilder(function.append_basic_block("entry"))
        place = b.inttoptr(function.args[0], _POINTER)
        if self.canonical is not None:
            self.store_within(b, place, self.canonical(b, self.load(b, place)))
        b.ret_void()

    def call_represent(self, b: Any, out: Any, first: Any, end: Any) -> None:
        """Every state from index `first` up to `end` becomes its representative."""
        before = b.block
        head = b.append_basic_block("representing")
        body = b.append_basic_block("represented")
        after = b.append_basic_block("next")
        b.branch(head)
        b.position_at_end(head)
        at = b.phi(_I64)
        at.add_incoming(first, before)
        b.cbranch(b.icmp_unsigned("<", at, end), body, after)
        b.position_at_end(body)
        place = b.gep(out, [b.mul(at, self.i64(self.packing.stride))], source_etype=_I8)
        b.call(self.ir.get_global("represent"), [b.ptrtoint(place, _I64)])
        at.add_incoming(b.add(at, self.i64(1)), b.block)
        b.branch(head)
        b.position_at_end(after)

    def judged(self, b: Any, values: _Values, source: Any) -> tuple[Any, Any]:
        """Whether an invariant is broken, and whether the run may end here."""
        nodes = [*self.grounded.invariants, self.grounded.terminal]
        if _cost(nodes) <= INLINE:
            return self.judgement(b, values)
        result = ir.LiteralStructType([_I1, _I1])
        function = ir.Function(self.ir, ir.FunctionType(result, [_POINTER]), "judge")
        inner = ir.IRBuilder(function.append_basic_block("entry"))
        words = self.load(inner, function.args[0])
        broken, terminal = self.judgement(inner, _Values(self, inner, words))
        pair = inner.insert_value(ir.Constant(result, ir.Undefined), broken, 0)
        inner.ret(inner.insert_value(pair, terminal, 1))
        both = b.call(function, [source])
        return b.extract_value(both, 0), b.extract_value(both, 1)

    def judgement(self, b: Any, values: _Values) -> tuple[Any, Any]:
        broken: Any = ir.Constant(_I1, 0)
        for node in self.grounded.invariants:
            broken = b.or_(broken, b.not_(values.truth(node)))
        return broken, values.truth(self.grounded.terminal)

    def i64(self, value: int) -> Any:
        return ir.Constant(_I64, value & (2**64 - 1))

    def load(self, b: Any, source: Any) -> list[Any]:
        words: list[Any] = []
        for at in range(self.packing.words):
            left = self.packing.stride - 8 * at
            if left >= 8:
                place = b.gep(source, [self.i64(8 * at)], source_etype=_I8)
                words.append(b.load(place, typ=_I64, align=1))
            else:  # the last bytes of the state: they end where the state ends
                place = b.gep(source, [self.i64(self.packing.stride - 8)], source_etype=_I8)
                whole = b.load(place, typ=_I64, align=1)
                words.append(b.lshr(whole, self.i64(8 * (8 - left))))
        return words

    def store_within(self, b: Any, target: Any, words: list[Any]) -> None:
        """Stores a state's words without touching a byte behind them."""
        for at, word in enumerate(words):
            left = self.packing.stride - 8 * at
            value, offset = word, 8 * at
            if left < 8:
                high = b.shl(word, self.i64(8 * (8 - left)))
                value = b.or_(high, b.lshr(words[at - 1], self.i64(8 * left)))
                offset = self.packing.stride - 8
            b.store(value, b.gep(target, [self.i64(offset)], source_etype=_I8), align=1)

    # Rows ----------------------------------------------------------------------------------

    def action(
        self, b: Any, action: GroundAction, values: _Values, source: Any, out: Any, rows: Any,
        cursor: Any, fault: Any,
    ) -> Any:  # fmt: skip
        """Writes the successors by the rows of an action; returns the index behind the last."""
        parts = [
            node for row in action.rows for node in (row.guard, *row.updates.values(), *row.broken)
        ]
        called = None
        if len(action.possible) > 1 or _cost(parts) > INLINE:
            called = self.rows_function(action)
        elif all(node.is_constant for node in action.possible):
            return self.rows(b, action, values, source, out, rows, cursor, fault)
        for place, possible in enumerate(action.possible):
            before = b.block
            inside = b.append_basic_block("possible")
            after = b.append_basic_block("next")
            b.cbranch(values.truth(possible), inside, after)
            b.position_at_end(inside)
            if called is not None:
                grown = b.call(called, [source, out, rows, cursor, fault, self.i64(place)])
            else:
                grown = self.rows(b, action, values.inner(), source, out, rows, cursor, fault)
            end = b.block
            b.branch(after)
            b.position_at_end(after)
            cursor = self.join(b, cursor, before, grown, end)
        return cursor

    def rows_function(self, action: GroundAction) -> Any:
        """The rows of an action as a function of their own: what is rare and long."""
        kind = ir.FunctionType(_I64, [_POINTER, _POINTER, _POINTER, _I64, _POINTER, _I64])
        function = ir.Function(self.ir, kind, self.ir.get_unique_name("rows"))
        function.linkage = "internal"
        function.attributes.add("noinline")
        b = ir.IRBuilder(function.append_basic_block("entry"))
        source, out, rows, cursor, fault, place = function.args
        values = _Values(self, b, self.load(b, source), place=place)
        b.ret(self.rows(b, action, values, source, out, rows, cursor, fault))
        return function

    def bits(self, b: Any, values: _Values, items: list[tuple[Place, Node]]) -> Any:
        """The new bits of a word, each at its place and all others 0.

        Leaves that move by the same distance are moved at once, and what one condition chooses is
        chosen at once.
        """
        constant = 0
        moved: dict[tuple[int, int], int] = {}
        chosen: dict[int, list[tuple[Place, Node]]] = {}
        parts: list[Any] = []
        for place, node in items:
            source = self.packing.places.get(node.value) if node.op == "leaf" else None
            if node.is_constant:
                constant |= (node.value - place.low) << place.shift
            elif source is not None and (source.low, source.width) == (place.low, place.width):
                key = (source.word, place.shift - source.shift)
                moved[key] = moved.get(key, 0) | source.mask
            elif node.op == "ite":
                chosen.setdefault(node.args[0].number, []).append((place, node))
            else:
                parts.append(self.placed(b, values, place, node))
        for (word, distance), mask in moved.items():
            value = b.and_(values.words[word], self.i64(mask))
            if distance > 0:
                value = b.shl(value, self.i64(distance))
            elif distance < 0:
                value = b.lshr(value, self.i64(-distance))
            parts.append(value)
        for group in chosen.values():
            condition = values.truth(group[0][1].args[0])
            then = self.bits(b, values, [(place, node.args[1]) for place, node in group])
            otherwise = self.bits(b, values, [(place, node.args[2]) for place, node in group])
            parts.append(b.select(condition, then, otherwise))
        if constant or not parts:
            parts.append(self.i64(constant))
        result = parts[0]
        for part in parts[1:]:
            result = b.or_(result, part)
        return result

    def placed(self, b: Any, values: _Values, place: Place, node: Node) -> Any:
        """The bits of a value at its place; a value out of range, a fault, loses what is over."""
        number = values.number(node)
        if place.low:
            number = b.sub(number, self.i64(place.low))
        if place.shift:
            number = b.shl(number, self.i64(place.shift))
        if node.low < place.low or node.high - place.low >= 1 << place.width:
            number = b.and_(number, self.i64(place.mask))
        return number

    def copy(self, b: Any, source: Any, target: Any) -> None:
        """Copies a packed state."""
        kind = ir.FunctionType(ir.VoidType(), [_POINTER, _POINTER, _I64, _I1])
        name = "llvm.memcpy.inline.p0.p0.i64"
        copies = self.ir.globals.get(name) or ir.Function(self.ir, kind, name)
        b.call(copies, [target, source, self.i64(self.packing.stride), ir.Constant(_I1, 0)])

    def join(self, b: Any, old: Any, old_block: Any, new: Any, new_block: Any) -> Any:
        phi = b.phi(old.type)
        phi.add_incoming(old, old_block)
        phi.add_incoming(new, new_block)
        return phi

    def rows(
        self, b: Any, action: GroundAction, values: _Values, source: Any, out: Any, rows: Any,
        cursor: Any, fault: Any,
    ) -> Any:  # fmt: skip
        for node in _shared(action.rows):
            values.value(node)
        for row in action.rows:
            before = b.block
            holds = values.truth(row.guard)
            inside = b.append_basic_block("row")
            after = b.append_basic_block("next")
            b.cbranch(holds, inside, after)
            b.position_at_end(inside)
            inner = values.inner()
            self.store(b, row, inner, source, out, rows, cursor)
            wrong = self.grounded.graph.or_(row.fault, *row.broken)
            if wrong is not self.grounded.graph.false:
                with b.if_then(inner.truth(wrong), likely=False):
                    b.store(ir.Constant(_I8, FAULT), fault)
            grown = b.add(cursor, self.i64(1))
            end = b.block
            b.branch(after)
            b.position_at_end(after)
            cursor = self.join(b, cursor, before, grown, end)
        return cursor

    def store(
        self, b: Any, row: GroundRow, values: _Values, source: Any, out: Any, rows: Any,
        cursor: Any,
    ) -> None:  # fmt: skip
        written: dict[int, list[tuple[Place, Node]]] = {}
        for index, node in row.updates.items():
            place = self.packing.places[index]
            written.setdefault(place.word, []).append((place, node))
        target = b.gep(out, [b.mul(cursor, self.i64(self.packing.stride))], source_etype=_I8)
        changed: dict[int, Any] = {}
        for word, items in written.items():
            mask = sum(place.mask for place, _ in items)
            kept = b.and_(values.words[word], self.i64(~mask))
            changed[word] = b.or_(kept, self.bits(b, values, items))
        if self.packing.words <= COPIED:
            # the last word's bytes behind the state are overwritten by the next successor
            for at, word in enumerate(values.words):
                place = b.gep(target, [self.i64(8 * at)], source_etype=_I8)
                b.store(changed.get(at, word), place, align=1)
        else:
            self.copy(b, source, target)
            for at, word in sorted(changed.items()):
                b.store(word, b.gep(target, [self.i64(8 * at)], source_etype=_I8), align=1)
        b.store(ir.Constant(_I32, row.row), b.gep(rows, [cursor], source_etype=_I32))


def _shared(rows: tuple[GroundRow, ...]) -> list[Node]:
    """The largest nodes that more than one of the rows computes."""
    users: dict[int, int] = {}
    known: dict[int, Node] = {}
    for row in rows:
        seen: set[int] = set()
        stack = [row.guard, row.fault, *row.broken, *row.updates.values()]
        while stack:
            node = stack.pop()
            if node.number in seen or node.is_constant:
                continue
            seen.add(node.number)
            known[node.number] = node
            users[node.number] = users.get(node.number, 0) + 1
            stack.extend(node.args)
    shared = {number for number, count in users.items() if count > 1}
    inner = {arg.number for number in shared for arg in known[number].args}
    return [known[n] for n in sorted(shared - inner) if known[n].op != "leaf"]


def _cost(nodes: list[Node]) -> int:
    """How many different nodes there are to compute, up to a little over `INLINE`."""
    seen: set[int] = set()
    stack = list(nodes)
    while stack and len(seen) <= INLINE:
        node = stack.pop()
        if node.number not in seen and not node.is_constant:
            seen.add(node.number)
            stack.extend(node.args)
    return len(seen)


class _Values:
    """Nodes as LLVM values, each computed once along a path of blocks."""

    def __init__(
        self,
        writer: _Writer,
        b: Any,
        words: list[Any],
        known: dict[int, Any] | None = None,
        place: Any = None,
    ) -> None:
        self.writer = writer
        self.place = place  # the one of an action's choices that is being tried
        self.b = b
        self.words = words
        self.known = known or {}

    def inner(self) -> _Values:
        """The same values, for a block that not every path runs through."""
        return _Values(self.writer, self.b, self.words, dict(self.known), self.place)

    def truth(self, node: Node) -> Any:
        """The node as an i1."""
        value = self.value(node)
        return value if value.type == _I1 else self.b.icmp_unsigned("!=", value, self.writer.i64(0))

    def number(self, node: Node) -> Any:
        """The node as an i64."""
        value = self.value(node)
        return value if value.type == _I64 else self.b.zext(value, _I64)

    def value(self, node: Node) -> Any:
        found = self.known.get(node.number)
        if found is None:
            found = self.known[node.number] = self._value(node)
        return found

    def _value(self, node: Node) -> Any:
        b, i64 = self.b, self.writer.i64
        match node.op:
            case "const":
                return ir.Constant(_I1, node.value) if node.is_truth else i64(node.value)
            case "leaf" if node.value < 0:
                return self.place
            case "leaf":
                place = self.writer.packing.places[node.value]
                raw = b.and_(self.words[place.word], i64(place.mask))
                if node.is_truth:
                    return b.icmp_unsigned("!=", raw, i64(0))
                if place.shift:
                    raw = b.lshr(raw, i64(place.shift))
                return b.add(raw, i64(place.low)) if place.low else raw
            case "not":
                return b.not_(self.truth(node.args[0]))
            case "and" | "or":
                result = self.truth(node.args[0])
                for arg in node.args[1:]:
                    other = self.truth(arg)
                    result = b.and_(result, other) if node.op == "and" else b.or_(result, other)
                return result
            case "eq":
                left, right = node.args
                for leaf, constant in ((left, right), (right, left)):
                    of_state = leaf.op == "leaf" and leaf.value >= 0
                    if of_state and constant.is_constant and not leaf.is_truth:
                        place = self.writer.packing.places[leaf.value]
                        raw = b.and_(self.words[place.word], i64(place.mask))
                        wanted = (constant.value - place.low) << place.shift
                        return b.icmp_unsigned("==", raw, i64(wanted))
                if left.is_truth and right.is_truth:
                    return b.icmp_unsigned("==", self.truth(left), self.truth(right))
                return b.icmp_signed("==", self.number(left), self.number(right))
            case "lt":
                return b.icmp_signed("<", self.number(node.args[0]), self.number(node.args[1]))
            case "add":
                return b.add(self.number(node.args[0]), self.number(node.args[1]))
            case "sub":
                return b.sub(self.number(node.args[0]), self.number(node.args[1]))
            case "mod":
                rest = b.srem(self.number(node.args[0]), i64(node.value))
                below = b.icmp_signed("<", rest, i64(0))
                return b.select(below, b.add(rest, i64(node.value)), rest)
            case _:
                condition = self.truth(node.args[0])
                if node.is_truth:
                    then, otherwise = self.truth(node.args[1]), self.truth(node.args[2])
                else:
                    then, otherwise = self.number(node.args[1]), self.number(node.args[2])
                return b.select(condition, then, otherwise)
