"""Small declarations to plant slips in: seven protocols, as Python source, with parameters drawn.

In each, all properties hold, nothing is vacuous, and properties say exactly what a user could see:
what is counted on one side is what happened on the other, and a run ends with everything done.
"""

from __future__ import annotations

from random import Random

HEAD = "from epochfence.language import *\n"

LOCK = """
CLIENTS = constant("clients", {clients}, 1, 4)
ROUNDS = constant("rounds", {rounds}, 1, 4)
CLIENT = Key("client", CLIENTS)
State = enum("State", "IDLE", "WAITING", "HOLDING")

service = Machine("service")
holder = service.field("holder", Optional(CLIENT))
granted = service.field("granted", Map(CLIENT, Int(0, ROUNDS)))
freed = service.field("freed", Map(CLIENT, Int(0, ROUNDS)))

client = Machine("client", CLIENT)
state = client.state_field("state", State)
entered = client.field("entered", Int(0, ROUNDS))
left = client.field("left", Int(0, ROUNDS))
me = client.this

Acquire = message("Acquire", service, client=CLIENT)
Grant = message("Grant", client, answers=Acquire)
Release = message("Release", service, client=CLIENT)
want = event("want")
leave = event("leave")

TABLES = (
    Table(client, want, when=(state == State.IDLE) & (entered < ROUNDS), rows=(
        Row("ask", goto=State.WAITING, send=(Acquire(client=me),)),
    )),
    Table(service, Acquire, response=Grant, when=holder == None, rows=(
        Row("grant", set={{
            holder: Acquire.client, granted[Acquire.client]: granted[Acquire.client] + 1,
        }}, reply=Grant()),
    )),
    Table(client, Grant, rows=(
        Row("enter", goto=State.HOLDING, set={{entered: entered + 1}}),
    )),
    Table(client, leave, when=state == State.HOLDING, rows=(
        Row("leave", goto=State.IDLE, set={{left: left + 1}}, send=(Release(client=me),)),
    )),
    Table(service, Release, rows=(
        Row("free", set={{
            holder: None, freed[Release.client]: freed[Release.client] + 1,
        }}),
    )),
)

i, j = CLIENT.variable("i"), CLIENT.variable("j")
inside = state.at(i) == State.HOLDING

system = System(
    name="lock", tables=TABLES,
    properties=(
        invariant("OneInside", all_of(i, all_of(j, (
            inside & (state.at(j) == State.HOLDING)).implies(i == j))), "One holds the lock."),
        invariant("Known", all_of(i, inside.implies(holder == i)), "The service knows who."),
        invariant("Counted", all_of(i, (entered.at(i) - left.at(i)) == if_(inside, 1, 0)),
            "Who is inside has entered once more than left."),
        invariant("Open", all_of(i, (granted[i] - freed[i]) == if_(holder == i, 1, 0)),
            "A grant that isn't freed is the holder's."),
        step_property("InTurn", all_of(i, (after(state.at(i)) == State.HOLDING).implies(
            (state.at(i) == State.WAITING) | (state.at(i) == State.HOLDING))), "In turn."),
    ),
    constants=(CLIENTS, ROUNDS),
    channels=(Channel(Acquire, 1), Channel(Grant, 1), Channel(Release, 1)),
    terminal=all_of(i, (left.at(i) == ROUNDS) & (freed[i] == ROUNDS)),
)
"""

