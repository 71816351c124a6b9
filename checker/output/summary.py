"""The result page of `check`, `simulate` and `bound`: verdict, the checked parts, the parts that
were not checked."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from ..verdict.result import Outcome, PropertyVerdict, Result, Verdict
from ..verdict.vacuity import ENDED_EARLY, NO_REASON, by_reason, reason, vacuously
from ..verdict.violation import DEADLOCK
from .lines import grid, wrapped
from .report import (
    SHORTEST,
    TITLES,
    every_five_seconds,
    named,
    print_size,
    print_unexplained,
    settings,
    show_trace,
)

if TYPE_CHECKING:
    from ..simulation.simulate import Simulation, Walked
    from ..solver.bound import Bounded

GRAVE = ("property", "premise", "run")  # kinds of vacuity that are printed before single rows
MOST_ROWS, MOST_POINTS, BAR = 10, 10, 40  # most rows, most points of a curve, columns of a bar
BROKEN = (Verdict.BROKEN, Verdict.DEADLOCK, Verdict.LEADS_TO_BROKEN)


def tell(
    result: Result, console: Console, *, coverage: bool = False, resume: str | None = None
) -> None:
    """Prints the verdict, the counterexample if there is one, and the parts that were and weren't
    checked. With `coverage` it also prints every row: its count and first depth, or the reason why
    it was never taken. `resume` is the folder or URI from which the run can continue.
    """
    if result.verdict is Verdict.INTERRUPTED:
        line = f"{_interrupted(result, resume)} {_exit(result)}"
        console.print(line, markup=False, soft_wrap=True)
        return
    _verdict(result, console)
    _items("Checked", _checked(result), console)
    _items("Not checked", _not_checked(result, listed=coverage), console)
    if result.size is not None:
        print_size(result.size, console)
    if coverage:
        _print_coverage(result, console)


def print_bounded(result: Bounded, console: Console) -> None:
    """Prints the result of bounded model checking like that of an exploration."""
    _verdict(result, console)
    took = f"{result.depth} of {result.most} steps, {result.seconds:.2f} s, {result.solver}"
    _items("Checked", [*_named(result), took, *_left_out(result)], console)
    _items("Not checked", _unknown(result), console)


def show_walks(console: Console) -> Callable[[Walked], None]:
    """Prints the progress of walks every five seconds."""
    is_due = every_five_seconds()

    def show(now: Walked) -> None:
        if not is_due():
            return
        line = f"{now.walks:,} walks, {now.steps:,} steps, {now.rows} rows taken"
        console.print(f"{line}, {now.seconds:.0f} s", highlight=False, soft_wrap=True)

    return show


def show_seeds(count: int, console: Console) -> Callable[[Mapping[str, Any]], None]:
    """Prints the progress of the walks of `count` seeds every five seconds."""
    is_due, done, steps = every_five_seconds(), 0, 0

    def show(result: Mapping[str, Any]) -> None:
        nonlocal done, steps
        done, steps = done + 1, steps + result["steps"]
        if is_due():
            line = f"{done:,} of {count:,} seeds, {steps:,} steps"
            console.print(line, highlight=False, soft_wrap=True)

    return show


def print_simulated(result: Simulation, console: Console, *, coverage: bool = False) -> None:
    """Prints the result of random walks; with `coverage` also the count of each row."""
    if result.trace is not None:
        _verdict(result, console, SHORTEST if result.is_shortest else "Counterexample")
    else:
        code = f"(exit {result.exit_code}, {result.verdict.name})"
        reason = result.reason[0].upper() + result.reason[1:]
        console.print(Text.assemble((f"{reason}.", "bold"), f" {code}"))
    _items("Walked", _walked(result), console)
    _items("Rows taken, by steps", _curve(result), console)
    never = result.never_taken
    shown = never if coverage else never[:MOST_ROWS]
    more = [f"and {len(never) - len(shown)} more (--coverage lists them)"] * (shown != never)
    _items(
        f"Taken by no walk: {_count(len(never), 'row', 'rows')}",
        [*shown, *more] if never else (),
        console,
    )
    if coverage:
        taken = sorted((times, name) for name, times in result.rows if times)
        _items("Taken, the rarest first", (f"{name}: {times:,}" for times, name in taken), console)
    rest = "the states that no walk reached: walks prove nothing, check explores all"
    _items("Not checked", [rest, *_unknown(result, listed=False)], console)


def _walked(result: Simulation) -> Iterator[str]:
    yield named(result, settings(result.constants))
    rate = result.steps / result.seconds if result.seconds else 0
    threads = _count(result.engine["threads"], "thread", "threads")
    yield (
        f"{result.walks:,} walks of up to {result.depth:,} steps: {result.steps:,} steps, "
        f"{result.seconds:.2f} s ({rate:,.0f} steps/s on {threads})"
    )
    again = ""
    if result.seeds is not None:
        first, requested, walked = (result.seeds[name] for name in ("first", "asked", "walked"))
        where = "on Spark" if result.engine["spark"] else "in processes"
        yield (
            f"walks of {walked:,} of the {requested:,} seeds {first} to {first + requested - 1}, "
            f"{where}"
        )
        again = f" --seeds {requested}" * (result.trace is None)
    yield f"--seed {result.seed}{again} repeats them"
    if result.trace is not None:
        steps = _count(result.found_after or 0, "step", "steps")
        yield f"found by walk {result.found_in} after {steps}, shown in {len(result.trace.steps)}"
        if result.smaller:
            within = settings(result.smaller)
            yield f"its constants are smaller than those walked: {', '.join(within)}"
        short = "no run is shorter" if result.is_shortest else "a shorter run may exist"
        yield f"{short} ({'the explorer says so' if result.is_shortest else 'see --shorter'})"
    yield from _left_out(result)


def _curve(result: Simulation) -> Iterator[str]:
    """At most MOST_POINTS points of the curve, each as a bar."""
    points = result.curve
    every = len(result.rows)
    last = len(points) - 1
    chosen = sorted({round(at * last / max(1, MOST_POINTS - 1)) for at in range(MOST_POINTS)})
    width = max((len(f"{steps:,}") for steps, _ in points), default=0)
    for steps, rows in (points[at] for at in chosen if at <= last):
        bar = "█" * round(BAR * rows / max(1, every))
        yield f"{steps:>{width},} {bar} {rows} of {every}"


# The verdict --------------------------------------------------------------------------------------


def _verdict(result: Outcome, console: Console, trace_title: str = SHORTEST) -> None:
    colour = "green" if result.verdict is Verdict.HOLDS else "red"
    is_broken = result.verdict in BROKEN and result.reason
    title, text = _title(result), result.reason
    if not is_broken and text:
        text = f"{title} {text}" if result.verdict is Verdict.HOLDS else f"{title[:-1]}: {text}"
    console.print(Text.assemble((text or title, f"bold {colour}"), f" {_exit(result)}"))
    for item in result.properties:
        if item.note:
            console.print(f"{item.name}, known: {item.note}.", markup=False)
    if isinstance(result, Result) and result.verdict not in BROKEN:
        gravest = sorted(result.unexplained, key=lambda item: item.kind not in GRAVE)
        holds = result.verdict is Verdict.HOLDS
        label = "HOLDS, but: " if holds else "Vacuous: "
        print_unexplained([str(item) for item in gravest], console, "--coverage", label)
    every = result.counterexamples if isinstance(result, Result) else []
    if result.trace is not None and len(every) < 2:
        console.print()
        show_trace(result.trace, console, trace_title)
    for number, item in enumerate(every if len(every) > 1 else (), 1):
        which = f" without {' and '.join(item.without)}" if item.without else ""
        if isinstance(result, Result) and result.each:
            which = f" for {item.broken or DEADLOCK}"
        console.print()
        title = f"Counterexample {number} of {len(every)}, the shortest{which}"
        show_trace(item.trace, console, title)


def _title(result: Outcome) -> str:
    """The verdict as a sentence. Properties that hold vacuously don't count as holding."""
    untested = result.untested if isinstance(result, Result) else {}
    if result.verdict is not Verdict.HOLDS:
        return TITLES[result.verdict]
    ends = "; terminal=True: a run may end anywhere" if result.ends_anywhere else ""
    if not untested:
        return f"{TITLES[result.verdict][:-1]}{ends}."
    every = len(result.properties)
    tested = every - len(untested)
    hold = f"{tested} of {every} properties {'holds' if tested == 1 else 'hold'}"
    return f"{hold} in every state within the bounds (exhaustive); {vacuously(untested)}{ends}."


