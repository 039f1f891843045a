"""Speed of the episode loop: `python benchmarks/rollout.py`.

1. Turns per second of the loop with a scripted policy over 64 live environments, stepped inline (pure computations) and
   in a thread each (environments that wait), beside the bare environment without a harness and beside Gymnasium's own
   vector environment, which batches steps but records nothing.
2. 64 environments that sleep 20 ms in every step: a round of all of them should take about one step's time, not 64.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
from rich.console import Console
from rich.table import Table

from sandlot.envs.core import Outcome, TextEnv
from sandlot.envs.toys.corridor import Corridor
from sandlot.harness.loop import EnvMaker, Limits, Rollout, play
from sandlot.harness.policies.scripted import ScriptedPolicy
from sandlot.harness.records import Context

ENVS = 64
ROOMS, STEPS = 40, 32  # nobody arrives: every episode has exactly STEPS turns
SLEEP = 0.020  # s
SLEEPY_STEPS = 20


class Inline(Corridor):
    """A Corridor that is stepped inline."""

    waits = False


class Threaded(Corridor):
    """A Corridor that gets a thread of its own."""

    waits = True


class Sleepy(Threaded):
    """A Corridor whose steps wait, as a server's would."""

    def _step(self, action: str) -> Outcome:
        time.sleep(SLEEP)
        return super()._step(action)


@dataclass(frozen=True)
class Maker(EnvMaker):
    """Makes instances of a class that is not registered."""

    cls: type[TextEnv] = Inline

    def __call__(self) -> TextEnv:
        """A new instance."""
        return self.cls(**self.kwargs)

    @property
    def waits(self) -> bool:
        """As the class says."""
        return self.cls.waits


def script(context: Context) -> str:
    """The verbs in turn, so that episodes walk to and fro."""
    assert context.admissible
    return context.admissible[len(context.messages) // 2 % len(context.admissible)]


def seconds(work: Callable[[], Any], repeats: int) -> float:
    """The best of a few runs: what the code needs, with the least of the machine's other work."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def bare(make: Maker, steps: int) -> None:
    """One environment after the other, no policy, no records."""
    env = make()
    for _ in range(ENVS):
        _, info = env.reset(seed=0)
        for turn in range(steps):
            info = env.step(info["admissible"][turn % len(info["admissible"])])[4]
    env.close()


def vector(make: Maker, steps: int) -> None:
    """Gymnasium's vector environment, steps only."""
    envs = gymnasium.vector.SyncVectorEnv([make] * ENVS)
    _, infos = envs.reset(seed=0)
    for turn in range(steps):
        infos = envs.step(tuple(names[turn % len(names)] for names in infos["admissible"]))[4]
    envs.close()


def loop(make: Maker) -> None:
    """The harness: contexts built, calls batched, trajectories recorded."""
    tasks = make().tasks.first(ENVS)
    played = play(ScriptedPolicy(script), tasks, Rollout(make, limits=Limits(concurrency=ENVS)))
    assert all(len(trajectory.turns) == make.kwargs["max_steps"] for trajectory in played)


def measure(repeats: int) -> dict[str, float]:
    """All figures: turns per second, and seconds per round of 64 sleeping steps."""
    inline = Maker("benchmark", {"rooms": ROOMS, "max_steps": STEPS})
    threaded = Maker("benchmark", {"rooms": ROOMS, "max_steps": STEPS}, Threaded)
    sleepy = Maker("benchmark", {"rooms": ROOMS, "max_steps": SLEEPY_STEPS}, Sleepy)
    turns = ENVS * STEPS
    return {
        "bare": turns / seconds(partial(bare, inline, STEPS), repeats),
        "vector": turns / seconds(partial(vector, inline, STEPS), repeats),
        "inline": turns / seconds(partial(loop, inline), repeats),
        "threaded": turns / seconds(partial(loop, threaded), repeats),
        "round": seconds(partial(loop, sleepy), min(repeats, 3)) / SLEEPY_STEPS,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="runs per figure; the best counts")
    found = measure(parser.parse_args().repeats)
    table = Table(title=f"{ENVS} environments, {STEPS} turns each, scripted policy")
    for column in ("path", "turns/s", "share of the bare environment"):
        table.add_column(column, justify="left" if column == "path" else "right")
    for name, label in (
        ("bare", "bare environment"),
        ("vector", "gymnasium SyncVectorEnv"),
        ("inline", "harness loop, environments inline"),
        ("threaded", "harness loop, a thread per environment"),
    ):
        table.add_row(label, f"{found[name]:,.0f}", f"{found[name] / found['bare']:.2f}")
    console = Console()
    console.print(table)
    console.print(
        f"{ENVS} environments that sleep {SLEEP * 1000:.0f} ms per step: a round of all takes "
        f"{found['round'] * 1000:.1f} ms, {found['round'] / SLEEP:.2f} steps' time (one after the other: {ENVS})"
    )


if __name__ == "__main__":
    main()
