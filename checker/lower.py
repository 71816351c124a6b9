"""A grounded system as LLVM IR, compiled: a function that expands a block of packed states.

    expand(states, count, out, rows, bad, bad_count) -> successors written

For each of `count` packed states from address `states` on, every successor is written to `out`
(packed, one behind the other, with room for one word beyond the last), the index of its row to
`rows` (uint32). A state that breaks an invariant, has a step that breaks a step property or leaves
a range, or has no successor where it should is noted in `bad` (uint64: the state's index in the
block shifted by 8, and what is wrong in the lower bits).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from .graph import Node
from .ground import GroundAction, Grounded, GroundRow
from .pack import Packing

BROKEN, FAULT, DEADLOCK = 1, 2, 4

_I1, _I8, _I32, _I64 = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64)
_POINTER = ir.PointerType()

Canonical = Callable[[Any, list[Any]], list[Any]]


@dataclass
class Kernel:
    """The compiled function: its address, how many successors a state can have at most, its IR.

    Holds the engine that owns the code: the address is valid while the kernel lives.
    """

    address: int
    canonical_address: int
    most_successors: int
    text: str
    engine: Any


def lower(grounded: Grounded, packing: Packing, canonical: Canonical | None = None) -> Kernel:
    """Compiles the system. `canonical` maps a state's words to those of its representative."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    writer = _Writer(grounded, packing, canonical)
    text = str(writer.module())
    engine = _compile(text)
    return Kernel(
        engine.get_function_address("expand"),
        engine.get_function_address("represent"),
        writer.most_successors,
        text,
        engine,
    )


def _compile(text: str) -> Any:
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2
    )
    module = llvm.parse_assembly(text)
    module.verify()
    tuning = llvm.PipelineTuningOptions(speed_level=2)
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine


