"""The site's page of a finding: its facts in a table, its entry, and a text for Kafka's tracker."""

from __future__ import annotations

import re
from textwrap import indent

from ...spec.bugs.findings import BROKER, FINDINGS, Finding

OVERVIEW = "findings.md"
_PARAGRAPH = re.compile(r"(?<!\n)\n(?![\n*|#]|\d+\. |```)\s*")
_ROW = re.compile(r"^\| (\d+) \| \[.*?\]\(.*?\) \| (.*) \|$", re.MULTILINE)
_NAMES = ("severity", "releases", "needs", "seen at", "ticket")


def decorated(pages: dict[str, str]) -> dict[str, str]:
    """The pages of findings, by name, with their facts and texts.

    `pages` has the overview and a page for each finding, as `sections.cut` makes them.
    """
    facts = {int(number): row.split(" | ") for number, row in _ROW.findall(pages[OVERVIEW])}
    found: dict[str, str] = {}
    for one in FINDINGS:
        name = f"findings/{one.number}.md"
        before, title, entry = re.split(r"(?m)^(# .*\n)", pages[name], maxsplit=1)
        entry, way = entry.rstrip().rsplit("\n\n", 1)
        details = dict(zip(_NAMES, facts[one.number], strict=True))
        if not one.bug:
            details["ticket"] = "none: the text below is ready to file"
        rows = ["| | |", "|---|---|", *(f"| {key} | {value} |" for key, value in details.items())]
        rows.append(f"| remedy | {one.remedy} |")
        parts = [f"{before}{title}", "\n".join(rows), entry.strip()]
        if not one.bug:
            text = indent(f"```text\n{report(one, entry, details['seen at'])}```", "    ")
            parts.append(f'??? note "The text of a ticket"\n\n{text}')
        found[name] = "\n\n".join([*parts, way]) + "\n"
    return found


def report(finding: Finding, entry: str, seen: str) -> str:
    """The text of a ticket, in the markup of Kafka's tracker. `entry` is Markdown."""
    seen_at = f" (seen at {seen})" if re.match(r"\d", seen) else ""
    return (
        f"Summary: {finding.title}\n"
        f"Component: {'core' if finding.part == BROKER else 'clients'}\n"
        f"Affects: {finding.affected}{seen_at}\n"
        f"Effect: {finding.damage.value}\n"
        f"Needs: {finding.needs}\n"
        f"Workaround: {finding.remedy}\n\n"
        f"{_jira(entry)}\n"
    )


def _jira(markdown: str) -> str:
    """Markdown in the tracker's markup, a paragraph in one line."""
    parts = re.split(r"^```\w*\n(.*?)^```$", markdown.strip(), flags=re.MULTILINE | re.DOTALL)
    return "".join(
        f"{{code}}\n{part}{{code}}" if at % 2 else _prose(part) for at, part in enumerate(parts)
    )


def _prose(text: str) -> str:
    text = _PARAGRAPH.sub(" ", text)
    text = re.sub(r"\[([^\]]*)\]\((https?://[^)]*)\)", r"[\1|\2]", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`([^`]*)`", r"{{\1}}", text)
    text = re.sub(r"\*\*([^*]*)\*\*", r"*\1*", text)
    text = re.sub(r"^\d+\. ", "# ", text, flags=re.MULTILINE)
    text = re.sub(r"^\|[-:| ]+\|\n", "", text, flags=re.MULTILINE)
    return text.replace("\n\n\n", "\n\n")
