//! The KTX model (MODEL.md) for Stateright: `ktx THREADS` searches breadth-first, `ktx THREADS
//! SECONDS` walks at random for so long.
//!
//! A state is an array of bytes, one for each variable, so that hashing it is one call. Each action
//! of MODEL.md is a variant of `Act`, with its guard in `actions` and its updates in `next_state`.

mod size;

use size::{E, I, K, S, V};
use stateright::{Checker, Model, Property, UniformChooser};
use std::time::Duration;

const OF_PARTITIONS: usize = 2;
const OF_INSTANCES: usize = OF_PARTITIONS + 6 * K;
const OF_BOTH: usize = OF_INSTANCES + 6 * I;
const BYTES: usize = OF_BOTH + 5 * I * K;

const CST: usize = 0;
const CEP: usize = 1;

/// Functions that give the place of a variable, in the order in which they are listed.
macro_rules! places {
    ($from:expr, k: $($name:ident = $at:expr),*) => {
        $(const fn $name(k: usize) -> usize { $from + $at * K + k })*
    };
    ($from:expr, i: $($name:ident = $at:expr),*) => {
        $(const fn $name(i: usize) -> usize { $from + $at * I + i })*
    };
    ($from:expr, i k: $($name:ident = $at:expr),*) => {
        $(const fn $name(i: usize, k: usize) -> usize { $from + ($at * I + i) * K + k })*
    };
}
places!(OF_PARTITIONS, k: cpart = 0, mk = 1, bep = 2, bseq = 3, bopen = 4, blast = 5);
places!(OF_INSTANCES, i: pst = 0, pep = 1, ar = 2, aep = 3, er = 4, eep = 5);
places!(OF_BOTH, i k: pseq = 0, pack = 1, padd = 2, rq = 3, rqep = 4);

type State = [u8; BYTES];

#[derive(Clone, Copy, PartialEq)]
enum Act {
    StartInit,
    InitFence,
    InitOk,
    InitLost,
    Timeout,
    FenceAbort,
    SendAdd,
    AddOk,
    AddLost,
    AddFenced,
    DropAdd,
    Send,
    Resend,
    ProdOk,
    ProdLost,
    ProdFenced,
    DropProd,
    Commit,
    Abort,
    ResendEnd,
    EndOk,
    EndLost,
    EndFenced,
    DropEnd,
    MarkOk,
    MarkLost,
    DropMark,
    ResendMark,
    Complete,
    Crash,
}

/// An action for an instance and a partition; 0 for one that it doesn't name.
#[derive(Clone, Copy, PartialEq)]
struct Step(Act, u8, u8);

fn crash(s: &mut State, i: usize) {
    s[pst(i)] = 0;
    s[pep(i)] = 0;
    for k in 0..K {
        s[pseq(i, k)] = 0;
        s[pack(i, k)] = 0;
        s[padd(i, k)] = 0;
    }
}

fn acked(s: &State, i: usize) -> bool {
    (0..K).all(|k| s[pack(i, k)] == s[pseq(i, k)])
}

fn markers(s: &mut State) {
    for k in 0..K {
        s[mk(k)] = s[cpart(k)];
    }
}

fn dup(s: &State, i: usize, k: usize) -> bool {
    s[rqep(i, k)] == s[bep(k)] && s[rq(i, k)] <= s[bseq(k)]
}

/// NEXT(i,k) and VOK(i,k).
fn may_append(s: &State, i: usize, k: usize) -> bool {
    let (e, q) = (s[rqep(i, k)], s[rq(i, k)]);
    let next = (e == s[bep(k)] && q == s[bseq(k)] + 1) || (e > s[bep(k)] && q == 1);
    let open = s[bopen(k)] == 1;
    next && (V == 0 || open || (s[CST] == 1 && s[cpart(k)] == 1 && s[CEP] == e))
}

fn append(s: &mut State, i: usize, k: usize) {
    s[bep(k)] = s[rqep(i, k)];
    s[bseq(k)] = s[rq(i, k)];
    s[bopen(k)] = 1;
}

fn write_marker(s: &mut State, k: usize) {
    s[bopen(k)] = 0;
    s[blast(k)] = s[CST] - 1;
    if s[CEP] > s[bep(k)] {
        s[bep(k)] = s[CEP];
        s[bseq(k)] = 0;
    }
    s[mk(k)] = 0;
}

fn drop_add(s: &mut State, i: usize) {
    s[ar(i)] = 0;
    s[aep(i)] = 0;
}

fn drop_produce(s: &mut State, i: usize, k: usize) {
    s[rq(i, k)] = 0;
    s[rqep(i, k)] = 0;
}

fn drop_end(s: &mut State, i: usize) {
    s[er(i)] = 0;
    s[eep(i)] = 0;
}

/// Whether instance i still is the one that asked to add a partition, to write, or to end.
fn asked_to_add(s: &State, i: usize) -> bool {
    matches!(s[pst(i)], 2 | 3) && s[pep(i)] == s[aep(i)]
}

fn asked_to_write(s: &State, i: usize, k: usize) -> bool {
    matches!(s[pst(i)], 3 | 5) && s[pep(i)] == s[rqep(i, k)]
}

