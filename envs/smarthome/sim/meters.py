"""Energy: what each entity draws, and what the home has used and paid."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..backend import UNAVAILABLE

if TYPE_CHECKING:
    from .home import SimHome

JOULES = 3.6e6  # per kilowatt-hour


class Meter(NamedTuple):
    """One entity's meter."""

    watts: float
    since: float
    """When `watts` took its value."""
    joules: float
    """Used until `since`."""


class Meters:
    """The meters of one home."""

    def __init__(self, home: SimHome) -> None:
        self._home = home
        self.meters: dict[str, Meter] = {}
        self._total = Meter(0.0, home.time, 0.0)
        self._cost = 0.0

    def watts(self, entity_id: str) -> float:
        """What an entity draws now."""
        meter = self.meters.get(entity_id)
        return meter.watts if meter else 0.0

    def energy(self, entity_id: str) -> float:
        """Kilowatt-hours that an entity has used since the start."""
        meter = self.meters.get(entity_id)
        return (meter.joules + meter.watts * (self._home.time - meter.since)) / JOULES if meter else 0.0

    @property
    def total_watts(self) -> float:
        """What the home draws now."""
        return self._total.watts

    @property
    def total_energy(self) -> float:
        """Kilowatt-hours that the home has used since the start."""
        return (self._total.joules + self._total.watts * (self._home.time - self._total.since)) / JOULES

    @property
    def cost(self) -> float:
        """What the home has paid since the start, by the tariff."""
        watts, since, _ = self._total
        return self._cost + watts * (self._home.time - since) / JOULES * self.price(since)

    def price(self, time: float) -> float:
        """Of a kilowatt-hour, in the hour of `time`."""
        tariff = self._home.spec.tariff
        hour = int((time + self._home.spec.utc_offset * 3600) // 3600 % 24)
        return tariff[hour % len(tariff)]

    def settle(self) -> None:
        """Book the total up to now, on every change and every tick, so that prices are those of the hour."""
        watts, since, joules = self._total
        if since == self._home.time:
            return
        used = watts * (self._home.time - since)
        self._cost += used / JOULES * self.price(since)
        self._total = Meter(watts, self._home.time, joules + used)

    def set(self, entity_id: str, watts: float) -> None:
        """An entity draws `watts` from now on."""
        old = self.meters.get(entity_id) or Meter(0.0, self._home.time, 0.0)
        if old.watts == watts and entity_id in self.meters:
            return
        now = self._home.time
        self.meters[entity_id] = Meter(watts, now, old.joules + old.watts * (now - old.since))
        self.settle()
        total, since, joules = self._total
        self._total = Meter(max(0.0, total + watts - old.watts), since, joules)
        self._home.sensing.power_changed(entity_id)

    def correct(self, entity_id: str, watts: float, start: float, end: float) -> None:
        """From `start` to `end` (now, at most) an entity drew `watts`, and not what its meter had supposed.

        For what only the air can tell: how much a thermostat had to heat is known when the step is over.
        """
        meter = self.meters.get(entity_id)
        if meter is not None and meter.watts != watts:
            missing = (watts - meter.watts) * (end - start)
            self.meters[entity_id] = meter._replace(joules=meter.joules + missing)
            self._total = self._total._replace(joules=self._total.joules + missing)
            self._cost += missing / JOULES * self.price(start)

    def follow(self, entity_id: str) -> None:
        """Take an entity's draw from its state, by its domain's model."""
        home = self._home
        entity = home.states()[entity_id]
        model = home.domains[entity.domain].power
        if model is not None:
            watts = 0.0 if entity.state == UNAVAILABLE else model(entity, home.params(entity_id))
            self.set(entity_id, watts)

    def save(self) -> tuple[dict[str, Meter], Meter, float]:
        """Everything that changes."""
        return dict(self.meters), self._total, self._cost

    def load(self, state: tuple[dict[str, Meter], Meter, float]) -> None:
        """Go back."""
        self.meters, self._total, self._cost = dict(state[0]), state[1], state[2]
