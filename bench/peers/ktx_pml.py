"""Writes the Promela form of the KTX model (MODEL.md) for given constants.

usage: python ktx_pml.py I K E S V > ktx.pml

One process, one control location and one d_step per action instance: SPIN's stored states are
exactly the model's states. Every variable has its least number of bits: this is smaller and faster
than bytes in SPIN.
"""

import sys
from collections.abc import Sequence

N_INSTANCES, N_PARTITIONS, E, S, V = map(int, sys.argv[1:])
P, Q = range(N_INSTANCES), range(N_PARTITIONS)
out: list[str] = []


def var(name: str, hi: int) -> None:
    """Declares a variable of range 0..hi."""
    out.append(f"unsigned {name} : {max(1, hi.bit_length())} = 0;")


def act(name: str, guard: str, *upd: str) -> None:
    """Adds an action instance."""
    out.append(f"  :: d_step {{ {guard} -> /* {name} */ " + "; ".join(upd) + " }")


def cond(c: str, yes: list[str], no: Sequence[str] = ("skip",)) -> str:
    """A statement that executes `yes` if c holds, else `no`."""
    return f"if :: ({c}) -> {'; '.join(yes)} :: else -> {'; '.join(no)} fi"


def crash(i: int) -> list[str]:
    """MODEL.md's CRASH(i)."""
    r = [f"pst{i} = 0", f"pep{i} = 0"]
    for k in Q:
        r += [f"pseq{i}_{k} = 0", f"pack{i}_{k} = 0", f"padd{i}_{k} = 0"]
    return r


def acked(i: int) -> str:
    """MODEL.md's ACKED(i)."""
    return " && ".join(f"pack{i}_{k} == pseq{i}_{k}" for k in Q)


var("cst", 6)
var("cep", E)
for k in Q:
    var(f"cpart{k}", 1)
    var(f"mk{k}", 1)
    var(f"bep{k}", E)
    var(f"bseq{k}", S)
    var(f"bopen{k}", 1)
    var(f"blast{k}", 2)
for i in P:
    var(f"pst{i}", 6)
    var(f"pep{i}", E)
    var(f"ar{i}", N_PARTITIONS)
    var(f"aep{i}", E)
    var(f"er{i}", 2)
    var(f"eep{i}", E)
    for k in Q:
        var(f"pseq{i}_{k}", S)
        var(f"pack{i}_{k}", S)
        var(f"padd{i}_{k}", 1)
        var(f"rq{i}_{k}", S)
        var(f"rqep{i}_{k}", E)

markers = [f"mk{k} = cpart{k}" for k in Q]
bad: list[str] = []
for i in P:
    bad.append(f"pep{i} > cep")
    bad += [f"(pep{i} == pep{j} && pep{i} != 0)" for j in P if i < j]
    bad += [
        f"((pst{i} == 3 || pst{i} == 4) && pep{i} == cep && pack{i}_{k} > 0"
        f" && !(bep{k} == pep{i} && bseq{k} >= pack{i}_{k}))"
        for k in Q
    ]
for k in Q:
    bad.append(f"bep{k} > cep")
    bad.append(f"(blast{k} > 0 && bep{k} == 0)")
    bad.append(
        f"(bopen{k} == 1 && !(cpart{k} == 1 && (cst == 1 || cst == 2 || cst == 3 || cst == 6)))"
    )
    bad.append(f"(mk{k} == 1 && !(cpart{k} == 1 && (cst == 2 || cst == 3)))")

