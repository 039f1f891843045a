"""WebShop's search engine at scale: generated products, questions made of their goals; time, size, memory and latency.

    python benchmarks/webshop_search.py --products 1200000

Only texts are indexed; `benchmarks/webshop.py` measures whole shops. Queries are goals' instructions: long (about 17
words), as the benchmark's rule baseline searches, and their short form, kind and one attribute, as people do. Times are
CPU time of this process, so that other work on the machine does not count; pages of the index are in memory.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sandlot.envs.webshop import generator
from sandlot.envs.webshop.index import Index
from sandlot.envs.webshop.index_build import build_index
from sandlot.envs.webshop.made_goals import made_goal

QUERIES = 300


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--products", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        measure(Path(folder) / "index", arguments.products, arguments.seed)


def measure(path: Path, products: int, seed: int) -> None:
    spent = 0.0

    def texts() -> Iterator[str]:
        nonlocal spent
        source = generator.products(products, seed)
        while True:
            began = time.process_time()
            product = next(source, None)
            spent += time.process_time() - began
            if product is None:
                return
            yield product.index_text

    before, began = peak(), time.process_time()
    index = build_index(texts(), path)
    seconds = time.process_time() - began
    size = sum(file.stat().st_size for file in path.iterdir())
    print(f"{products:,} products: {seconds - spent:.1f} s to index (and {spent:.1f} s to make them)")
    print(f"{size / 1e6:.0f} MB on disk; peak memory of the process {peak():.0f} MB (before: {before:.0f} MB)")
    rng = np.random.default_rng(seed)
    goals = [made_goal(seed, int(number), 0, "human") for number in rng.integers(products, size=QUERIES)]
    for name, queries in (
        ("instructions", [goal.instruction for goal in goals]),
        ("short queries", [f"{goal.query} {goal.attributes[0]}" for goal in goals]),
    ):
        for state in ("first", "again"):
            times = np.array([timed(index, query) for query in queries]) * 1e3
            shares = f"median {np.median(times):.2f} ms, 95th percentile {np.percentile(times, 95):.2f} ms"
            print(f"{name}, {state}: {shares}, longest {times.max():.1f} ms")


def timed(index: Index, query: str) -> float:
    began = time.process_time()
    index.search(query)
    return time.process_time() - began


def peak() -> float:
    """The most memory that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
