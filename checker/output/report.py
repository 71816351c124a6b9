"""Prints results and progress lines."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from ..trace.trace import Trace
from ..verdict.result import Outcome, Verdict
from ..verdict.vacuity import by_reason
from .lines import grid, wrapped

if TYPE_CHECKING:
    from ...language import System, Table
    from ..many.baseline import Moved
    from ..size import Size
    from ..solver.bound import Depth
    from ..solver.lint import Finding
    from ..solver.obligations import Settled
    from ..solver.prove import Proofs
    from ..solver.suggest.suggest import Suggestions
    from ..spark.judge.histories import Summary
    from ..spark.judge.segments import Summary as Segments
    from ..verdict.vacuity import Vacuity

MOST_VACUOUS = 5  # vacuous items printed with the verdict

SHORTEST = "Shortest counterexample"
TITLES = {
    Verdict.HOLDS: "Every property holds in every state within the bounds (exhaustive).",
    Verdict.BROKEN: "A property doesn't hold.",
    Verdict.DEADLOCK: "There is a deadlock.",
    Verdict.LEADS_TO_BROKEN: "A progress property doesn't hold.",
    Verdict.INCONCLUSIVE: "Inconclusive.",
    Verdict.INTERRUPTED: "Inconclusive.",
}


def print_moved(moved: Moved, baseline: str, code: int, console: Console) -> None:
    """Prints the differences from a baseline: the changed figures, and rows by name."""
    if not moved:
        console.print(f"Unchanged since {baseline}: verdict, states and every row.", markup=False)
        return
    console.print(f"[bold]Changed[/bold] since {escape(baseline)}:")
    for what, before, now in moved.changed:
        console.print(f"  {what}: {_side(before)} \u2192 {_side(now)}", markup=False)
    named = {
        "row now taken": moved.begin,
        "row no longer taken": moved.cease,
        "new row, never taken": moved.new,
        "removed row, was never taken": moved.gone,
    }
    for what, rows in named.items():
        for row in rows:
            console.print(f"  {what}: {row}", markup=False)
    if moved.counts:
        row, before, now = max(moved.counts, key=lambda item: abs(item[2] - item[1]))
        console.print(
            f"  {len(moved.counts)} rows are taken more or less often, most of all {row}: "
            f"{before:,} \u2192 {now:,}",
            markup=False,
        )
    console.print(f"(exit {code})")


def _side(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, cast("list[object]", value))) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _known_reasons(vacuous: Iterable[Vacuity], console: Console) -> None:
    """Prints the numbers of vacuous items by known reason."""
    reasons = by_reason(item for item in vacuous if item.explained)
    if reasons:
        counts = "; ".join(f"{count} {why}" for why, count in reasons.items())
        console.print(f"Never reached, for a known reason: {counts}.", markup=False)


def print_unexplained(
    found: Sequence[str], console: Console, option: str = "--json FILE", label: str = "HOLDS, but: "
) -> None:
    """Prints vacuous items without a known reason, after the verdict."""
    shown = list(found[:MOST_VACUOUS])
    if len(found) > len(shown):
        shown.append(f"and {len(found) - len(shown)} more ({option} lists them)")
    if shown:
        console.print(Text.assemble((label, "bold yellow"), f"{'; '.join(shown)}."))


MOST_PARTS, MOST_LEAVES = 20, 10


def print_size(size: Size, console: Console) -> None:
    """Prints the causes of states: parts by effect, channels by traffic, fields by values."""
    console.print(
        f"Parts of the state, by their effect on the {size.states:,} states found (states without "
        "it: how many remain if the part is ignored):"
    )
    table = grid()
    table.add_column("part", overflow="fold")
    for name in ("values", "states without it", "factor"):
        table.add_column(name, justify="right")
    table.add_column("bounded by", overflow="fold")
    for part in size.parts[:MOST_PARTS]:
        factor = f"{part.factor(size.states):.2f}"
        values = (str(part.values), str(part.without), factor)
        table.add_row(Text(part.name), *values, Text(part.bounded_by))
    console.print(table)
    if len(size.parts) > MOST_PARTS:
        console.print(f"--json has {len(size.parts) - MOST_PARTS} more parts, with less effect.")
    if size.traffic:
        table = grid()
        table.add_column("channel", overflow="fold")
        for name in ("most at once", "on average", "different messages"):
            table.add_column(name, justify="right")
        table.add_column("kind", overflow="fold")
        for channel in size.traffic[:MOST_PARTS]:
            numbers = (str(channel.most), f"{channel.mean:.2f}", str(channel.contents))
            table.add_row(Text(channel.name), *numbers, Text(channel.kind))
        console.print(table)
    sampled = "" if size.sampled == size.states else f" (in {size.sampled:,} of the states)"
    most = ", ".join(f"{name} {values:,}" for name, values in size.leaves[:MOST_LEAVES])
    console.print(f"Fields with most values{sampled}: {most or 'none varies'}.", markup=False)
    first = next((part for part in size.parts if part.members == 1), None)
    if first is not None and first.factor(size.states) > 1:
        by = f" ({first.bounded_by})" if first.bounded_by else ""
        console.print(f"To get fewer states, bound first: {first.name}{by}.", markup=False)


_KINDS = {
    "unanswered": "events that no row handles",
    "unreachable": "unreachable rows (an earlier row always matches)",
    "error": "errors that the response can't have",
    "range": "updates that may go out of range",
    "overlap": "overlapping rows (the first one is taken)",
}


def print_lint(
    system: System, tables: Sequence[Table], found: Sequence[Finding],
    vacuous: Sequence[Vacuity], console: Console, *, is_whole: bool = True,
) -> None:  # fmt: skip
    """Prints the findings in a system's tables by kind, each with an example, and items that no run
    can reach. If the search was interrupted (not `is_whole`), kinds without findings are left
    out."""
    console.print(f"[bold]{escape(system.name)}[/bold]: {len(tables)} tables")
    for kind, meaning in _KINDS.items():
        items = [item for item in found if item.kind == kind]
        if items or is_whole:
            console.print(f"  {meaning}: {len(items) or 'none'}{'' if is_whole else ' so far'}")
        for item in items:
            rows = " and ".join(item.rows)
            console.print(Text(f"    {item.table} [{rows}]" if rows else f"    {item.table}"))
            if item.example:
                console.print(Padding(Text(f"for example {item.example}"), (0, 0, 0, 6)))
            if item.explained:
                console.print(Text(f"      known: {item.explained}"))
    unexplained = [item for item in vacuous if not item.explained]
    console.print(f"  reached by no run: {len(unexplained) or 'none'}")
    for item in unexplained:
        console.print(Text(f"    {item}"))
    _known_reasons(vacuous, console)


def print_proofs(result: Proofs, console: Console) -> None:
    """Prints the result of each property, with counterexamples, then of each lemma."""
    constants = [*settings(result.constants), *(f"{name} any" for name in result.open)]
    console.print(named(result, constants), markup=False)
    for proof in result.proofs:
        if proof.trace is not None and proof.verdict == "refuted":
            show_trace(proof.trace, console)
        elif proof.trace is not None:
            what = "this step from this state" if proof.trace.steps else "this state"
            console.print(f"{proof.name}: {what} breaks it, but maybe no run reaches the state:")
            for where, value in proof.trace.initial:
                console.print(Text(f"  {where} = {value}"))
            if proof.trace.steps:
                show_trace(proof.trace, console, "The step", begins=False)
            else:
                console.print(proof.trace.conclusion, markup=False)
    table = grid(show_header=False)
    for proof in (*result.proofs, *result.lemmas):
        lemmas = f"with {', '.join(proof.lemmas)}" if proof.lemmas else ""
        how = f"{proof.method}, k={proof.k}" if proof.k else proof.method
        how = how if proof.verdict == "proved" else proof.reason
        table.add_row(Text(proof.name), proof.verdict, Text(f"{how} {lemmas}".strip()))
    console.print(table)
    for proof in result.proofs:
        for part in proof.invariant:
            console.print(Text(f"{proof.name}, invariant: {part}"))
    count = len(result.asked)
    longest = max((answer.seconds for answer in result.asked), default=0.0)
    console.print(
        f"{count} obligations, {result.seconds:.2f} s, the longest {longest:.2f} s; {result.solver}"
    )
    number = sum(proof.verdict == "proved" for proof in result.proofs)
    colour = "green" if result.verdict is Verdict.HOLDS else "red"
    console.print(
        f"[bold {colour}]{number} of {len(result.proofs)} properties proved, without bounds on "
        f"numbers.[/] (exit {result.verdict.value}, {result.verdict.name})"
    )


def print_suggestions(found: Suggestions, console: Console) -> None:
    """Prints suggested lemmas as declarations, and the properties that they prove."""
    explored = f"{found.states:,} states{'' if found.whole else ' (not all of them)'}"
    if found.states:
        console.print(
            f"Suggestions from {explored}: {found.candidates:,} candidates, "
            f"{found.inductive:,} inductive together, {found.seconds:.1f} s"
        )
    for name in (name for name in found.broken if name not in found.asked):
        console.print(f"{name} doesn't hold in all explored states: not used", markup=False)
    if found.reason:
        console.print(f"No lemmas suggested: {found.reason}.", markup=False)
    if found.hints:
        console.print("Inductive, but not enough:")
    for line in found.text.splitlines():
        console.print(Text(line), soft_wrap=True)
    for name, row in found.left.items():
        console.print(
            f"{name}: {row or 'the start'} still breaks it with all of them", markup=False
        )
    for name in found.asked:
        lemmas = found.excludes.get(name, [])
        if lemmas:
            console.print(f"{name}: the step above is impossible with {', '.join(lemmas)}")
    if found.lemmas and found.proofs is not None:
        few = "all are needed" if found.fewest else "maybe fewer suffice: --deadline was reached"
        console.print(
            f"Add these {len(found.lemmas)} to the system's lemmas ({few}), and "
            f"{', '.join(found.proved)} is proved: {len(found.proofs.asked)} obligations, "
            f"{found.proofs.seconds:.1f} s. The verdict changes only then."
        )


def show_piece(
    count: int, console: Console, *, constants: bool = True
) -> Callable[[Mapping[str, Any]], None]:
    """Prints each exploration of a sweep when it ends, with or without its constants. `count` is
    the number of explorations. Further ones check whether the fix of a known bug changes the
    answer.
    """
    done = 0

    def show(result: Mapping[str, Any]) -> None:
        nonlocal done
        done += 1
        chosen = settings(result["constants"]) if constants else ()
        of = ", ".join([result["protocol"], *chosen])
        console.print(
            f"{f'{done} of {count}' if done <= count else 'with a fix'}: protocol {of}: "
            f"{result['verdict']}, {result['states']:,} states, {result['seconds']:.2f} s",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )

    return show


def print_sweep(
    system: str,
    varied: Sequence[str],
    results: Sequence[Mapping[str, Any]],
    verdict: Verdict,
    console: Console,
    expected: int,
) -> None:
    """Prints a line for each finished exploration of a sweep, then the verdict of them all."""
    first = results[0]
    fixed = settings({n: value for n, value in first["constants"].items() if n not in varied})
    console.print("; ".join(filter(None, (f"[bold]{escape(system)}[/bold]", ", ".join(fixed)))))
    table = grid()
    table.add_column("protocol")
    for name in (*varied, "states", "transitions", "depth", "s"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for result in results:
        broken = [
            f"{p['name']} after {p['trace_length']} steps"
            for p in result["properties"]
            if p["verdict"] == "broken"
        ]
        why = f": {', '.join(broken)}" if broken else ""
        table.add_row(
            result["protocol"], *(str(result["constants"][name]) for name in varied),
            f"{result['states']:,}", f"{result['transitions']:,}", str(result["depth"]),
            f"{result['seconds']:.2f}", Text(f"{result['verdict']}{why}"),
        )  # fmt: skip
    console.print(table)
    if any(result["deadlocks"] == "not looked for" for result in results):
        console.print("Deadlocks: not checked.")
    holding = sum(result["exit_code"] == 0 for result in results)
    vacuous = Counter(
        f"{item['subject']} {item['what']}"
        for result in results
        for item in result["vacuous"]
        if not item["explained"]
    )
    colour = "green" if verdict is Verdict.HOLDS else "red"
    console.print(
        f"[bold {colour}]Everything holds in {holding} of {expected} runs.[/] "
        f"(exit {verdict.value}, {verdict.name})"
    )
    print_unexplained(
        [f"{text} (in {runs} of {len(results)} runs)" for text, runs in vacuous.items()], console
    )


def print_histories(found: Summary, output: str, console: Console) -> None:
    """Prints the result of judged histories: unexplained keys, bad lines, keys by finding."""
    for item in found.faults:
        where = f" at {item['file']}, line {item['line']}" if item["file"] else ""
        why = "".join(f": {item[name]}" for name in ("against", "reason") if item[name])
        count = "" if item["operations"] is None else f"{item['operations']:,} operations, "
        console.print(Text(f"{item['key']}: {count}{item['finding']}{where}{why}"))
    for line in found.bad_lines:
        console.print(Text(f"bad line: {line['file']}, line {line['line']}: {line['reason']}"))
    keys = ", ".join(f"{count:,} {name}" for name, count in sorted(found.keys.items())) or "none"
    console.print(Text(f"keys: {keys}; bad lines: {found.rejected:,}; details in {output}"))
    console.print(
        f"{found.operations:,} operations on {sum(found.keys.values()):,} keys: {found.finding} "
        f"(exit {found.exit_code})"
    )


def print_segments(found: Segments, output: str, console: Console) -> None:
    """Prints the result of judged data directories: the first findings, and counts."""
    for finding in found.findings:
        console.print(Text(str(finding)))
    partitions = f"{found.partitions:,} partitions"
    console.print(Text(f"{partitions}; findings: {found.count:,}; details in {output}"))
    known = f"{found.decided:,} markers have a decision"
    if found.not_known:
        known += f", {found.not_known:,} can't be compared with a decision"
    logs = f"{found.transaction_logs:,} transaction logs, {found.batches:,} batches"
    console.print(f"{logs}; {known}: {found.outcome.name} (exit {found.outcome.exit_code})")


def show_settled(console: Console) -> Callable[[Settled], None]:
    """Prints how many obligations are settled, every five seconds."""
    done, is_due = 0, every_five_seconds()

    def show(settled: Settled) -> None:
        nonlocal done
        done += 1
        if is_due():
            console.print(f"{done} obligations settled: {settled.subject}", markup=False)

    return show


def every_five_seconds() -> Callable[[], bool]:
    """Returns a function that is true every five seconds, when progress is due."""
    shown_at = time.monotonic()

    def is_due() -> bool:
        nonlocal shown_at
        if time.monotonic() - shown_at <= 5.0:
            return False
        shown_at = time.monotonic()
        return True

    return is_due


def show_depth(console: Console) -> Callable[[Depth], None]:
    """Prints each depth when it is done."""
    return lambda now: console.print(
        f"depth {now.depth}: nothing broken, {now.seconds:.1f} s", highlight=False
    )


def settings(values: Mapping[str, int]) -> list[str]:
    """Constants, each with its value."""
    return [f"{name}={value}" for name, value in values.items()]


def named(result: Outcome | Proofs, constants: Sequence[str] = ()) -> str:
    """The system, protocol and constants of a run, in a line."""
    name = ", ".join([result.system, f"protocol {result.protocol}", *result.switched])
    return f"{name}; {', '.join(constants)}" if constants else name


def print_replayed(result: Outcome, console: Console, *, logs: bool = False) -> None:
    """Prints a replayed run, and the property that fails at its end; with `logs`, also each step's
    changes of the logs.
    """
    console.print(named(result, settings(result.constants)), markup=False)
    if result.trace is not None:
        title = f"The run, in {len(result.trace.steps)} steps"
        show_trace(result.trace, console, title, logs=logs)
    console.print(f"(exit {result.verdict.value}, {result.verdict.name})")


def show_trace(
    trace: Trace, console: Console, title: str = SHORTEST,
    *, begins: bool = True, logs: bool = False,
) -> None:  # fmt: skip
    """Prints a counterexample: its initial state if there is a choice, its steps as a chart, then
    the broken property and the reason."""
    from ..trace.chart.chart import chart_of
    from ..trace.chart.text import to_lines

    if trace.loop is not None:
        title = "Endless counterexample"
    console.print(Text(f"{title} (row in brackets):"))
    if begins and trace.chosen:
        first = dict(trace.initial)
        console.print(Text(f"begins with {'; '.join(f'{n}: {first[n]}' for n in trace.chosen)}"))
    for line in to_lines(chart_of(trace), console.width, trace.logs if logs else ()):
        console.print(Text(line), soft_wrap=True)
    if trace.fair:
        console.print("Fair steps in the loop (each must be taken if it stays possible):")
        for line in trace.fair:
            console.print(Text(f"  {line}"))
    console.print(Text(trace.conclusion))
    for line in trace.why:
        console.print(Text(_hung(f"  {line}", console.width)), soft_wrap=True)


def _hung(line: str, width: int) -> str:
    """The line, wrapped to the width; further lines are indented."""
    inside = " " * (len(line) - len(line.lstrip()) + 4)
    return "\n".join(wrapped(line, width, then=inside))
