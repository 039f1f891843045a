"""A tiny language model learns Leduc against a frozen pool, by GRPO from nothing: `python benchmarks/games.py`.

For each seed: a model of random weights is trained on hands against a pool of scripted players and chance. Before and
after it meets every player of the pool in duplicate matches on deals that were not trained on (each deal from both
seats, so that the luck of the cards cancels). Then all models join the pool, and a tournament rates everybody.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table
from transformers.utils import logging

from sandlot.envs import make
from sandlot.envs.games.game import Player, duplicate_match
from sandlot.envs.games.opponents import OpponentPool
from sandlot.envs.games.poker import PLAYERS, Poker
from sandlot.harness.context import History
from sandlot.harness.players import PolicyPlayer
from sandlot.harness.policies.hf import HFPolicy
from sandlot.harness.policies.scripted import RandomPolicy
from sandlot.harness.runs import RunFolder
from sandlot.trainers.job import MODEL, Job, run_job

CHIPS = 13  # the most that a hand of Leduc can cost
RECIPE = {"groups": 16, "group_size": 8, "minibatches": 2, "lr": 1e-3, "warmup": 3, "std": False, "clip_high": 0.28}


def leduc() -> Poker:
    return Poker("leduc")


def chips(player: Player, pool: OpponentPool, deals: range) -> dict[str, float]:
    """Mean chips per hand against each player of the pool."""
    return {name: CHIPS * duplicate_match(leduc, player, pool.get(name), deals).payoff for name in pool.names}


def job(folder: Path, seed: int, steps: int) -> Job:
    """One hand an episode: what was won is then due to its own three or four moves."""
    return Job(
        env="sandlot/Leduc-v0",
        env_kwargs={"hands": 1, "pool": str(folder)},
        model="tiny",
        tiny={"d_model": 64, "layers": 2},  # pyright: ignore[reportArgumentType]
        history=History(window=0, brief=True),
        decode="choice",
        steps=steps,
        seed=seed,
        eval_tasks=64,
        threads=1,
        recipe_kwargs={**RECIPE, "aggregation": "token"},
    )


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--deals", type=int, default=200, help="of every duplicate match")
    parser.add_argument("--out", type=Path, help="keep the pool with the trained models in this folder")
    parser.add_argument("--json", type=Path, help="write all numbers there")
    options = parser.parse_args(arguments)
    logging.disable_progress_bar()
    console = Console(highlight=False, width=110)
    pool = OpponentPool({**PLAYERS, "chance": PolicyPlayer(RandomPolicy())})
    met, rated = range(10**6, 10**6 + options.deals), OpponentPool({name: pool.get(name) for name in pool.names})
    env = make("Leduc", hands=1)
    instruction = env.reset()[1]["instruction"]
    report: dict[str, Any] = {"seeds": []}
    with TemporaryDirectory(prefix="sandlot-games-") as scratch:
        folder = pool.save(Path(scratch) / "pool")
        for seed in range(options.seeds):
            (run := Path(scratch) / str(seed)).mkdir()
            begin = time.perf_counter()
            run_job(job(folder, seed, options.steps), RunFolder(run))
            row: dict[str, Any] = {"seconds": time.perf_counter() - begin}
            for name, where in (("before", "warm"), ("after", MODEL)):
                player = PolicyPlayer(HFPolicy.load(run / where), instruction)
                row[name] = chips(player, pool, met)
                rated.add(f"{name}, seed {seed}", player)
            report["seeds"].append(row)
            console.print(f"seed {seed}: trained in {row['seconds']:.0f} s")
    rated.tournament(leduc, range(2 * 10**6, 2 * 10**6 + max(1, options.deals // 2)), together=5)
    report["ratings"] = rated.ratings
    table = Table("chips per hand against", *(f"seed {seed}" for seed in range(options.seeds)), box=None)
    for name in [*pool.names, "all"]:
        cells = []
        for row in report["seeds"]:
            values = [statistics.mean(row[w].values()) if name == "all" else row[w][name] for w in ("before", "after")]
            cells.append(f"{values[0]:+.2f} to {values[1]:+.2f}")
        table.add_row(name, *cells)
    console.print(table)
    console.print(
        "Elo:",
        "; ".join(f"{name} {rating:.0f}" for name, rating in sorted(rated.ratings.items(), key=lambda item: -item[1])),
    )
    if options.out:
        rated.save(options.out)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return report


if __name__ == "__main__":
    main()
