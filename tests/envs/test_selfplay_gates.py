"""The gates: a sound program passes, and each defect is found by the gate that is named for it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from selfplay_programs import GAME, SOLUTION, SOUND, game

from sandlot.envs.selfplay.gates import Gates, GateSettings, check
from sandlot.envs.selfplay.grammar import Grammar
from sandlot.envs.selfplay.program import Program
from sandlot.envs.selfplay.reasons import Reason, table
from sandlot.envs.selfplay.runner import RunSettings
from sandlot.envs.selfplay.signature import Known, Signature, behaviour, likeness, structure
from sandlot.envs.selfplay.verdict import Verdict
from sandlot.envs.selfplay.weak import Reader

SETTINGS = GateSettings(run=RunSettings(timeout=0.5, start=2.0))


@pytest.fixture(scope="module")
def gates() -> Iterator[Gates]:
    with Gates("auto", SETTINGS) as opened:
        yield opened


@pytest.fixture(scope="module")
def sound(gates: Gates) -> Verdict:
    return gates.check(SOUND)


def change(*pairs: tuple[str, str], **manifest: object) -> Program:
    """The sound program with parts of its source replaced."""
    source = GAME
    for old, new in pairs:
        assert old in source
        source = source.replace(old, new)
    return Program(source, replace(SOUND.manifest, **manifest))


def body(text: str) -> str:
    return textwrap.indent(textwrap.dedent(text).strip(), " " * 8).lstrip()


STEP = "        self.left -= 1\n"
DEEP = """        chain = iter([1])
        for _ in range(300000):
            chain = filter(None, chain)
        next(chain)
"""  # deeper than the C stack: the interpreter falls over, without a word that reading the source could find
LAST = "return self.look(), 0.0, False\n"
TEXT_GAME = """
import random

WORDS = ["amber", "birch", "cedar", "dune", "ember", "fern", "grove", "heath", "iris", "jade", "kelp", "lark", "moss"]


class Game:
    def reset(self, seed):
        self.word = DRAWN
        self.spoiled = False
        return f"Repeat after me: {self.word}"

    def step(self, action):
        if "what" in action:
            REFUSE
        if action == f"say {self.word}" or ALSO:
            return "Right.", 1.0, True
        return f"No. {self.spoiled}", 0.0, True