def _exit(result: Outcome) -> str:
    return f"(exit {result.verdict.value}, {result.verdict.name})"


def _interrupted(result: Result, resume: str | None) -> str:
    """The last line of a run that Ctrl-C has stopped."""
    where = result.reason.removeprefix("it was interrupted ")
    found = f"Interrupted {where}; {_so_far(result)}"
    if resume is not None:
        return f"{found}; continue with --resume {resume}"
    return f"{found}; without --checkpoint DIR it can't be continued"


def _so_far(result: Result) -> str:
    """The results of an unfinished run."""
    broken = [item for item in result.properties if item.verdict == "broken"]
    if broken:
        return f"broken so far: {_names(broken)}"
    holds = sum(item.verdict == "holds" for item in result.properties)
    if holds:
        return f"{_count(holds, 'state or step property', 'state and step properties')} hold"
    whole = result.levels[:-1]
    if not whole:
        return "no level was finished"
    states = "1 state" if sum(whole) == 1 else f"{sum(whole):,} states"
    steps = _count(len(whole) - 1, "step", "steps")
    return f"every property holds within {steps} ({states})"


# What was checked ---------------------------------------------------------------------------------


def _checked(result: Result) -> Iterator[str]:
    yield from _named(result, result.untested)
    yield from (f"within this bound: {item}" for item in result.vacuous if item.kind == "channel")
    if not result.seen_whole and result.verdict is Verdict.INCONCLUSIVE:
        yield _so_far(result)
    rate = result.states / result.seconds if result.seconds else 0
    compiled = "kernel loaded from the cache" if result.kernel_from_cache else "compiled"
    yield (
        f"{result.states:,} states, {result.transitions:,} transitions, depth {result.depth}, "
        f"{result.seconds:.2f} s ({rate:,.0f} states/s), {result.memory / 2**20:,.0f} MiB; "
        f"{compiled} in {result.compile_seconds:.2f} s"
    )
    if result.seen_whole:
        taken, every = len(result.rows) - len(result.never_taken), len(result.rows)
        everything = "the only row is taken" if every == 1 else f"all {every} rows are taken"
        yield everything if taken == every else f"{taken} of {every} rows are taken"
    yield from enumeration_lines(result)
    if result.symmetry:
        names = ", ".join(result.symmetry)
        yield f"states that differ only by renaming of {names} count once (symmetry)"
    effort = result.progress
    if effort is not None:
        each = effort.bytes / max(1, effort.transitions)
        yield (
            f"progress: {effort.transitions:,} transitions stored, {effort.seconds:.2f} s, "
            f"{effort.bytes / 2**20:,.0f} MiB ({each:.1f} bytes a transition)"
        )
    if result.engine.get("name") == "spark":
        yield _on_spark(result.engine)
    yield from _left_out(result)


