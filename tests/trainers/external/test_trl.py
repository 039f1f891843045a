"""TRL's GRPOTrainer on sandlot environments: the contract with the real package, and the parts that need no package."""

from __future__ import annotations

import copy
import gc
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.envs.core import EnvironmentFault, InvalidArgument, ListTasks, Outcome, Task, TextEnv, UnknownTask
from sandlot.envs.toys.corridor import Corridor
from sandlot.harness.loop import Limits
from sandlot.harness.records import Call, Context, Group, StopReason, Trajectory, Turn
from sandlot.trainers.estimators import GRPO
from sandlot.trainers.external.trl import (
    OVER,
    TOOL_INSTRUCTION,
    EnvironmentFactory,
    Row,
    ToolEnvironment,
    environment_factory,
    environment_return,
    episode_row,
    rollout_func,
    train_dataset,
)

pytestmark = [  # transformers' and torch's own
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:'pin_memory' argument"),
]

ENV = "sandlot/Corridor-v0"


class Stairs(TextEnv):
    """Three steps up; "break" is a crash of the infrastructure, "bug" one of the environment."""

    live = 0

    def __init__(self, broken_resets: int = 0, max_steps: int = 10) -> None:
        super().__init__(ListTasks([Task("stairs-0", "train")]), max_steps=max_steps)
        self.broken_resets = broken_resets
        self.height = 0
        self.open = True
        type(self).live += 1

    def _reset(self, task: Task) -> str:
        if self.broken_resets:
            raise EnvironmentFault("no server")
        self.height = 0
        return "at the bottom"

    def _step(self, action: str) -> Outcome:
        if action == "break":
            raise EnvironmentFault("server lost")
        if action == "bug":
            raise ZeroDivisionError
        if action != "up":
            return Outcome("You can only go up.", valid=False)
        self.height += 1
        return Outcome(f"at {self.height}", 0.5, self.height == 3)

    def _state(self) -> str:
        return str(self.height)

    def _save(self) -> int:
        return self.height

    def _load(self, state: int) -> None:
        self.height = state

    def _success(self) -> bool:
        return self.height == 3

    def _instruction(self) -> str:
        return "Climb."

    def _admissible(self) -> tuple[str, ...]:
        return ("up",)

    def oracle(self) -> Iterator[str]:
        while self.height < 3:
            yield "up"

    def close(self) -> None:
        if self.open:
            self.open = False
            type(self).live -= 1


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    Stairs.live = 0
    yield
    gc.collect()
    assert Stairs.live == 0


# -- the tool ---------------------------------------------------------------------------------------------------------


def tool(make_env: Any = Stairs, **kwargs: Any) -> ToolEnvironment:
    return ToolEnvironment(make_env, **{"tries": 3, "list_actions": False, **kwargs})


def test_the_tool_plays_an_episode_and_says_when_it_is_over() -> None:
    env = tool()
    assert env.act("up") == OVER  # not begun
    assert env.reset(task="stairs-0", seed=1, prompt=[], other=3) == "Climb.\n\nat the bottom"
    assert [env.act("up"), env.act("down"), env.act("up"), env.act("up")] == [
        "at 1",
        "You can only go up.",
        "at 2",
        "at 3",
    ]
    assert env.get_reward() == 1.5  # 3 steps of 0.5
    assert env.act("up") == OVER
    assert env.get_reward() == 1.5
    env.reset(task="stairs-0")
    assert env.get_reward() == 0.0


def test_the_step_limit_ends_the_episode_too() -> None:
    env = tool(lambda: Stairs(max_steps=1))
    env.reset(task="stairs-0")
    assert env.act("up") == "at 1"
    assert env.act("up") == OVER
    assert env.get_reward() == 0.5


def test_actions_are_listed_on_request() -> None:
    env = tool(list_actions=True)
    assert env.reset(task="stairs-0").endswith("\n\nActions: up")
    assert env.act("up") == "at 1\n\nActions: up"


@pytest.mark.parametrize("text", ["", "\x00\x1b[2J", "\ud800", "x" * 10_000_000, 7, None, ["up"], {"action": "up"}])
def test_no_text_of_the_model_raises(text: Any) -> None:
    env = tool()
    env.reset(task="stairs-0")
    assert isinstance(env.act(text), str)
    assert env.get_reward() == 0.0
    assert env.act("up") == "at 1"


