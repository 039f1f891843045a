"""Data conversion: CSV, JSON lines and INI into one another, with the awkward cases that real files have."""

from __future__ import annotations

import configparser
import csv
import io
import json
from typing import Any

from ..dice import Dice
from ..draft import Draft

_JSON = """
def test_is_json():
    json.loads(read(GOLD["output"]))


def test_size():
    assert len(json.loads(read(GOLD["output"]))) == len(GOLD["value"])


def test_value():
    assert json.loads(read(GOLD["output"])) == GOLD["value"]
"""
_CSV = """
def rows():
    import csv
    with open(APP / GOLD["output"], newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_header():
    assert rows()[0] == GOLD["rows"][0]


def test_number_of_rows():
    assert len(rows()) == len(GOLD["rows"])


def test_rows():
    assert rows() == GOLD["rows"]
"""


def draft(dice: Dice, level: int) -> Draft:
    """Level 1: CSV with quotes to JSON; 2: nested JSON lines to CSV; 3: INI with inheritance to typed JSON."""
    return (_csv_to_json, _lines_to_csv, _ini_to_json)[level - 1](dice)


def _python(*lines: str) -> str:
    return "python3 - <<'END'\n" + "\n".join(lines) + "\nEND"


def _csv_to_json(dice: Dice) -> Draft:
    source = f"{dice.word()}.csv"
    value = [
        {"name": name, "item": f"{dice.word()}, {dice.word()}", "count": dice.number(1, 99)} for name in dice.names(6)
    ]
    file = io.StringIO()
    writer = csv.DictWriter(file, ["name", "item", "count"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(value)
    return Draft(
        instruction=(
            f"Convert /app/{source} to /app/data.json: a JSON array with one object per row, in the order of the file, "
            "with the keys name (text), item (text) and count (number)."
        ),
        files={source: file.getvalue()},
        solution=(
            _python(
                "import csv, json",
                f"rows = [dict(row, count=int(row['count'])) for row in csv.DictReader(open('{source}', newline=''))]",
                "json.dump(rows, open('data.json', 'w'))",
            ),
        ),
        checks=_JSON,
        gold={"output": "data.json", "value": value},
        hint="Python's csv module reads the quoted fields; the counts must become numbers.",
        secrets=(json.dumps(value),),
    )


def _lines_to_csv(dice: Dice) -> Draft:
    source, rows, lines = f"{dice.word()}.jsonl", [], []
    for number in range(dice.number(8, 12)):
        name, tags = dice.choice(dice.names(5)), dice.words(dice.number(0, 3))
        price = dice.number(100, 9999) / 100
        record: dict[str, Any] = {"id": number + dice.number(1, 3) * 100, "user": {"name": name}, "tags": tags}
        if dice.number(0, 3):
            record["price"] = price
        lines.append(json.dumps(record))
        shown = f"{record['price']:.2f}" if "price" in record else ""
        rows.append([str(record["id"]), name, "|".join(tags), shown])
    rows = [row for row in rows if row[2]]
    rows.sort(key=lambda row: int(row[0]))
    return Draft(
        instruction=(
            f"/app/{source} holds one JSON object per line. Write /app/table.csv with the header id,name,tags,price "
            f"and "
            "one row per object that has at least one tag, in increasing order of id: name is user.name, tags are "
            "joined with '|' in their order, price has two decimals and is empty where it is missing."
        ),
        files={source: "".join(f"{line}\n" for line in lines)},
        solution=(
            _python(
                "import csv, json",
                f"records = [json.loads(line) for line in open('{source}')]",
                "records = sorted((r for r in records if r['tags']), key=lambda r: r['id'])",
                "with open('table.csv', 'w', newline='') as file:",
                "    writer = csv.writer(file, lineterminator='\\n')",
                "    writer.writerow(['id', 'name', 'tags', 'price'])",
                "    for r in records:",
                "        price = f\"{r['price']:.2f}\" if 'price' in r else ''",
                "        writer.writerow([r['id'], r['user']['name'], '|'.join(r['tags']), price])",
            ),
        ),
        checks=_CSV,
        gold={"output": "table.csv", "rows": [["id", "name", "tags", "price"], *rows]},
        hint="Read line by line with json.loads; some objects have no price and some no tags.",
        secrets=("\n".join(",".join(row) for row in rows),),
    )


def _ini_to_json(dice: Dice) -> Draft:
    source = f"{dice.word()}.ini"
    parser = configparser.ConfigParser()
    parser["DEFAULT"] = {"timeout": str(dice.number(5, 60)), "debug": "no", "region": dice.word()}
    for section in dice.words(4):
        parser[section] = {"host": f"{dice.word()}.example.com", "port": str(dice.number(1024, 9000))}
        if dice.number(0, 1):
            parser[section]["debug"] = dice.choice(("yes", "on", "true"))
        if dice.number(0, 1):
            parser[section]["timeout"] = str(dice.number(61, 300))
    file = io.StringIO()
    parser.write(file)
    value = {
        name: {
            **{"host": parser[name]["host"], "region": parser[name]["region"]},
            **{"port": parser[name].getint("port"), "timeout": parser[name].getint("timeout")},
            "debug": parser[name].getboolean("debug"),
        }
        for name in parser.sections()
    }
    return Draft(
        instruction=(
            f"Convert /app/{source} to /app/config.json: an object with one key per section, DEFAULT left out, each an "
            "object with the keys host, region (texts), port, timeout (numbers) and debug (true or false; yes, on and "
            "true mean true). A key that a section does not set has the value of DEFAULT."
        ),
        files={source: file.getvalue()},
        solution=(
            _python(
                "import configparser, json",
                f"ini = configparser.ConfigParser(); ini.read('{source}')",
                "out = {}",
                "for name in ini.sections():",
                "    s = ini[name]",
                "    out[name] = {'host': s['host'], 'region': s['region'], 'port': s.getint('port'),",
                "                 'timeout': s.getint('timeout'), 'debug': s.getboolean('debug')}",
                "json.dump(out, open('config.json', 'w'))",
            ),
        ),
        checks=_JSON,
        gold={"output": "config.json", "value": value},
        hint="Python's configparser knows DEFAULT, getint and getboolean.",
        secrets=(json.dumps(value),),
    )
