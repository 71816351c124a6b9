"""Options that belong together: a command takes them as one parameter, which is a dataclass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command as Typer takes it: with the fields of each dataclass among its parameters as
    parameters of their own. A field's type and default are those of its option."""
    groups: dict[str, Any] = {}
    options: list[Parameter] = []
    types = get_type_hints(command, include_extras=True)
    for name, parameter in signature(command).parameters.items():
        kind = types[name]
        if is_dataclass(kind):
            groups[name] = kind
            own = get_type_hints(kind, include_extras=True)
            options += [_option(f.name, own[f.name], f.default) for f in fields(kind)]
        else:
            options.append(_option(name, kind, parameter.default))

    @wraps(command)
    def flat(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        command(**given)

    flat.__signature__ = Signature(options)  # type: ignore[attr-defined]
    flat.__annotations__ = {option.name: option.annotation for option in options}
    return flat


def _option(name: str, kind: Any, default: Any) -> Parameter:
    """The parameter; no matter which of them have a default."""
    given = Parameter.empty if default is MISSING else default
    return Parameter(name, Parameter.KEYWORD_ONLY, default=given, annotation=kind)