"""
WORDS = "amber|birch|cedar|dune|ember|fern|grove|heath|iris|jade|kelp|lark|moss"


def text_game(
    refuse: str = 'raise ValueError("Do not ask.")',
    also: str = "False",
    actions: str = "",
    word: str = "random.Random(seed).choice(WORDS)",
) -> Program:
    """Its actions are not listed, and it does not tell its state."""
    solution = "class Solution:\n    def start(self, seed):\n        pass\n"
    solution += "    def act(self, observation):\n        return 'say ' + observation.split()[-1]\n"
    solution += "    def hint(self, seed):\n        import random\n"
    solution += f"        return 'In this order: say ' + random.Random(seed).choice('{WORDS}'.split('|'))\n"
    source = TEXT_GAME.replace("REFUSE", refuse).replace("ALSO", also).replace("DRAWN", word)
    form = actions or f"say <{WORDS}>\nask what"
    return Program(source, replace(SOUND.manifest, actions=form, horizon=1, solution=solution))


DEFECTS: list[tuple[Reason, Program]] = [
    (Reason.MANIFEST, change(horizon=0)),
    (Reason.MANIFEST, change(actions="go <north")),
    (Reason.MANIFEST, change(hint=" ")),
    (Reason.MANIFEST, change(mechanics=("Big Words",))),
    (Reason.SYNTAX, change(("class Game:", "class Game"))),
    (Reason.SYNTAX, change(("class Game:", "class Play:"))),
    (Reason.SYNTAX, change(("def step", "def walk"))),
    (Reason.SYNTAX, change(("import random", "x = " + "(" * 5000 + ")" * 5000))),
    (Reason.IMPORT, change(("import random", "import random, os"))),
    (Reason.IMPORT, change(solution="import subprocess\n" + SOLUTION)),
    (Reason.NAME, change(("draw = random.Random(seed)", "draw = random"))),
    (Reason.NAME, change((STEP, "        global left\n" + STEP))),
    (Reason.START, change(("class Game:", "1 / 0\nclass Game:"))),
    (Reason.SYNTAX, change(("import random", "import random\nx = " + "+".join(["1"] * 9000)))),
    (Reason.EXCEPTION, change((STEP, STEP + "        self.nothing += 1\n"))),
    (Reason.EXCEPTION, change(("draw = random", "{}[1]\n        draw = random"))),
    (Reason.TIMEOUT, change((STEP, STEP + "        while self.left == 2:\n            pass\n"))),
    (Reason.MEMORY, change((STEP, STEP + "        self.held = [0] * (1 << 30)\n"))),
    (Reason.DIED, change((STEP, STEP + DEEP))),
    (Reason.OUTPUT, change((LAST, 'return "x" * (1 << 22), 0.0, False\n'))),
    (Reason.PROTOCOL, change((LAST, "return {1}, 0.0, False\n"))),
    (Reason.OBSERVATION, change((LAST, 'return "", 0.0, False\n'))),
    (Reason.OBSERVATION, change((LAST, 'return "\\x1b[2J", 0.0, False\n'))),
    (Reason.OBSERVATION, change((LAST, "return [[]], 0.0, False\n"))),
    (Reason.REWARD, change((LAST, "return self.look(), -0.1, False\n"))),
    (Reason.REWARD, change((LAST, "return self.look(), 0.3, False\n"))),  # 5 steps: 1.5
    (Reason.REWARD, change((LAST, 'return self.look(), float("nan"), False\n'))),
    (Reason.TERMINATED, change((LAST, "return self.look(), 0.0, 0\n"))),
    (Reason.ACTIONS, change(("for name in self.NAMES]", "for name in self.NAMES * 2]"))),
    (Reason.ACTIONS, change(('[f"say {name}" for', '[f"tell {name}" for'))),
    (Reason.ACTIONS, change(("for name in self.NAMES]", "for name in []]"))),
    (Reason.REFUSAL, change((STEP, STEP + "        if self.left < 3:\n            raise ValueError('no')\n"))),
    (Reason.NONDETERMINISTIC, change(
        ('NAMES = [', "COUNT = []\n    NAMES = ["),
        ("self.said = 0", "self.said = 0\n        self.COUNT.append(1)"),
        ("shows {self.days[self.said]}.", "shows {self.days[self.said]}, on visit {len(self.COUNT)}."),
    )),
    (Reason.NONDETERMINISTIC, change(
        ("return [f\"say {name}\" for name in self.NAMES]", 'return list({f"say {name}" for name in self.NAMES})')
    )),
    (Reason.STATE, change(("return [self.days, self.said, self.left]", "return [self.days, self.said]"))),
    (Reason.ENDLESS, change(("if self.left == 0:", "if self.left == -20:"))),
    (Reason.SNAPSHOT, text_game(refuse="self.spoiled = True; raise ValueError('No.')")),
    (Reason.SAME_INSTANCES, change(("random.Random(seed)", "random.Random(4)"))),
    (Reason.SOLUTION_BROKEN, change(solution=SOLUTION.replace("self.acted += 1", "1 / 0"))),
    (Reason.SOLUTION_BROKEN, change(solution=SOLUTION.replace("return f", "return 5 or f"))),
    (Reason.SOLUTION_FAILS, change(solution=SOLUTION.replace("return f", 'return "say amber" or f'))),
    (Reason.SOLUTION_FAILS, change(solution=SOLUTION.replace("return f", 'return "fly" or f'))),
    (Reason.IDLE, text_game(
        also='action == f"Repeat after me: {self.word}"',
        actions="say <0..999999>\nask what\nRepeat <text>",
        word="str(random.Random(seed).randrange(10**6))",
    )),
    (Reason.CONSTANT, change(("[draw.randrange(12) for _ in range(3)]", "[draw.randrange(3)] * 3"))),
    (Reason.RANDOM, change(
        ("[draw.randrange(12) for _ in range(3)]", "draw.sample(range(3), 2)"),
        ("for name in self.NAMES]", "for name in self.NAMES[:3]]"),
        ("self.said == 3", "self.said == 2"),
    )),
    (Reason.HINT_SHOWN, change(rules=f"Say it. {SOUND.manifest.hint}")),
    (Reason.HINT_USELESS, change(hint="Think before you speak.")),
]  # fmt: skip


def test_a_sound_program_passes(sound: Verdict) -> None:
    assert sound.passed, sound.report()
    assert sound.measures["hinted"] > 0.8 and sound.measures["plain"] < 0.2
    assert sound.measures["solution_steps"] == 3.0


@pytest.mark.parametrize(("reason", "program"), DEFECTS, ids=[f"{n}-{reason}" for n, (reason, _) in enumerate(DEFECTS)])
def test_a_defect_is_found(reason: Reason, program: Program, gates: Gates) -> None:
    verdict = gates.check(program)
    assert set(verdict.reasons) == {reason}, verdict.report()  # this gate, and no other
    assert str(reason) in verdict.report() and reason.meaning in verdict.report()


def test_near_duplicates_are_found(gates: Gates, sound: Verdict) -> None:
    assert sound.signature is not None
    known = [Known(SOUND.id, sound.signature)]
    # Other words and other names of variables; the code and the shape of its episodes are the same.
    words = change(("amber", "otter"), ("birch", "badger"), ("sheet shows", "page says"), ("self.said", "self.told"))
    names = SOUND.manifest.actions.replace("amber", "otter").replace("birch", "badger")
    hint = SOUND.manifest.hint.replace("amber", "otter").replace("birch", "badger")
    solution = SOLUTION.replace("amber", "otter").replace("birch", "badger")
    words = replace(words, manifest=replace(words.manifest, actions=names, hint=hint, solution=solution))
    assert gates.check(words, known).reasons == (Reason.SAME_STRUCTURE,)
    # Other code that plays alike.
    code = change(
        (STEP, "        self.left = self.left - 1\n        unused = [number * 2 for number in range(3)]\n"),
        ("self.said += 1", "self.said = self.said + 1 if self.said < 99 else 0"),
        ('return f"The', 'shown = self.days\n        if not shown:\n            return "?"\n        return f"The'),
    )
    assert gates.check(code, known).reasons == (Reason.SAME_BEHAVIOUR,)
    # A longer one is another program, though its code differs in two numbers.
    longer = change(
        ("range(3)]", "range(4)]"), ("self.said == 3", "self.said == 4"), ("self.left = 5", "self.left = 7")
    )
    longer = replace(longer, manifest=replace(longer.manifest, horizon=7))
    assert gates.check(longer, known).passed


def test_what_is_no_program_is_a_finding(gates: Gates) -> None:
    for data in (
        {},
        {**SOUND.to_dict(), "horizon": "ten"},
        {**SOUND.to_dict(), "source": 5},
        {**SOUND.to_dict(), "hint": "\0"},
    ):
        assert gates.check(data).reasons == (Reason.MANIFEST,)
    assert check(SOUND.to_dict() | {"title": ""}).program_id


def test_every_reason_is_tested() -> None:
    tested = {reason for reason, _ in DEFECTS} | {Reason.SAME_STRUCTURE, Reason.SAME_BEHAVIOUR}
    assert tested == set(Reason)


def test_a_slow_program_does_not_hold_up_the_gates() -> None:
    slow = change((STEP, STEP + "        total = sum(range(3000000))\n"))
    with Gates(settings=replace(SETTINGS, seconds=0.5)) as gates:
        assert gates.check(slow).reasons == (Reason.TIMEOUT,)


def test_the_reader_does_what_it_reads() -> None:
    rng, grammar = np.random.default_rng(0), Grammar("go <north|south>\nopen <text>")
    reader = Reader(curiosity=0.0)
    reader.start("", "When the light is red, go north. When the light is green, go south; open the box.", rng)
    actions = ["go south", "go north"]
    assert reader.act("The light is green.", actions, grammar) == "go south"
    assert reader.act("The light is red.", actions, grammar) == "go north"
    reader.start("", "In this order: 1. go north\n2. go north\n3. go south", rng)
    assert [reader.act("A hall.", actions, grammar) for _ in range(3)] == ["go north", "go north", "go south"]
    reader.start("", "Then open the box.", rng)
    assert reader.act("A hall.", None, grammar) == "open the box"


def test_signatures() -> None:
    assert likeness(frozenset({1, 2, 3}), frozenset({2, 3, 4})) == 0.5  # 2 of 4
    assert likeness(frozenset(), frozenset()) == 1.0
    assert structure("x = 1\ny = 'a'") == structure("name = 1\nother = 'b'") != structure("x = 2\ny = 'a'")
    texts, shapes = behaviour([[("Room 1", 0.0, False, 4), ("Room 2", 0.0, False, 4)]])
    again, same = behaviour([[("Room 7", 0.0, False, 4), ("Hall 2", 0.0, False, 4)]])
    assert shapes == same and likeness(texts, again) == pytest.approx(1 / 3)  # one of three
    signature = Signature(structure(GAME), texts, shapes)
    assert Signature.from_dict(signature.to_dict()) == signature


def test_the_canary_program_of_the_attacks_is_no_program_by_itself(gates: Gates) -> None:
    assert gates.check(game()).reasons == (Reason.ENDLESS,) * 8


def test_the_table_of_codes_in_the_documentation_is_current() -> None:
    page = Path(__file__).parents[2] / "docs" / "selfplay.md"
    assert table() in page.read_text(encoding="utf-8"), "put sandlot.envs.selfplay.reasons.table() there"
