"""The words of the page "Am I affected?" in Chinese: titles by bug or finding, and releases."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

TITLES: Final[Mapping[str, str]] = {
    "KIP-903": "丢失日志的 broker 凭以前拉取的位置加入 ISR",
    "KIP-966": "最后一个同步副本断电后丢失已确认的记录，又成为 leader",
    "KAFKA-15583": "ISR 少于 min.insync.replicas 时高水位仍前进：已读到的记录在 unclean 选举后丢失",
    "KAFKA-17507": "已提交事务的 marker 提交了下一个未结束事务的 offset",
    "KIP-890c": "迟到的 EndTxn 结束了下一个事务",
    "KIP-890b": "已中止事务的迟到记录进入下一个事务，并被提交",
    "KAFKA-18019": "transactional.id 过期后，被隔离的客户端以新的 producer id 重新出现",
    "finding 8": "隔离的结束来迟，结束了后面的事务：事务挂起，或只提交一部分",
    "finding 1": "一个批次被拒绝，使幂等生产者把另一个批次写入两次",
    "finding 3": "最后一个 epoch 之后，批次不带 producer id 发出，被追加两次",
    "finding 5": "比生产者状态存活更久的请求被再次追加",
    "finding 16": "被拒绝的 offset 带走了待定的 offset：记录被计算两次",
    "KAFKA-12620": "producer id 段写入之前就被使用：另一个 broker 也会分配它",
    "finding 2": "生产者最初的批次以不同的顺序追加",
    "finding 4": "旧 producer id 的迟到批次追加在新批次之后",
    "KAFKA-13727": "在 segment 中间停下的 cleaner 把已中止的事务漏出索引",
    "KAFKA-4545": "segment 变旧后 tombstone 立即消失：按时的读者保留了已删除的值",
    "KAFKA-8522": "最后清理的 segment 中的 tombstone 或 marker 永远不会旧到可以删除",
    "KAFKA-16352": "对较早任期的 marker 的应答永久取消了进行中的完成",
    "KAFKA-14402": "在中止的 marker 之后到达的批次打开了一个没有人结束的事务",
    "KAFKA-14055": "key 与 marker 字节相同的记录使 marker 先于它的记录失效",
    "finding 6": "升到最后一个 epoch 的请求不能重试，客户端失败",
    "finding 7": "幂等批次一直重发，直到 delivery.timeout.ms 结束",
    "finding 15": "没有读权限的 topic 使客户端永久失败",
    "KAFKA-18137": "broker 卸任后仍继续加载，然后以旧的 epoch 应答",
    "KAFKA-20357": "跨 failover 重试的 epoch 提升被拒绝",
    "KAFKA-14694": "段到达之前请求标记就被清除：又请求了第二段",
    "finding 10": "transaction.version 改变期间的隔离把保留的 epoch 给了客户端",
    "finding 12": "新旧客户端库共用 transactional.id：被隔离的提交了事务，最新的被永久隔离",
    "KAFKA-20090": "在客户端最后一个 epoch 上的隔离没有取新的 producer id：客户端得到最大的 epoch",
    "KAFKA-20310": "下一个 producer id 不在事务日志里，failover 时丢失",
    "KAFKA-19446": "迟到的 marker 结束了下一个事务",
    "KAFKA-20634": "提交得到 NONE 应答但记录丢失：不再领导该消费组分区的 broker 完成了它",
    "finding 17": "在批次中间删除记录，使 last stable offset 低于日志起点",
    "finding 11": "transaction.version 降级后事务挂起",
    "finding 13": "分区没有 leader 时漏写 marker：事务挂起，或只提交一部分",
    "finding 14": "另一个线程里失败的记录带走了提交的应答",
    "finding 9": "transaction.version 降级期间失败的提交使事务挂起",
    "KAFKA-12671": "客户端写入从未加入事务的分区：那里的事务没有超时",
    "franz-go-42b3d833": "失败的提交重试后被报告为成功",
    "franz-go-b9b50cce": "读者以为已中止事务列表是有序的：已中止的记录被交付",
    "franz-go-6ecd2f9f": "可能没有到达的 EndTxn 被遗忘：下一个事务并入未结束的事务",
    "franz-go-de5af46a": "没有得到确认就不结束事务：下一个事务并入未结束的事务",
    "KIP-447": "rebalance 之后成员从一个事务即将提交的 offset 之前开始：输入被计算两次",
    "KAFKA-9365": "僵尸实例提交 offset：group coordinator 不检查成员和 generation",
    "KIP-360": "重发的 InitProducerId 再次提升 epoch",
}
_VERSION: Final = r"(\d+(?:\.\d+)+)"
_PHRASES: Final[tuple[tuple[str, str], ...]] = (
    (
        "and every broker without an epoch for each transaction",
        "以及不为每个事务换 epoch 的 broker",
    ),
    ("without transactions of version 2", "且没有第 2 版事务"),
    ("merged after 4.4 was branched off", "在 4.4 分支之后合入"),
    (rf"with clients before {_VERSION} to {_VERSION}", r"客户端早于 \1 时至 \2"),
    ("with a transactional id for each instance", "每个实例一个 transactional.id"),
    ("with clients that do so", "客户端这样做时"),
    ("with Redpanda's leaders", "leader 为 Redpanda"),
    ("with version 2", "第 2 版事务"),
    ("before July 2026", "2026 年 7 月之前"),
    ("before June 2026", "2026 年 6 月之前"),
    (rf"brokers from {_VERSION}", r"broker \1 起"),
    (rf"clients from {_VERSION}", r"客户端 \1 起"),
    (rf"{_VERSION} and later", r"\1 起"),
    (rf"{_VERSION} to {_VERSION}", r"\1 至 \2"),
    (rf"before {_VERSION}", r"早于 \1"),
    (r",? and ", "、"),
    ("[,;] ", "，"),
)


def releases_in_chinese(affected: str) -> str:
    """The words of `Bug.affected` or `Finding.affected`."""
    for english, chinese in _PHRASES:
        affected = re.sub(english, chinese, affected)
    return affected
