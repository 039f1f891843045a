"""Bandit: contexts made of shared features, one right arm each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from ..core.tasks import Task
from ..core.text_env import Outcome, text_key
from .tasks import NumberedTasks, digits
from .toy import Toy, check_size

WORDS = (
    ("red", "blue", "green", "yellow", "white", "black"),
    ("round", "square", "flat", "hollow", "pointed", "curved"),
    ("wooden", "iron", "glass", "paper", "clay", "cloth"),
    ("old", "new", "small", "large", "light", "heavy"),
)
ARMS = (
    *("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath"),
    *("inlet", "jetty", "knoll", "larch", "maple", "north", "ocean", "pearl"),
)


@cache
def weight(word: str, arm: str) -> int:
    """How much a word speaks for an arm: uniform in `0 .. 65535`, from a hash, so that it is the same everywhere."""
    return int(text_key(word, arm)[:4], 16)


class Bandit(Toy):
    """One object, one choice: which arm pays depends on the object's features.

    ## Description
    A contextual bandit with shared features: an object is described by a few words, each word speaks for some arms and
    against others, and the arm with the largest sum pays. What is learned on one object changes the others, which
    is where stale data starts to hurt; a policy that is linear in the words can be perfect.

    ## Action Space
    Text. `choose <arm>` for each of the first `arms` of sixteen arm names.

    ## Observation Space
    Text. The object in words.

    ## Starting State
    An object; a task is a combination of words.

    ## Rewards
    1 for the arm that pays, 0 for the others.

    ## Episode End
    Terminated after the first choice. Registered limit: 4 steps (invalid actions cost one each).

    ## Information
    `admissible`: all arms. `progress` is None.

    ## Privileged Information
    `oracle()`: the paying arm. `hint()`: the same in words. `optimal_value()`: 1.

    ## State Key
    The task and the choice made.

    ## Arguments
    - `split`: "train", "valid_seen", "valid_unseen" or "test" (disjoint combinations of the same words).
    - `features` (3): words per object, 2 to 4, each one of six.
    - `arms` (16): number of arms, 2 to 16. A random policy is right once in `arms`.

    ## Source and Licence
    Written for this project; Apache-2.0.

    ## Version History
    - v0: first version.
    """

    def __init__(
        self,
        split: str = "train",
        *,
        features: int = 3,
        arms: int = 16,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.features = check_size("features", features, 2, len(WORDS))
        self.arms = tuple(f"choose {name}" for name in ARMS[: check_size("arms", arms, 2, len(ARMS))])
        tasks = NumberedTasks(f"bandit-{features}x{arms}", len(WORDS[0]) ** features, self._object, split)
        super().__init__(tasks, max_steps=max_steps, render_mode=render_mode)

    def _object(self, number: int) -> dict[str, list[int]]:
        return {"words": digits(number, len(WORDS[0]), self.features)}

    def start(self, task: Task) -> tuple[int]:
        """Nothing chosen yet (-1)."""
        return (-1,)

    def describe(self) -> str:
        """The object, or what the choice brought."""
        if self.state[0] >= 0:
            return "It pays." if self._success() else "It pays nothing."
        words = (WORDS[place][word] for place, word in enumerate(self.task.params["words"]))
        return f"The object is {', '.join(words)}."

    def actions(self) -> tuple[str, ...]:
        """All arms."""
        return self.arms

    def apply(self, action: str) -> Outcome:
        """Choose an arm."""
        self.state = (self.arms.index(action),)
        return Outcome(self.describe(), float(self._success()), terminated=True)

    def oracle(self) -> Iterator[str]:
        """The arm that pays."""
        if self.state[0] < 0:
            yield self.arms[self._best()]

    def hint(self) -> str:
        """Which arm pays."""
        return f"The arm that pays is {self.arms[self._best()].removeprefix('choose ')}."

    def optimal_value(self) -> float:
        """1: the words decide which arm pays."""
        return 1.0

    def _best(self) -> int:
        words = [WORDS[place][word] for place, word in enumerate(self.task.params["words"])]
        sums = [sum(weight(word, arm) for word in words) for arm in self.arms]
        return sums.index(max(sums))

    def _success(self) -> bool:
        return self.state[0] == self._best()

    def _instruction(self) -> str:
        return "Choose the arm that pays for this object."
