"""Compiles a grounded system to a function that expands a block of packed states.

    expand(states, count, out, rows, bad, bad_count) -> successors written

For each of `count` packed states from address `states` on, the function writes every successor to
`out` (packed, contiguous, with room for one word beyond the last), and the index of its row to
`rows` (uint32). A state is noted in `bad` if it breaks an invariant, is a deadlock, or has a step
that breaks a step property or leaves a range. A note is a uint64: the state's index in the block
shifted by FLAG_BITS, and the violations in the lower bits (see `Flags`). `bad_count` has NOTES
numbers of 64 bits: the number of notes; the flags that are checked; the groups of properties that
are known to hold in these states; and, as a result, the groups that held in the last state (see
`judging`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ...ground import GroundAction, Grounded, GroundRow
from ...ground.graph import Node
from ..cache.kernel import Kernel
from ..cache.machine_code import Code, Compilation
from ..cache.object_code import BEST, STRAIGHT
from ..store.pack import Packing
from ..symmetry.symmetry import Orbit, Sorter
from .gates import Group, Item, gates
from .instructions import (
    I8,
    I32,
    I64,
    POINTER,
    VOID,
    Block,
    Builder,
    Function,
    Value,
    module,
    number,
)
from .node_values import Values, flagged, united
from .property_groups import HELD, KNOWN, WATCHED, judging
from .sharing import (
    DEADLOCK,
    FLAG_BITS,
    INLINE,
    Fault,
    Faults,
    Flags,
    Own,
    conjuncts,
    cost,
    shared_nodes,
    updates_of_all,
)
from .simd import expand_lanes, pays
from .updates import updated

PART = 13_000  # instructions of rows after which a new module begins
FRAME = (POINTER, POINTER, POINTER, I64, POINTER)  # arguments of functions that write successors
COPIED = 4  # most words of a successor that is written word by word


def lower(grounded: Grounded, packing: Packing, canonical: Sorter | None = None) -> Kernel:
    """Compiles the system. `canonical` writes the code that replaces a state by its
    representative.
    """
    writer = _Writer(grounded, packing, canonical)
    spans = tuple((group.first, group.end) for group in writer.judging.groups)
    try:
        return Kernel(writer.most_successors, writer.code(), spans)
    finally:
        writer.compilation.close()


@dataclass(frozen=True)
class _Frame:
    """The addresses in a function that writes successors: of the state, of successors, of the
    indices of their rows, and of faults.

    Faults are two numbers: the flags of violations, and the bits of the common faults to check.
    """

    b: Builder
    source: Value
    out: Value
    rows: Value
    fault: Value

    @property
    def common(self) -> Value:
        """The address of the common faults to check."""
        return self.b.gep(self.fault, number(1), I64)

    def arguments(self, cursor: Value) -> tuple[Value, ...]:
        """The arguments for a call of another such function. `cursor` is the next successor's
        index.
        """
        return self.source, self.out, self.rows, cursor, self.fault

    @classmethod
    def of(cls, b: Builder) -> tuple[_Frame, Value]:
        """The frame and the cursor from a function's arguments."""
        source, out, rows, cursor, fault, *_ = b.function.args
        return cls(b, source, out, rows, fault), cursor


