"""Smart home: how fast the home and the environment are, what the oracle solves, and what MCTS-Flow finds.

Run: python benchmarks/smarthome.py [--part home|tasks|oracle|flow] [--days 2] [--calls 2000] [--rounds 8]

- home: the simulated home alone, by size: calls, snapshots, keys, simulated time.
- tasks: `sandlot/SmartHome-v0` in generated homes: resets, steps, snapshots, simulated time while an agent waits.
- oracle: the share of drafted tasks that pass all checks, in the split "valid_seen".
- flow: tree search against random search over all kinds, in the split "test", which nothing was tuned on.

CPU time of this process (`time.process_time`), so that other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from random import Random

from rich.console import Console
from rich.table import Table

from sandlot.envs.smarthome.env import SmartHomeEnv
from sandlot.envs.smarthome.flow.search import apart, random_search, search
from sandlot.envs.smarthome.flow.wider import wide_candidates
from sandlot.envs.smarthome.session import beginning
from sandlot.envs.smarthome.sim.home import SimHome
from sandlot.envs.smarthome.sim.sky import weather_trace
from sandlot.envs.smarthome.spec import ActivitySpec, DeviceSpec, EntitySpec, HomeSpec, LinkSpec, ResidentSpec, RoomSpec
from sandlot.envs.smarthome.task import FAMILIES
from sandlot.envs.smarthome.tasks.make import KINDS as TASK_KINDS
from sandlot.envs.smarthome.tasks.make import NAMES, check_task, draft_task

SIZES = {"small": 15, "medium": 50, "large": 135}  # devices
SIMULATIONS = 128  # of a search
KINDS = ("light", "light", "sensor", "cover", "climate", "light", "switch", "motion", "media_player", "fan")


def home(devices: int) -> HomeSpec:
    """A home of that many devices: a room for each eight of them, two residents, an automation for each room."""
    rooms = [f"room_{index}" for index in range(max(3, devices // 8))]
    things: list[DeviceSpec] = []
    entities: list[EntitySpec] = []
    for number in range(devices):
        kind, room = KINDS[number % len(KINDS)], rooms[number % len(rooms)]
        name = f"{kind}_{number}"
        things.append(DeviceSpec(name, name.replace("_", " ").title(), room))
        if kind == "sensor":
            for what in ("temperature", "humidity", "illuminance"):
                entities.append(EntitySpec(f"sensor.{name}_{what}", what, name, params={"measures": what}))
        elif kind == "motion":
            entities.append(EntitySpec(f"binary_sensor.{name}", name, name, params={"measures": "motion"}))
        else:
            entities.append(EntitySpec(f"{kind}.{name}", name, name, state="heat" if kind == "climate" else None))
    day = tuple(ActivitySpec(f"{7 + hour:02d}:00", rooms[hour % len(rooms)], jitter=20) for hour in range(0, 16, 2))
    rules = tuple(
        {
            "id": room,
            "alias": room,
            "triggers": [{"trigger": "state", "entity_id": f"light.light_{index * len(KINDS)}", "to": "on", "for": 60}],
            "actions": [{"action": "light.turn_on", "target": {"area_id": room}}],
        }
        for index, room in enumerate(rooms[: devices // len(KINDS)])
    )
    return HomeSpec(
        f"benchmark_{devices}",
        rooms=tuple(RoomSpec(room, room) for room in rooms),
        links=tuple(LinkSpec(a, b) for a, b in pairwise(rooms)),
        devices=tuple(things),
        entities=tuple(entities),
        residents=tuple(ResidentSpec(name, name.title(), rooms[0], routine=day) for name in ("anna", "ben")),
        weather=weather_trace(1, 48),
        automations=rules,
    )


def micros(work: Callable[[], object], times: int) -> float:
    """CPU microseconds per call."""
    began = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - began) / times * 1e6


def measure(devices: int, days: float, calls: int) -> list[str]:
    """One row: what a home of that size costs."""
    spec = home(devices)
    build = micros(lambda: SimHome(spec), 10) / 1000
    sim = SimHome(spec)
    began = time.process_time()
    sim.advance(days * 86_400)
    hours = days * 24 / (time.process_time() - began)
    level = iter(range(10**9))

    def step() -> None:
        sim.call_service("light", "turn_on", {"brightness_pct": next(level) % 99 + 1}, {"entity_id": "light.light_0"})
        sim.advance(1)

    step()
    stepped = micros(step, calls)
    saved = sim.snapshot()
    snap, restore = micros(sim.snapshot, 1000), micros(lambda: sim.restore(saved), 1000)
    key = micros(sim.key, 300)

    def expand() -> None:
        sim.restore(saved)
        step()
        sim.snapshot()

    expansion = micros(expand, calls)
    figures = (len(sim.states()), build, 1e6 / stepped, snap, restore, key, 1e6 / expansion, hours)
    return [str(devices), *(f"{figure:,.1f}" if figure < 100 else f"{figure:,.0f}" for figure in figures)]


def home_table(days: float, calls: int) -> Table:
    """The simulated home by size."""
    table = Table(title="SimHome (after two days, with their history)" if days == 2 else "SimHome")
    columns = ("size", "devices", "entities", "build ms", "steps/s", "snapshot us", "restore us", "key us")
    for column in (*columns, "expansions/s", "simulated hours/s"):
        table.add_column(column, justify="left" if column == "size" else "right")
    for name, devices in SIZES.items():
        table.add_row(name, *measure(devices, days, calls))
    return table


def task_row(size: str, episodes: int = len(NAMES)) -> list[str]:
    """The environment in homes of one size, along the oracle's way."""
    env = SmartHomeEnv(size=size)
    first = again = stepping = waiting = 0.0
    steps, hours = 0, 0.0
    for number in range(episodes):
        task = {"task": f"train-{size}-{number}"}
        times = [time.process_time()]
        for _ in range(2):
            env.reset(options=task)
            times.append(time.process_time())
        first, again = first + times[1] - times[0], again + times[2] - times[1]
        home = env.session.home
        begin, before = time.process_time(), home.snapshot()
        home.advance(6 * 3600)
        waiting, hours = waiting + time.process_time() - begin, hours + 6
        home.restore(before)
        for action in env.oracle():
            begin = time.process_time()
            env.step(action)
            stepping, steps = stepping + time.process_time() - begin, steps + 1
    saved = env.snapshot()
    figures = (1e3 * first / episodes, 1e3 * again / episodes, steps / stepping)
    copies = micros(env.snapshot, 500), micros(lambda: env.restore(saved), 500)
    return [size, *(f"{figure:,.0f}" for figure in (*figures, *copies, hours / waiting))]


