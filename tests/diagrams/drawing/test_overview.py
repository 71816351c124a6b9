"""State diagrams at a glance: an arrow for each pair of states, and print that can be read."""

from pathlib import Path
from typing import Any

import pytest

from epochfence.checker.named_systems import load_system
from epochfence.diagrams.drawing.graph import Graph
from epochfence.diagrams.drawing.overview import NAMES, named, overview
from epochfence.diagrams.drawing.state import state_diagram
from epochfence.language import Machine, Optional, Row, System, Table, enum, event
from epochfence.tests.generated import generated, recorded

ORDERS = load_system(str(Path(__file__).parents[1] / "orders.py"))
DRAWN = sorted(
    name for name in recorded() if name.startswith("diagrams/") and name.endswith(".svg")
)
LEAST_PRINT = 9  # px
MOST_WORDS = 12
PAGE_WIDTH = 815  # px, in a window of 1,280: docs/tables.css; GitHub and GitLab have 830


def of_orders(*releases: str) -> Graph:
    order = next(machine for machine in ORDERS.machines if machine.name == "order")
    return overview(state_diagram(ORDERS, order, releases or None))


Step = enum("Step", "IDLE", "OPEN", "DONE", "GONE", "LOST")


def lined_up(*, budget: bool = True) -> Graph:
    """A machine that is opened, prepared to be done, and done; it is lost from anywhere, and a
    crash while it is prepared undoes that."""
    machine = Machine("machine")
    state = machine.state_field("state", Step)
    pending = machine.field("pending", Optional(Step))
    ask, write, crash = event("ask"), event("write"), event("crash")
    lose, last = event("lose"), event("expire")
    tables = (
        Table(machine, event("open"), (Row("open", when=state == Step.IDLE, goto=Step.OPEN),)),
        Table(machine, ask, (Row("ask", when=state == Step.OPEN, set={pending: Step.DONE}),)),
        Table(
            machine, write, (Row("done", when=pending.is_set, goto=Step.DONE, set={pending: None}),)
        ),
        Table(
            machine, crash, (Row("back", when=pending.is_set, goto=Step.IDLE, set={pending: None}),)
        ),
        Table(machine, lose, (Row("lose", when=~pending.is_set, goto=Step.LOST),)),
        Table(machine, last, (Row("expire", when=state == Step.DONE, goto=Step.GONE),)),
    )
    system = System("steps", tables, (), budgets={crash: 1, last: 1} if budget else {})
    return overview(state_diagram(system, machine))


def arrows(graph: Graph) -> dict[tuple[str, str], tuple[str, ...]]:
    return {(edge.tail, edge.head): edge.lines for edge in graph.edges}


def test_drawings_have_kafkas_names_of_messages() -> None:
    assert "diagrams/system-transactions.svg" in DRAWN
    assert [name for name in DRAWN if b"AddPartitionsByLeader" in generated()[name]] == []


def test_an_arrow_names_who_asked_and_not_who_wrote() -> None:
    assert arrows(lined_up()) == {
        ("IDLE", "OPEN"): ("open",),
        ("OPEN", "DONE"): ("ask",),
        ("DONE", "GONE"): ("expire",),
    }


def test_what_a_fault_does_to_what_is_pending_is_left_out_and_said() -> None:
    graph = lined_up()
    assert "Left out: the effect of crash on a pending transition." in graph.notes
    assert arrows(lined_up(budget=False))["OPEN", "IDLE"] == ("ask",)
    assert not any("crash" in note for note in lined_up(budget=False).notes)


def test_styles_tell_the_normal_path_and_faults() -> None:
    edges = {(edge.tail, edge.head): edge for edge in lined_up().edges}
    assert [ends for ends, edge in edges.items() if edge.main] == [
        ("IDLE", "OPEN"),
        ("OPEN", "DONE"),
    ]
    assert [ends for ends, edge in edges.items() if edge.faint] == [("DONE", "GONE")]


def test_what_leads_to_a_state_from_all_others_is_told_in_it() -> None:
    inside = {node.name: node.inside for node in lined_up().nodes}
    assert inside["LOST"] == ("from any other state:", "lose")
    assert inside["OPEN"] == ()


def test_orders_at_a_glance() -> None:
    assert arrows(of_orders()) == {
        ("Draft", "Placed"): ("Place",),
        ("Draft", "Held"): ("Place",),
        ("Placed", "Paid"): ("Pay",),
        ("Paid", "Refunded"): ("pay back", "in 2–3"),
        ("Held", "Placed"): ("written",),
    }


