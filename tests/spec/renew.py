"""Renews the outcomes in `vectors/` by the machines of today.

    python tests/spec/renew.py [MACHINE ...]

For a change of rows that many outcomes tell of. What it writes is what the machines do, right or
wrong: read each line of the diff against Kafka's source, as if you had written it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from epochfence.tests.cases import Outcome
from epochfence.tests.spec.vectors import FOLDER, MACHINES, OF_2, EveryFound, found, outcome

LONG = 110  # columns, beyond which a case has a line for each step


def renewed(group: dict[str, Any], case: list[Any], every: EveryFound) -> list[Any]:
    """A case with the outcomes that a machine was found to come to."""
    given, *steps = case
    new: list[Any] = [given]
    for n, step in enumerate(steps):
        texts: dict[tuple[str, int], str] = {}
        for (release, version), happened in every.items():
            row, text = happened[n]
            with_row = outcome(step[-1], release, version)[0] is not None
            texts[release, version] = f"[{row}] {text}" if with_row else text
        new.append([*step[:-1], _by_release(texts, is_both="version" not in group)])
    return new


def _by_release(texts: dict[tuple[str, int], str], *, is_both: bool) -> Outcome:
    of_1 = {release: text for (release, version), text in texts.items() if version == 1}
    of_2 = {release: text for (release, version), text in texts.items() if version == 2}
    if not is_both or not {*of_1} >= {*of_2} or of_2.items() <= of_1.items():
        named = _changes(of_1 | of_2)
    else:
        named = _changes(of_1) | {f"{name}{OF_2}": text for name, text in _changes(of_2).items()}
    return next(iter(named.values())) if len(named) == 1 else named


def _changes(texts: dict[str, str]) -> dict[str, str]:
    named: dict[str, str] = {}
    for release, text in texts.items():
        if text not in [*named.values()][-1:]:
            named[release] = text
    return named


def written(data: dict[str, Any]) -> str:
    """A file's text: a line for each state, and for each case or, of long ones, step."""
    head = [f"  {_json(name)}: {_json(data[name])}" for name in data if name not in LONG_PARTS]
    states = [f"    {_json(name)}: {_json(state)}" for name, state in data["states"].items()]
    groups = [_group(group) for group in data["groups"]]
    parts = [*head, _block("states", "{}", states), _block("groups", "[]", groups)]
    return "{\n" + ",\n".join(parts) + "\n}\n"


LONG_PARTS = ("states", "groups")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _block(name: str, brackets: str, lines: Iterable[str]) -> str:
    return f'  "{name}": {brackets[0]}\n' + ",\n".join(lines) + f"\n  {brackets[1]}"


def _group(group: dict[str, Any]) -> str:
    head = ", ".join(f"{_json(name)}: {_json(group[name])}" for name in group if name != "cases")
    return f'    {{{head}, "cases": [\n' + ",\n".join(map(_case, group["cases"])) + "\n    ]}"


def _case(case: list[Any]) -> str:
    if len(case) > 2 and len(_json(case)) > LONG:
        return f"      [{_json(case[0])},\n" + ",\n".join(_steps(case[1:])) + "]"
    return f"      {_json(case)}"


def _steps(steps: list[Any]) -> Iterator[str]:
    return (f"        {_json(step)}" for step in steps)


def main(machines: list[str]) -> None:
    """Renews the files of these machines, or all."""
    for machine in machines or MACHINES:
        file = FOLDER / f"{machine}.json"
        data = json.loads(file.read_text(encoding="utf-8"))
        for group in data["groups"]:
            group["cases"] = [
                renewed(group, case, found(machine, group, case)) for case in group["cases"]
            ]
        file.write_text(written(data), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
