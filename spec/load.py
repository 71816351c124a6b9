"""Systems by name or from a reader's own file."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from .language import DeclarationError, System
from .systems import SHIPPED, shipped


def load_system(name: str) -> System:
    """The shipped system `name`, or the one in `FILE.py[:NAME]`.

    Without NAME the file must hold one system. Raises DeclarationError, naming the file, where it
    isn't there, can't be run, or doesn't hold the system.
    """
    file, _, attribute = name.partition(":")
    if file.endswith(".py"):
        return _from_file(Path(file), attribute)
    if name not in SHIPPED:
        known = ", ".join(SHIPPED)
        raise DeclarationError(
            f"no system is called {name}: take {known}, or a file as FILE.py or FILE.py:NAME"
        )
    return shipped(name)


def _from_file(path: Path, attribute: str) -> System:
    if not path.is_file():
        raise DeclarationError(f"{path}: no such file")
    module_name = f"_declared_{path.stem}"
    found = importlib.util.spec_from_file_location(module_name, path)
    if found is None or found.loader is None:
        raise DeclarationError(f"{path} can't be loaded as Python")
    module = importlib.util.module_from_spec(found)
    sys.modules[module_name] = module
    try:
        found.loader.exec_module(module)
    except DeclarationError as error:
        raise DeclarationError(f"{path}{_line(error, path)}: {error}") from None
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {error}"
        raise DeclarationError(f"{path}{_line(error, path)} fails when it is run: {what}") from None
    systems = {n: v for n, v in vars(module).items() if isinstance(v, System)}
    if attribute:
        if attribute not in systems:
            raise DeclarationError(
                f"{path} has no system called {attribute} (it has: {', '.join(systems) or 'none'})"
            )
        return systems[attribute]
    if len(set(systems.values())) != 1:
        held = ", ".join(systems) or "none"
        raise DeclarationError(f"{path} must hold one system or be given as FILE.py:NAME: {held}")
    return next(iter(systems.values()))


def _line(error: BaseException, path: Path) -> str:
    """Where in the file the error arose, if it did."""
    line: int | None = error.lineno if isinstance(error, SyntaxError) else None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f", line {line}" if line else ""
