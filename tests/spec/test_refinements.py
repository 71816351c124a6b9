"""Each reduction of a shipped system has a refinement check."""

from __future__ import annotations

from importlib import import_module

import pytest

from epochfence.language.instances.reductions import LeftOut, Reduction
from epochfence.spec.systems import SHIPPED, shipped


def is_checked_as_declared(one: Reduction) -> bool:
    """Whether nothing may read it: the system is refused otherwise
    (tests/language/test_reductions.py)."""
    return isinstance(one, LeftOut) and one.is_always


@pytest.mark.parametrize("name", SHIPPED)
def test_every_reduction_of_a_system_is_checked(name: str) -> None:
    """`refined_by` names a module. Its tests go through the reductions in CHECKED one by one. Those
    in AS_A_WHOLE have an effect only together: the module compares the whole machine."""
    for one in shipped(name).reductions:
        if is_checked_as_declared(one) and not one.refined_by:
            continue
        assert one.refined_by, f"{one.declared}: no test checks this reduction: {one.because}"
        module = import_module("epochfence." + one.refined_by.removesuffix(".py").replace("/", "."))
        checked = (*module.CHECKED, *getattr(module, "AS_A_WHOLE", ()))
        assert one in checked, f"{one.declared}: {one.refined_by} doesn't have it: {one.because}"