REQUEST = """
CLIENTS = constant("clients", {clients}, 1, 4)
CALLS = constant("calls", {calls}, 1, 4)
LOSSES = constant("losses", {losses}, 0, 3)
CLIENT = Key("client", CLIENTS)
NUMBER = Int(0, CALLS)
Status = enum("Status", NONE=0, REPEATED=1)
State = enum("State", "READY", "WAITING")

server = Machine("server")
served = server.field("served", Map(CLIENT, NUMBER))
done = server.field("done", Map(CLIENT, NUMBER))

client = Machine("client", CLIENT)
state = client.state_field("state", State)
sent = client.field("sent", NUMBER)
confirmed = client.field("confirmed", NUMBER)
attempts = client.field("attempts", Int(0, CALLS + LOSSES))
repeats = client.field("repeats", Int(0, LOSSES))
me = client.this

Ask = message("Ask", server, client=CLIENT, number=NUMBER)
Reply = message("Reply", client, answers=Ask, number=NUMBER, status=Status)
call = event("call")

again = Row("again", set={{attempts: attempts + 1, repeats: repeats + 1}},
    send=(Ask(client=me, number=sent),))

TABLES = (
    Table(client, call, when=(state == State.READY) & (sent < CALLS), rows=(
        Row("call", goto=State.WAITING, set={{sent: sent + 1, attempts: attempts + 1}},
            send=(Ask(client=me, number=sent + 1),)),
    )),
    Table(server, Ask, response=Reply, rows=(
        Row("repeated", when=Ask.number <= served[Ask.client],
            reply=Reply(number=served[Ask.client], status=Status.REPEATED)),
        Row("serve", set={{
            served[Ask.client]: Ask.number, done[Ask.client]: done[Ask.client] + 1,
        }}, reply=Reply(number=Ask.number, status=Status.NONE)),
    )),
    Table(client, lost(Ask), rows=(again,)),
    Table(client, lost(Reply), rows=(again,)),
    Table(client, Reply, rows=(
        Row("confirmed", when=Reply.number == sent, goto=State.READY,
            set={{confirmed: Reply.number}}),
    )),
)

i = CLIENT.variable("i")
waits = state.at(i) == State.WAITING

system = System(
    name="request", tables=TABLES,
    properties=(
        invariant("Once", all_of(i, done[i] == served[i]), "A call is served once."),
        invariant("Confirmed", all_of(i, (sent.at(i) - confirmed.at(i)) == if_(waits, 1, 0)),
            "What isn't confirmed is waited for."),
        invariant("Attempts", all_of(i, attempts.at(i) == sent.at(i) + repeats.at(i)),
            "Every attempt is a call or its repetition."),
        invariant("Served", all_of(i, (~waits).implies(done[i] == confirmed.at(i))),
            "What is confirmed is what was served."),
        step_property("Rises", all_of(i, (after(confirmed.at(i)) == confirmed.at(i)) | (
            waits & (after(confirmed.at(i)) == confirmed.at(i) + 1))), "One at a time."),
    ),
    constants=(CLIENTS, CALLS, LOSSES),
    channels=(Channel(Ask, 1), Channel(Reply, 1)),
    budgets={{(lost(Ask), lost(Reply)): LOSSES}},
    terminal=all_of(i, confirmed.at(i) == CALLS),
)
"""

