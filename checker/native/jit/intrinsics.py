"""Operations of compiled functions at addresses: loads, stores, prefetches, calls."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportPrivateImportUsage=false

from __future__ import annotations

from typing import Any

from llvmlite import ir  # pyright: ignore[reportMissingTypeStubs]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_POINTER = ir.PointerType()


def _load(kind: Any, bits: int) -> Any:
    def typed(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = builder.inttoptr(args[0], _POINTER)
            return builder.load(pointer, typ=ir.IntType(bits), align=1)

        return kind(types.int64), generate

    return typed


def _store(kind: Any) -> Any:
    def typed(typing_context: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = builder.inttoptr(args[0], _POINTER)
            builder.store(args[1], pointer, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, kind), generate

    return typed


load64 = intrinsic(_load(types.uint64, 64))
load32 = intrinsic(_load(types.uint32, 32))
store64 = intrinsic(_store(types.uint64))
store32 = intrinsic(_store(types.uint32))
store8 = intrinsic(_store(types.uint8))


@intrinsic
def equal_bytes(typing_context: Any, address: Any, byte: Any) -> Any:
    """A bit for each of 16 bytes at an address: 1 if it equals `byte`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        several = ir.VectorType(ir.IntType(8), 16)
        found = builder.load(builder.inttoptr(args[0], _POINTER), typ=several, align=1)
        one = builder.trunc(args[1], ir.IntType(8))
        first = builder.insert_element(several(ir.Undefined), one, ir.IntType(32)(0))
        every = ir.Constant(ir.VectorType(ir.IntType(32), 16), None)
        wanted = builder.shuffle_vector(first, several(ir.Undefined), every)
        bits = builder.bitcast(builder.icmp_unsigned("==", found, wanted), ir.IntType(16))
        return builder.zext(bits, ir.IntType(64))

    return types.uint64(types.int64, types.uint64), generate


@intrinsic
def load32_acquire(typing_context: Any, address: Any) -> Any:
    """An acquire load: a word that other threads may write. Their writes before it are visible."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], _POINTER)
        return builder.load_atomic(pointer, "acquire", 4, typ=ir.IntType(32))

    return types.uint32(types.int64), generate


@intrinsic
def compare_exchange32(typing_context: Any, address: Any, expected: Any, new: Any) -> Any:
    """Stores `new` atomically if the word equals `expected`; returns the old word."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], _POINTER)
        pair = builder.cmpxchg(pointer, args[1], args[2], "acq_rel", "acquire")
        return builder.extract_value(pair, 0)

    return types.uint32(types.int64, types.uint32, types.uint32), generate


@intrinsic
def fetch_add(typing_context: Any, address: Any, number: Any) -> Any:
    """Adds to a word of 64 bits atomically; returns the old value."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], _POINTER)
        return builder.atomic_rmw("add", pointer, args[1], "monotonic")

    return types.int64(types.int64, types.int64), generate


@intrinsic
def prefetch(typing_context: Any, address: Any) -> Any:
    """Prefetches the cache line at the address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        i32 = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [_POINTER, i32, i32, i32])
        function = builder.module.declare_intrinsic("llvm.prefetch", (_POINTER,), kind)
        pointer = builder.inttoptr(args[0], _POINTER)
        builder.call(function, [pointer, i32(0), i32(3), i32(1)])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic
def trailing_zeros(typing_context: Any, word: Any) -> Any:
    """The number of zeros below the lowest set bit of a word; 64 for the word 0."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@intrinsic
def call_expand(
    typing_context: Any,
    function: Any,
    states: Any,
    count: Any,
    out: Any,
    rows: Any,
    bad: Any,
    bad_count: Any,
) -> Any:
    """Calls a compiled system's `expand` (see `lower`) at an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        i64 = ir.IntType(64)
        kind = ir.FunctionType(i64, [i64] * 6)
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), list(args[1:]))

    return types.int64(*[types.int64] * 7), generate


@intrinsic
def scratch(typing_context: Any, words: Any) -> Any:
    """Memory for `words` words of 64 bits, a constant, on the function's stack."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return cgutils.alloca_once(builder, ir.IntType(64), size=words.literal_value)

    if not isinstance(words, types.IntegerLiteral):
        return None
    return types.CPointer(types.uint64)(words), generate


@intrinsic
def pointer(typing_context: Any, address: Any) -> Any:
    """The address as a pointer."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], _POINTER)

    return types.voidptr(types.int64), generate
