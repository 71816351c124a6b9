"""The benchmark protocol KTX: a Kafka transaction coordinator, bounded, for every checker alike.

`peers/MODEL.md` defines it, and `peers/` has the same model in three other checkers' languages. One
transactional id is shared by I producer instances; there are one coordinator and K partition
leaders. In a row called "lost", the request is processed but its response is lost, so the request
is still in flight.
"""

from collections.abc import Mapping

from epochfence.language import (
    Expression,
    Int,
    Key,
    Machine,
    Map,
    Optional,
    Row,
    System,
    Table,
    all_of,
    constant,
    each,
    enum,
    event,
    if_,
    invariant,
)
from epochfence.language.expressions import Operand

I = constant("I", 2, 1, 8, meaning="producer instances")  # noqa: E741
K = constant("K", 2, 1, 8, meaning="partitions")
E = constant("E", 2, 1, 1000, meaning="largest producer epoch (0: none handed out yet)")
S = constant("S", 1, 1, 1000, meaning="largest sequence number per epoch and partition (0: none)")
V = constant("V", 1, 0, 1, meaning="1: a leader verifies before it opens a transaction")

PRODUCER = Key("producer", I)
PARTITION = Key("partition", K)
EPOCH = Int(0, E, "epoch")
SEQUENCE = Int(0, S, "sequence")
BIT = Int(0, 1)
COORDINATOR = enum(
    "coordinator state",
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
)
CLIENT = enum("client state", "Down", "Init", "Ready", "InTxn", "Committing", "Aborting", "Fenced")
END = enum("end", "none", "commit", "abort")

ktx = Machine("ktx")
cst = ktx.state_field("cst", COORDINATOR)
cep = ktx.field("cep", EPOCH)
cpart = ktx.field("cpart", Map(PARTITION, BIT))
mk = ktx.field("mk", Map(PARTITION, BIT))
bep = ktx.field("bep", Map(PARTITION, EPOCH))
bseq = ktx.field("bseq", Map(PARTITION, SEQUENCE))
bopen = ktx.field("bopen", Map(PARTITION, BIT))
blast = ktx.field("blast", Map(PARTITION, END))
pst = ktx.field("pst", Map(PRODUCER, CLIENT))
pep = ktx.field("pep", Map(PRODUCER, EPOCH))
pseq = ktx.field("pseq", Map(PRODUCER, Map(PARTITION, SEQUENCE)))
pack = ktx.field("pack", Map(PRODUCER, Map(PARTITION, SEQUENCE)))
padd = ktx.field("padd", Map(PRODUCER, Map(PARTITION, BIT)))
rq = ktx.field("rq", Map(PRODUCER, Map(PARTITION, SEQUENCE)))
rqep = ktx.field("rqep", Map(PRODUCER, Map(PARTITION, EPOCH)))
ar = ktx.field("ar", Map(PRODUCER, Optional(PARTITION)))
aep = ktx.field("aep", Map(PRODUCER, EPOCH))
er = ktx.field("er", Map(PRODUCER, END))
eep = ktx.field("eep", Map(PRODUCER, EPOCH))

i, j = PRODUCER.variable("i"), PRODUCER.variable("j")
k = PARTITION.variable("k")
ZERO = each(k, 0)
MARKERS = {mk: cpart}