fn asked_to_end(s: &State, i: usize) -> bool {
    s[pst(i)] == s[er(i)] + 3 && s[pep(i)] == s[eep(i)]
}

fn actions_of_instance(s: &State, i: usize, can: &mut impl FnMut(Act, bool)) {
    let (c, p) = (s[CST], s[pst(i)]);
    can(Act::StartInit, p == 0);
    can(Act::Crash, p != 0);
    can(Act::InitFence, p == 1 && c == 1 && s[CEP] < E);
    let begins = p == 1 && matches!(c, 0 | 4 | 5) && s[CEP] < E;
    can(Act::InitOk, begins);
    can(Act::InitLost, begins);
    if s[ar(i)] != 0 {
        let adds = s[aep(i)] == s[CEP] && matches!(c, 0 | 1 | 4 | 5);
        can(Act::AddOk, adds);
        can(Act::AddLost, adds);
        can(Act::AddFenced, s[aep(i)] != s[CEP]);
        can(Act::DropAdd, true);
    }
    let ends = p == 3 && s[ar(i)] == 0 && s[er(i)] == 0;
    can(Act::Commit, ends && acked(s, i));
    can(Act::Abort, ends);
    can(Act::ResendEnd, matches!(p, 4 | 5) && s[er(i)] == 0);
    if s[er(i)] != 0 {
        let (current, told) = (s[eep(i)] == s[CEP], s[er(i)] + 3);
        can(Act::EndOk, current && (c == 1 || c == told));
        can(Act::EndLost, current && c == 1);
        can(
            Act::EndFenced,
            !current || c == 0 || (matches!(c, 4 | 5) && c != told),
        );
        can(Act::DropEnd, true);
    }
}

fn actions_of_both(s: &State, i: usize, k: usize, can: &mut impl FnMut(Act, bool)) {
    let p = s[pst(i)];
    can(
        Act::SendAdd,
        matches!(p, 2 | 3) && s[padd(i, k)] == 0 && s[ar(i)] == 0,
    );
    if s[rq(i, k)] == 0 {
        let all = s[pack(i, k)] == s[pseq(i, k)];
        can(
            Act::Send,
            p == 3 && s[padd(i, k)] == 1 && all && s[pseq(i, k)] < S,
        );
        can(Act::Resend, p == 3 && s[pack(i, k)] < s[pseq(i, k)]);
    } else {
        let appends = may_append(s, i, k);
        can(Act::ProdOk, appends || dup(s, i, k));
        can(Act::ProdLost, appends);
        can(Act::ProdFenced, s[rqep(i, k)] < s[bep(k)]);
        can(Act::DropProd, true);
    }
}

struct Ktx;

