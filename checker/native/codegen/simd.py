"""Expands eight short states at once with the processor's vectors.

    expand_lanes(states, count, out, rows, bad, bad_count) -> successors written

has the results of `expand` (see `lower`) and takes less than half of the time. Each of eight states
is a lane of the vectors, and every row is tried for all of them without a branch: the processor
often mispredicts the branches of `expand`. Successors are ordered by row, not by state, and `rows`
needs room for LANES more.
"""

from __future__ import annotations

from ...ground import Grounded
from ..cache.object_code import has_wide_vectors
from ..store.pack import Packing
from .instructions import I1, I8, I32, I64, Builder, Function, Value, number, truth
from .node_values import Values, flagged, united
from .property_groups import WATCHED, Judging
from .sharing import DEADLOCK, FLAG_BITS, INLINE, Faults, cost
from .updates import updated

LANES = 8
MOST_WORDS = 2  # of a state: each word is a vector
ROWS = range(32, 129)  # of all actions: with fewer the gain is small, with more compilation is slow
_NUMBERS, _TRUTHS = f"<{LANES} x i64>", f"<{LANES} x i1>"
_COUNTING = Value(I64, f"<{', '.join(f'i64 {lane}' for lane in range(LANES))}>")


class Lanes(Builder):
    """Writes instructions on vectors: a number or a truth for each lane. A constant is the same in
    all lanes.
    """

    def _wide(self, value: Value) -> str:
        if value.text[0] in "%<":
            return value.text
        return f"splat ({value})"

    def _typed(self, value: Value) -> str:
        return f"<{LANES} x {value.type}> {self._wide(value)}"

    def _both(self, operator: str, a: Value, b: Value) -> Value:
        return self._give(a.type, f"{operator} {self._typed(a)}, {self._wide(b)}")

    def not_(self, a: Value) -> Value:
        """The other bit."""
        return self._both("xor", a, truth(True))

    def icmp(self, condition: str, a: Value, b: Value) -> Value:
        """Whether the comparison of a with b holds."""
        return self._give(I1, f"icmp {condition} {self._typed(a)}, {self._wide(b)}")

    def select(self, condition: Value, then: Value, otherwise: Value) -> Value:
        """One of two values."""
        parts = ", ".join(map(self._typed, (condition, then, otherwise)))
        return self._give(then.type, f"select {parts}")

    def zext(self, a: Value, kind: str) -> Value:
        """The same number in more bits."""
        return self._give(kind, f"zext {self._typed(a)} to <{LANES} x {kind}>")

    def spread(self, scalar: Value) -> Value:
        """Copies a number to all lanes."""
        one = self._give(I64, f"insertelement {_NUMBERS} poison, {scalar}, i64 0")
        zeros = f"<{LANES} x i32> zeroinitializer"
        return self._give(I64, f"shufflevector {self._typed(one)}, {_NUMBERS} poison, {zeros}")

    def gather(self, base: Value, offsets: Value, alive: Value) -> Value:
        """The words at offsets from an address, in the lanes that are alive."""
        places = self._give("ptr", f"getelementptr i8, {base}, {self._typed(offsets)}")
        return self._give(
            I64,
            f"call {_NUMBERS} @llvm.masked.gather.v8i64.v8p0(<{LANES} x ptr> {places.text}, "
            f"i32 1, {self._typed(alive)}, {_NUMBERS} zeroinitializer)",
        )

    def keep(self, value: Value, kept: Value, place: Value) -> None:
        """Writes the numbers of the kept lanes contiguously. It may overwrite memory after them."""
        packed = self._give(
            I64,
            f"call {_NUMBERS} @llvm.experimental.vector.compress.v8i64({self._typed(value)}, "
            f"{self._typed(kept)}, {_NUMBERS} poison)",
        )
        self.block.lines.append(f"store {self._typed(packed)}, {place}, align 8")

    def keep_exactly(self, value: Value, kept: Value, place: Value) -> None:
        """Writes the numbers of the kept lanes contiguously, and nothing after them."""
        self.block.lines.append(
            f"call void @llvm.masked.compressstore.v8i64({self._typed(value)}, {place}, "
            f"{self._typed(kept)})"
        )

    def count(self, truths: Value) -> Value:
        """The number of true lanes."""
        bits = self._give(I8, f"bitcast {self._typed(truths)} to i8")
        ones = self._give(I8, f"call i8 @llvm.ctpop.i8({bits})")
        return self._give(I64, f"zext {ones} to i64")

    def store_same(self, value: Value, place: Value) -> None:
        """Writes a constant once for each lane."""
        self.block.lines.append(f"store {self._typed(value)}, {place}, align 4")


def pays(grounded: Grounded, packing: Packing) -> bool:
    """Whether `expand_lanes` is faster for these states and rows on this machine."""
    rows = [row for action in grounded.actions for row in action.rows]
    return (
        packing.words <= MOST_WORDS
        and len(rows) in ROWS
        and all(len(action.possible) == 1 for action in grounded.actions)
        and all(cost([row.guard, *row.updates.values()]) <= INLINE for row in rows)
        and has_wide_vectors()
    )


