"""The grammar designer and the starter pool: what it writes is sound, readable, varied, and the same every time."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.envs.core.errors import InvalidArgument
from sandlot.envs.selfplay.blueprint import Blueprint
from sandlot.envs.selfplay.designer import OPERATIONS, GrammarDesigner
from sandlot.envs.selfplay.gates import Gates
from sandlot.envs.selfplay.grammar import Grammar
from sandlot.envs.selfplay.mechanics import LEVELS, MECHANICS
from sandlot.envs.selfplay.pool import STARTER
from sandlot.envs.selfplay.program import Lineage, Program, ProgramError
from sandlot.envs.selfplay.signature import Known
from sandlot.envs.selfplay.source import check_source
from sandlot.envs.selfplay.starter_pool import designs

DESIGNER = GrammarDesigner(seed=3)
FILES = sorted(path for path in STARTER.rglob("*.toml") if Program.load(path).lineage.designer == "grammar")


def classes(program: Program) -> tuple[Any, Any]:
    """The program's two classes, in this process: what our own designer writes is ours."""
    spaces: list[dict[str, Any]] = [{}, {}]
    exec(program.source, spaces[0])
    exec(program.manifest.solution, spaces[1])
    return spaces[0]["Game"], spaces[1]["Solution"]


def plays_through(program: Program, seeds: range) -> None:
    """The solution wins on these seeds within the horizon, with actions that are listed and of the grammar."""
    game_class, solution_class = classes(program)
    grammar = Grammar(program.manifest.actions)
    for seed in seeds:
        game, solution = game_class(), solution_class()
        observation, reward, ended, taken, action = game.reset(seed), 0.0, False, 0, ""
        solution.start(seed)
        while not ended:
            action = solution.act(observation)
            assert action in game.actions() and len(game.actions()) <= 64
            assert all(grammar.accepts(listed) for listed in game.actions())
            observation, reward, ended = game.step(action)
            taken += 1
        assert (reward, ended) == (1.0, True) and taken <= program.manifest.horizon
        assert f"Turn {taken:02}: {action}" in solution.hint(seed)


@pytest.mark.parametrize("tag", MECHANICS)
def test_every_mechanic_at_every_level(tag: str) -> None:
    lengths = []
    for level in LEVELS:
        program = DESIGNER.compose(level, difficulty=level, tags=(tag,))
        assert not [*check_source(program.source, "Game"), *check_source(program.manifest.solution, "Solution")]
        assert not program.problems()
        assert program.manifest.mechanics == (tag,)
        plays_through(program, range(15))
        lengths.append(Blueprint.read(program).longest())
        game_class, _ = classes(program)
        rng, wins = random.Random(0), 0.0
        for seed in range(100):
            game = game_class()
            game.reset(seed)
            ended = False
            while not ended:
                _, reward, ended = game.step(rng.choice(game.actions()))
                wins += reward
        assert wins / 100 < 0.1
    assert lengths == sorted(lengths) and lengths[-1] > lengths[0]


@given(number=st.integers(0, 10**6), operation=st.sampled_from((*OPERATIONS, None, "cross")))
@settings(max_examples=15, deadline=None)
def test_designs_are_sound_and_remember_where_they_come_from(number: int, operation: str | None) -> None:
    parent = DESIGNER.compose(number)
    try:
        if operation == "cross":
            child = DESIGNER.cross(parent, DESIGNER.compose(number + 1), number, generation=4)
        else:
            child = DESIGNER.mutate(parent, number, operation, generation=4)
    except ProgramError:
        assert operation is not None
        return
    plays_through(child, range(3))
    assert child.id != parent.id and child.lineage.parents[0] == parent.id
    assert child.lineage.generation == 4 and child.lineage.operation.startswith(("mutate: ", "cross"))
    old, new = Blueprint.read(parent), Blueprint.read(child)
    if operation in ("harder", "easier"):
        assert new.difficulty - old.difficulty == (1 if operation == "harder" else -1)
    if operation in ("add", "drop"):
        assert len(new.stages) - len(old.stages) == (1 if operation == "add" else -1)
    assert "recall" not in new.tags[:-1]  # it asks for what the stages before it gave