def test_a_fault_voids_the_episode_and_never_reaches_the_model() -> None:
    env = tool()
    env.reset(task="stairs-0")
    assert env.act("up") == "at 1"
    assert env.act("break") == OVER
    assert env.get_reward() is None
    assert env.reset(task="stairs-0") == "Climb.\n\nat the bottom"  # in a new environment
    assert env.get_reward() == 0.0
    assert Stairs.live == 1


def test_a_bug_of_the_environment_surfaces_and_never_reaches_the_model() -> None:
    env = tool()
    env.reset(task="stairs-0")
    assert env.act("bug") == OVER
    with pytest.raises(ZeroDivisionError):
        env.get_reward()
    env.reset(task="stairs-0")
    assert env.get_reward() == 0.0


def test_a_reset_is_tried_again_and_then_given_up() -> None:
    broken = iter([1, 1, 0])
    env = tool(lambda: Stairs(broken_resets=next(broken)))
    assert env.reset(task="stairs-0") == "Climb.\n\nat the bottom"
    assert next(broken, None) is None
    dead = tool(lambda: Stairs(broken_resets=1), tries=2)
    assert dead.reset(task="stairs-0") == OVER
    assert dead.act("up") == OVER
    assert dead.get_reward() is None


def test_a_task_that_does_not_exist_is_the_users_mistake() -> None:
    with pytest.raises(UnknownTask, match="stairs-0"):
        tool().reset(task="stairs-9")


def test_a_factory_closes_what_it_made_also_after_an_exception() -> None:
    factory = EnvironmentFactory(Stairs, 3, False)
    kept = []
    with pytest.raises(RuntimeError), factory:
        kept = [factory(), factory()]
        assert Stairs.live == 2
        raise RuntimeError
    assert len(kept) == 2
    assert Stairs.live == 0
    factory.close()


def test_unknown_environments_are_named_at_once() -> None:
    with pytest.raises(InvalidArgument, match="did you mean"):
        environment_factory("sandlot/Coridor-v0")
    with pytest.raises(InvalidArgument, match="did you mean"):
        rollout_func("sandlot/Coridor-v0")


# -- tokens -----------------------------------------------------------------------------------------------------------


def call(prompt: tuple[int, ...], completion: tuple[int, ...], **kwargs: Any) -> Call:
    logprobs = -np.arange(1, len(completion) + 1, dtype=np.float32)
    return Call("c", Context(()), "", logprobs, prompt, completion, **kwargs)


def test_calls_become_one_row_out_of_their_recorded_tokens() -> None:
    # prompt 1 2; the model says 7 8; the environment answers 3 4 5; the model says 9
    row = episode_row([call((1, 2), (7, 8)), call((1, 2, 7, 8, 3, 4, 5), (9,))])
    assert row == Row([1, 2], [7, 8, 3, 4, 5, 9], [-1.0, -2.0, 0.0, 0.0, 0.0, -1.0], [1, 1, 0, 0, 0, 1])
    assert row.cut(3) == Row([1, 2], [7, 8, 3], [-1.0, -2.0, 0.0], [1, 1, 0])
    assert row.cut(100) == row


@pytest.mark.parametrize(
    "second",
    [
        call((1, 2, 7, 5, 3), (9,)),  # the model's own tokens were encoded again
        call((1, 2), (9,)),  # the history was dropped
        call((1, 2, 7, 8), (9,), choices=((9,), (6,)), choice=0),
        call((1, 2, 7, 8), (9,), allowed=((9, 6),)),
        call((1, 2, 7, 8), ()),
    ],
)
def test_what_trl_cannot_train_on_is_refused(second: Call) -> None:
    with pytest.raises(InvalidArgument):
        episode_row([call((1, 2), (7, 8)), second])


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 9), max_size=4), st.lists(st.integers(0, 9), min_size=1, max_size=4)))
)
def test_a_row_holds_every_token_once_and_marks_the_models(turns: list[tuple[list[int], list[int]]]) -> None:
    turns = [([1], [2]), *turns]
    calls, ids = [], []
    for observed, sampled in turns:
        ids += observed
        calls.append(call(tuple(ids), tuple(sampled)))
        ids += sampled
    row = episode_row(calls)
    assert row.prompt_ids + row.completion_ids == ids
    assert [token for token, mine in zip(row.completion_ids, row.env_mask, strict=True) if mine] == [
        token for _, sampled in turns for token in sampled
    ]
    assert all(mine or logprob == 0 for mine, logprob in zip(row.env_mask, row.logprobs, strict=True))