def expand_lanes(
    grounded: Grounded, packing: Packing, faults: Faults, judging: Judging
) -> Function:
    """The function `expand_lanes`, for a system without symmetry reduction for which it `pays`."""
    return _Writer(grounded, packing, faults, judging).function


class _Writer:
    def __init__(
        self, grounded: Grounded, packing: Packing, faults: Faults, judging: Judging
    ) -> None:
        self.grounded = grounded
        self.packing = packing
        self.faults = faults
        self.judging = judging
        self.function = Function("expand_lanes", I64, [I64] * 6, shared=True)
        self.b, self.w = Builder(self.function), Lanes(self.function)
        self.write()

    def write(self) -> None:
        b, stride = self.b, self.packing.stride
        states, count, out, rows, bad, bad_count = (
            b.inttoptr(arg) if at != 1 else arg for at, arg in enumerate(self.function.args)
        )
        most = LANES * (1 + sum(len(action.rows) for action in self.grounded.actions))
        room = [b.alloca(I64, size=most) for _ in range(self.packing.words)]
        watched = b.load(b.gep(bad_count, number(WATCHED), I64), I64)
        with b.loop(number(0), count, step=LANES, carried=[number(0)]) as loop:
            (written,) = loop.carried
            alive = self.w.icmp("ult", _COUNTING, self.w.spread(b.sub(count, loop.at)))
            source = b.gep(states, b.mul(loop.at, number(stride)), I8)
            words = self.load(source, alive)
            new, flags = self.steps(words, alive, room, b.gep(rows, written, I32))
            self.note(self.w.and_(flags, self.w.spread(watched)), loop.at, bad, bad_count)
            self.move(room, new, b.gep(out, b.mul(written, number(stride)), I8))
            loop.carried = [b.add(written, new)]
        b.ret(*loop.carried)

    def load(self, source: Value, alive: Value) -> list[Value]:
        """The states' words, with each state in a lane."""
        stride = self.packing.stride
        starts = self.w.mul(_COUNTING, number(stride))
        words: list[Value] = []
        for at in range(self.packing.words):
            left = stride - 8 * at
            begin = self.b.gep(source, number(min(8 * at, stride - 8)), I8)
            word = self.w.gather(begin, starts, alive)
            words.append(word if left >= 8 else self.w.lshr(word, number(8 * (8 - left))))
        return words

    def steps(
        self, words: list[Value], alive: Value, room: list[Value], rows: Value
    ) -> tuple[Value, Value]:
        """Writes successors' words to the buffer `room`; returns their number, and the violations
        by lane.
        """
        b, w, graph = self.b, self.w, self.grounded.graph
        values = Values(self.packing, w, words)
        written, moved, flags = number(0), truth(False), number(0)
        makers = [truth(False) for _ in self.faults.common]
        for action in self.grounded.actions:
            for row in action.rows:
                condition = graph.and_(action.possible[0], row.guard)
                if condition is graph.false:
                    continue
                taken = w.and_(alive, values.truth(condition))
                for word, place in zip(updated(values, words, row.updates), room, strict=True):
                    w.keep(word, taken, b.gep(place, written, I64))
                w.store_same(Value(I32, str(row.row)), b.gep(rows, written, I32))
                written = b.add(written, w.count(taken))
                moved = w.or_(moved, taken)
                common, own = self.faults.of(row)
                for node, flag in own:
                    flags = w.or_(flags, flagged(w, w.and_(taken, values.truth(node)), flag))
                for bit in range(common.bit_length()):
                    if common >> bit & 1:
                        makers[bit] = w.or_(makers[bit], taken)
        wrong = [
            (w.and_(made, values.truth(node)), flag)
            for made, (node, flag) in zip(makers, self.faults.common, strict=True)
        ]
        wrong += [(w.not_(values.truth(node)), flag) for node, flag in self.judging.every]
        stuck = w.not_(w.or_(moved, values.truth(self.grounded.terminal)))
        wrong.append((stuck, DEADLOCK))
        flags = w.or_(flags, united(w, (flagged(w, *each) for each in wrong)))
        return written, w.select(alive, flags, number(0))

    def note(self, flags: Value, at: Value, bad: Value, bad_count: Value) -> None:
        """Notes the states with violations, which are rare."""
        b, w = self.b, self.w
        wrong = w.icmp("ne", flags, number(0))
        several = w.count(wrong)
        with b.if_unlikely(b.icmp("ne", several, number(0))):
            noted = b.load(bad_count, I64)
            indices = w.shl(w.add(w.spread(at), _COUNTING), number(FLAG_BITS))
            w.keep_exactly(w.or_(indices, flags), wrong, b.gep(bad, noted, I64))
            b.store(b.add(noted, several), bad_count)

    def move(self, room: list[Value], count: Value, target: Value) -> None:
        """Moves `count` successors from the buffer `room` to `target`, and packs them."""
        b = self.b
        with b.loop(number(0), count) as loop:
            place = b.gep(target, b.mul(loop.at, number(self.packing.stride)), I8)
            for word, begin in enumerate(room):
                value = b.load(b.gep(begin, loop.at, I64), I64)
                b.store(value, b.gep(place, number(8 * word), I8), align=1)