class _Writer:
    def __init__(self, grounded: Grounded, packing: Packing, canonical: Sorter | None) -> None:
        self.grounded = grounded
        self.packing = packing
        self.canonical = canonical
        self.most_successors = sum(len(action.possible) for action in grounded.actions)
        self.flags = Flags(grounded.instance)
        self.faults = Faults(grounded, self.flags)
        self.judging = judging(grounded, packing, self.flags)
        self.compilation = Compilation()
        self.functions: list[Function] = []  # of the first module
        self.rows_functions: list[Function] = []  # not in a module yet
        self.elsewhere: list[Function] = []  # in other modules

    def code(self) -> Code:
        """Writes and compiles all functions."""
        if self.canonical is None and pays(self.grounded, self.packing):
            lanes = expand_lanes(self.grounded, self.packing, self.faults, self.judging)
            self.compilation.begin(STRAIGHT + module([lanes]), BEST)
        self.represent()
        self.expand()
        self.close_part()
        self.compilation.begin(module(self.functions, self.elsewhere))
        return self.compilation.end()

    def close_part(self) -> None:
        """Makes a module of the functions of rows, and begins to compile it."""
        self.compilation.begin(module(self.rows_functions))
        for function in self.rows_functions:
            function.blocks.clear()
        self.elsewhere += self.rows_functions
        self.rows_functions = []

    def function(
        self, name: str, result: str, *arguments: str, shared: bool = False
    ) -> tuple[Function, Builder]:
        """A function of the first module, with its builder."""
        function = Function(name, result, arguments, shared=shared)
        self.functions.append(function)
        return function, Builder(function)

    # Frame ---------------------------------------------------------------------------------

    def expand(self) -> None:
        function, b = self.function("expand", I64, *[I64] * 6, shared=True)
        states, count, out, rows, bad, bad_count = (
            b.inttoptr(arg) if at != 1 else arg for at, arg in enumerate(function.args)
        )
        fault = b.alloca(I64, size=2)
        watched = b.load(b.gep(bad_count, number(WATCHED), I64), I64)
        exchanged = b.alloca(I64, size=self.packing.words)
        with b.loop(number(0), count, carried=[number(0)]) as loop:
            (written,) = loop.carried
            source = b.gep(states, b.mul(loop.at, number(self.packing.stride)), I8)
            frame = _Frame(b, source, out, rows, fault)
            values = Values(self.packing, b, self.load(b, source))
            b.store(number(0), fault)
            alone, alike = self.divided()
            cursor = self.steps(frame, alone, values, written)
            for orbit, actions in alike:
                first = self.actions_function(actions)
                cursor = b.call(first, frame.arguments(cursor))
                for instance in range(1, len(orbit.rows)):
                    assert self.canonical is not None
                    words = self.canonical.swapped(b, values.words, orbit, instance)
                    self.store_within(b, exchanged, words)
                    cursor = b.call(first, replace(frame, source=exchanged).arguments(cursor))
            if self.canonical is not None:
                self.call_represent(b, out, written, cursor)
            self.judge(frame, values, b.icmp("eq", cursor, written), bad_count)
            flags = b.and_(b.load(fault, I64), watched)
            with b.if_unlikely(b.icmp("ne", flags, number(0))):
                noted = b.load(bad_count, I64)
                note = b.or_(b.shl(loop.at, number(FLAG_BITS)), flags)
                b.store(note, b.gep(bad, noted, I64))
                b.store(b.add(noted, number(1)), bad_count)
            loop.carried = [cursor]
        b.ret(*loop.carried)

    def divided(self) -> tuple[list[GroundAction], list[tuple[Orbit, list[GroundAction]]]]:
        """The actions of instances in no orbit, and those of the first instance of each orbit.

        The actions of another instance are those of the first one after an exchange of both.
        Successors that differ by an exchange have one representative.
        """
        orbits = () if self.canonical is None else self.canonical.symmetry.orbits
        alone = list(self.grounded.actions)
        alike: list[tuple[Orbit, list[GroundAction]]] = []
        for orbit in orbits:
            key = orbit.key
            alike.append((orbit, [action for action in alone if action.instance_of(key) == 0]))
            alone = [action for action in alone if action.instance_of(key) is None]
        return alone, alike

    def actions_function(self, actions: list[GroundAction]) -> Function:
        """A function with several actions."""
        name = f"actions{len(self.functions)}"
        function, b = self.function(name, I64, *FRAME)
        frame, cursor = _Frame.of(b)
        values = Values(self.packing, b, self.load(b, frame.source))
        b.ret(self.steps(frame, actions, values, cursor))
        return function

    def represent(self) -> None:
        """represent(state): replaces the packed state at the address by its representative."""
        function, b = self.function("represent", VOID, I64, shared=True)
        place = b.inttoptr(function.args[0])
        if self.canonical is not None:
            words = self.canonical(b, self.load(b, place), self.function)
            self.store_within(b, place, words)
        b.ret()

    def call_represent(self, b: Builder, out: Value, first: Value, end: Value) -> None:
        """Replaces every state from index `first` up to `end` by its representative."""
        with b.loop(first, end) as loop:
            place = b.gep(out, b.mul(loop.at, number(self.packing.stride)), I8)
            b.call(self.functions[0], [b.ptrtoint(place)])

    def judge(self, frame: _Frame, values: Values, stuck: Value, bad_count: Value) -> None:
        """Adds the flags of broken invariants, and that of a deadlock if the state is `stuck` but
        not terminal.
        """
        b, source, fault = frame.b, frame.source, frame.fault
        always = self.judging.always
        if cost([node for node, _ in always]) <= INLINE:
            self.note(b, self.broken(b, values, always), fault)
        else:
            function, inner = self.function("judge", I64, POINTER)
            own = Values(self.packing, inner, self.load(inner, function.args[0]))
            inner.ret(self.broken(inner, own, always))
            self.note(b, b.call(function, [source]), fault)
        if self.judging.groups:
            known = b.load(b.gep(bad_count, number(KNOWN), I64), I64)
            every = number((1 << len(self.judging.groups)) - 1)
            left = b.sub(every, b.and_(known, every))
            with b.if_unlikely(b.icmp("ne", left, number(0))):
                self.note(b, b.call(self.judge_groups(), [source, left, bad_count]), fault)
        with b.if_unlikely(stuck):
            may_end = values.inner().truth(self.grounded.terminal)
            self.note(b, flagged(b, b.not_(may_end), DEADLOCK), fault)

    def judge_groups(self) -> Function:
        """A function that returns the flags of broken invariants in the requested groups, and notes
        the groups that hold.
        """
        function, b = self.function("judge_groups", I64, POINTER, I64, POINTER)
        source, requested, bad_count = function.args
        values = Values(self.packing, b, self.load(b, source))
        flags = held = number(0)
        for at, group in enumerate(self.judging.groups):
            before = b.block
            inside, after = b.append_basic_block("group"), b.append_basic_block("next")
            b.cbranch(b.icmp("ne", b.and_(requested, number(1 << at)), number(0)), inside, after)
            b.position_at_end(inside)
            broken = self.broken(b, values.inner(), group.invariants)
            holds = flagged(b, b.icmp("eq", broken, number(0)), 1 << at)
            grown = b.or_(flags, broken), b.or_(held, holds)
            end = b.block
            b.branch(after)
            b.position_at_end(after)
            flags = self.join(b, [(flags, before), (grown[0], end)])
            held = self.join(b, [(held, before), (grown[1], end)])
        b.store(held, b.gep(bad_count, number(HELD), I64))
        b.ret(flags)
        return function

    def broken(self, b: Builder, values: Values, invariants: Iterable[Fault]) -> Value:
        """The flags of the invariants that don't hold."""
        return united(
            b, (flagged(b, b.not_(values.truth(node)), flag) for node, flag in invariants)
        )

    def load(self, b: Builder, source: Value) -> list[Value]:
        words: list[Value] = []
        for at in range(self.packing.words):
            left = self.packing.stride - 8 * at
            if left >= 8:
                place = b.gep(source, number(8 * at), I8)
                words.append(b.load(place, I64, align=1))
            else:  # the word that ends where the state ends
                place = b.gep(source, number(self.packing.stride - 8), I8)
                whole = b.load(place, I64, align=1)
                words.append(b.lshr(whole, number(8 * (8 - left))))
        return words

    def store_within(self, b: Builder, target: Value, words: list[Value]) -> None:
        """Stores a state's words, and changes no byte after them."""
        for at, word in enumerate(words):
            left = self.packing.stride - 8 * at
            value, offset = word, 8 * at
            if left < 8:
                high = b.shl(word, number(8 * (8 - left)))
                value = b.or_(high, b.lshr(words[at - 1], number(8 * left)))
                offset = self.packing.stride - 8
            b.store(value, b.gep(target, number(offset), I8), align=1)

    def steps(
        self, frame: _Frame, actions: list[GroundAction], values: Values, cursor: Value
    ) -> Value:
        """Writes the successors by the rows of actions, and notes their violations; returns the
        index after the last successor.
        """
        b = frame.b
        b.store(number(0), frame.common)
        end = self.actions(frame, actions, values, cursor)
        every = [self.faults.of(row)[0] for action in actions for row in action.rows]
        requested = b.load(frame.common, I64)
        for bits in self.faults.alike(every):
            wanted = b.and_(requested, number(sum(1 << bit for bit in bits)))
            if 2 * sum(row >> bits[0] & 1 for row in every) > len(every):
                self.tell_common(frame, values, bits, wanted)
            else:
                with b.if_unlikely(b.icmp("ne", wanted, number(0))):
                    self.tell_common(frame, values.inner(), bits, wanted)
        return end

    def tell_common(
        self, frame: _Frame, values: Values, bits: Sequence[int], wanted: Value
    ) -> None:
        """Adds the flags of the common faults in `bits` that are `wanted` and that steps from this
        state have.
        """
        b, fault = frame.b, frame.fault
        found = united(
            b, (flagged(b, values.truth(self.faults.common[bit][0]), 1 << bit) for bit in bits)
        )
        made = b.and_(found, wanted)
        with b.if_unlikely(b.icmp("ne", made, number(0))):
            flags = b.load(fault, I64)
            for bit in bits:
                some = b.icmp("ne", b.and_(made, number(1 << bit)), number(0))
                flags = b.or_(flags, flagged(b, some, self.faults.common[bit][1]))
            b.store(flags, fault)

    # Rows ----------------------------------------------------------------------------------

    def actions(
        self, frame: _Frame, actions: list[GroundAction], values: Values, cursor: Value
    ) -> Value:
        """Writes the successors by the rows of actions; returns the index after the last one."""
        b = frame.b
        called = {id(each): self.rows_function(each) for each in actions if self.is_long(each)}

        def tried(item: Item, values: Values, cursor: Value) -> Value:
            if isinstance(item, Group):
                for each in item.inside:
                    cursor = guarded(each, values, cursor)
                return cursor
            function = called.get(id(item.action))
            if function is None:
                return self.rows(frame, item.action, values, cursor)
            return b.call(function, (*frame.arguments(cursor), number(item.place)))

        def guarded(item: Item, values: Values, cursor: Value) -> Value:
            if item.condition.is_constant:  # always true
                return tried(item, values, cursor)
            before = b.block
            inside, after = b.append_basic_block("possible"), b.append_basic_block("next")
            b.cbranch(values.truth(item.condition), inside, after)
            b.position_at_end(inside)
            grown = tried(item, values.inner(), cursor)
            end = b.block
            b.branch(after)
            b.position_at_end(after)
            return self.join(b, [(cursor, before), (grown, end)])

        for item in gates(
            self.grounded.graph, actions, lambda leaf: self.packing.places[leaf].word
        ):
            cursor = guarded(item, values, cursor)
        return cursor

    def is_long(self, action: GroundAction) -> bool:
        """Whether a separate function is better for an action's rows."""
        parts = [n for row in action.rows for n in self.nodes(row)]
        return len(action.possible) > 1 or cost(parts) > INLINE

    def rows_function(self, action: GroundAction) -> Function:
        """A separate function with the rows of an action, for rare and long code."""
        name = f"rows{len(self.elsewhere) + len(self.rows_functions)}"
        function = Function(name, I64, [*FRAME, I64], shared=True)
        b = Builder(function)
        frame, cursor = _Frame.of(b)
        values = Values(self.packing, b, self.load(b, frame.source), place=function.args[-1])
        b.ret(self.rows(frame, action, values, cursor))
        self.rows_functions.append(function)
        if sum(each.size for each in self.rows_functions) > PART:
            self.close_part()
        return function

    def join(self, b: Builder, incoming: Sequence[tuple[Value, Block]]) -> Value:
        """A phi of the incoming values, or the value itself if all are the same."""
        first, _ = incoming[0]
        if all(value.text == first.text for value, _ in incoming):
            return first
        phi = b.phi(first.type)
        for value, block in incoming:
            phi.add_incoming(value, block)
        return phi.value

    def rows(self, frame: _Frame, action: GroundAction, values: Values, cursor: Value) -> Value:
        """Writes the successor by the first row whose guard holds, if there is one; returns the
        next index.

        The common part of all rows is written once, in the block where they join.
        """
        b = frame.b
        alike = updates_of_all(action.rows)
        own = list(self.apart(action.rows, alike))
        for node in shared_nodes([*(each.nodes for each in own), [*alike.values()]]):
            values.value(node)
        tried = values.inner()  # values that are computed along the conditions
        taken, after = b.append_basic_block("taken"), b.append_basic_block("next")
        ends: list[Block] = []
        words: list[list[Value]] = []
        faults: list[Value] = []
        for each in own:
            inside, otherwise = b.append_basic_block("row"), b.append_basic_block("otherwise")
            b.cbranch(tried.truth(each.condition), inside, otherwise)
            b.position_at_end(inside)
            inner = tried.inner()
            words.append(updated(inner, values.words, each.updates))
            faults.append(self.fault_flags(b, inner, each))
            ends.append(inside)
            b.branch(taken)
            b.position_at_end(otherwise)
        none = b.block
        b.branch(after)

        b.position_at_end(taken)

        def by_row(of: Iterable[Value]) -> Value:
            return self.join(b, list(zip(of, ends, strict=True)))

        row = by_row(Value(I32, str(row.row)) for row in action.rows)
        common = by_row(number(self.faults.of(row)[0]) for row in action.rows)
        wrong = by_row(faults)
        together = [by_row(of_word) for of_word in zip(*words, strict=True)]
        together = updated(values.inner(), together, alike)
        self.store(frame, values.words, together, row, cursor)
        if common.text != number(0).text:
            place = frame.common
            b.store(b.or_(b.load(place, I64), common), place)
        if wrong.text != number(0).text:
            self.note(b, wrong, frame.fault)
        grown = b.add(cursor, number(1))
        end = b.block
        b.branch(after)
        b.position_at_end(after)
        return self.join(b, [(cursor, none), (grown, end)])

    def fault_flags(self, b: Builder, values: Values, row: Own) -> Value:
        """The flags of a step's violations by the row, without common ones."""
        return united(b, (flagged(b, values.truth(node), flag) for node, flag in row.faults))

    def note(self, b: Builder, bits: Value, place: Value) -> None:
        """Adds bits to the number at an address if there are any, which is rare."""
        with b.if_unlikely(b.icmp("ne", bits, number(0))):
            b.store(b.or_(b.load(place, I64), bits), place)

    def apart(self, rows: Sequence[GroundRow], alike: Mapping[int, Node]) -> Iterator[Own]:
        """The individual part of each row. The conditions are tried in order."""
        graph = self.grounded.graph
        failed: set[Node] = set()  # conditions that hold if no earlier row is taken
        for row in rows:
            condition = graph.and_(*(part for part in conjuncts(row.guard) if part not in failed))
            failed.update(conjuncts(graph.not_(condition)))
            updates = {i: node for i, node in row.updates.items() if i not in alike}
            yield Own(condition, self.faults.of(row)[1], updates)

    def nodes(self, row: GroundRow) -> list[Node]:
        """The nodes that a row computes."""
        own = (node for node, _ in self.faults.of(row)[1])
        return [row.guard, *own, *row.updates.values()]

    def store(
        self, frame: _Frame, old: list[Value], new: list[Value], row: Value, cursor: Value
    ) -> None:
        """Writes a successor's words, changed or copied from the state, and its row."""
        b = frame.b
        target = b.gep(frame.out, b.mul(cursor, number(self.packing.stride)), I8)
        # the next successor overwrites the bytes of the last word after the state
        copied = self.packing.words > COPIED
        if copied:
            b.copy(target, frame.source, self.packing.stride)
        for at, word in enumerate(new):
            if not (copied and word is old[at]):
                b.store(word, b.gep(target, number(8 * at), I8), align=1)
        b.store(row, b.gep(frame.rows, cursor, I32))