# -- with the package -------------------------------------------------------------------------------------------------

OPTIONS: dict[str, Any] = {"rooms": 3, "verbs": 3}
VERBS = ("push", "pull", "lift", "Push", "Pull", "Lift", "PUSH", "PULL", "LIFT")  # case does not matter to it
SPECIAL = ["<pad>", "<unk>", "<system>", "<user>", "<assistant>", "<end>"]


class Ledger:
    """Every Corridor that is made, and whether it was closed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[Corridor] = []
        self.closed: list[Corridor] = []
        begin = Corridor.__init__

        def made(env: Corridor, *args: Any, **kwargs: Any) -> None:
            begin(env, *args, **kwargs)
            self.made.append(env)

        monkeypatch.setattr(Corridor, "__init__", made)
        monkeypatch.setattr(Corridor, "close", lambda env: self.closed.append(env))

    def check(self) -> None:
        assert self.made
        assert {id(env) for env in self.made} == {id(env) for env in self.closed}


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> Ledger:
    return Ledger(monkeypatch)


@pytest.fixture(scope="module")
def trl() -> Any:
    pytest.importorskip("torch", reason="torch is not installed (extra: train)")
    pytest.importorskip("datasets", reason="datasets is not installed (extra: trl)")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
        yield pytest.importorskip("trl", reason="trl is not installed (extra: trl)")


def settings(trl: Any, folder: Path, **kwargs: Any) -> Any:
    return trl.GRPOConfig(
        output_dir=str(folder),
        **{"max_steps": 2, "per_device_train_batch_size": 16, "num_generations": 8, **kwargs},
        max_completion_length=400,
        learning_rate=1e-2,
        use_cpu=True,
        bf16=False,
        report_to=[],
        logging_steps=1,
        save_strategy="no",
        disable_tqdm=True,
    )


def word_tokenizer() -> Any:
    """Only the verbs and the chat tokens: random weights then say something valid three times in five."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {word: number for number, word in enumerate((*SPECIAL, *VERBS))}
    backend = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.add_special_tokens(SPECIAL)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token="<end>",
        additional_special_tokens=SPECIAL[2:5],
    )


