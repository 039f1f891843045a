"""Rooms: find a room in a house whose map nobody has, and stop there."""

from __future__ import annotations

from collections.abc import Iterator

from ..core.errors import InvalidArgument
from ..core.tasks import Task
from ..core.text_env import Outcome
from .tasks import NumberedTasks, pick, shuffled
from .toy import Toy, check_size

NAMES = (
    *("attic", "ballroom", "bathroom", "bedroom", "cellar", "chapel", "cloakroom", "conservatory"),
    *("corridor", "den", "gallery", "garage", "hall", "kitchen", "larder", "laundry"),
    *("library", "lobby", "lounge", "nursery", "office", "pantry", "parlour", "porch"),
    *("scullery", "stable", "studio", "study", "terrace", "vault", "veranda", "workshop"),
)
HOUSES = 100_000


class Rooms(Toy):
    """A navigation graph: walk from room to room, stop in the room that was asked for.

    ## Description
    Each house is a random graph of named rooms, a tree with a few more doors. Only the doors of the current room are
    seen; in a share of the rooms a sign shows the way. Stopping anywhere else fails.

    ## Action Space
    Text. `go to <room>` for the rooms behind the doors, and `stop`.

    ## Observation Space
    Text. The room, its doors, the goal, and the sign where there is one.

    ## Starting State
    A room at least three doors from the goal where there is one, else as far as possible. A task is a house with a
    start and a goal.

    ## Rewards
    1 for stopping in the goal, else 0.

    ## Episode End
    Terminated on `stop`. Registered limit: 24 steps; no shortest path seen in 1500 houses of 32 rooms
    was longer than 16 doors.

    ## Information
    `progress`: share of the way that is behind: 1 - distance / distance at the start, at least 0. `admissible`: all.

    ## Privileged Information
    `oracle()`: a shortest path and `stop`. `hint()`: the next of it. `distance()`: doors to the goal.
    `optimal_value()`: 1 (with the map).

    ## State Key
    The task, the room, and whether the agent has stopped.

    ## Arguments
    - `split`: "train", "valid_seen", "valid_unseen" or "test" (disjoint houses).
    - `rooms` (16): 5 to 32.
    - `signs` (0.5): share of the rooms with a sign, 0 to 1.

    ## Source and Licence
    Written for this project; Apache-2.0.

    ## Version History
    - v0: first version.
    """

    def __init__(
        self,
        split: str = "train",
        *,
        rooms: int = 16,
        signs: float = 0.5,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.rooms = check_size("rooms", rooms, 5, len(NAMES))
        if not 0 <= signs <= 1:
            raise InvalidArgument(f"signs must be in [0, 1], not {signs!r}")
        self.signs = signs
        self._distances: dict[str, int] = {}
        super().__init__(
            NumberedTasks(f"rooms-{rooms}", HOUSES, self._house, split), max_steps=max_steps, render_mode=render_mode
        )

    def _house(self, number: int) -> dict[str, object]:
        seed = f"house {number}"
        names = shuffled(NAMES, seed)[: self.rooms]
        doors: dict[str, set[str]] = {name: set() for name in names}
        for i in range(1, self.rooms):  # a tree; a parent among the last five keeps it long
            _connect(doors, names[i], names[i - 1 - pick(min(i, 5), seed, "parent", i)])
        for i in range(self.rooms // 8):
            first, second = shuffled(names, seed, "more", i)[:2]
            _connect(doors, first, second)
        sorted_doors = {name: tuple(sorted(doors[name])) for name in names}
        goal = names[pick(self.rooms, seed, "goal")]
        away = _distances(sorted_doors, goal)
        least = min(3, max(away.values()))
        far = sorted(name for name in names if away[name] >= least)
        return {"doors": sorted_doors, "goal": goal, "start": far[pick(len(far), seed, "start")], "seed": seed}

    def start(self, task: Task) -> tuple[str, bool]:
        """The first room, not stopped."""
        self._distances = _distances(task.params["doors"], task.params["goal"])
        return (task.params["start"], False)

    def describe(self) -> str:
        """The room, its doors, the goal and the sign."""
        room, stopped = self.state
        if stopped:
            return f"You stop in the {room}. " + ("You are there." if self._success() else "This is not the place.")
        doors = ", ".join(self._doors())
        text = f"You are in the {room} and look for the {self._goal()}. Doors lead to: {doors}."
        if room == self._goal() or pick(1000, self.task.params["seed"], "sign", room) >= 1000 * self.signs:
            return text
        return f"{text} A sign says: to the {self._goal()} through the {self._next()}."

    def actions(self) -> tuple[str, ...]:
        """The doors, and `stop`."""
        return (*(f"go to {name}" for name in self._doors()), "stop")

    def apply(self, action: str) -> Outcome:
        """Walk or stop."""
        room, _ = self.state
        self.state = (room, True) if action == "stop" else (action.removeprefix("go to "), False)
        return Outcome(self.describe(), float(self._success()), self.state[1])

    def oracle(self) -> Iterator[str]:
        """A shortest path, then `stop`."""
        while not self.state[1]:
            yield "stop" if self.state[0] == self._goal() else f"go to {self._next()}"

    def hint(self) -> str:
        """The next action of a shortest path."""
        return next((f"Now {action}." for action in self.oracle()), "")

    def distance(self) -> int:
        """Doors between this room and the goal."""
        return self._distances[self.state[0]]

    def verify(self) -> dict[str, float]:
        """Whether the agent is in the goal, and whether it stopped."""
        return {"in the goal": float(self.state[0] == self._goal()), "stopped": float(self.state[1])}

    def optimal_value(self) -> float:
        """1: a shortest path has at most `rooms - 1` doors."""
        return 1.0

    def _next(self) -> str:
        return min(self._doors(), key=self._distances.__getitem__)

    def _doors(self) -> tuple[str, ...]:
        return self.task.params["doors"][self.state[0]]

    def _goal(self) -> str:
        return self.task.params["goal"]

    def _success(self) -> bool:
        return self.state == (self._goal(), True)

    def _progress(self) -> float:
        return max(0.0, 1 - self.distance() / self._distances[self.task.params["start"]])

    def _instruction(self) -> str:
        return f"Go to the {self._goal()} and stop there."


def _connect(doors: dict[str, set[str]], first: str, second: str) -> None:
    doors[first].add(second)
    doors[second].add(first)


def _distances(doors: dict[str, tuple[str, ...]], goal: str) -> dict[str, int]:
    """Breadth-first distances of all rooms to `goal`."""
    found = {goal: 0}
    queue = [goal]
    for room in queue:  # grows while it is walked
        for neighbour in doors[room]:
            if neighbour not in found:
                found[neighbour] = found[room] + 1
                queue.append(neighbour)
    return found
