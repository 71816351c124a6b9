"""Slips as people make them, planted into a declaration's source by way of its syntax tree.

A kind finds all places in a tree where it may happen. Each place is a function that changes the
tree there.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random

Place = Callable[[], object]
OTHERS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}


@dataclass
class Source:
    """A declaration's tree, with what slips need to know of it."""

    tree: ast.Module
    holders: dict[ast.AST, tuple[ast.AST, str, int | None]] = field(init=False)
    fields: dict[str, tuple[str, str]] = field(init=False)
    """Each field's machine and the text of its type, by the name of the variable."""
    members: dict[str, list[str]] = field(init=False)
    keys: list[str] = field(init=False)
    """What names an instance: `me`, a message's address."""

    def __post_init__(self) -> None:
        self.holders, self.fields, self.members, self.keys = {}, {}, {}, ["me"]
        for node in ast.walk(self.tree):
            for name, value in ast.iter_fields(node):
                for at, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                    if isinstance(child, ast.AST):
                        self.holders[child] = (node, name, at)
        for made in self.tree.body:
            if isinstance(made, ast.Assign) and isinstance(made.value, ast.Call):
                self._look(ast.unparse(made.targets[0]), made.value)

    def _look(self, name: str, call: ast.Call) -> None:
        called = ast.unparse(call.func)
        machine, _, method = called.rpartition(".")
        if method in ("field", "state_field") and machine:
            self.fields[name] = (machine, ast.unparse(call.args[1]))
        elif called == "enum":
            given = [ast.literal_eval(arg) for arg in call.args[1:]]
            self.members[name] = given + [str(each.arg) for each in call.keywords]
        elif called == "message":
            every = {str(each.arg): ast.unparse(each.value) for each in call.keywords}
            if "to" in every:
                self.keys.append(f"{name}.sender")
            named = [key for key, value in every.items() if value.isupper()]
            self.keys += [f"{name}.{key}" for key in named if key == every[key].lower()]

    def replace(self, node: ast.AST, text: str | ast.AST) -> None:
        """Puts an expression in place of a node."""
        holder, name, at = self.holders[node]
        new = ast.parse(text, mode="eval").body if isinstance(text, str) else text
        if at is None:
            setattr(holder, name, new)
        else:
            getattr(holder, name)[at] = new

    def all(self, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        """Every node of these kinds, in the order of the source."""
        return (node for node in ast.walk(self.tree) if isinstance(node, kinds))

    def calls(self, *names: str) -> Iterator[ast.Call]:
        """Every call of these functions, by name."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in names:
                yield node

    def conditions(self) -> Iterator[ast.expr]:
        """What stands as `when=`."""
        for call in self.calls("Row", "Table"):
            yield from (each.value for each in call.keywords if each.arg == "when")

    def part(self, name: str) -> Iterator[ast.Tuple]:
        """Every tuple that stands behind a keyword, or is assigned to the name."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.keyword):
                called = node.arg
            elif isinstance(node, ast.Assign):
                called = _text(node.targets[0])
            else:
                continue
            if called == name and isinstance(node.value, ast.Tuple):
                yield node.value

    def reads(self) -> Iterator[ast.Name]:
        """Every place that reads a field, but for targets of updates."""
        targets = {
            name
            for node in self.all(ast.Dict)
            if isinstance(node, ast.Dict)
            for key in node.keys
            if key is not None
            for name in (key, *ast.iter_child_nodes(key))
        }
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
                continue
            if node.id in self.fields and node not in targets:
                yield node


Kind = Callable[[Source], Iterator[Place]]
KINDS: dict[str, Kind] = {}


def _methods(s: Source, name: str) -> Iterator[tuple[ast.Call, ast.Attribute]]:
    """Calls of a method, each with what it is called on."""
    for node in ast.walk(s.tree):
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Attribute) and function.attr == name:
                yield node, function


def kind(name: str) -> Callable[[Kind], Kind]:
    """Names a kind of slip."""

    def named(find: Kind) -> Kind:
        KINDS[name] = find
        return find

    return named


def _text(node: ast.AST) -> str:
    return ast.unparse(node)


