"""The fast engine against TextWorld itself, step for step, on random, planned and adversarial walks."""

from __future__ import annotations

import copy
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandlot.envs.alfworld import generator, oracle, wheel
from sandlot.envs.alfworld.engine_fast import FastEngine, State
from sandlot.envs.alfworld.game import TASK_TYPES, BadGame, Problem, build_game, parse_game
from sandlot.envs.alfworld.tasks import GeneratedTasks

pytest.importorskip("textworld")
pytest.importorskip("fast_downward")
from sandlot.envs.alfworld.engine_textworld import TextWorldEngine

HOSTILE = (
    *(
        "",
        "fly",
        "LOOK",
        "look ",
        "  inventory",
        "take",
        "take mug 1 from",
        "go to desk 99",
        "examine x",
        "put a in/on b",
    ),
    *("move mug 1", "open open", "help me", "go to cabinet 1 1", "\x00", "heat  potato 1 with microwave 1"),
)

# A made-up kitchen corner with everything that is odd in real games: two receptacles at one place (cabinet and
# counter), a mug in two receptacles at once, a bowl with something in it, a knife, a lamp, an open fridge.
CORNER = """
(define (problem corner) (:domain alfred) (:objects agent1 - agent
 MugType - otype PotatoType - otype KnifeType - otype ButterKnifeType - otype DeskLampType - otype BowlType - otype
 SpoonType - otype CounterTopType - rtype CabinetType - rtype SinkBasinType - rtype MicrowaveType - rtype
 FridgeType - rtype CoffeeMachineType - rtype
 Mug_bar_1 - object Mug_bar_2 - object Potato_bar_1 - object Knife_bar_1 - object DeskLamp_bar_1 - object
 Bowl_bar_1 - object Spoon_bar_1 - object
 CounterTop_bar_1 - receptacle Cabinet_bar_1 - receptacle Sink_bar_1_bar_SinkBasin - receptacle
 Microwave_bar_1 - receptacle Fridge_bar_1 - receptacle CoffeeMachine_bar_1 - receptacle
 loc_bar_1 - location loc_bar_2 - location loc_bar_3 - location loc_bar_4 - location loc_bar_5 - location)
(:init
 (atLocation agent1 loc_bar_5)
 (receptacleType CounterTop_bar_1 CounterTopType) (receptacleType Cabinet_bar_1 CabinetType)
 (receptacleType Sink_bar_1_bar_SinkBasin SinkBasinType) (receptacleType Microwave_bar_1 MicrowaveType)
 (receptacleType Fridge_bar_1 FridgeType) (receptacleType CoffeeMachine_bar_1 CoffeeMachineType)
 (receptacleAtLocation CounterTop_bar_1 loc_bar_1) (receptacleAtLocation Cabinet_bar_1 loc_bar_1)
 (receptacleAtLocation Sink_bar_1_bar_SinkBasin loc_bar_2) (receptacleAtLocation Microwave_bar_1 loc_bar_3)
 (receptacleAtLocation Fridge_bar_1 loc_bar_4) (receptacleAtLocation CoffeeMachine_bar_1 loc_bar_1)
 (openable Cabinet_bar_1) (openable Microwave_bar_1) (openable Fridge_bar_1) (opened Fridge_bar_1)
 (objectType Mug_bar_1 MugType) (objectType Mug_bar_2 MugType) (objectType Potato_bar_1 PotatoType)
 (objectType Knife_bar_1 KnifeType) (objectType DeskLamp_bar_1 DeskLampType) (objectType Bowl_bar_1 BowlType)
 (objectType Spoon_bar_1 SpoonType)
 (pickupable Mug_bar_1) (pickupable Mug_bar_2) (pickupable Potato_bar_1) (pickupable Knife_bar_1)
 (pickupable Bowl_bar_1) (pickupable Spoon_bar_1) (pickupable DeskLamp_bar_1)
 (isReceptacleObject Bowl_bar_1) (inReceptacleObject Spoon_bar_1 Bowl_bar_1)
 (cleanable Mug_bar_1) (cleanable Mug_bar_2) (cleanable Potato_bar_1) (cleanable Knife_bar_1)
 (heatable Mug_bar_1) (heatable Mug_bar_2) (heatable Potato_bar_1)
 (coolable Mug_bar_1) (coolable Mug_bar_2) (coolable Potato_bar_1)
 (sliceable Potato_bar_1) (toggleable DeskLamp_bar_1)
 (canContain CounterTopType MugType) (canContain CounterTopType PotatoType) (canContain CounterTopType KnifeType)
 (canContain CounterTopType BowlType) (canContain CounterTopType SpoonType) (canContain CounterTopType DeskLampType)
 (canContain CabinetType MugType) (canContain CabinetType PotatoType) (canContain CabinetType KnifeType)
 (canContain SinkBasinType MugType) (canContain SinkBasinType PotatoType) (canContain FridgeType PotatoType)
 (canContain FridgeType MugType) (canContain MicrowaveType PotatoType) (canContain CoffeeMachineType MugType)
 (inReceptacle Mug_bar_1 CounterTop_bar_1) (inReceptacle Mug_bar_1 CoffeeMachine_bar_1)
 (objectAtLocation Mug_bar_1 loc_bar_1)
 (inReceptacle Mug_bar_2 Fridge_bar_1) (objectAtLocation Mug_bar_2 loc_bar_4)
 (inReceptacle Potato_bar_1 Cabinet_bar_1) (objectAtLocation Potato_bar_1 loc_bar_1)
 (inReceptacle Knife_bar_1 CounterTop_bar_1) (objectAtLocation Knife_bar_1 loc_bar_1)
 (inReceptacle Bowl_bar_1 CounterTop_bar_1) (objectAtLocation Bowl_bar_1 loc_bar_1)
 (inReceptacle Spoon_bar_1 Sink_bar_1_bar_SinkBasin) (objectAtLocation Spoon_bar_1 loc_bar_2)
 (inReceptacle DeskLamp_bar_1 CounterTop_bar_1) (objectAtLocation DeskLamp_bar_1 loc_bar_1))
"""
CORNER_GOALS = {
    "pick_and_place_simple": ("Potato", "Fridge"),
    "look_at_obj_in_light": ("Potato", "DeskLamp"),
    "pick_clean_then_place_in_recep": ("Mug", "Cabinet"),
    "pick_heat_then_place_in_recep": ("Potato", "Fridge"),
    "pick_cool_then_place_in_recep": ("Mug", "CounterTop"),
    "pick_two_obj_and_place": ("Mug", "Cabinet"),
}


