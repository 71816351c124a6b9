"""A system as a TLA+ module and its TLC configuration, with the same states, steps and properties.

Each table is an action: for each choice of the actor and the message, the first row whose guard
holds. Each row is a separate definition, with its source in Kafka.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...language import Action, DeclarationError, Expression, Instance, Map, Record
from ...language.declaration.errors import declared_at
from ...language.declaration.typecheck import type_of
from ...language.expressions import folded, lift
from ...language.instances.instance import ActionRow
from ..verdict.constant_folding import declared_rows
from .expressions import Scope, Writer, conjuncts
from .layout import AND, WIDTH, Changed, Choice, Formula, Headed, Listed, hung, joined, lines
from .names import names_of


@dataclass(frozen=True)
class Module:
    """A module's name, its text and TLC's configuration."""

    name: str
    text: str
    configuration: str


def module(instance: Instance) -> Module:
    """The instance as a module. Raises DeclarationError for unsupported parts."""
    return _Module(instance).written()


class _Module:
    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.names = names_of(instance)
        self.name = self.names.operator(instance.system.name)
        # these names come first: bound variables get other names
        named = sorted((self.names.constant(n), value) for n, value in instance.constants.items())
        self.constants = {name: value for name, value in named if value >= 0}
        self.below_0 = {name: value for name, value in named if value < 0}
        self.variables = {v.name: self.names.variable(v.name) for v in instance.variables}
        self.properties = [self.names.operator(item.name) for item in instance.properties]
        self.actions = [self.names.operator(action.table) for action in instance.actions]
        self.rows = [
            [self.names.operator(f"{action.table} {row.id}") for row in action.rows]
            for action in instance.actions
        ]
        self.writer = Writer(self.names, instance.constants)

    def written(self) -> Module:
        parts = [
            self.head(),
            self.start(),
            *self.every_action(),
            self.next(),
            *self.every_property(),
        ]
        body = "\n\n".join(parts)
        return Module(self.name, f"{body}\n{'=' * 80}\n", self.configuration())

    def head(self) -> str:
        system = self.instance.system
        about = f"{system.name}, protocol {self.instance.protocol}. {system.doc}"
        head = [f" MODULE {self.name} ".center(80, "-"), *_comment(about), "EXTENDS Epochfence"]
        if self.constants:
            head += ["", *lines(Listed("CONSTANTS ", tuple(self.constants), ""))]
        # TLC's configuration has no negative numbers
        head += [f"{name} == {value}" for name, value in self.below_0.items()]
        variables = tuple(self.variables.values())
        head += ["", *lines(Listed("VARIABLES ", variables, ""))]
        head += ["", *lines(Listed("vars == <<", variables, ">>"))]
        return "\n".join(head)

    def start(self) -> str:
        writer = self.writer
        types = [writer.belongs(self.variables[v.name], v.type) for v in self.instance.variables]
        starts = ["TypeOK ==", *_bullets(types), "", "Init =="]
        first: list[Formula] = []
        for variable in self.instance.variables:
            values = tuple(writer.value(variable.type, value) for value in variable.initials)
            name = self.variables[variable.name]
            one = len(values) == 1
            first.append(f"{name} = {values[0]}" if one else Listed(f"{name} \\in {{", values, "}"))
        return "\n".join((*starts, *_bullets(first)))

    # Actions --------------------------------------------------------------------------------------

    def every_action(self) -> Iterator[str]:
        declared = declared_rows(self.instance)
        each = zip(self.instance.actions, self.actions, self.rows, strict=True)
        for action, name, rows in each:
            scope: dict[Expression, str] = {}
            for bound in action.bounds:
                scope[bound] = self.names.bound(bound.data.name, scope.values())
            if action.choice is not None:
                scope[action.choice] = self.names.bound("message", scope.values())
            for row, row_name in zip(action.rows, rows, strict=True):
                found = declared.get((action.table, row.id))  # None for rows of the network
                with declared_at(row.declared, f"table {action.table}, row {row.id!r}"):
                    yield self.row(row, row_name, scope, "" if found is None else found.source)
            with declared_at(action.declared, f"table {action.table}"):
                yield self.action(action, name, rows, scope)

    def row(self, row: ActionRow, name: str, scope: Scope, source: str) -> str:
        updates: dict[str, list[tuple[str, Formula]]] = {}
        for target, value in row.updates:
            variable, path = self.target(target, scope)
            new = self.writer.of_type(folded(lift(value)), type_of(target), scope)
            updates.setdefault(variable, []).append((path, new))
        said = ". ".join(part for part in (row.id, source) if part)
        parts: list[Formula] = list(self.conditions(row.room, scope))
        for variable, changes in updates.items():
            paths = [path for path, _ in changes]
            if "" not in paths:
                parts.append(Changed(f"{variable}' = [{variable} EXCEPT", tuple(changes)))
            elif len(paths) == 1:
                parts.append(Headed(f"{variable}' =", changes[0][1]))
            else:
                raise DeclarationError(f"{name} sets {variable} twice")
        same = [variable for variable in self.variables.values() if variable not in updates]
        if same:
            parts.append(Listed("UNCHANGED <<", tuple(same), ">>"))
        return "\n".join((*_comment(said), f"{_call(name, scope)} ==", *_bullets(parts)))

    def conditions(self, e: Expression, scope: Scope) -> Iterator[Formula]:
        """The conjuncts of `e`."""
        for part in conjuncts(folded(e)):
            yield self.writer.formula(part, scope)

    def target(self, target: Expression, scope: Scope) -> tuple[str, str]:
        """The variable that an update sets, and the place in the variable."""
        path, node = "", target
        while node.op != "field":
            if node.op == "index":
                path = f"[{self.writer.text(node.args[1], scope)}]{path}"
            else:
                assert isinstance(type_of(node.args[0]), (Record, Map))
                path = f".{node.data}{path}"
            node = node.args[0]
        if node.args:
            path = f"[{self.writer.text(node.args[0], scope)}]{path}"
        return self.variables[f"{node.data.machine}.{node.data.name}"], path

    def action(self, action: Action, name: str, rows: list[str], scope: Scope) -> str:
        """For each choice of the bound variables, the first row whose guard holds."""
        lines = [
            *_comment(f"{action.table}: the first of its rows whose guard holds"),
            f"{name} ==",
        ]
        for bound in action.bounds:
            lines.append(f"  \\E {scope[bound]} \\in {self.writer.values(bound.data.type)} :")
        if action.choice is not None:
            bag = self.writer.text(action.choice.args[0], scope)
            lines.append(f"  \\E {scope[action.choice]} \\in DOMAIN {bag} :")
        choice: Formula = "FALSE"
        for row, row_name in reversed(list(zip(action.rows, rows, strict=True))):
            guard = tuple(self.conditions(row.guard, scope))
            taken = _call(row_name, scope)
            choice = Choice(joined(AND, *guard), taken, choice) if guard else taken
        lines += [f"  {text}" for text in _bullets([*self.conditions(action.when, scope), choice])]
        return "\n".join(lines)

    def next(self) -> str:
        terminal = (*self.conditions(self.instance.terminal, {}), "UNCHANGED vars")
        lines = [
            *_comment("A run may end here: TLC calls any other end a deadlock."),
            "Terminated ==",
            *_bullets(terminal),
            "",
            "Next ==",
            *(f"  \\/ {name}" for name in (*self.actions, "Terminated")),
            "",
            "Spec == Init /\\ [][Next]_vars",
        ]
        return "\n".join(lines)

    # Properties -----------------------------------------------------------------------------------

    def every_property(self) -> Iterator[str]:
        for item, name in zip(self.instance.properties, self.properties, strict=True):
            begin, end = ("[][ ", " ]_vars") if item.kind == "step" else ("", "")
            with declared_at(item.declared, f"property {item.name}"):
                formula = self.writer.formula(item.expression, {})
            body = hung(begin, formula, WIDTH - 6 + len(begin))
            body[-1] += end
            text = "\n".join(f"  {part}" for part in body)
            yield "\n".join((*_comment(item.sentence), f"{name} ==", text))

    def configuration(self) -> str:
        """TLC's configuration: values of constants, and the properties to check."""
        kinds = {"invariant": "INVARIANT", "step": "PROPERTY"}
        lines = ["SPECIFICATION Spec", "INVARIANT TypeOK"]
        lines += [
            f"{kinds[item.kind]} {name}"
            for item, name in zip(self.instance.properties, self.properties, strict=True)
        ]
        if self.constants:
            lines += [
                "CONSTANTS",
                *(f"  {name} = {value}" for name, value in self.constants.items()),
            ]
        return "\n".join(lines) + "\n"


def _bullets(parts: Iterable[Formula]) -> list[str]:
    """The parts as a conjunction list."""
    return [f"  {text}" for part in parts for text in hung(f"{AND} ", part, WIDTH - 4)]


def _call(name: str, scope: Scope) -> str:
    return f"{name}({', '.join(scope.values())})" if scope else name


def _comment(text: str) -> list[str]:
    return [f"\\* {line}" for line in textwrap.wrap(text, WIDTH - 3)]
