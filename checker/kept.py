"""Results kept in a file as they come, so that a run that is broken off can go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class KeptError(Exception):
    """A file of results that can't be used."""


class Kept:
    """Results in a file of JSON lines, by plain data that names each; each is written as soon as it
    is there. `digest` stands for all else that they depend on: others in the file are left alone.

    Raises KeptError where the file can't be read or written, or holds something else.
    """

    def __init__(self, path: Path, digest: str) -> None:
        self.path, self.digest = path, digest
        self.found: dict[str, Any] = {}
        try:
            whole = path.read_bytes() if path.exists() else b""
            lines = whole.splitlines(keepends=True)
            if lines and not lines[-1].endswith(b"\n"):  # a run was killed as it wrote
                whole = whole[: -len(lines.pop())]
                path.write_bytes(whole)
            for number, line in enumerate(lines, 1):
                try:
                    told = json.loads(line)
                    if told["digest"] == digest:
                        self.found[_key(told["chosen"])] = told["result"]
                except (ValueError, KeyError, TypeError):
                    raise KeptError(f"{path}, line {number}: no result that was kept") from None
            with path.open("ab"):
                pass
        except OSError as error:
            raise KeptError(f"can't use {path}: {error.strerror}") from None

    def get(self, chosen: Any) -> Any | None:
        """The result of that name that is there already."""
        return self.found.get(_key(chosen))

    def add(self, chosen: Any, result: Any) -> None:
        """Keeps a result."""
        line = {"digest": self.digest, "chosen": chosen, "result": result}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _key(chosen: Any) -> str:
    return json.dumps(chosen, sort_keys=True)
