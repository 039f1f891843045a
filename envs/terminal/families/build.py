"""Build fixing: a Makefile that does not build. The rules run the shell and Python, so no compiler is needed."""

from __future__ import annotations

from ..dice import Dice
from ..draft import Draft

_CHECKS = """
def rebuilt():
    import shutil
    import tempfile
    place = pathlib.Path(tempfile.mkdtemp()) / "copy"
    shutil.copytree(APP, place)
    shutil.rmtree(place / "out", ignore_errors=True)
    done = subprocess.run(
        ["make", "-C", str(place)], capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL
    )
    return done, place


def test_make_succeeds():
    done, _ = rebuilt()
    assert done.returncode == 0, done.stderr


def test_product_is_right():
    _, place = rebuilt()
    assert (place / "out" / GOLD["product"]).read_text() == GOLD["text"]


def test_product_follows_its_sources():
    _, place = rebuilt()
    (place / "src" / GOLD["first"]).write_text("changed\\n")
    os.utime(place / "src" / GOLD["first"], (4102444800, 4102444800))
    subprocess.run(["make", "-C", str(place)], capture_output=True, timeout=20, stdin=subprocess.DEVNULL)
    assert (place / "out" / GOLD["product"]).read_text().startswith("CHANGED\\n")


def test_sources_are_kept():
    for name, text in GOLD["sources"].items():
        assert read("src/" + name) == text, name
"""
_SCRIPT = '''"""Join the files that are named on the command line, in capital letters."""
import sys

for name in sys.argv[1:]:
    with open(name) as file:
        sys.stdout.write(file.read().{method}())
'''


def draft(dice: Dice, level: int) -> Draft:
    """As many faults as the level: a wrong file name, no output folder, spaces for a tab, a bug in the tool."""
    parts = [f"{word}.txt" for word in dice.words(3)]
    texts = {name: "".join(f"{dice.word()} {dice.number(10, 99)}\n" for _ in range(2)) for name in parts}
    product = f"{dice.word()}.out"
    faults = dice.sample(("name", "folder", "space", "tool"), level)
    stray = parts[0].replace(".txt", ".text")
    sources = " ".join(f"src/{name}" for name in parts)
    wrong = sources.replace(parts[0], stray) if "name" in faults else sources
    folder = "" if "folder" in faults else "\tmkdir -p out\n"
    tab = "    " if "space" in faults else "\t"
    right = f"SOURCES = {sources}\n\nout/{product}: $(SOURCES) tools/join.py\n\tmkdir -p out\n"
    right += f"\tpython3 tools/join.py $(SOURCES) > out/{product}\n\nclean:\n\trm -rf out\n"
    makefile = f"SOURCES = {wrong}\n\nout/{product}: $(SOURCES) tools/join.py\n{folder}"
    makefile += f"{tab}python3 tools/join.py $(SOURCES) > out/{product}\n\nclean:\n\trm -rf out\n"
    fixed = right.replace("\t", "\\t").replace("\n", "\\n").replace("%", "%%")
    solution = [f"printf '{fixed}' > Makefile"]
    if "tool" in faults:
        solution.append("sed -i 's/casefold()/upper()/' tools/join.py")
    return Draft(
        instruction=(
            f"`make` in /app should join the files {', '.join(parts)} of /app/src, in this order and in capital "
            f"letters, "
            f"into out/{product}, but it does not work. Repair the Makefile and, where needed, the tool in /app/tools. "
            f"A fresh copy of /app without out/ must build with plain `make`, and build again when a file in src "
            "changes. Do not change or rename the files in src."
        ),
        files={
            "Makefile": makefile,
            "tools/join.py": _SCRIPT.format(method="casefold" if "tool" in faults else "upper"),
            **{f"src/{name}": text for name, text in texts.items()},
        },
        solution=(*solution, "make"),
        checks=_CHECKS,
        gold={
            **{"product": product, "first": parts[0], "sources": texts},
            "text": "".join(texts[name].upper() for name in parts),
        },
        hint="Run make and read its first message; recipe lines begin with a tab, and out/ must exist.",
        secrets=("".join(texts[name].upper() for name in parts),),
    )