VOTE = """
SERVERS = constant("servers", {servers}, 2, 4)
SERVER = Key("server", SERVERS)
Role = enum("Role", "FOLLOWER", "CANDIDATE", "LEADER", "BEATEN")

server = Machine("server", SERVER)
role = server.state_field("role", Role)
choice = server.field("choice", Optional(SERVER))
votes = server.field("votes", Set(SERVER))
refusals = server.field("refusals", Set(SERVER))
me = server.this

Ask = message("Ask", to=server, sender=server)
Vote = message("Vote", to=server, answers=Ask, granted=Bool())
stand = event("stand")

heard = votes | set_of(Vote.sender)
refused = refusals | set_of(Vote.sender)

TABLES = (
    Table(server, stand, when=(role == Role.FOLLOWER) & (choice == None), rows=(
        Row("stand", goto=Role.CANDIDATE, set={{choice: me, votes: set_of(me)}},
            send=(to_others(Ask()),)),
    )),
    Table(server, Ask, response=Vote, rows=(
        Row("vote", when=choice == None, set={{choice: Ask.sender}}, reply=Vote(granted=True)),
        Row("refuse", reply=Vote(granted=False)),
    )),
    Table(server, Vote, rows=(
        Row("elected", when=Vote.granted & (role == Role.CANDIDATE) & majority(heard, SERVER),
            goto=Role.LEADER, set={{votes: heard}}),
        Row("counted", when=Vote.granted, set={{votes: heard}}),
        Row("beaten", when=(role != Role.LEADER) & (size(refused) * 2 >= SERVERS),
            goto=Role.BEATEN, set={{refusals: refused}}),
        Row("refused", set={{refusals: refused}}),
    )),
)

i, j = SERVER.variable("i"), SERVER.variable("j")
leads = role.at(i) == Role.LEADER
stands = role.at(i) != Role.FOLLOWER

system = System(
    name="vote", tables=TABLES,
    properties=(
        invariant("OneLeader", all_of(i, all_of(j, (
            leads & (role.at(j) == Role.LEADER)).implies(i == j))), "One leader."),
        invariant("Majority", all_of(i, leads == majority(votes.at(i), SERVER)),
            "Who leads, and nobody else, has a majority."),
        invariant("Given", all_of(i, all_of(j, j.is_in(votes.at(i)).implies(choice.at(j) == i))),
            "A vote that is counted was given."),
        invariant("NotGiven", all_of(i, all_of(j, j.is_in(refusals.at(i)).implies(
            (choice.at(j) != i) & (choice.at(j) != None)))), "A refusal has a reason."),
        invariant("Own", all_of(i, stands == i.is_in(votes.at(i))), "Who stands votes for itself."),
        invariant("Beaten", all_of(i, (role.at(i) == Role.BEATEN).implies(
            size(refusals.at(i)) * 2 >= SERVERS)), "Who is beaten had too many refusals."),
        step_property("Final", all_of(i, (choice.at(i) != None).implies(
            after(choice.at(i)) == choice.at(i))), "A vote is final."),
    ),
    constants=(SERVERS,),
    channels=(Channel(Ask, 1), Channel(Vote, 1)),
    terminal=all_of(i, (choice.at(i) != None)
        & (stands.implies((size(votes.at(i)) + size(refusals.at(i))) == SERVERS))),
)
"""

COMMIT = """
MEMBERS = constant("members", {members}, 1, 4)
MEMBER = Key("member", MEMBERS)
State = enum("State", "WORKING", "PREPARED", "COMMITTED", "ABORTED")
Decision = enum("Decision", "NONE", "COMMIT", "ABORT")

coordinator = Machine("coordinator")
decision = coordinator.state_field("decision", Decision)
ready = coordinator.field("ready", Set(MEMBER))
unable = coordinator.field("unable", Set(MEMBER))

member = Machine("member", MEMBER)
state = member.state_field("state", State)
me = member.this

Ready = message("Ready", coordinator, member=MEMBER)
Unable = message("Unable", coordinator, member=MEMBER)
Decide = message("Decide", member, member=MEMBER, commit=Bool())
prepare = event("prepare")
give_up = event("give up")
decide = event("decide")

m, n = MEMBER.variable("m"), MEMBER.variable("n")
everybody = all_of(m, m.is_in(ready))

TABLES = (
    Table(member, prepare, when=state == State.WORKING, rows=(
        Row("prepare", goto=State.PREPARED, send=(Ready(member=me),)),
    )),
    Table(member, give_up, when=state == State.WORKING, rows=(
        Row("give up", goto=State.ABORTED, send=(Unable(member=me),)),
    )),
    Table(coordinator, Ready, rows=(
        Row("note", set={{ready: ready | set_of(Ready.member)}}),
    )),
    Table(coordinator, Unable, rows=(
        Row("note", set={{unable: unable | set_of(Unable.member)}}),
    )),
    Table(coordinator, decide,
        when=(decision == Decision.NONE) & (size(ready) + size(unable) == MEMBERS), rows=(
            Row("commit", when=everybody, goto=Decision.COMMIT,
                send=(to_each(m, m.is_in(ready), Decide(member=m, commit=True)),)),
            Row("abort", goto=Decision.ABORT,
                send=(to_each(m, m.is_in(ready), Decide(member=m, commit=False)),)),
        )),
    Table(member, Decide, rows=(
        Row("commit", when=Decide.commit, goto=State.COMMITTED),
        Row("abort", goto=State.ABORTED),
    )),
)

committed = state.at(m) == State.COMMITTED
aborted = state.at(m) == State.ABORTED

system = System(
    name="commit", tables=TABLES,
    properties=(
        invariant("Agree", all_of(m, all_of(n, committed.implies(
            state.at(n) != State.ABORTED))), "Nobody aborts what another commits."),
        invariant("Decided", all_of(m, committed.implies(decision == Decision.COMMIT)),
            "Who commits was told to."),
        invariant("Unanimous", (decision == Decision.COMMIT).implies(
            all_of(m, m.is_in(ready) & ~aborted)), "All were ready."),
        invariant("Aborted", (decision == Decision.ABORT).implies(any_of(m, m.is_in(unable))),
            "Somebody was unable."),
        invariant("Unable", all_of(m, m.is_in(unable).implies(aborted)), "Who can't aborts."),
        invariant("Ready", all_of(m, m.is_in(ready).implies(state.at(m) != State.WORKING)),
            "Who is ready has prepared."),
        invariant("Either", ready & unable == set_of(), "Nobody says both."),
        step_property("Final", all_of(m, (committed | aborted).implies(
            after(state.at(m)) == state.at(m))), "What is decided stays."),
        step_property("Ordered", all_of(m, (after(state.at(m)) == State.COMMITTED).implies(
            (state.at(m) == State.PREPARED) | committed)), "Nobody commits unprepared."),
    ),
    constants=(MEMBERS,),
    channels=(Channel(Ready, 1), Channel(Unable, 1), Channel(Decide, 1)),
    terminal=(decision != Decision.NONE) & all_of(m, committed | aborted),
)
"""

