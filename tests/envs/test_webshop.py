"""`sandlot/WebShop-v0`: modes, refusals, progress, keys, agents with and without privileges, leaks, `compat`."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from statistics import mean, median
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.envs import make
from sandlot.envs.core import InvalidArgument, check_text_env
from sandlot.envs.webshop.env import MODES, WebShopEnv
from sandlot.envs.webshop.expert import Expert, keywords, searches
from sandlot.harness.loop import EnvMaker, Limits, Rollout, play
from sandlot.harness.policies.scripted import NoopPolicy, OraclePolicy, RandomPolicy

TASK = "webshop/gen1-4000-0/human/train/15587"


def start(task: str = TASK, **arguments: Any) -> WebShopEnv:
    env = make("WebShop", **arguments)
    assert isinstance(env, WebShopEnv)
    env.reset(options={"task": task})
    return env


def scores(policy: Any, n: int = 60, **arguments: Any) -> list[float]:
    maker = EnvMaker("WebShop", arguments)
    played = play(policy, maker.tasks().first(n), Rollout(maker, limits=Limits(concurrency=16)), seed=1)
    return [trajectory.last_info["score"] for trajectory in played]


def steps(env: WebShopEnv, actions: Iterator[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    for action in actions:
        observation, _, terminated, _, info = env.step(action)
        assert info["valid"], f"{action}: {observation}"
        yield observation, info
        if terminated:
            return


@pytest.mark.parametrize("arguments", [{"suggestions": 4}, {"mode": "text_rich"}, {"compat": "princeton"}], ids=str)
def test_variants_keep_the_contract(arguments: dict[str, Any]) -> None:
    names = ["info_is_step_info", "invalid_actions_change_nothing", "snapshots_restore", "equal_keys_mean_equal_states"]
    names += ["oracle_solves", "deterministic", "privileged_calls_leave_no_trace", "doing_nothing_fails"]
    names += ["admissible_actions_are_valid"] if "suggestions" in arguments else []
    report = check_text_env("sandlot/WebShop-v0", only=names, **arguments)
    assert report.ok, report


def test_the_oracle_buys_what_is_wanted_from_anywhere() -> None:
    assert scores(OraclePolicy()) == [1.0] * 60
    assert mean(score == 1.0 for score in scores(OraclePolicy(noise=0.2), suggestions=4)) > 0.6  # some buy by chance


def test_shopping_without_looking_is_far_from_the_oracle() -> None:
    assert scores(NoopPolicy()) == [0.0] * 60
    assert mean(scores(RandomPolicy())) == 0.0  # random letters are no search
    chance = scores(RandomPolicy(), suggestions=4)
    assert mean(chance) < 0.3 and mean(score == 1.0 for score in chance) < 0.1
    first_hit = scores(OraclePolicy("rule"))
    assert mean(first_hit) < 0.7 and mean(score == 1.0 for score in first_hit) < 0.05


def test_the_expert_shops_well_without_privileges() -> None:
    for split in ("train", "test"):
        reached = scores(OraclePolicy("expert"), split=split)
        assert mean(reached) > 0.8 and 0.5 < mean(score == 1.0 for score in reached) < 1.0


def test_the_expert_needs_the_instruction_and_the_pages_only() -> None:
    env, other = start(), start()
    asked = env.expert()
    reader = Expert(other.reset(options={"task": TASK})[1]["instruction"])
    for action in asked:
        assert reader.act(other.page) == action
        assert env.step(action)[0] == other.step(action)[0]


def test_progress_rises_to_one_on_the_way_of_the_oracle() -> None:
    env = start()
    assert env.verify() == {"kind": 0.0, "attributes": 0.0, "options": 0.0, "price": 0.0, "bought": 0.0}
    seen = [info["progress"] for _, info in steps(env, env.oracle())]
    # Search: 0. The product: kind, attributes and price, 3/5. Each of its two options: a tenth. The purchase: 1.
    assert seen == pytest.approx([0.0, 0.6, 0.7, 0.8, 1.0])
    assert set(env.verify().values()) == {1.0}


def test_a_wrong_purchase_ends_the_episode_with_its_share() -> None:
    env = start()
    shown = [observation for _, (observation, _) in zip(range(2), steps(env, env.oracle()), strict=False)]
    assert "Buy Now" in shown[-1]
    _, reward, terminated, _, info = env.step("click[buy now]")
    # Three attributes and the price, but neither of two options: 4 / 6.
    assert (reward, terminated, info["success"]) == (pytest.approx(4 / 6), True, False)
    assert info["score"] == reward and info["admissible"] == () and info["page_kind"] == "done"


def test_refusals_say_why_and_show_the_same_page() -> None:
    env = start()
    first = env.reset(options={"task": TASK})[0]
    observation, reward, _, _, info = env.step("click[buy now]")
    assert observation == f"There is no 'buy now' to click here.\n{first}"
    assert (reward, info["valid"]) == (0.0, False)
    env.step("search[dog leash]")
    assert env.step("search[cat]")[0].startswith("There is no search bar here")
    while True:
        observation, _, _, _, info = env.step("click[next >]")
        if not info["valid"]:
            break
    assert observation.startswith("These are the last results.")
    assert "click[next >]" not in info["admissible"] and "click[< prev]" in info["admissible"]


def test_every_mode_shows_the_page_and_none_of_the_goal() -> None:
    for mode in MODES:
        env = start(mode=mode)
        goal = env.session.goal
        secrets = (goal.asin, goal.title, f"{goal.attributes}")
        shown: list[Any] = [*env.reset(options={"task": TASK})]
        for action in ("search[yoga mat]", f"click[{_first(env, 'yoga mat')}]", "click[features]", "click[< prev]"):
            shown += env.step(action)
        last = env.step("click[buy now]")
        shown += last
        assert last[2] and last[1] < 1.0
        text = repr(shown)
        assert not [secret for secret in secrets if secret in text], mode


def _first(env: WebShopEnv, query: str) -> str:
    number = env.shop.index.search(query)[0]
    return env.shop.catalogue.product(number).asin.lower()


def test_state_keys_name_page_query_product_and_options() -> None:
    env = start()
    keys: dict[str, str] = {}

    def key(*actions: str) -> str:
        env.reset(options={"task": TASK})
        for action in actions:
            assert env.step(action)[4]["valid"], action
        return env.step("")[4]["state_key"]

    leash = _first(env, "dog leash")
    color, length = (values for _, values in env.shop.catalogue.find(leash.upper()).options)
    there = ("search[dog leash]", f"click[{leash}]")
    paths = [(), there[:1], ("search[dog]",), (*there[:1], "click[next >]"), there, (*there, f"click[{color[0]}]")]
    paths += [(*there, f"click[{color[1]}]"), (*there, "click[features]"), (*there, "click[buy now]")]
    for path in paths:
        keys[key(*path)] = repr(path)
    assert len(keys) == len(paths)
    same = (f"click[{color[0]}]", f"click[{length[0]}]")
    assert key(*there, *same) == key(*there, "click[reviews]", "click[< prev]", *same)
    assert key(*there, "click[< prev]") == key(*there[:1])
    assert key(*there, "click[back to search]") == key()


def test_suggestions_come_from_the_instruction_only() -> None:
    text = "i am looking for a non slip pair of running shoes in navy, and price lower than 40.00 dollars"
    assert keywords(text) == ["non", "slip", "pair", "running", "shoes", "navy"]
    assert searches(text, 3) == ("non slip pair running shoes navy", "non slip pair", "slip pair running")
    assert searches(text, 0) == ()
    for query in searches(text, 16):
        assert set(query.split()) <= set(keywords(text))
    env = start(suggestions=5)
    info = env.reset(options={"task": TASK})[1]
    assert len(info["admissible"]) == 5 and all(action.startswith("search[") for action in info["admissible"])
    assert env.step(info["admissible"][0])[4]["valid"]


def test_pages_of_results_are_as_long_as_asked_for() -> None:
    env, usual = start(per_page=3), start()
    for shop in (env, usual):
        shop.step(f"search[{env.session.goal.query}]")
    found = [card.asin for card in usual.page.cards]
    seen = []
    for _ in range(4):
        seen += [card.asin for card in env.page.cards]
        env.step("click[next >]")
    assert len(found) == 10 and len(seen) == 12 and seen[:10] == found
    while env.step("click[next >]")[-1]["valid"]:
        pass
    assert env.page.number == 17 and len(env.page.cards) == 2  # 50 results: 16 pages of 3, and 2 more
    assert scores(OraclePolicy(), 20, per_page=1) == [1.0] * 20


def test_compat_opens_what_the_original_allows() -> None:
    env = start(compat="princeton")
    first = env.reset(options={"task": TASK})[0]
    assert env.step("nonsense")[0] == first  # no word of refusal
    env.step("search[yoga mat]")
    env.step(f"click[{_first(env, 'yoga mat')}]")
    _, reward, terminated, _, _ = env.step("click[buy now]")
    assert terminated and reward < 1.0
    _, _, terminated, _, info = env.step("search[dog leash]")
    assert not terminated and info["valid"]
    further = [env.step("click[next >]") for _ in range(7)]
    assert all(info["valid"] for *_, info in further)
    assert "Page 8 (Total results: 50)" in further[-1][0]
    assert [info["success"] for _, info in steps(env, env.oracle())][-1]


def test_an_episode_is_a_small_value() -> None:
    env = start()
    for _ in zip(range(3), steps(env, env.oracle()), strict=False):
        pass
    snapshot = env.snapshot()
    assert len(pickle.dumps(snapshot)) < 8_000
    other = make("WebShop")
    assert other.restore(pickle.loads(pickle.dumps(snapshot))) == env.restore(snapshot)


def test_wrong_arguments_are_users_mistakes() -> None:
    for arguments in (
        {"mode": "picture"},
        {"compat": "yes"},
        {"suggestions": 17},
        {"suggestions": True},
        {"per_page": 0},
        {"per_page": 51},
    ):
        with pytest.raises(InvalidArgument, match=next(iter(arguments))):
            make("WebShop", **arguments)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(st.text(max_size=60), st.text(max_size=30).map("search[{}]".format)), max_size=6))
def test_hostile_text_is_answered(actions: list[str]) -> None:
    env = start(suggestions=2)
    for action in actions:
        observation, reward, terminated, _, info = env.step(action)
        assert observation and reward == 0.0 and not terminated
        assert env.canonical(env.canonical(action)) == env.canonical(action)
        assert info["valid"] or info["score"] == 0.0


def test_a_step_is_fast() -> None:
    """A fifth of a millisecond on a quiet machine (benchmarks/webshop.py); ten times that here."""
    env, rng, taken = start(suggestions=3), np.random.default_rng(0), []
    for seed in range(30):
        _, info = env.reset(seed=seed)
        while info["admissible"]:
            action = info["admissible"][int(rng.integers(len(info["admissible"])))]
            began = time.process_time()
            *_, info = env.step(action)
            taken.append(time.process_time() - began)
            if len(taken) % 15 == 0:
                break
    assert median(taken) < 0.002
