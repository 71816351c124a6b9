"""Two-phase commit: resource managers agree, through a transaction manager, on commit or abort.

The protocol of Gray and Lamport, "Consensus on Transaction Commit" (2004), as the TLA+ examples
have it (transaction_commit/TwoPhase.tla). Messages are never lost nor taken: what was sent stays.

The mistake: a resource manager that has waited too long for the decision aborts by itself. Until it
has prepared, it may. Afterwards the decision is no longer its own. In release 1 it does it still.
"""

from epochfence.language import (
    Bool,
    Expression,
    Key,
    Machine,
    Map,
    Protocols,
    Row,
    Set,
    System,
    Table,
    all_of,
    constant,
    enum,
    event,
    failure,
    feature,
    invariant,
    set_of,
)
from epochfence.language.expressions import Operand

RM = constant("RM", 3, 1, 16, meaning="resource managers")
MANAGER = Key("rm", RM)
PARTICIPANT = enum("rm state", "working", "prepared", "committed", "aborted")
DECISION = enum("tm state", "init", "committed", "aborted")

prepared_waits = feature(
    "prepared_waits", "2", sentence="A resource manager that has prepared waits for the decision."
)

machine = Machine("commitment")
rm_state = machine.field("rm_state", Map(MANAGER, PARTICIPANT))
tm_state = machine.state_field("tm_state", DECISION)
tm_prepared = machine.field("tm_prepared", Set(MANAGER), doc="who the tm knows to be prepared")
prepared_sent = machine.field("prepared_sent", Set(MANAGER), doc="whose Prepared is a message")
commit_sent = machine.field("commit_sent", Bool())
abort_sent = machine.field("abort_sent", Bool())

rm, other = MANAGER.variable("rm"), MANAGER.variable("other")
undecided = tm_state == DECISION.init
working = rm_state[rm] == PARTICIPANT.working
impatient = ~prepared_waits & (rm_state[rm] == PARTICIPANT.prepared)


def action(name: str, *over: Expression, when: Expression, set: dict[Expression, Operand]) -> Table:
    """One action of the protocol: a table of a single row, for every value of `over`."""
    return Table(machine, event(name, *over), (Row(name, when=when, set=set),))


TABLES = (
    action(
        "TMRcvPrepared", rm, when=undecided & rm.is_in(prepared_sent),
        set={tm_prepared: tm_prepared | set_of(rm)},
    ),
    action(
        "TMCommit", when=undecided & all_of(rm, rm.is_in(tm_prepared)),
        set={tm_state: DECISION.committed, commit_sent: True},
    ),
    action("TMAbort", when=undecided, set={tm_state: DECISION.aborted, abort_sent: True}),
    action(
        "RMPrepare", rm, when=working,
        set={rm_state[rm]: PARTICIPANT.prepared, prepared_sent: prepared_sent | set_of(rm)},
    ),
    action(
        "RMChooseToAbort", rm, when=working | impatient, set={rm_state[rm]: PARTICIPANT.aborted},
    ),
    action("RMRcvCommitMsg", rm, when=commit_sent, set={rm_state[rm]: PARTICIPANT.committed}),
    action("RMRcvAbortMsg", rm, when=abort_sent, set={rm_state[rm]: PARTICIPANT.aborted}),
)  # fmt: skip

agree = ~((rm_state[rm] == PARTICIPANT.aborted) & (rm_state[other] == PARTICIPANT.committed))

system = System(
    name="two-phase-commit",
    doc="Two-phase commit among RM resource managers.",
    tables=TABLES,
    properties=(
        invariant(
            "Consistent", all_of(rm, all_of(other, agree)),
            "No resource manager has aborted where another has committed.",
            "Gray and Lamport: TCConsistent",
            failure=failure("{} has aborted, and {} has committed", rm, other),
        ),
    ),
    constants=(RM,),
    protocols=Protocols(("1", "2"), (prepared_waits,)),
    interchangeable=(MANAGER,),
    terminal=True,
    reach="All of the protocol: it is finite for a given number of resource managers.",
)  # fmt: skip