@kind("and, or for &, |")
def _(s: Source) -> Iterator[Place]:
    for node in s.all(ast.BinOp):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
            op = ast.And() if isinstance(node.op, ast.BitAnd) else ast.Or()
            yield lambda node=node, op=op: s.replace(node, ast.BoolOp(op, [node.left, node.right]))


@kind("wrong connective: & for |, | for &")
def _(s: Source) -> Iterator[Place]:
    for node in s.all(ast.BinOp):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
            op = ast.BitOr() if isinstance(node.op, ast.BitAnd) else ast.BitAnd()
            yield lambda node=node, op=op: setattr(node, "op", op)


@kind("~ forgotten")
def _(s: Source) -> Iterator[Place]:
    for node in s.all(ast.UnaryOp):
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
            yield lambda node=node: s.replace(node, node.operand)


@kind("not for ~")
def _(s: Source) -> Iterator[Place]:
    for node in s.all(ast.UnaryOp):
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
            yield lambda node=node: setattr(node, "op", ast.Not())
    for node in s.conditions():
        yield lambda node=node: s.replace(node, ast.UnaryOp(ast.Not(), node))


def _comparisons(s: Source, *signs: type[ast.cmpop]) -> Iterator[ast.Compare]:
    for node in s.all(ast.Compare):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], signs):
            yield node


@kind("chained comparison")
def _(s: Source) -> Iterator[Place]:
    for node in _comparisons(s, ast.Lt, ast.LtE, ast.Gt, ast.GtE):
        yield lambda node=node: s.replace(
            node, f"0 <= {_text(node.left)} {_text(node).removeprefix(_text(node.left))}"
        )


@kind("< for <=, <= for <")
def _(s: Source) -> Iterator[Place]:
    for node in _comparisons(s, *OTHERS):
        yield lambda node=node: setattr(node, "ops", [OTHERS[type(node.ops[0])]()])


@kind("== for !=, != for ==")
def _(s: Source) -> Iterator[Place]:
    for node in _comparisons(s, ast.Eq, ast.NotEq):
        op = ast.NotEq() if isinstance(node.ops[0], ast.Eq) else ast.Eq()
        yield lambda node=node, op=op: setattr(node, "ops", [op])


@kind("is for ==")
def _(s: Source) -> Iterator[Place]:
    for node in _comparisons(s, ast.Eq, ast.NotEq):
        op = ast.Is() if isinstance(node.ops[0], ast.Eq) else ast.IsNot()
        yield lambda node=node, op=op: setattr(node, "ops", [op])


@kind("in for .is_in")
def _(s: Source) -> Iterator[Place]:
    for node, method in _methods(s, "is_in"):
        yield lambda node=node, method=method: s.replace(
            node, ast.Compare(method.value, [ast.In()], node.args)
        )


@kind("wrong quantifier: any_of for all_of")
def _(s: Source) -> Iterator[Place]:
    for node in s.calls("all_of", "any_of"):
        other = "any_of" if _text(node.func) == "all_of" else "all_of"
        yield lambda node=node, other=other: setattr(node, "func", ast.Name(other, ast.Load()))


@kind("wrong address")
def _(s: Source) -> Iterator[Place]:
    for node in s.all(ast.Attribute, ast.Name):
        text = _text(node)
        if text in s.keys and not isinstance(getattr(node, "ctx", None), ast.Store):
            for other in [*s.keys, "0"]:
                if other != text:
                    yield lambda node=node, other=other: s.replace(node, other)
    for call in s.calls("message"):
        named = {each.arg: each for each in call.keywords}
        if "sender" in named:
            yield lambda call=call, gone=named["sender"]: call.keywords.remove(gone)


@kind("missing row")
def _(s: Source) -> Iterator[Place]:
    for rows in s.part("rows"):
        for row in rows.elts:
            yield lambda rows=rows, row=row: rows.elts.remove(row)


@kind("rows in the wrong order")
def _(s: Source) -> Iterator[Place]:
    for rows in s.part("rows"):
        for at in range(len(rows.elts) - 1):
            yield lambda e=rows.elts, at=at: e.insert(at, e.pop(at + 1))


@kind("unreachable guard")
def _(s: Source) -> Iterator[Place]:
    for node in s.conditions():
        yield lambda node=node: s.replace(node, f"({_text(node)}) & ~({_text(node)})")


