"""`sandlot play`: a person, or the oracle, plays one episode in the terminal."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rich.columns import Columns
from rich.console import Console
from rich.text import Text

from sandlot.arguments import make_env
from sandlot.envs.core.text_env import Snapshot, TextEnv
from sandlot.harness.report import visible

COMMANDS = {
    "/hint": "a hint for this task",
    "/undo": "take the last action back",
    "/restart": "start this task again",
    "/actions": "list the possible actions",
    "/verify": "what is still missing",
    "/look": "a picture of how things stand",
    "/help": "this list",
    "/quit": "leave",
}


def play(
    console: Console,
    env_id: str,
    arguments: Mapping[str, Any],
    *,
    task: str | None = None,
    seed: int | None = None,
    oracle: bool = False,
    delay: float = 0.5,
) -> None:
    """Play until the episode ends or the player leaves.

    Args:
        console: where to print and read.
        env_id: the environment.
        arguments: its constructor's arguments.
        task: the task's id; None draws one.
        seed: seeds the draw.
        oracle: let the oracle play.
        delay: seconds between the oracle's actions.
    """
    env = make_env(env_id, arguments)
    try:
        game = _Game(console, env, {"task": task} if task else None, seed)
        game.watch(delay) if oracle else game.run()
    finally:
        env.close()


class _Game:
    def __init__(self, console: Console, env: TextEnv, options: dict[str, Any] | None, seed: int | None) -> None:
        self.console, self.env = console, env
        self.history: list[tuple[Snapshot, float]] = []
        self.observation, self.info = env.reset(seed=seed, options=options)
        self.reward = 0.0
        self.over = False
        self.listed: tuple[str, ...] | None = None  # what is numbered on the screen

    def watch(self, delay: float) -> None:
        self._begin()
        for action in self.env.oracle():
            time.sleep(delay)
            self.console.print(Text(f"> {visible(action)}", style="bold cyan"))
            self._step(action)
            if self.over:
                break
        if not self.over:
            self._say("The oracle has nothing more to do.")

    def run(self) -> None:
        self._begin()
        self._say("Type an action or its number. /help lists the commands, /quit leaves.")
        self._list_actions()
        while not self.over:
            try:
                line = self.console.input(Text("> ", style="bold cyan")).strip()
            except EOFError:
                self.console.print()
                return
            command = self._command(line)
            if command == "/quit":
                return
            if command:
                getattr(self, f"_{command[1:]}")()
            elif line:
                self.history.append((self.env.snapshot(), self.reward))
                self._step(self._action(line))
                if not self.over:
                    self._list_actions()

    def _begin(self) -> None:
        limit = f", at most {self.env.max_steps} steps" if self.env.max_steps else ""
        self.console.print(Text(f"task {visible(self.info['task_id'])}{limit}", style="dim"))
        if self.info["instruction"] and self.info["instruction"] not in self.observation:
            self.console.print(Text(visible(self.info["instruction"]), style="bold"))
        self._show()
        if self.env.picture() is not None:
            self._look()

    def _command(self, line: str) -> str | None:
        """The command in `line`, if it is one; without the slash only where no action could be meant."""
        if line.startswith("/"):
            return line if line in COMMANDS else ("/help" if line not in (self.info["admissible"] or ()) else None)
        listed = self.info["admissible"]
        return f"/{line}" if listed is not None and line not in listed and f"/{line}" in COMMANDS else None

    def _action(self, line: str) -> str:
        listed = self.info["admissible"] or ()
        if line not in listed and line.isdecimal() and 1 <= int(line) <= len(listed):
            return listed[int(line) - 1]
        return line

    def _step(self, action: str) -> None:
        self.observation, reward, terminated, truncated, self.info = self.env.step(action)
        self.reward += reward
        self._show()
        if reward:
            self._say(f"reward {reward:g}")
        if terminated or truncated:
            self.over = True
            if self.env.picture() is not None:
                self._look()
            style = "bold green" if self.info["success"] else "bold yellow"
            outcome = "Solved" if self.info["success"] else "Out of steps" if truncated else "Not solved"
            self.console.print(Text(f"{outcome}. Return {self.reward:g}, score {self.info['score']:g}.", style=style))

    def _show(self) -> None:
        self.console.print(Text(visible(self.observation), style="" if self.info["valid"] else "yellow"))

    def _look(self) -> None:
        picture = self.env.picture()
        self._say(picture.text if picture is not None else "This environment has no pictures.")

    def _say(self, text: str) -> None:
        self.console.print(Text(visible(text), style="dim"))

    def _list_actions(self, *, again: bool = False) -> None:
        listed = self.info["admissible"]
        if listed and (again or listed != self.listed):
            self.listed = listed
            cells = [Text.assemble((f"{i:>3} ", "cyan"), visible(action)) for i, action in enumerate(listed, 1)]
            self.console.print(Columns(cells, padding=(0, 2), column_first=True))

    def _actions(self) -> None:
        if self.info["admissible"] is None:
            self._say("This environment does not list its actions.")
        self._list_actions(again=True)

    def _hint(self) -> None:
        self._say(self.env.hint() or "There is no hint.")

    def _undo(self) -> None:
        if not self.history:
            self._say("There is nothing to undo.")
            return
        snapshot, self.reward = self.history.pop()
        self.observation, self.info = self.env.restore(snapshot)
        self._show()
        self._list_actions()

    def _restart(self) -> None:
        self.observation, self.info = self.env.reset(options={"task": self.info["task_id"]})
        self.reward = 0.0
        self.history.clear()
        self._show()
        self._list_actions()

    def _verify(self) -> None:
        for name, value in self.env.verify().items():
            self._say(f"{value:>6.2f}  {name}")

    def _help(self) -> None:
        for name, text in COMMANDS.items():
            self._say(f"{name:<9} {text}")
