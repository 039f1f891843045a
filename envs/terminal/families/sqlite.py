"""SQLite from the shell: load a dump, ask it, repair it."""

from __future__ import annotations

from ..dice import Dice
from ..draft import Draft

_COMMON = """
def ask(query):
    with sqlite3.connect(f"file:{APP / GOLD['database']}?mode=ro", uri=True) as database:
        return [list(row) for row in database.execute(query)]


def test_database_is_loaded():
    assert ask("SELECT count(*) FROM customer")[0][0] > 0
"""
_REPORT = """
def lines():
    return read("report.txt").splitlines()


def test_report_has_all_lines():
    assert sorted(lines()) == sorted(GOLD["lines"])


def test_report_is_in_order():
    assert lines() == GOLD["lines"]
"""
_CHANGED = """
def test_customers():
    assert ask("SELECT id, name, city FROM customer ORDER BY id") == GOLD["customers"]


def test_orders():
    assert ask("SELECT id, customer, amount FROM purchase ORDER BY id") == GOLD["orders"]
"""
_UNIQUE = """
def test_names_are_unique_from_now_on():
    with sqlite3.connect(":memory:") as copy:
        with sqlite3.connect(f"file:{APP / GOLD['database']}?mode=ro", uri=True) as database:
            database.backup(copy)
        try:
            copy.execute("INSERT INTO customer(id, name, city) SELECT 9999, name, city FROM customer LIMIT 1")
        except sqlite3.IntegrityError:
            return
        raise AssertionError("a name could be added twice")
"""


def draft(dice: Dice, level: int) -> Draft:
    """Level 1: a report over two tables; 2: change rows by a rule; 3: merge duplicates and forbid them."""
    names, cities = dice.names(8), dice.words(3)
    customers: list[tuple[int, str, str]] = [(n + 1, name, dice.choice(cities)) for n, name in enumerate(names)]
    if level == 3:
        doubles = [(9 + n, name, dice.choice(cities)) for n, name in enumerate(dice.sample(names, 3))]
        customers += doubles
    orders = [(n + 1, dice.choice(customers)[0], dice.number(5, 500)) for n in range(dice.number(20, 30))]
    dump = "CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT, city TEXT);\n"
    dump += "CREATE TABLE purchase(id INTEGER PRIMARY KEY, customer INTEGER REFERENCES customer(id), amount INTEGER);\n"
    dump += "".join(f"INSERT INTO customer VALUES({i}, '{name}', '{city}');\n" for i, name, city in customers)
    dump += "".join(f"INSERT INTO purchase VALUES({i}, {who}, {amount});\n" for i, who, amount in orders)
    source = f"{dice.word()}.sql"
    begin = f"/app/{source} is a dump of an SQLite database with the tables customer(id, name, city) and "
    begin += "purchase(id, customer, amount). Load it into /app/shop.db. "
    load = f"sqlite3 shop.db < {source}"
    made = {"files": {source: dump}}
    if level == 1:
        return _report(dice, begin, load, made["files"], customers, orders)
    if level == 2:
        return _change(dice, begin, load, made["files"], customers, orders, cities)
    return _merge(begin, load, made["files"], customers, orders)


def _report(dice: Dice, begin: str, load: str, files: dict, customers: list, orders: list) -> Draft:
    least = dice.number(2, 5) * 100
    sums = {city: 0 for _, _, city in customers}
    place = {i: city for i, _, city in customers}
    for _, who, amount in orders:
        sums[place[who]] += amount
    ordered = sorted(((-total, city) for city, total in sums.items() if total > least))
    lines = [f"{city}|{-total}" for total, city in ordered]
    query = (
        "SELECT city, sum(amount) AS total FROM purchase JOIN customer ON customer.id = customer "
        f"GROUP BY city HAVING total > {least} ORDER BY total DESC, city"
    )
    return Draft(
        instruction=(
            f"{begin}Then write /app/report.txt: one line 'city|total' for each city whose customers' purchases add "
            f"up to "
            f"more than {least}, the largest total first, equal totals in alphabetical order."
        ),
        files=files,
        solution=(load, f'sqlite3 shop.db "{query}" > report.txt'),
        checks=_COMMON + _REPORT,
        gold={"database": "shop.db", "lines": lines},
        hint="JOIN the tables, GROUP BY city, HAVING sum(amount) > limit; sqlite3's default output has the form.",
        secrets=("\n".join(lines),) if lines else (),
    )


def _change(dice: Dice, begin: str, load: str, files: dict, customers: list, orders: list, cities: list) -> Draft:
    old, new = dice.sample(cities, 2)
    limit = dice.number(20, 80)
    kept = [[i, who, amount] for i, who, amount in orders if amount >= limit]
    moved = [[i, name, new if city == old else city] for i, name, city in customers]
    return Draft(
        instruction=(
            f"{begin}In the database, move every customer from {old} to {new}, and delete the purchases with an amount "
            f"below {limit}. Nothing else may change."
        ),
        files=files,
        solution=(
            load,
            f"sqlite3 shop.db \"UPDATE customer SET city = '{new}' WHERE city = '{old}'\"",
            f'sqlite3 shop.db "DELETE FROM purchase WHERE amount < {limit}"',
        ),
        checks=_COMMON + _CHANGED,
        gold={"database": "shop.db", "customers": moved, "orders": kept},
        hint="One UPDATE and one DELETE.",
    )


def _merge(begin: str, load: str, files: dict, customers: list, orders: list) -> Draft:
    first = {name: i for i, name, _ in reversed(customers)}
    name_of = {i: name for i, name, _ in customers}
    kept = [[i, name, city] for i, name, city in customers if first[name] == i]
    moved = [[i, first[name_of[who]], amount] for i, who, amount in orders]
    lowest = (
        "(SELECT min(b.id) FROM customer b WHERE b.name = (SELECT name FROM customer WHERE id = purchase.customer))"
    )
    return Draft(
        instruction=(
            f"{begin}Some customers are in it more than once under the same name. Keep of each name the row with the "
            "smallest id, give that id to the purchases of the others, delete the others, and make it impossible to "
            "add "
            "a second customer with a name that exists."
        ),
        files=files,
        solution=(
            load,
            f'sqlite3 shop.db "UPDATE purchase SET customer = {lowest}"',
            'sqlite3 shop.db "DELETE FROM customer WHERE id NOT IN (SELECT min(id) FROM customer GROUP BY name)"',
            'sqlite3 shop.db "CREATE UNIQUE INDEX customer_name ON customer(name)"',
        ),
        checks=_COMMON + _CHANGED + _UNIQUE,
        gold={"database": "shop.db", "customers": kept, "orders": moved},
        hint="Move the purchases first, then delete, then CREATE UNIQUE INDEX on the name.",
    )
