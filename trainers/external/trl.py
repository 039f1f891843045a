"""TRL's `GRPOTrainer` on any text environment, multi-turn (PyPI `trl`; docs/external/trl.md has the script).

Two ways in, and the data set and reward that both need:

- `rollout_func` plays whole episodes with the trainer's own model through the harness and hands TRL the recorded
  tokens: any model, no tool calls, nothing tokenised twice.
- `environment_factory` lets a model with a tool-calling chat template act through one tool, `act`, in TRL's own loop.

TRL learns from one number per episode, the return. An episode that the infrastructure voided has no return (None):
TRL leaves it out of its group's baseline and gives it the advantage 0.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from copy import copy
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from ...envs.core.errors import EnvironmentFault, InvalidArgument, MissingExtra
from ...envs.core.registry import find
from ...envs.core.text_env import TextEnv
from ...harness.context import FullHistory
from ...harness.loop import EnvMaker, Limits, Rollout, play
from ...harness.policy import Policy, Sampling
from ...harness.records import Call, Trajectory

if TYPE_CHECKING:
    from datasets import Dataset

    from ...harness.policies.chat import ChatFormat

OVER = "The episode is over: nothing more can be done in it."
TOOL_INSTRUCTION = "Solve the task by calling the tool `act` with one action at a time until the episode is over."


def train_dataset(
    env_id: str, split: str = "train", n: int = 64, *, seed: int = 0, system: str | None = None, **kwargs: Any
) -> Dataset:
    """The tasks to train on, as TRL wants them.

    Args:
        env_id: the environment.
        split: whose tasks.
        n: rows; tasks are spread evenly over the split, and repeat with other seeds where there are fewer.
        seed: of the first row's episodes, for `environment_factory`; `rollout_func` goes by the trainer's own seed.
        system: a system message put before the first observation, or None.
        **kwargs: further constructor arguments of the environment.

    Returns:
        Columns `prompt` (messages; the last is filled by the environment and names the task), `task` and `seed`.

    Raises:
        UserError: no such environment, split or argument; `datasets` is not installed.
    """
    try:
        from datasets import Dataset
    except ImportError:
        raise MissingExtra("datasets", "trl") from None
    if n < 1:
        raise InvalidArgument(f"n must be at least 1, not {n}")
    with closing(EnvMaker(env_id, {"split": split, **kwargs})()) as env:
        tasks = env.tasks.first(n)
    if not tasks:
        raise InvalidArgument(f"{env_id} has no tasks in split {split!r}")
    rows = []
    for row in range(n):
        task = tasks[row % len(tasks)].id
        prompt = [{"role": "system", "content": system, "task": task}] if system else []
        # TRL hands `rollout_func` the prompts and no other column, so the task travels in the message itself.
        prompt.append({"role": "user", "content": "", "task": task})
        rows.append({"prompt": prompt, "task": task, "seed": seed + row // len(tasks)})
    return Dataset.from_list(rows)


# -- episodes through the harness -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One episode as TRL wants it: a prompt, and everything after it with a mask of who wrote what."""

    prompt_ids: list[int]
    completion_ids: list[int]
    logprobs: list[float]
    """Log-probabilities under which the model's tokens were sampled; 0 for the environment's tokens."""
    env_mask: list[int]
    """1 for the model's tokens, 0 for the environment's."""

    def cut(self, length: int) -> Row:
        """The row with at most `length` completion tokens."""
        return Row(self.prompt_ids, self.completion_ids[:length], self.logprobs[:length], self.env_mask[:length])


def episode_row(calls: Sequence[Call]) -> Row:
    """The calls of one episode as one sequence, out of their recorded tokens.

    Raises:
        InvalidArgument: the calls are not one growing sequence of freely sampled tokens, all that TRL can train on.
    """
    ids = list(calls[0].prompt_ids)
    row = Row(list(ids), [], [], [])
    for call in calls:
        if call.allowed is not None or call.choices is not None or not call.completion_ids:
            raise InvalidArgument("TRL trains freely sampled tokens: play with Sampling(decode='free')")
        if list(call.prompt_ids[: len(ids)]) != ids:
            raise InvalidArgument("TRL trains one growing sequence per episode: keep the whole history (FullHistory)")
        observed = call.prompt_ids[len(ids) :]
        row.completion_ids.extend((*observed, *call.completion_ids))
        row.logprobs.extend((*(0.0 for _ in observed), *call.logprobs.tolist()))
        row.env_mask.extend((*(0 for _ in observed), *(1 for _ in call.completion_ids)))
        ids = [*call.prompt_ids, *call.completion_ids]
    return row


