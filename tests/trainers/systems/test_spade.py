"""SPADE: the designer's reward by hand, what is learned from, the pool's life, exact resume, both kinds of designer."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.envs.core.errors import InvalidArgument
from sandlot.envs.selfplay.designer import GrammarDesigner
from sandlot.envs.selfplay.gates import Gates, GateSettings
from sandlot.envs.selfplay.pool import Pool
from sandlot.harness.context import History
from sandlot.harness.designer import write_blocks
from sandlot.harness.loop import EnvMaker, Limits, Rollout
from sandlot.harness.policies.reader import ReaderPolicy
from sandlot.harness.policies.scripted import ScriptedPolicy
from sandlot.harness.records import Group
from sandlot.harness.runs import RunFolder
from sandlot.trainers.codesign import HINT, Codesign
from sandlot.trainers.designers import Proposal
from sandlot.trainers.estimators import GRPO
from sandlot.trainers.grammar_role import GrammarRole
from sandlot.trainers.loop import Schedule, train
from sandlot.trainers.methods import make_recipe
from sandlot.trainers.model_role import ModelRole
from sandlot.trainers.systems.spade import SPADE, DesignReward

TAGS = ("locks", "dialogue")
EASY: dict[str, Any] = {"chance": 0.45, "constant": 0.61}
OPTIONS: dict[str, Any] = {
    **EASY,
    **{"dialect": "harbour", "mechanics": TAGS, "hardest": 3},
    **{"groups": 2, "group_size": 4, "hinted": 2, "designs": 2, "lr": 0.1},
}
few = settings(max_examples=60, deadline=None)
unit = st.floats(0, 1)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pool of three easy programs."""
    folder = tmp_path_factory.mktemp("pool") / "pool"
    designer = GrammarDesigner(3, TAGS, dialect="harbour")
    with Gates(settings=GateSettings(**EASY)) as gates, Pool(folder) as pool:
        for number, tags in enumerate((("locks",), ("dialogue",), ("dialogue", "locks"))):
            program = designer.compose(number, difficulty=2, tags=tags)
            verdict = gates.check(program, pool.known())
            assert verdict.passed, verdict.report()
            pool.add(program, verdict)
    return folder


@pytest.fixture
def pool(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "pool")


def rollout(folder: Path) -> Rollout:
    env = EnvMaker("sandlot/SelfPlay-v0", {"pool": str(folder), "split": "train"})
    return Rollout(env, context=History(window=0, brief=True), limits=Limits(concurrency=1))


def run(folder: Path, steps: int, log: RunFolder | None = None, *, resume: bool = False, **options: Any) -> Any:
    recipe, how, policy = make_recipe("spade", **{**OPTIONS, **options}), rollout(folder), ReaderPolicy()
    history = train(recipe, policy, how, how.env.tasks(), Schedule(steps, seed=5), run=log, resume=resume)
    return policy, recipe.replay, history


def started(folder: Path, **options: Any) -> Codesign:
    recipe = make_recipe("spade", **{**OPTIONS, **options})
    assert recipe.make_sampler is not None
    sampler = recipe.make_sampler(rollout(folder).env.tasks(), recipe.groups, recipe.group_size, 0)
    assert isinstance(sampler, Codesign)
    return sampler


# -- the designer's reward --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hinted", "plain", "worth"), [(1, 1, 0), (1, 0.5, 0.5), (1, 0, 1), (0, 0, 0), (0.5, 0.6, 0), (0.4, 0, 0)]
)
def test_the_designers_reward_by_hand(hinted: float, plain: float, worth: float) -> None:
    # regret = clip(hinted - plain, 0, 1); 0 where the hinted mean is below .5; (.5, .6) is -.1, clipped
    assert DesignReward()(hinted, plain, 0.0) == worth
    # novelty .3 at weight .1 adds .03 to feasible designs only
    assert DesignReward()(hinted, plain, 0.3) == pytest.approx(worth + 0.03 if hinted >= 0.5 else 0.0)