def corner(task_type: str = "pick_heat_then_place_in_recep") -> dict[str, Any]:
    item, place = CORNER_GOALS[task_type]
    goal = wheel.goal_library().gdict[task_type]["pddl"].replace("#", "-")
    problem = CORNER.rstrip() + goal.format(obj=item, recep=place, toggle=place, mrecep="")
    return {
        "pddl_domain": wheel.domain(),
        "grammar": wheel.grammar().replace("UNKNOWN GOAL", "do it"),
        "pddl_problem": problem,
    }


def before_version_4(data: dict[str, Any]) -> dict[str, Any]:
    """The same game as ALFWorld 0.3 wrote it: other words for arriving and putting, no help."""
    grammar = data["grammar"].replace("You arrive at {r.name}.", "You arrive at {lend.name}.")
    grammar = grammar.replace("move {o} to {r}", "put {o} in/on {r}")
    grammar = grammar.replace("You move the {o.name} to the {r.name}.", "You put the {o.name} in/on the {r.name}.")
    grammar = grammar[: grammar.index("action help")]
    domain = data["pddl_domain"]
    return {**data, "grammar": grammar, "pddl_domain": domain[: domain.index("(:action help")] + ")"}


def real_game() -> dict[str, Any]:
    beside = Path(__file__).resolve().parents[2].parent / "shared" / "data"
    folder = Path(os.environ.get("SANDLOT_TEST_DATA", beside)) / "alfworld" / "real_single"
    found = sorted(folder.glob("json_2.1.1/*/*/*/game.tw-pddl"))
    if not found:
        pytest.skip(f"no real ALFWorld game in {folder}")
    return json.loads(found[0].read_text())


class Remembering:
    """TextWorld's text parser, not asked twice for the same text: most of a step's time, the same trees."""

    def __init__(self, parser: Any) -> None:
        self._parser = parser
        self._trees: dict[tuple[str, str], Any] = {}

    def parse(self, text: str, rule_name: str, **options: Any) -> Any:
        if (text, rule_name) not in self._trees:
            self._trees[text, rule_name] = self._parser.parse(text, rule_name=rule_name, **options)
        return self._trees[text, rule_name]


