"""The compiled functions of a system, and faster ones that take their place within a search."""

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
    """The compiled functions: how many successors a state can have at most, and the code.

    `address` is that of the function for states one by one, `block_address` that of the one for
    many at once, whose successors come in any order (`lanes`, if it is there). `spans` has the
    words, from the first up to the end, that each group of properties reads.
    Holds the engines that own the code: any address that it ever had is valid while it lives.
    """

    most_successors: int
    code: Code
    spans: tuple[tuple[int, int], ...] = ()
    engines: list[Any] = field(default_factory=list[Any], repr=False)
    effort: int = field(init=False)
    asked: int = field(init=False, default=QUICK)  # the most effort that was asked for
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
        """Begins to make code with more effort, if there is any. Whoever asks for an address gets
        that of the faster one from when it is there. The code for many states at once is the best
        already: where it is there, only who takes states `one_by_one` gains."""
        is_used = one_by_one or self.block_address == self.address
        if is_used and max(self.effort, self.asked) < effort:
            self.asked = effort
            thread = Thread(target=self._improve, args=(effort,), daemon=True)
            _improving.add(thread)
            thread.start()

    def _improve(self, effort: int) -> None:
        with suppress(RuntimeError, OSError):  # what there is does the same
            code = self.code.with_effort(effort)
            if code.effort > self.effort:
                self._take(code)


_improving: WeakSet[Thread] = WeakSet()  # a thread that is done is forgotten


@atexit.register
def _end() -> None:
    """Waits for the threads: LLVM's objects end with the process, and nobody may use them then.
    Other processes need not get done."""
    for thread in list(_improving):
        while thread.is_alive():
            give_up()
            thread.join(0.1)
