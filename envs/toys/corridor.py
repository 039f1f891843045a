"""Corridor: a row of rooms, one action advances, one goes back."""

from __future__ import annotations

from collections.abc import Iterator

from ..core.tasks import Task
from ..core.text_env import Outcome
from .tasks import NumberedTasks, digits
from .toy import Toy, check_size

VERBS = ("push", "pull", "lift", "turn", "slide", "knock", "press", "twist")
COLOURS = ("red", "blue", "green", "yellow", "white", "black", "brown", "grey")


class Corridor(Toy):
    """A row of rooms behind each other; the sign in a room tells which action opens the way on.

    ## Description
    Sparse reward and long horizon in their smallest form: from each room one action leads on, one leads back, and the
    others do nothing. The sign's colour says which action is which; the rule is the same in every task, so that what is
    learned on training tasks holds on all.

    ## Action Space
    Text. `push`, `pull`, `lift` ... : the first `verbs` of eight, all possible in every room.

    ## Observation Space
    Text. The room's number, the number of rooms and the colour of the sign. A room always looks the same.

    ## Starting State
    The first room. A task is the row of sign colours.

    ## Rewards
    1 on entering the last room, else 0.

    ## Episode End
    Terminated on entering the last room. Registered limit: 12 steps, enough for `rooms` up to 13; pass a larger
    `max_episode_steps` to `gymnasium.make` for longer corridors.

    ## Information
    `progress`: rooms passed / rooms to pass. `admissible`: all verbs.

    ## Privileged Information
    `oracle()`: the advancing verbs. `hint()`: what the current sign means. `optimal_value()`: 1.

    ## State Key
    The task and the room.

    ## Arguments
    - `split`: "train", "valid_seen", "valid_unseen" or "test" (disjoint rows of colours, the same distribution).
    - `rooms` (6): number of rooms, 3 to 40; the last one is the goal.
    - `verbs` (4): number of actions, 3 to 8.

    ## Source and Licence
    Written for this project; Apache-2.0.

    ## Version History
    - v0: first version.
    """

    def __init__(
        self,
        split: str = "train",
        *,
        rooms: int = 6,
        verbs: int = 4,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.rooms = check_size("rooms", rooms, 3, 40)
        self.verbs = VERBS[: check_size("verbs", verbs, 3, len(VERBS))]
        tasks = NumberedTasks(f"corridor-{rooms}x{verbs}", len(COLOURS) ** (rooms - 1), self._signs, split)
        super().__init__(tasks, max_steps=max_steps, render_mode=render_mode)

    def _signs(self, number: int) -> dict[str, list[int]]:
        return {"signs": digits(number, len(COLOURS), self.rooms - 1)}

    def start(self, task: Task) -> tuple[int]:
        """The first room."""
        return (0,)

    def describe(self) -> str:
        """The room's number and its sign."""
        (room,) = self.state
        if self._success():
            return "You are in the last room. The way was right."
        return f"You are in room {room + 1} of {self.rooms}. The sign is {COLOURS[self._sign()]}."

    def actions(self) -> tuple[str, ...]:
        """All verbs."""
        return self.verbs

    def apply(self, action: str) -> Outcome:
        """Advance, go back or stay."""
        (room,) = self.state
        if action == self._way_on():
            room += 1
        elif action == self.verbs[(self._sign() + 1) % len(self.verbs)]:
            room = max(0, room - 1)
        self.state = (room,)
        return Outcome(self.describe(), float(self._success()), self._success())

    def oracle(self) -> Iterator[str]:
        """The advancing verb of each room."""
        while not self._success():
            yield self._way_on()

    def hint(self) -> str:
        """What the current sign means."""
        return "" if self._success() else f"A {COLOURS[self._sign()]} sign means {self._way_on()}."

    def verify(self) -> dict[str, float]:
        """Whether the last room is reached, and the share of the way."""
        return {"last room": float(self._success()), "way": self._progress()}

    def optimal_value(self) -> float:
        """1: the signs tell the way, which takes `rooms - 1` steps."""
        return 1.0

    def _sign(self) -> int:
        return self.task.params["signs"][self.state[0]]

    def _way_on(self) -> str:
        return self.verbs[self._sign() % len(self.verbs)]

    def _success(self) -> bool:
        return self.state[0] == self.rooms - 1

    def _progress(self) -> float:
        return self.state[0] / (self.rooms - 1)

    def _instruction(self) -> str:
        return "Reach the last room. The sign in each room tells which action leads on."
