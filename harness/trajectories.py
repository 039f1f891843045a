"""Trajectories as JSON lines: written as they finish, read back exactly.

A call's messages and prompt ids mostly repeat the previous call's, so each line stores how many of them are kept and
what follows: a growing history of T turns takes O(T) space instead of O(T^2). Of the task only its id and split are
stored; its environment's task set finds the rest (`env.tasks.get(id)`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..envs.core.errors import MissingData
from .records import Call, Context, Message, StopReason, Task, Trajectory, Turn

FORMAT = 1
_PLAIN_CALL = ("id", "text", "choice", "temperature", "value", "version", "finish", "parent")
_PLAIN_CONTEXT = ("session", "role", "state_key", "obs_key")
_PLAIN_TURN = ("action", "observation", "reward", "state_key", "obs_key", "seconds")
_PLAIN_TRAJECTORY = ("id", "env_id", "first_observation", "seed", "mode", "metrics", "error", "tries")


def dumps(trajectory: Trajectory) -> str:
    """One line of JSON."""
    record = {"format": FORMAT, **_pick(trajectory, _PLAIN_TRAJECTORY)}
    record["task"] = {"id": trajectory.task.id, "split": trajectory.task.split}
    record["first_info"] = trajectory.first_info
    record["stop"] = str(trajectory.stop)
    record["turns"] = turns = []
    messages: Sequence[Message] = ()
    ids: Sequence[int] = ()
    for turn in trajectory.turns:
        call = turn.call
        turns.append({**_pick(turn, _PLAIN_TURN), "info": turn.info, "call": _dump_call(call, messages, ids)})
        messages, ids = call.context.messages, call.prompt_ids
    return json.dumps(record, ensure_ascii=True, default=_jsonable)


def loads(line: str) -> Trajectory:
    """The trajectory in one line.

    Raises:
        ValueError, KeyError: the line is not one that `dumps` wrote.
    """
    record = json.loads(line)
    turns = []
    messages: tuple[Message, ...] = ()
    ids: tuple[int, ...] = ()
    for item in record["turns"]:
        call = _load_call(item["call"], messages, ids)
        turns.append(Turn(call=call, info=_load_info(item["info"]), **{name: item[name] for name in _PLAIN_TURN}))
        messages, ids = call.context.messages, call.prompt_ids
    return Trajectory(
        task=Task(**record["task"]),
        first_info=_load_info(record["first_info"]),
        stop=StopReason(record["stop"]),
        turns=turns,
        **{name: record[name] for name in _PLAIN_TRAJECTORY},
    )


def append_line(path: Path, line: str) -> None:
    """Append one line, on a line of its own even if an earlier process died in the middle of one."""
    with path.open("a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                line = "\n" + line
        file.write(line.encode() + b"\n")


def read(path: Path, keep: Callable[[Trajectory], bool] | None = None) -> Iterator[Trajectory]:
    """The trajectories of a file, in order; a line cut off by a crash is skipped.

    Args:
        path: a file of lines.
        keep: which to yield, e.g. `lambda trajectory: trajectory.success`; None yields all.

    Raises:
        MissingData: there is no such file.
    """
    if not path.exists():
        raise MissingData(f"no recorded trajectories at {path}")
    with path.open(encoding="utf-8") as file:
        for line in file:
            try:
                trajectory = loads(line)
            except (ValueError, KeyError, TypeError):
                continue
            if keep is None or keep(trajectory):
                yield trajectory


def _dump_call(call: Call, messages: Sequence[Message], ids: Sequence[int]) -> dict[str, Any]:
    context = call.context
    kept, kept_ids = _shared(messages, context.messages), _shared(ids, call.prompt_ids)
    record = {
        **_pick(call, _PLAIN_CALL),
        "context": {**_pick(context, _PLAIN_CONTEXT), "admissible": context.admissible},
        "messages": [kept, [[m.role, m.text, m.call] for m in context.messages[kept:]]],
        "prompt_ids": [kept_ids, call.prompt_ids[kept_ids:]],
        "completion_ids": call.completion_ids,
        "logprobs": [float(x) for x in call.logprobs],
        "allowed": call.allowed,
        "choices": call.choices,
        "spans": call.spans,
    }
    # What the context repeats from the environment's admissible actions is stored once.
    if call.choices is not None and call.choices == context.admissible:
        record["choices"] = "admissible"
    return {key: value for key, value in record.items() if value not in (None, (), {}, [])}


def _load_call(record: dict[str, Any], messages: Sequence[Message], ids: Sequence[int]) -> Call:
    kept, new = record["messages"]
    kept_ids, new_ids = record["prompt_ids"]
    about = dict(record["context"])
    admissible = about.pop("admissible")
    context = Context(
        messages=(*messages[:kept], *(Message(*item) for item in new)),
        admissible=None if admissible is None else tuple(admissible),
        **about,
    )
    choices = record.get("choices")
    if choices == "admissible":
        choices = context.admissible
    elif choices is not None:
        choices = tuple(tuple(c) if isinstance(c, list) else c for c in choices)
    allowed = record.get("allowed")
    return Call(
        context=context,
        logprobs=np.array(record.get("logprobs", ()), dtype=np.float32),
        prompt_ids=(*ids[:kept_ids], *new_ids),
        completion_ids=tuple(record.get("completion_ids", ())),
        allowed=None if allowed is None else tuple(tuple(row) for row in allowed),
        choices=choices,
        spans={name: tuple((a, b) for a, b in spans) for name, spans in record.get("spans", {}).items()},
        **{name: record[name] for name in _PLAIN_CALL if name in record},
    )


def _load_info(info: dict[str, Any]) -> dict[str, Any]:
    if info.get("admissible") is not None:
        info["admissible"] = tuple(info["admissible"])
    return info


def _pick(item: Any, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(item, name) for name in names}


def _shared(a: Sequence[Any], b: Sequence[Any]) -> int:
    n = min(len(a), len(b))
    return next((i for i in range(n) if a[i] != b[i]), n)


def _jsonable(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    return str(value)
