"""Tasks: disjoint splits, ids that start the same task everywhere, groups that start alike."""

from __future__ import annotations

import gymnasium

from ..errors import UnknownTask, UserError
from ..tasks import SPLITS
from .subject import Skip, Subject, difference


def splits_are_disjoint(subject: Subject) -> None:
    """Every split has tasks, and no task is in two."""
    if not subject.accepts("split"):
        raise Skip("the constructor has no `split`")
    ids: dict[str, str] = {}
    contents: dict[str, str] = {}
    for split in SPLITS:
        with subject.bare(split=split) as env:
            tasks = env.tasks.first(100)
            assert tasks, f"split {split!r} is empty"
            for task in tasks:
                assert task.split == split, f"{task.id} says it is in {task.split!r}, drawn from {split!r}"
                assert ids.setdefault(task.id, split) == split, f"task {task.id} is in {ids[task.id]} and in {split}"
                content = repr(sorted(task.params.items()))
                if task.params:
                    assert contents.setdefault(content, split) == split, (
                        f"{task.id} equals a task of {contents[content]}"
                    )
            drawn = env.reset(seed=0)[1]["task_id"]
            assert env.tasks.get(drawn).split == split, f"reset() of split {split!r} drew {drawn}"
    try:
        with subject.bare(split="no such split") as env:
            env.reset(seed=0)
    except UserError:
        return
    raise AssertionError("an unknown split raises no UserError")


def task_ids_start_the_same_task(subject: Subject) -> None:
    """`info["task_id"]` starts the same task in another instance, after other tasks; wrong ids raise `UnknownTask`."""
    with subject.bare() as first, subject.bare() as second:
        second.reset(seed=99)
        for seed in range(min(subject.episodes, 10)):
            observation, info = first.reset(seed=seed)
            again, info_again = second.reset(seed=seed + 1000, options={"task": info["task_id"]})
            assert info == info_again, f"task {info['task_id']} starts differently: {difference(info, info_again)}"
            assert observation == again, f"task {info['task_id']} shows {again!r}, before {observation!r}"
            assert first.task == second.task or first.task.id == second.task.id
        for wrong in ("", "no such task", "\x00\ud800", "9" * 5000, "../x"):
            try:
                first.reset(options={"task": wrong})
            except UnknownTask:
                continue
            raise AssertionError(f"task id {wrong[:20]!r} raises no UnknownTask")


def group_starts_are_identical(subject: Subject) -> None:
    """`reset(seed=[7, 7, 7])` starts one group: equal observations and keys."""
    vector = gymnasium.make_vec(subject.spec, num_envs=3, vectorization_mode="sync")
    try:
        observations, infos = vector.reset(seed=[7, 7, 7])  # type: ignore[arg-type]
        assert len(set(observations)) == 1, "equal seeds give different observations"
        assert len(set(infos["state_key"])) == 1, "equal seeds give different state keys"
    finally:
        vector.close()
