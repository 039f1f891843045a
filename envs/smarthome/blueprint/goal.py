"""The goal language: conditions as frozen records. `evaluate` says when one holds, `text` and `data` read and print it.

A condition is judged over a run: what happened from the start of an episode to its horizon. Conditions about the home
(`State`, `Attribute`, `Room`, `Each`) hold for stretches of time; those about what the agent did (`Called`, `Said`)
hold from that moment on; temporal ones hold for the whole run or not at all. What is asked for must hold at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

Value = str | float | int | bool | None | tuple["Value", ...]
IT = "it"
"""In the body of an `Each`: the entity that is looked at."""
OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
QUANTITIES = ("temperature", "humidity", "co2", "pm25", "illuminance")
REASONS = {
    "no_such_device": "the home has no such device",
    "not_capable": "the device cannot do that",
    "out_of_range": "the value is outside what the device accepts",
    "not_available": "the device does not answer or does not work",
    "contradiction": "the request contradicts itself",
    "past": "the time has gone by",
    "not_allowed": "it is unsafe, or the person may not ask for it",
}
"""Why a request can be refused."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time of a run."""

    kind: str
    """"clock" (the first such time of day after the start), "start" or "end" (of the run)."""
    seconds: float = 0.0
    """After midnight, or after the start; 0 for the end."""


START, END = Moment("start"), Moment("end")


@dataclass(frozen=True, slots=True)
class State:
    """An entity's state is `value`."""

    entity: str
    value: str


@dataclass(frozen=True, slots=True)
class Attribute:
    """An entity's attribute compares with `value`; "=" and "!=" of numbers allow `tolerance`, of lists item by item."""

    entity: str
    name: str
    """The attribute, or "state" for the state read as a number."""
    op: str
    value: Value
    tolerance: float = 0.0


@dataclass(frozen=True, slots=True)
class Room:
    """The air of a room (not its sensors): Celsius, percent, ppm, micrograms per cubic metre, lux."""

    room: str
    quantity: str
    op: str
    value: float


@dataclass(frozen=True, slots=True)
class Energy:
    """The kilowatt-hours that the home uses between two moments compare with `value`."""

    op: str
    value: float
    start: Moment = START
    end: Moment = END


@dataclass(frozen=True, slots=True)
class Called:
    """The agent has called a service (for an entity), and it was accepted."""

    service: str
    """"domain.service"; `*` and `?` match."""
    entity: str | None = None


@dataclass(frozen=True, slots=True)
class Looked:
    """The agent has asked for an entity's state or history, or for a list that shows it."""

    entity: str


@dataclass(frozen=True, slots=True)
class Said:
    """The agent has told the resident something that matches a regular expression (case does not count)."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The agent has asked the resident about a slot, e.g. "which" or "value"."""

    slot: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The agent has refused for a reason (see `REASONS`) and named what cannot be done."""

    reason: str
    about: str = ""
    """A regular expression that what the agent names must match."""


@dataclass(frozen=True, slots=True)
class Selector:
    """A set of entities."""

    domain: str = "*"
    area: str | None = None
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Each:
    """All, any, or a number of a set's entities meet a condition, written about `it`. Of nothing, `all` is false."""

    quantifier: str
    """"all", "any" or "count"."""
    selector: Selector
    of: Condition
    op: str = ">="
    number: int = 1


@dataclass(frozen=True, slots=True)
class Not:
    """The condition does not hold."""

    of: Condition


@dataclass(frozen=True, slots=True)
class And:
    """All hold."""

    of: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One holds."""

    of: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class At:
    """The condition holds at some moment within `tolerance` seconds of `time`."""

    time: Moment
    of: Condition
    tolerance: float = 60.0


@dataclass(frozen=True, slots=True)
class Within:
    """The condition holds at some moment of the first `seconds`."""

    seconds: float
    of: Condition


@dataclass(frozen=True, slots=True)
class Until:
    """`hold` holds from the start until `release` does, which happens."""

    hold: Condition
    release: Condition


@dataclass(frozen=True, slots=True)
class Always:
    """The condition holds at every moment of [start, end)."""

    of: Condition
    start: Moment = START
    end: Moment = END


@dataclass(frozen=True, slots=True)
class Never:
    """The condition holds at no moment of [start, end)."""

    of: Condition
    start: Moment = START
    end: Moment = END


@dataclass(frozen=True, slots=True)
class HoldsFor:
    """The condition holds for at least `seconds` without a break."""

    seconds: float
    of: Condition


@dataclass(frozen=True, slots=True)
class After:
    """Every time `event` begins, `of` holds `delay` seconds later (within `tolerance`), and not before.

    It begins at least once, and `of` is false from then until `delay - tolerance` has passed.
    """

    event: Condition
    of: Condition
    delay: float = 0.0
    tolerance: float = 60.0


@dataclass(frozen=True, slots=True)
class Unchanged:
    """At the end every device is as it is at the end of a run in which the agent did nothing.

    Existing automations, residents, weather and time therefore change nothing that the agent is blamed for.
    """

    without: tuple[str, ...] = ()
    """What may differ: "light.desk" (all of it), "light.desk.brightness"; `*` and `?` match."""


@dataclass(frozen=True, slots=True)
class Forbid:
    """The agent never has a call of the service (for the entity) accepted."""

    service: str
    entity: str | None = None


Condition = (
    State
    | Attribute
    | Room
    | Energy
    | Called
    | Looked
    | Said
    | Asked
    | Refused
    | Each
    | Not
    | And
    | Or
    | At
    | Within
    | Until
    | Always
    | Never
    | HoldsFor
    | After
    | Unchanged
    | Forbid
)


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A goal."""

    must: tuple[Condition, ...]
    """All of them hold at the horizon."""
    must_not: tuple[Condition, ...] = ()
    """None of them holds at the horizon."""
    prefer: tuple[tuple[float, Condition], ...] = ()
    """Weight and condition: what makes one success better than another."""
    horizon: float = 60.0
    """Seconds after the start at which the goal is judged."""


def parts(condition: Condition) -> tuple[Condition, ...]:
    """The conditions directly inside another."""
    match condition:
        case And(of) | Or(of):
            return of
        case Until(hold, release):
            return (hold, release)
        case After(event, of, _, _):
            return (event, of)
        case Each() | Not() | At() | Within() | Always() | Never() | HoldsFor():
            return (condition.of,)
    return ()


def atoms(condition: Condition) -> tuple[Condition, ...]:
    """The conditions without conditions inside, from left to right."""
    inner = parts(condition)
    return tuple(atom for part in inner for atom in atoms(part)) if inner else (condition,)


def about(condition: Condition, entity: str) -> Condition:
    """A condition about `it`, said of an entity."""
    from dataclasses import replace

    match condition:
        case State(name) | Attribute(name) | Looked(name) if name == IT:
            return replace(condition, entity=entity)
        case Called(_, name) | Forbid(_, name) if name == IT:
            return replace(condition, entity=entity)
        case And(of) | Or(of):
            return replace(condition, of=tuple(about(part, entity) for part in of))
        case Until(hold, release):
            return Until(about(hold, entity), about(release, entity))
        case After(event, of, _, _):
            return replace(condition, event=about(event, entity), of=about(of, entity))
        case Not() | At() | Within() | Always() | Never() | HoldsFor():
            return replace(condition, of=about(condition.of, entity))
    return condition
