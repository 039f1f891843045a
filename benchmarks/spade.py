"""SPADE with the grammar designer against the same learner on a fixed pool, at equal environment steps.

`python benchmarks/spade.py` plays every seed in every arm. Both arms begin with the same learner and the same pool, one
program of each difficulty as an untrained designer writes them; the fixed arm goes on until it has made as many
environment steps as SPADE, whose hinted episodes count too. Held out are other programs of every difficulty, without
hints.

`--here` runs the programs, which are all our own designer's, in this process instead of in sandboxes: the same numbers,
several times faster (`tests/benchmarks/test_spade_benchmark.py` compares them).
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sandlot.envs.selfplay import env as env_module
from sandlot.envs.selfplay import gates as gates_module
from sandlot.envs.selfplay.designer import GrammarDesigner
from sandlot.envs.selfplay.gates import Gates, GateSettings
from sandlot.envs.selfplay.pool import Pool
from sandlot.envs.selfplay.runner import RunSettings
from sandlot.envs.selfplay.tasks import seeds
from sandlot.harness.context import History
from sandlot.harness.loop import EnvMaker, Limits, Rollout, play
from sandlot.harness.policies.reader import ReaderPolicy
from sandlot.trainers.designers import difficulty
from sandlot.trainers.loop import Schedule, train
from sandlot.trainers.methods import make_recipe

_ENCODE = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
MECHANICS = ("navigation", "locks", "hidden_rule", "dialogue")
DIALECT = "harbour"  # what colours, marks and kinds mean: the same in all programs, so that it can be learned
HARDEST = 10
EASY: dict[str, Any] = {
    "chance": 0.45,
    "constant": 0.61,
}  # programs of difficulty 1 are two choices between two or three actions
OPTIONS: dict[str, Any] = {
    **{"groups": 4, "instances": 4, "group_size": 8, "hinted": 2, "designs": 2},
    **{"lr": 0.3, "max_grad_norm": 100.0, "slope": -4.0, "designer_lr": 2.0},
}
ARMS: dict[str, dict[str, Any]] = {
    "spade": {},
    "fixed": {"fixed_pool": True},
    "no_hint": {"hint": False},
    "no_memory": {"memory": False},
}


MARKS = (5_000, 10_000, 15_000, 20_000)
"""Environment steps after which the held-out programs are played on the way."""


class Here:
    """What `runner.Cell` does, in this process: only for programs that nobody need be protected from."""

    def __init__(self, backend: str = "auto", settings: RunSettings | None = None) -> None:
        self.settings = settings or RunSettings()
        self.kind: Any = None
        self.game: Any = None

    @property
    def alive(self) -> bool:
        """Whether a class is loaded."""
        return self.kind is not None

    def load(self, source: str, kind: str) -> None:
        """Take the class from a source."""
        space: dict[str, Any] = {"__name__": kind.lower()}
        exec(compile(source, f"{kind}.py", "exec"), space)
        self.kind = space[kind]

    def ask(self, verb: str, *arguments: Any, timeout: float | None = None) -> Any:
        """What `guest.handle` answers."""
        if verb == "hint":
            return self.kind().hint(*arguments)
        if verb == "act":
            return self.game.act(*arguments)
        if verb == "step":
            try:
                return self._moment(*self.game.step(*arguments))
            except ValueError as error:
                return ["refused", str(error), True]
        if verb == "replay":
            seed, actions = arguments
            return [self.ask("reset", seed), *(self.ask("step", action) for action in actions)]
        self.game = self.kind()
        return self.game.start(*arguments) if verb == "start" else self._moment(self.game.reset(*arguments), 0.0, False)

    def _moment(self, observation: str, reward: float, terminated: bool) -> list[Any]:
        actions = None if terminated else self.game.actions()
        return [observation, reward, terminated, actions, _ENCODE(self.game.state())]

    def end(self) -> None:
        """Forget the class."""
        self.kind = None

    close = end


@contextmanager
def here() -> Iterator[None]:
    """Programs run in this process."""
    kept = [(module, module.Cell) for module in (env_module, gates_module)]
    env_module.SelfPlayEnv.waits = False
    for module, _ in kept:
        module.Cell = Here  # type: ignore[misc,assignment]
    try:
        yield
    finally:
        del env_module.SelfPlayEnv.waits
        for module, cell in kept:
            module.Cell = cell  # type: ignore[misc]


def make_pool(folder: Path, seed: int, role: str, difficulties: Sequence[int]) -> None:
    """A pool with programs of these difficulties, as an untrained designer writes them."""
    with Gates(settings=GateSettings(**EASY)) as gates, Pool(folder) as pool:
        designer = GrammarDesigner(seed, MECHANICS, dialect=DIALECT)
        number = 0
        for size in difficulties:
            added = pool.version
            while pool.version == added:  # the gates refuse what is there already
                number += 1
                program = designer.compose(number, difficulty=size)
                verdict = gates.check(program, pool.known())
                if verdict.passed:
                    pool.add(program, verdict, role)


def rollout(folder: Path, split: str) -> Rollout:
    """How episodes are played: the prompt shows the instruction and what is seen now."""
    env = EnvMaker("sandlot/SelfPlay-v0", {"pool": str(folder), "split": split})
    return Rollout(env, context=History(window=0, brief=True), limits=Limits(concurrency=4))


def held_out(policy: Any, folder: Path, episodes: int) -> dict[int, float]:
    """Mean success on the held-out programs by difficulty."""
    how = rollout(folder, "test")
    tasks = how.env.tasks()
    with Pool(folder) as pool:
        sizes = {name: difficulty(pool.get(name)) or 0 for name in pool.ids("test")}
    chosen = [tasks.get(f"selfplay/{name}/{number}") for name in sizes for number in seeds("test", episodes)]
    found: dict[int, list[bool]] = {}
    for task, trajectory in zip(chosen, play(policy, chosen, how, seed=17), strict=True):
        found.setdefault(sizes[task.params["program"]], []).append(trajectory.success)
    return {size: float(np.mean(row)) for size, row in sorted(found.items())}


def run(arm: str, seed: int, tested: Path, steps: int, budget: float, options: dict[str, Any]) -> dict[str, Any]:
    """Train one arm in a pool of its own; a budget above 0 ends it after so many environment steps."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "pool"
        make_pool(folder, seed, "train", range(1, HARDEST + 1))
        about = {"dialect": DIALECT, "mechanics": MECHANICS, "hardest": HARDEST}
        recipe = make_recipe("spade", **{**about, **EASY, **OPTIONS, **ARMS[arm], **options})
        policy, how = ReaderPolicy(), rollout(folder, "train")
        before = held_out(policy, tested, 10)

        between: dict[int, float] = {}

        def watch(history: Sequence[dict[str, float]]) -> str | None:
            done = sum(step["rollout/units"] for step in history)
            for mark in MARKS:
                if done >= mark and mark not in between:
                    between[mark] = float(np.mean([*held_out(policy, tested, 10).values()]))
            return "the steps are spent" if budget and done >= budget else None

        limit = 100 * steps if budget else steps
        history = train(recipe, policy, how, how.env.tasks(), Schedule(limit, seed), watchers=[watch])
        after = held_out(policy, tested, 20)
    kept = ("plain", "hinted", "level", "difficulty", "aim", "reward", "accepted", "pool")
    return {
        **{"arm": arm, "seed": seed, "steps": len(history)},
        "environment steps": sum(step["rollout/units"] for step in history),
        **{"before": float(np.mean([*before.values()])), "after": float(np.mean([*after.values()]))},
        **{"between": between, "by difficulty": after},
        "units": [step["rollout/units"] for step in history],
        **{name: [step.get(f"design/{name}") for step in history] for name in kept},
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """What is published: the arms of every seed, then the mean margins over the fixed pool."""
    columns = [
        "arm",
        "seed",
        "updates",
        "environment steps",
        "before",
        *(f"{mark // 1000}k" for mark in MARKS),
        "after",
    ]
    columns += ["1-3", "4-7", "8-10"]
    lines = [f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|"]
    results = []
    for row in rows:
        found = {int(size): value for size, value in row["by difficulty"].items()}
        bands = [np.mean([found[size] for size in band]) for band in (range(1, 4), range(4, 8), range(8, 11))]
        passed = {int(mark): value for mark, value in row["between"].items()}
        results.append([row["before"], *(passed.get(mark, float("nan")) for mark in MARKS), row["after"], *bands])
        cells = [row["arm"], row["seed"], row["steps"], f"{row['environment steps']:,.0f}"]
        lines.append(f"| {' | '.join(map(str, [*cells, *(f'{value:.3f}' for value in results[-1])]))} |")
    fixed = {row["seed"]: found for row, found in zip(rows, results) if row["arm"] == "fixed"}
    for arm in ARMS:
        pairs = [(f, fixed[r["seed"]]) for r, f in zip(rows, results) if r["arm"] == arm and r["seed"] in fixed]
        if pairs and arm != "fixed":
            margins = np.array([np.subtract(*pair) for pair in pairs])
            for column, mean, each in zip(columns[4:], margins.mean(0), margins.T):
                told = ", ".join(f"{margin:+.3f}" for margin in each)
                lines.append(f"{arm} - fixed, {column}: {mean:+.3f} ({told})")
    return "\n".join(lines)


def curve(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Difficulty and success of what was played, by environment steps."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.4), sharex=True)
    for row in rows:
        steps, style = np.cumsum(row["units"]), {"spade": "C0", "fixed": "C1", "no_hint": "C2", "no_memory": "C3"}
        for axis, name in zip(axes, ("level", "plain")):
            values = np.array(row[name], dtype=float)
            smooth = [np.nanmean(values[max(0, i - 4) : i + 1]) for i in range(len(values))]
            label = row["arm"] if row["seed"] == rows[0]["seed"] else None
            axis.plot(steps, smooth, color=style[row["arm"]], label=label, alpha=0.8)
    axes[0].set_ylabel("difficulty of what is played")
    axes[1].set_ylabel("success of the plain episodes")
    for axis in axes:
        axis.set_xlabel("environment steps")
        axis.grid(alpha=0.3)
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    """All arms for every seed; prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=45, help="updates of the first arm")
    parser.add_argument("--arms", nargs="+", default=["spade", "fixed"], choices=list(ARMS))
    parser.add_argument("--here", action="store_true", help="run our own programs in this process")
    parser.add_argument("--out", type=Path, help="a file for all numbers, a JSON line for each arm")
    parser.add_argument("--curve", type=Path, help="a picture of difficulty and success by environment steps")
    parser.add_argument("-r", action="append", default=[], help="an option of the recipe, name=value")
    args = parser.parse_args()
    torch.set_num_threads(1)
    options = {name: json.loads(value) for name, _, value in (pair.partition("=") for pair in args.r)}
    rows: list[dict[str, Any]] = []
    with here() if args.here else tempfile.TemporaryDirectory(), tempfile.TemporaryDirectory() as name:
        tested = Path(name) / "tested"
        make_pool(tested, 1007, "test", [1 + i % HARDEST for i in range(2 * HARDEST)])
        for seed in args.seeds:
            budget = 0.0
            for arm in args.arms:
                rows.append(run(arm, seed, tested, args.steps, budget, options))
                budget = budget or rows[-1]["environment steps"]
                print(table(rows[-1:]), flush=True)
                if args.out:
                    args.out.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    print(table(rows))
    if args.curve:
        curve(rows, args.curve)


if __name__ == "__main__":
    main()