@kind("guard forgotten")
def _(s: Source) -> Iterator[Place]:
    for call in s.calls("Row", "Table"):
        for each in call.keywords:
            if each.arg == "when":
                yield lambda call=call, each=each: call.keywords.remove(each)


@kind("stale value: before for after, n for n + 1")
def _(s: Source) -> Iterator[Place]:
    for node in s.calls("after"):
        yield lambda node=node: s.replace(node, node.args[0])
    for node in s.all(ast.BinOp):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add | ast.Sub):
            continue
        if isinstance(node.right, ast.Constant):
            yield lambda node=node: s.replace(node, node.left)
    for node in s.all(ast.Name):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            old = {"heard": "votes", "refused": "refusals", "longer": "held"}.get(node.id)
            if old in s.fields:
                yield lambda node=node, old=old: setattr(node, "id", old)


@kind("wrong field of the same type")
def _(s: Source) -> Iterator[Place]:
    for node in s.reads():
        for other, of in s.fields.items():
            if other != node.id and of[1] == s.fields[node.id][1]:
                yield lambda node=node, other=other: setattr(node, "id", other)


@kind("constant for a field")
def _(s: Source) -> Iterator[Place]:
    for node in s.reads():
        made = s.fields[node.id][1]
        first = {"Optional": "None", "Set": "set_of()", "Sequence": "sequence_of()"}
        text = first.get(made.partition("(")[0], "lift(0)")
        if made in s.members:
            text = f"lift({made}.{s.members[made][0]})"
        holder, _, _ = s.holders[node]
        at = isinstance(holder, ast.Attribute) and holder.attr == "at"
        target = (
            s.holders[holder][0] if at else holder if isinstance(holder, ast.Subscript) else node
        )
        yield lambda target=target, text=text: s.replace(target, text)


@kind("update left out")
def _(s: Source) -> Iterator[Place]:
    for node in s.all(ast.keyword):
        if isinstance(node, ast.keyword) and node.arg == "set" and isinstance(node.value, ast.Dict):
            for at in range(len(node.value.keys)):
                yield lambda d=node.value, at=at: (d.keys.pop(at), d.values.pop(at))


def _without(s: Source, *names: str) -> Iterator[Place]:
    for row in s.calls("Row"):
        for each in row.keywords:
            if each.arg in names:
                yield lambda row=row, each=each: row.keywords.remove(each)


@kind("message not sent")
def _(s: Source) -> Iterator[Place]:
    return _without(s, "send", "reply")


@kind("answers left out")
def _(s: Source) -> Iterator[Place]:
    for call in s.calls("message"):
        for each in call.keywords:
            if each.arg == "answers":
                yield lambda call=call, each=each: call.keywords.remove(each)


@kind("goto left out")
def _(s: Source) -> Iterator[Place]:
    return _without(s, "goto")


@kind("table missing")
def _(s: Source) -> Iterator[Place]:
    for tables in s.part("TABLES"):
        for table in tables.elts:
            yield lambda tables=tables, table=table: tables.elts.remove(table)


@kind("channel missing")
def _(s: Source) -> Iterator[Place]:
    for channels in s.part("channels"):
        for each in channels.elts:
            yield lambda channels=channels, each=each: channels.elts.remove(each)


def _other_members(s: Source, node: ast.AST) -> Iterator[Place]:
    if isinstance(node, ast.Attribute) and _text(node.value) in s.members:
        for other in s.members[_text(node.value)]:
            if other != node.attr:
                yield lambda node=node, other=other: setattr(node, "attr", other)


@kind("goto to the wrong state")
def _(s: Source) -> Iterator[Place]:
    for node in s.all(ast.keyword):
        if isinstance(node, ast.keyword) and node.arg == "goto":
            yield from _other_members(s, node.value)


@kind("wrong state in a condition")
def _(s: Source) -> Iterator[Place]:
    for node in _comparisons(s, ast.Eq, ast.NotEq):
        yield from _other_members(s, node.comparators[0])


@kind("premise that never holds")
def _(s: Source) -> Iterator[Place]:
    for _, method in _methods(s, "implies"):
        p = _text(method.value)
        yield lambda method=method, p=p: s.replace(method.value, f"({p}) & ~({p})")


