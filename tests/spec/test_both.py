"""Where compiled rows come to something else than the interpreter, tests of answers fail."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from epochfence.model.engine.compiler.stepper import Stepper
from epochfence.model.engine.interpreter import Step
from epochfence.spec.coordinator import entry
from epochfence.tests.spec.coordinators import Coordinator

OTHERWISE: dict[str, Callable[[Step], Step | None]] = {
    "another row": lambda step: replace(step, row=step.row + 1),
    "another state": lambda step: replace(step, state=None if step.state is None else ()),
    "none": lambda step: None,
}


@pytest.mark.parametrize("what", OTHERWISE)
def test_another_step_is_seen(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    take = Stepper.take
    expires = {"state": "ONGOING", "partitions": frozenset({0})}
    assert Coordinator(**expires).does(entry.timeout)

    def otherwise(*given: object) -> Step | None:
        step = take(*given)  # type: ignore[arg-type]
        return step and OTHERWISE[what](step)

    monkeypatch.setattr(Stepper, "take", otherwise)
    with pytest.raises(AssertionError):
        Coordinator(**expires).does(entry.timeout)
