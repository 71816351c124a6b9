"""Inputs for what reads FILE.py: the examples, with tokens and statements changed at random."""

from __future__ import annotations

import ast
import io
import os
import resource
import signal
import sys
import tokenize
import warnings
import zlib
from functools import cache
from pathlib import Path
from random import Random
from unittest.mock import patch

from epochfence.checker import named_systems as load
from epochfence.language.declaration import loading
from epochfence.tests.cli.test_cli import DECLARED
from epochfence.tests.fuzz.harness import Case, Ended, Surface, command
from epochfence.tests.fuzz.mutations import INTERESTING, mutated

ROOT = Path(__file__).parents[2]
FILE = "declared.py"
FORKED = 16  # one of so many declarations that change has a process of its own
LOADING = 5  # seconds of processor time for a file that is run
OPERATORS = ("+", "-", "*", "/", "//", "%", "**", "==", "<", ">=", "&", "|", "~", ".", ",", "=",
             "(", ")", "[", "]", ":", "not", "and", "or", "is", "in", "lambda")  # fmt: skip


@cache
def examples() -> tuple[str, ...]:
    """Declarations that are right."""
    examples = (ROOT / "docs" / "examples").glob("*.py")
    files = [path.read_text() for path in sorted(examples) if path.stem != "memory_broker"]
    return (*[DECLARED] * len(files), *files)


@cache
def _tokens(source: str) -> tuple[tokenize.TokenInfo, ...]:
    return tuple(tokenize.generate_tokens(io.StringIO(source).readline))


def with_other_tokens(random: Random, source: str) -> str:
    """The source with some tokens replaced, left out, doubled or swapped."""
    lines = source.splitlines(keepends=True)
    found = [token for token in _tokens(source) if token.string.strip()]
    names = [token.string for token in found if token.type == tokenize.NAME]
    chosen = random.sample(found, random.choice((1, 1, 2, 3)))
    for token in sorted(chosen, key=lambda token: token.start, reverse=True):
        (row, start), (last, end) = token.start, token.end
        if row != last:
            continue
        match random.randrange(6):
            case 0:
                new = ""
            case 1:
                new = f"{token.string} {token.string}"
            case 2:
                new = random.choice(found).string
            case 3 if token.type == tokenize.NUMBER:
                new = str(random.choice(INTERESTING))
            case 4 if token.type == tokenize.OP:
                new = random.choice(OPERATORS)
            case _:
                new = random.choice(names)
        line = lines[row - 1]
        lines[row - 1] = line[:start] + new + line[end:]
    return "".join(lines)


class _Changed(ast.NodeTransformer):
    """Changes the node that is counted as the n-th."""

    def __init__(self, random: Random, at: int) -> None:
        self.random, self.left = random, at

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        self.left -= 1
        if self.left != 0:
            return node
        match node:
            case ast.Call(args=[*args], keywords=[*keywords]):
                if keywords and self.random.random() < 0.5:
                    del keywords[self.random.randrange(len(keywords))]
                else:
                    self.random.shuffle(args)
                return ast.Call(node.func, args, keywords)
            case ast.Constant(value=int()):
                return ast.Constant(self.random.choice(INTERESTING))
            case ast.Constant():
                return ast.Constant(self.random.choice(("", None, 0.5, b"", "x" * 3_000, "a\nb")))
            case ast.Name():
                return ast.Constant(self.random.choice((None, 1, "x", True)))
            case ast.Tuple(elts=[*elements]):
                return ast.Tuple(elements[:-1], node.ctx)
            case ast.BinOp(left=left, op=op, right=right):
                return ast.BinOp(right, op, left)
            case ast.Compare(left=left, ops=ops, comparators=[right]):
                return ast.Compare(right, ops, [left])
            case _:
                return node


def with_another_tree(random: Random, source: str) -> str:
    """The source with a part of its syntax tree changed, or a statement left out."""
    tree = ast.parse(source)
    if random.random() < 0.2:
        del tree.body[random.randrange(len(tree.body))]
    else:
        count = sum(1 for _ in ast.walk(tree))
        tree = _Changed(random, random.randrange(1, count)).visit(tree)
    return ast.unparse(ast.fix_missing_locations(tree))


def generate(random: Random) -> Case:
    """A declaration, and a command that reads it."""
    source = random.choice(examples())
    match random.randrange(8):
        case 0:
            data = mutated(random, source.encode())
        case 1 | 2 | 3:
            data = with_another_tree(random, source).encode()
        case _:
            data = with_other_tokens(random, source).encode()
    name = FILE if random.random() < 0.7 else f"{FILE}:{random.choice(('holds', 'lease', 'none'))}"
    words = ["diagram", name] if random.random() < 0.95 else ["diff", "--protocols", "1", "2", name]
    # a release that the changed file no longer has is the command line's mistake
    return Case(tuple(words), {FILE: data}, place=FILE if words[0] == "diagram" else "")


def forked(path: Path, attribute: str, memory: int, _: object = None) -> tuple[bytes, int]:
    """`load._run_apart` in a fork of this process, which has all imports done, and with a limit of
    processor time: a declaration may well be a loop without an end."""
    result, result_end = os.pipe()
    alive_end, alive = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(result)
            os.close(alive)
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CPU, (LOADING, LOADING))
            loading.answer(str(path), attribute, memory, result_end, alive_end)
        finally:
            os._exit(70)
    os.close(result_end)
    os.close(alive_end)
    with os.fdopen(result, "rb") as pipe:
        told = pipe.read()
    os.close(alive)
    _, status = os.waitpid(child, 0)
    return told, os.waitstatus_to_exitcode(status)


def inside(path: Path, attribute: str, memory: int, _: object = None) -> tuple[bytes, int]:
    """`load._run_apart` in this process, which is a fuzzer's worker: it has its limits already."""
    kept = sys.argv, list(sys.path), sys.getrecursionlimit()
    try:
        with warnings.catch_warnings(action="ignore"):  # the compiler's, of a changed text
            return loading.answered(str(path), attribute), 0
    finally:
        sys.argv, sys.path[:] = kept[:2]
        sys.setrecursionlimit(kept[2])


def run(case: Case, folder: Path) -> Ended:
    """The command, whose process apart is a fork, or for most inputs this one: a fork takes longer
    than most declarations. No signal ends a large power, so that it has a fork."""
    sources = [data for name, data in case.files.items() if name.endswith(".py")]
    apart = any(b"**" in data or zlib.crc32(data) % FORKED == 0 for data in sources)
    with patch.object(load, "_run_apart", forked if apart else inside):
        return command(case, folder)


SURFACE = Surface("declarations", generate, run, weight=2)
