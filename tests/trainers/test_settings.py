"""A job's settings: read from tables, checked when they are read, written so that the run can be repeated."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import tomli_w

from sandlot.envs.core.errors import InvalidArgument
from sandlot.harness.context import History
from sandlot.harness.policies.tiny import tiny_llama
from sandlot.train import build_job, job_config, job_from
from sandlot.trainers.job import Job, load_policy, run_job, tiny_policy, warm_start
from sandlot.trainers.methods import make_recipe
from sandlot.trainers.presets import preset
from sandlot.trainers.settings import Tiny
from sandlot.trainers.sft import SFT


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sft": {"lr2": 0.1}}, r"sft has no setting 'lr2'; it has lr, batch"),
        ({"sft": {"batch": "four"}}, r"sft.batch must be a whole number, not 'four'"),
        ({"sft": {"batch": 2.5}}, r"sft.batch must be a whole number, not 2.5"),
        ({"sft": {"lr": True}}, r"sft.lr must be a number, not True"),
        ({"sft": 3}, r"sft must be a table"),
        ({"tiny": {"width": 8}}, r"tiny has no setting 'width'; it has d_model"),
        ({"tiny": {"tied": 1}}, r"tiny.tied must be true or false, not 1"),
        ({"history": {"windows": 2}}, r"history has no setting 'windows'; it has window"),
        ({"history": {"window": -1}}, r"window must be a number of turns"),
        ({"vllm": {"memory": "all"}}, r"vllm.memory must be a number, not 'all'"),
        ({"steps": "many"}, r"steps must be a whole number, not 'many'"),
        ({"trackers": "wandb"}, r"trackers must be a list, not 'wandb'"),
        ({"lora_targets": [1]}, r"lora_targets must be a list, not \[1\]"),
        ({"checkpointing": "yes"}, r"checkpointing must be true or false, not 'yes'"),
    ],
)
def test_mistakes_are_said_when_they_are_read(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Job(**settings)


def test_tables_and_dataclasses_are_the_same() -> None:
    a = Job(sft={"lr": 1}, tiny={"layers": 2}, history={"window": 0, "brief": True})  # pyright: ignore[reportArgumentType]
    assert a == Job(sft=SFT(lr=1), tiny=Tiny(layers=2), history=History(window=0, brief=True))


def test_config_toml_holds_everything() -> None:
    asked = [
        "engine=vllm",
        "vllm={url = 'http://127.0.0.1:1/v1', sleep = true}",
        "precision=bfloat16",
        "checkpointing=true",
        "offload=true",
        "attention=dense",
        "batch_tokens=512",
        'lora_targets=["q_proj", "v_proj"]',
        "lora=4",
        "tiny={layers=1, kinship=0.5}",
        "history={window=3}",
    ]
    job = build_job("Corridor", "tiny", None, settings=asked)
    text = tomli_w.dumps(job_config(job))
    assert job_from(tomllib.loads(text)) == job
    for env in ("ALFWorld", "WebShop", "SQL", "KeyDoor"):
        assert job_from(tomllib.loads(tomli_w.dumps(job_config(preset(env))))) == preset(env)


def test_the_table_of_the_tiny_model_is_that_of_its_builder() -> None:
    """Names and defaults, which are written twice."""
    import inspect

    builder = {name: p.default for name, p in inspect.signature(tiny_llama).parameters.items() if name != "vocab_size"}
    own = {name: value for name, value in vars(Tiny()).items() if name not in ("kinship", "seed")}
    assert own == {name: value for name, value in builder.items() if name != "seed"}


def test_a_job_makes_the_policy_that_it_describes() -> None:
    job = Job(
        env="sandlot/Corridor-v0",
        precision="mixed",
        checkpointing=True,
        offload=True,
        attention="dense",
        batch_tokens=300,
        lora=2,
        lora_targets=["q_proj"],
        tiny=Tiny(d_model=16, layers=1, heads=2),
    )
    from sandlot.trainers.job import Silent, rollouts

    policy = warm_start(job, make_recipe("grpo"), rollouts(job)[0], Silent())
    assert (policy.precision, policy.checkpointing, policy.offload, policy.attention, policy.max_tokens) == (
        "mixed",
        True,
        True,
        "dense",
        300,
    )
    assert {name.split(".")[-4] for name, p in policy.model.named_parameters() if p.requires_grad} == {"q_proj"}
    assert tiny_policy(job, make_recipe("grpo"), []).precision == "mixed"
    with pytest.raises(InvalidArgument, match="no linear layer 'nothing'"):
        warm_start(Job(**{**vars(job), "lora_targets": ["nothing"]}), make_recipe("grpo"), rollouts(job)[0], Silent())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"engine": "sglang"}, "engine must be 'hf' or 'vllm', not 'sglang'"),
        ({"engine": "vllm", "vllm": {"sleep": True}, "mode": "ahead"}, "cannot sleep while episodes are played"),
        ({"engine": "vllm"}, "is no language model: set engine to 'hf'"),
    ],
)
def test_engines_that_cannot_be_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        run_job(Job(env="sandlot/Corridor-v0", model="tabular", eval_tasks=1, **settings), None)
    assert load_policy("tabular", make_recipe("grpo"), Job()).version == 0
