"""Data that shows when it was damaged: a checksum over it, and the shape that it must have.

A checksum finds what a disk, a write that was broken off, or an editor has changed. It is no
signature: whoever changes data can also change its checksum.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, BinaryIO, cast

from .strict_json import NotJsonError, read_json

LAST = "checksum"  # the name of the checksum among sealed data


class DamagedError(Exception):
    """Data or a file that was changed since it was written. The message says how."""


@cache
def program() -> str:
    """This program and its version, for what another version mustn't go on with."""
    from importlib.metadata import version

    return f"epochfence {version('epochfence')}"


def checksum(content: Any) -> str:
    """The checksum of bytes: SHA-256, which takes less time than it takes to write them."""
    return hashlib.sha256(content).hexdigest()


def _over(data: Mapping[str, Any]) -> str:
    return checksum(json.dumps(data, sort_keys=True).encode())


def seal(data: Mapping[str, Any]) -> dict[str, Any]:
    """Plain data with its checksum."""
    return {**data, LAST: _over(data)}


def validator(schema: dict[str, Any]) -> Callable[[Any], Any]:
    """A function that raises fastjsonschema.JsonSchemaValueException for data of another shape. It
    is made when it is called first."""

    @cache
    def made() -> Callable[[Any], Any]:
        import fastjsonschema

        return fastjsonschema.compile(schema)

    return lambda data: made()(data)


def unseal(text: bytes, valid: Callable[[Any], Any]) -> dict[str, Any]:
    """The data of a JSON text that `seal` made, without the checksum.

    Raises DamagedError if it is not such a text, was changed, or isn't `valid`.
    """
    from fastjsonschema import JsonSchemaValueException

    try:
        data: Any = read_json(text)
    except NotJsonError as error:
        raise DamagedError(str(error)) from None
    document = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    expected = document.pop(LAST, None)
    if expected is None:
        raise DamagedError("it has no checksum: another version wrote it, or something else did")
    if _over(document) != expected:
        raise DamagedError("its checksum doesn't fit: it was changed after it was written")
    try:
        valid(document)
    except JsonSchemaValueException as error:
        raise DamagedError(str(error.message).removeprefix("data").lstrip(". ")) from None
    return document


class Summed:
    """A file to write to, with size and checksum of what was written."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.size = 0
        self._hash = hashlib.sha256()

    def write(self, part: bytes) -> None:
        """Writes some more."""
        self.file.write(part)
        self._hash.update(part)
        self.size += len(part)

    @property
    def checksum(self) -> str:
        """The checksum of all of it, in the form of `checksum`."""
        return self._hash.hexdigest()