crash = {pst[i]: CLIENT.Down, pep[i]: 0, pseq[i]: ZERO, pack[i]: ZERO, padd[i]: ZERO}
acked = all_of(k, pack[i][k] == pseq[i][k])
e, s = rqep[i][k], rq[i][k]
duplicate = (e == bep[k]) & (s <= bseq[k])
in_order = ((e == bep[k]) & (s == bseq[k] + 1)) | ((e > bep[k]) & (s == 1))
verified = (
    (V == 0) | (bopen[k] == 1) | ((cst == COORDINATOR.Ongoing) & (cpart[k] == 1) & (cep == e))
)
appends = in_order & verified
init_allowed = (
    (pst[i] == CLIENT.Init)
    & cst.is_in(COORDINATOR.Empty, COORDINATOR.CompleteCommit, COORDINATOR.CompleteAbort)
    & (cep < E)
)
add_allowed = (
    ar[i].is_set
    & (aep[i] == cep)
    & cst.is_in(
        COORDINATOR.Empty,
        COORDINATOR.Ongoing,
        COORDINATOR.CompleteCommit,
        COORDINATOR.CompleteAbort,
    )
)
add_mine = pst[i].is_in(CLIENT.Ready, CLIENT.InTxn) & (pep[i] == aep[i])
produce_mine = pst[i].is_in(CLIENT.InTxn, CLIENT.Aborting) & (pep[i] == e)
commits = er[i] == END.commit
prepared = if_(commits, COORDINATOR.PrepareCommit, COORDINATOR.PrepareAbort)
completed = if_(commits, COORDINATOR.CompleteCommit, COORDINATOR.CompleteAbort)
ending = if_(commits, CLIENT.Committing, CLIENT.Aborting)
end_mine = (pst[i] == ending) & (pep[i] == eep[i])
is_prepared = cst.is_in(COORDINATOR.PrepareCommit, COORDINATOR.PrepareAbort)
ongoing = cst == COORDINATOR.Ongoing
drop_end = {er[i]: END.none, eep[i]: 0}
drop_add = {ar[i]: None, aep[i]: 0}
drop_produce = {rq[i][k]: 0, rqep[i][k]: 0}
write_marker = {
    bopen[k]: 0,
    blast[k]: if_(cst == COORDINATOR.PrepareCommit, END.commit, END.abort),
    bep[k]: if_(cep > bep[k], cep, bep[k]),
    bseq[k]: if_(cep > bep[k], 0, bseq[k]),
}
fence = {cst: COORDINATOR.PrepareEpochFence, cep: cep + 1}


def action(
    name: str, *over: Expression, when: Expression, set: Mapping[Expression, Operand]
) -> Table:
    """One action of the model: a table of a single row, for every value of `over`."""
    return Table(ktx, event(name, *over), (Row(name, when=when, set=set),))


