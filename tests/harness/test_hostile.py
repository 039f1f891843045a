"""Whatever a model says, an episode goes on to its step limit, earns nothing, and stays small in prompts and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sandlot.envs.core import MissingData, MissingExtra
from sandlot.harness.codec import CODECS, make_codec
from sandlot.harness.context import FullHistory, Window
from sandlot.harness.context.builders import MakeContext
from sandlot.harness.loop import EnvMaker, Rollout, play
from sandlot.harness.policies.scripted import ScriptedPolicy
from sandlot.harness.policy import MAX_TEXT, Policy, Sampling
from sandlot.harness.records import StopReason, Trajectory
from sandlot.harness.runs import RunFolder

TURNS = 4
OBSERVATION = 8_000  # characters; more than either environment shows here
HOSTILE = {
    "nothing": "",
    "space": " \n\t" * 1000,
    "megabytes": "x" * 10_000_000,
    "NUL": "\x00" * 10_000_000,
    "control": "".join(map(chr, (*range(32), *range(127, 160)))) + "\x1b[2J\x1b]0;title\x07\r\b\u202e",
    "surrogates": "\udfff\ud800 push \udc00" * 3,
    "closing tags": "</action>" * 1_000_000,
    "opening tags": "<action>" * 1_000_000,
    "tags of nothing": "<think></think><action></action>" * 1000,
    "brackets": '{"action":' * 1_000_000,
}
ENVS: dict[str, dict[str, Any]] = {
    "sandlot/Corridor-v0": {"max_steps": TURNS},
    "sandlot/ALFWorld-v0": {"max_steps": TURNS, "source": "generated"},
}


def play_two(
    env_id: str, policy: Policy, folder: Path, *, codec: str | None = None, context: MakeContext = FullHistory
) -> tuple[list[Trajectory], RunFolder]:
    """Two episodes at once, recorded as a run records them."""
    maker = EnvMaker(env_id, ENVS[env_id])
    try:
        env = maker()
        tasks = env.tasks.first(2)
        env.close()
    except (MissingExtra, MissingData) as error:
        pytest.skip(f"cannot run here: {error}")
    run = RunFolder.create("hostile", {}, root=folder)
    rollout = Rollout(maker, context=context, parse=make_codec(codec) if codec else None)
    return play(policy, tasks, rollout, on_trajectory=run.trajectory), run


def fails_at_the_limit(trajectory: Trajectory) -> None:
    assert trajectory.stop is StopReason.STEP_LIMIT
    assert len(trajectory.turns) == TURNS
    assert (trajectory.success, trajectory.last_info["score"], trajectory.reward) == (False, 0.0, 0.0)
    assert not any(turn.valid for turn in trajectory.turns)


def prompt_sizes(trajectory: Trajectory) -> list[int]:
    return [sum(len(message.text) for message in call.context.messages) for call in trajectory.calls]


@pytest.mark.parametrize("codec", [None, *CODECS])
@pytest.mark.parametrize("env_id", ENVS)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_earns_nothing_and_stays_small(name: str, env_id: str, codec: str | None, tmp_path: Path) -> None:
    said = HOSTILE[name]
    episodes, run = play_two(env_id, ScriptedPolicy([said]), tmp_path, codec=codec)
    kept = said[:MAX_TEXT]
    for episode in episodes:
        fails_at_the_limit(episode)
        assert {call.text for call in episode.calls} == {kept}
        assert {call.finish for call in episode.calls} == {"length" if len(said) > MAX_TEXT else "stop"}
        # before the last turn: the first observation, then per turn what was said and what was answered
        assert prompt_sizes(episode)[-1] <= OBSERVATION + (TURNS - 1) * (len(kept) + OBSERVATION)
    # a text is stored as the call's, the action's and the next prompt's; escaped, a character takes six bytes at most
    facts = 2 * TURNS * 20_000
    assert run.calls.stat().st_size <= 2 * TURNS * 3 * 6 * len(kept) + facts

    back = {trajectory.id: trajectory for trajectory in run.trajectories()}
    assert set(back) == {episode.id for episode in episodes}
    for episode in episodes:
        again = back[episode.id]
        fails_at_the_limit(again)
        assert [call.text for call in again.calls] == [call.text for call in episode.calls]
        assert [turn.action for turn in again.turns] == [turn.action for turn in episode.turns]
        assert [call.context.messages for call in again.calls] == [call.context.messages for call in episode.calls]


def test_a_window_keeps_prompts_constant(tmp_path: Path) -> None:
    policy = ScriptedPolicy([HOSTILE["megabytes"]])
    episodes, _ = play_two("sandlot/Corridor-v0", policy, tmp_path, context=lambda: Window(1))
    for episode in episodes:
        sizes = prompt_sizes(episode)
        assert sizes[0] < OBSERVATION
        assert all(MAX_TEXT < size < MAX_TEXT + 2 * OBSERVATION for size in sizes[1:])


def test_a_model_of_many_moods(tmp_path: Path) -> None:
    texts = list(HOSTILE.values())
    for first in range(len(texts)):
        policy = ScriptedPolicy([*texts[first:], *texts[:first]])
        episodes, run = play_two("sandlot/Corridor-v0", policy, tmp_path)
        assert len(list(run.trajectories())) == 2
        for episode in episodes:
            fails_at_the_limit(episode)


def test_a_model_that_never_ends_is_cut_off(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from sandlot.harness.policies.hf import HFPolicy
    from sandlot.harness.policies.tiny import build_word_tokenizer, tiny_llama

    tokenizer = build_word_tokenizer(["a row of rooms"])
    model = tiny_llama(len(tokenizer), d_model=16, layers=1, heads=2)
    policy = HFPolicy(model, tokenizer, device="cpu")

    def without_stop(_module: Any, _arguments: Any, logits: Any) -> Any:
        return logits.index_fill(-1, torch.tensor([policy.format.stop]), -torch.inf)

    model.lm_head.register_forward_hook(without_stop)
    maker = EnvMaker("sandlot/Corridor-v0", ENVS["sandlot/Corridor-v0"])
    run = RunFolder.create("endless", {}, root=tmp_path)
    rollout = Rollout(maker, Sampling(max_tokens=12), parse=make_codec("tags"))
    episodes = play(policy, maker().tasks.first(2), rollout, on_trajectory=run.trajectory)
    for episode in episodes:
        fails_at_the_limit(episode)
        assert {call.finish for call in episode.calls} == {"length"}
        assert all(len(call.completion_ids) == 12 for call in episode.calls)
    assert [trajectory.success for trajectory in run.trajectories()] == [False, False]