def tool_tokenizer(trl: Any) -> tuple[Any, list[Any]]:
    """Bytes, and whole tool calls as single tokens; returned with the ids that the model may sample."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    control = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={text: number for number, text in enumerate(control + alphabet)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(control)
    arguments = ['"push"', '"pull"', '"lift"', '"dance"', "7"]
    calls = [
        f'<tool_call>\n{{"name": "act", "arguments": {{"action": {argument}}}}}\n</tool_call>' for argument in arguments
    ]
    backend.add_tokens([AddedToken(text, normalized=False) for text in calls])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<|im_end|>", pad_token="<|endoftext|>", padding_side="left"
    )
    templates = Path(trl.__file__).parent / "chat_templates"
    tokenizer.chat_template = (templates / "qwen3.jinja").read_text()
    return tokenizer, [tokenizer.eos_token_id, *(tokenizer.encode(text)[0] for text in calls)]


def played(task: Task, reward: float) -> Trajectory:
    """A trajectory of one turn with this return; NaN is a void one."""
    info = {"task_id": task.id, "valid": True, "score": 0.0}
    turn = Turn(call((1,), (2,)), "", "", reward, info, "", "")
    stop = StopReason.FAULT if np.isnan(reward) else StopReason.TERMINATED
    return Trajectory("t", ENV, task, "", info, [turn], stop)


def check_advantages(trainer: Any, name: str) -> None:
    """TRL's advantages of the last batch are those of our GRPO with TRL's epsilon."""
    rewards, size = np.array(trainer._logs["rewards"][name]), trainer.num_generations
    task = Task("t", "train")
    groups = [Group(task, [played(task, float(r)) for r in row]) for row in rewards.reshape(-1, size)]
    ours = np.concatenate([GRPO(eps=1e-4).scores(group) for group in groups])
    np.testing.assert_allclose(np.array(trainer._logs["advantages"]), ours, atol=1e-5)


def test_the_data_set_names_its_tasks() -> None:
    pytest.importorskip("datasets", reason="datasets is not installed (extra: trl)")
    data: Any = train_dataset(ENV, "valid_unseen", 3, seed=5, system="Be brief.", **OPTIONS)
    assert data.column_names == ["prompt", "task", "seed"]
    assert len({row["task"] for row in data}) == 3
    assert all("valid_unseen" in row["task"] for row in data)
    first = data[0]
    assert [(part["role"], part["content"], part["task"]) for part in first["prompt"]] == [
        ("system", "Be brief.", first["task"]),
        ("user", "", first["task"]),
    ]
    # 8^2 = 64 rows of signs, 64 // 10 = 6 of them in this split: 14 rows are 2 rounds and 2 tasks more
    data = train_dataset(ENV, "valid_unseen", 14, seed=5, **OPTIONS)
    assert data["seed"] == [5] * 6 + [6] * 6 + [7] * 2
    assert len(set(data["task"])) == 6


def test_mistakes_of_the_user_are_one_clear_line() -> None:
    with pytest.raises(UnknownTask, match="no split 'trian'"):
        train_dataset(ENV, "trian")
    with pytest.raises(InvalidArgument, match="n must be"):
        train_dataset(ENV, n=0)
    with pytest.raises(InvalidArgument, match="rooms"):
        rollout_func(ENV, rooms=1)


def test_two_updates_over_whole_episodes(trl: Any, tmp_path: Path, ledger: Ledger) -> None:
    import torch

    from sandlot.harness.policies.tiny import tiny_llama

    tokenizer = word_tokenizer()
    model = tiny_llama(len(tokenizer), 32, 1, 2, tied=False)
    before = copy.deepcopy(model)
    seen: list[Trajectory] = []
    columns: list[dict[str, list[Any]]] = []
    roll_out = rollout_func(ENV, max_tokens=1, max_steps=12, on_trajectory=seen.append, **OPTIONS)

    def watched(prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
        columns.append(roll_out(prompts, trainer))
        assert trainer.model.training
        return dict(columns[-1])

    trainer = trl.GRPOTrainer(
        model=model,
        processing_class=tokenizer,
        args=settings(trl, tmp_path),
        train_dataset=train_dataset(ENV, n=8, **OPTIONS),
        rollout_func=watched,
        reward_funcs=environment_return,
    )
    trainer.train()

    assert trainer.state.global_step == 2
    assert len(columns) == 2 and len(seen) == 32  # 2 steps of 2 groups of 8
    assert all(any(set(step["env_return"][i : i + 8]) == {0.0, 1.0} for i in (0, 8)) for step in columns)
    assert any(not torch.equal(a, b) for a, b in zip(before.parameters(), model.parameters(), strict=True))
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())
    logs = trainer.state.log_history
    assert any(log.get("grad_norm", 0) > 0 for log in logs)
    assert [log["env/turns"] for log in logs[:2]] == [np.mean(step["env_turns"]) for step in columns]
    assert [log["env/success"] for log in logs[:2]] == [log["reward"] for log in logs[:2]]
    # the prompts arrive once per generation, and every row was played on its own task
    tasks = [prompt[-1]["task"] for prompt in trainer._logs["prompt"]]
    assert [tasks[:8], tasks[8:]] == [tasks[:1] * 8, tasks[8:9] * 8]
    assert sorted(tasks) == sorted(trajectory.task.id for trajectory in seen[16:])
    check_advantages(trainer, "environment_return")

    # the first step's tokens are the episodes' own, with the log-probabilities of the model that played them
    first = columns[0]
    sampled = sorted([token for c in t.calls for token in c.completion_ids] for t in seen[:16])
    mine = [[t for t, m in zip(i, k, strict=True) if m] for i, k in zip(first["completion_ids"], first["env_mask"])]
    assert sorted(mine) == sampled
    assert max(first["env_turns"]) > 1
    assert first["env_success"] == [value == 1.0 for value in first["env_return"]]
    for i in range(16):
        prompt, completion = first["prompt_ids"][i], first["completion_ids"][i]
        with torch.no_grad():
            logits = before(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1]
        expected = logits.log_softmax(-1)[range(len(completion)), completion].numpy()
        mask = np.array(first["env_mask"][i], bool)
        assert 0 < mask.sum() < len(mask)
        np.testing.assert_allclose(np.array(first["logprobs"][i])[mask], expected[mask], atol=1e-5)
    ledger.check()


def test_a_void_episode_takes_no_part(
    trl: Any, tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from sandlot.harness.policies.tiny import tiny_llama

    steps = iter(range(10**6))
    step = Corridor._step

    def breaks_once(env: Corridor, action: str) -> Outcome:
        if next(steps) == 20:
            raise EnvironmentFault("server lost")
        return step(env, action)

    monkeypatch.setattr(Corridor, "_step", breaks_once)
    tokenizer = word_tokenizer()
    model = tiny_llama(len(tokenizer), 32, 1, 2, seed=1)
    trainer = trl.GRPOTrainer(
        model=model,
        processing_class=tokenizer,
        args=settings(trl, tmp_path, max_steps=1),
        train_dataset=train_dataset(ENV, n=8, **OPTIONS),
        rollout_func=rollout_func(ENV, max_tokens=2, max_steps=12, limits=Limits(tries=1), **OPTIONS),
        reward_funcs=environment_return,
    )
    trainer.train()
    rewards = np.array(trainer._logs["rewards"]["environment_return"])
    assert np.isnan(rewards).sum() == 1
    assert np.array(trainer._logs["advantages"])[np.isnan(rewards)] == 0.0
    check_advantages(trainer, "environment_return")
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())
    ledger.check()


def test_an_interrupted_rollout_closes_its_environments(trl: Any, tmp_path: Path, ledger: Ledger) -> None:
    from sandlot.harness.policies.tiny import tiny_llama

    def stop(trajectory: Trajectory) -> None:
        raise KeyboardInterrupt

    tokenizer = word_tokenizer()
    trainer = trl.GRPOTrainer(
        model=tiny_llama(len(tokenizer), 32, 1, 2),
        processing_class=tokenizer,
        args=settings(trl, tmp_path),
        train_dataset=train_dataset(ENV, n=8, **OPTIONS),
        rollout_func=rollout_func(ENV, max_tokens=1, on_trajectory=stop, **OPTIONS),
        reward_funcs=environment_return,
    )
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    ledger.check()


def test_a_prompt_without_a_task_is_refused(trl: Any, tmp_path: Path) -> None:
    from datasets import Dataset

    from sandlot.harness.policies.tiny import tiny_llama

    tokenizer = word_tokenizer()
    trainer = trl.GRPOTrainer(
        model=tiny_llama(len(tokenizer), 32, 1, 2),
        processing_class=tokenizer,
        args=settings(trl, tmp_path),
        train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": "Play."}]}] * 8),
        rollout_func=rollout_func(ENV, **OPTIONS),
        reward_funcs=environment_return,
    )
    with pytest.raises(InvalidArgument, match="train_dataset"):
        trainer.train()


def doc_blocks() -> list[str]:
    page = Path(__file__).parents[3] / "docs" / "external" / "trl.md"
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_two_updates_through_the_tool(
    trl: Any, tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    tokenizer, sampled = tool_tokenizer(trl)
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=4096,
            tie_word_embeddings=False,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    before = copy.deepcopy(model.state_dict())
    names: dict[str, Any] = {
        "env_id": ENV,
        "options": OPTIONS,
        "train_dataset": train_dataset,
        "GRPOTrainer": trl.GRPOTrainer,
    }
    exec(doc_blocks()[1], names)
    args = settings(
        trl,
        tmp_path,
        per_device_train_batch_size=8,
        max_tool_calling_iterations=8,
        generation_kwargs={"suppress_tokens": [i for i in range(len(tokenizer)) if i not in sampled]},
    )
    trainer, factory = names["tool_trainer"](model, tokenizer, args)
    with factory:
        trainer.train()

    assert trainer.state.global_step == 2
    logs = [log for log in trainer.state.log_history if "reward_std" in log]
    assert len(logs) == 2
    assert all(log["tools/call_frequency"] > 0 and log["tools/failure_frequency"] == 0 for log in logs)
    assert any(log["reward_std"] > 0 for log in logs)
    assert any(not torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    said = [part for completion in trainer._logs["completion"] for part in completion]
    assert any(part["role"] == "tool" for part in said)
    assert any(TOOL_INSTRUCTION in part["content"] for part in trainer._logs["prompt"][0])
    check_advantages(trainer, "ToolEnvironment")
    ledger.check()


def test_the_page_s_script_runs(trl: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(doc_blocks()[0], names)
    assert names["trainer"].state.global_step == 2