class _Writer:
    def __init__(self, grounded: Grounded, packing: Packing, canonical: Canonical | None) -> None:
        self.grounded = grounded
        self.packing = packing
        self.canonical = canonical
        self.most_successors = sum(1 if len(action.rows) else 0 for action in grounded.actions)

    def module(self) -> ir.Module:
        module = ir.Module("system")
        module.triple = llvm.get_default_triple()
        self.expand(module)
        self.represent(module)
        return module

    # Frame ---------------------------------------------------------------------------------

    def expand(self, module: ir.Module) -> None:
        arguments = [_I64] * 6
        function = ir.Function(module, ir.FunctionType(_I64, arguments), "expand")
        entry = ir.IRBuilder(function.append_basic_block("entry"))
        states, count, out, rows, bad, bad_count = (
            entry.inttoptr(arg, _POINTER) if at != 1 else arg
            for at, arg in enumerate(function.args)
        )
        head = function.append_basic_block("head")
        body = function.append_basic_block("body")
        done = function.append_basic_block("done")
        entry.branch(head)

        b = ir.IRBuilder(head)
        at = b.phi(_I64, "at")
        written = b.phi(_I64, "written")
        at.add_incoming(ir.Constant(_I64, 0), entry.block)
        written.add_incoming(ir.Constant(_I64, 0), entry.block)
        b.cbranch(b.icmp_unsigned("<", at, count), body, done)

        b.position_at_end(body)
        source = b.gep(states, [b.mul(at, self.i64(self.packing.stride))], source_etype=_I8)
        words = self.load(b, source)
        values = _Values(self, b, words)
        broken = ir.Constant(_I1, 0)
        for node in self.grounded.invariants:
            broken = b.or_(broken, b.not_(values.truth(node)))
        fault: Any = ir.Constant(_I1, 0)
        cursor: Any = written
        for action in self.grounded.actions:
            cursor, fault = self.action(b, action, values, out, rows, cursor, fault)
        terminal = values.truth(self.grounded.terminal)
        stuck = b.and_(b.icmp_unsigned("==", cursor, written), b.not_(terminal))
        flags = b.or_(
            b.zext(broken, _I64),
            b.or_(b.shl(b.zext(fault, _I64), self.i64(1)), b.shl(b.zext(stuck, _I64), self.i64(2))),
        )
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

    def represent(self, module: ir.Module) -> None:
        """represent(state): replaces the packed state at the address by its representative."""
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), [_I64]), "represent")
        b = ir.IRBuilder(function.append_basic_block("entry"))
        place = b.inttoptr(function.args[0], _POINTER)
        words = self.load(b, place)
        if self.canonical is not None:
            words = self.canonical(b, words)
        for at, word in enumerate(words):
            b.store(word, b.gep(place, [self.i64(8 * at)], source_etype=_I8), align=1)
        b.ret_void()

    def i64(self, value: int) -> Any:
        return ir.Constant(_I64, value & (2**64 - 1))

    def load(self, b: ir.IRBuilder, source: Any) -> list[Any]:
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

    # Rows ----------------------------------------------------------------------------------

    def action(
        self, b: Any, action: GroundAction, values: _Values, out: Any, rows: Any, cursor: Any,
        fault: Any,
    ) -> tuple[Any, Any]:  # fmt: skip
        possible = action.possible
        if possible.is_constant or len(action.rows) == 0:
            return self.rows(b, action, values, out, rows, cursor, fault)
        holds = values.truth(possible)
        before = b.block
        inside = b.append_basic_block("possible")
        after = b.append_basic_block("next")
        b.cbranch(holds, inside, after)
        b.position_at_end(inside)
        new_cursor, new_fault = self.rows(b, action, values.inner(), out, rows, cursor, fault)
        end = b.block
        b.branch(after)
        b.position_at_end(after)
        return (
            self.join(b, cursor, before, new_cursor, end),
            self.join(b, fault, before, new_fault, end),
        )

    def join(self, b: Any, old: Any, old_block: Any, new: Any, new_block: Any) -> Any:
        if old is new:
            return old
        phi = b.phi(old.type)
        phi.add_incoming(old, old_block)
        phi.add_incoming(new, new_block)
        return phi

    def rows(
        self, b: Any, action: GroundAction, values: _Values, out: Any, rows: Any, cursor: Any,
        fault: Any,
    ) -> tuple[Any, Any]:  # fmt: skip
        for row in action.rows:
            holds = values.truth(row.guard)
            wrong = [n for n in (row.fault, row.broken) if not (n.is_constant and not n.value)]
            before = b.block
            inside = b.append_basic_block("row")
            after = b.append_basic_block("next")
            b.cbranch(holds, inside, after)
            b.position_at_end(inside)
            inner = values.inner()
            self.store(b, row, inner, out, rows, cursor)
            grown = b.add(cursor, self.i64(1))
            new_fault = fault
            for node in wrong:
                new_fault = b.or_(new_fault, inner.truth(node))
            end = b.block
            b.branch(after)
            b.position_at_end(after)
            cursor = self.join(b, cursor, before, grown, end)
            fault = self.join(b, fault, before, new_fault, end)
        return cursor, fault

    def store(
        self, b: Any, row: GroundRow, values: _Values, out: Any, rows: Any, cursor: Any
    ) -> None:
        words = list(values.words)
        masks: dict[int, int] = {}
        bits: dict[int, Any] = {}
        for index, node in row.updates.items():
            place = self.packing.places[index]
            masks[place.word] = masks.get(place.word, 0) | place.mask
            if node.is_constant:
                number = self.i64((node.value - place.low) << place.shift)
            else:
                number = b.sub(values.number(node), self.i64(place.low))
                number = b.shl(number, self.i64(place.shift))
                if node.low < place.low or node.high - place.low >= 1 << place.width:
                    number = b.and_(number, self.i64(place.mask))
            bits[place.word] = number if place.word not in bits else b.or_(bits[place.word], number)
        for word, mask in masks.items():
            words[word] = b.or_(b.and_(words[word], self.i64(~mask)), bits[word])
        if self.canonical is not None:
            words = self.canonical(b, words)
        target = b.gep(out, [b.mul(cursor, self.i64(self.packing.stride))], source_etype=_I8)
        for at, word in enumerate(words):
            b.store(word, b.gep(target, [self.i64(8 * at)], source_etype=_I8), align=1)
        b.store(ir.Constant(_I32, row.row), b.gep(rows, [cursor], source_etype=_I32))


class _Values:
    """Nodes as LLVM values, each computed once along a path of blocks."""

    def __init__(
        self, writer: _Writer, b: Any, words: list[Any], known: dict[int, Any] | None = None
    ) -> None:
        self.writer = writer
        self.b = b
        self.words = words
        self.known = known or {}

    def inner(self) -> _Values:
        """The same values, for a block that not every path runs through."""
        return _Values(self.writer, self.b, self.words, dict(self.known))

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
            case "leaf":
                place = self.writer.packing.places[node.value]
                raw = b.and_(self.words[place.word], i64(place.mask))
                if node.is_truth:
                    return b.icmp_unsigned("!=", raw, i64(0))
                return b.add(b.lshr(raw, i64(place.shift)), i64(place.low))
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
