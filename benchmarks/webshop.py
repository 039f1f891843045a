"""WebShop: speed, start-up and memory on shops of several sizes, and the original's way to make the same pages.

Run: python benchmarks/webshop.py [--products N ...] [--processes 1 4] [--environments 1 4 16] [--cache DIR]
     python benchmarks/webshop.py --parts shops --cache DIR     # then playing, pages: the same in parts
Without arguments it does all of it; making the largest shop takes minutes and more than a gigabyte in the cache.
All times are CPU times of the process that does the work: other work on the machine does not count. Memory is what
a process has for itself, so what one more process adds: mapped files (search index, libraries) are there once for all.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean, median
from typing import Any

if __name__ == "__main__":
    sys.path.pop(0)  # this file's folder, in which its own name would hide others

import psutil
from rich.console import Console
from rich.table import Table

from sandlot.envs import make
from sandlot.envs.webshop.env import WebShopEnv
from sandlot.envs.webshop.html import FOLDER
from sandlot.envs.webshop.made_goals import made_goal
from sandlot.envs.webshop.page import SUB_PAGES, Page, clickables, nodes, text, url
from sandlot.envs.webshop.shop import made_shop, open_shop

MEGABYTE = 2**20


def environment(products: int, cache: str) -> WebShopEnv:
    env = make("WebShop", products=products, cache=cache, suggestions=4)
    assert isinstance(env, WebShopEnv)
    return env


def private_memory() -> float:
    """MB of this process that are no mapped file: what one more process adds, as all read the same files."""
    gc.collect()
    maps = Path("/proc/self/smaps_rollup")
    if maps.exists():  # Linux
        return int(re.search(r"Anonymous:\s+(\d+) kB", maps.read_text())[1]) / 1024  # pyright: ignore[reportOptionalSubscript]
    return psutil.Process().memory_full_info().uss / MEGABYTE


def walk(env: WebShopEnv, seed: int, steps: int) -> dict[str, list[float]]:
    """Seconds of each reset and step of random shopping, `info` included."""
    rng, taken = random.Random(seed), {"reset": [], "step": []}
    info: dict[str, Any] = {"admissible": ()}
    while len(taken["step"]) < steps:
        began = time.process_time()
        if info["admissible"]:
            action = rng.choice(info["admissible"])
            began = time.process_time()
            *_, info = env.step(action)
            taken["step"].append(time.process_time() - began)
        else:
            _, info = env.reset(seed=rng.randrange(2**31))
            taken["reset"].append(time.process_time() - began)
    return taken


def work(products: int, cache: str, count: int, steps: int, results: Any, ready: Any) -> None:
    """What one process does: start, open `count` environments, play in each in turn."""
    empty = private_memory()
    environments = [environment(products, cache)]
    walk(environments[0], 0, steps)
    one = private_memory()
    environments += [environment(products, cache) for _ in range(count - 1)]
    taken = [walk(env, seed, steps) for seed, env in enumerate(environments, 1)]
    all_steps = [second for walked in taken for second in walked["step"]]
    many = private_memory()
    ready.wait()  # memory is read while all processes live
    results.put(
        {
            "speed": len(all_steps) / sum(all_steps),
            "step": median(all_steps),
            "reset": median(second for walked in taken for second in walked["reset"]),
            "empty": empty,
            "process": one,
            "environment": (many - one) / max(1, count - 1),
        }
    )


def measure(products: int, cache: str, processes: int, count: int, steps: int) -> dict[str, float]:
    context = multiprocessing.get_context("spawn")
    results, ready = context.SimpleQueue(), context.Barrier(processes)
    workers = [
        context.Process(target=work, args=(products, cache, count, steps, results, ready)) for _ in range(processes)
    ]
    for worker in workers:
        worker.start()
    found = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    return {name: mean(result[name] for result in found) for name in found[0]}


START = """
import sys
from sandlot.envs import make
make("WebShop", products=int(sys.argv[1]), cache=sys.argv[2]).reset(seed=0)
"""


def start_up(products: int, cache: str) -> float:
    """CPU seconds from nothing to the first page in a new Python, the shop being there."""
    before = os.times()
    subprocess.run([sys.executable, "-c", START, str(products), cache], check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def searches(products: int, cache: str, count: int) -> list[float]:
    """CPU seconds of searches for what instructions say, each once."""
    shop = open_shop(made_shop(products, 0, cache))
    rng, taken = random.Random(1), []
    for _ in range(count):
        goal = made_goal(0, rng.randrange(products), rng.randrange(8), "human")
        began = time.process_time()
        shop.index.search(goal.instruction)
        taken.append(time.process_time() - began)
    return sorted(taken)


def pages(env: WebShopEnv, count: int) -> list[Page]:
    """The pages of random shopping."""
    rng, found = random.Random(0), []
    while len(found) < count:
        _, info = env.reset(seed=rng.randrange(2**31))
        while info["admissible"] and len(found) < count:
            *_, info = env.step(rng.choice(info["admissible"]))
            found.append(env.page)
    return found


def originals_way(found: list[Page]) -> float:
    """CPU seconds per page as the original makes it, on our templates, which are smaller than its own.

    It compiles and renders a template, parses the page for what can be clicked, and parses it again for its text.
    """
    import jinja2
    from bs4 import BeautifulSoup

    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    templates.globals["sub_pages"] = SUB_PAGES
    sources = {path.stem: path.read_text() for path in FOLDER.glob("*.html")}
    began = time.process_time()
    for page in found:
        chosen = dict(page.chosen)
        html = templates.from_string(sources[page.kind]).render(
            page=page, notice="", address=url(page), chosen=chosen, chosen_json=json.dumps(chosen)
        )
        tree = BeautifulSoup(html, "html.parser")
        tree.find(id="search_input")
        _ = {button.get_text().lower() for button in tree.find_all(class_=["btn", "product-link"])}
        tree.select('input[type="radio"]')
        tree = BeautifulSoup(html, "html.parser")
        " [SEP] ".join(part.strip() for part in tree.find_all(string=True) if part != "\n")
    return (time.process_time() - began) / len(found)


def our_way(found: list[Page]) -> float:
    began = time.process_time()
    for page in found:
        text(nodes(page))
        clickables(page)
    return (time.process_time() - began) / len(found)


def folder_size(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / MEGABYTE


def shops(options: argparse.Namespace, cache: str) -> Table:
    table = Table(
        "products", "make, s", "on disk, MB", "first page, s", "search, ms: median", "95 %", "most", title="Shops"
    )
    for products in options.products:
        began = time.process_time()
        folder = made_shop(products, 0, cache)
        made = time.process_time() - began
        taken = [1000 * second for second in searches(products, cache, options.searches)]
        shown = (taken[len(taken) // 2], taken[int(0.95 * len(taken))], taken[-1])
        size, start = folder_size(folder), min(start_up(products, cache) for _ in range(3))
        table.add_row(
            f"{products:,}", f"{made:,.1f}", f"{size:,.0f}", f"{start:.2f}", *(f"{value:.2f}" for value in shown)
        )
    return table


def playing(options: argparse.Namespace, cache: str) -> Table:
    heads = ("products", "processes", "envs each", "steps/s per process", "step, ms: median", "reset, ms")
    table = Table(*heads, "MB a process adds", "of it before a shop", "MB a further env adds", title="Playing")
    for products in options.products:
        for processes in options.processes:
            for count in options.environments:
                got = measure(products, cache, processes, count, options.steps)
                row = (f"{products:,}", str(processes), str(count), f"{got['speed']:,.0f}", f"{1000 * got['step']:.3f}")
                row += (f"{1000 * got['reset']:.2f}", f"{got['process']:.0f}", f"{got['empty']:.0f}")
                table.add_row(*row, f"{got['environment']:.2f}" if count > 1 else "")
    return table


def ways(options: argparse.Namespace, cache: str) -> Table:
    env = environment(options.products[0], cache)
    found = pages(env, options.pages)
    theirs, ours = originals_way(found), our_way(found)
    whole = mean(walk(env, 5, options.pages)["step"])
    table = Table("way", "ms per step", "ratio", title=f"The same {len(found)} pages")
    table.add_row("templates and parser, as the original", f"{1000 * theirs:.2f}", "1")
    table.add_row("pages as values: text and clickable things", f"{1000 * ours:.3f}", f"{theirs / ours:,.0f}")
    table.add_row("our whole step: search, info and keys, too", f"{1000 * whole:.3f}", f"{theirs / whole:,.0f}")
    return table


PARTS = {"shops": shops, "playing": playing, "pages": ways}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--products", type=int, nargs="+", default=[1000, 100_000, 1_200_000])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--environments", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--steps", type=int, default=600, help="per environment")
    parser.add_argument("--searches", type=int, default=500)
    parser.add_argument("--pages", type=int, default=400)
    parser.add_argument("--cache", help="where shops are kept; without it they are thrown away")
    options = parser.parse_args()
    console = Console(width=160)
    with tempfile.TemporaryDirectory() as folder:
        for part in options.parts:
            console.print(PARTS[part](options, options.cache or folder))


if __name__ == "__main__":
    main()
