"""A call that is sent again until it is answered, over a network that may lose any message.

The mistake: the server knows a call that it has seen, and says nothing to it. Nothing wrong is ever
done, but where the answer was lost, the caller asks for ever. In release 1 it does.
"""

from epochfence.language import (
    Bool,
    Channel,
    Machine,
    Protocols,
    Row,
    System,
    Table,
    always_possible,
    enum,
    event,
    failure,
    feature,
    helps,
    invariant,
    leads_to,
    message,
    ranking,
    strong_fairness,
    weak_fairness,
)

State = enum("State", "IDLE", "WAITING", "DONE")

answers_again = feature(
    "answers_again", "2", sentence="The server answers a call that it has seen before."
)

client = Machine("client")
state = client.state_field("state", State)
server = Machine("server")
seen = server.field("seen", Bool(), doc="The call has been carried out.")

Ask = message("Ask", server, again=Bool())
Answer = message("Answer", client, first=Bool())

call = event("call")
retry = event("retry")

TABLES = (
    Table(client, call, when=state == State.IDLE, rows=(
        Row("ask", goto=State.WAITING, send=(Ask(again=False),)),
    )),
    Table(client, retry, when=state == State.WAITING, rows=(
        Row("ask again", send=(Ask(again=True),)),
    )),
    Table(server, Ask, rows=(
        Row("seen before", when=seen, during=~answers_again),
        Row("answer", set={seen: True}, send=(Answer(first=~seen),)),
    )),
    Table(client, Answer, rows=(Row("done", goto=State.DONE),)),
)  # fmt: skip

system = System(
    name="retry",
    doc="A client that asks until it is answered, and a server.",
    tables=TABLES,
    properties=(
        invariant(
            "DoneIsDone",
            (state == State.DONE).implies(seen),
            "What is answered was done.",
            failure=failure("the client has its answer, and the server hasn't seen the call"),
        ),
    ),
    progress=(
        leads_to(
            "Answered",
            state == State.WAITING,
            state == State.DONE,
            "A call is answered.",
            failure=failure("the client stays {}", state),
        ),
        always_possible(
            "CanBeAnswered",
            state == State.DONE,
            "A call can still be answered.",
            failure=failure("the client stays {}", state),
        ),
    ),
    # who waits asks again, and what is sent again and again arrives
    fairness=weak_fairness(retry) + strong_fairness(Ask, Answer),
    # an answer in flight is taken, or else what is asked, or else it is asked again
    rankings=(ranking("Answered", (), (helps(Answer), helps(Ask), helps(retry))),),
    protocols=Protocols(("1", "2"), (answers_again,)),
    channels=(Channel(Ask, 1, lossy=True), Channel(Answer, 1, lossy=True)),
    terminal=state == State.DONE,
    reach="All of it: one call, sent again without bound.",
)
