"""Text processing: filter, group and join lines with the shell's own tools."""

from __future__ import annotations

from ..dice import Dice
from ..draft import Draft

_CHECKS = """
def test_output_exists():
    assert (APP / GOLD["output"]).is_file()


def test_same_lines():
    assert sorted(read(GOLD["output"]).split("\\n")) == sorted(GOLD["text"].split("\\n"))


def test_exact():
    assert read(GOLD["output"]) == GOLD["text"]
"""


def draft(dice: Dice, level: int) -> Draft:
    """Level 1: filter and sort; 2: sums per group; 3: join two files, then sums per group."""
    return (_filter, _group, _join)[level - 1](dice)


def _filter(dice: Dice) -> Draft:
    items, places = dice.words(8), dice.names(4)
    rows = [(dice.choice(items), dice.choice(places), dice.number(1, 99)) for _ in range(dice.number(14, 22))]
    place = rows[dice.number(0, len(rows) - 1)][1]
    source, output = f"{dice.word()}.txt", "result.txt"
    kept = sorted({item for item, where, _ in rows if where == place})
    return Draft(
        instruction=(
            f"/app/{source} holds lines of the form 'item person amount'. Write the items of {place} to /app/{output}: "
            "each item once, one per line, in alphabetical order."
        ),
        files={source: "".join(f"{item} {where} {amount}\n" for item, where, amount in rows)},
        solution=(f"awk '$2 == \"{place}\" {{print $1}}' {source} | LC_ALL=C sort -u > {output}",),
        checks=_CHECKS,
        gold={"output": output, "text": "".join(f"{item}\n" for item in kept)},
        hint="Select the lines by their second field (awk), then sort -u.",
        secrets=("\n".join(kept) + "\n",) if len(kept) > 1 else (),
    )


def _group(dice: Dice) -> Draft:
    items = dice.words(dice.number(4, 6))
    rows = [(dice.choice(items), dice.number(1, 400)) for _ in range(dice.number(24, 40))]
    source = f"{dice.word()}.csv"
    least = dice.number(2, 4) * 100
    sums: dict[str, int] = {}
    for item, amount in rows:
        sums[item] = sums.get(item, 0) + amount
    ordered = sorted(
        ((total, item) for item, total in sums.items() if total >= least), key=lambda row: (-row[0], row[1])
    )
    text = "".join(f"{item},{total}\n" for total, item in ordered)
    awk = f"awk -F, 'NR > 1 {{s[$1] += $2}} END {{for (k in s) if (s[k] >= {least}) print k \",\" s[k]}}' {source}"
    return Draft(
        instruction=(
            f"/app/{source} is a CSV file with the header 'item,amount'. Add up the amounts of each item and write "
            f"/app/totals.csv without a header: one line 'item,total' for each item whose total is at least {least}, "
            "the largest total first, equal totals in alphabetical order of the item."
        ),
        files={source: "item,amount\n" + "".join(f"{item},{amount}\n" for item, amount in rows)},
        solution=(f"{awk} | LC_ALL=C sort -t, -k2,2nr -k1,1 > totals.csv",),
        checks=_CHECKS,
        gold={"output": "totals.csv", "text": text},
        hint="awk can add up per key in an array; sort -t, -k2,2nr -k1,1 gives the order.",
        secrets=(text,) if len(ordered) > 1 else (),
    )


def _join(dice: Dice) -> Draft:
    names, items = dice.names(6), dice.words(7)
    price = {item: dice.number(2, 60) for item in items}
    orders = [(dice.choice(names), dice.choice(items), dice.number(1, 9)) for _ in range(dice.number(30, 45))]
    banned = dice.choice(items)
    sums: dict[str, int] = {}
    for name, item, count in orders:
        if item != banned:
            sums[name] = sums.get(name, 0) + count * price[item]
    ordered = sorted(sums.items(), key=lambda row: (-row[1], row[0]))
    text = "".join(f"{name}\t{total}\n" for name, total in ordered)
    awk = (
        f"awk -F'\\t' 'NR == FNR {{p[$1] = $2; next}} $2 != \"{banned}\" {{s[$1] += $3 * p[$2]}} "
        'END {for (k in s) print k "\\t" s[k]}\' prices.tsv orders.tsv'
    )
    return Draft(
        instruction=(
            "/app/prices.tsv holds 'item<TAB>price', /app/orders.tsv 'person<TAB>item<TAB>count', both without a "
            "header. "
            f"Orders of the item '{banned}' were cancelled: leave them out. Write /app/spent.tsv with one line "
            "'person<TAB>total' for each person with at least one order left, where total is the sum of count times "
            "price; the largest total first, equal totals in alphabetical order of the person."
        ),
        files={
            "prices.tsv": "".join(f"{item}\t{price[item]}\n" for item in dice.shuffled(items)),
            "orders.tsv": "".join(f"{name}\t{item}\t{count}\n" for name, item, count in orders),
        },
        solution=(f"{awk} | LC_ALL=C sort -t\"$(printf '\\t')\" -k2,2nr -k1,1 > spent.tsv",),
        checks=_CHECKS,
        gold={"output": "spent.tsv", "text": text},
        hint="Read prices.tsv into an awk array first (NR == FNR), then go through the orders.",
        secrets=(text,) if len(ordered) > 1 else (),
    )