QUEUE = """
CAPACITY = constant("capacity", {capacity}, 1, 3)
ITEMS = constant("items", {items}, 1, 5)
NUMBER = Int(0, ITEMS)
Mode = enum("Mode", "OPEN", "FULL", "CLOSED")

queue = Machine("queue")
mode = queue.state_field("mode", Mode)
held = queue.field("held", Sequence(NUMBER, CAPACITY))
put_count = queue.field("put_count", NUMBER)
taken_count = queue.field("taken_count", NUMBER)
newest = queue.field("newest", NUMBER)

enqueue = event("put")
dequeue = event("take")
close = event("close")
longer = append(held, put_count + 1)

TABLES = (
    Table(queue, enqueue, when=(mode == Mode.OPEN) & (put_count < ITEMS), rows=(
        Row("last place", when=size(held) + 1 == CAPACITY, goto=Mode.FULL,
            set={{held: longer, put_count: put_count + 1}}),
        Row("put", set={{held: longer, put_count: put_count + 1}}),
    )),
    Table(queue, dequeue, when=size(held) > 0, rows=(
        Row("make room", when=mode == Mode.FULL, goto=Mode.OPEN, set={{
            newest: first(held).value, held: without_first(held), taken_count: taken_count + 1,
        }}),
        Row("take", set={{
            newest: first(held).value, held: without_first(held), taken_count: taken_count + 1,
        }}),
    )),
    Table(queue, close, when=(mode == Mode.OPEN) & (taken_count == ITEMS), rows=(
        Row("close", goto=Mode.CLOSED),
    )),
)

e = element("e", held)

system = System(
    name="queue", tables=TABLES,
    properties=(
        invariant("Conserved", size(held) == put_count - taken_count, "Nothing is lost."),
        invariant("InOrder", newest == taken_count, "Items come in their order."),
        invariant("Numbered", all_of(e, e == taken_count + 1 + position(e)),
            "What waits is what comes next."),
        invariant("Full", (mode == Mode.FULL) == (size(held) == CAPACITY), "Full is full."),
        invariant("Closed", (mode == Mode.CLOSED).implies(taken_count == ITEMS),
            "It is closed when all is done."),
        step_property("Closes", (after(mode) == Mode.CLOSED)
            == ((mode == Mode.OPEN) & (taken_count == ITEMS)), "It closes when all is done."),
        step_property("OneByOne", (after(taken_count) == taken_count)
            | ((after(taken_count) == taken_count + 1) & (after(put_count) == put_count)), "..."),
    ),
    progress=(
        leads_to("Room", mode == Mode.FULL, mode == Mode.OPEN, "A full queue gets room."),
        always_possible("Ends", mode == Mode.CLOSED, "All can be done."),
    ),
    fairness=weak_fairness(dequeue),
    constants=(CAPACITY, ITEMS),
    terminal=(mode == Mode.CLOSED) & (newest == ITEMS),
)
"""

