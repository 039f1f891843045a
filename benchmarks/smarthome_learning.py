"""Smart home: what step-wise reinforcement adds to imitation in homes never seen, and what imitating on would add.

Run: python benchmarks/smarthome_learning.py [--seeds 0 1 2] [--part train|more|table] [--out runs/smarthome]

- train: the preset's run for each seed, as `sandlot train --env SmartHome -s threads=1 --seed N`.
- more: the control. The policy as it was after imitation goes on imitating the same ways with the same settings for as
  many seconds of processor time as reinforcement took.
- table: both on the same held-out tasks, task by task, and the figure `learning.png`.

Parts whose files are there are not run again. Intervals are paired (`sandlot.harness.summary.paired`). "all" puts the
seeds' pairs together: the same tasks with policies that have nothing in common but the preset.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from sandlot.harness.loop import play
from sandlot.harness.runs import RunFolder
from sandlot.harness.summary import paired, wilson
from sandlot.trainers.job import RESULTS, WAYS, Job, Silent, flushed_subnormals, load_policy, rollouts, run_job
from sandlot.trainers.methods import make_recipe
from sandlot.trainers.presets import preset
from sandlot.trainers.sft import demonstrations, sft
from sandlot.trainers.ways import play_ways, read_ways

SECONDS, MORE = "seconds.json", "more.json"
ARMS = {"after": "reinforcement", "more": "imitating on"}


class Clock(Silent):
    """Processor time of every stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._stage, self._began = "", time.process_time()

    def stage(self, name: str, total: int) -> None:
        """The stage before is over."""
        now = time.process_time()
        if self._stage:
            self.seconds[self._stage] = now - self._began
        self._stage, self._began = name, now
        print(f"{name} ({total})", flush=True)


def job(seed: int) -> Job:
    """The preset's."""
    return replace(preset("SmartHome"), seed=seed, threads=1)


def run_of(out: Path, seed: int) -> Path | None:
    """The folder of a seed's finished run."""
    folders = sorted(out.glob(f"*-seed-{seed}*"))
    return next((folder for folder in reversed(folders) if (folder / SECONDS).exists()), None)


def train(out: Path, seed: int) -> None:
    """The preset's run."""
    settings, clock = job(seed), Clock()
    run = RunFolder.create(f"seed-{seed}", settings.table(), root=out)
    outcome = run_job(settings, run, reporter=clock)
    clock.stage("end", 0)
    run.write(SECONDS, json.dumps(clock.seconds, indent=1))
    print({name: round(result["success"], 3) for name, result in outcome.results.items()}, outcome.gain, flush=True)


def more(folder: Path, seed: int) -> None:
    """The control."""
    settings, seconds = job(seed), json.loads((folder / SECONDS).read_text())
    torch.set_num_threads(1)
    policy = load_policy(str(folder / "warm"), make_recipe(settings.recipe, **settings.recipe_kwargs), settings)
    rollout, held_out = rollouts(settings)
    shown = demonstrations(policy.format, play_ways(read_ways(folder / WAYS), rollout, seed=seed))
    epochs = max(1, round(settings.sft.epochs * seconds["training"] / seconds["imitating the oracle"]))
    began = time.process_time()
    with flushed_subnormals():  # as in the run
        losses = sft(policy, shown, replace(settings.sft, epochs=epochs, seed=seed + 1000))
        taken = time.process_time() - began
        episodes = play(policy, held_out.env.tasks().first(settings.eval_tasks), held_out, seed=seed)
    solved = {episode.task.id: episode.success for episode in episodes}
    found = {"epochs": epochs, "seconds": taken, "loss": losses[-1], "tasks": solved}
    (folder / MORE).write_text(json.dumps(found, indent=1))
    print(f"seed {seed}: {epochs} more epochs in {taken:.0f} s: {sum(solved.values()) / len(solved):.3f}", flush=True)


