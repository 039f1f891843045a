"""The published cases of home-assistant-datasets become goals that services reach (no file of them is in sandlot)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandlot.envs.core.errors import MissingData
from sandlot.envs.smarthome.blueprint.checks import problems
from sandlot.envs.smarthome.blueprint.goal import Said, Within
from sandlot.envs.smarthome.blueprint.ha_cases import load_cases, start
from sandlot.envs.smarthome.blueprint.run import Recorder
from sandlot.envs.smarthome.blueprint.show import show
from sandlot.envs.smarthome.blueprint.text import parse
from sandlot.envs.smarthome.oracle.regress import calls_for

pytest.importorskip("yaml")
BESIDE = Path(__file__).resolve().parents[2].parent / "shared" / "data"
DATA = Path(os.environ.get("SANDLOT_TEST_DATA", BESIDE)) / "smarthome" / "home-assistant-datasets"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"no Home Assistant datasets in {DATA} (SANDLOT_TEST_DATA)")

HOME = """
areas: [{name: Hall, id: hall}]
entities:
  - {name: Lamp, id: light.lamp, area: hall, state: "off", attributes: {supported_color_modes: [brightness]}}
  - {name: List, id: todo.list, attributes: {todo_items: [milk]}}
"""
CASES = """
category: light
tests:
  - sentences: [Light at half]
    setup: {light.lamp: {state: "on", attributes: {brightness: 255}}}
    expect_changes: {light.lamp: {attributes: {brightness: 128}}}
    ignore_changes: {todo.list: [message]}
  - sentences: [Turn on something]
    expect_changes: {light.lamp: {state: "off"}}
  - sentences: ['What is on my list?']
    expect_response: [milk]
  - sentences: [Nobody knows]
"""


def test_a_file_of_cases(tmp_path: Path) -> None:
    (tmp_path / "_fixtures.yaml").write_text(HOME, encoding="utf-8")
    (tmp_path / "light.yaml").write_text(CASES, encoding="utf-8")
    half, nothing, question = load_cases(tmp_path)
    assert (half.id, half.sentences) == ("light.yaml#1", ("Light at half",))
    assert show(half.goal).splitlines() == [
        "horizon 1 min",
        "must within 1 min (light.lamp.brightness = 128 tolerance 1)",
        "must unchanged except light.lamp, todo.list.message",
    ]
    assert start(half).states()["light.lamp"].attributes["brightness"] == 255
    assert [case.expects_nothing for case in (half, nothing, question)] == [False, True, False]
    assert question.goal.must[0] == Said("milk")
    with pytest.raises(MissingData, match="is no folder"):
        load_cases(tmp_path / "none")


@needs_data
def test_every_published_case_converts_and_is_reached() -> None:
    """83 tests say what they expect: a plan by regression alone reaches 78; 5 expect that nothing changes."""
    cases = load_cases(DATA)
    assert len(cases) == 83 and sum(case.expects_nothing for case in cases) == 5
    assert sum(len(case.sentences) for case in cases) > 200
    for case in cases:
        assert parse(show(case.goal)) == case.goal
        home = start(case)
        wanted = [item.of for item in case.goal.must if isinstance(item, Within)]
        calls = [] if case.expects_nothing else calls_for(home, wanted)
        assert calls is not None, case.id

        def plan(recorder: Recorder, case=case, calls=calls) -> None:
            for call in calls:
                assert call.make(recorder.home) is None, (case.id, call)
            for answer in (item.pattern for item in case.goal.must if isinstance(item, Said)):
                recorder.act("say", f"It is {answer.replace(chr(92), '')}.")

        found = problems(case.goal, home, plan)
        if case.expects_nothing:  # and doing something is wrong
            assert len(found) == 3 and not any("plan" in problem for problem in found), (case.id, found)
            spoiled = problems(case.goal, home, lambda recorder: _toggle_all(recorder))
            assert any("the plan does not reach it" in problem for problem in spoiled), case.id
        else:
            assert found == [], (case.id, show(case.goal))


def _toggle_all(recorder: Recorder) -> None:
    for domain in ("light", "lock", "todo"):
        for entity in [key for key in recorder.home.states() if key.startswith(f"{domain}.")]:
            if domain == "lock":
                locked = recorder.home.states()[entity].state == "locked"
                recorder.home.call_service("lock", "unlock" if locked else "lock", None, {"entity_id": entity})
            elif domain == "todo":
                recorder.home.call_service("todo", "add_item", {"item": "milk"}, {"entity_id": entity})
            else:
                recorder.home.call_service("light", "toggle", None, {"entity_id": entity})