out.append("active proctype ktx() {\n  do")
out.append("  :: d_step { (" + "\n     || ".join(bad) + ") -> assert(false) }")
act("Timeout", f"(cst == 1 && cep < {E})", "cst = 6", "cep = cep + 1")
act("FenceAbort", "(cst == 6)", "cst = 3", *markers)
act(
    "Complete",
    "((cst == 2 || cst == 3) && " + " && ".join(f"cpart{k} == 0" for k in Q) + ")",
    "cst = cst + 2",
)
for i in P:
    act("StartInit", f"(pst{i} == 0)", f"pst{i} = 1")
    act("InitFence", f"(pst{i} == 1 && cst == 1 && cep < {E})", "cst = 6", "cep = cep + 1")
    done = f"(pst{i} == 1 && (cst == 0 || cst == 4 || cst == 5) && cep < {E})"
    act("InitOk", done, "cst = 0", "cep = cep + 1", f"pst{i} = 2", f"pep{i} = cep")
    act("InitLost", done, "cst = 0", "cep = cep + 1")
    add = f"(ar{i} != 0 && aep{i} == cep && (cst == 0 || cst == 1 || cst == 4 || cst == 5))"
    live = f"(pst{i} == 2 || pst{i} == 3) && pep{i} == aep{i}"
    setp = "if " + " ".join(f":: (ar{i} == {k + 1}) -> cpart{k} = 1" for k in Q) + " fi"
    setb = "if " + " ".join(f":: (ar{i} == {k + 1}) -> padd{i}_{k} = 1" for k in Q) + " fi"
    act(
        "AddOk",
        add,
        "cst = 1",
        setp,
        cond(live, [setb, f"pst{i} = 3"]),
        f"ar{i} = 0",
        f"aep{i} = 0",
    )
    act("AddLost", add, "cst = 1", setp)
    act(
        "AddFenced",
        f"(ar{i} != 0 && aep{i} != cep)",
        cond(live, [f"pst{i} = 6"]),
        f"ar{i} = 0",
        f"aep{i} = 0",
    )
    act("DropAdd", f"(ar{i} != 0)", f"ar{i} = 0", f"aep{i} = 0")
    act(
        "Commit",
        f"(pst{i} == 3 && ar{i} == 0 && er{i} == 0 && {acked(i)})",
        f"pst{i} = 4",
        f"er{i} = 1",
        f"eep{i} = pep{i}",
    )
    act(
        "Abort",
        f"(pst{i} == 3 && ar{i} == 0 && er{i} == 0)",
        f"pst{i} = 5",
        f"er{i} = 2",
        f"eep{i} = pep{i}",
    )
    act(
        "ResendEnd",
        f"((pst{i} == 4 || pst{i} == 5) && er{i} == 0)",
        f"er{i} = pst{i} - 3",
        f"eep{i} = pep{i}",
    )
    mine = f"pst{i} == er{i} + 3 && pep{i} == eep{i}"
    act(
        "EndOk",
        f"(er{i} != 0 && eep{i} == cep && (cst == 1 || cst == er{i} + 3))",
        cond("cst == 1", [f"cst = er{i} + 1", *markers]),
        cond(mine, [cond(acked(i), [f"pst{i} = 2"] + [f"padd{i}_{k} = 0" for k in Q], crash(i))]),
        f"er{i} = 0",
        f"eep{i} = 0",
    )
    act("EndLost", f"(er{i} != 0 && eep{i} == cep && cst == 1)", f"cst = er{i} + 1", *markers)
    act(
        "EndFenced",
        f"(er{i} != 0 && (eep{i} != cep || cst == 0"
        f" || ((cst == 4 || cst == 5) && cst != er{i} + 3)))",
        cond(mine, [f"pst{i} = 6"]),
        f"er{i} = 0",
        f"eep{i} = 0",
    )
    act("DropEnd", f"(er{i} != 0)", f"er{i} = 0", f"eep{i} = 0")
    act("Crash", f"(pst{i} != 0)", *crash(i))
    for k in Q:
        ik = f"{i}_{k}"
        dup = f"(rqep{ik} == bep{k} && rq{ik} <= bseq{k})"
        nxt = (
            f"((rqep{ik} == bep{k} && rq{ik} == bseq{k} + 1) || (rqep{ik} > bep{k} && rq{ik} == 1))"
        )
        vok = f"(bopen{k} == 1 || (cst == 1 && cpart{k} == 1 && cep == rqep{ik}))" if V else "true"
        app = [f"bep{k} = rqep{ik}", f"bseq{k} = rq{ik}", f"bopen{k} = 1"]
        clr = [f"rq{ik} = 0", f"rqep{ik} = 0"]
        own = f"(pst{i} == 3 || pst{i} == 5) && pep{i} == rqep{ik}"
        act(
            "SendAdd",
            f"((pst{i} == 2 || pst{i} == 3) && padd{ik} == 0 && ar{i} == 0)",
            f"ar{i} = {k + 1}",
            f"aep{i} = pep{i}",
        )
        act(
            "Send",
            f"(pst{i} == 3 && padd{ik} == 1 && rq{ik} == 0"
            f" && pack{ik} == pseq{ik} && pseq{ik} < {S})",
            f"pseq{ik} = pseq{ik} + 1",
            f"rq{ik} = pseq{ik}",
            f"rqep{ik} = pep{i}",
        )
        act(
            "Resend",
            f"(pst{i} == 3 && rq{ik} == 0 && pack{ik} < pseq{ik})",
            f"rq{ik} = pseq{ik}",
            f"rqep{ik} = pep{i}",
        )
        act(
            "ProdOk",
            f"(rq{ik} != 0 && ({dup} || ({nxt} && {vok})))",
            cond(dup, ["skip"], app),
            cond(own, [f"pack{ik} = rq{ik}"]),
            *clr,
        )
        act("ProdLost", f"(rq{ik} != 0 && {nxt} && {vok})", *app)
        act("ProdFenced", f"(rq{ik} != 0 && rqep{ik} < bep{k})", cond(own, [f"pst{i} = 6"]), *clr)
        act("DropProd", f"(rq{ik} != 0)", *clr)
for k in Q:
    wm = [
        f"bopen{k} = 0",
        f"blast{k} = cst - 1",
        cond(f"cep > bep{k}", [f"bep{k} = cep", f"bseq{k} = 0"]),
    ]
    act("MarkOk", f"(mk{k} == 1)", *wm, f"mk{k} = 0", f"cpart{k} = 0")
    act("MarkLost", f"(mk{k} == 1)", *wm, f"mk{k} = 0")
    act("DropMark", f"(mk{k} == 1)", f"mk{k} = 0")
    act("ResendMark", f"((cst == 2 || cst == 3) && cpart{k} == 1 && mk{k} == 0)", f"mk{k} = 1")
out.append("  od\n}")
print("\n".join(out))
