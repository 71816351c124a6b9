"""Lemmas are written for a reader: what each says and why it holds, once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

from epochfence.spec import lemmas
from epochfence.spec.systems import shipped

MODULES = sorted(Path(*lemmas.__path__).rglob("[a-z]*.py"))
SYSTEMS = ("transactions", "idempotence", "producer-ids", "replication")


def declared(module: Path) -> Iterator[tuple[str, str]]:
    """The names of a module's lemmas, each with the text behind it."""
    body = ast.parse(module.read_text(encoding="utf-8")).body
    for node, behind in zip(body, [*body[1:], ast.Pass()], strict=True):
        match node:
            case ast.Assign(
                value=ast.Call(func=ast.Name("invariant"), args=[ast.Constant(str(name)), *_])
            ):
                text = behind.value if isinstance(behind, ast.Expr) else None
                yield name, text.value if isinstance(text, ast.Constant) else ""  # type: ignore[misc]
            case _:
                pass


EACH = [(module, *lemma) for module in MODULES for lemma in declared(module)]


def test_each_lemma_of_a_module_is_a_lemma_of_a_system() -> None:
    of_systems = [item.name for name in SYSTEMS for item in shipped(name).lemmas]
    assert sorted(name for _, name, _ in EACH) == sorted(of_systems)


def test_the_text_behind_a_lemma_says_why_it_holds() -> None:
    assert [f"{module.name}: {name}" for module, name, why in EACH if not why] == []


@pytest.mark.parametrize("name", SYSTEMS)
def test_no_two_lemmas_say_the_same(name: str) -> None:
    pairs = combinations(shipped(name).lemmas, 2)
    same = [(a.name, b.name) for a, b in pairs if a.expression.same_as(b.expression)]
    assert same == []
    sentences = [item.sentence for item in shipped(name).every_property]
    assert len(sentences) == len({*sentences})
