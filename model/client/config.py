"""What a producer makes of its settings: the values that it works with, or its ConfigException.

The settings and the rules are declared in `spec/config.py`; nothing is decided here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

from ...language import Expression
from ...language.given import ALIKE
from ...language.types import initial_value
from ...language.values import assign, evaluate, field_name
from ...spec.config import (
    BROKER_SETTINGS,
    CLIENTS,
    LARGEST_INT,
    OTHER_PREFIXES,
    OTHER_SETTINGS,
    RANGES,
    REJECTED,
    SETTINGS,
    STEPS,
    Setting,
    client_id,
    config,
    linger,
    state,
)

Value: TypeAlias = bool | int | str | None
GIVEN = "_given"


class ConfigError(Exception):
    """The ConfigException of Kafka's client, with its text."""


def resolve(
    given: Mapping[str, Any], protocol: str | None = None, *, number: int = 1
) -> dict[str, Value]:
    """The effective settings of a producer of the release `protocol` (the newest unless given).

    `given` are settings as a user gives them: text as in a file, or values of their type. What
    isn't given has the release's default; names that the release doesn't know are passed over, as
    Kafka does with a warning. `acks` is a number, -1 for all; `client.id` is what the client is
    called, for which it may need to be the `number`th of its process.

    Raises ConfigError where the client throws ConfigException, for the same reason; of several,
    for the one that it finds first. Raises DeclarationError for an unknown release.
    """
    features = CLIENTS.features_at(protocol or CLIENTS.newest)
    values = {
        setting.name: _parsed(setting, given.get(setting.name, setting.default))
        for setting in SETTINGS
        if CLIENTS.holds(setting.during, features)
    }
    values["acks"] = -1 if values["acks"] == "all" else int(str(values["acks"]))
    now = {_key(info.expression): _first(name, values, given) for name, info in _FIELDS.items()}
    for table in STEPS:
        for row in table.rows:
            if CLIENTS.holds(row.during, features) and evaluate(row.guard, now, {}):
                before = dict(now)
                for target, value in table.updates(row):
                    assign(target, evaluate(value, before, {}), now, before, {}, {})
                if evaluate(state == REJECTED, now, {}):
                    told = {n: now[_key(info.expression)] for n, info in _FIELDS.items()}
                    raise ConfigError(row.note.format(**told))
                break
    called, of = values["client.id"], values["transactional.id"]
    held = str(called) if "client.id" in given and called is not None else None
    values["client.id"] = client_id(held, None if of is None else str(of), number, features)
    for name, info in _FIELDS.items():
        # what linger.ms has above the largest int counts as that, and is kept as it is
        if _setting(name) in values and info.expression is not linger:
            values[_setting(name)] = now[_key(info.expression)]
    return values


_FIELDS = config.fields


def _key(field: Expression) -> str:
    return field_name(field.data)


def _setting(field: str) -> str:
    return field.replace("_", ".")


def _first(field: str, values: Mapping[str, Value], given: Mapping[str, Any]) -> Any:
    """What a field of the rules is before the first of them."""
    if field.endswith(GIVEN):
        return _setting(field.removesuffix(GIVEN)) in given
    value = values.get(_setting(field))
    if value is None:
        return initial_value(_FIELDS[field].type, {})
    return value if isinstance(value, (bool, str)) else min(value, LARGEST_INT)


def unknown(names: Iterable[str]) -> dict[str, str | None]:
    """Those of the names that no release's producer has, each with the setting that it resembles
    or None. A plugin, such as a serializer, may know them."""
    known = sorted({setting.name for setting in SETTINGS} | OTHER_SETTINGS)
    strange = [n for n in names if n not in known and not n.startswith(OTHER_PREFIXES)]
    return {n: next(iter(get_close_matches(n, known, 1, ALIKE)), None) for n in strange}


def broker_defaults(protocol: str | None = None) -> dict[str, Value]:
    """What a broker of the release `protocol` (the newest unless given) has where nothing is set,
    of the settings that concern transactions. Raises DeclarationError for an unknown release."""
    features = CLIENTS.features_at(protocol or CLIENTS.newest)
    return {s.name: s.default for s in BROKER_SETTINGS if CLIENTS.holds(s.during, features)}


def read_properties(path: Path) -> dict[str, str]:
    """The settings in a file of a producer's properties: `name=value` or `name: value` on a line.

    Raises ValueError for a line that is neither, a remark nor empty, OSError for a file that can't
    be read.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        parts = re.fullmatch(r"([^\s=:]+)\s*[=:]\s*(.*)", text)
        if parts is None:
            raise ValueError(f"line {number} is not name=value: {text}")
        found[parts[1]] = parts[2]
    return found


def _parsed(setting: Setting, value: Any) -> Value:
    """The value by the setting's type, within its range. Source: ConfigDef.parseType."""
    name = setting.name
    text = value.strip() if isinstance(value, str) else value
    found: Value = text
    match setting.kind:
        case "BOOLEAN" if isinstance(text, str):
            found = {"true": True, "false": False}.get(text.lower())
        case "INT" | "LONG" if isinstance(text, str):
            found = int(text) if re.fullmatch(r"[+-]?0*[0-9]{1,20}", text) else None
        case _:
            pass
    match setting.kind:
        case "BOOLEAN":
            if not isinstance(found, bool):
                raise _invalid(name, value, "Expected value to be either true or false")
        case "INT" | "LONG":
            low, high = RANGES[setting.kind]
            if value is None:
                raise _invalid(name, value, "Value must be non-null")
            if isinstance(found, bool) or not isinstance(found, int) or not low <= found <= high:
                raise _invalid(name, value, f"Not a number of type {setting.kind}")
            if setting.low is not None and found < setting.low:
                raise _invalid(name, found, f"Value must be at least {setting.low}")
            if setting.high is not None and found > setting.high:
                raise _invalid(name, found, f"Value must be no more than {setting.high}")
        case _:
            if found is not None and not isinstance(found, str):
                kind = type(found).__name__
                raise _invalid(name, value, f"Expected value to be a string, but it was a {kind}")
            if setting.choices and found not in setting.choices:
                one_of = ", ".join(setting.choices)
                raise _invalid(name, found, f"String must be one of: {one_of}")
            if found == "" and not setting.may_be_empty:
                raise _invalid(name, found, "String must be non-empty")
    return found


def _invalid(name: str, value: Any, reason: str) -> ConfigError:
    shown = "null" if value is None else value
    return ConfigError(f"Invalid value {shown} for configuration {name}: {reason}")
