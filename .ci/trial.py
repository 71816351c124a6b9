"""Prints the seconds of a small trial, and the Python that ran it. CI takes the quickest: one that
was built without optimizations takes a third longer for all that the tests do. Ends with 1 if this
Python is too old, or can't make environments."""

import sys
import timeit
from importlib.util import find_spec

SETUP = """
class Node:
    __slots__ = ("op", "args")
    def __init__(self, op, args):
        self.op, self.args = op, args

nodes = {}
def node(op, args):
    return nodes.get((op, args)) or nodes.setdefault((op, args), Node(op, args))

def tree(depth):
    return node("leaf", ()) if depth == 0 else node("and", tuple(tree(depth - 1) for _ in range(3)))
"""

if sys.version_info < (3, 11) or find_spec("ensurepip") is None or find_spec("venv") is None:
    sys.exit(1)
print(min(timeit.repeat("nodes.clear(); tree(6)", SETUP, number=5, repeat=9)), sys.executable)
