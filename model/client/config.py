"""Resolves the settings of a producer, consumer or broker: returns their effective values, or
raises the error that Kafka throws.

The settings and the rules are declared in `spec/settings/producer.py`, `consumer.py` and
`broker.py`; nothing is decided here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ...language import Expression, Machine, Protocols, Table
from ...language.declaration.arguments import nearest
from ...language.terms.values import assign, evaluate, field_name
from ...language.types import initial_value
from ...spec.settings.broker import BROKER_SETTINGS, BROKERS
from ...spec.settings.consumer import (
    CONSUMER_FACTS,
    CONSUMER_SETTINGS,
    CONSUMER_STEPS,
    CONSUMERS,
    OTHER_CONSUMER_SETTINGS,
    auto_commit,
    consumer_client_id,
    consumer_config,
    consumer_words,
)
from ...spec.settings.producer import (
    CLIENTS,
    LARGEST_INT,
    OTHER_PREFIXES,
    OTHER_SETTINGS,
    RANGES,
    SETTINGS,
    STEPS,
    Setting,
    client_id,
    config,
    linger,
)

Kind: TypeAlias = Literal["producer", "consumer", "broker"]
Value: TypeAlias = bool | int | str | None
GIVEN = "_given"


class ConfigError(Exception):
    """The exception of Kafka's client, with its text; its class is called `name` there."""

    def __init__(self, text: str, name: str = "ConfigException") -> None:
        super().__init__(text)
        self.name = name


def resolve(
    given: Mapping[str, Any], protocol: str | None = None, *, number: int = 1
) -> dict[str, Value]:
    """The effective settings of a producer of the release `protocol` (the newest unless given).

    `given` are the user's settings: strings as in a file, or values of their type. A missing
    setting has the release's default. Names that the release doesn't know are ignored, as in Kafka,
    which warns of them. `acks` is a number, -1 for all. `client.id` is the client's name; the
    default name contains `number`, the producer's number in its process.

    Raises ConfigError if the client throws ConfigException, with the same reason. Of several
    reasons it is the client's first one. Raises DeclarationError for an unknown release.
    """
    features = CLIENTS.features_at(protocol or CLIENTS.newest)
    values = _values(SETTINGS, CLIENTS, features, given)
    values["acks"] = -1 if values["acks"] == "all" else int(str(values["acks"]))
    first = {name: _first(name, values, given) for name in _FIELDS}
    now = _after(STEPS, config, CLIENTS, features, first, {})
    called, of = values["client.id"], values["transactional.id"]
    held = str(called) if "client.id" in given and called is not None else None
    values["client.id"] = client_id(held, None if of is None else str(of), number, features)
    for name, info in _FIELDS.items():
        # the rules use the largest int for a larger linger.ms; the setting stays as it is
        if _setting(name) in values and info.expression is not linger:
            values[_setting(name)] = now[_key(info.expression)]
    return values


def resolve_consumer(
    given: Mapping[str, Any], protocol: str | None = None, *, number: int = 1
) -> dict[str, Value]:
    """The effective settings of a consumer; see `resolve`. The error may have another class than
    ConfigException: that of KafkaConsumer's exception, or of its cause."""
    features = CONSUMERS.features_at(protocol or CONSUMERS.newest)
    values = _values(CONSUMER_SETTINGS, CONSUMERS, features, given)
    first: dict[str, Any] = {name: values.get(_setting(name)) for name in consumer_config.fields}
    first |= {name: fact(values, given) for name, fact in CONSUMER_FACTS.items()}
    words = consumer_words(values, given, features)
    now = _after(CONSUMER_STEPS, consumer_config, CONSUMERS, features, first, words)
    values["enable.auto.commit"] = now[_key(auto_commit)]
    called = given.get("client.id")
    values["client.id"] = consumer_client_id(called, values, number, features)
    return values


def resolve_broker(given: Mapping[str, Any], protocol: str | None = None) -> dict[str, Value]:
    """The broker settings that transactions, groups and replicas depend on; see `resolve`.
    Combinations aren't checked: no broker does so."""
    features = BROKERS.features_at(protocol or BROKERS.newest)
    return _values(BROKER_SETTINGS, BROKERS, features, given)


def _values(
    settings: Iterable[Setting],
    protocols: Protocols,
    features: frozenset[str],
    given: Mapping[str, Any],
) -> dict[str, Value]:
    """The value of each setting in a release, given or default, before the rules."""
    return {
        setting.name: _parsed(setting, given.get(setting.name, setting.default))
        for setting in settings
        if protocols.holds(setting.during, features)
    }


