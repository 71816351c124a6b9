"""Messages put on a network and taken off it, on plain values: for a machine on its own."""

from __future__ import annotations

from typing import Any

from epochfence.language import Message
from epochfence.language.types import Value, initial_value
from epochfence.model.engine.interpreter import Interpreter


def put(
    model: Interpreter,
    state: dict[str, Value],
    message: Message,
    address: tuple[int, ...],
    content: dict[str, Value],
) -> None:
    """Puts a message where nobody has one; what isn't said of it has initial values."""
    name, message = f"network.{message.name}", _in_system(model, message)
    constants = model.instance.constants
    first = {name: initial_value(of, constants) for name, of in message.content.fields}
    assert content.keys() <= first.keys()
    state[name] = _placed(state[name], address, (tuple((first | content).values()),))


def take(
    model: Interpreter, state: dict[str, Value], message: Message, address: tuple[int, ...]
) -> dict[str, Value] | None:
    """Takes off all messages of this name; the content of the one there, None where none is."""
    name, message = f"network.{message.name}", _in_system(model, message)
    at: Any = state[name]
    for key in address:
        at = at[key]
    if not at:
        return None
    state[name] = initial_value(model.types[name], model.instance.constants)
    return dict(zip((field for field, _ in message.content.fields), at[0], strict=True))


def _in_system(model: Interpreter, message: Message) -> Message:
    """The message with the fields that the system has."""
    channels = model.instance.system.channels
    return next(c.message for c in channels if c.message.name == message.name)


def _placed(at: Any, address: tuple[int, ...], content: Value) -> Any:
    if not address:
        return content
    first, *rest = address
    return tuple(_placed(v, tuple(rest), content) if i == first else v for i, v in enumerate(at))
