----------------------------- MODULE Epochfence -----------------------------
(* What the modules that Epochfence writes are made of.                      *)
(*                                                                           *)
(* An optional is a sequence of at most one element. A bag is a function     *)
(* from its elements to how often each is there. Keys are numbers from 0 on. *)
EXTENDS Integers, Sequences, FiniteSets

None == << >>
Some(x) == <<x>>
IsSet(o) == o # << >>
ValueOr(o, initial) == IF o = << >> THEN initial ELSE o[1]
OptionalOf(S) == {None} \cup {Some(x) : x \in S}

MapOf(D, x) == [k \in D |-> x]

Least(S) == CHOOSE x \in S : \A y \in S : x <= y
Greatest(S) == CHOOSE x \in S : \A y \in S : x >= y
LeastOf(S) == IF S = {} THEN None ELSE Some(Least(S))
LeastOr0(S) == IF S = {} THEN 0 ELSE Least(S)
GreatestOr0(S) == IF S = {} THEN 0 ELSE Greatest(S)

\* The sum of a function's values
RECURSIVE SumOver(_, _)
SumOver(f, S) ==
  IF S = {} THEN 0
  ELSE LET x == CHOOSE y \in S : TRUE IN f[x] + SumOver(f, S \ {x})
Sum(f) == SumOver(f, DOMAIN f)

\* Sequences: places count from 0.
At(s, i) == IF i >= 0 /\ i < Len(s) THEN Some(s[i + 1]) ELSE None
Last(s) == At(s, Len(s) - 1)
From(s, i) == [n \in 1..(IF i < Len(s) THEN Len(s) - i ELSE 0) |-> s[n + i]]
Slice(s, i, j) ==
  LET low == IF i < 0 THEN 0 ELSE i
      high == IF j > Len(s) THEN Len(s) ELSE j
  IN [n \in 1..(IF low < high THEN high - low ELSE 0) |-> s[n + low]]
IsPrefix(s, t) == Len(s) <= Len(t) /\ \A n \in 1..Len(s) : s[n] = t[n]
Push(s, x, capacity) == IF Len(s) < capacity THEN Append(s, x) ELSE Tail(Append(s, x))
InsertBefore(s, x, isBehind(_)) ==
  LET behind == {n \in 1..Len(s) : isBehind(s[n])}
      place == IF behind = {} THEN Len(s) ELSE Least(behind) - 1
  IN Slice(s, 0, place) \o <<x>> \o From(s, place)
RECURSIVE Kept(_, _)
Kept(s, places) ==
  IF places = {} THEN << >>
  ELSE LET n == Least(places) IN <<s[n]>> \o Kept(s, places \ {n})
FirstOf(s, places) == IF places = {} THEN None ELSE Some(s[Least(places)])

\* Bags
EmptyBag == << >>
Put(b, x) ==
  [y \in DOMAIN b \cup {x} |->
     (IF y \in DOMAIN b THEN b[y] ELSE 0) + (IF y = x THEN 1 ELSE 0)]
Take(b, x) ==
  IF x \notin DOMAIN b THEN b
  ELSE IF b[x] > 1 THEN [b EXCEPT ![x] = @ - 1]
  ELSE [y \in DOMAIN b \ {x} |-> b[y]]
BagSize(b) == Sum(b)
KeptIn(b, S) == [x \in S |-> b[x]]
=============================================================================
