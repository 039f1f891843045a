"""What is judged: the record of a run of a home, and the recorder that lets a home run and keeps it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..backend import EntityState, Registry, ServiceCall
from ..frozen import FrozenDict
from ..sim.home import HomeSnapshot, SimHome
from ..sim.journal import Log

_SAMPLE = 300.0  # seconds between two looks at the rooms: the simulation's own step


class Act(NamedTuple):
    """Something the agent did besides calling services."""

    time: float
    kind: str
    """"look", "say", "ask" or "refuse"."""
    what: str
    """An entity; what was said; the slot; the reason."""
    about: str = ""
    """For a refusal: what cannot be done."""


class Happening(NamedTuple):
    """Something that happens in the home, whoever the agent is: what tests an automation, for example."""

    seconds: float
    """After the start; more than 0."""
    thing: str
    """An entity, or the id of a window or door."""
    state: str
    """Its new state; "open" or "closed" for a window or door."""
    attributes: Mapping[str, object] = FrozenDict()


class Planned(NamedTuple):
    """A service call that the agent has put off."""

    time: float
    """Seconds since 1970 (UTC)."""
    domain: str
    service: str
    data: Mapping[str, object]
    target: Mapping[str, str | list[str]]


class Sample(NamedTuple):
    """The rooms and the meter at one time."""

    time: float
    rooms: Mapping[str, Mapping[str, float]]
    """Room -> quantity -> value (see `goal.QUANTITIES`)."""
    energy: float
    """Kilowatt-hours since the home's start."""


@dataclass(frozen=True)
class Run:
    """From the start of an episode to a moment of it."""

    start: float
    """Seconds since 1970 (UTC), as all times here."""
    end: float
    utc_offset: float
    """Hours."""
    registry: Registry
    states: Mapping[str, Sequence[EntityState]]
    """Entity -> its states in order; the first one held at the start."""
    samples: Sequence[Sample]
    calls: Sequence[ServiceCall]
    """Those of the agent."""
    acts: Sequence[Act]

    def state_at(self, entity: str, time: float) -> EntityState | None:
        """The state that an entity had at a time; None where there was no such entity."""
        history = self.states.get(entity, ())
        index = bisect_right(history, time, key=lambda state: state.last_updated)
        return history[index - 1] if index else None

    def energy_at(self, time: float) -> float:
        """Kilowatt-hours at a time, between two samples in proportion."""
        index = bisect_right(self.samples, time, key=lambda sample: sample.time)
        if index == 0 or index == len(self.samples):
            return self.samples[max(0, index - 1)].energy
        before, after = self.samples[index - 1 : index + 1]
        share = (time - before.time) / (after.time - before.time)
        return before.energy + share * (after.energy - before.energy)


class Recorder:
    """Lets a home run from now on and records it. Its own state is small: the home's journal holds the rest.

    Args:
        home: may have run before; the record begins now.
        world: what happens besides, in order of time.
    """

    def __init__(self, home: SimHome, world: Sequence[Happening] = ()) -> None:
        self.home = home
        self.world = world
        self.start = home.time
        self._first_call, self._first_state = len(home.journal.calls), len(home.journal.states)
        self._samples: Log[Sample] = Log()
        self._acts: Log[Act] = Log()
        self.planned: tuple[Planned, ...] = ()
        """The agent's calls to come, in order of time."""
        self.sample()

    def act(self, kind: str, what: str, about: str = "") -> None:
        """Note what the agent did."""
        self._acts.append(Act(self.home.time, kind, what, about))

    @property
    def acts(self) -> list[Act]:
        """What the agent did, in order."""
        return list(self._acts)

    def advance(self, seconds: float) -> None:
        """Let time pass, looking at the rooms now and then."""
        begin, end = self.home.time, self.home.time + seconds
        world = [(self.start + item.seconds, item) for item in self.world]
        due = [(time, item) for time, item in world if begin < time <= end]
        due += [(item.time, item) for item in self.planned if item.time <= end]
        for time, item in sorted(due, key=lambda pair: pair[0]):
            self._pass(time)
            if isinstance(item, Happening):
                self._happen(item)
            else:
                self.planned = tuple(other for other in self.planned if other is not item)
                self.home.call_service(item.domain, item.service, item.data, item.target)
        self._pass(end)

    def plan(self, item: Planned) -> None:
        """Put a call off."""
        self.planned = tuple(sorted((*self.planned, item), key=lambda other: other.time))

    def _pass(self, end: float) -> None:
        while self.home.time < end:
            self.home.advance(min(_SAMPLE, end - self.home.time))
            self.sample()

    def _happen(self, happening: Happening) -> None:
        if happening.thing in self.home.openings:
            self.home.set_opening(happening.thing, happening.state == "open")
        elif self.home.state(happening.thing) is not None:
            self.home.inject(happening.thing, happening.state, happening.attributes, cause="world")

    def sample(self) -> None:
        """Look at the rooms and the meter now."""
        home = self.home
        rooms = {
            name: {
                "temperature": air.temperature,
                "humidity": air.humidity,
                "co2": air.co2,
                "pm25": air.pm25,
                "illuminance": home.air.lux(name),
            }
            for name, air in home.rooms().items()
        }
        self._samples.append(Sample(home.time, rooms, home.meters.total_energy))

    def run(self) -> Run:
        """The record up to now."""
        home, states = self.home, dict[str, list[EntityState]]()
        for state in home.journal.states:
            history = states.setdefault(state.entity_id, [])
            if history and (state.last_updated <= self.start or state.last_updated == history[-1].last_updated):
                history[-1] = state
            else:
                history.append(state)
        calls = [call for call in home.journal.calls.since(self._first_call) if call.cause == "agent"]
        return Run(
            self.start,
            home.time,
            home.spec.utc_offset,
            home.registry(),
            states,
            list(self._samples),
            calls,
            list(self._acts),
        )

    def histories(self) -> dict[str, list[EntityState]]:
        """Entity -> the state it had when the record began (none for what is new), and all that followed."""
        found: dict[str, list[EntityState]] = {}
        for index, state in enumerate(self.home.journal.states):
            if index < self._first_state:
                found[state.entity_id] = [state]
            else:
                found.setdefault(state.entity_id, []).append(state)
        return found

    def save(self) -> tuple[HomeSnapshot, float, tuple[int, int], object, object, tuple[Planned, ...]]:
        """A point to go back to, the home's included; picklable."""
        logs = self._samples.save(), self._acts.save()
        return self.home.snapshot(), self.start, (self._first_call, self._first_state), *logs, self.planned

    def load(self, state: tuple) -> None:
        """Go back."""
        self.home.restore(state[0])
        self.start, (self._first_call, self._first_state) = state[1], state[2]
        self._samples.load(state[3])
        self._acts.load(state[4])
        self.planned = state[5]


def run_without_agent(home: SimHome, seconds: float, world: Sequence[Happening] = ()) -> Run:
    """What happens in the next `seconds` if nobody does anything; the home is left as it is."""
    before = home.snapshot()
    recorder = Recorder(home, world)
    recorder.advance(seconds)
    run = recorder.run()
    home.restore(before)
    return run