@kind("property of constants alone")
def _(s: Source) -> Iterator[Place]:
    names = [
        _text(a.targets[0])
        for a in s.tree.body
        if isinstance(a, ast.Assign) and _text(a.value).startswith("constant(")
    ]
    for node in s.calls("invariant"):
        for name in names:
            yield lambda node=node, name=name: s.replace(node.args[1], f"lift({name}) >= 1")


@kind("comma of a tuple forgotten")
def _(s: Source) -> Iterator[Place]:
    for node in s.all(ast.Tuple):
        if isinstance(node, ast.Tuple) and len(node.elts) == 1:
            yield lambda node=node: s.replace(node, node.elts[0])


@kind("generator for a tuple")
def _(s: Source) -> Iterator[Place]:
    for name in ("rows", "properties", "channels", "TABLES"):
        for node in s.part(name):
            yield lambda node=node: s.replace(node, f"(each for each in {_text(node)})")


@kind("a name declared twice")
def _(s: Source) -> Iterator[Place]:
    def alike(calls: list[ast.Call]) -> Iterator[Place]:
        for one in calls:
            for other in calls:
                if _text(one.args[0]) != _text(other.args[0]):
                    yield lambda one=one, other=other: one.args.__setitem__(0, other.args[0])

    for name in ("Machine", "message", "event", "Key", "constant", "enum", "invariant"):
        yield from alike(list(s.calls(name)))
    for machine in dict.fromkeys(of[0] for of in s.fields.values()):
        yield from alike(list(s.calls(f"{machine}.field", f"{machine}.state_field")))
    for rows in s.part("rows"):
        yield from alike([row for row in rows.elts if isinstance(row, ast.Call)])
    for node in s.all(ast.Dict):
        if isinstance(node, ast.Dict) and len(node.keys) > 1:
            yield lambda node=node: node.keys.__setitem__(1, node.keys[0])


@kind("budget left out")
def _(s: Source) -> Iterator[Place]:
    for call in s.calls("System"):
        for each in call.keywords:
            if each.arg == "budgets":
                yield lambda call=call, each=each: call.keywords.remove(each)


@kind("parameter called as the machine's key")
def _(s: Source) -> Iterator[Place]:
    tables = {_text(t.args[1]): _text(t.args[0]) for t in s.calls("Table")}
    keys = {
        _text(a.targets[0]): a.value.args[1]
        for a in s.tree.body
        if isinstance(a, ast.Assign)
        and isinstance(a.value, ast.Call)
        and _text(a.value.func) == "Machine"
        and len(a.value.args) > 1
    }
    for assigned in s.tree.body:
        if isinstance(assigned, ast.Assign) and isinstance(assigned.value, ast.Call):
            machine = tables.get(_text(assigned.targets[0]), "")
            if _text(assigned.value.func) == "event" and machine in keys:
                given = ast.keyword(_text(keys[machine]).lower(), deepcopy(keys[machine]))
                yield lambda call=assigned.value, given=given: call.keywords.append(given)


@kind("response to the wrong message")
def _(s: Source) -> Iterator[Place]:
    names = [
        _text(a.targets[0])
        for a in s.tree.body
        if isinstance(a, ast.Assign) and _text(a.value).startswith("message(")
    ]
    for node in s.all(ast.keyword):
        if isinstance(node, ast.keyword) and node.arg in ("answers", "response"):
            for name in names:
                if name != _text(node.value):
                    yield lambda node=node, name=name: s.replace(node.value, name)


@kind("+ for -, - for +")
def _(s: Source) -> Iterator[Place]:
    for node in s.all(ast.BinOp):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
            yield lambda node=node, op=op: setattr(node, "op", op)


@kind("a type without its brackets")
def _(s: Source) -> Iterator[Place]:
    for node in s.calls("Bool", "Int", "Set", "Optional", "Sequence", "Map"):
        yield lambda node=node: s.replace(node, node.func)


@kind("channel of the default capacity")
def _(s: Source) -> Iterator[Place]:
    for call in s.calls("Channel"):
        if len(call.args) == 2:
            yield lambda call=call: call.args.pop()


