"""KeyDoor: a chain of locked rooms; each needs a routine of three actions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from ..core.tasks import Task
from ..core.text_env import Outcome
from .tasks import NumberedTasks, digits
from .toy import Toy, check_size

COLOURS = ("red", "blue", "green", "yellow", "white", "black", "brown", "grey")
CHATTER = (
    "A clock ticks somewhere behind the wall.",
    "The carpet shows a pattern of leaves.",
    "Dust dances in the light of a narrow window.",
    "Somebody has left a newspaper on the chair.",
    "A faint smell of soup hangs in the air.",
    "The radiator hums and then falls silent.",
    "A picture of a sailing boat hangs askew.",
    "From far away comes the sound of a piano.",
    "The wallpaper peels off in one corner.",
    "An umbrella stands in a stand without a bottom.",
    "A fly walks across the ceiling.",
)
State = tuple[int, int, int, tuple[tuple[int, ...], ...]]
TAKE, UNLOCK, GO, BACK = "take {} key", "unlock door", "go on", "go back"


class KeyDoor(Toy):
    """A chain of rooms with locked doors: take the key of the door's colour, unlock, go on.

    ## Description
    Each door needs the same routine of three actions, with decoy keys beside the right one. There is room for one key
    in the hand (taking another puts it down), and a key is used up by its door. Rooms can be revisited, so states
    repeat within and across episodes. Options make it harder to remember (`distractors`) or to see (`aliased`).

    ## Action Space
    Text. `take <colour> key`, `unlock door`, `go on`, `go back`, where they apply. Unlocking with the wrong key or with
    empty hands is possible and does nothing.

    ## Observation Space
    Text. The room, its door, the keys on the table, the key in the hand, and `distractors` sentences that never matter.
    With `aliased=True` neither the hand nor the lock nor what was taken shows: rooms look as they did at
    first, whatever the agent holds.

    ## Starting State
    The first room, empty hand, all doors locked. A task is the colours of doors and keys.

    ## Rewards
    1 on going through the last door, else 0.

    ## Episode End
    Terminated on going through the last door. Registered limit: 20 steps, enough for `doors` up to 6; pass a
    larger `max_episode_steps` to `gymnasium.make` for longer chains.

    ## Information
    `progress`: doors unlocked / doors. `admissible`: the actions of this state.

    ## Privileged Information
    `oracle()`: the shortest solution from the current state, `3 * doors` actions from the start. `hint()`: the next
    action. `distance()`: the steps that are left. `relevant(action)`: whether an action lies on a shortest solution
    (for measuring drift). `routine`: 3, the length of the repeated part. `optimal_value()`: 1.

    ## State Key
    The task, the room, the key in the hand, the keys on all tables and the locks.

    ## Arguments
    - `split`: "train", "valid_seen", "valid_unseen" or "test" (disjoint combinations of the same colours).
    - `doors` (3): 2 to 40.
    - `decoys` (2): wrong keys in each room, 0 to 6.
    - `distractors` (0): sentences without meaning in each observation, 0 to 11.
    - `aliased` (False): equal observations for different states.

    ## Source and Licence
    Written for this project; Apache-2.0.

    ## Version History
    - v0: first version.
    """

    routine = 3

    def __init__(
        self,
        split: str = "train",
        *,
        doors: int = 3,
        decoys: int = 2,
        distractors: int = 0,
        aliased: bool = False,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.doors = check_size("doors", doors, 2, 40)
        self.distractors = check_size("distractors", distractors, 0, len(CHATTER))
        self.aliased = aliased
        self._rooms = [
            (door, wrong)
            for door in range(len(COLOURS))
            for wrong in combinations([c for c in range(len(COLOURS)) if c != door], check_size("decoys", decoys, 0, 6))
        ]
        tasks = NumberedTasks(f"keydoor-{doors}x{decoys}", len(self._rooms) ** doors, self._layout, split)
        super().__init__(tasks, max_steps=max_steps, render_mode=render_mode)

    def _layout(self, number: int) -> dict[str, list[tuple[int, tuple[int, ...]]]]:
        rooms = [self._rooms[digit] for digit in digits(number, len(self._rooms), self.doors)]
        return {"rooms": [(door, tuple(sorted((door, *wrong)))) for door, wrong in rooms]}

    def start(self, task: Task) -> State:
        """Room, doors unlocked so far, key in the hand (-1: none), keys on each table."""
        return (0, 0, -1, tuple(keys for _, keys in task.params["rooms"]))

    def describe(self) -> str:
        """The room as it is, or as it was at first when aliased."""
        if self._success():
            return "You are through the last door."
        room, unlocked, hand, tables = self.start(self.task) if self.aliased else self.state
        room = self.state[0]
        door = self.task.params["rooms"][room][0]
        keys = ", ".join(COLOURS[key] for key in tables[room]) or "none"
        parts = [f"Room {room + 1} of {self.doors}. The door is {COLOURS[door]}.", f"Keys on the table: {keys}."]
        if not self.aliased:
            parts[0] = parts[0][:-1] + (" and unlocked." if room < unlocked else " and locked.")
            parts.append(f"In your hand: {COLOURS[hand] + ' key' if hand >= 0 else 'nothing'}.")
        # The same sentences at every visit, so that a state always looks the same.
        parts += [CHATTER[(door + 3 * room + i) % len(CHATTER)] for i in range(self.distractors)]
        return " ".join(parts)

    def actions(self) -> tuple[str, ...]:
        """What applies in this room."""
        room, unlocked, _, tables = self.state
        found = [TAKE.format(COLOURS[key]) for key in tables[room]]
        found.append(GO if room < unlocked else UNLOCK)
        return (*found, BACK) if room else tuple(found)

    def apply(self, action: str) -> Outcome:
        """Take, unlock or walk."""
        self.state = self._after(action)
        return Outcome(self.describe(), float(self._success()), self._success())

    def _after(self, action: str) -> State:
        room, unlocked, hand, tables = self.state
        if action == GO:
            return room + 1, unlocked, hand, tables
        if action == BACK:
            return room - 1, unlocked, hand, tables
        if action == UNLOCK:
            fits = hand == self._door(room)
            return room, unlocked + fits, -1 if fits else hand, tables
        key = COLOURS.index(action.split()[1])
        left = [k for k in tables[room] if k != key] + ([hand] if hand >= 0 else [])
        return room, unlocked, key, (*tables[:room], tuple(sorted(left)), *tables[room + 1 :])

    def oracle(self) -> Iterator[str]:
        """A shortest solution from the current state."""
        while not self._success():
            yield next(action for action in self.actions() if self.relevant(action))

    def hint(self) -> str:
        """The next action of a shortest solution."""
        return "" if self._success() else f"Now {next(self.oracle())}."

    def relevant(self, action: str) -> bool:
        """Whether `action` is possible and lies on a shortest solution."""
        return action in self.actions() and self._distance(self._after(action)) < self.distance()

    def distance(self) -> int:
        """Length of a shortest solution from the current state."""
        return self._distance(self.state)

    def _distance(self, state: State) -> int:
        room, unlocked, hand, tables = state
        if unlocked == self.doors:
            return self.doors - room
        # Up to the first locked door, through it, and then one untouched routine per door.
        rest = 2 + self.routine * (self.doors - unlocked - 1)
        door = self._door(unlocked)
        if hand == door:
            return unlocked - room + rest
        return rest + min(
            abs(room - place) + 1 + unlocked - place for place in range(unlocked + 1) if door in tables[place]
        )

    def verify(self) -> dict[str, float]:
        """Whether each door is unlocked, and whether the last one is passed."""
        return {f"door {i + 1}": float(i < self.state[1]) for i in range(self.doors)} | {
            "through": float(self._success())
        }

    def optimal_value(self) -> float:
        """1: everything is in sight (aliased: in the agent's own memory), and `3 * doors` steps do."""
        return 1.0

    def _door(self, room: int) -> int:
        return self.task.params["rooms"][room][0]

    def _success(self) -> bool:
        return self.state[0] == self.doors

    def _progress(self) -> float:
        return self.state[1] / self.doors

    def _instruction(self) -> str:
        return "Go through all doors. A door opens with the key of its own colour."