def copied(value: Any) -> Any:
    """TextWorld copies its tables of variables deeply at every symbol, and never changes what is in them."""
    return dict(value) if isinstance(value, dict) else copy.deepcopy(value)


@pytest.fixture(scope="module")
def textworld_engine() -> Iterator[TextWorldEngine]:
    """The original, some ten times faster by the two remedies above; the real game is played without them."""
    import textworld.logic
    from textworld.envs.pddl import textgen

    engine = TextWorldEngine()
    with pytest.MonkeyPatch.context() as patch:
        for module in (textworld.logic, textgen):
            patch.setattr(module, "_PARSER", Remembering(module._PARSER))
        patch.setattr(textgen, "deepcopy", copied)
        yield engine
    engine.close()


def walk(original: TextWorldEngine, data: dict[str, Any], steps: int, seed: int) -> int:
    """Compare the engines along one walk: a mixture of planned, random and hostile commands; returns steps won."""
    rng = random.Random(seed)
    fast = FastEngine(parse_game(data))
    assert original.start(data) == fast.start()
    assert original.admissible() == fast.admissible()
    assert original.won == fast.won
    wins = 0
    for number in range(steps):
        admissible = fast.admissible()
        stay = [command for command in admissible if not command.startswith("go to")]
        draw = rng.random()
        plan = oracle.next_action(fast) if draw < 0.45 else None
        command = plan or rng.choice(HOSTILE if draw > 0.95 else admissible if draw > 0.75 else stay)
        seen = (original.step(command), original.admissible(), original.won, original.outcome)
        mine = (fast.step(command), fast.admissible(), fast.won, (float(fast.won), fast.won))
        assert seen == mine, f"step {number}, {command!r}"
        wins += fast.won
    return wins


@pytest.mark.parametrize("task_type", TASK_TYPES.values())
def test_identical_on_an_odd_corner(textworld_engine: TextWorldEngine, task_type: str) -> None:
    assert walk(textworld_engine, corner(task_type), steps=100, seed=len(task_type)) > 0


def test_identical_on_the_format_before_version_4(textworld_engine: TextWorldEngine) -> None:
    data = before_version_4(corner())
    assert walk(textworld_engine, data, steps=80, seed=4) > 0
    game = parse_game(data)
    assert (game.help, game.put_words) == ("", "in/on")
    engine = FastEngine(game)
    engine.start()
    assert "help" not in engine.admissible()
    assert engine.step("go to sinkbasin 1") == "You arrive at loc 4. On the sinkbasin 1, you see a spoon 1."


@pytest.mark.parametrize("number", TASK_TYPES)
def test_identical_on_generated_games(textworld_engine: TextWorldEngine, number: int) -> None:
    tasks = GeneratedTasks("train", task_types=[number], max_receptacles=5)
    task = tasks.at(number * 12_345)
    walk(textworld_engine, generator.game_file(generator.draft(task.params["recipe"])), steps=40, seed=number)


