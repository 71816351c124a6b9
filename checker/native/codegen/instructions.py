"""LLVM instructions as text: modules, functions, blocks and values.

A large system has tens of thousands of instructions. llvmlite's builder makes several objects for
each, and takes half as long as LLVM takes to compile them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

I1, I8, I32, I64, POINTER, VOID = "i1", "i8", "i32", "i64", "ptr", "void"
COPY = "llvm.memcpy.inline.p0.p0.i64"
INTRINSICS = f"""\
declare void @{COPY}(ptr, ptr, i64, i1)
declare <8 x i64> @llvm.masked.gather.v8i64.v8p0(<8 x ptr>, i32, <8 x i1>, <8 x i64>)
declare <8 x i64> @llvm.experimental.vector.compress.v8i64(<8 x i64>, <8 x i1>, <8 x i64>)
declare void @llvm.masked.compressstore.v8i64(<8 x i64>, ptr, <8 x i1>)
declare i8 @llvm.ctpop.i8(i8)
"""
UNLIKELY = '!0 = !{!"branch_weights", i32 1, i32 99}'


class Value:
    """A constant, an argument or the result of an instruction."""

    __slots__ = ("text", "type")

    def __init__(self, kind: str, text: str) -> None:
        self.type = kind
        self.text = text

    def __str__(self) -> str:
        return f"{self.type} {self.text}"


def number(value: int) -> Value:
    """A whole number of 64 bits."""
    return Value(I64, str(value & (2**64 - 1)))


def truth(value: bool) -> Value:
    """A bit."""
    return Value(I1, "true" if value else "false")


class Block:
    """A basic block: a sequence of instructions. The last one leads to other blocks."""

    __slots__ = ("label", "lines")

    def __init__(self, label: str) -> None:
        self.label = label
        self.lines: list[str | Phi] = []


@dataclass
class Phi:
    """A phi: its value depends on the block before."""

    value: Value
    incoming: list[tuple[Value, Block]] = field(default_factory=list[tuple[Value, Block]])

    def add_incoming(self, value: Value, block: Block) -> None:
        """Adds the value for entry from that block."""
        self.incoming.append((value, block))

    def __str__(self) -> str:
        pairs = ", ".join(f"[ {value.text}, %{block.label} ]" for value, block in self.incoming)
        return f"{self.value.text} = phi {self.value.type} {pairs}"


@dataclass
class Loop:
    """A loop that is being written.

    `at` is the number of the iteration. `carried` are the values from the previous iteration; an
    iteration replaces them by its own. After the loop they are those of the last iteration.
    """

    at: Value
    carried: list[Value]


class Function:
    """A function; `shared` if other modules call it. All builders write at the end of its
    `open_block`.
    """

    def __init__(
        self,
        name: str,
        result: str,
        arguments: Sequence[str],
        *,
        shared: bool = False,
    ) -> None:
        self.name = name
        self.result = result
        self.args = [Value(kind, f"%a{at}") for at, kind in enumerate(arguments)]
        self.shared = shared
        self.blocks: list[Block] = []
        self.open_block = self.new_block("entry")
        self.values = 0

    @property
    def size(self) -> int:
        """The number of instructions."""
        return sum(len(block.lines) for block in self.blocks)

    def new_block(self, name: str) -> Block:
        """Adds a block after all others."""
        block = Block(f"{name}.{len(self.blocks)}")
        self.blocks.append(block)
        return block

    def new_value(self, kind: str) -> Value:
        """A new value, for the next instruction to define."""
        self.values += 1
        return Value(kind, f"%v{self.values}")

    def declaration(self) -> str:
        """The declaration of the function, without instructions."""
        return f"declare {self.result} @{self.name}({', '.join(arg.type for arg in self.args)})\n"

    def definition(self) -> str:
        """The definition of the function."""
        linkage = "" if self.shared else "internal "
        arguments = ", ".join(map(str, self.args))
        head = f"define {linkage}{self.result} @{self.name}({arguments}) {{"
        lines = [head]
        for block in self.blocks:
            lines.append(f"{block.label}:")
            lines += map(str, block.lines)
        return "\n".join(lines) + "\n}\n"


def module(functions: Iterable[Function], declared: Iterable[Function] = ()) -> str:
    """The text of a module: its functions, and declarations of the functions of other modules."""
    return "\n".join(
        (
            INTRINSICS,
            *(function.declaration() for function in declared),
            *(function.definition() for function in functions),
            UNLIKELY,
            "",
        )
    )


class Builder:
    """Writes a function's instructions. Methods have LLVM's names."""

    def __init__(self, function: Function) -> None:
        self.function = function

    @property
    def block(self) -> Block:
        """The block of the next instruction."""
        return self.function.open_block

    def position_at_end(self, block: Block) -> None:
        """Sets the block of the next instructions."""
        self.function.open_block = block

    def append_basic_block(self, name: str) -> Block:
        """Adds a block to the function."""
        return self.function.new_block(name)

    # Calculations ---------------------------------------------------------------------------

    def _give(self, kind: str, text: str) -> Value:
        value = self.function.new_value(kind)
        self.block.lines.append(f"{value.text} = {text}")
        return value

    def _both(self, operator: str, a: Value, b: Value) -> Value:
        return self._give(a.type, f"{operator} {a.type} {a.text}, {b.text}")

    def add(self, a: Value, b: Value) -> Value:
        """a + b."""
        return self._both("add", a, b)

    def sub(self, a: Value, b: Value) -> Value:
        """a - b."""
        return self._both("sub", a, b)

    def mul(self, a: Value, b: Value) -> Value:
        """a * b."""
        return self._both("mul", a, b)

    def sdiv(self, a: Value, b: Value) -> Value:
        """a divided by b, rounded towards 0."""
        return self._both("sdiv", a, b)

    def srem(self, a: Value, b: Value) -> Value:
        """The remainder of a divided by b, with the sign of a."""
        return self._both("srem", a, b)

    def and_(self, a: Value, b: Value) -> Value:
        """The bitwise and."""
        return self._both("and", a, b)

    def or_(self, a: Value, b: Value) -> Value:
        """The bitwise or."""
        return self._both("or", a, b)

    def shl(self, a: Value, b: Value) -> Value:
        """a shifted to the left."""
        return self._both("shl", a, b)

    def lshr(self, a: Value, b: Value) -> Value:
        """a shifted to the right, filled with zeros."""
        return self._both("lshr", a, b)

    def not_(self, a: Value) -> Value:
        """The negation of a bit."""
        return self._give(a.type, f"xor {a.type} {a.text}, true")

    def icmp(self, condition: str, a: Value, b: Value) -> Value:
        """Whether the comparison (eq, ne, slt, ult, ...) of a with b holds."""
        return self._give(I1, f"icmp {condition} {a.type} {a.text}, {b.text}")

    def select(self, condition: Value, then: Value, otherwise: Value) -> Value:
        """`then` if the condition holds, else `otherwise`."""
        return self._give(then.type, f"select {condition}, {then}, {otherwise}")

    def zext(self, a: Value, kind: str) -> Value:
        """The same number in more bits."""
        return self._give(kind, f"zext {a} to {kind}")

    def trunc(self, a: Value, kind: str) -> Value:
        """The number's lower bits."""
        return self._give(kind, f"trunc {a} to {kind}")

    def phi(self, kind: str) -> Phi:
        """A new phi, without incoming values."""
        phi = Phi(self.function.new_value(kind))
        self.block.lines.append(phi)
        return phi

    # Memory ---------------------------------------------------------------------------------

    def alloca(self, kind: str, size: int = 1) -> Value:
        """The address of new memory on the stack."""
        return self._give(POINTER, f"alloca {kind}, i64 {size}")

    def gep(self, base: Value, index: Value, kind: str) -> Value:
        """The address of the element with this index from a base."""
        return self._give(POINTER, f"getelementptr {kind}, {base}, {index}")

    def load(self, place: Value, kind: str, align: int = 0) -> Value:
        """The value at an address; `align` in bytes, 0 for the type's own."""
        return self._give(kind, f"load {kind}, {place}" + _aligned(align))

    def store(self, value: Value, place: Value, align: int = 0) -> None:
        """Writes to an address."""
        self.block.lines.append(f"store {value}, {place}" + _aligned(align))

    def copy(self, target: Value, source: Value, size: int) -> None:
        """Copies `size` bytes."""
        self.block.lines.append(f"call void @{COPY}({target}, {source}, i64 {size}, i1 false)")

    def inttoptr(self, a: Value) -> Value:
        """A number as an address."""
        return self._give(POINTER, f"inttoptr {a} to ptr")

    def ptrtoint(self, a: Value) -> Value:
        """An address as a number."""
        return self._give(I64, f"ptrtoint {a} to i64")

    # Flow -----------------------------------------------------------------------------------

    def call(self, function: Function, arguments: Iterable[Value]) -> Value:
        """Calls a function. The result has type VOID if there is none."""
        text = f"call {function.result} @{function.name}({', '.join(map(str, arguments))})"
        if function.result != VOID:
            return self._give(function.result, text)
        self.block.lines.append(text)
        return Value(VOID, "")

    def branch(self, target: Block) -> None:
        """Continues in the block `target`."""
        self.block.lines.append(f"br label %{target.label}")

    def cbranch(self, condition: Value, then: Block, otherwise: Block) -> None:
        """Continues in one of two blocks."""
        text = f"br {condition}, label %{then.label}, label %{otherwise.label}"
        self.block.lines.append(text)

    @contextmanager
    def if_unlikely(self, condition: Value) -> Generator[None]:
        """Executes the code inside if the condition holds. LLVM assumes that it rarely does."""
        inside, after = self.append_basic_block("if"), self.append_basic_block("endif")
        self.cbranch(condition, inside, after)
        self.block.lines[-1] = f"{self.block.lines[-1]}, !prof !0"
        self.position_at_end(inside)
        yield
        self.branch(after)
        self.position_at_end(after)

    @contextmanager
    def loop(
        self, first: Value, end: Value, *, step: int = 1, carried: Sequence[Value] = ()
    ) -> Generator[Loop]:
        """Executes the code inside for each number from `first` up to `end`, by `step`. `carried`
        are the values for the first iteration.
        """
        before = self.block
        head, inside, after = (self.append_basic_block(name) for name in ("loop", "turn", "next"))
        self.branch(head)
        self.position_at_end(head)
        starts = [first, *carried]
        phis = [self.phi(value.type) for value in starts]
        at, *values = (phi.value for phi in phis)
        loop = Loop(at, values)
        self.cbranch(self.icmp("ult", at, end), inside, after)
        self.position_at_end(inside)
        yield loop
        ends = [self.add(at, number(step)), *loop.carried]
        for phi, start, value in zip(phis, starts, ends, strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(value, self.block)
        self.branch(head)
        self.position_at_end(after)
        loop.carried = values

    def ret(self, value: Value | None = None) -> None:
        """Returns from the function."""
        self.block.lines.append("ret void" if value is None else f"ret {value}")


def _aligned(align: int) -> str:
    return f", align {align}" if align else ""