TABLES = (
    action("StartInit", i, when=pst[i] == CLIENT.Down, set={pst[i]: CLIENT.Init}),
    action("InitFence", i, when=(pst[i] == CLIENT.Init) & ongoing & (cep < E), set=fence),
    action(
        "InitOk", i, when=init_allowed,
        set={cst: COORDINATOR.Empty, cep: cep + 1, pst[i]: CLIENT.Ready, pep[i]: cep + 1},
    ),
    action("InitLost", i, when=init_allowed, set={cst: COORDINATOR.Empty, cep: cep + 1}),
    action("Timeout", when=ongoing & (cep < E), set=fence),
    action(
        "FenceAbort", when=cst == COORDINATOR.PrepareEpochFence,
        set={cst: COORDINATOR.PrepareAbort} | MARKERS,
    ),
    action(
        "SendAdd", i, k,
        when=pst[i].is_in(CLIENT.Ready, CLIENT.InTxn) & (padd[i][k] == 0) & ~ar[i].is_set,
        set={ar[i]: k, aep[i]: pep[i]},
    ),
    action(
        "AddOk", i, when=add_allowed,
        set={
            cst: COORDINATOR.Ongoing,
            cpart[ar[i].value]: 1,
            padd[i][ar[i].value]: if_(add_mine, 1, padd[i][ar[i].value]),
            pst[i]: if_(add_mine, CLIENT.InTxn, pst[i]),
        } | drop_add,
    ),
    action("AddLost", i, when=add_allowed, set={cst: COORDINATOR.Ongoing, cpart[ar[i].value]: 1}),
    action(
        "AddFenced", i, when=ar[i].is_set & (aep[i] != cep),
        set={pst[i]: if_(add_mine, CLIENT.Fenced, pst[i])} | drop_add,
    ),
    action("DropAdd", i, when=ar[i].is_set, set=drop_add),
    action(
        "Send", i, k,
        when=(pst[i] == CLIENT.InTxn) & (padd[i][k] == 1) & (s == 0)
        & (pack[i][k] == pseq[i][k]) & (pseq[i][k] < S),
        set={pseq[i][k]: pseq[i][k] + 1, s: pseq[i][k] + 1, e: pep[i]},
    ),
    action(
        "Resend", i, k, when=(pst[i] == CLIENT.InTxn) & (s == 0) & (pack[i][k] < pseq[i][k]),
        set={s: pseq[i][k], e: pep[i]},
    ),
    action(
        "ProdOk", i, k, when=(s != 0) & (duplicate | appends),
        set={
            bep[k]: if_(appends, e, bep[k]),
            bseq[k]: if_(appends, s, bseq[k]),
            bopen[k]: if_(appends, 1, bopen[k]),
            pack[i][k]: if_(produce_mine, s, pack[i][k]),
        } | drop_produce,
    ),
    action("ProdLost", i, k, when=(s != 0) & appends, set={bep[k]: e, bseq[k]: s, bopen[k]: 1}),
    action(
        "ProdFenced", i, k, when=(s != 0) & (e < bep[k]),
        set={pst[i]: if_(produce_mine, CLIENT.Fenced, pst[i])} | drop_produce,
    ),
    action("DropProd", i, k, when=s != 0, set=drop_produce),
    action(
        "Commit", i,
        when=(pst[i] == CLIENT.InTxn) & ~ar[i].is_set & (er[i] == END.none) & acked,
        set={pst[i]: CLIENT.Committing, er[i]: END.commit, eep[i]: pep[i]},
    ),
    action(
        "Abort", i, when=(pst[i] == CLIENT.InTxn) & ~ar[i].is_set & (er[i] == END.none),
        set={pst[i]: CLIENT.Aborting, er[i]: END.abort, eep[i]: pep[i]},
    ),
    action(
        "ResendEnd", i,
        when=pst[i].is_in(CLIENT.Committing, CLIENT.Aborting) & (er[i] == END.none),
        set={er[i]: if_(pst[i] == CLIENT.Committing, END.commit, END.abort), eep[i]: pep[i]},
    ),
    action(
        "EndOk", i, when=(er[i] != END.none) & (eep[i] == cep) & (ongoing | (cst == completed)),
        set={
            cst: if_(ongoing, prepared, cst),
            mk: if_(ongoing, cpart, mk),
            pst[i]: if_(end_mine, if_(acked, CLIENT.Ready, CLIENT.Down), pst[i]),
            pep[i]: if_(end_mine & ~acked, 0, pep[i]),
            pseq[i]: if_(end_mine & ~acked, ZERO, pseq[i]),
            pack[i]: if_(end_mine & ~acked, ZERO, pack[i]),
            padd[i]: if_(end_mine, ZERO, padd[i]),
        } | drop_end,
    ),
    action(
        "EndLost", i, when=(er[i] != END.none) & (eep[i] == cep) & ongoing,
        set={cst: prepared} | MARKERS,
    ),
    action(
        "EndFenced", i,
        when=(er[i] != END.none)
        & (
            (eep[i] != cep)
            | (cst == COORDINATOR.Empty)
            | (
                cst.is_in(COORDINATOR.CompleteCommit, COORDINATOR.CompleteAbort)
                & (cst != completed)
            )
        ),
        set={pst[i]: if_(end_mine, CLIENT.Fenced, pst[i])} | drop_end,
    ),
    action("DropEnd", i, when=er[i] != END.none, set=drop_end),
    action("MarkOk", k, when=mk[k] == 1, set=write_marker | {mk[k]: 0, cpart[k]: 0}),
    action("MarkLost", k, when=mk[k] == 1, set=write_marker | {mk[k]: 0}),
    action("DropMark", k, when=mk[k] == 1, set={mk[k]: 0}),
    action("ResendMark", k, when=is_prepared & (cpart[k] == 1) & (mk[k] == 0), set={mk[k]: 1}),
    action(
        "Complete", when=is_prepared & all_of(k, cpart[k] == 0),
        set={
            cst: if_(
                cst == COORDINATOR.PrepareCommit,
                COORDINATOR.CompleteCommit,
                COORDINATOR.CompleteAbort,
            )
        },
    ),
    action("Crash", i, when=pst[i] != CLIENT.Down, set=crash),
)  # fmt: skip

