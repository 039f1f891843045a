"""Cron and time arithmetic: when does what run?"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from ..dice import Dice
from ..draft import Draft

_CHECKS = """
def lines():
    return read("answer.txt").split("\\n")


def test_answer_exists():
    assert (APP / "answer.txt").is_file()


def test_first_line():
    assert lines()[0] == GOLD["lines"][0]


def test_all_lines():
    assert [line for line in lines() if line] == GOLD["lines"]
"""
_FORM = "%Y-%m-%d %H:%M"
_START = datetime(2024, 1, 1, tzinfo=UTC)


def draft(dice: Dice, level: int) -> Draft:
    """Level 1: from local times to UTC; 2: the next runs of one cron line; 3: of a whole crontab."""
    return (_zones, _next_runs, _crontab)[level - 1](dice)


def _moment(dice: Dice) -> datetime:
    return _START + timedelta(minutes=dice.number(0, 2 * 365 * 1440))


def _zones(dice: Dice) -> Draft:
    rows, lines = [], []
    for name in dice.names(dice.number(3, 5)):
        moment, hours = _moment(dice), dice.choice((-8, -5, -3, 1, 2, 5, 9))
        local = moment.astimezone(timezone(timedelta(hours=hours)))
        rows.append(f"{name} {local.strftime('%Y-%m-%dT%H:%M%z')}\n")
        lines.append((moment, f"{moment.strftime(_FORM)} {name}"))
    text = [line for _, line in sorted(lines)]
    return Draft(
        instruction=(
            "/app/calls.txt holds lines 'name time', the times with their offset from UTC. Write /app/answer.txt: one "
            "line 'YYYY-MM-DD HH:MM name' per call, the time in UTC, the earliest first."
        ),
        files={"calls.txt": "".join(rows)},
        solution=(
            'while read -r name when; do echo "$(date -u -d "$when" \'+%Y-%m-%d %H:%M\') $name"; done < calls.txt '
            "| LC_ALL=C sort > answer.txt",
        ),
        checks=_CHECKS,
        gold={"lines": text},
        hint="date -u -d TIME '+%Y-%m-%d %H:%M' converts.",
        secrets=("\n".join(text),),
    )


def _next_runs(dice: Dice) -> Draft:
    line, now, count = _cron(dice), _moment(dice), dice.number(3, 5)
    runs = [run.strftime(_FORM) for run in _runs(line, now, count)]
    return Draft(
        instruction=(
            f"/app/crontab holds one line in cron's format. It is {now.strftime(_FORM)} now. Write the next {count} "
            f"times at "
            "which it runs, strictly after now, to /app/answer.txt: one 'YYYY-MM-DD HH:MM' per line, the earliest "
            "first."
        ),
        files={"crontab": f"{line} /usr/local/bin/{dice.word()}\n"},
        solution=(_program(now, count),),
        checks=_CHECKS,
        gold={"lines": runs},
        hint="Go minute by minute with a few lines of Python and keep those that match all five fields; 0 is Sunday.",
        secrets=("\n".join(runs),),
    )


def _crontab(dice: Dice) -> Draft:
    now, count = _moment(dice), dice.number(5, 8)
    jobs = {word: _cron(dice) for word in dice.words(3)}
    runs = [(run, word) for word, line in jobs.items() for run in _runs(line, now, count)]
    lines = [f"{run.strftime(_FORM)} {word}" for run, word in sorted(runs)[:count]]
    text = "# m h dom mon dow command\n" + "".join(f"{line} {word}\n" for word, line in jobs.items())
    return Draft(
        instruction=(
            f"/app/crontab holds several lines in cron's format, the command last. It is {now.strftime(_FORM)} now. "
            f"Write "
            f"the next {count} runs of all of them together, strictly after now, to /app/answer.txt: one line "
            "'YYYY-MM-DD HH:MM command' per run, the earliest first, at equal times in alphabetical order of the "
            "command."
        ),
        files={"crontab": text},
        solution=(_program(now, count, named=True),),
        checks=_CHECKS,
        gold={"lines": lines},
        hint="Collect the runs of each line minute by minute, then sort them all.",
        secrets=("\n".join(lines),),
    )


def _cron(dice: Dice) -> str:
    # Days of the month and of the week are never both limited: cron would then join them with "or".
    minute = dice.choice((str(dice.number(0, 59)), "*/15", "0,30", str(dice.number(0, 59))))
    hour = dice.choice((str(dice.number(0, 23)), "*/6", f"{dice.number(0, 11)},{dice.number(12, 23)}", "9-11"))
    day, weekday = dice.choice(
        (("*", "*"), ("*", str(dice.number(0, 6))), (str(dice.number(1, 28)), "*"), ("*", "1-5"))
    )
    return f"{minute} {hour} {day} * {weekday}"


def _runs(line: str, now: datetime, count: int) -> list[datetime]:
    minutes, hours, days, _, weekdays = line.split()
    sets = [_values(minutes, 60), _values(hours, 24), _values(days, 32), _values(weekdays, 7)]
    found: list[datetime] = []
    day = now.replace(hour=0, minute=0)
    while len(found) < count:
        if day.day in sets[2] and (day.weekday() + 1) % 7 in sets[3]:
            times = (day.replace(hour=hour, minute=minute) for hour in sorted(sets[1]) for minute in sorted(sets[0]))
            found += [time for time in times if time > now]
        day += timedelta(days=1)
    return found[:count]


def _values(field: str, end: int) -> set[int]:
    if field == "*":
        return set(range(end))
    if field.startswith("*/"):
        return set(range(0, end, int(field[2:])))
    if "-" in field:
        low, high = map(int, field.split("-"))
        return set(range(low, high + 1))
    return set(map(int, field.split(",")))


def _program(now: datetime, count: int, named: bool = False) -> str:
    suffix = " + ' ' + name" if named else ""
    return "\n".join(
        (
            "python3 - <<'END'",
            "from datetime import datetime, timedelta",
            "def values(field, end):",
            "    if field == '*': return set(range(end))",
            "    if field.startswith('*/'): return set(range(0, end, int(field[2:])))",
            "    if '-' in field: a, b = map(int, field.split('-')); return set(range(a, b + 1))",
            "    return set(map(int, field.split(',')))",
            "out = []",
            "for line in open('crontab'):",
            "    if line.startswith('#'): continue",
            "    m, h, d, _, w, name = line.split()",
            "    m, h, d, w = values(m, 60), values(h, 24), values(d, 32), values(w, 7)",
            f"    t, n = datetime({now.year}, {now.month}, {now.day}, {now.hour}, {now.minute}), 0",
            f"    while n < {count}:",
            "        t += timedelta(minutes=1)",
            "        if t.minute in m and t.hour in h and t.day in d and (t.weekday() + 1) % 7 in w:",
            f"            out.append(t.strftime('%Y-%m-%d %H:%M'){suffix}); n += 1",
            f"open('answer.txt', 'w').write(''.join(s + '\\n' for s in sorted(out)[:{count}]))",
            "END",
        )
    )
