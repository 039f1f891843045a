"""Log forensics: find the intruder in an access log and report what was done."""

from __future__ import annotations

import json

from ..dice import Dice
from ..draft import Draft

_CHECKS = """
def report():
    return json.loads(read("report.json"))


def test_report_is_json():
    assert isinstance(report(), dict)


def test_address():
    assert report()["address"] == GOLD["address"]


def test_rest():
    assert report() == GOLD


def test_log_is_untouched():
    import hashlib
    found = "".join(hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(APP.glob("logs/*.log")))
    assert hashlib.sha256(found.encode()).hexdigest() == LOGS
"""
_PATHS = ("/", "/index.html", "/shop", "/cart", "/about", "/static/site.css", "/search", "/api/items")


def draft(dice: Dice, level: int) -> Draft:
    """Level 1: one log, most failures; 2: also the time of the first; 3: several logs and what was stolen."""
    count = (40, 70, 110)[level - 1]
    parts = (1, 1, 3)[level - 1]
    intruder = _address(dice)
    others = [address for address in (_address(dice) for _ in range(6)) if address != intruder]
    failures = dice.number(7, 12)
    events = [
        (dice.choice(others), "GET", dice.choice(_PATHS), dice.choice((200, 200, 200, 304, 404))) for _ in range(count)
    ]
    # Others mistype their password too, but at most four times each.
    slips = [(other, "POST", "/login", 401) for other in others for _ in range(dice.number(0, 4))]
    attack = [(intruder, "POST", "/login", 401) for _ in range(failures)]
    events = dice.shuffled([*events, *slips, *attack])
    stolen = f"/admin/{dice.word()}.db"
    if level == 3:
        last = max(number for number, event in enumerate(events) if event[0] == intruder)
        events[last + 1 : last + 1] = [(intruder, "POST", "/login", 200), (intruder, "GET", stolen, 200)]
        events.append((dice.choice(others), "GET", f"/admin/{dice.word()}.css", 403))
    minute, lines, first = dice.number(0, 300), [], ""
    for address, method, path, status in events:
        minute += dice.number(0, 3)
        when = f"2024-03-{5 + minute // 1440:02d}T{minute // 60 % 24:02d}:{minute % 60:02d}:{dice.number(0, 59):02d}Z"
        if not first and address == intruder and status == 401:
            first = when
        lines.append(f'{when} {address} "{method} {path}" {status} {dice.number(120, 9000)}\n')
    lines.sort(key=lambda line: line[:20])
    if level > 1:  # sorting may swap lines within a minute: read the first failure again
        first = next(line[:20] for line in lines if f" {intruder} " in line and '" 401 ' in line)
    size = -(-len(lines) // parts)
    logs = {f"logs/access-{n}.log": "".join(lines[n * size : (n + 1) * size]) for n in range(parts)}
    gold: dict[str, str | int] = {"address": intruder, "failures": failures}
    wanted = "'address' (text) and 'failures' (the number of its failed logins)"
    if level > 1:
        gold["first"] = first
        wanted = wanted.replace(" and ", ", ") + ", 'first' (the time of its first failed login, as in the log)"
    if level > 2:
        gold["stolen"] = stolen
        wanted += ", 'stolen' (the path that it fetched below /admin)"
    return Draft(
        instruction=(
            "Someone guessed passwords on our web server. The access log is in /app/logs: time, address, request, "
            "status and bytes on each line; a failed login is a POST to /login with status 401. Find the address with "
            f"the most failed logins and write /app/report.json, an object with exactly the keys {wanted}. "
            "Leave the log as it is."
        ),
        files=logs,
        solution=tuple(_solution(level)),
        checks=f"LOGS = {_digest(logs)!r}\n\n" + _CHECKS,
        gold=gold,
        hint="grep '\"POST /login\" 401' logs/*.log, cut out the address, then sort | uniq -c | sort -n.",
        secrets=(json.dumps(gold),),
    )


def _solution(level: int) -> list[str]:
    commands = [
        "cat logs/*.log | grep '\"POST /login\" 401' > /tmp/failed",
        "ADDRESS=$(awk '{print $2}' /tmp/failed | sort | uniq -c | sort -n | tail -n 1 | awk '{print $2}')",
        "FAILURES=$(awk -v a=\"$ADDRESS\" '$2 == a' /tmp/failed | wc -l)",
    ]
    keys = '"address": "%s", "failures": %d'
    values = '"$ADDRESS" "$FAILURES"'
    if level > 1:
        commands.append("FIRST=$(awk -v a=\"$ADDRESS\" '$2 == a {print $1; exit}' /tmp/failed)")
        keys, values = keys + ', "first": "%s"', values + ' "$FIRST"'
    if level > 2:
        commands.append(
            'STOLEN=$(cat logs/*.log | awk -v a="$ADDRESS" \'$2 == a && $4 ~ "^/admin" && $5 == 200 '
            '{sub(/"/, "", $4); print $4}\')'
        )
        keys, values = keys + ', "stolen": "%s"', values + ' "$STOLEN"'
    commands.append(f"printf '{{{keys}}}\\n' {values} > report.json")
    return commands


def _address(dice: Dice) -> str:
    return f"10.{dice.number(0, 255)}.{dice.number(0, 255)}.{dice.number(2, 254)}"


def _digest(logs: dict[str, str]) -> str:
    from hashlib import sha256

    joined = "".join(sha256(text.encode()).hexdigest() for _, text in sorted(logs.items()))
    return sha256(joined.encode()).hexdigest()