def _after(
    steps: Iterable[Table], machine: Machine, protocols: Protocols, features: frozenset[str],
    first: Mapping[str, Any], words: Mapping[str, str],
) -> dict[Any, Any]:  # fmt: skip
    """The machine's fields after its steps. `first` has their values before, by name; None: the
    initial value. Raises ConfigError if a step changes the field `state`."""
    fields = machine.fields
    now = {
        _key(info.expression): initial_value(info.type, {}) if first[name] is None else first[name]
        for name, info in fields.items()
    }
    state = _key(fields["state"].expression)
    accepted = now[state]
    for table in steps:
        for row in table.rows:
            if protocols.holds(row.during, features) and evaluate(row.guard, now, {}):
                before = dict(now)
                for target, value in table.updates(row):
                    assign(target, evaluate(value, before, {}), now, before, {}, {})
                if now[state] != accepted:
                    field_values = {n: now[_key(info.expression)] for n, info in fields.items()}
                    raise ConfigError(
                        row.note.format(**field_values, **words), _class_of(str(now[state]))
                    )
                break
    return now


def _class_of(state: str) -> str:
    """The class of the exception that a state stands for."""
    return "ConfigException" if state == "REJECTED" else state.title().replace("_", "")


_FIELDS = config.fields


def _key(field: Expression) -> str:
    return field_name(field.data)


def _setting(field: str) -> str:
    return field.replace("_", ".")


def _first(field: str, values: Mapping[str, Value], given: Mapping[str, Any]) -> Any:
    """The value of a field before the first rule."""
    if field.endswith(GIVEN):
        return _setting(field.removesuffix(GIVEN)) in given
    value = values.get(_setting(field))
    if value is None:
        return initial_value(_FIELDS[field].type, {})
    return value if isinstance(value, (bool, str)) else min(value, LARGEST_INT)


def unknown(names: Iterable[str], kind: Kind = "producer") -> dict[str, str | None]:
    """The names that no release's producer (consumer, broker) has, each with the most similar
    setting or None. A plugin, such as a serializer, may know them."""
    settings, others = _KNOWN[kind]
    known = sorted({setting.name for setting in settings} | others)
    strange = [n for n in names if n not in known and not n.startswith(OTHER_PREFIXES)]
    return {n: nearest(n, known) for n in strange}


RESOLVED: Mapping[Kind, Callable[[Mapping[str, Any], str | None], dict[str, Value]]] = {
    "producer": resolve,
    "consumer": resolve_consumer,
    "broker": resolve_broker,
}
"""For each kind of program: the function that resolves its settings."""
_KNOWN: Mapping[Kind, tuple[Iterable[Setting], frozenset[str]]] = {
    "producer": (SETTINGS, OTHER_SETTINGS),
    "consumer": (CONSUMER_SETTINGS, OTHER_CONSUMER_SETTINGS),
    "broker": (BROKER_SETTINGS, frozenset()),
}


def read_properties(path: Path) -> dict[str, str]:
    """The settings in a properties file, with `name=value` or `name: value` on a line.

    Raises ValueError for another line that is neither a comment nor empty, OSError for a file that
    can't be read.
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
    """The value, converted to the setting's type. Raises ConfigError for an invalid value. Source:
    ConfigDef.parseType."""
    name = setting.name
    text = value.strip() if isinstance(value, str) else value
    found: Value = text
    match setting.kind:
        case "BOOLEAN" if isinstance(text, str):
            found = {"true": True, "false": False}.get(text.lower())
        case "SHORT" | "INT" | "LONG" if isinstance(text, str):
            found = int(text) if re.fullmatch(r"[+-]?0*[0-9]{1,20}", text) else None
        case _:
            pass
    match setting.kind:
        case "BOOLEAN":
            if not isinstance(found, bool):
                raise _invalid(name, value, "Expected value to be either true or false")
        case "SHORT" | "INT" | "LONG":
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
            if setting.choices and not _is_chosen(setting, found):
                one_of = ", ".join(setting.choices)
                if setting.message:
                    one_of = setting.message.format(name=name, value=found)
                    raise _invalid(name, found, one_of)
                case = " (case insensitive)" if setting.in_any_case else ""
                raise _invalid(name, found, f"String must be one of{case}: {one_of}")
            if found == "" and not setting.may_be_empty:
                raise _invalid(name, found, "String must be non-empty")
    return found


def _is_chosen(setting: Setting, value: str | None) -> bool:
    if value is not None and setting.in_any_case:
        return value.upper() in setting.choices
    is_form = bool(value and setting.pattern and re.fullmatch(setting.pattern, value))
    return value in setting.choices or is_form


def _invalid(name: str, value: Any, reason: str) -> ConfigError:
    shown = "null" if value is None else value
    return ConfigError(f"Invalid value {shown} for configuration {name}: {reason}")
