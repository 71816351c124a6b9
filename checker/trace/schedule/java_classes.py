"""A run as a Java test of Kafka's own coordinators, with simulated clients, leaders and network.

The steps inside a broker are in checker/trace/schedule/java/classes/Coordinators.java.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .java_test import comment
from .schedule import NoScheduleError

if TYPE_CHECKING:
    from ..chart.chart import Arrow, Chart, ChartStep

_HERE: Final = Path(__file__).with_name("java") / "classes"
_FILES: Final = ("Coordinators.java", "Kafka.java", "StandIns.java", "TransactionLog.java")
ENDS: Final[Mapping[str, str]] = {
    "AnswerStands": "answerStands",
    "BumpedOnce": "bumpedOnce",
    "EpochsNotWasted": "epochsNotWasted",
    "NotFencedByItself": "notFencedByItself",
    "OneEpochForADecision": "oneEpochForADecision",
    "PrepareCompletes": "prepareCompletes",
    "ReservedEpoch": "reservedEpoch",
}
"""How a coordinator shows a property at the end of a run."""
_REQUESTS: Final = ("InitProducerId", "AddPartitionsToTxn", "EndTxn", "AddPartitionsByLeader")
_ANSWERS: Final = {f"{name}Response": name for name in _REQUESTS}
_COORDINATOR: Final = "transaction"
_STEPS: Final = {
    "log append": "logAppend()",
    "append failure": "appendFailure()",
    "late answer to a marker": "lateAnswer()",
    "transaction timeout": "timeOut()",
    "continue the fence": "continueFence()",
}
"""Steps of coordinators without a request, as calls; a completion begins with the append before
it."""
_OF_OTHERS: Final = (
    "initTransactions", "beginTransaction", "send", "drain", "commitTransaction",
    "abortTransaction", "batch expires", "begin completion", "Produce", "ProduceResponse",
    "WriteTxnMarkers",
)  # fmt: skip
"""Steps of clients, of leaders, and steps that follow: they need no call."""
_TEST: Final = """\
import org.apache.kafka.common.requests.TransactionResult;
import org.junit.jupiter.api.Test;

