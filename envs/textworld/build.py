"""The child process that makes and compiles games: JSON jobs on standard input, one published folder a game."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from .story import Story, load_game

ATTEMPTS = 20  # the generators fail on some seeds; the next attempt is another game of the same task


def make_game(challenge: str, settings: dict[str, Any], seed: int, attempt: int) -> Any:
    """A `textworld.Game`, the same one for the same arguments in any process with hash seed 0."""
    import textworld
    from textworld.challenges import CHALLENGES

    options = textworld.GameOptions()
    numbers = np.random.SeedSequence([seed, attempt]).generate_state(4)
    options.seeds = {key: int(n % 65635) for key, n in zip(("map", "objects", "quest", "grammar"), numbers)}
    options.grammar.only_last_action = True  # the objective names the goal, not every step of the way
    _, make, _ = CHALLENGES[f"tw-{challenge}"]
    return make(settings, options)


def solvable(folder: Path) -> bool:
    """Whether the game's own plan wins in the interpreter."""
    story = Story(folder)
    story.start()
    for command in story.plan():
        if story.ended:
            break
        story.send(command)
    return story.won


def build(challenge: str, settings: dict[str, Any], seed: int, folder: str) -> None:
    """Make, compile, test and publish one game.

    Raises:
        RuntimeError: no attempt gave a game that its own plan wins.
    """
    from textworld.generator.inform7 import compile_inform7_game, generate_inform7_source

    reason = "the plan of every game failed"
    for attempt in range(ATTEMPTS):
        place = Path(tempfile.mkdtemp())
        try:
            game = make_game(challenge, settings, seed, attempt)
            game.save(str(place / "game.json"))
            compile_inform7_game(generate_inform7_source(game), str(place / "game.z8"))
            good = solvable(place)
        except Exception as error:  # whatever the generators throw for a seed that does not fit
            reason = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
            continue
        finally:
            load_game.cache_clear()
        if good:
            (place / "game.ni").unlink()
            publish(place, Path(folder))
            return
    raise RuntimeError(reason)


def publish(place: Path, folder: Path) -> None:
    """Rename the finished folder into the cache; an equal one that another process put there first is kept."""
    try:
        place.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise


def main() -> None:
    """Build every job that is not published yet."""
    for job in json.load(sys.stdin):
        if not Path(job["folder"]).is_dir():
            build(**job)


if __name__ == "__main__":
    main()
