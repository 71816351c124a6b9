"""Files damaged at random, as disks, broken-off writes and mistakes damage them."""

from __future__ import annotations

import shutil
from pathlib import Path

from hypothesis import strategies as st

KINDS = ("flip", "truncate", "zero", "append", "repeat", "delete", "empty", "swap", "foreign")


@st.composite
def damages(draw: st.DrawFn) -> list[tuple[str, int, int, int]]:
    """One damage or two: its kind, which file, where, and another number."""
    number = st.integers(0, 2**16)
    one = st.tuples(st.sampled_from(KINDS), number, number, number)
    return draw(st.lists(one, min_size=1, max_size=2))


def apply(folder: Path, others: Path, kind: str, which: int, where: int, more: int) -> None:
    """Damages a file of a folder; `others` is the folder of another run."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    if not files:
        return
    file = files[which % len(files)]
    content = bytearray(file.read_bytes())
    at = where % max(1, len(content))
    if kind == "flip" and content:
        content[at] ^= 1 << more % 8
    elif kind == "truncate":
        del content[at:]
    elif kind == "zero":
        content[at : at + 1 + more] = bytes(len(content[at : at + 1 + more]))
    elif kind == "append":
        content += bytes([more % 256]) * (1 + where % 64)
    elif kind == "repeat":
        content[at:at] = content[at : at + 1 + more % 64]
    elif kind == "empty":
        content.clear()
    elif kind == "delete":
        file.unlink()
        return
    elif kind == "swap":
        other = files[more % len(files)]
        content, theirs = bytearray(other.read_bytes()), bytes(content)
        other.write_bytes(theirs)
    elif kind == "foreign":
        theirs = sorted(path for path in others.rglob("*") if path.is_file())
        shutil.copyfile(theirs[more % len(theirs)], file)
        return
    file.write_bytes(content)