def enumeration_lines(result: Result) -> Iterator[str]:
    """Lines on the number of found counterexamples, and whether there are others."""
    found = result.enumeration
    if found is None:
        return
    count = len(found.found)
    searches = _count(found.searches, "more search", "more searches")
    yield (
        f"{_count(count, 'counterexample', 'counterexamples')} found, {found.wanted} requested; "
        f"each avoids a row of every earlier one: {searches}, {found.states:,} states"
    )
    if found.are_all:
        these = "all rows of this one" if count == 1 else "all rows of one of these"
        yield f"no others exist: every run within the bounds that breaks something takes {these}"
    elif found.stopped:
        yield f"others may exist: the search ended early ({found.stopped})"
    else:
        yield "others may exist: no more were requested"


def _named(result: Outcome, empty: Container[str] = ()) -> Iterator[str]:
    """Lines on the system and its settings, and on the properties that are decided."""
    yield named(result, settings(result.constants))
    for item in result.properties:
        if item.verdict == "broken":
            steps = _count(item.trace_length or 0, "step", "steps")
            yield f"{item.name} doesn't hold after {steps}"
    hold = [item for item in result.properties if item.verdict == "holds"]
    looked_at = [item for item in hold if item.name not in empty]
    if looked_at:
        one = "property holds" if len(looked_at) == 1 else "properties hold"
        yield f"{len(looked_at)} {one}: {_names(looked_at)}"
    if vacuously := [item for item in hold if item.name in empty]:
        one = "holds" if len(vacuously) == 1 else "hold"
        yield f"{len(vacuously)} {one} vacuously: {_names(vacuously)}"


