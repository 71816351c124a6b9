"""Paths that Spark itself reads and writes, in all file systems of Hadoop."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import re
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

from ..options import NOT_BY_CONNECT, SparkError
from ..session import reason

LOCAL = "^file:/+"
"""The beginning of the URI of a local file, whose path has a slash."""


def local(uri: str) -> str:
    """The path of a file on this machine, or the URI of any other file."""
    return re.sub(LOCAL, "/", uri)


class Paths:
    """The file systems of a session. Raises SparkError for a session of Spark Connect; methods
    raise it for an unusable path.
    """

    def __init__(self, session: Any) -> None:
        try:
            java = session._jvm
        except AttributeError:  # PySpark's own error type
            raise SparkError(NOT_BY_CONNECT) from None
        self.path: Any = java.org.apache.hadoop.fs.Path
        self.configuration = session._jsc.hadoopConfiguration()

    def _open(self, uri: str) -> tuple[Any, Any]:
        try:
            path = self.path(uri)
            return path, path.getFileSystem(self.configuration)
        except Exception as error:  # various types, from Java
            raise SparkError(f"can't use {uri}: {reason(error)}") from None

    def files(self, uri: str) -> dict[str, int]:
        """The files of a folder and its subfolders, or the file itself, with their sizes in bytes,
        without names that begin with a dot or an underscore.
        """
        path, system = self._open(uri)
        found: dict[str, int] = {}
        try:
            if not system.exists(path):
                raise SparkError(f"{uri} doesn't exist")
            listed = system.listFiles(path, True)
            base = len(str(system.makeQualified(path).toUri().getPath()))
            while listed.hasNext():
                status = listed.next()
                below = str(status.getPath().toUri().getPath())[base:]
                if not any(part.startswith((".", "_")) for part in below.split("/")):
                    found[local(str(status.getPath().toString()))] = int(status.getLen())
        except SparkError:
            raise
        except Exception as error:  # as above
            raise SparkError(f"can't list {uri}: {reason(error)}") from None
        if not found:
            raise SparkError(f"{uri} holds no file")
        return found

    @contextmanager
    def written(self, uri: str) -> Generator[str]:
        """A new folder to write to. It is at `uri` if the block succeeds, else it is deleted."""
        final, system = self._open(uri)
        try:
            if system.exists(final):
                raise SparkError(f"{uri} exists already: choose another folder")
            parent = system.makeQualified(final).getParent()
            aside = self.path(parent, f".{final.getName()}.{uuid.uuid4().hex[:8]}.part")
            new_parent = not system.exists(parent)
            if not system.mkdirs(aside):
                raise SparkError(f"can't write {uri}")
        except SparkError:
            raise
        except Exception as error:  # as above
            raise SparkError(f"can't write {uri}: {reason(error)}") from None
        try:
            yield str(aside.toString())
            if not system.rename(aside, final):
                raise SparkError(f"can't write {uri}: the written folder can't be renamed to it")
        except BaseException:
            with suppress(Exception):
                system.delete(parent if new_parent else aside, True)
            raise