/*
{reason}
*/
class {name} {{
    @Test
    void run() throws Exception {{
        Coordinators run = new Coordinators({version}, "{release}");
{before}        run.follow(() -> {{
{body}
        }});
        // {broken}
        run.{end}();
    }}
}}
"""


def class_test(
    chart: Chart, broken: str, reason: str, release: str, *, version: int, largest: int
) -> tuple[str, dict[str, str]]:
    """The name of the test, and the files of its Maven project, by path.

    `broken` is the property that the run breaks, `reason` describes the run. `release` is the
    release that takes all steps, or empty. `version` is the transaction version. `largest` is the
    largest epoch of the run; it represents Kafka's. Raises NoScheduleError if coordinators alone
    can't take the run, or don't show whether the property holds.
    """
    if broken not in ENDS:
        known = ", ".join(sorted(ENDS))
        raise NoScheduleError(f"{broken or 'its end'} isn't visible on a coordinator (as {known})")
    lines = [f"            {line}" for line in _Steps(chart).lines()]
    before = f"        run.beginBefore({largest});\n" if _is_used_up(chart, largest) else ""
    name = f"{broken}Test"
    test = _TEST.format(
        name=name,
        version=version,
        release=release,
        before=before,
        body="\n".join(lines),
        broken=broken,
        end=ENDS[broken],
        reason=comment(reason),
    )
    source = "src/test/java"
    files = {f"{source}/{file}": (_HERE / file).read_text(encoding="utf-8") for file in _FILES}
    files["pom.xml"] = (_HERE / "pom.xml").read_text(encoding="utf-8")
    files[f"{source}/{name}.java"] = test
    return name, files


def _is_used_up(chart: Chart, largest: int) -> bool:
    """Whether the run reaches the largest epoch, or a second producer id for want of epochs."""
    wanted = (
        f"producer_epoch: {largest - 1} → {largest}",
        "producer_id: producer_id0 → producer_id1",
    )
    return any(text.lstrip(".").endswith(wanted) for step in chart.steps for text in step.changes)


class _Steps:
    """The steps of a run as calls of Coordinators."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self.created: dict[tuple[object, ...], str] = {}
        self.waiting: list[tuple[str, str, str]] = []
        """Requests that are taken and unanswered: client, API, name."""
        self.answers: dict[int, str] = {}
        """By the identity of an answer, the request that it is to."""

    def lines(self) -> Iterator[str]:
        """A line for each call, after the number of its step."""
        later = self._later()
        for step in self.chart.steps:
            calls = [*self._of(step), *later.get(step.number, ())]
            for arrow in step.sent:
                self._answers(arrow)
            if calls:
                yield f"run.step({step.number}); // {step.event} [{step.row}]"
                yield from calls

    def _later(self) -> dict[int, list[str]]:
        """For each step, the lines that create the requests that a client sends there. The
        coordinator takes them at a later step.
        """
        found: dict[int, list[str]] = {}
        for step in self.chart.steps:
            arrow = step.took
            if arrow is None or arrow.message not in _REQUESTS or arrow.target != _COORDINATOR:
                continue
            key = _key(arrow)
            if key not in self.created:
                self.created[key] = name = f"asked{len(self.created) + 1}"
                sent, client = self._origin(arrow)
                found.setdefault(sent, []).append(f"var {name} = run.{_asks(arrow, client)};")
        return found

    def _origin(self, arrow: Arrow) -> tuple[int, str]:
        """The step of a client's request, and the client. A leader's request belongs to the client
        of its batch.
        """
        if arrow.message != "AddPartitionsByLeader":
            return arrow.sent, arrow.source
        produce = self.chart.steps[arrow.sent - 1].took
        return (arrow.sent if produce is None else produce.sent), dict(arrow.fields)["producer"]

    def _of(self, step: ChartStep) -> Iterator[str]:
        took, event = step.took, step.event
        if took is not None and took.fate:
            if took.fate != "lost" or took.message not in _ANSWERS:
                raise self._cannot(step)
        elif took is not None and took.message in _REQUESTS:
            name = self.created[_key(took)]
            self.waiting.append((self._origin(took)[1], took.message, name))
            yield f"run.takes({name});"
        elif took is not None and took.message in _ANSWERS:
            if id(took) not in self.answers:
                raise self._cannot(step)
            yield f'run.told({self.answers[id(took)]}, "{dict(took.fields)["error"]}");'
        elif event == "WriteTxnMarkersResponse":
            assert took is not None
            marker = self.chart.steps[took.sent - 1].took
            if marker is None:
                raise self._cannot(step)
            yield f"run.markerWritten({marker.sent});"
        elif event == "send marker":
            yield f"run.sendMarker({step.number}, {_number(step.detail)});"
        elif event == "coordinator failover":
            yield f"run.failOver({str(step.detail == 'yes').lower()});"
        elif event in _STEPS:
            yield f"run.{_STEPS[event]};"
        elif event not in _OF_OTHERS:
            raise self._cannot(step)

    def _answers(self, arrow: Arrow) -> None:
        """Of requests of one client and API, the first that is taken is answered first."""
        if arrow.message not in _ANSWERS:
            return
        fields = dict(arrow.fields)
        of = fields.get("producer", arrow.target), _ANSWERS[arrow.message]
        for at, (client, api, name) in enumerate(self.waiting):
            if (client, api) == of:
                self.answers[id(arrow)] = name
                del self.waiting[at]
                return

    def _cannot(self, step: ChartStep) -> NoScheduleError:
        return NoScheduleError(
            f"step {step.number} is {step.event}, which isn't a step of Kafka's coordinators alone"
        )


def _key(arrow: Arrow) -> tuple[object, ...]:
    """The data that both arrows of a duplicated request share."""
    return arrow.message, arrow.source, arrow.fields, arrow.sent


def _asks(arrow: Arrow, client: str) -> str:
    fields = dict(arrow.fields)
    match arrow.message:
        case "InitProducerId":
            return f'initProducerId("{client}")'
        case "EndTxn":
            return f'endTxn("{client}", TransactionResult.{fields["result"]})'
        case _:
            partition = fields.get("partition", arrow.source)
            return f'addPartitions("{client}", {_number(partition)})'


def _number(partition: str) -> str:
    return partition.removeprefix("partition")
