"""Delays Ctrl-C until an uninterruptible section is done."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import Any


@contextmanager
def unbroken() -> Generator[None]:
    """Ctrl-C takes effect after the code inside. An interrupted search reports its results, so no
    state may be half-moved and no thread may run.
    """
    if current_thread() is not main_thread():  # Ctrl-C never interrupts other threads
        yield
        return
    came: list[Any] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(frame)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came and callable(before):
            before(signal.SIGINT, came[0])