def test_identical_on_a_real_game() -> None:
    engine = TextWorldEngine()
    walk(engine, real_game(), steps=25, seed=1)
    engine.close()


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("number", TASK_TYPES)
def test_identical_on_many_games(textworld_engine: TextWorldEngine, number: int) -> None:
    """6 x 11 games, whole rooms and smaller ones, 66 x 310 = 20,460 steps."""
    for seed in range(11):
        tasks = GeneratedTasks("train", task_types=[number], max_receptacles=None if seed % 3 == 0 else 8)
        data = generator.game_file(generator.draft(tasks.at(seed * len(tasks) // 11 + seed).params["recipe"]))
        assert walk(textworld_engine, data, steps=310, seed=seed) > 0


def test_the_original_engine_leaves_the_process_as_it_was() -> None:
    arguments, output, folder = list(sys.argv), sys.stdout, os.environ.get("ALFWORLD_DATA")
    engine = TextWorldEngine()
    engine.start(corner())
    assert (sys.argv, sys.stdout, os.environ.get("ALFWORLD_DATA")) == (arguments, output, folder)
    loaded = _mapped_planners()
    first = engine.step("go to fridge 1")
    engine.close()
    engine.close()
    again = TextWorldEngine()
    again.start(corner())
    assert again.step("go to fridge 1") == first
    again.close()
    assert _mapped_planners() == loaded


def test_closing_one_of_two_engines_lets_the_process_end_well() -> None:
    code = (
        "from sandlot.envs.alfworld.engine_textworld import TextWorldEngine\n"
        "one, two = TextWorldEngine(), TextWorldEngine()\n"
        "two.close()\n"
        "print('closed')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "closed\n"), done.stderr


def _mapped_planners() -> int:
    """Copies of the planner's library in this process."""
    maps = Path("/proc/self/maps").read_text()
    return len(set(re.findall(r"\S*/\S*libdownward\.so", maps)))


def test_words_of_the_odd_corner() -> None:
    engine = FastEngine(parse_game(corner()))
    first = engine.start()
    assert first == (
        "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see "
        "a cabinet 1, a coffeemachine 1, a countertop 1, a fridge 1, a microwave 1, and a sinkbasin 1.\n\n"
        "Your task is to: do it."
    )
    script = {
        "look": "You are in the middle of a room. Looking quickly around you, you see nothing.",
        "go to countertop 1": "You arrive at countertop 1. On the countertop 1, you see a bowl 1, a desklamp 1, "
        "a knife 1, and a mug 2.",
        "go to cabinet 1": "Nothing happens.",  # the agent is there already: both are at one place
        "open cabinet 1": "You open the cabinet 1. The cabinet 1 is open. In it, you see a potato 1.",
        "take knife 1 from countertop 1": "You pick up the knife 1 from the countertop 1.",
        "slice potato 1 with knife 1": "You sliced the potato 1 with the knife 1.",
        "move knife 1 to cabinet 1": "You move the knife 1 to the cabinet 1.",
        "look ": "You are facing the cabinet 1, coffeemachine 1, and countertop 1. Next to it, you see a knife 1.",
        "take potato 1 from cabinet 1": "You pick up the potato 1 from the cabinet 1.",
        "examine potato 1": "This is a sliced potato 1.",
        "go to microwave 1": "You arrive at microwave 1. The microwave 1 is closed.",
        "heat potato 1 with microwave 1": "You heat the potato 1 using the microwave 1.",
        " examine potato 1": "This is a hot sliced potato 1.",
        "go to fridge 1": "You arrive at fridge 1. The fridge 1 is open. In it, you see a mug 1.",
        "move potato 1 to fridge 1": "You move the potato 1 to the fridge 1.",
    }
    for command, answer in script.items():
        assert not engine.won
        assert engine.step(command) == answer
    assert engine.won


def test_a_state_reached_by_two_ways_has_one_key() -> None:
    engine = FastEngine(parse_game(corner()))
    engine.start()
    engine.step("go to fridge 1")
    direct = engine.key()
    for command in ("take mug 1 from fridge 1", "go to sinkbasin 1", "move mug 1 to sinkbasin 1"):
        engine.step(command)
    assert engine.key() != direct
    for command in ("take mug 1 from sinkbasin 1", "go to fridge 1", "move mug 1 to fridge 1"):
        engine.step(command)
    assert engine.key() == direct
    before = engine.state
    engine.step("no such thing")
    assert engine.state is before


def test_different_states_have_different_keys() -> None:
    engine = FastEngine(parse_game(corner()))
    rng = random.Random(0)
    known: dict[str, tuple[str, tuple[str, ...]]] = {}
    engine.start()
    for _ in range(2000):
        engine.step(rng.choice(engine.admissible()))
        state: State = engine.state
        look = engine.step("look")
        assert engine.state is state
        assert known.setdefault(engine.key(), (look, engine.admissible())) == (look, engine.admissible())
    assert len(known) > 200


def test_broken_games_are_told_apart() -> None:
    good = corner()
    for change, words in (
        ({"pddl_problem": good["pddl_problem"][:-30]}, "ends in the middle"),
        ({"pddl_problem": good["pddl_problem"] + ")"}, "too many"),
        ({"pddl_problem": CORNER + ")"}, "no :goal"),
        ({"pddl_problem": good["pddl_problem"].replace("isHot", "isGreen")}, "six task types"),
        ({"pddl_problem": good["pddl_problem"].replace("atLocation agent1", "atLocation nobody")}, "agent starts"),
        ({"grammar": ""}, "Your task is to"),
    ):
        with pytest.raises(BadGame, match=words):
            parse_game({**good, **change})
    with pytest.raises(BadGame, match="pddl_problem and grammar"):
        parse_game({})
    with pytest.raises(BadGame):
        build_game(Problem({}, [], ["and"]), "", "")