REPLICA = """
BACKUPS = constant("backups", {backups}, 1, 3)
WRITES = constant("writes", {writes}, 1, 4)
BACKUP = Key("backup", BACKUPS)
VERSION = Int(0, WRITES)

primary = Machine("primary")
version = primary.field("version", VERSION)
committed = primary.field("committed", VERSION)
acknowledged = primary.field("acknowledged", Set(BACKUP))

backup = Machine("backup", BACKUP)
stored = backup.field("stored", VERSION)
known = backup.field("known", VERSION)
me = backup.this

Copy = message("Copy", backup, backup=BACKUP, version=VERSION, committed=VERSION)
Ack = message("Ack", primary, answers=Copy, version=VERSION)
write = event("write")
commit = event("commit")

b = BACKUP.variable("b")

TABLES = (
    Table(primary, write, when=(version == committed) & (version < WRITES), rows=(
        Row("write", set={{version: version + 1, acknowledged: set_of()}},
            send=(to_each(b, lift(True), Copy(backup=b, version=version + 1, committed=committed)),
        )),
    )),
    Table(backup, Copy, response=Ack, rows=(
        Row("store", set={{stored: Copy.version, known: Copy.committed}},
            reply=Ack(version=Copy.version)),
    )),
    Table(primary, Ack, rows=(
        Row("acknowledged", when=Ack.version == version,
            set={{acknowledged: acknowledged | set_of(Ack.backup)}}),
    )),
    Table(primary, commit, when=(committed < version) & (size(acknowledged) == BACKUPS), rows=(
        Row("commit", set={{committed: version}}),
    )),
)

system = System(
    name="replica", tables=TABLES,
    properties=(
        invariant("Durable", all_of(b, committed <= stored.at(b)), "What is committed is stored."),
        invariant("Written", all_of(b, stored.at(b) <= version), "What is stored was written."),
        invariant("Known", all_of(b, (stored.at(b) - known.at(b)) == if_(stored.at(b) > 0, 1, 0)),
            "A copy is committed with the next one."),
        invariant("Acknowledged", all_of(b, b.is_in(acknowledged).implies(
            stored.at(b) == version)), "Who acknowledged has it."),
        step_property("OneByOne", (after(version) == version) | (
            (after(version) == version + 1) & (committed == version)), "One at a time."),
        step_property("Commits", (after(committed) == committed) | (
            all_of(b, b.is_in(acknowledged)) & (after(committed) == version)), "..."),
    ),
    constants=(BACKUPS, WRITES),
    channels=(Channel(Copy, 1), Channel(Ack, 1)),
    terminal=(committed == WRITES) & all_of(b, stored.at(b) == WRITES),
)
"""

