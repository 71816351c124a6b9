"""The site's page of each known bug: its effect, its releases, the run, and the fix."""

from __future__ import annotations

import re

from markdown.extensions.toc import slugify

from ...spec.bugs import BUGS, Bug
from ...spec.bugs.damage import DAMAGES
from ...spec.bugs.findings import FINDINGS
from ..playground.puzzles import PUZZLES
from .chinese import TITLES

OVERVIEW = "bugs.md"
_ROW = re.compile(r"^\| `([^`]+)`", re.MULTILINE)
_REMARK = re.compile(r"^\* \*\*([^*]+)\*\*.*?(?=\n\* |\n\n|\Z)", re.MULTILINE | re.DOTALL)
_TICKET = re.compile(r"\b(KAFKA-\d+)\b")
_JIRA = "https://issues.apache.org/jira/browse/"


def address(bug: Bug) -> str:
    """The name of the bug's page, and its anchor in the overview."""
    return slugify(bug.id, "-")


def added(pages: dict[str, str]) -> dict[str, str]:
    """The bugs' pages, and the overview with links to them.

    `pages` has the overview and the pages of its sections, as `sections.cut` makes them.
    """
    overview = pages[OVERVIEW]
    cells = {
        row.split("`")[1]: row.split(" | ") for row in overview.splitlines() if _ROW.match(row)
    }
    text = "\n\n".join(page for name, page in pages.items() if name.startswith("bugs/"))
    remarks = {
        bug.id: found[0].removeprefix("* ")
        for found in _REMARK.finditer(text)
        for bug in BUGS
        if bug.id in re.findall(r"[\w.-]+", found[1])
    }
    found = {
        f"bugs/{address(bug)}.md": _page(bug, cells[bug.id], remarks.get(bug.id, ""))
        for bug in BUGS
    }

    def linked(match: re.Match[str]) -> str:
        anchor = slugify(match[1], "-")
        return f"| [`{match[1]}`](bugs/{anchor}.md){{ #{anchor} }}"

    return {OVERVIEW: _ROW.sub(linked, overview), **found, "zh/bugs.md": _in_chinese(cells)}


def _in_chinese(cells: dict[str, list[str]]) -> str:
    """The table in Chinese, with links to the pages."""
    rows = [
        f"| [`{bug.id}`](../bugs/{address(bug)}.md) | {TITLES.get(bug.id, bug.title)} "
        f"| {bug.affected} | `{bug.property}` | {cells[bug.id][4]} |"
        for bug in BUGS
    ]
    return (
        f"# 已知缺陷\n\n{len(BUGS)} 个已公开的缺陷，属于 Kafka 的协议、它的客户端和其他产品。"
        "每一个都有违反某个性质的最短执行。`epochfence bugs ID` 运行三次："
        "有缺陷的版本、修复后的版本，以及去掉修复的修复版本。\n\n"
        "| 缺陷 | 出了什么错 | 受影响的版本 | 违反的性质 | 步数 |\n|---|---|---|---|--:|\n"
        + "\n".join(rows)
        + "\n"
    )


def _page(bug: Bug, cells: list[str], remark: str) -> str:
    _, _, _, _, steps, broken, fixed, *_ = cells
    system = bug.declared
    rule = next(
        each.sentence
        for each in (*system.properties, *system.progress)
        if each.name == bug.property
    )
    finding = next((each for each in FINDINGS if each.bug == bug.id), None)
    puzzle = next((each for each in PUZZLES if each.of == bug.id), None)
    damage = DAMAGES.get(bug.property)
    facts = {
        "severity": damage.value if damage else "",
        "releases": bug.affected,
        "also called": ", ".join(_ticket(name) for name in bug.also),
        "breaks": f"`{bug.property}`: {rule}",
        "for an application": puzzle.meaning if puzzle else "",
        "shortest run": f"{steps} steps, at {bug.shown_at} ({broken} states)",
        "fixed": f"at {bug.fixed_at} ({fixed} states), by "
        + ", ".join(f"`{name}`" for name in bug.fix),
        "system": f"`{bug.system}`",
        "ticket": _ticket(bug.id) if _TICKET.match(bug.id) else "",
        "source": _ticket(bug.source),
    }
    rows = [f"| {name} | {value} |" for name, value in facts.items() if value]
    fixes = [
        f"* `{each.name}`: {each.sentence}"
        for each in system.protocols.infos
        if each.name in bug.fix
    ]
    parts = [
        "---\nhide: [toc]\n---",
        "[Known bugs](../bugs.md)",
        f"# {bug.id}: {bug.title} {{ #{address(bug)} }}",
        "\n".join(["| | |", "|---|---|", *rows]),
        "\n".join(["**The fix:**", "", *fixes]) if fixes else "",
        bug.note,
        remark,
        f"[Finding {finding.number}](../findings/{finding.number}.md) is this bug."
        if finding
        else "",
        "The command prints the run, checks the fix, and checks that the run is there again "
        "without it. `--trace FILE` saves the run, for `epochfence replay` and its pictures.",
        f"```sh\nepochfence bugs {bug.id}\n```",
        "It is a puzzle of [the playground](../playground.md)." if puzzle else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _ticket(text: str) -> str:
    return _TICKET.sub(rf"[\1]({_JIRA}\1)", text)