def test_a_refused_design_costs_its_penalty(pool: Path) -> None:
    sampler = started(pool)
    sampler.open = [Proposal(""), Proposal("0123456789ab", 1.0, hinted=[1.0, 1.0], plain=[1.0, 0.0])]
    sampler.observe([])
    # refused: -.5; the other: 1 - .5 + .1 x 1
    assert [reward for _, reward in sampler.ready] == pytest.approx([-0.5, 0.6])
    assert sampler.open == []


@few
@given(hinted=unit, plain=unit, more=unit, novelty=unit)
def test_the_reward_is_bounded_and_falls_as_the_learner_gets_better(
    hinted: float, plain: float, more: float, novelty: float
) -> None:
    reward = DesignReward()
    assert 0.0 <= reward(hinted, plain, novelty) <= 1.1
    assert reward(hinted, max(plain, more), novelty) <= reward(hinted, min(plain, more), novelty)
    assert hinted >= 0.5 or reward(hinted, plain, novelty) == 0.0


# -- what is learned from ---------------------------------------------------------------------------------------------


def test_hinted_groups_are_measured_and_not_learned_from(returns: Any, first: Any) -> None:
    plain, hinted, designs = returns(1, 0), returns(1, 0), returns(0.6, -0.5)
    hinted.mode, designs.mode = HINT, "designer"
    found = SPADE()([plain, hinted, designs])
    assert [first(rows) for rows in found] == [
        first(GRPO()([plain])[0]),
        [[0.0], [0.0]],
        first(GRPO()([designs])[0]),
    ]


def group(name: str, scores: list[float], episode: Any, *, hint: bool = False) -> Group:
    from sandlot.envs.core.tasks import Task

    task = Task(f"selfplay/{name}/0", "train", {"program": name})
    members = [episode((f"s{i}", "go", score)) for i, score in enumerate(scores)]
    return Group(task, members, mode=HINT if hint else "explore")


def test_a_design_is_rewarded_when_it_was_played_both_ways(pool: Path, episode: Any) -> None:
    sampler = started(pool)
    name = sampler.live[0]
    sampler.open = [Proposal(name)]
    sampler.observe([group(name, [1.0, 0.0], episode)])
    assert sampler.ready == [] and len(sampler.open) == 1  # not measured with the hint yet
    sampler.observe([group(name, [1.0, 1.0], episode, hint=True)])
    assert [reward for _, reward in sampler.ready] == [0.5]


def test_without_hints_an_unplayed_design_is_worth_nothing_yet(pool: Path, episode: Any) -> None:
    sampler = started(pool, hint=False)
    name, void = sampler.live[0], "void"
    lost = group(name, [0.0, 0.0], episode)
    for member in lost.members:
        member.stop = type(member.stop)("fault")
    sampler.open = [Proposal(name)]
    sampler.observe([lost])
    assert sampler.ready == [] and len(sampler.open) == 1, void
    sampler.observe([group(name, [1.0, 0.0, 0.0, 0.0], episode)])
    assert [reward for _, reward in sampler.ready] == [0.75]  # 1 - .25
    assert all(request.mode != HINT for request in sampler.plan(1))


def test_solved_programs_are_retired_and_new_ones_come_first(pool: Path, episode: Any) -> None:
    sampler = started(pool)
    first, second, third = sampler.live
    sampler.observe([group(first, [1.0] * 16, episode)])
    assert sampler.live == [second, third] and sampler.pool.why_retired(first) == "solved"
    sampler.open = [Proposal(third)]
    requests = sampler.plan(1)
    assert [(request.task.params["program"], request.mode) for request in requests] == [
        (third, "explore"),
        (third, HINT),
        (second, "explore"),
        (second, HINT),
    ]
    assert [request.n for request in requests] == [4, 2, 4, 2]
    assert requests[1].task.id == f"{requests[0].task.id}/hint"