def test_the_same_arguments_give_the_same_program() -> None:
    assert GrammarDesigner(5).compose(9) == GrammarDesigner(5).compose(9) != GrammarDesigner(6).compose(9)
    one, other = DESIGNER.compose(1), DESIGNER.compose(2)
    assert DESIGNER.cross(one, other, 3) == DESIGNER.cross(one, other, 3)
    assert DESIGNER.compose(4, difficulty=7).manifest.title


def test_a_dialect_means_the_same_in_all_programs() -> None:
    designer = GrammarDesigner(1, mechanics=("locks",), dialect="harbour")
    stages = [Blueprint.read(designer.compose(n, difficulty=1 + n % 5)).stages[0].parameters for n in range(20)]
    opens = {pair for parameters in stages for pair in parameters["opens"].items()}
    assert len(opens) == len(dict(opens)) == 8  # a mark never has another key
    assert all(len(set(parameters["metals"])) >= 2 for parameters in stages)
    drawn = {str(Blueprint.read(DESIGNER.compose(n, difficulty=2, tags=("locks",)))) for n in range(8)}
    assert len(drawn) > 1


def test_notes_of_earlier_stages_are_asked_for() -> None:
    program = DESIGNER.compose(0, difficulty=2, tags=("locks", "recall"))
    space: dict[str, Any] = {}
    exec(program.source, space)
    words, stages = space["make_stages"](11)
    assert stages[1].secret == [words[0], *stages[1].shown]


def test_mistakes_are_told() -> None:
    with pytest.raises(InvalidArgument, match="no mechanics"):
        GrammarDesigner(mechanics=("flying",))
    with pytest.raises(InvalidArgument, match="difficulty of 9"):
        DESIGNER.compose(0, difficulty=9, tags=("locks",))
    foreign = Program("class Game:\n    pass", DESIGNER.compose(0).manifest, Lineage())
    with pytest.raises(ProgramError, match="not made by the grammar designer"):
        DESIGNER.mutate(foreign, 0)
    with pytest.raises(ProgramError, match="cannot be changed by drop"):
        DESIGNER.mutate(DESIGNER.compose(0, tags=("locks",)), 0, "drop")


def test_the_starter_pool_is_varied_and_can_be_made_again() -> None:
    made = {program.id: role for role, program in designs()}
    shipped = {Program.load(path).id: path.parent.name for path in FILES}
    assert shipped.items() <= made.items()  # whatever a gate refused is not shipped
    roles = list(shipped.values())
    assert len(roles) >= 40 and roles.count("train") >= 28
    assert min(roles.count("valid_unseen"), roles.count("test")) >= 6
    tags = [frozenset(Program.load(path).manifest.mechanics) for path in FILES]
    assert set().union(*tags) == set(MECHANICS) and len(set(tags)) >= 35
    assert {Program.load(path).lineage.operation.split(":")[0] for path in FILES} == {"compose", "mutate", "cross"}


def test_a_sample_of_the_starter_pool_passes_all_gates() -> None:
    with Gates() as gates:
        for path in FILES[::16]:
            assert gates.check(Program.load(path)).report() == ""


@pytest.mark.slow
def test_all_of_the_starter_pool_passes_all_gates() -> None:
    known: list[Known] = []
    with Gates() as gates:
        for path in sorted(STARTER.rglob("*.toml")):
            verdict = gates.check(Program.load(path), known)
            assert verdict.report() == "", path
            assert verdict.signature is not None
            known.append(Known(verdict.program_id, verdict.signature))


@pytest.mark.slow
def test_new_designs_pass_most_of_the_time() -> None:
    with Gates() as gates:
        passed = [gates.check(GrammarDesigner(11).compose(number)).passed for number in range(30)]
    assert sum(passed) >= 24