@kind("premise implies the goal")
def _(s: Source) -> Iterator[Place]:
    for call in s.calls("leads_to"):
        premise, goal = call.args[1:3]
        yield lambda call=call, premise=premise, goal=goal: call.args.__setitem__(
            2, ast.BinOp(deepcopy(premise), ast.BitOr(), goal)
        )
    for call in s.calls("always_possible"):
        goal = call.args[1]
        yield lambda call=call, goal=goal: call.args.__setitem__(
            1, ast.BinOp(deepcopy(goal), ast.BitOr(), ast.UnaryOp(ast.Invert(), goal))
        )


@kind("row for one value alone")
def _(s: Source) -> Iterator[Place]:
    messages = {
        _text(a.targets[0]): a.value
        for a in s.tree.body
        if isinstance(a, ast.Assign) and _text(a.value).startswith("message(")
    }
    for table in s.calls("Table"):
        made = messages.get(_text(table.args[1]))
        fields = [] if made is None or not isinstance(made, ast.Call) else made.keywords
        rows = next((x.value for x in table.keywords if x.arg == "rows"), None)
        last = rows.elts[-1] if isinstance(rows, ast.Tuple) and rows.elts else None
        if not isinstance(last, ast.Call) or any(x.arg == "when" for x in last.keywords):
            continue
        for each in fields:
            kind_of = _text(each.value)
            if each.arg in ("answers", "to", "sender") or kind_of[0] in "'\"":
                continue
            value = f"{kind_of}.{s.members[kind_of][0]}" if kind_of in s.members else "0"
            value = "False" if kind_of == "Bool()" else value
            when = ast.parse(f"{_text(table.args[1])}.{each.arg} == {value}", mode="eval").body
            yield lambda last=last, when=when: last.keywords.append(ast.keyword("when", when))


@kind("binder of the caller")
def _(s: Source) -> Iterator[Place]:
    quantifiers = ("all_of", "any_of")
    for outer in s.calls(*quantifiers):
        for inner in ast.walk(outer.args[1]):
            if not isinstance(inner, ast.Call) or _text(inner.func) not in quantifiers:
                continue
            own, other = _text(inner.args[0]), _text(outer.args[0])
            if own.isidentifier() and other.isidentifier() and own != other:
                for node in ast.walk(inner):
                    if isinstance(node, ast.Name) and node.id == own:
                        yield lambda inner=inner, own=own, other=other: _renamed(inner, own, other)
                        break


def _renamed(inner: ast.AST, own: str, other: str) -> None:
    for node in ast.walk(inner):
        if isinstance(node, ast.Name) and node.id == own:
            node.id = other


@kind("position of a name that nothing binds")
def _(s: Source) -> Iterator[Place]:
    keys = [
        _text(a.targets[0])
        for a in s.tree.body
        if isinstance(a, ast.Assign) and _text(a.value).startswith("Key(")
    ]
    for node in s.all(ast.Compare):
        if not isinstance(node, ast.Compare) or not isinstance(node.comparators[0], ast.Constant):
            continue
        for key in keys if isinstance(node.comparators[0].value, int) else ():
            text = f"position({key}.variable('u'))"
            yield lambda node=node, text=text: s.replace(node.comparators[0], text)
    for call in s.calls("position"):
        yield lambda call=call: s.replace(call.args[0], "element('u', held)")


@kind("fairness of a fault")
def _(s: Source) -> Iterator[Place]:
    for call in s.calls("System"):
        budgets = next((x.value for x in call.keywords if x.arg == "budgets"), None)
        for events in budgets.keys if isinstance(budgets, ast.Dict) else ():
            for event in events.elts if isinstance(events, ast.Tuple) else [events]:
                if event is None:
                    continue
                made = ast.parse(f"weak_fairness({_text(event)})", mode="eval").body
                yield lambda call=call, made=made: call.keywords.append(
                    ast.keyword("fairness", made)
                )


def plant(source: str, name: str, random: Random) -> str | None:
    """The source with a slip of a kind at some place; None where no place is fit for it."""
    parsed = Source(ast.parse(source))
    places = list(KINDS[name](parsed))
    if not places:
        return None
    random.choice(places)()
    return ast.unparse(ast.fix_missing_locations(parsed.tree)) + "\n"