def test_earlier_releases_are_left_out_and_counted() -> None:
    graph = of_orders()
    assert "Shipped" not in {node.name for node in graph.nodes}
    assert "Left out: 2 arrows of earlier releases (--protocol)." in graph.notes
    assert arrows(of_orders("1"))["Paid", "Shipped"] == ("pay back",)


def test_many_names_are_counted() -> None:
    assert list(named(["a", "b"], ["c"])) == ["a,", "b,", "c"]
    assert list(named(["a", "b", "c"], ["c", "d"])) == ["a,", "b,", "c", "and 1 more"]
    assert list(named(["one of four words", "three more words", "c"], [])) == [
        "one of four words",
        "and 2 more",
    ]
    assert NAMES == 3


# In a browser ------------------------------------------------------------------------------------

MEASURE = """() => {
  const svg = document.querySelector('svg');
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  const texts = [...svg.querySelectorAll('text')].filter((text) => text.textContent.trim());
  const sizes = texts.map((text) => scale * parseFloat(getComputedStyle(text).fontSize));
  const boxes = texts.map((text) => {
    const { y, height } = text.getBBox();
    const count = text.getNumberOfChars(), whole = text.textContent;  // spaces may count as one
    const [first, last] = count === whole.length
      ? [whole.search(/\\S/), whole.trimEnd().length - 1] : [0, count - 1];
    const x = text.getStartPositionOfChar(first).x;
    return { x, y, height, width: text.getEndPositionOfChar(last).x - x };
  });
  const over = [];
  boxes.forEach((a, i) => boxes.slice(0, i).forEach((b, j) => {
    const wide = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
    const high = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
    if (wide > 1 && high > a.height / 4) over.push([texts[i].textContent, texts[j].textContent]);
  }));
  // Only the end of an arrow's own edge comes near its text.
  const crossed = [];
  for (const edge of svg.querySelectorAll('g.edge')) {
    for (const path of edge.querySelectorAll('path')) {
      for (let at = 0; at <= path.getTotalLength(); at += 1) {
        const point = path.getPointAtLength(at);
        boxes.forEach((box, i) => {
          const inside = point.x > box.x && point.x < box.x + box.width
            && point.y > box.y + box.height / 6 && point.y < box.y + box.height * 5 / 6;
          const ends = edge.querySelector('title')?.textContent ?? edge.ariaLabel;
          const cut = [ends, texts[i].textContent].join(': ');
          if (inside && !crossed.includes(cut)) crossed.push(cut);
        });
      }
    }
  }
  const words = [...svg.querySelectorAll('g.edge')].map((edge) =>
    [...edge.querySelectorAll('text')].flatMap((text) => text.textContent.trim().split(/\\s+/)));
  const most = Math.max(0, ...words.map((each) => each.length));
  return [Math.min(...sizes), over, crossed, most];
}"""


def measured(browser: Any, svg: str, width: int) -> tuple[float, list[list[str]], list[str], int]:
    page = browser.new_page(viewport={"width": width, "height": 900})
    style = "<style>body { margin: 0 } svg { max-width: 100%; height: auto }</style>"
    page.set_content(style + svg[svg.index("<svg") :])
    found = page.evaluate(MEASURE)
    page.close()
    return found


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_can_be_read_at_the_width_of_a_page(name: str, browser: Any) -> None:
    svg = generated()[name].decode()
    least, over, crossed, words = measured(browser, svg, PAGE_WIDTH)
    assert least >= LEAST_PRINT
    assert over == []
    assert crossed == []
    assert words <= MOST_WORDS


def test_small_print_overlaps_crossings_and_many_words_are_noticed(browser: Any) -> None:
    texts = '<text x="1" y="50">one two</text><text x="9" y="52">three four five</text>'
    line = '<title>a-&gt;b</title><path d="M 5 0 L 5 90"/>'
    svg = f'<svg viewBox="0 0 4000 100" width="4000"><g class="edge">{line}{texts}</g></svg>'
    least, over, crossed, words = measured(browser, svg, PAGE_WIDTH)
    assert crossed == ["a->b: one two"]
    assert least < LEAST_PRINT
    assert over == [["three four five", "one two"]]
    assert words == 5
