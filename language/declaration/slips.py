"""Finds comparisons and dictionaries in a user's file that Python would silently misread.

Python decides `x in {a, b}` and `x is None` without calling an expression's operators, and a
dictionary that names a target twice keeps the last value. So the syntax tree of the file is
rewritten: these go through functions that look at the values. The condition of an `if` statement
isn't rewritten: there, `x is None` asks whether a helper has got an argument. Modules in the folder
of the file are rewritten in the same way.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import (
    SOURCE_SUFFIXES,
    FileFinder,
    ModuleSpec,
    PathFinder,
    SourceFileLoader,
)
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from .. import DeclarationError, Expression

_COMPARE, _DISPLAY = "__epochfence_compare__", "__epochfence_display__"
_SIGNS: dict[type[ast.cmpop], str] = {
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "is",
    ast.IsNot: "is not",
}


def compare(sign: str, left: Any, right: Any) -> bool:
    """The truth that Python computes. Raises DeclarationError if an expression is compared."""
    is_symbolic = isinstance(left, Expression) or (
        isinstance(right, Expression) and sign in ("is", "is not")
    )
    if is_symbolic and sign in ("in", "not in"):
        raise DeclarationError(f"`{left}` {sign} ...: write .is_in(...), with ~ before it for not")
    if is_symbolic:
        wanted = "==" if sign == "is" else "!="
        raise DeclarationError(f"`{left} {sign} {right}`: write {left} {wanted} {right}")
    match sign:
        case "in":
            return left in right
        case "not in":
            return left not in right
        case "is":
            return left is right
        case _:
            return left is not right


def display(*parts: tuple[Any, Any] | Mapping[Any, Any]) -> dict[Any, Any]:
    """The dictionary of these pairs and, for `**`, mappings. Raises DeclarationError for a key that
    occurs twice.
    """
    whole: dict[Any, Any] = {}
    named: set[Any] = set()
    for part in parts:
        if not isinstance(part, tuple):
            whole.update(part)
            continue
        key, value = part
        if key in named:
            raise DeclarationError(
                f"{{...}} has `{key}` twice, and Python would keep the last: leave one out"
            )
        named.add(key)
        whole[key] = value
    return whole


NAMES = {_COMPARE: compare, _DISPLAY: display}


class _Rewriting(ast.NodeTransformer):
    def __init__(self) -> None:
        self.tests: set[ast.expr] = set()

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert)):
            self.tests.add(node.test)
        elif isinstance(node, ast.comprehension):
            self.tests.update(node.ifs)
        elif node in self.tests and isinstance(node, ast.BoolOp):
            self.tests.update(node.values)
        elif node in self.tests and isinstance(node, ast.UnaryOp):
            self.tests.add(node.operand)
        return super().visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        sign = _SIGNS.get(type(node.ops[0]))
        if len(node.ops) != 1 or sign is None:
            return node
        if node in self.tests and not isinstance(node.comparators[0], ast.Set):
            return node
        return self.call(node, _COMPARE, [ast.Constant(sign), node.left, node.comparators[0]])

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        self.generic_visit(node)
        parts = [
            value if key is None else ast.Tuple([key, value], ast.Load())
            for key, value in zip(node.keys, node.values, strict=True)
        ]
        return self.call(node, _DISPLAY, parts)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> ast.AST:
        return node

    @staticmethod
    def call(at: ast.expr, name: str, arguments: list[ast.expr]) -> ast.AST:
        made = ast.Call(ast.Name(name, ast.Load()), arguments, [])
        return ast.fix_missing_locations(ast.copy_location(made, at))


def compiled(source: bytes, path: str) -> CodeType:
    """The code of a file. Such comparisons and dictionaries call the functions in `NAMES`, which
    must be in scope. Raises SyntaxError.
    """
    tree = ast.parse(source, filename=path)
    _Rewriting().generic_visit(tree)
    return compile(tree, path, "exec", dont_inherit=True)


class _Helper(SourceFileLoader):
    """A module in the folder of a user's file. Python's cached bytecode of it is neither read nor
    written.
    """

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return compiled(self.get_data(path), path)

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(NAMES)
        super().exec_module(module)


@dataclass(frozen=True)
class Beside:
    """Finds the modules in a folder, and in packages there."""

    folder: Path

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's place, where it is below the folder."""
        for place in [str(self.folder)] if path is None else path:
            if Path(place).is_relative_to(self.folder):
                found = FileFinder(place, (_Helper, SOURCE_SUFFIXES)).find_spec(name, target)
                if found is not None and found.loader is not None:
                    return found
        return None

    def install(self) -> None:
        """Imports of this process look in the folder first, except for Python's own modules."""
        sys.path.insert(0, str(self.folder))
        if self not in sys.meta_path:
            sys.meta_path.insert(sys.meta_path.index(PathFinder), self)
