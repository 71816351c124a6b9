"""Peterson's lock: two processes take turns in a critical section, with two flags and one turn.

The mistake: a process gives the turn away before it raises its flag. Both orders look alike in a
review. In release 1 both processes get in.
"""

from epochfence.language import (
    Bool,
    Expression,
    Key,
    Machine,
    Protocols,
    Row,
    System,
    Table,
    all_of,
    enum,
    event,
    failure,
    feature,
    invariant,
    leads_to,
    weak_fairness,
)

PROCESS = Key("process", 2)
Step = enum("Step", "OUTSIDE", "FIRST", "SECOND", "WAITING", "CRITICAL", "LEAVING")

flag_first = feature("flag_first", "2", sentence="The flag is raised before the turn is given.")

process = Machine("process", PROCESS)
at = process.state_field("at", Step)
flag = process.field("flag", Bool(), doc="The process wants to get in, or is in.")

memory = Machine("memory", doc="What both processes write to.")
gave_way = memory.field("gave_way", PROCESS, doc="Who gave the turn to the other one last.")

me, other, i, j = process.this, *map(PROCESS.variable, ("other", "i", "j"))
other_is_out = all_of(other, (other == me) | ~flag.at(other))


def step(name: str, start: Expression, *rows: Row, when: Expression | bool = True) -> Table:
    """What a process does next at one place of its program."""
    return Table(process, event(name), when=(at == start) & when, rows=rows, others=(memory,))


TRY = step("try", Step.OUTSIDE, Row("try", goto=Step.FIRST))
PROGRAM = (
    step(
        "take the first step", Step.FIRST,
        Row("raise the flag", goto=Step.SECOND, set={flag: True}, during=flag_first),
        Row("give way", goto=Step.SECOND, set={gave_way: me}, during=~flag_first),
    ),
    step(
        "take the second step", Step.SECOND,
        Row("give way", goto=Step.WAITING, set={gave_way: me}, during=flag_first),
        Row("raise the flag", goto=Step.WAITING, set={flag: True}, during=~flag_first),
    ),
    step(
        "enter", Step.WAITING, Row("enter", goto=Step.CRITICAL),
        when=other_is_out | (gave_way != me),
    ),
    step("finish", Step.CRITICAL, Row("finish", goto=Step.LEAVING)),
    step("leave", Step.LEAVING, Row("lower the flag", goto=Step.OUTSIDE, set={flag: False})),
)  # fmt: skip

is_inside = at.is_in(Step.CRITICAL, Step.LEAVING)

system = System(
    name="peterson",
    doc="Two processes and one critical section.",
    tables=(TRY, *PROGRAM),
    properties=(
        invariant(
            "MutualExclusion",
            all_of(i, all_of(j, (i != j).implies(~(is_inside.at(i) & is_inside.at(j))))),
            "No two processes are in the critical section.",
            "G. L. Peterson, Myths about the mutual exclusion problem (1981)",
            failure=failure("{} and {} are both in it", i, j),
        ),
    ),
    progress=(
        leads_to(
            "GetsIn", at.at(i) == Step.FIRST, at.at(i) == Step.CRITICAL,
            "A process that wants to get in does so at last.", each=(i,),
            failure=failure("{} stays at {}", i, at.at(i)),
        ),
    ),
    # a process may stay outside for ever, but doesn't stop inside
    fairness=weak_fairness(*(table.on for table in PROGRAM)),
    protocols=Protocols(("1", "2"), (flag_first,)),
    reach="All of it: there are two processes, and they go on for ever.",
)  # fmt: skip
