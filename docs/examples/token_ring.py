"""A ring that finds its way back to one token, from whatever state it is in (Dijkstra, EWD426).

Each node has a counter. Node 0 has a token where its counter is its predecessor's, any other node
where it isn't. A node with a token passes it on by changing its counter. Any counters are a start.

The mistake: counters with too few values. With `--set values=2`, four nodes pass two tokens around
for ever. Progress is said here as a bound: after so many moves, one token is left.
"""

from epochfence.language import (
    Int,
    Key,
    Machine,
    Map,
    Row,
    System,
    Table,
    after,
    any_of,
    constant,
    count_of,
    event,
    failure,
    invariant,
    minimum,
    position,
    step_property,
)

NODES = constant("nodes", 4, 2, 8, meaning="nodes of the ring")
VALUES = constant("values", 3, 2, 8, meaning="values of a counter: at least nodes - 1 are needed")
MOVES = constant("most_moves", 13, 0, 100, meaning="moves after which one token must be left")

NODE = Key("node", NODES)

ring = Machine("ring")
counter = ring.field("counter", Map(NODE, Int(0, VALUES - 1)), any_initial=True)
moves = ring.field("moves", Int(0, MOVES), doc="Moves so far; it stands still at the last.")

n, before, peer = (NODE.variable(name) for name in ("n", "before", "peer"))


def has_token(node):
    """Whether a node may move."""
    is_before = position(peer) == (position(node) + NODES - 1) % NODES
    is_equal = any_of(peer, is_before & (counter[peer] == counter[node]))
    return (position(node) == 0) == is_equal


tokens = count_of(n, has_token(n))
one_more = minimum(moves + 1, MOVES)
predecessor = position(before) == position(n) - 1

TABLES = (
    Table(ring, event("pass", n, before), when=predecessor & has_token(n), rows=(
        Row("take over its counter", set={counter[n]: counter[before], moves: one_more}),
    )),
    Table(ring, event("pass from node 0", n), when=(position(n) == 0) & has_token(n), rows=(
        Row("count on", set={counter[n]: (counter[n] + 1) % VALUES, moves: one_more}),
    )),
)  # fmt: skip

system = System(
    name="token-ring",
    doc="Nodes in a ring that pass tokens on.",
    tables=TABLES,
    properties=(
        invariant(
            "SomeToken",
            tokens >= 1,
            "Some node can always move.",
            failure=failure("no node has a token: the counters are {}", counter),
        ),
        step_property(
            "NoNewToken",
            after(tokens) <= tokens,
            "Tokens become fewer, never more.",
            failure=failure("{} tokens become {}", tokens, after(tokens)),
        ),
        invariant(
            "Stabilizes", (moves == MOVES).implies(tokens == 1),
            "After so many moves, in whatever order, one token is left.",
            "E. W. Dijkstra, Self-stabilizing systems in spite of distributed control (1974)",
            failure=failure("{} tokens are left: the counters are {}", tokens, counter),
        ),
    ),
    constants=(NODES, VALUES, MOVES),
    reach="Four nodes, from every state; thirteen moves are as many as four nodes ever need.",
)  # fmt: skip
