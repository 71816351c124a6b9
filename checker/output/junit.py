"""A result as JUnit XML for test servers: a test case for each property."""

from __future__ import annotations

from xml.etree import ElementTree

from ...junit import end
from ...language import Instance
from ..trace.chart.chart import chart_of
from ..trace.chart.text import to_lines
from ..trace.trace import Trace
from ..verdict.result import Covered, Result, Verdict
from ..verdict.vacuity import reason
from ..verdict.violation import DEADLOCK, NO_ROW
from .report import named

WITHOUT_END = (Verdict.INCONCLUSIVE, Verdict.INTERRUPTED)
ENDED, NOT_BROKEN = "the search ended early", "no walk broke it, which proves nothing"


def to_junit(instance: Instance, result: Covered) -> bytes:
    """The result as a test suite. A broken property is a failure, with its counterexample as a
    chart. A property of unknown truth is skipped if another violation ended the search, or if
    random walks found nothing. It is an error in an inconclusive run, and in a run that continued
    after a violation. A property that holds vacuously is skipped. A deadlock is the failure of a
    separate test case, and an unfinished run is the error of one.
    """
    sentences = {x.name: x.sentence for x in (*instance.properties, *instance.progress)}
    open_ended = result.verdict in WITHOUT_END and result.exit_code != 0
    ended = ENDED if isinstance(result, Result) else NOT_BROKEN
    verdicts = {item.broken or DEADLOCK: item.verdict for item in result.counterexamples}
    suite = ElementTree.Element("testsuite", name=named(result))

    def case(name: str, tag: str = "", message: str = "", text: str = "") -> None:
        of = ElementTree.SubElement(suite, "testcase", classname=result.system, name=name)
        of.set("time", "0")
        if tag:
            outcome = ElementTree.SubElement(of, tag, message=message)
            outcome.text = text or None
            if tag != "skipped":  # some readers require a type
                outcome.set("type", verdicts.get(name, result.verdict).name)

    for item in (item for item in result.properties if item.name != DEADLOCK):
        sentence = sentences.get(item.name, "")
        if item.verdict == "broken":
            message = next((run.conclusion for run in _runs(result, item.name)), sentence)
            case(item.name, "failure", message or result.reason, _chart(result, item.name))
        elif item.verdict == "unknown":
            case(item.name, "error" if open_ended or result.each else "skipped", ended)
        elif item.name in result.untested:
            case(item.name, "skipped", f"holds vacuously ({reason(result.untested[item.name])})")
        else:
            case(item.name)
    if any(item.verdict is Verdict.DEADLOCK for item in result.counterexamples):
        case(DEADLOCK, "failure", NO_ROW, _chart(result, ""))
    elif open_ended:
        case("an end of the run", "error", result.reason)
    end(suite)
    suite.set("time", f"{result.seconds + result.compile_seconds:.3f}")
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _runs(result: Covered, broken: str) -> list[Trace]:
    """The counterexamples of a property, or of a deadlock, which has no name."""
    return [item.trace for item in result.counterexamples if item.broken == broken]


def _chart(result: Covered, broken: str) -> str:
    lines: list[str] = []
    for trace in _runs(result, broken):
        lines += ["", *to_lines(chart_of(trace)), trace.conclusion, *trace.why]
    return "\n".join([*lines, ""]) if lines else ""