LEASE = """
CLIENTS = constant("clients", {clients}, 1, 3)
LEASES = constant("leases", {leases}, 1, 4)
EXPIRIES = constant("expiries", 1, 0, 3)
CLIENT = Key("client", CLIENTS)
NUMBER = Int(0, LEASES)
State = enum("State", "IDLE", "ASKING", "HOLDING")
Error = enum("Error", NONE=0, STALE=1)

service = Machine("service")
owner = service.field("owner", Optional(CLIENT))
newest = service.field("newest", NUMBER)
expired = service.field("expired", Int(0, EXPIRIES))
storage = Machine("storage")
written = storage.field("written", NUMBER)
refused = storage.field("refused", NUMBER)
client = Machine("client", CLIENT)
state = client.state_field("state", State)
lease = client.field("lease", NUMBER)
me = client.this

Acquire = message("Acquire", service, client=CLIENT)
Granted = message("Granted", client, answers=Acquire, lease=NUMBER)
Write = message("Write", storage, client=CLIENT, lease=NUMBER)
Written = message("Written", client, answers=Write, error=Error)
Release = message("Release", service, client=CLIENT, lease=NUMBER)
acquire = event("acquire")
write = event("write")
expire = event("expire")

TABLES = (
    Table(client, acquire, when=state == State.IDLE, rows=(
        Row("ask", goto=State.ASKING, send=(Acquire(client=me),)),
    )),
    Table(service, Acquire, response=Granted, when=(owner == None) & (newest < LEASES), rows=(
        Row("grant", set={{owner: Acquire.client, newest: newest + 1}},
            reply=Granted(lease=newest + 1)),
    )),
    Table(client, Granted, rows=(
        Row("hold", goto=State.HOLDING, set={{lease: Granted.lease}},
            send=(Write(client=me, lease=Granted.lease),)),
    )),
    Table(storage, Write, response=Written, rows=(
        Row("stale", when=Write.lease < written, set={{refused: refused + 1}},
            reply=Written(error=Error.STALE)),
        Row("write", set={{written: Write.lease}}, reply=Written(error=Error.NONE)),
    )),
    Table(client, Written, rows=(
        Row("lost it", when=Written.error == Error.STALE, goto=State.IDLE, set={{lease: 0}}),
        Row("release", goto=State.IDLE, set={{lease: 0}},
            send=(Release(client=me, lease=lease),)),
    )),
    Table(service, Release, rows=(
        Row("free", when=(Release.lease == newest) & (owner == Release.client),
            set={{owner: None}}),
        Row("of an expired lease"),
    )),
    Table(service, expire, when=owner != None, rows=(
        Row("take it back", set={{owner: None, expired: expired + 1}}),
    )),
)

i, j = CLIENT.variable("i"), CLIENT.variable("j")
holds = state.at(i) == State.HOLDING
asks = any_of(in_flight("m", Acquire, client=i), True)
asked = any_of(in_flight("m", Granted, client=i), True)
frees = any_of(in_flight("m", Release, client=i), True)

system = System(
    name="lease", tables=TABLES,
    properties=(
        invariant("Different", all_of(i, all_of(j, (holds & (lease.at(i) == lease.at(j))).implies(
            i == j))), "No lease is held twice."),
        invariant("Asking", all_of(i, (state.at(i) == State.ASKING) == (asks | asked)),
            "Who asks has a request or its answer on the way."),
        invariant("Holding", all_of(i, holds == (lease.at(i) > 0)), "Who holds has a number."),
        invariant("Granted", all_of(i, lease.at(i) <= newest), "A lease was granted."),
        invariant("Written", written <= newest, "What is written has a lease."),
        invariant("Refused", refused <= expired, "Only an expired lease is refused."),
        step_property("Fenced", after(written) >= written, "No write comes under an older lease."),
        step_property("InTurn", all_of(i, (after(state.at(i)) == State.HOLDING).implies(
            (state.at(i) == State.ASKING) | holds)), "In turn."),
    ),
    constants=(CLIENTS, LEASES, EXPIRIES),
    channels=tuple(Channel(m, 1) for m in (Acquire, Granted, Write, Written, Release)),
    budgets={{expire: EXPIRIES}},
    terminal=(newest == LEASES) & (owner == None) & all_of(i, asks & ~frees),
)
"""

FAMILIES: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "lock": (LOCK, {"clients": (2, 3), "rounds": (1, 2)}),
    "request": (REQUEST, {"clients": (1, 2), "calls": (2, 3), "losses": (1, 2)}),
    "vote": (VOTE, {"servers": (3,)}),
    "commit": (COMMIT, {"members": (2, 3)}),
    "queue": (QUEUE, {"capacity": (2, 3), "items": (3, 4)}),
    "replica": (REPLICA, {"backups": (1, 2), "writes": (2, 3)}),
    "lease": (LEASE, {"clients": (2,), "leases": (2, 3)}),
}


def draw(random: Random) -> tuple[str, str]:
    """A family's name and a declaration of it."""
    name = random.choice(sorted(FAMILIES))
    source, ranges = FAMILIES[name]
    return name, HEAD + source.format(**{key: random.choice(of) for key, of in ranges.items()})
