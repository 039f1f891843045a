"""`sandlot shop serve`: people shop in a browser, and every visit is recorded as a trajectory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from rich.console import Console

from sandlot.arguments import make_env
from sandlot.envs.core.errors import InvalidArgument
from sandlot.envs.webshop.core import Shelf
from sandlot.envs.webshop.env import WebShopEnv
from sandlot.envs.webshop.page import Page
from sandlot.envs.webshop.site import Site
from sandlot.harness.recording import EpisodeRecorder
from sandlot.harness.records import Trajectory
from sandlot.harness.runs import RunFolder
from sandlot.harness.stores.files import TrajectoryWriter
from sandlot.version import VERSION

ENV_ID = "sandlot/WebShop-v0"


class Shopper:
    """One person's visit: an environment behind the pages, and the record of what happens in it.

    Args:
        recorder: of an episode of `WebShopEnv` that has just begun.
        on_end: called with the trajectory when the visit is over, unless nothing was done in it.
    """

    def __init__(self, recorder: EpisodeRecorder, on_end: Callable[[Trajectory], object]) -> None:
        assert isinstance(recorder.env, WebShopEnv)
        self.recorder, self.env = recorder, recorder.env
        self._on_end: Callable[[Trajectory], object] | None = on_end

    @property
    def shelf(self) -> Shelf:
        """The products."""
        return self.env.core.shelf

    def page(self) -> Page:
        """What is shown now."""
        return self.env.page

    def act(self, action: str) -> str:
        """Carry out an action; returns why it was refused, "" if it was not."""
        if self.recorder.stop is not None:
            return "This visit is over. The front page starts another."
        self.recorder.step(action)
        if self.recorder.stop is not None:
            self.left()
        if self.recorder.info["valid"]:
            return ""
        return self.recorder.observation.partition("\n")[0]

    def left(self) -> None:
        """The visit is over."""
        on_end, self._on_end = self._on_end, None
        if on_end is not None and self.recorder.turns:
            on_end(self.recorder.trajectory())


def serve(
    console: Console, *, port: int, seed: int, task: str | None, arguments: Mapping[str, Any], out: Path
) -> RunFolder:
    """Serve the shop on this machine until it is interrupted; returns the run folder with the recorded visits.

    Args:
        console: where to say where the shop is.
        port: to listen on; 0 takes a free one.
        seed: draws a task for each visitor.
        task: the id of the task that everybody gets instead.
        arguments: of the environment, e.g. `products`. People have no step limit unless `max_steps` sets one.
        out: where the run folder is made.

    Raises:
        UserError: the environment, the task, the port or the folder cannot be used; nothing was written.
    """
    arguments = {"max_steps": None, **arguments}
    if arguments.get("compat"):
        raise InvalidArgument("compat is for agents that were made for the original; people get the shop without it")
    console.print("opening the shop ...", style="dim")
    begin(arguments, seed, task)
    numbers, writer = count(), None

    def welcome() -> Shopper:
        assert writer is not None
        return Shopper(begin(arguments, seed + next(numbers), task), writer)

    site = Site(port, welcome)
    try:
        run = RunFolder.create("shop", {"sandlot": VERSION, "env": ENV_ID, "env_kwargs": arguments}, root=out)
        writer = TrajectoryWriter(run.calls)
        console.print(f"The shop is open at {site.address} (Ctrl-C closes it).", soft_wrap=True, highlight=False)
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
    finally:
        site.close()
    console.print(f"\n{writer.written} visits recorded in {run.folder}", soft_wrap=True, highlight=False)
    return run


def begin(arguments: Mapping[str, Any], seed: int, task: str | None) -> EpisodeRecorder:
    """A new episode of the shop."""
    return EpisodeRecorder(make_env(ENV_ID, arguments), ENV_ID, seed=seed, task=task)