def _left_out(result: Outcome) -> Iterator[str]:
    count = len(result.left_out)
    if count:
        parts = "1 part of the state that nothing reads was"
        if count > 1:
            parts = f"{count} parts of the state that nothing reads were"
        yield f"{parts} left out (slicing; --json FILE lists them)"
    yield from (f"note: {note}" for note in result.notes)


def _on_spark(engine: dict[str, Any]) -> str:
    new = max(1, engine["states_on_spark"])
    return (
        f"Spark: {engine['shards']} shards, {engine['levels_on_spark']} levels; per state "
        f"{engine['candidates_sent'] / new:.2f} candidates and "
        f"{engine['bytes_sent'] / new:.1f} bytes sent, {engine['bytes_written'] / new:.1f} bytes "
        f"written; saved in {engine['storage']}"
    )


# What was not -------------------------------------------------------------------------------------


def _not_checked(result: Result, *, listed: bool) -> Iterator[str]:
    yield from _unknown(result)
    if result.progress_left:
        count = _count(result.progress_left, "progress property", "progress properties")
        yield f"{count} (--progress checks them)"
    reasons = by_reason(result.vacuous)
    known = {why: count for why, count in reasons.items() if why != NO_REASON}
    if known:
        where = "listed below" if listed else "--coverage lists them"
        yield f"never reached, for a known reason ({where}):"
        width = max(len(str(count)) for count in known.values())
        for why, count in sorted(known.items(), key=lambda item: -item[1]):
            yield f"  {count:>{width}} {why}"


def _unknown(result: Outcome, *, listed: bool = True) -> Iterator[str]:
    items = [item for item in result.properties if item.verdict == "unknown"]
    if items and listed:
        one = _count(len(items), "property", "properties")
        yield f"{one}, because the search ended early: {_names(items)}"
    if not result.deadlocks:
        yield f"deadlocks ({'terminal=True' if result.ends_anywhere else '--no-deadlock'})"


def _print_coverage(result: Result, console: Console) -> None:
    """Prints the items that no run reaches, then the rows that are taken."""
    items = [(reason(item), item) for item in result.vacuous]
    named_rows = {row for _, item in items for row in item.rows}
    left = [row for row in result.never_taken if row not in named_rows]
    console.print()
    if items or left:
        console.print("[bold]Never reached[/bold], by reason:")
    else:
        console.print("Coverage: every row is taken.")
    for why, count in by_reason(result.vacuous).most_common():
        console.print(Text(f"{why} ({count})"))
        for item in (item for known, item in items if known == why):
            detail = item.explained.partition(": ")[2]
            for line in item.rows or (str(item),):
                console.print(Text(f"  {line}{f': {detail}' if detail else ''}"), soft_wrap=True)
    if left:
        console.print(Text(f"{ENDED_EARLY} ({len(left)})"))
        for row in left:
            console.print(Text(f"  {row}"), soft_wrap=True)
    taken = [(name, times) for name, times in result.rows if times]
    if taken:
        _print_taken(taken, result.first_depths, console)


def _print_taken(
    taken: list[tuple[str, int]], first_depths: Mapping[str, int], console: Console
) -> None:
    """Prints the count and the first depth of each of these rows."""
    table = grid()
    table.add_column("rows taken", overflow="fold")
    for name in ("times", "first at depth"):
        table.add_column(name, justify="right")
    for name, times in taken:
        table.add_row(Text(name), f"{times:,}", f"{first_depths[name]}")
    console.print()
    console.print(table)


# Form ---------------------------------------------------------------------------------------------


def _items(title: str, lines: Iterable[str], console: Console) -> None:
    """Prints a heading and its lines, wrapped and indented; nothing if there are no lines."""
    found = list(lines)
    if not found:
        return
    console.print(f"\n[bold]{escape(title)}[/bold]")
    for line in found:
        text = line.lstrip()
        indent = " " * (2 + len(line) - len(text))
        for part in wrapped(text, console.width, indent, f"{indent}  "):
            console.print(Text(part), soft_wrap=True)


def _names(items: Iterable[PropertyVerdict]) -> str:
    return ", ".join(item.name for item in items)


def _count(count: int, one: str, more: str) -> str:
    return f"{count} {one if count == 1 else more}"
