"""producer_id.json"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epochfence.model import ProducerIdController, ProducerIdManager
from epochfence.model.broker.producer_ids import (
    LOADING,
    ExhaustedError,
    ProducerIdBlockZNode,
    ZkProducerIdManager,
)
from epochfence.tests.conformance.draft import RELEASE
from epochfence.tests.conformance.harness import Adapter, RaisedError


class ProducerIds(Adapter):
    """producer_id.json"""

    def __init__(self, given: Mapping[str, Any]) -> None:
        super().__init__(given)
        self.now = given.get("now_ms", 0)
        self.managers: dict[str, Any] = {}
        self.controller: ProducerIdController | None = None
        block = given.get("shared_store", {}).get("block") if "shared_store" in given else None
        last = block["first"] + block["size"] - 1 if block else -1
        self.node = ProducerIdBlockZNode(last, protocol=RELEASE)
        self.block = dict(given.get("block", {}))
        self.image = given.get("image", {}).get("next_producer_id", -1)
        self.next_start = 0
        self.backoff = 50
        if self.block:
            self.claims = self._manager(self.block["broker_id"])
            self.claims.answer("NONE", self.block["first"], self.block["size"])
        if "controller" in given:
            control = given["controller"]
            self.controller = ProducerIdController(
                {int(broker): epoch for broker, epoch in control["brokers"].items()},
                protocol=RELEASE,
                next_block=_first(control.get("next_block")) or 0,
                is_active=control.get("active", True),
            )
        if "manager" in given:
            manager = given["manager"]
            self.backoff = manager.get("retry_backoff_ms", 50)
            self.new_manager("m1", manager["kind"], manager["broker_id"])
        if "brokers" in given:
            self.brokers = given["brokers"]

    def _manager(self, broker_id: int) -> ProducerIdManager:
        return ProducerIdManager(
            broker_id, protocol=RELEASE, now_ms=self.now, retry_backoff_ms=self.backoff
        )

    def block_info(self) -> dict[str, Any]:
        first, size = self.block["first"], self.block["size"]
        return {
            "broker_id": self.block["broker_id"],
            "first": first,
            "last": first + size - 1,
            "size": size,
            "next_block_first": first + size,
        }

    def claim(self) -> dict[str, Any]:
        return {"producer_id": self.claims.generate()}

    def allocate(self, broker_id: int, broker_epoch: int, apply_record: bool) -> dict[str, Any]:
        assert self.controller is not None
        controller = self.controller if apply_record else self.controller.copy()
        error, first, size = controller.allocate(broker_id, broker_epoch)
        self.first = first
        if error != "NONE":
            return {"error": error, "record": None}
        following = first + size
        return {
            "error": error,
            "first": first,
            "size": size,
            "record": {
                "broker_id": broker_id,
                "broker_epoch": broker_epoch,
                "next_producer_id": following,
            },
        }

    def observe_first_at_least(self, wanted: int) -> int:
        return wanted if self.first >= wanted else self.first

    def observe_next_block(self, wanted: Any) -> Any:
        assert self.controller is not None
        first = self.controller.next_block
        if isinstance(wanted, dict):
            return {"first": first, "size": 1000, "broker_id": wanted.get("broker_id")}
        return first

    def replay(self, broker_id: int, broker_epoch: int, next_producer_id: int) -> dict[str, Any]:
        assert self.controller is not None
        if not self.controller.replay(next_producer_id):
            raise RaisedError("RUNTIME")
        return {"error": "NONE"}

    def new_manager(self, manager: str, kind: str, broker_id: int) -> dict[str, Any]:
        if kind == "rpc":
            self.managers[manager] = self._manager(broker_id)
            return {}
        try:
            self.managers[manager] = ZkProducerIdManager(self.node, broker_id, protocol=RELEASE)
        except ExhaustedError:
            raise RaisedError("KAFKA_EXCEPTION") from None
        return {}

    def generate(self, manager: str) -> dict[str, Any]:
        model = self.managers[manager]
        if isinstance(model, ZkProducerIdManager):
            try:
                return {"error": "NONE", "producer_id": model.generate(), "request_sent": False}
            except ExhaustedError:
                raise RaisedError("KAFKA_EXCEPTION") from None
        model.now_ms = self.now
        producer_id = model.generate()
        return {
            "error": LOADING if producer_id is None else "NONE",
            "producer_id": producer_id,
            "request_sent": model.asks_controller,
        }

    def controller_response(
        self, manager: str, error: str, start: int | None, len: int | None
    ) -> dict[str, Any]:
        model = self.managers[manager]
        model.now_ms = self.now
        size = -1 if len is None else len
        block = model.answer(error, -1 if start is None else start, size)
        if block is None:
            return {"next_block": None}
        return {"next_block": {"broker_id": model.broker_id, "first": block[0], "size": block[1]}}

    def generate_many(self, manager: str, count: int) -> dict[str, Any]:
        found = [self.generate(manager)["producer_id"] for _ in range(count)]
        contiguous = found == list(range(found[0], found[0] + count))
        return {"first": found[0], "last": found[-1], "contiguous": contiguous}

    def generate_until(self, manager: str, successes: int, block_len: int) -> dict[str, Any]:
        found: list[int] = []
        errors: set[str] = set()
        while len(found) < successes:
            answer = self.generate(manager)
            if answer["producer_id"] is None:
                errors.add(answer["error"])
            else:
                found.append(answer["producer_id"])
            if answer["request_sent"]:
                self.controller_response(manager, "NONE", self.next_start, block_len)
                self.next_start += block_len
        return self._summary(found, errors)

    def _summary(self, found: list[int], errors: set[str]) -> dict[str, Any]:
        self.found = found
        return {
            "unique": len(set(found)) == len(found),
            "only_error": next(iter(errors)) if len(errors) == 1 else None,
            "first": found[0],
            "last": found[-1],
            "total": len(found),
        }

    def observe_all_below(self, wanted: int) -> int:
        return wanted if max(self.found) < wanted else max(self.found)

    def generate_across_brokers(self, per_broker: int) -> dict[str, Any]:
        control = ProducerIdController(dict.fromkeys(range(self.brokers), 0), protocol=RELEASE)
        managers = [self._manager(broker) for broker in range(self.brokers)]
        found: list[int] = []
        errors: set[str] = set()
        for manager in managers:
            count = 0
            while count < per_broker:
                producer_id = manager.generate()
                if producer_id is None:
                    errors.add(LOADING)
                else:
                    found.append(producer_id)
                    count += 1
                if manager.asks_controller:
                    error, first, size = control.allocate(manager.broker_id, 0)
                    manager.answer(error, first, size)
        return self._summary(found, errors)

    def image_replay(self, broker_id: int, broker_epoch: int, next_producer_id: int) -> None:
        self.image = next_producer_id

    def image_state(self) -> dict[str, Any]:
        record = {"broker_id": -1, "broker_epoch": -1, "next_producer_id": self.image}
        return {"next_producer_id": self.image, "records": [] if self.image < 0 else [record]}

    def sleep(self, ms: int) -> None:
        self.now += ms


def _first(block: Any) -> int | None:
    """The first id of a block that is given as such, or as that id."""
    return block["first"] if isinstance(block, dict) else block
