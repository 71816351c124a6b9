"""The generated page "Am I affected?", in English and Chinese: common clients and brokers."""

from __future__ import annotations

from typing import Final

from ...spec.bugs.advice import Client, Item, advice, client_of
from ...spec.bugs.damage import Damage
from ..drawing.decision_table import plain

PAGE, CHINESE = "affected.md", "zh/affected.md"
CLIENTS: Final = (
    "java-2.8",
    "java-3.4",
    "java-3.9",
    "java-4.0",
    "java-4.4",
    "librdkafka-2.3",
    "franz-go-1.20",
    "sarama-1.45",
    "kafka-python-2.2",
    "aiokafka-0.12",
    "kafkajs-2.2",
)
BROKERS: Final = ("2.8", "3.5", "3.6", "3.9", "4.0.1", "4.4")
_NOTE: Final = "<!-- Generated from the declarations in spec/ by `make docs`. -->"
_ENGLISH: Final = f"""\
{_NOTE}

# Am I affected?

The table has the number of known bugs and findings for each client library and release of the
brokers, and the worst damage. The list below says which they are. `epochfence advise` prints the
same for any combination, with the faults that each one takes and the remedy
([advise](advise.md)).

"""
_IN_CHINESE: Final = f"""\
{_NOTE}

# 我受影响吗？

下表列出每种客户端库与 broker 版本组合的已知缺陷和发现的数量，以及最严重的后果。
后面的列表说明它们是哪些。`epochfence advise` 可以打印任意组合的结果，
包括触发所需的故障和解决办法（[英文说明](../advise.md)）。

"""
_DAMAGES: Final = {
    Damage.LOST: ("lost records", "丢失记录"),
    Damage.WRONG_OUTCOME: ("wrong outcome", "结果错误"),
    Damage.TORN: ("torn transaction", "事务只提交一部分"),
    Damage.DUPLICATED: ("duplicates", "重复"),
    Damage.REORDERED: ("reordering", "乱序"),
    Damage.MISREAD: ("wrong reads", "误读"),
    Damage.STUCK: ("stuck partition", "分区停滞"),
    Damage.STOPPED: ("failing producer", "生产者失败"),
    Damage.WASTED: ("wasted epochs", "浪费 epoch"),
}
_HEADS: Final = (("client", "brokers"), ("客户端", "broker"))


def pages() -> dict[str, bytes]:
    """The generated files by their path in the documentation's folder."""
    clients = [client_of(text) for text in CLIENTS]
    found = {(client, broker): advice(client, broker) for client in clients for broker in BROKERS}
    return {
        PAGE: (_ENGLISH + _tables(found, 0)).encode(),
        CHINESE: (_IN_CHINESE + _tables(found, 1)).encode(),
    }


def _tables(found: dict[tuple[Client, str], tuple[Item, ...]], language: int) -> str:
    client_head, broker_head = _HEADS[language]
    clients = list(dict.fromkeys(client for client, _ in found))
    lines = [
        f"| {client_head} | " + " | ".join(f"{broker_head} {each}" for each in BROKERS) + " |",
        "|---" * (len(BROKERS) + 1) + "|",
    ]
    for client in clients:
        cells = (_cell(found[client, broker], language) for broker in BROKERS)
        lines.append(f"| {client} | " + " | ".join(cells) + " |")
    every = {item.id: item for items in found.values() for item in items}
    order = list(Damage)
    for item in sorted(every.values(), key=lambda item: order.index(item.damage)):
        damage = _DAMAGES[item.damage][language]
        if (heading := f"\n## {damage}\n") not in lines:
            lines.append(heading)
        lines.append(f"* **{item.id}**: {plain(item.title)} ({plain(item.affected)})")
    return "\n".join(lines) + "\n"


def _cell(items: tuple[Item, ...], language: int) -> str:
    return f"{len(items)}: {_DAMAGES[items[0].damage][language]}" if items else "0"
