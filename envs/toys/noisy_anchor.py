"""NoisyAnchor: some choices decide everything, others decide nothing and pay by chance."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np

from ..core.tasks import Task
from ..core.text_env import Outcome
from .tasks import NumberedTasks
from .toy import Toy, check_size

COLOURS = ("red", "blue", "green", "yellow", "white", "black", "brown", "grey")


class NoisyAnchor(Toy):
    """Halls with doors: in clean halls one door is right, in noisy halls every door lets you through half of the time.

    ## Description
    Step-level credit compares the returns of different actions at the same state. In a noisy hall all doors are equally
    good, yet the returns after them differ, because a coin decides: a method that trusts these differences
    follows noise. In a clean hall the differences are real.

    ## Action Space
    Text. `open <colour> door` for the hall's doors.

    ## Observation Space
    Text. The hall, its doors, and the lamp above the right door where there is one.

    ## Starting State
    The first hall. The halls are: clean, then `noisy` noisy ones, then the other clean ones. A task is the colours and
    lamps.

    ## Rewards
    1 on leaving the last hall, else 0.

    ## Episode End
    Terminated on leaving the last hall or opening a wrong door. Registered limit: 12 steps, so at most
    12 halls; pass a larger `max_episode_steps` to `gymnasium.make` for more.

    ## Information
    `progress`: halls left / halls. `admissible`: the doors.

    ## Privileged Information
    `oracle()`: always wins; in a noisy hall it looks at the coin that is about to be thrown. `hint()`: which door.
    `optimal_value()`: 0.5 to the power of `noisy`; `random_value()`.

    ## State Key
    The task, the hall, and whether the episode is lost. The coin is thrown when a door is opened and is no part of the
    state.

    ## Arguments
    - `split`: "train", "valid_seen", "valid_unseen" or "test" (disjoint combinations of colours and lamps).
    - `clean` (2): halls in which the choice matters, 1 to 8.
    - `noisy` (1): halls in which it does not, 0 to 8.
    - `doors` (4): doors per hall, 2 to 8.

    ## Source and Licence
    Written for this project; Apache-2.0.

    ## Version History
    - v0: first version.
    """

    stochastic = True

    def __init__(
        self,
        split: str = "train",
        *,
        clean: int = 2,
        noisy: int = 1,
        doors: int = 4,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.clean = check_size("clean", clean, 1, 8)
        self.noisy = check_size("noisy", noisy, 0, 8)
        self.doors = check_size("doors", doors, 2, len(COLOURS))
        count = (len(COLOURS) * doors) ** clean * len(COLOURS) ** noisy
        tasks = NumberedTasks(f"noisyanchor-{clean}x{noisy}x{doors}", count, self._halls, split)
        super().__init__(tasks, max_steps=max_steps, render_mode=render_mode)

    def _halls(self, number: int) -> dict[str, list[tuple[int, int]]]:
        halls = []
        for place in range(self.clean + self.noisy):
            number, first = divmod(number, len(COLOURS))
            lamp = -1  # none: a noisy hall
            if not 1 <= place <= self.noisy:
                number, lamp = divmod(number, self.doors)
            halls.append((first, lamp))
        return {"halls": halls}

    def start(self, task: Task) -> tuple[int, bool]:
        """The first hall, not lost."""
        return (0, False)

    def describe(self) -> str:
        """The hall, its doors and its lamp."""
        hall, lost = self.state
        if lost or self._success():
            return "You are out in the open. Well done." if not lost else "You fall into a pit. This is the end."
        _, lamp = self._hall()
        colours = [action.split()[1] for action in self.actions()]
        light = f"A lamp burns above the {colours[lamp]} door." if lamp >= 0 else "No lamp burns."
        return f"You are in hall {hall + 1} of {len(self._all())}. Doors: {', '.join(colours)}. {light}"

    def actions(self) -> tuple[str, ...]:
        """The doors of this hall."""
        first, _ = self._hall()
        return tuple(f"open {COLOURS[(first + i) % len(COLOURS)]} door" for i in range(self.doors))

    def apply(self, action: str) -> Outcome:
        """Open a door."""
        door, (hall, _) = self.actions().index(action), self.state
        self.state = (hall + 1, False) if door in self._good_doors(self.np_random) else (hall, True)
        return Outcome(self.describe(), float(self._success()), self._success() or self.state[1])

    def _good_doors(self, rng: np.random.Generator) -> list[int]:
        _, lamp = self._hall()
        if lamp >= 0:
            return [lamp]
        # Uniform over the sets that are neither empty nor full: each door is in exactly half of them, as a set and
        # its complement are equally likely, and some door is always good (for the oracle).
        chosen = int(rng.integers(1, 2**self.doors - 1))
        return [door for door in range(self.doors) if chosen >> door & 1]

    def oracle(self) -> Iterator[str]:
        """The lit door, or the first door that the next coin favours."""
        while not (self._success() or self.state[1]):
            yield self.actions()[self._good_doors(copy.deepcopy(self.np_random))[0]]

    def hint(self) -> str:
        """Which door to open."""
        return next((f"Now {action}." for action in self.oracle()), "")

    def optimal_value(self) -> float:
        """`0.5 ** noisy`: lamps can be followed, coins cannot be foreseen."""
        return 0.5**self.noisy

    def random_value(self) -> float:
        """Expected return of the uniformly random policy."""
        return 0.5**self.noisy / self.doors**self.clean

    def _all(self) -> list[tuple[int, int]]:
        return self.task.params["halls"]

    def _hall(self) -> tuple[int, int]:
        return self._all()[self.state[0]]

    def _success(self) -> bool:
        return self.state[0] == len(self._all())

    def _progress(self) -> float:
        return self.state[0] / len(self._all())

    def _instruction(self) -> str:
        return "Leave the house through its halls. Where a lamp burns, it burns above the right door."
