"""The products of a shop on disk: SQLite, read-only, opened once per process, beside the memory-mapped search index.

Nothing is held in memory but what was looked at lately, so that any number of environments and processes share a shop
of any size.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path

from platformdirs import user_cache_path

from ..core.errors import InvalidArgument, MissingData
from .index import FORMAT, Index
from .index_build import build_index
from .product import Product

FILE, INDEX = "products.sqlite", "index"
_FIELDS = (
    *("title", "category", "query", "product_category", "description", "bullets", "prices", "price", "options"),
    *("attributes", "nouns"),
)
_KEPT = 2048  # products in memory
_PER_TRANSACTION = 20_000


class Catalogue:
    """The products in a folder that `write_catalogue` made.

    Args:
        folder: where they are.

    Raises:
        MissingData: there is no catalogue.
    """

    def __init__(self, folder: Path) -> None:
        if not (folder / FILE).is_file():
            raise MissingData(f"there is no catalogue in {folder}")
        self.folder = folder
        self._connection: tuple[int, sqlite3.Connection] | None = None
        self.product = lru_cache(_KEPT)(self._product)
        self.number = lru_cache(_KEPT)(self._number)
        self._count = int(self._one("SELECT COUNT(*) FROM products")[0])

    def __len__(self) -> int:
        return self._count

    def find(self, asin: str) -> Product:
        """The product with this ASIN. Raises KeyError."""
        return self.product(self.number(asin))

    def _product(self, number: int) -> Product:
        asin, body = self._one("SELECT asin, body FROM products WHERE number = ?", number)
        return _unpack(str(asin), str(body))

    def _number(self, asin: str) -> int:
        return int(self._one("SELECT number FROM products WHERE asin = ?", asin)[0])

    def _one(self, query: str, *values: int | str) -> tuple[int | str, ...]:
        row = self.connection.execute(query, values).fetchone()
        if row is None:
            raise KeyError(values)
        return row

    @property
    def connection(self) -> sqlite3.Connection:
        """This process's own: a forked one must not go on with its parent's."""
        if self._connection is None or self._connection[0] != os.getpid():
            uri = f"{(self.folder / FILE).resolve().as_uri()}?mode=ro&immutable=1"
            self._connection = (os.getpid(), sqlite3.connect(uri, uri=True, check_same_thread=False))
        return self._connection[1]


def write_catalogue(folder: Path, products: Iterable[Product], by_name: bool = False) -> None:
    """Write products and their search index into `folder`, in one pass and with bounded memory.

    Args:
        folder: an existing folder.
        products: in order; a product's number is its place.
        by_name: order equally good search results by ASIN, as the original's engine does, not by number.
    """
    names: list[str] = []
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("PRAGMA synchronous = OFF")
        database.execute("CREATE TABLE products (number INTEGER PRIMARY KEY, asin TEXT NOT NULL, body TEXT NOT NULL)")

        def texts() -> Iterator[str]:
            for number, product in enumerate(products):
                if number % _PER_TRANSACTION == 0:
                    database.execute("COMMIT" if number else "BEGIN")
                    if number:
                        database.execute("BEGIN")
                row = (number, product.asin, _pack(product))
                database.execute("INSERT INTO products VALUES (?, ?, ?)", row)
                if by_name:
                    names.append(product.asin)
                yield product.index_text

        build_index(texts(), folder / INDEX, names if by_name else None)
        if database.in_transaction:
            database.execute("COMMIT")
        database.execute("CREATE UNIQUE INDEX by_asin ON products (asin)")


def open_index(folder: Path) -> Index:
    """The search index of the catalogue in `folder`."""
    return Index.open(folder / INDEX)


def cache_folder(cache: str | Path | None) -> Path:
    """Where shops of this version's format are kept: below `cache`, or in the user's own cache folder."""
    base = Path(cache).expanduser() if cache is not None else user_cache_path("sandlot") / "webshop"
    return base / f"format-{FORMAT}"


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """`folder`, filled by `make` if it is not there: by one process, whole or not at all.

    Raises:
        InvalidArgument: there is no place for it.
    """
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.with_name(f"{folder.name}.lock").touch()
    except OSError as error:
        raise InvalidArgument(f"cannot keep a shop in {folder.parent}: {error.strerror}; choose cache=…") from None
    with _alone(folder.with_name(f"{folder.name}.lock")) as alone:
        if not folder.is_dir():
            for left in folder.parent.glob(f"{folder.name}.part-*") if alone else ():
                shutil.rmtree(left, ignore_errors=True)  # of a process that was killed
            part = Path(tempfile.mkdtemp(prefix=f"{folder.name}.part-", dir=folder.parent))
            try:
                make(part)
                part.chmod(0o755)
                part.rename(folder)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    return folder


@contextmanager
def _alone(lock: Path) -> Iterator[bool]:
    """Only one process at a time, where the system can lock files; elsewhere the last to finish loses its work.

    Yields whether this is the only one.
    """
    try:
        import fcntl
    except ImportError:
        yield False
        return
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield True


def _pack(product: Product) -> str:
    return json.dumps([getattr(product, name) for name in _FIELDS], ensure_ascii=False, separators=(",", ":"))


def _unpack(asin: str, body: str) -> Product:
    values = dict(zip(_FIELDS, json.loads(body), strict=True))
    for name in ("bullets", "prices", "attributes"):
        values[name] = tuple(values[name])
    values["options"] = tuple((name, tuple(choices)) for name, choices in values["options"])
    values["nouns"] = None if values["nouns"] is None else tuple(values["nouns"])
    return Product(asin=asin, **values)
