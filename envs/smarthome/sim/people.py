"""The residents: where they are, what they do, and when they move; scripted by their routines.

Every time that is drawn (jitter, the next movement) is a function of names and days (`draws`), so that a run without
the agent's calls sees the same people.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..spec import ActivitySpec, ResidentSpec
from .draws import uniform
from .sky import DAY

if TYPE_CHECKING:
    from .home import SimHome

AWAY = "away"
MOVES = {"sleep": 3600.0, "away": 0.0, "tv": 900.0, "work": 600.0, "idle": 420.0}  # mean seconds between movements
_OTHER = 240.0  # cooking, eating, showering


class People:
    """The residents of one home."""

    def __init__(self, home: SimHome) -> None:
        self._home = home
        self.specs: dict[str, ResidentSpec] = {resident.id: resident for resident in home.spec.residents}
        self.where: dict[str, tuple[str, str]] = {
            resident.id: (resident.room, "away" if resident.room == AWAY else resident.activity)
            for resident in home.spec.residents
        }
        """Resident -> (room or "away", activity)."""

    def start(self) -> None:
        """Plan the first day, and everybody's first movement."""
        self._home.clock.at(self._home.time, "routine_day")
        for resident in self.specs:
            self._plan_move(resident)

    def plan_day(self) -> None:
        """Plan what is left of the routines of the local day that runs, and the planning of the next."""
        home = self._home
        offset = home.spec.utc_offset * 3600
        day = int((home.time + offset) // DAY)
        weekend = (day + 3) % 7 >= 5  # day 0 was a Thursday
        for resident, spec in self.specs.items():
            for index, line in enumerate(spec.routine):
                if line.days in ("daily", "weekend" if weekend else "weekday"):
                    time = day * DAY - offset + _minutes(line.at) * 60
                    draw = uniform(home.spec.seed, "routine", resident, index, day)
                    time += round((2 * draw - 1) * line.jitter * 60)
                    if time >= home.time:
                        home.clock.at(time, "routine", resident, index)
        home.clock.at((day + 1) * DAY - offset, "routine_day")

    def follow(self, resident: str, index: int) -> None:
        """Carry out a line of a routine."""
        line: ActivitySpec = self.specs[resident].routine[index]
        self.move(resident, line.room, line.activity)
        for call in line.calls:
            self._home.run_call(call, f"resident.{resident}")

    def move(self, resident: str, room: str, activity: str = "idle") -> None:
        """Take a resident to another room (or "away"), or to another activity."""
        home = self._home
        before = self.where[resident]
        after = (room, "away" if room == AWAY else activity)
        if before == after:
            return
        for changed in {before[0], room}:
            home.air.changed(changed)
        self.where[resident] = after
        home.sensing.people_moved(resident, before[0], room)
        self._plan_move(resident)

    def stir(self, resident: str) -> None:
        """The resident moves where they are: motion sensors notice."""
        room = self.where[resident][0]
        if room != AWAY:
            self._home.sensing.motion(room)
        self._plan_move(resident)

    def _plan_move(self, resident: str) -> None:
        home = self._home
        activity = self.where[resident][1]
        mean = MOVES.get(activity, _OTHER)
        key = f"moves.{resident}"
        if not mean:
            home.clock.cancel(key)
            return
        draw = uniform(home.spec.seed, "move", resident, activity, round(home.time * 10))
        home.clock.begin(key, "stir", round(mean * (0.3 + 1.4 * draw)), resident)

    def activities_in(self, room: str) -> list[str]:
        """What is done in a room, one entry per person."""
        return [activity for place, activity in self.where.values() if place == room]

    def in_room(self, room: str) -> int:
        """How many people are in a room."""
        return sum(place == room for place, _ in self.where.values())

    @property
    def at_home(self) -> int:
        """How many are at home."""
        return sum(place != AWAY for place, _ in self.where.values())

    def save(self) -> dict[str, tuple[str, str]]:
        """Everything that changes."""
        return dict(self.where)

    def load(self, state: dict[str, tuple[str, str]]) -> None:
        """Go back."""
        self.where = dict(state)


def _minutes(at: str) -> int:
    hour, _, minute = at.partition(":")
    return int(hour) * 60 + int(minute or 0)


EVENTS: dict[str, Any] = {
    "routine_day": lambda home, key, payload: home.people.plan_day(),
    "routine": lambda home, key, payload: home.people.follow(key, payload[0]),
    "stir": lambda home, key, payload: home.people.stir(payload[0]),
}