def test_programs_are_drawn_that_are_half_known(pool: Path, episode: Any) -> None:
    sampler = started(pool, groups=1)
    easy, half, hopeless = sampler.live
    sampler.observe([group(easy, [1.0] * 8, episode), group(easy, [1.0] * 8, episode, hint=True)])
    sampler.observe([group(half, [0.0, 1.0] * 4, episode), group(half, [1.0] * 8, episode, hint=True)])
    sampler.observe([group(hopeless, [0.0] * 8, episode), group(hopeless, [0.4] * 8, episode, hint=True)])
    # 4 p (1 - p) + .02: .02, 1.02 and .02
    drawn = [sampler.plan(step)[0].task.params["program"] for step in range(200)]
    assert drawn.count(half) > 180
    fixed = started(pool, groups=1, fixed_pool=True)
    drawn = [fixed.plan(step)[0].task.params["program"] for step in range(200)]
    assert min(drawn.count(name) for name in fixed.live) > 40


def test_mistakes_are_told(pool: Path) -> None:
    with pytest.raises(InvalidArgument, match="pool of its own"):
        make_recipe("spade").make_sampler(EnvMaker("sandlot/Corridor-v0").tasks(), 2, 2, 0)  # type: ignore[misc]
    with pytest.raises(InvalidArgument, match="pool of its own"):
        make_recipe("spade").make_sampler(EnvMaker("sandlot/SelfPlay-v0").tasks(), 2, 2, 0)  # type: ignore[misc]
    with pytest.raises(InvalidArgument, match="designer must be one of"):
        started(pool, designer="committee")
    with pytest.raises(InvalidArgument, match="hardest must be from 1 to 10"):
        started(pool, hardest=11)
    with pytest.raises(InvalidArgument, match="did you mean hinted"):
        make_recipe("spade", hinte=1)


# -- whole runs -------------------------------------------------------------------------------------------------------


def test_an_interrupted_run_goes_on_to_the_same_numbers(pool: Path, tmp_path: Path) -> None:
    twin = shutil.copytree(pool, tmp_path / "twin")
    policy, sampler, history = run(pool, 2)
    log = RunFolder.create("spade", {}, root=tmp_path)
    run(twin, 1, log)
    with Pool(twin) as opened:  # killed in the second step, after it has written to the pool
        name = opened.ids("train")[0]
        opened.record(name, hinted=[1.0], plain=[1.0])
        opened.retire(name, "solved")
    again, resumed, rest = run(twin, 2, log, resume=True)
    assert torch.equal(policy.weights, again.weights)
    untimed = [{key: value for key, value in step.items() if not key.startswith("time/")} for step in history]
    assert untimed == [{key: value for key, value in step.items() if not key.startswith("time/")} for step in rest]
    assert sampler.state_dict() == resumed.state_dict()
    with Pool(pool) as one, Pool(twin) as other:
        for table in ("programs", "plays", "memory"):
            assert list(one.table(table)) == list(other.table(table))


def test_a_fixed_pool_stays_as_it_was(pool: Path) -> None:
    with Pool(pool) as opened:
        before = opened.version
    _, _, history = run(pool, 1, fixed_pool=True)
    with Pool(pool) as opened:
        assert opened.version == before
    assert "design/reward" not in history[0] and "design/hinted" not in history[0] and history[0]["design/pool"] == 3


# -- the grammar designer's policy ------------------------------------------------------------------------------------


def role(**options: Any) -> GrammarRole:
    designer = GrammarDesigner(0, ("navigation", "locks", "hidden_rule", "dialogue"), dialect="harbour")
    return GrammarRole(designer, **options)


@few
@given(
    sizes=st.lists(st.floats(-3, 3), min_size=2, max_size=2),
    tags=st.lists(st.floats(-3, 3), min_size=4, max_size=4),
    explore=st.floats(0.01, 1.0),
    seed=st.integers(0, 99),
)
def test_the_gradient_is_that_of_the_log_probability(
    sizes: list[float], tags: list[float], explore: float, seed: int
) -> None:
    designer = role(hardest=6, explore=explore)
    designer.sizes, designer.tags = np.array(sizes), np.array(tags)
    size, drawn = designer.draw(np.random.default_rng(seed))

    def logp() -> float:
        total, left = np.log(designer.difficulties[size - 1]), [0, 1, 2, 3]
        for tag in drawn:
            chosen = designer.designer.mechanics.index(tag)
            total += np.log(designer.mixed(designer.tags[left])[left.index(chosen)])
            left.remove(chosen)
        return float(total)

    assert designer.difficulties.sum() == pytest.approx(1.0)
    assert designer.difficulties.min() >= explore / 6 * (1 - 1e-9)
    for row, found in zip((designer.sizes, designer.tags), designer.gradient(size, drawn)):
        for i in range(len(row)):
            row[i] += 1e-5
            above = logp()
            row[i] -= 2e-5
            below = logp()
            row[i] += 1e-5
            assert found[i] == pytest.approx((above - below) / 2e-5, abs=1e-4)


