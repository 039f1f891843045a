"""The floor plan: everything in the home is on it, what changed is marked, and nothing privileged is."""

from __future__ import annotations

from dataclasses import replace

from sandlot.envs.core.picture import Box, Label, Picture
from sandlot.envs.smarthome.blueprint.text import parse
from sandlot.envs.smarthome.env import SmartHomeEnv
from sandlot.envs.smarthome.tasks.make import NAMES


def begun(task: str) -> SmartHomeEnv:
    env = SmartHomeEnv()
    env.reset(options={"task": task})
    return env


def labels(picture: Picture) -> list[Label]:
    return [shape for shapes in picture.parts.values() for shape in shapes if isinstance(shape, Label)]


def test_every_room_lies_inside_and_its_devices_are_told() -> None:
    for size in ("small", "medium", "large"):
        env = begun(f"train-{size}-4")
        picture = env.picture()
        words, told = {label.text for label in labels(picture)}, " ".join(picture.text.split())
        for room in env.session.task.home.rooms:
            assert room.name in words and room.name in picture.text
        boxes = [shape for shape in picture.parts["plan"] if isinstance(shape, Box)]
        assert len(boxes) == len(env.session.task.home.rooms)
        for box in boxes:
            assert box.x >= 0 and box.x + box.width <= picture.width and box.y + box.height <= picture.height
        for entity, state in env.session.home.states().items():
            if entity.startswith("light."):
                title = env.session.home.registry().areas[env.session.home.registry().area_of(entity) or ""].name
                assert f"{state.name.removeprefix(f'{title} ').removesuffix(f' {title}')}: " in told
        assert max(len(line) for line in picture.text.splitlines()) <= 100


def test_what_changed_is_marked_and_shown_over_time() -> None:
    env = begun(f"train-small-{NAMES.index('single')}")
    lamp = next(key for key in env.session.home.states() if key.startswith("light."))
    name, before = env.session.home.states()[lamp].name, env.picture()
    assert not before.parts["timeline"] and not any(label.bold and ": " in label.text for label in labels(before)[2:-1])
    env.step(f"call_service(service=light.toggle, entity_id={lamp})")
    env.step("wait(minutes=5)")
    after = env.picture()
    state = env.session.home.states()[lamp].state
    bold = [label.text for label in labels(after) if label.bold and ": " in label.text]
    assert any(text.endswith((state, "%")) for text in bold) and "*" in after.text and "*" not in before.text
    assert any(label.text == name for label in after.parts["timeline"] if isinstance(label, Label))
    assert after.parts["plan"] is not before.parts["plan"] and after.parts["plan"] == before.parts["plan"]


def test_looking_changes_nothing_and_knows_nothing_of_the_goal() -> None:
    for kind in ("history", "ask_which", "routine", "stuck", "automation"):
        env = begun(f"train-any-{NAMES.index(kind)}")
        twin = begun(f"train-any-{NAMES.index(kind)}")
        picture = env.picture()
        task, goal = env.session.task, parse("horizon 3 h\nmust light.none is on")
        env.session.task = replace(env.session.task, goal=goal, answer="x", about="y", answers={}, request="z")
        assert env.picture() == picture
        env.session.task = task
        assert env.step("wait(minutes=30)") == twin.step("wait(minutes=30)")
        assert env.session.home.key() == twin.session.home.key()
