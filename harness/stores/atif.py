"""Export to ATIF, the Agent Trajectory Interchange Format of the Harbor project (version 1.7).

A trajectory becomes one document: the system prompt and the first observation as steps, then one agent step per turn
with the completion as message, the action as a tool call, the environment's answer as its observation, and token ids
and log-probabilities where the policy has tokens. Rewards and keys go to the `extra` fields that the format provides.

Source: the field names and rules are those of the models in Harbor 0.26 (`harbor.models.trajectories`).
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from ..records import Call, Trajectory, Turn

__all__ = ["SCHEMA", "export_atif"]

SCHEMA = "ATIF-v1.7"
ACTION = "act"  # the one tool of a text environment


def export_atif(
    trajectory: Trajectory, *, agent: str = "sandlot", model: str | None = None, token_ids: bool = True
) -> dict[str, Any]:
    """The trajectory as a JSON-ready document.

    Args:
        trajectory: any trajectory, also a void one or one without turns.
        agent: the agent's name in the document.
        model: the model's name, if it is to be told.
        token_ids: False leaves out the ids, which repeat the growing prompt in every step.
    """
    steps: list[dict[str, Any]] = []
    if trajectory.turns:
        opening = trajectory.turns[0].call.context.messages
        steps += [{"source": "system", "message": m.text} for m in opening if m.role == "system"]
    steps.append({"source": "user", "message": trajectory.first_observation})
    steps += [_agent_step(turn, token_ids) for turn in trajectory.turns]
    calls = list(trajectory.calls)
    about = {"name": agent, "version": _version(), "model_name": model}
    return {
        "schema_version": SCHEMA,
        "session_id": trajectory.id,
        "trajectory_id": trajectory.id,
        "agent": {key: value for key, value in about.items() if value is not None},
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
        "final_metrics": {
            "total_prompt_tokens": sum(len(call.prompt_ids) for call in calls),
            "total_completion_tokens": sum(len(call.completion_ids) for call in calls),
            "total_steps": len(steps),
            "extra": {
                "reward": trajectory.reward,
                "success": trajectory.success,
                "score": trajectory.last_info.get("score"),
                **trajectory.metrics,
            },
        },
        "extra": {
            "env_id": trajectory.env_id,
            "task_id": trajectory.task.id,
            "split": trajectory.task.split,
            "seed": trajectory.seed,
            "mode": trajectory.mode,
            "stop": str(trajectory.stop),
            "error": trajectory.error,
        },
    }


def _agent_step(turn: Turn, token_ids: bool) -> dict[str, Any]:
    call = turn.call
    step: dict[str, Any] = {
        "source": "agent",
        "message": call.text,
        "tool_calls": [{"tool_call_id": call.id, "function_name": ACTION, "arguments": {"action": turn.action}}],
        "observation": {"results": [{"source_call_id": call.id, "content": turn.observation}]},
        "llm_call_count": int(bool(call.completion_ids)),
        "extra": {
            "reward": turn.reward,
            "valid": turn.valid,
            "role": call.role,
            "state_key": turn.state_key,
            "obs_key": turn.obs_key,
            "finish": call.finish,
            "temperature": call.temperature,
            "policy_version": call.version,
        },
    }
    if call.completion_ids:  # the format allows metrics only where a language model was asked
        step["metrics"] = _metrics(call, token_ids)
    return step


def _metrics(call: Call, token_ids: bool) -> dict[str, Any]:
    metrics: dict[str, Any] = {"prompt_tokens": len(call.prompt_ids), "completion_tokens": len(call.completion_ids)}
    if token_ids:
        metrics["prompt_token_ids"] = [int(token) for token in call.prompt_ids]
        metrics["completion_token_ids"] = [int(token) for token in call.completion_ids]
    logprobs = [float(x) for x in call.logprobs]
    if call.choices is not None:  # one decision, not one per token
        metrics["extra"] = {"candidates": len(call.choices), "choice": call.choice, "logprobs": logprobs}
    elif len(logprobs) == len(call.completion_ids) and np.isfinite(logprobs).all():
        metrics["logprobs"] = logprobs
    return metrics


def _version() -> str:
    try:
        return version("sandlot")
    except PackageNotFoundError:
        return "unknown"
