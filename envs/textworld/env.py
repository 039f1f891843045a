"""What the three TextWorld families share: a compiled game behind the environment contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..core import Outcome, Task, TaskSet, TextEnv
from .games import GameCache
from .story import Story, StoryState

# First words of commands that the interpreter may see. Others (save, script, restart, debugging …) write files, end the
# game or print its solution, so they get the parser's answer to a word that it does not know.
_VERBS = frozenset(
    (
        *("go", "walk", "run", "enter", "leave", "exit", "climb", "look", "inventory", "examine", "read", "search"),
        *("take", "pick", "remove", "drop", "put", "place", "insert", "move", "push", "pull", "turn", "wear", "jump"),
        *("open", "close", "shut", "lock", "unlock", "eat", "cook", "slice", "chop", "dice", "prepare", "wait"),
    )
)
_SHORT = {"i": "inventory", "inv": "inventory", "l": "look", "x": "examine", "get": "take"}
_DIRECTIONS = {"n": "north", "e": "east", "s": "south", "w": "west"}
_ARTICLES = frozenset({"the", "a", "an"})
_MAX_COMMAND = 150  # characters; the interpreter's line buffer holds 198 bytes


class TextWorldEnv(TextEnv):
    """A TextEnv over games of one family; the families' classes say which."""

    def __init__(
        self,
        tasks: TaskSet,
        *,
        cache: str | Path | None = None,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(tasks, max_steps=max_steps, render_mode=render_mode)
        self._games = GameCache(cache)
        self._story: Story | None = None

    def prepare(self, games: int | None = None) -> None:
        """Build the first `games` games of the split (None: all) now, in one process, so that no reset has to."""
        count = len(self.tasks) if games is None else min(games, len(self.tasks))
        self._games.build([self.tasks.at(i) for i in range(count)])

    def close(self) -> None:
        """Free the interpreter. A later reset starts a new one."""
        self._story = None

    def canonical(self, action: str) -> str:
        """Lower case, single spaces, no articles, and the usual abbreviations (n, x, l, i, get) written out."""
        words = [word for word in action.lower().split() if word not in _ARTICLES]
        if len(words) == 1 and _DIRECTIONS.get(words[0], words[0]) in _DIRECTIONS.values():
            words.insert(0, "go")
        if len(words) == 2 and words[0] == "go":
            words[1] = _DIRECTIONS.get(words[1], words[1])
        elif words:
            words[0] = _SHORT.get(words[0], words[0])
        return " ".join(words)

    def _reset(self, task: Task) -> str:
        folder = self._games.folder(task)
        if self._story is None or self._story.folder != folder:
            self._story = None  # frees the old interpreter before the new one is loaded
            self._story = Story(folder)
        return self._story.start()

    def _step(self, action: str) -> Outcome:
        command = self.canonical(action)
        if not command:
            return Outcome("I beg your pardon?", valid=False)
        if len(command) > _MAX_COMMAND:
            return Outcome(f"A command has at most {_MAX_COMMAND} characters, not {len(command)}.", valid=False)
        if not all(char.isalnum() or char in " '-" for char in command) or not command.isascii():
            return Outcome("A command is one action in plain words, without punctuation.", valid=False)
        if command.split()[0] not in _VERBS:
            return Outcome("That's not a verb I recognise.", valid=False)
        story = self._playing()
        before = story.score
        reply = story.send(command)
        reward = (story.score - before) / story.max_score
        return Outcome(reply.text, reward, story.ended, reply.accepted)

    def _playing(self) -> Story:
        if self._story is None:  # closed, then restored
            self._reset(self.task)
        assert self._story is not None
        return self._story

    def _state(self) -> str:
        return self._playing().key()

    def _save(self) -> StoryState:
        return self._playing().save()

    def _load(self, state: StoryState) -> None:
        self._playing().load(state)

    def _success(self) -> bool:
        return self._playing().won

    def _score(self) -> float:
        story = self._playing()
        return min(1.0, max(0.0, story.score / story.max_score))

    def _progress(self) -> float:
        return self._score()

    def _admissible(self) -> tuple[str, ...]:
        story = self._playing()
        return () if story.ended else tuple(story.commands)

    def _instruction(self) -> str:
        return " ".join(self._playing().game.objective.split())

    def oracle(self) -> Iterator[str]:
        """Privileged: the commands of textworld's own plan, made anew whenever the game is not where it led."""
        while not self._ended:
            for command in self._playing().plan():
                steps, taken = self._steps, self._playing().actions
                yield command
                if self._steps != steps and self._playing().actions[:-1] != taken:
                    break
            else:
                return

    def hint(self) -> str:
        """Privileged: the next command of the plan."""
        command = next(iter(self.oracle()), None)
        return "" if command is None else f"Next: {command}."

    def verify(self) -> dict[str, Any]:
        """Privileged: whether the game is won, and the share of its points."""
        return {"success": float(self._success()), "points": self._score()}
