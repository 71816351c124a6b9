"""Encodes and decodes kio's entities field by field. Errors have a field and an offset, and unknown
tags are kept.

kio reads whole entities. Its errors have no place, it refuses unknown tags, which Kafka keeps, and
it allocates memory for any claimed length. This module checks lengths against the remaining bytes,
and uses kio for single fields. Kafka writes a number before a nullable entity in a tag; kio
doesn't.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterable
from dataclasses import Field, dataclass, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, cast, get_args, get_origin

from kio.serial._parse import get_reader  # pyright: ignore[reportUnknownVariableType]
from kio.serial._serialize import get_writer  # pyright: ignore[reportUnknownVariableType]
from kio.serial.errors import SerialError
from kio.serial.readers import (
    read_compact_array_length,
    read_int8,
    read_int16,
    read_int32,
    read_int64,
    read_legacy_array_length,
    read_uint16,
    read_uint32,
    read_unsigned_varint,
)
from kio.serial.writers import (
    compact_array_writer,
    legacy_array_writer,
    write_tagged_field,
    write_unsigned_varint,
)
from kio.static.primitive import uvarint
from kio.static.protocol import Entity

from .errors import RecordError

T = TypeVar("T")
E = TypeVar("E", bound=Entity)
# The type of readers: from bytes and a place in them to the value and its length.
Reader = Callable[[bytes, int], tuple[T, int]]
Writer = Callable[[Any, Any], None]

# The integer types on the wire: their readers and ranges.
INTEGERS: dict[str, tuple[Reader[int], int, int]] = {
    "int8": (read_int8, -(2**7), 2**7 - 1),
    "int16": (read_int16, -(2**15), 2**15 - 1),
    "int32": (read_int32, -(2**31), 2**31 - 1),
    "int64": (read_int64, -(2**63), 2**63 - 1),
    "uint16": (read_uint16, 0, 2**16 - 1),
    "uint32": (read_uint32, 0, 2**32 - 1),
}
LIMIT = 256 << 20
"""The default limit in bytes of a batch, and of an entity's arrays in memory. Brokers accept
batches of some MiB."""
ELEMENT_SIZE = 64  # bytes of a number or a string, or a bit more
ENTITY_SIZE = 512  # bytes of an entity in an array with its places, or of an unknown tag
LONGEST_STRING = 2**15 - 1  # in bytes of UTF-8


@dataclass(frozen=True)
class UnknownTag:
    """A tagged field that the schema doesn't have: its part of the entity, its tag and its
    bytes."""

    path: str
    tag: int
    data: bytes


@dataclass(frozen=True)
class Decoded(Generic[E]):
    """An entity, the offset after it, the offsets of its fields, and the unknown tags."""

    entity: E
    end: int
    at: dict[str, int]
    unknown_tags: tuple[UnknownTag, ...]


def read(reader: Reader[T], data: bytes | memoryview, at: int, field: str) -> tuple[T, int]:
    """A value and the offset after it. Raises RecordError if there is none."""
    try:
        value, size = reader(cast("bytes", data), at)  # kio accepts any buffer
    except (SerialError, ValueError) as error:
        raise RecordError(field, str(error), at) from None
    return value, at + size


def decode(kind: type[E], data: bytes, at: int = 0, limit: int = LIMIT) -> Decoded[E]:
    """The entity at offset `at`. Bytes after it are ignored.

    Raises RecordError with the offset and the name of the first field that can't be read, or whose
    elements need more than `limit` bytes.
    """
    walk = _Walk(data, limit)
    entity, end = walk.entity(kind, at, "")
    return Decoded(entity, end, walk.places, tuple(walk.unknown))


def encode(entity: Entity, kind: type[Entity] | None = None) -> bytes:
    """The entity's bytes, by the schema `kind` (default: its class).

    Raises RecordError with the name of a field that the schema can't hold.
    """
    kind = kind or type(entity)
    _check(kind, entity, "")
    buffer = io.BytesIO()
    try:
        _entity_writer(kind)(buffer, entity)
    except (SerialError, ValueError, TypeError, struct.error) as error:
        raise RecordError(kind.__name__, str(error)) from None
    return buffer.getvalue()


@dataclass(frozen=True)
class Shape:
    """A field's declaration: its type on the wire (None for an entity), the class of an entity,
    whether it is an array, and whether it may be null."""

    wire: str | None
    entity: type[Entity] | None
    array: bool
    nullable: bool
    tag: int | None
    default: Any


@cache
def shapes(kind: type[Entity]) -> tuple[tuple[str, Shape], ...]:
    """The fields of a schema in wire order, including tagged ones."""
    return tuple((field.name, _shape(field)) for field in fields(kind))


def _shape(field: Field[Any]) -> Shape:
    inner: Any = field.type
    nullable = get_origin(inner) is UnionType
    if nullable:
        (inner,) = (part for part in get_args(inner) if part is not NoneType)
    array = get_origin(inner) is tuple
    if array:
        inner = get_args(inner)[0]
    wire = field.metadata.get("kafka_type")
    entity = inner if wire is None else None
    return Shape(wire, entity, array, nullable, field.metadata.get("tag"), field.default)


class _Walk:
    """Reads the bytes field by field. A path is the place in the entity."""

    def __init__(self, data: bytes, limit: int) -> None:
        self.data, self.limit, self.room = data, limit, limit
        self.places: dict[str, int] = {}
        self.unknown: list[UnknownTag] = []

    def entity(self, kind: type[E], at: int, path: str) -> tuple[E, int]:
        values: dict[str, Any] = {}
        for name, shape in shapes(kind):
            if shape.tag is None:
                values[name], at = self.field(kind, shape, at, path + name)
        if kind.__flexible__:
            at = self.tagged(kind, at, path, values)
        return kind(**values), at

    def tagged(self, kind: type[Entity], at: int, path: str, values: dict[str, Any]) -> int:
        known = {shape.tag: (name, shape) for name, shape in shapes(kind) if shape.tag is not None}
        count, at = read(read_unsigned_varint, self.data, at, f"{path}tagged fields")
        last = -1
        for _ in range(count):
            start = at
            tag, at = read(read_unsigned_varint, self.data, at, f"{path}tag")
            if tag <= last:
                raise RecordError(f"{path}tag", f"{tag} after {last}: tags must rise", start)
            last = tag
            size, at = read(read_unsigned_varint, self.data, at, f"{path}size of tag {tag}")
            left = len(self.data) - at
            if size > left:
                reason = f"{size} bytes, where {left} bytes are left"
                raise RecordError(f"{path}tag {tag}", reason, at)
            if tag in known:
                name, shape = known[tag]
                values[name], end = self.field(kind, shape, at, path + name)
                if end != at + size:
                    reason = f"{end - at} bytes long, its tag says {size}"
                    raise RecordError(path + name, reason, at)
            else:
                self.take(1, ENTITY_SIZE, f"{path}tag {tag}", at)
                self.unknown.append(UnknownTag(path, tag, self.data[at : at + size]))
            at += size
        return at

    def field(self, kind: type[Entity], shape: Shape, at: int, path: str) -> tuple[Any, int]:
        self.places[path] = start = at
        if not shape.array:
            return self.one(kind, shape, at, path)
        compact = kind.__flexible__
        reader = read_compact_array_length if compact else read_legacy_array_length
        length, at = read(reader, self.data, at, path)
        if length is None or length == -1:
            if not shape.nullable:
                raise RecordError(path, "it must be an array, not null", start)
            return None, at
        left = len(self.data) - at
        if not 0 <= length <= left:
            reason = f"an array of {length} elements, where {left} bytes are left"
            raise RecordError(path, reason, start)
        self.take(length, ENTITY_SIZE if shape.entity else ELEMENT_SIZE, path, start)
        items: list[Any] = []
        for index in range(length):
            item, at = self.one(kind, shape, at, f"{path}[{index}]")
            items.append(item)
        return tuple(items), at

    def take(self, count: int, size: int, path: str, at: int) -> None:
        """Reserves memory for `count` elements of this size. Raises RecordError if the limit is
        exceeded."""
        self.room -= count * size
        if self.room < 0:
            mib = self.limit / 2**20
            reason = f"{count} elements take more than is left of the limit of {mib:,g} MiB"
            raise RecordError(path, reason, at)

    def one(self, kind: type[Entity], shape: Shape, at: int, path: str) -> tuple[Any, int]:
        if shape.entity is not None:
            if shape.nullable and not shape.array:
                is_tag = shape.tag is not None
                there, at = read(read_unsigned_varint if is_tag else read_int8, self.data, at, path)
                if there < is_tag:
                    return None, at
            return self.entity(shape.entity, at, f"{path}.")
        assert shape.wire is not None
        nullable = shape.nullable and not shape.array
        return read(_reader(shape.wire, kind.__flexible__, nullable), self.data, at, path)


@cache
def _reader(wire: str, is_flexible: bool, is_nullable: bool) -> Reader[Any]:
    """A function that reads a value of this type."""
    return cast("Reader[Any]", get_reader(wire, is_flexible, is_nullable))


@cache
def _entity_writer(kind: type[Entity]) -> Writer:
    """A function that writes an entity: its fields, then its tags in numeric order, without tags
    that have their default."""
    every = [(name, shape, _field_writer(kind, shape)) for name, shape in shapes(kind)]
    untagged = [(name, writer) for name, shape, writer in every if shape.tag is None]
    tags = {shape.tag: (name, shape, writer) for name, shape, writer in every}
    tagged = [(tag, *tags[tag]) for tag in sorted(tag for tag in tags if tag is not None)]

    def write(buffer: io.BytesIO, entity: Entity) -> None:
        for name, writer in untagged:
            writer(buffer, getattr(entity, name))
        if not kind.__flexible__:
            return
        there = [
            (tag, getattr(entity, name), writer)
            for tag, name, shape, writer in tagged
            if getattr(entity, name) != shape.default
        ]
        write_unsigned_varint(buffer, uvarint(len(there)))
        for tag, value, writer in there:
            write_tagged_field(buffer, uvarint(tag), writer, value)

    return write


def _field_writer(kind: type[Entity], shape: Shape) -> Writer:
    nullable = shape.nullable and not shape.array
    if shape.entity is None:
        assert shape.wire is not None
        one = cast("Writer", get_writer(shape.wire, kind.__flexible__, nullable))
    else:
        one = _entity_writer(shape.entity)
        if nullable:
            one = _nullable(one, shape.tag is not None)
    if not shape.array:
        return one
    return (compact_array_writer if kind.__flexible__ else legacy_array_writer)(one)


def _nullable(writer: Writer, is_tag: bool) -> Writer:
    """The number before a nullable entity: 1, or -1 for null (KIP-893); in a tag 0 for null."""
    none = b"\0" if is_tag else b"\xff"

    def write(buffer: io.BytesIO, entity: Entity | None) -> None:
        buffer.write(none if entity is None else b"\1")
        if entity is not None:
            writer(buffer, entity)

    return write


def _check(kind: type[Entity], entity: Entity, path: str) -> None:
    """Raises RecordError for a number out of range. kio doesn't check it."""
    for name, shape in shapes(kind):
        value: Any = getattr(entity, name)
        if value is None and shape.nullable:
            continue
        for item in _items(shape, value):
            where = f"{path}{name}"
            if shape.entity is not None:
                _check(shape.entity, item, f"{where}.")
            elif shape.wire in INTEGERS:
                _, low, high = INTEGERS[shape.wire]
                if not isinstance(item, int) or not low <= item <= high:
                    raise RecordError(where, f"{item!r} is not {shape.wire}: {low}..{high}")
            elif (
                shape.wire == "string"
                and len(item.encode("utf-8", "surrogatepass")) > LONGEST_STRING
            ):
                raise RecordError(where, f"more than {LONGEST_STRING:,} bytes of UTF-8")


def _items(shape: Shape, value: Any) -> Iterable[Any]:
    return value if shape.array else (value,)
