"""A system with its numbers unbounded: constants that only bound numbers are left open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ....language import DEFAULT, Instance, System, instantiate
from ....language.declaration.errors import UnsettledError
from ...ground import Grounded, ground
from ...slicing import sliced, without_constants


def lifted(
    system: System,
    protocol: str | None = None,
    constants: Mapping[str, int] | None = None,
    *,
    bounds: str = DEFAULT,
    switch_on: Iterable[str] = (),
    switch_off: Iterable[str] = (),
    properties: Iterable[str] | None = None,
) -> Instance:
    """The system under any values of the constants that bound a type and nothing else: neither how
    many there are of something, nor where numbers wrap. `constants` keep their values.

    Raises DeclarationError as `instantiate` does.
    """
    wanted = None if properties is None else list(properties)
    on, off = list(switch_on), list(switch_off)
    left = {info.name for info in system.constant_infos} - set(constants or {})

    def made() -> Instance:
        return instantiate(
            system, protocol, constants, bounds=bounds, switch_on=on, switch_off=off,
            properties=wanted, leave_open=left, rankings=True,
        )  # fmt: skip

    while True:
        try:
            grounded = ground(made(), probing=False)
        except UnsettledError as error:
            if error.constant not in left:
                raise
            left.remove(error.constant)
        else:
            break
    left &= set(grounded.limits)
    return made()


def relevant(instance: Instance) -> Grounded:
    """The instance's leaves and nodes, those left out that nothing looks at."""
    return sliced(without_constants(ground(instance, probing=False)))
