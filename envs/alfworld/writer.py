"""Generated games as files, laid out as the benchmark's own data, so that `alfworld`'s `AlfredTWEnv` plays them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..core.errors import MissingData
from . import generator, oracle
from .engine_fast import FastEngine
from .generator import Draft
from .official import FILE
from .scenes import LAMP
from .tasks import GeneratedTasks

FOLDER = "json_2.1.1"


def write_games(root: str | Path, split: str = "train", n: int = 100, **filters: Any) -> list[Path]:
    """Write `n` generated games of a split below `root/json_2.1.1/<split>`; returns their `game.tw-pddl` files.

    Set `$ALFWORLD_DATA` to `root`, or pass `data=root`, to play them. Each game carries a walkthrough that was played
    to its end here. The games are spread evenly over the split's task types and combinations.

    Args:
        root: a folder; made if missing.
        split: `train`, `valid_seen`, `valid_unseen` or `test`.
        n: how many.
        **filters: `task_types`, `rooms`, `max_receptacles` as `GeneratedTasks` takes them.

    Raises:
        MissingData: the folder cannot be written.
    """
    tasks = GeneratedTasks(split, **filters).first(n)
    try:
        return [_write(Path(root) / FOLDER / split, generator.draft(task.params["recipe"])) for task in tasks]
    except OSError as error:
        raise MissingData(f"cannot write games below {root}: {error.strerror}") from error


def walkthrough(made: Draft) -> list[str]:
    """A solution, played to its end."""
    engine = FastEngine(generator.game(made))
    engine.start()
    played = []
    for action in oracle.actions(engine):
        engine.step(action)
        played.append(action)
    return played


def trajectory(made: Draft) -> dict[str, Any]:
    """The content of `traj_data.json`, as far as ALFWorld reads it."""
    combo = made.recipe.combo
    lamp = combo.receptacle == LAMP
    return {
        "task_id": made.trial,
        "task_type": combo.task_type,
        "pddl_params": {
            "object_target": combo.object,
            "parent_target": "" if lamp else combo.receptacle,
            "toggle_target": combo.receptacle if lamp else "",
            "mrecep_target": "",
            "object_sliced": False,
        },
        "scene": {"floor_plan": f"FloorPlan{combo.scene}", "scene_num": combo.scene, "random_seed": made.recipe.seed},
        "plan": {"high_pddl": [], "low_actions": []},
        "turk_annotations": {"anns": []},
        "images": [],
    }


def _write(folder: Path, made: Draft) -> Path:
    place = folder / made.recipe.combo.name / made.trial
    place.mkdir(parents=True, exist_ok=True)
    (place / "initial_state.pddl").write_text(generator.pddl(made), encoding="utf-8")
    (place / "traj_data.json").write_text(json.dumps(trajectory(made), indent=1), encoding="utf-8")
    path = place / FILE
    path.write_text(json.dumps(generator.game_file(made, walkthrough(made))), encoding="utf-8")
    return path
