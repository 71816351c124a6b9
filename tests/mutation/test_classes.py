"""Mutants beside Kafka's classes: only a mutant's own errors count as noticed."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from epochfence.tests.mutation import classes


def test_an_error_of_the_comparison_is_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise ValueError("the host answers no number")

    monkeypatch.setattr(classes, "jars_of", lambda _: ())  # pyright: ignore[reportUnknownLambdaType]
    monkeypatch.setattr(classes, "Host", lambda *_: nullcontext())  # pyright: ignore[reportUnknownLambdaType]
    monkeypatch.setattr(classes, "compare", fails)
    drawn = classes.DRAWN["producer-ids"]._replace(states=1)
    mutant = next(one for one in classes.every_mutant().values() if one.machine == drawn.machine)
    with pytest.raises(ValueError, match="no number"):
        classes.differing("producer-ids", drawn, mutant)