PROPERTIES = (
    invariant(
        "EpochBound",
        all_of(i, pep[i] <= cep) & all_of(k, bep[k] <= cep),
        "No instance and no leader holds an epoch that the coordinator has not handed out.",
    ),
    invariant(
        "UniqueEpoch",
        all_of(i, all_of(j, ((i != j) & (pep[i] == pep[j])).implies(pep[i] == 0))),
        "No two instances hold the same epoch.",
    ),
    invariant(
        "NoHanging",
        all_of(
            k,
            (bopen[k] == 1).implies(
                (cpart[k] == 1)
                & cst.is_in(
                    COORDINATOR.Ongoing,
                    COORDINATOR.PrepareCommit,
                    COORDINATOR.PrepareAbort,
                    COORDINATOR.PrepareEpochFence,
                )
            ),
        ),
        "A transaction that is open at a leader is one that the coordinator will close.",
    ),
    invariant(
        "AckedKept",
        all_of(
            i,
            all_of(
                k,
                (
                    pst[i].is_in(CLIENT.InTxn, CLIENT.Committing)
                    & (pep[i] == cep)
                    & (pack[i][k] > 0)
                ).implies((bep[k] == pep[i]) & (bseq[k] >= pack[i][k])),
            ),
        ),
        "What was acknowledged to the live instance is in the log.",
    ),
    invariant(
        "MarkerSane",
        all_of(k, (mk[k] == 1).implies((cpart[k] == 1) & is_prepared)),
        "A marker is in flight only for a partition of a decided transaction.",
    ),
    invariant(
        "MarkerEpoch",
        all_of(k, (blast[k] != END.none).implies(bep[k] > 0)),
        "A leader that wrote a marker knows an epoch.",
    ),
)

WITH_EPOCH = (CLIENT.Ready, CLIENT.InTxn, CLIENT.Committing, CLIENT.Aborting)
LEMMAS = (
    invariant(
        "RequestEpochs",
        all_of(i, (aep[i] <= cep) & (eep[i] <= cep) & all_of(k, rqep[i][k] <= cep)),
        "A request carries no epoch that the coordinator has not handed out.",
    ),
    invariant(
        "EpochsThere",
        (cst != COORDINATOR.Empty).implies(cep > 0)
        & all_of(
            i, pst[i].is_in(*WITH_EPOCH).implies(pep[i] > 0) & ar[i].is_set.implies(aep[i] > 0)
        ),
        "Who takes part in a transaction has been given an epoch.",
    ),
    invariant(
        "StartsAnew",
        all_of(
            i,
            pst[i]
            .is_in(CLIENT.Down, CLIENT.Init)
            .implies((pep[i] == 0) & all_of(k, (pack[i][k] == 0) & (pseq[i][k] == 0))),
        ),
        "An instance that has no epoch has no acknowledgements.",
    ),
    invariant(
        "AckedOfLiveEpoch",
        all_of(
            i,
            all_of(
                k,
                (pst[i].is_in(*WITH_EPOCH) & (pep[i] == cep) & (pack[i][k] > 0)).implies(
                    (bep[k] == cep) & (bseq[k] >= pack[i][k])
                ),
            ),
        ),
        "The live instance's acknowledgements are the leader's, between transactions as well.",
    ),
)

system = System(
    name="ktx",
    doc="The benchmark protocol: one transactional id, one coordinator, K leaders, I instances.",
    tables=TABLES,
    properties=PROPERTIES,
    lemmas=LEMMAS,
    constants=(I, K, E, S, V),
    terminal=True,
    reach="All of the model within the constants; they are what bounds it.",
)
