"""The benchmark's own products and goals: its files are streamed once into a catalogue that all processes share.

Files, in one folder: `items_shuffle*.json` (products), `items_ins_v2*.json` (attributes and synthetic instructions)
and `items_human_ins.json` (people's instructions). They are gigabytes: no file is ever in memory as a whole. What is
made of them is kept under their content's hash.

Goals are in the benchmark's own order. Where the original draws from a global generator, and so differs from process to
process (price bounds, prices within a range), we draw from one that is seeded by the product.
"""

from __future__ import annotations

import json
import random
import sqlite3
from array import array
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import lru_cache
from hashlib import blake2b
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..core.errors import InvalidArgument, MissingData
from .catalogue import FILE, Catalogue, cache_folder, made_once, write_catalogue
from .extras import ijson
from .goals import Goal, bound_text, price_bound
from .product import Product, parse_product

GOALS = ("human", "synthetic")
VERSION = "official1"
_NAMES = ("items_shuffle", "items_ins_v2", "items_human_ins")
_SHUFFLE = 233  # the original's seed
_CHUNK = 1 << 22


def data_files(data: str | Path) -> tuple[Path, Path, Path]:
    """The three files in the folder `data`; of several, the one with the shortest name, which is the largest set.

    Raises:
        MissingData: one is not there; the message says which.
    """
    folder, found = Path(data).expanduser(), []
    for name in _NAMES:
        files = sorted(folder.glob(f"{name}*.json"), key=lambda path: (len(path.name), path.name))
        if not files:
            raise MissingData(f"there is no {name}*.json in {folder}: see the benchmark's setup.sh for its files")
        found.append(files[0])
    return found[0], found[1], found[2]


def official_shop(data: str | Path, products: int | None, seed: int, cache: str | Path | None = None) -> Path:
    """The folder of the benchmark's shop; made on first use and kept.

    Args:
        data: the folder with the benchmark's files.
        products: the first so many entries only; None is all.
        seed: of prices within a range and of price bounds.
        cache: where shops are kept; None is the user's cache folder.
    """
    files, base = data_files(data), cache_folder(cache)
    content = "-".join(_content(path, base) for path in files)
    key = blake2b(f"{content}:{products}:{seed}".encode(), digest_size=8).hexdigest()
    return made_once(base / f"{VERSION}-{key}", lambda part: _write(part, files, products, seed))


class OfficialGoals:
    """The benchmark's goals over a catalogue, numbered in its order.

    Args:
        folder: from `official_shop`.
        which: "human" or "synthetic".
    """

    def __init__(self, folder: Path, which: str = "human") -> None:
        if which not in GOALS:
            raise InvalidArgument(f"goals must be one of {', '.join(GOALS)}, not {which!r}")
        self._catalogue, self._which = Catalogue(folder), which
        self._seed: int = json.loads((folder / "about.json").read_text())["seed"]
        # A goal's place in the order of the products; where each product's goals start there; the goals' shares.
        self._order, self._owners, self._starts, self._ends = (
            np.load(folder / f"{which}-{name}.npy", mmap_mode="r") for name in ("order", "owners", "starts", "ends")
        )
        self.get = lru_cache(512)(self._get)

    def __len__(self) -> int:
        return len(self._order)

    def draw(self, rng: np.random.Generator, low: int, high: int) -> int:
        """The number of a goal in `low .. high-1`, drawn by the goals' weights."""
        before = float(self._ends[low - 1]) if low else 0.0
        at = before + rng.random() * (float(self._ends[high - 1]) - before)
        return min(low + int(np.searchsorted(self._ends[low:high], at, side="right")), high - 1)

    def _get(self, number: int) -> Goal:
        place = int(self._order[number])
        owner = int(np.searchsorted(self._starts, place, side="right")) - 1
        product = self._catalogue.product(int(self._owners[owner]))
        entry = _instructions(self._catalogue.connection, self._which, product.asin)
        weight = float(self._ends[number]) - (float(self._ends[number - 1]) if number else 0.0)
        within = place - int(self._starts[owner])
        if self._which == "human":
            said, which_bound = entry[within], within
            text, options = said["instruction"].strip("."), [("", value) for value in said["instruction_options"]]
        else:  # all combinations of a product's options have one bound
            said, which_bound = entry, 0
            options = _combination(product, within)
            wanted = ", and ".join(f"{name}: {value}" for name, value in options)
            text = said["instruction"] + (f" with {wanted}" if wanted else "")
        bound = price_bound(product.price, random.Random(f"{self._seed}:{product.asin}:{which_bound}"))
        return Goal(
            asin=product.asin,
            instruction=text + bound_text(bound),
            title=product.title,
            category=product.category,
            query=product.query,
            product_category=product.product_category,
            attributes=tuple(said["instruction_attributes"]),
            options=tuple(options),
            price_upper=bound,
            weight=weight,
        )


