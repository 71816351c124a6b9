"""The compiled functions of a system, and faster ones that replace them during a search."""

from __future__ import annotations

import atexit
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import Any
from weakref import WeakSet

from .machine_code import Code, give_up, load
from .object_code import QUICK


@dataclass
class Kernel:
    """The compiled functions of a system, and the most successors of a state.

    `address` is that of the function that expands states one by one. `block_address` is that of the
    function for many states at once (`expand_lanes`, if compiled), which returns successors in any
    order. `spans` has the words, from the first up to the end, that each group of properties reads.
    The kernel owns the engines of the code: all its addresses stay valid while it lives.
    """

    most_successors: int
    code: Code
    spans: tuple[tuple[int, int], ...] = ()
    engines: list[Any] = field(default_factory=list[Any], repr=False)
    effort: int = field(init=False)
    requested: int = field(init=False, default=QUICK)  # the most effort requested yet
    address: int = field(init=False)
    block_address: int = field(init=False)
    canonical_address: int = field(init=False)

    def __post_init__(self) -> None:
        self._take(self.code)

    def _take(self, code: Code) -> None:
        engine = load(code)
        self.engines.append(engine)
        self.effort = code.effort
        self.address = engine.get_function_address("expand")
        self.block_address = engine.get_function_address("expand_lanes") or self.address
        self.canonical_address = engine.get_function_address("represent")

    def improve(self, effort: int, *, one_by_one: bool = False) -> None:
        """Begins to compile with more effort, in a thread. The addresses change when the faster
        code is ready. The code for many states at once is already the fastest: if it exists, only
        callers that take states `one_by_one` gain.
        """
        is_used = one_by_one or self.block_address == self.address
        if is_used and max(self.effort, self.requested) < effort:
            self.requested = effort
            thread = Thread(target=self._improve, args=(effort,), daemon=True)
            _improving.add(thread)
            thread.start()

    def _improve(self, effort: int) -> None:
        with suppress(RuntimeError, OSError):  # the present code does the same
            code = self.code.with_effort(effort)
            if code.effort > self.effort:
                self._take(code)


_improving: WeakSet[Thread] = WeakSet()  # finished threads disappear


@atexit.register
def _end() -> None:
    """Waits for the threads: they may not use LLVM's objects after the end of the interpreter.
    Compilers in other processes are killed.
    """
    for thread in list(_improving):
        while thread.is_alive():
            give_up()
            thread.join(0.1)
