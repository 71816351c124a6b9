"""Whether topics are compacted: as the user says, and as the controllers' log has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from ...records.codec.errors import RecordError
from ...records.files import Kind, read_file
from ...records.metadata_log import OF_BROKER, OF_TOPIC, decode_config
from .folder import COMPACT, DELETE

ALLOWED = (DELETE, COMPACT, f"{COMPACT},{DELETE}", f"{DELETE},{COMPACT}")
_OF_TOPIC, _OF_BROKER = (OF_TOPIC, "cleanup.policy"), (OF_BROKER, "log.cleanup.policy")


def given(options: Iterable[str]) -> dict[str, str]:
    """Policies by topic of options such as orders=delete; that of "" is of all others. Raises
    ValueError."""
    found: dict[str, str] = {}
    for option in options:
        topic, equals, policy = option.rpartition("=")
        if policy not in ALLOWED or (equals and not topic):
            raise ValueError(
                f"--cleanup-policy {option}: give TOPIC=delete or TOPIC=compact, or delete or "
                "compact for all other topics"
            )
        if _of(policy) != found.setdefault(topic, _of(policy)):
            raise ValueError(
                f"--cleanup-policy {option}: {topic or 'this'} has another one already"
            )
    return found


def configured(folders: Iterable[Path]) -> dict[str, str]:
    """Those that the controllers' log in these folders has, with its snapshots (.checkpoint). A
    topic that was compacted once may still have gaps of it. Raises OSError."""
    found: dict[str, str] = {}
    for folder in folders:
        for path in sorted(path for path in folder.iterdir() if path.suffix == ".checkpoint"):
            _read(path, found)
        for path in sorted(folder.glob("*.log")):
            _read(path, found)
    return found


def _read(path: Path, found: dict[str, str]) -> None:
    for item in read_file(path, Kind.METADATA_LOG):
        if isinstance(item, RecordError) or item.what != "metadata":
            continue
        try:
            config = decode_config(item.fields)
        except RecordError:
            continue
        if config is None or config.value is None:
            continue
        policy, kind = _of(config.value), (config.resource_type, config.name)
        is_default = kind == _OF_BROKER and (not config.resource_name or policy == COMPACT)
        topic = config.resource_name if kind == _OF_TOPIC else ""
        if (kind == _OF_TOPIC or is_default) and found.get(topic) != COMPACT:
            found[topic] = policy


def _of(value: str) -> str:
    return COMPACT if COMPACT in value else DELETE


def all_policies(folders: Iterable[Path], by_hand: Mapping[str, str] | None) -> dict[str, str]:
    """Those of the controllers' log, and above them those that are given."""
    return configured(folders) | dict(by_hand or {})
