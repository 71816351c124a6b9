"""Suites in JUnit's XML."""

from __future__ import annotations

from xml.etree import ElementTree as Xml

from epochfence.junit import suite_text


def test_a_suite_is_counted_and_is_xml_whatever_a_broker_says() -> None:
    suite = Xml.Element("testsuite", name="one")
    for tag in ("failure", "skipped", ""):
        case = Xml.SubElement(suite, "testcase", classname="a", name="\x00b")
        if tag:
            Xml.SubElement(case, tag, message="\x1b[1m").text = "c\ud800\x07"
    read = Xml.fromstring(suite_text(suite))
    counts = {name: read.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "3", "failures": "1", "errors": "0", "skipped": "1"}
    (failure,) = read.findall("*/failure")
    assert (failure.get("message"), failure.text) == ("\ufffd[1m", "c\ufffd\ufffd")
    assert {case.get("name") for case in read} == {"\ufffdb"}
