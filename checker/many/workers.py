"""Runs independent pieces of work in processes of this machine, or on Spark's executors."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import wraps
from itertools import chain, islice
from multiprocessing import active_children, get_context, parent_process, util
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from ..spark.options import SparkOptions

LOOK = 1.0  # seconds without a result before the pool's thread is checked
_MANAGER = "_executor_manager_thread"  # the pool's thread that returns results
Piece = TypeVar("Piece")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Workers:
    """The workers: `jobs` processes of this machine, or Spark's executors."""

    jobs: int = 1
    spark: SparkOptions | None = None
    pool: Executor | None = None

    @contextmanager
    def together(self, name: str) -> Generator[Workers]:
        """The same workers for many calls of `each`: processes, or Spark, are started only once.

        Raises SparkError if Spark doesn't start, ChildProcessError if the system can't start
        processes or give them the means to communicate.
        """
        if self.spark is not None:
            from ..spark.session import session

            with session(self.spark, name, carrying=True):
                yield self
        elif self.jobs == 1 or self.pool is not None:
            yield self
        else:
            _silence_trackers()
            with _starting():
                pool = ProcessPoolExecutor(
                    self.jobs, mp_context=get_context("spawn"), initializer=_end_with_parent
                )
            try:
                yield replace(self, pool=pool)
            except BaseException:
                _abandon(pool)
                raise
            finally:
                with suppress(RuntimeError):  # the pool's thread couldn't be started
                    pool.shutdown(cancel_futures=True)

    def each(
        self, work: Callable[[Piece], Result], pieces: Iterable[Piece], name: str, at_once: int = 1
    ) -> Iterator[tuple[int, Result]]:
        """Yields (index of the piece, result) in the order of completion, while `pieces` is still
        being read. `at_once` pieces go to one Spark task.

        `work`, pieces and results are pickled; `name` names Spark's stages. Raises the errors of
        `together`.
        """
        if self.spark is not None:
            yield from _on_spark(self.spark, work, list(pieces), name, at_once)
            return
        rest = iter(pieces)
        first = list(islice(rest, 2))
        every = enumerate(chain(first, rest))
        if self.jobs == 1 or len(first) < 2:
            yield from ((at, work(piece)) for at, piece in every)
        else:
            with self.together(name) as ready:
                assert ready.pool is not None
                yield from _as_done(ready.pool, work, every)


@contextmanager
def _starting() -> Generator[None]:
    try:
        yield
    except BrokenExecutor:
        raise
    except (OSError, RuntimeError) as error:  # a process, or a thread
        why = (error.strerror if isinstance(error, OSError) else str(error)) or "unknown reason"
        raise ChildProcessError(
            f"can't start processes ({why}): try --jobs 1, which needs none"
        ) from None


_TRACKER = "from multiprocessing.resource_tracker import main"
_SILENT = "import os; os.dup2(os.open(os.devnull, os.O_WRONLY), 2); "


def _silence_trackers() -> None:
    """Starts multiprocessing's resource tracker without standard error. If the tracker is killed,
    Python starts another one, and that one prints a traceback for each unknown semaphore. These are
    harmless: the processes that made semaphores remove them.
    """
    warnings.filterwarnings("ignore", message="resource_tracker: process died")
    start = util.spawnv_passfds
    if start.__name__ == _start_silently.__name__:
        return

    @wraps(_start_silently)
    def silently(path: bytes, args: Sequence[str], passfds: Sequence[int]) -> int:
        return _start_silently(start, path, args, passfds)

    util.spawnv_passfds = silently


def _start_silently(
    start: Callable[..., int], path: bytes, args: Sequence[str], passfds: Sequence[int]
) -> int:
    """Starts a process of multiprocessing; the tracker has no standard error."""
    *options, code = args
    return start(path, [*options, _SILENT * code.startswith(_TRACKER) + code], passfds)


def _abandon(pool: Executor) -> None:
    """Ends a pool's processes without waiting for unfinished pieces: writing a piece to a dead
    process would never end (CPython's gh-94777). Abandoned pieces get no result, because the pool's
    thread would fail.
    """
    getattr(pool, "_pending_work_items", {}).clear()
    for process in active_children():
        process.terminate()
    pieces, thread = (getattr(pool, name, None) for name in ("_call_queue", _MANAGER))
    if pieces is not None:
        pieces.cancel_join_thread()
        if thread is not None and thread.is_alive():
            thread.join(LOOK)  # it may close the pipe as well
        with suppress(OSError):
            pieces._reader.close()


def _end_with_parent() -> None:
    """Ends this process when its parent dies: a pool's process would wait for ever. Ctrl-C ends it
    silently; the parent reports it.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    Thread(target=wait, daemon=True).start()


def _is_served(pool: Executor) -> bool:
    """Whether the pool's thread for results still runs. If memory is exhausted, it ends without an
    exception.
    """
    thread: Thread | None = getattr(pool, _MANAGER, None)
    return thread is None or thread.is_alive()


def _as_done(
    pool: Executor, work: Callable[[Piece], Result], pieces: Iterable[tuple[int, Piece]]
) -> Iterator[tuple[int, Result]]:
    """Yields indices and results as soon as they are done. Nothing waits when the caller stops."""
    waiting: dict[Future[Result], int] = {}
    done = SimpleQueue[Future[Result]]()
    try:
        for at, piece in pieces:
            with _starting():
                future = pool.submit(work, piece)
            waiting[future] = at
            future.add_done_callback(done.put)
            while not done.empty():
                future = done.get()
                yield waiting.pop(future), future.result()
        while waiting:
            try:
                future = done.get(timeout=LOOK)
            except Empty:
                if not _is_served(pool) and done.empty():
                    raise BrokenExecutor from None
            else:
                yield waiting.pop(future), future.result()
    finally:
        for future in waiting:
            future.cancel()


def _on_spark(
    options: SparkOptions,
    work: Callable[[Piece], Result],
    pieces: Sequence[Piece],
    name: str,
    at_once: int,
) -> Iterator[tuple[int, Result]]:
    """Runs a job for each task, from as many threads as Spark has cores: results are available
    immediately, also if other tasks fail.
    """
    from ..spark.session import session

    def job(part: Sequence[Piece]) -> list[Result]:
        # `session.stage` applies to one thread
        context.setLocalProperty("callSite.short", name)
        context.setLocalProperty("callSite.long", name)
        return context.parallelize(part, 1).map(work).collect()

    parts = ((at, pieces[at : at + at_once]) for at in range(0, len(pieces), at_once))
    with session(options, name, carrying=True) as running:
        context: Any = running.sparkContext
        with ThreadPoolExecutor(int(context.defaultParallelism)) as threads:
            for start_at, results in _as_done(threads, job, parts):
                yield from enumerate(results, start_at)
