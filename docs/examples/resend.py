"""A producer that sends a record again until it is answered.

The mistake: the leader appends whatever comes. Where an answer was lost, the record is there twice.
In release 1 it does; in release 2 each record has a sequence number, and the leader knows its last.
"""

from epochfence.language import (
    Channel,
    Int,
    Log,
    Machine,
    Protocols,
    Row,
    Sequence,
    System,
    Table,
    all_of,
    append,
    constant,
    element,
    enum,
    event,
    failure,
    feature,
    invariant,
    message,
    position,
)

RECORDS = constant("records", 1, 1, 3, meaning="records that are sent, one after the other")
RESENDS = constant("resends", 1, 0, 3, meaning="times that a record is sent again")
State = enum("State", "READY", "WAITING")

has_sequences = feature(
    "has_sequences", "2", sentence="A leader appends the next sequence number alone."
)

producer = Machine("producer")
state = producer.state_field("state", State)
sequence = producer.field("sequence", Int(0, RECORDS), doc="Of the record to send.")
leader = Machine("leader")
log = leader.field("log", Sequence(Int(0, RECORDS), RECORDS + RESENDS), doc="By sequence number.")
next_sequence = leader.field("next_sequence", Int(0, RECORDS), doc="The one to come.")

Produce = message("Produce", leader, sequence=Int(0, RECORDS))
Answer = message("Answer", producer, sequence=Int(0, RECORDS))
send, resend = event("send"), event("send again")

TABLES = (
    Table(producer, send, when=(state == State.READY) & (sequence < RECORDS), rows=(
        Row("send", goto=State.WAITING, send=(Produce(sequence=sequence),)),
    )),
    Table(producer, resend, when=state == State.WAITING, rows=(
        Row("no answer yet", send=(Produce(sequence=sequence),)),
    )),
    Table(leader, Produce, rows=(
        Row(
            "duplicate", when=Produce.sequence < next_sequence, during=has_sequences,
            send=(Answer(sequence=Produce.sequence),),
        ),
        Row(
            "append",
            set={log: append(log, Produce.sequence), next_sequence: Produce.sequence + 1},
            send=(Answer(sequence=Produce.sequence),),
        ),
    )),
    Table(producer, Answer, rows=(
        Row(
            "acknowledged", when=(state == State.WAITING) & (Answer.sequence == sequence),
            goto=State.READY, set={sequence: sequence + 1},
        ),
        Row("an answer more"),
    )),
)  # fmt: skip

one, other = element("one", log), element("other", log)
system = System(
    name="resend",
    doc="A producer that sends a record again until it is answered, and a leader.",
    tables=TABLES,
    properties=(
        invariant(
            "NoDuplicate",
            all_of(one, all_of(other, (one != other) | (position(one) == position(other)))),
            "A record is in the log once.",
            failure=failure(
                "record {} is in the log at offsets {} and {}", one, position(one), position(other)
            ),
        ),
        invariant(
            "NoLoss",
            sequence <= next_sequence,
            "An acknowledged record is in the log.",
            failure=failure(
                "{} records are acknowledged, and {} are in the log", sequence, next_sequence
            ),
        ),
    ),
    constants=(RECORDS, RESENDS),
    protocols=Protocols(("1", "2"), (has_sequences,)),
    channels=(Channel(Produce, 1, lossy=True), Channel(Answer, 1, lossy=True)),
    budgets={resend: RESENDS},
    logs=(Log("log", one, position(one), record=one),),
    terminal=(state == State.READY) & (sequence == RECORDS) | (state == State.WAITING),
    reach="All of it within the constants.",
)
