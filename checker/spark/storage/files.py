"""Durable files of a run, in a local folder or a file system that Arrow knows by its URI.

A file is written under another name and renamed: a file with the final name is complete. No file is
overwritten.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import os
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
from pyarrow import fs

from ...native.search.checkpoint import CheckpointError

SUCCESS = "_SUCCESS"
TRIES = 3  # of a write, before an error of the storage is reported


class StorageError(CheckpointError):
    """Storage that can't be reached, read or written."""


class TakenError(StorageError):
    """A name already exists."""


class Storage:
    """A folder by its path or URI (`file`, `hdfs`, `s3`, `gs`, ...), for this process and others.

    Raises StorageError for a URI without a file system in Arrow.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        if not uri:
            raise StorageError("the run's folder has no name: give a path or a URI")
        try:
            if "://" in uri:
                self.fs, self.root = fs.FileSystem.from_uri(uri)
            else:
                self.fs, self.root = fs.LocalFileSystem(), os.path.abspath(uri)
        except (OSError, pa.ArrowException) as error:
            raise StorageError(f"can't use {uri}: {_reason(error)}") from None

    def write(self, name: str, content: Any, *, exclusive: bool = False) -> None:
        """Writes bytes to a new file, completely or not at all.

        With `exclusive`, if several processes write one name at once, only the first one succeeds;
        the others raise TakenError. This holds only for local folders; elsewhere the last move
        wins.
        """
        path = f"{self.root}/{name}"
        folder, _, base = path.rpartition("/")
        aside = f"{folder}/.{base}.{uuid.uuid4().hex[:8]}.part"
        for tries_left in reversed(range(TRIES)):
            try:
                self.fs.create_dir(folder, recursive=True)
                with self.fs.open_output_stream(aside) as file:
                    file.write(content)
                if exclusive and self.fs.type_name == "local":
                    os.link(aside, path)  # never replaces a file
                    os.unlink(aside)
                else:
                    self.fs.move(aside, path)
                return
            except FileExistsError:
                self.fs.delete_file(aside)
                raise TakenError(f"{path} exists already") from None
            except (OSError, pa.ArrowException) as error:
                with suppress(OSError, pa.ArrowException):
                    self.fs.delete_file(aside)
                if not tries_left:
                    raise StorageError(f"can't write {path}: {_reason(error)}") from None

    def read(self, name: str) -> bytes:
        """A file's bytes."""
        try:
            with self.fs.open_input_stream(f"{self.root}/{name}") as file:
                return file.read()
        except (OSError, pa.ArrowException) as error:
            raise StorageError(f"can't read {self.root}/{name}: {_reason(error)}") from None

    def sizes(self) -> dict[str, int]:
        """The files by name, with their sizes in bytes; empty if there is no such folder."""
        selector = fs.FileSelector(self.root, recursive=True, allow_not_found=True)
        try:
            found = self.fs.get_file_info(selector)
        except (OSError, pa.ArrowException) as error:
            raise StorageError(f"can't list {self.uri}: {_reason(error)}") from None
        root = self.root.rstrip("/") + "/"
        return {i.path.removeprefix(root): i.size or 0 for i in found if i.is_file}

    def delete(self, name: str) -> None:
        """Deletes an unneeded file. A failure does no harm."""
        with suppress(OSError, pa.ArrowException):
            self.fs.delete_file(f"{self.root}/{name}")

    def rename(self, to: Storage) -> None:
        """Renames the folder, on a file system that has folders (see `has_folders`)."""
        try:
            self.fs.move(self.root, to.root)
        except (OSError, pa.ArrowException) as error:
            raise StorageError(f"can't write {to.uri}: {_reason(error)}") from None

    def delete_all(self) -> None:
        """Deletes the folder with its files."""
        with suppress(OSError, pa.ArrowException):
            self.fs.delete_dir(self.root)

    @property
    def has_folders(self) -> bool:
        """Whether the storage can rename folders. In an object storage a folder is only a prefix of
        names.
        """
        return self.fs.type_name in ("local", "hdfs")


@contextmanager
def written(uri: str) -> Generator[Storage]:
    """A new folder to write to. It is at `uri` if the block succeeds, else it is deleted.

    In an object storage files are visible immediately, and a last file `_SUCCESS` marks a complete
    folder. Raises StorageError if the folder holds files.
    """
    final = Storage(uri.rstrip("/"))
    if final.sizes():
        raise StorageError(f"can't write {uri}: it exists: name a new folder, or an empty one")
    folder, _, name = final.uri.rpartition("/")
    aside = (
        f"{folder}/.{name}.{uuid.uuid4().hex[:8]}" if folder else f".{name}.{uuid.uuid4().hex[:8]}"
    )
    place = Storage(aside) if final.has_folders else final
    try:
        yield place
        if final.has_folders:
            final.delete_all()  # it is empty
            place.rename(final)
        else:
            final.write(SUCCESS, b"")
    except BaseException:
        place.delete_all()
        raise


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return text.strip().partition("\n")[0]