def test_one_step_of_the_designer_by_hand() -> None:
    # Two sizes, x = (-1, 1), no exploration, p = (.5, .5). Rewards 1 and 0 are +-.7071 (ddof 1).
    # x . (onehot - p): -1 for the first, +1 for the second; a moves by the mean, (.7071 x -1 - .7071 x 1) / 2 = -.7071.
    # x^2 is 1 for both, so that b stands still.
    designer = role(hardest=2, explore=0.0, lr=1.0)
    designer.learn([Proposal("a", difficulty=1, tags=("locks",)), Proposal("b", difficulty=2, tags=("locks",))], [1, 0])
    assert designer.sizes == pytest.approx([-0.7071, 0.0], abs=1e-4)
    assert designer.tags == pytest.approx([0, 0, 0, 0])  # the same mechanic in both: the moves cancel


@pytest.mark.parametrize("seed", range(3))
def test_the_difficulty_follows_a_learner_that_gets_better(seed: int) -> None:
    """A stand-in for the solver: it does d + 1 things right with p each; a hint makes each likelier."""
    designer, rng, reward = role(seed=seed), np.random.default_rng(seed), DesignReward()
    aims = []
    for skill in (0.4, 0.95):
        for _ in range(150):
            drawn = [Proposal("x", 0.0, *designer.draw(rng)) for _ in range(4)]
            worth = []
            for proposal in drawn:
                assert proposal.difficulty is not None
                things = proposal.difficulty + 1
                plain, hinted = (
                    rng.binomial(8, p**things) / 8 for p in (skill, (3 * skill + 1) / 4 if skill < 0.9 else 0.99)
                )
                worth.append(reward(float(hinted), float(plain), 0.0))
            designer.learn(drawn, worth)
        aims.append(designer.metrics()["aim"])
    assert aims[1] > aims[0] + 1.5, aims


# -- a model as the designer ------------------------------------------------------------------------------------------


def test_a_model_designs_and_is_trained_on_its_answers(pool: Path) -> None:
    good = GrammarDesigner(9, ("hidden_rule",), dialect="harbour").compose(1, difficulty=2)
    writer = ScriptedPolicy(lambda context: write_blocks(good) if context.session.endswith("/0") else "I cannot.")
    designer = ModelRole(GateSettings(**EASY), repairs=0, seed=1)
    with Pool(pool) as opened:
        proposals = designer.propose(writer, opened, 2, 4, memory=True)
        accepted, refused = proposals
        assert opened.get(accepted.program_id).id == good.id and accepted.novelty > 0 and accepted.difficulty == 2
        assert refused.program_id == "" and opened.memory(9)[-1].outcome == "manifest"
        # once more: what the pool has already is no new design
        (again,) = ModelRole(GateSettings(**EASY), repairs=0, seed=1).propose(writer, opened, 1, 5, memory=False)
        assert again.program_id == "" and opened.memory(9)[-1].outcome == "same_structure"
    restored = [Proposal.from_dict(proposal.to_dict()) for proposal in proposals]  # as a resumed run has them
    for some in (proposals, restored):
        (found,) = designer.learn(some, [0.6, -0.5])
        assert found.mode == "designer" and [member.reward for member in found.members] == [0.6, -0.5]
        assert found.members[0].turns[0].call.text == write_blocks(good)
        assert [member.success for member in found.members] == [True, False]
    assert (
        ModelRole(policy=writer).learn(restored, [0.6, -0.5]) == []
    )  # another policy's answers teach this one nothing