def split_bounds(goals: int) -> dict[str, tuple[int, int]]:
    """Split -> its goals' numbers, [first, last + 1): the benchmark's 500, 1000 and the rest; small sets in proportion.

    `valid_unseen` is what the benchmark calls "eval". It has no second validation split.
    """
    test, evaluation = (500, 1500) if goals >= 3000 else (max(1, goals // 24), max(2, goals // 8))
    return {"test": (0, test), "valid_unseen": (test, evaluation), "train": (evaluation, goals)}


def _write(folder: Path, files: tuple[Path, Path, Path], count: int | None, seed: int) -> None:
    """Make the shop in an existing folder."""
    said = folder / "instructions.sqlite"
    with closing(sqlite3.connect(said, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("PRAGMA synchronous = OFF")
        for table, path in zip(("synthetic", "human"), files[1:], strict=True):
            database.execute(f"CREATE TABLE {table} (asin TEXT PRIMARY KEY, body TEXT) WITHOUT ROWID")
            database.execute("BEGIN")
            rows = ((asin, json.dumps(body)) for asin, body in _entries(path))
            database.executemany(f"INSERT OR REPLACE INTO {table} VALUES (?, ?)", rows)
            database.execute("COMMIT")
        write_catalogue(folder, _products(files[0], count, seed, database), by_name=True)
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as database:
        database.execute("ATTACH DATABASE ? AS said", (str(said),))
        for table in GOALS:
            # Only what belongs to a product of this catalogue is kept.
            database.execute(
                f"CREATE TABLE {table} AS SELECT asin, body FROM said.{table} WHERE asin IN (SELECT asin FROM products)"
            )
            database.execute(f"CREATE UNIQUE INDEX {table}_by_asin ON {table} (asin)")
        database.execute("DETACH DATABASE said")
    said.unlink()
    (folder / "about.json").write_text(json.dumps({"seed": seed}))
    for which in GOALS:
        _write_order(folder, which)


def _products(path: Path, count: int | None, seed: int, database: sqlite3.Connection) -> Iterator[Product]:
    seen: set[str] = set()
    with _reading(path) as file:
        for place, entry in enumerate(ijson().items(file, "item", use_float=True)):
            if place == count:
                return
            row = database.execute("SELECT body FROM synthetic WHERE asin = ?", (str(entry["asin"]),)).fetchone()
            attributes = json.loads(row[0]).get("attributes", ()) if row else ()
            product = parse_product(entry, tuple(attributes), seed)
            if product is not None and product.asin not in seen:
                seen.add(product.asin)
                yield product


def _entries(path: Path) -> Iterator[tuple[str, Any]]:
    with _reading(path) as file:
        yield from ijson().kvitems(file, "", use_float=True)


@contextmanager
def _reading(path: Path) -> Iterator[BinaryIO]:
    """The open file; what turns out to be wrong with it is a `MissingData` that names it."""
    try:
        with path.open("rb") as file:
            yield file
    except (ijson().JSONError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise MissingData(f"broken file {path}: {type(error).__name__} {error}") from error


def _write_order(folder: Path, which: str) -> None:
    """The goals' order, owners and cumulated weights, as arrays to be mapped."""
    owners, counts, wanted = array("q"), array("q"), []
    popular: Counter[str] = Counter()
    catalogue = Catalogue(folder)
    with closing(catalogue.connection):
        rows = catalogue.connection.execute(
            f"SELECT number, {which}.body FROM products JOIN {which} USING (asin) ORDER BY number"
        )
        for number, body in rows:
            entry = json.loads(body)
            if which == "human":
                lists = [said["instruction_attributes"] for said in entry if said["instruction_attributes"]]
                goals = len(lists)
            else:
                lists = [entry["instruction_attributes"]] if _is_goal(entry) else []
                goals = prod(len(values) for _, values in catalogue.product(number).options) if lists else 0
                popular.update({attribute: goals * times for attribute, times in Counter(*lists).items()})
            if goals:
                owners.append(number)
                counts.append(goals)
                wanted.append(lists[0] if which == "synthetic" else ())
    starts = np.concatenate([[0], np.cumsum(np.array(counts, np.int64))])
    places = array("q", range(int(starts[-1])))
    random.Random(_SHUFFLE).shuffle(places)  # pyright: ignore[reportArgumentType] (a list would need five times the room)
    order = np.array(places, np.int64)
    shares = [sum(1 / popular[name] for name in names) / len(names) if names else 1.0 for names in wanted]
    weights = np.repeat(np.array(shares, np.float64), np.diff(starts))[order] if len(order) else np.zeros(0)
    arrays = {"order": order, "owners": np.array(owners), "starts": starts[:-1], "ends": np.cumsum(weights)}
    for name, values in arrays.items():
        np.save(folder / f"{which}-{name}.npy", values)


def _is_goal(entry: dict[str, Any]) -> bool:
    return entry.get("instruction") is not None and bool(entry.get("instruction_attributes"))


def _instructions(database: sqlite3.Connection, which: str, asin: str) -> Any:
    """What was said about a product, without what is no goal."""
    body = json.loads(database.execute(f"SELECT body FROM {which} WHERE asin = ?", (asin,)).fetchone()[0])
    return [said for said in body if said["instruction_attributes"]] if which == "human" else body


def _combination(product: Product, number: int) -> list[tuple[str, str]]:
    """The options with this number among all combinations, names in order, the last one changing fastest."""
    chosen = []
    for name, values in sorted(product.options, reverse=True):
        number, at = divmod(number, len(values))
        chosen.append((name, values[at]))
    return chosen[::-1]


def _content(path: Path, base: Path) -> str:
    """The hash of a file's content, which is read again only when the file's size or time has changed."""
    stat = path.stat()
    name = blake2b(f"{path.resolve()}:{stat.st_size}:{stat.st_mtime_ns}".encode(), digest_size=8).hexdigest()
    known = base / "files" / name
    if known.is_file():
        return known.read_text()
    digest = blake2b(digest_size=16)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    known.parent.mkdir(parents=True, exist_ok=True)
    known.write_text(digest.hexdigest())
    return digest.hexdigest()
