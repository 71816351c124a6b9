"""Runs a user's file in a process of its own, which returns the declaration.

The file may do anything that Python can: end the process, take all memory, print. The process that
prints a verdict runs none of it. It reads one answer, and without an answer there is no system.
"""

from __future__ import annotations

import io
import os
import pickle
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path
from threading import Thread
from types import ModuleType, TracebackType
from typing import Any

from .. import DeclarationError, System
from .arguments import one_of
from .errors import TOO_DEEP
from .slips import NAMES, Beside, compiled

_DEEP = 20_000  # pickling takes three levels for each level of a tree


def answer(path: str, attribute: str, memory: int, result: int, parent: int) -> None:
    """Runs the file and writes the pickled System, or the DeclarationError, to the descriptor
    `result`. The process takes at most `memory` bytes, and ends when the other end of the pipe
    `parent` is closed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the waiting process handles it
    Thread(target=_end_with, args=(parent,), daemon=True).start()
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    data = answered(path, attribute)
    with os.fdopen(result, "wb") as pipe:
        pipe.write(data)
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(0)  # wait for no thread and no exit handler


def answered(path: str, attribute: str) -> bytes:
    """Runs the file in this process and returns the pickled System or DeclarationError."""
    sys.argv = [path]
    Beside(Path(path).resolve().parent).install()
    try:
        return _pickled(declared(path, attribute), path)
    except DeclarationError as error:
        return pickle.dumps(DeclarationError(" ".join(str(error).split())))
    except BaseException as error:
        return pickle.dumps(DeclarationError(f"{path}: {type(error).__name__}: {error}"))


def declared(path: str, attribute: str = "") -> System:
    """The system of a file, run in this process: only for trusted files.

    Raises DeclarationError, with the file and the line, if the file declares no system.
    """
    return _system(_run(path), path, attribute)


def _end_with(parent: int) -> None:
    os.read(parent, 1)
    os._exit(1)


def _run(path: str) -> ModuleType:
    module = ModuleType(f"_declared_{Path(path).stem}")
    module.__file__ = path
    sys.modules[module.__name__] = module
    vars(module).update(NAMES)
    try:
        exec(compiled(Path(path).read_bytes(), path), vars(module))
    except DeclarationError as error:
        is_there = error.place is not None and error.place.file == path
        where = "" if is_there else f"{_place(error, path)}: "
        raise DeclarationError(f"{where}{error}") from None
    except MemoryError as error:
        where = _place(error, path)
        raise DeclarationError(
            f"{where}: the declaration needs more memory than its limit, see --memory"
        ) from None
    except OSError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:
            raise DeclarationError(f"can't read {path}: {error.strerror}") from None
        raise DeclarationError(_message(error, path)) from None
    except BaseException as error:
        raise DeclarationError(_message(error, path)) from None
    return module


def _message(error: BaseException, path: str) -> str:
    if isinstance(error, RecursionError):
        return f"{_place(error, path)}: {TOO_DEEP}, or a function calls itself without end"
    what = error.msg if isinstance(error, SyntaxError) else str(error)
    name = type(error).__name__
    return f"{_place(error, path)}: {name}: {what}" if what else f"{_place(error, path)}: {name}"


def _system(module: ModuleType, path: str, attribute: str) -> System:
    systems = {n: v for n, v in vars(module).items() if isinstance(v, System)}
    held = ", ".join(systems) or "none"
    if attribute:
        named = {system.name: system for system in systems.values()} | systems
        if attribute not in named:
            raise DeclarationError(
                f"{path} has no system called {attribute} ({one_of(attribute, systems)})"
            )
        return named[attribute]
    if len(set(systems.values())) != 1:
        raise DeclarationError(f"{path} must hold one system or be given as FILE.py:NAME: {held}")
    return next(iter(systems.values()))


def _pickled(system: System, path: str) -> bytes:
    sys.setrecursionlimit(_DEEP)
    whole = io.BytesIO()
    try:
        _Plain(whole, pickle.HIGHEST_PROTOCOL).dump(system)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
        raise DeclarationError(
            f"{path}: {system.name} holds more than declarations: {error}"
        ) from None
    return whole.getvalue()


class _Plain(pickle.Pickler):
    """Refuses objects of the file's own classes: the reading process doesn't have these."""

    def reducer_override(self, made: Any, /) -> Any:
        if isinstance(made, type) and not made.__module__.startswith(("epochfence.", "builtins")):
            raise pickle.PicklingError(f"an object of its own class {made.__name__}")
        return NotImplemented


def _place(error: BaseException, path: str) -> str:
    """The statement of the file that raised the error, and the line of the called helper."""
    line: int | None = None
    helper = unreadable = ""
    package = str(Path(__file__).parents[1])
    folder = str(Path(path).resolve().parent)
    if isinstance(error, SyntaxError):
        if error.filename in (path, None):
            return f"{path}:{error.lineno}" if error.lineno else path
        unreadable = f" ({os.path.relpath(error.filename, folder)}:{error.lineno})"
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file == path:
            line, helper = trace.tb_lineno, ""
        elif line and file.startswith(folder + os.sep) and not file.startswith(package + os.sep):
            helper = f" ({os.path.relpath(file, folder)}:{trace.tb_lineno})"
        trace = trace.tb_next
    return f"{path}:{line}{unreadable or helper}" if line else path