def task_table() -> Table:
    """The environment by size."""
    table = Table(title="sandlot/SmartHome-v0")
    columns = ("homes", "new task ms", "again ms", "steps/s", "snapshot us", "restore us", "simulated hours/s")
    for column in columns:
        table.add_column(column, justify="left" if column == "homes" else "right")
    for size in SIZES:
        table.add_row(*task_row(size))
    return table


def oracle(rounds: int) -> str:
    """The share of the drafts (first attempts that a home allows) that pass all checks."""
    drafts = passed = 0
    begin = time.process_time()
    for number in range(rounds * len(NAMES)):
        for attempt in range(6):
            drafted = draft_task("valid_seen", number, attempt)
            if drafted is not None:
                drafts += 1
                passed += not check_task(drafted[0], beginning(*drafted))[0]
                break
    return f"oracle: {passed} of {drafts} drafts pass ({passed / drafts:.1%}), {time.process_time() - begin:.1f} s"


def flow_table(rounds: int) -> Table:
    """Verified distinct trajectories per 1,000 environment steps (replays that verify not counted), by family.

    "Several": the share of tasks with at least two; "none in another": with two of which neither contains the other.
    """
    env = SmartHomeEnv("test")
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0] * 8)
    for number in range(rounds * len(NAMES)):
        task = f"test-any-{number}"
        family = TASK_KINDS[NAMES[number % len(NAMES)]][0]
        env.reset(options={"task": task})  # made here, so that its making is not counted
        begin = time.process_time()
        found = search(env, task, keep=64, simulations=SIMULATIONS, propose=wide_candidates)
        seconds = time.process_time() - begin
        drawn = random_search(env, task, Random(number), steps=found.steps, propose=wide_candidates)
        made, by_chance = len(found.trajectories), len(drawn.trajectories)
        others = len(apart(found.trajectories))
        row = (1, made > 1, others > 1, found.steps, made, seconds, drawn.steps, by_chance)
        for name in (family, "all"):
            sums[name] = [old + new for old, new in zip(sums[name], row, strict=True)]
    table = Table(title="MCTS-Flow, split test, homes of all sizes")
    columns = ("family", "tasks", "several", "none in another", "per 1,000 steps", "random search", "expansions/s")
    for column in columns:
        table.add_column(column, justify="left" if column == "family" else "right")
    for name in (*FAMILIES, "all"):
        tasks, several, others, steps, made, seconds, drawn_steps, by_chance = sums[name]
        per, random_per = 1000 * made / max(steps, 1), 1000 * by_chance / max(drawn_steps, 1)
        shares = f"{several / tasks:.0%}", f"{others / tasks:.0%}"
        table.add_row(name, f"{tasks:.0f}", *shares, f"{per:.1f}", f"{random_per:.1f}", f"{steps / seconds:.0f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", choices=("home", "tasks", "oracle", "flow"), help="only this")
    parser.add_argument("--days", type=float, default=2.0, help="simulated days")
    parser.add_argument("--calls", type=int, default=2000, help="service calls")
    parser.add_argument(
        "--rounds", type=int, default=8, help="tasks of each kind for the oracle, half as many searched"
    )
    options = parser.parse_args()
    parts: dict[str, Callable[[], Table | str]] = {
        "home": lambda: home_table(options.days, options.calls),
        "tasks": task_table,
        "oracle": lambda: oracle(options.rounds),
        "flow": lambda: flow_table(max(1, options.rounds // 2)),
    }
    for name in [options.part] if options.part else parts:
        Console(width=110).print(parts[name]())


if __name__ == "__main__":
    main()
