"""JUnit's XML, for the results of checks and of conformance: one way to end a suite."""

from __future__ import annotations

import re
from xml.etree import ElementTree

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def suite_text(suite: ElementTree.Element) -> str:
    """The text of a suite, which `end` has not yet ended."""
    end(suite)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def end(suite: ElementTree.Element) -> None:
    """Counts a suite's cases, and those that failed, ended in an error or were skipped. Its texts
    may have any characters: one that XML can't have is replaced."""
    for element in suite.iter():
        element.text = element.text and _NO_XML.sub("\ufffd", element.text)
        for name, value in element.items():
            element.set(name, _NO_XML.sub("\ufffd", value))
    suite.set("tests", str(len(suite)))
    for kind, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(kind, str(len(suite.findall(f"*/{tag}"))))
