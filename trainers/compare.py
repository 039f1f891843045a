"""Methods on equal work: the same tasks, episodes, seeds and starting weights for every recipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..harness.report import curve_png, report_html
from ..harness.runs import RunFolder
from .job import Job, Reporter, Silent, run_job, training_curve


@dataclass
class Comparison:
    """What came of one recipe: one entry per seed."""

    recipe: str
    before: list[float]
    after: list[float]
    curves: list[list[float]]
    """Success of the training episodes, per seed and step."""
    episodes: int
    turns: list[float]
    """Environment turns that training took."""
    seconds: list[float]

    @property
    def row(self) -> dict[str, Any]:
        """A row of the table: means, the standard error over seeds, and the area under the training curve."""
        n = len(self.after)
        error = float(np.std(self.after, ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
        return {
            "recipe": self.recipe,
            "before": float(np.mean(self.before)),
            "after": float(np.mean(self.after)),
            "s.e.": error,
            "area": float(np.mean(self.curves)),
            "episodes": self.episodes,
            "turns": float(np.mean(self.turns)),
            "seconds": float(np.mean(self.seconds)),
        }


def compare(
    job: Job, recipes: Sequence[str], seeds: Sequence[int], run: RunFolder, *, reporter: Reporter | None = None
) -> list[Comparison]:
    """Run every recipe with every seed on the settings of `job`; write `compare.png` and `report.html`.

    Equal work: each recipe plays the same number of episodes of the same training tasks (drawn from the seed), and
    starts from the same weights; a warm start is made once per seed and shared.

    Args:
        job: the settings; its recipe is replaced. Its `recipe_kwargs` go to every recipe.
        recipes: names that `trainers.methods.make_recipe` knows.
        seeds: one run each.
        run: the folder; each run has a folder of its own in it.
        reporter: told about progress.
    """
    comparisons = []
    for name in recipes:
        found = Comparison(name, [], [], [], 0, [], [])
        for seed in seeds:
            one = RunFolder.create(f"{name}-{seed}", {"recipe": name, "seed": seed}, root=run.folder / "runs")
            warm = run.folder / f"warm-{seed}"
            mine = replace(job, recipe=name, seed=seed, early_stop=0)  # equal work
            outcome = run_job(mine, one, reporter=Named(reporter or Silent(), f"{name} {seed}"), warm=warm)
            steps = [metrics for metrics in outcome.history if "rollout/success" in metrics]
            found.before.append(outcome.results["before"]["success"])
            found.after.append(outcome.results["after"]["success"])
            found.curves.append([value for _, value in training_curve(outcome.history)])
            found.episodes = int(sum(metrics["rollout/episodes"] for metrics in steps))
            found.turns.append(sum(metrics["rollout/turns"] * metrics["rollout/episodes"] for metrics in steps))
            found.seconds.append(outcome.seconds)
        comparisons.append(found)
        _write(job, seeds, run, comparisons)  # after each recipe, so that an interruption leaves what is finished
    return comparisons


@dataclass
class Named:
    """Puts a run's name in front of its stages."""

    inner: Reporter
    name: str

    def stage(self, name: str, total: int) -> None:
        """Pass on."""
        self.inner.stage(f"{self.name}: {name}", total)

    def advance(self, n: int = 1, note: str = "") -> None:
        """Pass on."""
        self.inner.advance(n, note)

    def warn(self, text: str) -> None:
        """Pass on."""
        self.inner.warn(f"{self.name}: {text}")


def _write(job: Job, seeds: Sequence[int], run: RunFolder, comparisons: Sequence[Comparison]) -> Path:
    series = {c.recipe: list(enumerate(np.mean(c.curves, axis=0).tolist())) for c in comparisons}
    png = curve_png(series, title=f"{job.env}, {job.model}, {len(seeds)} seeds", x="training step")
    run.write("compare.png", png)
    html = report_html(
        f"Recipes on {job.env}",
        lead=f"{job.model}, {job.steps} steps, seeds {', '.join(map(str, seeds))}; equal episodes, tasks and weights.",
        tables={f"Success on {job.eval_tasks} tasks of {job.eval_split}": [c.row for c in comparisons]},
        curve=png,
        config=vars(job),
    )
    return run.write("report.html", html)
