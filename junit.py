"""JUnit's XML, for the results of checks and of conformance: one way to end a suite."""

from __future__ import annotations

import re
from xml.etree import ElementTree

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml_text(text: str) -> str:
    """The text without characters that XML can't have."""
    return _NO_XML.sub("\ufffd", text)


def suite_text(suite: ElementTree.Element) -> str:
    """The text of a suite, whose failures, errors and skipped cases are counted. Its texts may have
    any characters."""
    for element in suite.iter():
        element.text = element.text and xml_text(element.text)
        for name, value in element.items():
            element.set(name, xml_text(value))
    for kind, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(kind, str(len(suite.findall(f"*/{tag}"))))
    suite.set("tests", str(len(suite)))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
