"""Hint: a machine whose buttons are easy to learn from true hints and easy to get wrong from false ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..core.errors import InvalidArgument
from ..core.tasks import Task
from ..core.text_env import Outcome
from .tasks import NumberedTasks, pick
from .toy import Toy, check_size

COLOURS = ("amber", "azure", "coral", "ivory", "olive", "pearl", "rusty", "violet")
SHAPES = ("round", "square", "tall", "flat", "narrow", "bent", "hollow", "twin")
BUTTONS = ("alpha", "beta", "gamma", "delta", "kappa", "sigma", "theta", "omega")
SHOWN = ("none", "good", "poisoned", "mixed")


@dataclass(frozen=True)
class Skill:
    """One piece of advice, as a skill bank would hold it."""

    text: str
    word: str
    """The colour or shape that it is about: what it can be looked up by."""
    good: bool
    """Privileged: whether it is true."""


class Hint(Toy):
    """Press the right button for the machine's colour, then the right one for its shape; hints may help or mislead.

    ## Description
    The rule (colour -> first button, shape -> second button) is the same in every task but nothing in the observation
    states it: it is learned by trying, or read from hints. Good and poisoned hints look alike, so that a skill bank has
    to find out which of them help.

    ## Action Space
    Text. `press <button>` for the first `buttons` of eight names.

    ## Observation Space
    Text. The machine's colour and shape, which button is awaited, and a hint if `shown` says so.

    ## Starting State
    No button pressed. A task is a machine: a colour and a shape.

    ## Rewards
    1 after two right buttons, else 0.

    ## Episode End
    Terminated after two right buttons or one wrong one. Registered limit: 8 steps.

    ## Information
    `progress`: right buttons / 2. `admissible`: all buttons.

    ## Privileged Information
    `oracle()`: the right buttons. `hint()`: the true hint for the awaited button. `skills()`: every true
    hint and two false ones beside each, for skill banks. `optimal_value()`: 1; `random_value()`.

    ## State Key
    The task, the buttons pressed right, and whether the episode is lost.

    ## Arguments
    - `split`: "train", "valid_seen", "valid_unseen" or "test" (disjoint pairs of the same colours and shapes).
    - `buttons` (6): 3 to 8. A random policy succeeds once in `buttons` squared.
    - `shown` ("none"): the hint in the observation: "none", "good", "poisoned", or "mixed" (good on the share `trust`
      of the machines).
    - `trust` (0.35): see `shown`.

    ## Source and Licence
    Written for this project; Apache-2.0.

    ## Version History
    - v0: first version.
    """

    def __init__(
        self,
        split: str = "train",
        *,
        buttons: int = 6,
        shown: str = "none",
        trust: float = 0.35,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        if shown not in SHOWN:
            raise InvalidArgument(f"shown must be one of {', '.join(SHOWN)}, not {shown!r}")
        if not 0 <= trust <= 1:
            raise InvalidArgument(f"trust must be in [0, 1], not {trust!r}")
        self.buttons = BUTTONS[: check_size("buttons", buttons, 3, len(BUTTONS))]
        self.shown = shown
        self.trust = trust
        tasks = NumberedTasks(f"hint-{buttons}", len(COLOURS) * len(SHAPES), self._machine, split)
        super().__init__(tasks, max_steps=max_steps, render_mode=render_mode)

    def _machine(self, number: int) -> dict[str, tuple[str, str]]:
        return {"words": (COLOURS[number % len(COLOURS)], SHAPES[number // len(COLOURS)])}

    def start(self, task: Task) -> tuple[int, bool]:
        """No button pressed, not lost."""
        return (0, False)

    def describe(self) -> str:
        """The machine, the awaited button and the hint."""
        pressed, lost = self.state
        if lost or pressed == 2:
            return "The machine stops with a bang." if lost else "The machine starts to run."
        colour, shape = self.task.params["words"]
        text = f"The machine is {colour} and {shape}. It waits for the {('first', 'second')[pressed]} button."
        if self.shown == "none":
            return text
        return f"{text} Hint: {self._skill(self._awaited(), 0 if self._trusted() else 1).text}"

    def actions(self) -> tuple[str, ...]:
        """All buttons."""
        return tuple(f"press {button}" for button in self.buttons)

    def apply(self, action: str) -> Outcome:
        """Press a button."""
        pressed, _ = self.state
        right = action == f"press {self._right(self._awaited(), 0)}"
        self.state = (pressed + 1, False) if right else (pressed, True)
        return Outcome(self.describe(), float(self._success()), self._success() or not right)

    def oracle(self) -> Iterator[str]:
        """The right buttons."""
        while not (self._success() or self.state[1]):
            yield f"press {self._right(self._awaited(), 0)}"

    def hint(self) -> str:
        """The true hint for the awaited button."""
        return "" if self._success() or self.state[1] else self._skill(self._awaited(), 0).text

    def skills(self) -> tuple[Skill, ...]:
        """Per word, one true hint and two false ones: a third is worth keeping. In an order that tells nothing."""
        found = [self._skill(word, offset) for word in (*COLOURS, *SHAPES) for offset in range(3)]
        return tuple(sorted(found, key=lambda skill: skill.text))

    def optimal_value(self) -> float:
        """1: the rule does not depend on the task."""
        return 1.0

    def random_value(self) -> float:
        """Expected return of the uniformly random policy: two right buttons by chance."""
        return 1 / len(self.buttons) ** 2

    def _skill(self, word: str, offset: int) -> Skill:
        place = "first" if word in COLOURS else "second"
        return Skill(f"On {word} machines the {place} button is {self._right(word, offset)}.", word, good=offset == 0)

    def _right(self, word: str, offset: int) -> str:
        """The button for a word; a wrong one where `offset` is not 0."""
        return self.buttons[(pick(len(self.buttons), "hint", word) + offset) % len(self.buttons)]

    def _awaited(self) -> str:
        return self.task.params["words"][self.state[0]]

    def _trusted(self) -> bool:
        if self.shown != "mixed":
            return self.shown == "good"
        return pick(1000, "trust", *self.task.params["words"]) < 1000 * self.trust

    def _success(self) -> bool:
        return self.state[0] == 2

    def _progress(self) -> float:
        return self.state[0] / 2

    def _instruction(self) -> str:
        return "Start the machine: press the button for its colour, then the button for its shape."
