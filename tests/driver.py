"""What the programs `run.py` under tests share: options, processes, files of results to go on from,
and results that are recorded in the documentation.

A page has a result between `<!-- NAME: begin -->` and `<!-- NAME: end -->`.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from epochfence.files import write_whole

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def _parts(page: Path, name: str) -> tuple[str, str, str]:
    """A page up to a result, with the mark; the result; the rest, from the other mark on."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    text = page.read_text(encoding="utf-8")
    if (text.count(begin), text.count(end)) != (1, 1) or text.index(end) < text.index(begin):
        raise ValueError(f"{page} needs the marks {begin.strip()} and {end.strip()}, once each")
    before, _, rest = text.partition(begin)
    old, _, after = rest.partition(end)
    return before + begin, old, end + after


def recorded(page: Path, name: str) -> str:
    """The result that a page has. Raises ValueError where it lacks the marks."""
    return _parts(page, name)[1]


def record(page: Path, name: str, text: str) -> None:
    """Replaces the result that a page has. Raises ValueError where it lacks the marks."""
    before, _, after = _parts(page, name)
    write_whole(page, f"{before}{text.rstrip()}\n{after}")


def options(
    description: str | None,
    *,
    seed: int | None = None,
    seconds: float | None = None,
    page: Path | None = None,
) -> argparse.ArgumentParser:
    """A parser with `--seed`, which is random unless the program has a default for it; with
    `--seconds` where the program has a default for it, and with `--record` where its result has a
    page."""
    parser = argparse.ArgumentParser(description=description)
    seed = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    parser.add_argument("--seed", type=int, default=seed)
    if seconds is not None:
        parser.add_argument("--seconds", type=float, default=seconds, help="(default: %(default)s)")
    if page is not None:
        parser.add_argument("--record", action="store_true", help=f"in docs/{page.name}")
    return parser


def lines(path: Path) -> list[Any]:
    """The values of a file with a JSON value a line, without half a line at its end; none where
    there is no file."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line[-1] == "\n"]


def in_processes(
    work: Callable[[Piece], Result], pieces: Sequence[Piece], jobs: int, tasks: int
) -> Iterator[Result]:
    """The results of the pieces, as they come in, from processes of their own.

    These end after some `tasks`: what was compiled for a run stays in its process. Where one is
    ended from outside, others go on with what is left. Raises BrokenProcessPool where none gets
    anything done.
    """
    left = list(pieces)
    while left:
        done: list[Piece] = []
        with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
            turn = left[: tasks * jobs]  # max_tasks_per_child can hang (CPython's issue 115634)
            waiting = {pool.submit(work, piece): piece for piece in turn}
            try:
                for ended in as_completed(waiting):
                    result = ended.result()
                    done.append(waiting[ended])
                    yield result
            except BrokenProcessPool:
                if not done:
                    raise
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
        left = [piece for piece in left if piece not in done]
