"""A small system to put faults into: somebody who wants to cross, and the light there."""

from epochfence import language as lang
from epochfence.language import Row, System, Table

N = lang.constant("N", 2, 1, 4)
Light = lang.enum("Light", RED=0, GREEN=1, BROKEN=2)
Error = lang.enum("Error", NONE=0, REFUSED=1, NOT_YET=2)
new = lang.feature("new", "2")
PROTOCOLS = lang.Protocols(("1", "2"), (new,))
lamp, walker = lang.Machine("lamp"), lang.Machine("walker")
light = lamp.state_field("light", Light)
turns = lamp.field("turns", lang.Int(0, N))
spare = lamp.field("spare", lang.Bool())
asked = walker.field("asked", lang.Int(0, 2))
told = walker.field("told", lang.Optional(Error))
Ask = lang.message("Ask", lamp)
AskResponse = lang.message("AskResponse", walker, answers=Ask, error=Error)

turn = Table(
    lamp, lang.event("turn"),
    (
        Row("never", when=turns > N, set={turns: 0}),
        Row("stop", when=(light == Light.GREEN) & (turns < N), goto=Light.RED,
            set={turns: turns + 1, spare: spare}),
        Row("go", when=(light == Light.RED) & (turns < N), goto=Light.GREEN, set={spare: False}),
        Row("old", during=~new, when=turns < 0, set={turns: 0}),
    ),
)  # fmt: skip
ask = Table(
    walker, lang.event("ask"), (Row("ask", when=asked < 1, set={asked: asked + 1}, send=(Ask(),)),)
)
answer = Table(
    lamp,
    Ask,
    (Row("refuse", when=light == Light.RED, reply=Error.REFUSED), Row("let go", reply=Error.NONE)),
    response=AskResponse,
)
hear = Table(walker, AskResponse, (Row("hear", set={told: lang.some(AskResponse.error)}),))
system = System(
    "crossing",
    (turn, ask, answer, hear),
    (lang.invariant("Whole", light != Light.BROKEN, "The lamp is never broken."),),
    constants=(N,),
    protocols=PROTOCOLS,
    channels=(lang.Channel(Ask), lang.Channel(AskResponse)),
    terminal=(turns == N) & told.is_set,
)
