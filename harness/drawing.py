"""Pictures of episodes as SVG inside a page: each part is defined once and used wherever it is equal again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from html import escape

from ..envs.core.errors import EnvironmentFault, UnknownTask
from ..envs.core.picture import Box, Dot, Label, Picture, Shape
from ..envs.core.text_env import TextEnv
from .loop import derive_seed
from .records import Trajectory

_COLOUR = re.compile(r"#[0-9a-fA-F]{3,8}|none")
_MOST = 400_000  # characters of one episode's drawings


def film(make: Callable[[], TextEnv], episodes: Sequence[Trajectory]) -> list[tuple[Picture, ...]]:
    """For each episode its pictures, at the start and after each turn, found by playing it again.

    So nothing is recorded for them while agents play. They end where the replay differs from the record (its state
    keys tell); there are none for environments without pictures.

    Args:
        make: the environment that the episodes were played in; it is closed afterwards.
        episodes: recorded before, with this version.
    """
    try:
        env = make()
    except EnvironmentFault:
        return []
    try:
        if type(env).picture is TextEnv.picture:
            return []
        return [tuple(_replay(env, episode)) for episode in episodes]
    finally:
        env.close()


def _replay(env: TextEnv, episode: Trajectory) -> Iterator[Picture]:
    seed = derive_seed(episode.seed, episode.tries, 0) % 2**31
    keys = [*(turn.state_key for turn in episode.turns), str(episode.last_info.get("state_key"))]
    try:
        _, info = env.reset(seed=seed, options={"task": episode.task.id})
        for turn, key in zip([*episode.turns, None], keys, strict=True):
            picture = env.picture()
            if picture is None or info["state_key"] != key:
                return
            yield picture
            if turn is not None:
                info = env.step(turn.action)[4]
    except (EnvironmentFault, UnknownTask):
        return


class Sheet:
    """The drawings of one episode.

    Args:
        name: unlike that of any other sheet on the page; letters and digits.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._known: dict[tuple[Shape, ...], str] = {}
        self._size = 0

    def draw(self, picture: Picture) -> str:
        """An `<svg>` that uses the sheet's parts; empty once the sheet is full."""
        if self._size > _MOST:
            return ""
        uses = "".join(f'<use href="#{self._part(shapes)}"/>' for shapes in picture.parts.values() if shapes)
        size = f"{picture.width:g} {picture.height:g}"
        html = f'<svg class="picture" viewBox="0 0 {size}" width="{picture.width:g}" role="img">{uses}</svg>'
        self._size += len(html)
        return html

    def definitions(self) -> str:
        """What goes on the page once, anywhere."""
        parts = "".join(f'<g id="{key}">{"".join(map(_shape, shapes))}</g>' for shapes, key in self._known.items())
        return f'<svg width="0" height="0" class="parts"><defs>{parts}</defs></svg>' if parts else ""

    def _part(self, shapes: tuple[Shape, ...]) -> str:
        if shapes not in self._known:
            self._known[shapes] = f"{self._name}-{len(self._known)}"
            self._size += sum(len(_shape(shape)) for shape in shapes)
        return self._known[shapes]


def draw_all(pictures: Sequence[Picture], name: str) -> tuple[str, list[str]]:
    """The definitions of an episode's drawings, and a drawing for each picture ("" where it is equal to the last)."""
    sheet, drawn = Sheet(name), list[str]()
    for index, picture in enumerate(pictures):
        same = index and picture.parts == pictures[index - 1].parts
        drawn.append("" if same else sheet.draw(picture))
    return sheet.definitions(), drawn


def _shape(shape: Shape) -> str:
    match shape:
        case Box(x, y, width, height, fill, stroke):
            where = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
            return f'<rect {where} fill="{_colour(fill)}" stroke="{_colour(stroke)}"/>'
        case Dot(x, y, radius, fill, stroke):
            where = f'cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"'
            return f'<circle {where} fill="{_colour(fill)}" stroke="{_colour(stroke)}"/>'
        case Label(x, y, text, size, fill, bold):
            weight = ' font-weight="bold"' if bold else ""
            look = f'font-size="{size:g}" fill="{_colour(fill)}"{weight}'
            return f'<text x="{x:.1f}" y="{y:.1f}" {look}>{escape(_printable(text))}</text>'


def _colour(text: str) -> str:
    return text if _COLOUR.fullmatch(text) else "none"


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
