"""ALFWorld: speed of the fast engine against TextWorld on the same games, and the memory of many live environments.

Run: python benchmarks/alfworld.py [--games 60] [--live 1000] [--textworld-steps 40]
CPU time of this process (`time.process_time`), so that other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from collections.abc import Callable
from statistics import mean

if __name__ == "__main__":
    sys.path.pop(0)  # this file's folder, in which its own name would hide the package `alfworld`

import psutil
from rich.console import Console
from rich.table import Table

from sandlot.envs import make
from sandlot.envs.alfworld import generator
from sandlot.envs.alfworld.engine_textworld import TextWorldEngine
from sandlot.envs.alfworld.env import AlfworldEnv
from sandlot.envs.core import Task


def seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def walk(env: AlfworldEnv, tasks: list[Task], steps: int) -> tuple[float, float]:
    """(seconds in resets, seconds in steps) of one random walk per task, `info` included."""
    rng = random.Random(0)
    reset_time = step_time = 0.0
    for task in tasks:
        began = time.process_time()
        _, info = env.reset(options={"task": task.id})
        middle = time.process_time()
        for _ in range(steps):
            *_, info = env.step(rng.choice(info["admissible"]))
        reset_time += middle - began
        step_time += time.process_time() - middle
    return reset_time, step_time


def textworld_walk(tasks: list[Task], steps: int) -> tuple[float, float]:
    """The same walks on the bare TextWorld stack: (seconds in load and reset, seconds in steps)."""
    rng = random.Random(0)
    engine = TextWorldEngine()
    reset_time = step_time = 0.0
    for task in tasks:
        data = generator.game_file(generator.draft(task.params["recipe"]))
        reset_time += seconds(lambda data=data: engine.start(data))
        for _ in range(steps):
            command = rng.choice([name for name in engine.admissible() if name != "help"])
            step_time += seconds(lambda command=command: engine.step(command))
    engine.close()
    return reset_time, step_time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=60)
    parser.add_argument("--live", type=int, default=1000)
    parser.add_argument("--textworld-games", type=int, default=6)
    parser.add_argument("--textworld-steps", type=int, default=40)
    options = parser.parse_args()
    env = make("ALFWorld", source="generated", max_steps=10**6)
    assert isinstance(env, AlfworldEnv)
    first = seconds(lambda: env.reset(seed=0))
    tasks = env.tasks.first(options.games)
    walk(env, tasks, 1)  # furnishes the scenes
    fresh = [env.tasks.get(f"{task.id.rsplit('/', 1)[0]}/{7}") for task in tasks]
    generate = mean(seconds(lambda task=task: generator.game(generator.draft(task.params["recipe"]))) for task in tasks)
    resets, steps = walk(env, fresh, 50)
    slow_tasks = env.tasks.first(options.textworld_games)
    slow_reset, slow_step = textworld_walk(slow_tasks, options.textworld_steps)
    _, fast_step = walk(env, slow_tasks, options.textworld_steps)
    gc.collect()
    before = psutil.Process().memory_info().rss
    live = [make("ALFWorld", source="generated") for _ in range(options.live)]
    for seed, member in enumerate(live):
        _, info = member.reset(seed=seed)
        member.step(info["admissible"][0])
    memory = psutil.Process().memory_info().rss - before
    table = Table("figure", "value", title="ALFWorld")
    table.add_row("fast engine: steps/s, info included", f"{50 * len(fresh) / steps:,.0f}")
    table.add_row("fast engine: reset of a new game, ms", f"{1000 * resets / len(fresh):.2f}")
    table.add_row("of which generating the game, ms", f"{1000 * generate:.2f}")
    table.add_row("first reset of the process, ms", f"{1000 * first:.0f}")
    count = len(slow_tasks) * options.textworld_steps
    table.add_row(f"TextWorld: steps/s ({count} steps, {len(slow_tasks)} games)", f"{count / slow_step:,.1f}")
    table.add_row("TextWorld: load and reset, ms", f"{1000 * slow_reset / len(slow_tasks):,.0f}")
    table.add_row("fast engine on the same walks: steps/s", f"{count / fast_step:,.0f}")
    table.add_row("ratio of steps/s", f"{slow_step / fast_step:,.0f}")
    table.add_row(f"memory of {len(live)} live environments, MB", f"{memory / 2**20:,.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