impl Model for Ktx {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![[0; BYTES]]
    }

    fn actions(&self, s: &State, actions: &mut Vec<Step>) {
        let mut can = |act, i, k, enabled| {
            if enabled {
                actions.push(Step(act, i as u8, k as u8));
            }
        };
        let c = s[CST];
        can(Act::Timeout, 0, 0, c == 1 && s[CEP] < E);
        can(Act::FenceAbort, 0, 0, c == 6);
        let all_marked = (0..K).all(|k| s[cpart(k)] == 0);
        can(Act::Complete, 0, 0, matches!(c, 2 | 3) && all_marked);
        for i in 0..I {
            actions_of_instance(s, i, &mut |act, enabled| can(act, i, 0, enabled));
            for k in 0..K {
                actions_of_both(s, i, k, &mut |act, enabled| can(act, i, k, enabled));
            }
        }
        for k in 0..K {
            can(Act::MarkOk, 0, k, s[mk(k)] == 1);
            can(Act::MarkLost, 0, k, s[mk(k)] == 1);
            can(Act::DropMark, 0, k, s[mk(k)] == 1);
            can(
                Act::ResendMark,
                0,
                k,
                matches!(c, 2 | 3) && s[cpart(k)] == 1 && s[mk(k)] == 0,
            );
        }
    }

    fn next_state(&self, before: &State, Step(act, i, k): Step) -> Option<State> {
        let (i, k) = (i as usize, k as usize);
        let mut s = *before;
        match act {
            Act::StartInit => s[pst(i)] = 1,
            Act::InitFence | Act::Timeout => {
                s[CST] = 6;
                s[CEP] += 1;
            }
            Act::InitOk | Act::InitLost => {
                s[CST] = 0;
                s[CEP] += 1;
                if act == Act::InitOk {
                    s[pst(i)] = 2;
                    s[pep(i)] = s[CEP];
                }
            }
            Act::FenceAbort => {
                s[CST] = 3;
                markers(&mut s);
            }
            Act::SendAdd => {
                s[ar(i)] = k as u8 + 1;
                s[aep(i)] = s[pep(i)];
            }
            Act::AddOk | Act::AddLost => {
                let k = s[ar(i)] as usize - 1;
                s[CST] = 1;
                s[cpart(k)] = 1;
                if act == Act::AddOk {
                    if asked_to_add(before, i) {
                        s[padd(i, k)] = 1;
                        s[pst(i)] = 3;
                    }
                    drop_add(&mut s, i);
                }
            }
            Act::AddFenced => {
                if asked_to_add(before, i) {
                    s[pst(i)] = 6;
                }
                drop_add(&mut s, i);
            }
            Act::DropAdd => drop_add(&mut s, i),
            Act::Send | Act::Resend => {
                if act == Act::Send {
                    s[pseq(i, k)] += 1;
                }
                s[rq(i, k)] = s[pseq(i, k)];
                s[rqep(i, k)] = s[pep(i)];
            }
            Act::ProdOk => {
                if may_append(before, i, k) {
                    append(&mut s, i, k);
                }
                if asked_to_write(before, i, k) {
                    s[pack(i, k)] = before[rq(i, k)];
                }
                drop_produce(&mut s, i, k);
            }
            Act::ProdLost => append(&mut s, i, k),
            Act::ProdFenced => {
                if asked_to_write(before, i, k) {
                    s[pst(i)] = 6;
                }
                drop_produce(&mut s, i, k);
            }
            Act::DropProd => drop_produce(&mut s, i, k),
            Act::Commit | Act::Abort => {
                let end = if act == Act::Commit { 1 } else { 2 };
                s[pst(i)] = end + 3;
                s[er(i)] = end;
                s[eep(i)] = s[pep(i)];
            }
            Act::ResendEnd => {
                s[er(i)] = s[pst(i)] - 3;
                s[eep(i)] = s[pep(i)];
            }
            Act::EndOk | Act::EndLost => {
                if before[CST] == 1 {
                    s[CST] = s[er(i)] + 1;
                    markers(&mut s);
                }
                if act == Act::EndOk {
                    if asked_to_end(before, i) {
                        if acked(before, i) {
                            s[pst(i)] = 2;
                            for k in 0..K {
                                s[padd(i, k)] = 0;
                            }
                        } else {
                            crash(&mut s, i);
                        }
                    }
                    drop_end(&mut s, i);
                }
            }
            Act::EndFenced => {
                if asked_to_end(before, i) {
                    s[pst(i)] = 6;
                }
                drop_end(&mut s, i);
            }
            Act::DropEnd => drop_end(&mut s, i),
            Act::MarkOk | Act::MarkLost => {
                write_marker(&mut s, k);
                if act == Act::MarkOk {
                    s[cpart(k)] = 0;
                }
            }
            Act::DropMark => s[mk(k)] = 0,
            Act::ResendMark => s[mk(k)] = 1,
            Act::Complete => s[CST] += 2,
            Act::Crash => crash(&mut s, i),
        }
        Some(s)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("EpochBound", |_, s: &State| {
                (0..I).all(|i| s[pep(i)] <= s[CEP]) && (0..K).all(|k| s[bep(k)] <= s[CEP])
            }),
            Property::always("UniqueEpoch", |_, s: &State| {
                (0..I).all(|i| (0..i).all(|j| s[pep(i)] != s[pep(j)] || s[pep(i)] == 0))
            }),
            Property::always("NoHanging", |_, s: &State| {
                let may_be_open = matches!(s[CST], 1 | 2 | 3 | 6);
                (0..K).all(|k| s[bopen(k)] == 0 || (s[cpart(k)] == 1 && may_be_open))
            }),
            Property::always("AckedKept", |_, s: &State| {
                let kept = |i, k| {
                    let live = matches!(s[pst(i)], 3 | 4) && s[pep(i)] == s[CEP];
                    let there = s[bep(k)] == s[pep(i)] && s[bseq(k)] >= s[pack(i, k)];
                    !live || s[pack(i, k)] == 0 || there
                };
                (0..I).all(|i| (0..K).all(|k| kept(i, k)))
            }),
            Property::always("MarkerSane", |_, s: &State| {
                (0..K).all(|k| s[mk(k)] == 0 || (s[cpart(k)] == 1 && matches!(s[CST], 2 | 3)))
            }),
            Property::always("MarkerEpoch", |_, s: &State| {
                (0..K).all(|k| s[blast(k)] == 0 || s[bep(k)] > 0)
            }),
        ]
    }
}

fn main() {
    let threads = std::env::args().nth(1).and_then(|told| told.parse().ok());
    let threads = threads.expect("usage: ktx THREADS");
    if let Some(told) = std::env::args().nth(2) {
        let seconds = Duration::from_secs(told.parse().expect("usage: ktx THREADS SECONDS"));
        let walks = Ktx.checker().threads(threads).timeout(seconds);
        let walks = walks.spawn_simulation(1, UniformChooser).join();
        println!("{} steps", walks.state_count());
        return;
    }
    let checker = Ktx.checker().threads(threads).spawn_bfs().join();
    let broken = checker.discoveries();
    for name in broken.keys() {
        println!("{name} is broken");
    }
    // Stateright counts the initial state as generated.
    let (states, steps) = (checker.unique_state_count(), checker.state_count() - 1);
    println!("{states} states, {steps} transitions");
    std::process::exit(if broken.is_empty() { 0 } else { 1 });
}