def outcomes(folder: Path) -> dict[str, list[bool]]:
    """Arm -> success on the held-out tasks, in their order."""
    rows = json.loads((folder / RESULTS).read_text())["tasks"]
    found = {arm: [row[arm] for row in rows] for arm in ("before", "after")}
    if (folder / MORE).exists():
        tasks = json.loads((folder / MORE).read_text())["tasks"]
        found["more"] = [tasks[row["task"]] for row in rows]
    return found


def table(folders: dict[int, Path]) -> Table:
    """Success before and after, and paired gains."""
    shown = Table(title="Success on held-out tasks")
    for column in ("seed", "imitation", "reinforcement", "gain", "imitating on", "gain", "minutes"):
        shown.add_column(column, justify="right")
    every: dict[str, list[bool]] = {}
    for seed, folder in folders.items():
        arms, seconds = outcomes(folder), json.loads((folder / SECONDS).read_text())
        shown.add_row(str(seed), *_row(arms), f"{sum(seconds.values()) / 60:.1f}")
        for arm, solved in arms.items():
            every.setdefault(arm, []).extend(solved)
    if len({len(solved) for solved in every.values()}) == 1:
        shown.add_row("all", *_row(every), "")
    return shown


def _row(arms: dict[str, list[bool]]) -> list[str]:
    cells = [f"{share(arms['before']):.3f}"]
    for arm in ARMS:
        if arm not in arms:
            cells += ["", ""]
            continue
        gain = paired(list(zip(arms["before"], arms[arm], strict=True)))
        interval = f"({gain['gain_low']:+.3f} to {gain['gain_high']:+.3f})"
        cells += [f"{share(arms[arm]):.3f}", f"{gain['gain']:+.3f} {interval}"]
    return cells


def share(solved: list[bool]) -> float:
    """Of successes."""
    return sum(solved) / len(solved)


def figure(folders: dict[int, Path], path: Path) -> None:
    """Training success by step, and the arms on the held-out tasks."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    plot, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.8), width_ratios=(3, 2))
    names = {"before": "imitation", "more": "imitating on", "after": "reinforcement"}
    for index, (seed, folder) in enumerate(folders.items()):
        lines: list[dict[str, Any]] = [json.loads(row) for row in (folder / "metrics.jsonl").read_text().splitlines()]
        values = [line["rollout/success"] for line in lines if "rollout/success" in line]
        smooth = [share(values[max(0, step - 7) : step + 1]) for step in range(len(values))]
        left.plot(smooth, color=f"C{index}", label=f"seed {seed}")
        arms = outcomes(folder)
        for place, arm in enumerate(names):
            if arm not in arms:
                continue
            value, n = share(arms[arm]), len(arms[arm])
            low, high = wilson(value * n, n)
            at = place + 0.18 * (index - (len(folders) - 1) / 2)
            right.errorbar(at, value, [[value - low], [high - value]], fmt="o", color=f"C{index}", capsize=3)
    left.set(xlabel="step of reinforcement", ylabel="success", title="training tasks (mean of 8 steps)")
    left.legend()
    right.set_xticks(range(3), list(names.values()))
    right.set(title="held-out homes (Wilson 95 %)", xlim=(-0.5, 2.5))
    for axis in (left, right):
        axis.grid(alpha=0.3)
    plot.tight_layout()
    plot.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--part", choices=("train", "more", "table"), help="only this")
    parser.add_argument("--out", type=Path, default=Path("runs/smarthome"))
    options = parser.parse_args()
    for seed in options.seeds:
        if options.part in (None, "train") and run_of(options.out, seed) is None:
            train(options.out, seed)
        folder = run_of(options.out, seed)
        if options.part in (None, "more") and folder is not None and not (folder / MORE).exists():
            more(folder, seed)
    folders = {seed: folder for seed in options.seeds if (folder := run_of(options.out, seed)) is not None}
    if options.part in (None, "table") and folders:
        Console(width=130).print(table(folders))
        figure(folders, options.out / "learning.png")


if __name__ == "__main__":
    main()