def rollout_func(
    env_id: str,
    *,
    max_tokens: int = 64,
    chat: ChatFormat | None = None,
    parse: Callable[[Call], str] | None = None,
    list_actions: bool = False,
    limits: Limits | None = None,
    on_trajectory: Callable[[Trajectory], None] | None = None,
    **kwargs: Any,
) -> Callable[[list[Any], Any], dict[str, list[Any]]]:
    """`GRPOTrainer(rollout_func=…)`: a whole episode per prompt with the trainer's own model, its tokens as sampled.

    Temperature and top-p are the trainer's. A row is cut at the trainer's `max_completion_length`: the tokens beyond
    are not trained on, the return stays that of the whole episode. Goes with `train_dataset` and `environment_return`.

    Args:
        env_id: the environment.
        max_tokens: tokens per turn.
        chat: how messages become tokens; None takes the format that the trainer's tokenizer tells.
        parse: completion to action; None takes the completion's text.
        list_actions: show the admissible actions with every observation.
        limits: concurrency, deadlines and tries.
        on_trajectory: called with every finished trajectory, for logs.
        **kwargs: constructor arguments of the environment, such as `max_steps`.

    Returns:
        The function. Beside TRL's keys it gives `env_return` (None for a void episode), `env_success` and `env_turns`.

    Raises:
        UserError: no such environment.
    """
    maker = EnvMaker(find(env_id).id, kwargs)
    with closing(maker()) as env:
        tasks = env.tasks
    rounds = count()

    def roll_out(prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
        # `prompts` holds every prompt once per generation already: one episode each.
        played = [tasks.get(_task_id(prompt)) for prompt in prompts]
        system = _system_message(prompts)
        rollout = Rollout(
            env=maker,
            sampling=Sampling(trainer.args.temperature, trainer.args.top_p, max_tokens),
            context=lambda: FullHistory(system, list_actions=list_actions),
            parse=parse,
            limits=limits or Limits(),
        )
        place = (trainer.args.seed, trainer.state.global_step, next(rounds), trainer.accelerator.process_index)
        seed = int(np.random.SeedSequence(place).generate_state(1)[0])
        with _trainers_policy(trainer, chat) as policy:
            episodes = play(policy, played, rollout, seed=seed, on_trajectory=on_trajectory)
        stop = trainer.processing_class.eos_token_id
        blank = Row([stop], [stop], [0.0], [0])
        return _columns(episodes, trainer.max_completion_length, blank)

    return roll_out


def environment_return(
    *,
    env_return: list[float | None],
    env_success: list[bool],
    env_turns: list[int],
    log_metric: Callable[[str, float], None],
    **_: Any,
) -> list[float | None]:
    """The reward function that goes with `rollout_func`: each episode's return, None for a void one.

    Success and turns of the episodes that count are logged as `env/success` and `env/turns`.
    """
    for value, success, turns in zip(env_return, env_success, env_turns, strict=True):
        if value is not None:
            log_metric("env/success", float(success))
            log_metric("env/turns", float(turns))
    return env_return


@contextmanager
def _trainers_policy(trainer: Any, chat: ChatFormat | None) -> Iterator[Policy]:
    from trl.models.utils import unwrap_model_for_generation

    from ...harness.policies.chat import ChatFormat
    from ...harness.policies.hf import HFPolicy

    if trainer.use_vllm:
        raise InvalidArgument("rollout_func plays with the trainer's own model: set use_vllm=False in GRPOConfig")
    chat = copy(chat or ChatFormat.of(trainer.processing_class))
    # TRL's loss has every token of the vocabulary in its softmax, so the policy must be allowed to sample every one.
    chat.control = frozenset()
    gather = trainer.args.ds3_gather_for_generation
    with unwrap_model_for_generation(trainer.model_wrapped, trainer.accelerator, gather) as model:
        training = model.training
        try:
            yield HFPolicy(model, chat, device=trainer.accelerator.device)
        finally:
            model.train(training)


def _system_message(prompts: list[Any]) -> str | None:
    systems = {prompt[0]["content"] if prompt[0]["role"] == "system" else None for prompt in prompts}
    if len(systems) > 1:
        raise InvalidArgument("the prompts of one batch need the same system message")
    return systems.pop()


def _task_id(prompt: Any) -> str:
    name = prompt[-1].get("task") if isinstance(prompt, list) else None
    if name is None:
        raise InvalidArgument("a prompt names no task: build the data set with train_dataset()")
    return name


def _columns(episodes: Sequence[Trajectory], length: int, blank: Row) -> dict[str, list[Any]]:
    scored = [bool(episode.turns) and not episode.void for episode in episodes]
    rows = [episode_row(list(episode.calls)).cut(length) if kept else blank for episode, kept in zip(episodes, scored)]
    columns: dict[str, list[Any]] = {
        field.name: [getattr(row, field.name) for row in rows] for field in dataclasses.fields(Row)
    }
    columns["env_return"] = [episode.reward if kept else None for episode, kept in zip(episodes, scored)]
    columns["env_success"] = [episode.success for episode in episodes]
    columns["env_turns"] = [len(episode.turns) for episode in episodes]
    return columns


# -- a tool in TRL's own loop -----------------------------------------------------------------------------------------


class ToolEnvironment:
    """One environment behind one tool, in the form that TRL asks for: every public method but two is a tool."""

    def __init__(self, make_env: Callable[[], TextEnv], tries: int, list_actions: bool) -> None:
        self._make_env = make_env
        self._tries = tries
        self._list_actions = list_actions
        self._return: float | None = 0.0
        self._over = True
        self._bug: Exception | None = None
        self._env: TextEnv | None = None
        self._open()

    def reset(self, *, task: str | None = None, seed: int | None = None, **_: Any) -> str:
        """Start the row's task; the observation goes behind the prompt."""
        self._return, self._over, self._bug = 0.0, False, None
        view = FullHistory(list_actions=self._list_actions)
        for _attempt in range(self._tries):
            try:
                view.start(*self._open().reset(seed=seed, options={"task": task} if task else None))
            except EnvironmentFault:
                self._shut()
            else:
                return view.head[-1].text
        self._return, self._over = None, True
        return OVER

    def act(self, action: str) -> str:
        """Take one action in the environment.

        Args:
            action: The action, as text.

        Returns:
            What happened.
        """
        if self._over:
            return OVER
        try:
            observation, reward, terminated, truncated, info = self._open().step(action)
        except Exception as error:  # TRL would show it to the model as the tool's answer
            self._return, self._over = None, True
            self._bug = None if isinstance(error, EnvironmentFault) else error
            self._shut()
            return OVER
        assert self._return is not None
        self._return += reward
        self._over = terminated or truncated
        if self._list_actions and info["admissible"] and not self._over:
            observation += f"\n\nActions: {'; '.join(info['admissible'])}"
        return observation

    def get_reward(self) -> float | None:
        """The return of the episode; None where a fault voided it, so that TRL leaves it out.

        Raises:
            Exception: the environment's bug that ended the episode, unchanged.
        """
        if self._bug is not None:
            raise self._bug
        return self._return

    def _open(self) -> TextEnv:
        if self._env is None:
            self._env = self._make_env()
            # TRL pools instances and never closes them: the environment is closed with its holder, or at exit.
            self._close = weakref.finalize(self, self._env.close)
        return self._env

    def _shut(self) -> None:
        self._close()
        self._env = None


class EnvironmentFactory:
    """What `environment_factory` returns: call it for a new instance; `close()`, or leaving `with`, closes them all."""

    def __init__(self, make_env: Callable[[], TextEnv], tries: int, list_actions: bool) -> None:
        self._arguments = make_env, tries, list_actions
        self._instances: list[ToolEnvironment] = []

    def __call__(self) -> ToolEnvironment:
        """A new instance; TRL keeps and reuses it."""
        instance = ToolEnvironment(*self._arguments)
        self._instances.append(instance)
        return instance

    def close(self) -> None:
        """Close every environment that was made."""
        for instance in self._instances:
            instance._shut()
        self._instances.clear()

    def __enter__(self) -> EnvironmentFactory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def environment_factory(
    env_id: str, *, tries: int = 3, list_actions: bool = False, **kwargs: Any
) -> EnvironmentFactory:
    """`GRPOTrainer(environment_factory=…)`: the environment as one tool, `act`, and its return as the reward.

    The model must have a tool-calling chat template that TRL knows, byte for byte. Rows come from `train_dataset`, best
    with `system=TOOL_INSTRUCTION`. `GRPOConfig(max_tool_calling_iterations=…)` bounds the turns.

    Args:
        env_id: the environment.
        tries: tries of a reset that fails for the infrastructure's reasons, after which the episode is void.
        list_actions: show the admissible actions with every observation.
        **kwargs: constructor arguments of the environment.

    Raises:
        UserError: no such environment.
    """
    return EnvironmentFactory(EnvMaker(find(env_id).id, kwargs), tries, list_actions)
