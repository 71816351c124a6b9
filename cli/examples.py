"""The examples in each command's --help. The tests of the documentation run most of them."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "new": ("new counter",),
    "check": (
        "check docs/examples/lease.py --protocol 1",
        "check transactions --bounds small --progress",
        "check transactions --bounds small --client 2.7 --broker 3.9",
        "check docs/examples/lease.py --protocol 1 --all-traces 5 --trace lease.itf.json",
        "check transactions --set partitions=1 --set transactions=1 --checkpoint saved",
    ),
    "sweep": (
        "sweep docs/examples/lease.py --protocols 1..2 --set leases=2..3 --results sweep.jsonl",
    ),
    "simulate": (
        "simulate docs/examples/lease.py --protocol 1 --seed 1 --trace lease.itf.json",
        "simulate transactions --seed 1 --steps 500000",
    ),
    "matrix": (
        "matrix transactions --protocols 4.1..4.2 --property MarkersMatchDecision --no-deadlock",
    ),
    "explore": (
        "explore transactions --bounds small",
        "explore docs/examples/lease.py --protocol 1 --trace lease.itf.json",
    ),
    "replay": ("replay hanging.itf.json --chart hanging-transaction.svg",),
    "explain": ("explain hanging.itf.json",),
    "bound": ("bound docs/examples/lease.py --depth 12 --protocol 1",),
    "prove": ("prove docs/examples/lease.py --property OneHolder --property NoStaleWrite",),
    "lint": ("lint docs/examples/lease.py",),
    "decode": (
        "decode docs/examples/broker/orders-0/00000000000000000012.log",
        "decode docs/examples/broker/orders-0/00000000000000000012.log --json -",
    ),
    "judge": (
        "judge docs/examples/histories/fenced.jsonl --protocol 3.6",
        "judge --application docs/examples/histories/duplicate.jsonl",
        "judge --segments docs/examples/broker",
    ),
    "advise": (
        "advise --client java-3.4 --broker 3.6.2 --uses transactions",
        "advise --client librdkafka-1.8.0 --broker 3.6 --to 4.4",
    ),
    "findings": ("findings", "findings 12 --bootstrap 127.0.0.1:9092"),
    "explain-error": ("explain-error PRODUCER_FENCED --client 3.9 --broker 4.0 --request EndTxn",),
    "config": ("config retries=0 --protocol 3.6",),
    "doctor": ("doctor --bootstrap 127.0.0.1:9092", "doctor docs/examples/broker"),
    "conform": ("conform --bootstrap 127.0.0.1:9092", "conform --classes 4.3 --bounds small"),
    "serve": ("serve --protocol 4.3 --port 9092 --topic orders:3",),
    "proxy": ("proxy --listen 127.0.0.1:9192 --upstream 127.0.0.1:9092",),
    "diagram": (
        "diagram transaction -o transaction.svg",
        "diagram transactions -o hanging.html --trace hanging.itf.json",
        "diagram docs/examples/lease.py --machine client -o client.svg",
    ),
    "diff": (
        "diff --protocols 4.1 4.2 partition",
        "diff docs/examples/retry.py --protocols 1 2 --behaviour",
    ),
    "drift": (
        "drift --diff docs/examples/drift/end-transaction.diff",
        "drift --kafka jars --since 4.3.0",
    ),
    "bugs": ("bugs", "bugs KAFKA-14402"),
    "semantics": (
        "semantics acks=1 min.insync.replicas=1 commit=after",
        "semantics --show idempotent.isr2.clean.after",
    ),
    "window": ("window",),
    "vectors": ("vectors vectors",),
    "export": ("export tla docs/examples/lease.py -o lease",),
    "list": ("list", "list transactions"),
}


def shown(command: str) -> str:
    """The examples of a command, which its help shows below the options."""
    lines = [f"  epochfence {line}" for line in EXAMPLES.get(command, ())]
    return "\n\n".join(["Examples:", *lines]) if lines else ""
