"""Permissions: set the mode bits of files and folders to what is asked for."""

from __future__ import annotations

from ..dice import Dice
from ..draft import Draft

_CHECKS = """
def mode(name):
    return stat.S_IMODE((APP / name).lstat().st_mode)


def test_asked_files():
    for name, wanted in GOLD["wanted"].items():
        assert mode(name) == wanted, name


def test_other_files():
    for name, wanted in GOLD["others"].items():
        assert mode(name) == wanted, name


def test_contents():
    for name, text in GOLD["texts"].items():
        assert read(name) == text, name
"""
# What is asked, and the mode of a file that was 0o644 before.
_WISHES = {
    "executable for everyone": ("chmod 755 {file}", 0o755),
    "readable and writable by its owner and by nobody else": ("chmod 600 {file}", 0o600),
    "read-only for everyone": ("chmod 444 {file}", 0o444),
    "writable by its group as well": ("chmod 664 {file}", 0o664),
}
_ENDINGS = (".sh", ".txt", ".key", ".log")


def draft(dice: Dice, level: int) -> Draft:
    """Level 1: one file; 2: two files; 3: every file of a kind below a folder, and the folders themselves."""
    return _tree(dice) if level == 3 else _files(dice, level)


def _files(dice: Dice, count: int) -> Draft:
    names = [f"{word}{dice.choice(_ENDINGS)}" for word in dice.words(3 + count)]
    texts = {name: f"{dice.word()} {dice.number(100, 999)}\n" for name in names}
    asked, wishes = dice.sample(names, count), dice.sample(list(_WISHES), count)
    said = " and ".join(f"{name} {wish}" for name, wish in zip(asked, wishes))
    wanted = {name: _WISHES[wish][1] for name, wish in zip(asked, wishes)}
    return Draft(
        instruction=f"In /app, make {said}. All files have mode 644 now; leave the others as they are.",
        files=texts,
        solution=tuple(_WISHES[wish][0].format(file=name) for name, wish in zip(asked, wishes)),
        checks=_CHECKS,
        gold={"wanted": wanted, "others": {name: 0o644 for name in names if name not in wanted}, "texts": texts},
        hint="The three digits of chmod are owner, group and others; 4 is read, 2 write, 1 execute.",
        menu=("ls -l", *(command for command, _ in _WISHES.values()), "rm {file}"),
    )


def _tree(dice: Dice) -> Draft:
    folders = [f"site/{word}" for word in dice.words(3)]
    ending = dice.choice((".sh", ".py"))
    texts: dict[str, str] = {}
    modes: dict[str, int] = {}
    for folder in folders:
        for word in dice.words(dice.number(2, 4)):
            name = f"{folder}/{word}{dice.choice((ending, '.txt', '.cfg'))}"
            texts[name], modes[name] = f"{dice.word()}\n", dice.choice((0o600, 0o644, 0o666, 0o640))
    secret = f"{folders[0]}/{dice.word()}.key"
    texts[secret], modes[secret] = f"{dice.hex(16)}\n", 0o644
    scripts = {name: 0o750 for name in texts if name.endswith(ending)}
    rest = {name: 0o640 for name in texts if name not in scripts and name != secret}
    return Draft(
        instruction=(
            f"Set the modes below /app/site: every file that ends in {ending} 750, the file {secret} 400, every other "
            "file 640, and every folder, /app/site itself included, 750."
        ),
        files=texts,
        modes=modes,
        solution=(
            "find site -type d -exec chmod 750 {} +",
            f"find site -type f -name '*{ending}' -exec chmod 750 {{}} +",
            f"find site -type f ! -name '*{ending}' -exec chmod 640 {{}} +",
            f"chmod 400 {secret}",
        ),
        checks=_CHECKS,
        gold={
            "wanted": {**scripts, secret: 0o400, "site": 0o750, **dict.fromkeys(folders, 0o750)},
            **{"others": rest, "texts": texts},
        },
        hint="find site -type d and find site -type f -name select what chmod is to change.",
    )
