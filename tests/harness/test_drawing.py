"""Pictures in reports: parts once, hostile words only words, replays that stop where they differ."""

from __future__ import annotations

from sandlot.envs.core.picture import Box, Dot, Label, Picture
from sandlot.envs.core.registry import make
from sandlot.harness.drawing import draw_all, film
from sandlot.harness.loop import EnvMaker, Rollout, play
from sandlot.harness.policies.scripted import OraclePolicy
from sandlot.harness.records import Trajectory
from sandlot.harness.report import report_html


def played(env_id: str, n: int, **kwargs: object) -> list[Trajectory]:
    maker = EnvMaker(env_id, kwargs)
    return play(OraclePolicy(), maker().tasks.first(n), Rollout(maker))


def test_parts_are_stored_once_and_equal_pictures_are_not_drawn_again() -> None:
    still, red = (Box(0, 0, 10, 10, "#eeeeee"),), (Dot(5, 5, 2, "#ff0000"),)
    first, second = Picture(10, 10, {"plan": still, "dot": ()}), Picture(10, 10, {"plan": still, "dot": red})
    definitions, drawn = draw_all([first, second, second, first], "e0")
    assert definitions.count("<g id=") == 2 and definitions.count("<rect") == 1
    assert [drawing.count("<use") for drawing in drawn] == [1, 2, 0, 1]
    assert drawn[1].index("#e0-0") < drawn[1].index("#e0-1")  # in the order of the parts


def test_hostile_shapes_are_only_shapes() -> None:
    evil = '"/><script>alert(1)</script>\x1b\x00'
    shapes = (Label(0, 0, evil, fill=evil), Box(0, 0, 1, 1, evil, evil), Dot(0, 0, 1, evil))
    definitions, _ = draw_all([Picture(1, 1, {evil: shapes})], "e0")
    assert "<script" not in definitions and "\x1b" not in definitions and "\x00" not in definitions
    assert definitions.count('fill="none"') == 3


def test_a_sheet_ends_when_it_is_full() -> None:
    pictures = [Picture(9, 9, {"a": tuple(Label(i, i, f"{n} {'x' * 1000}") for i in range(99))}) for n in range(9)]
    definitions, drawn = draw_all(pictures, "e0")
    assert len(definitions) < 700_000 and drawn[0] and not drawn[-1]


def test_episodes_are_filmed_by_playing_them_again() -> None:
    episodes = played("sandlot/SmartHome-v0", 3, size="small")
    pictures = film(lambda: make("sandlot/SmartHome-v0", size="small"), episodes)
    assert [len(reel) for reel in pictures] == [len(episode.turns) + 1 for episode in episodes]
    html = report_html("T", episodes=episodes, pictures=pictures)
    assert html.count('class="parts"') == 3 and "At the start" in html and "<rect" in html
    assert len(html) < 200_000
    episodes[0].turns[-1].state_key = "0" * 16
    again = film(lambda: make("sandlot/SmartHome-v0", size="small"), episodes)
    assert len(again[0]) == len(episodes[0].turns) - 1 and again[1:] == pictures[1:]


def test_no_pictures_of_what_has_none() -> None:
    assert film(lambda: make("sandlot/Corridor-v0"), played("sandlot/Corridor-v0", 2)) == []
