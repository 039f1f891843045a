"""What a run leaves for people: `curve.png` and a self-contained `report.html` with tables and readable episodes."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ..envs.core.errors import MissingExtra
from ..envs.core.picture import Picture
from .drawing import draw_all
from .records import Trajectory

__all__ = ["curve_png", "report_html", "visible"]

# C0 and C1 controls except tab and newline, and lone surrogates: shown as marks instead of being acted on.
_CONTROLS = {code: 0x2400 + code for code in range(0x20) if code not in (9, 10)}
_CONTROLS |= dict.fromkeys([0x7F, *range(0x80, 0xA0), *range(0xD800, 0xE000)], 0xFFFD)

_LONGEST = 4_000  # characters of one text in a report

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --good: #2a8a4a; --bad: #c0392b; --quiet: #888; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.1rem; margin-top: 2.2rem; }
.lead { color: var(--quiet); margin-top: .2rem; }
table { border-collapse: collapse; } .scroll { overflow-x: auto; }
th, td { text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
img { max-width: 100%; background: white; border-radius: 4px; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .6rem 0; padding: .4rem .8rem; }
summary { cursor: pointer; } .solved { color: var(--good); } .failed { color: var(--bad); }
.tag { color: var(--quiet); font-size: .85em; margin-left: .6em; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .35rem 0; font: 13px/1.45 ui-monospace, monospace; }
.action { border-left: 3px solid #3b7dd8; padding-left: .6rem; background: var(--soft); }
.refused { border-left-color: var(--bad); }
.picture { max-width: 100%; height: auto; background: #ffffff; color: #222222; border-radius: 6px;
  font-family: system-ui, sans-serif; margin: .35rem 0; }
.parts { position: absolute; } .look { border: none; margin: 0; padding: 0 0 0 .8rem; }
.look summary { color: var(--quiet); font-size: .85em; }
"""


def visible(text: str) -> str:
    """`text` with control characters replaced by marks, safe to print on a terminal or put into a page."""
    return text.translate(_CONTROLS)


def curve_png(
    series: Mapping[str, Sequence[tuple[float, float]]], *, title: str = "", x: str = "step", y: str = "success"
) -> bytes:
    """A line plot of named series of points, as the bytes of a PNG file. Points that are not finite leave a gap.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plot") from None
    figure = Figure(figsize=(7.2, 4.0), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for name, points in series.items():
        axes.plot([a for a, _ in points], [b for _, b in points], label=name, marker="o", markersize=3, linewidth=1.6)
    values = [b for points in series.values() for _, b in points]
    if values and min(values) >= 0 and max(values) <= 1:
        axes.set_ylim(-0.02, 1.02)
    axes.set(xlabel=x, ylabel=y)
    axes.set_title(title, parse_math=False)  # a name with a dollar sign is not a formula
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if len(series) > 1:
        axes.legend(frameon=False)
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()


def report_html(
    title: str,
    *,
    lead: str = "",
    tables: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    curve: bytes | None = None,
    episodes: Sequence[Trajectory] = (),
    pictures: Sequence[Sequence[Picture]] = (),
    config: Mapping[str, Any] | None = None,
) -> str:
    """A page that needs nothing else: no script, no network; every text in it is escaped.

    Args:
        title: the headline.
        lead: one sentence below it.
        tables: heading to rows; a row is column to value (floats are shown with three digits).
        curve: a PNG, embedded.
        episodes: shown as transcripts, folded.
        pictures: for each episode, the pictures of its start and of its turns (`drawing.film`), if there are any.
        config: shown at the end, nested tables as `a.b`.
    """
    parts = [f"<h1>{_text(title)}</h1>", f'<p class="lead">{_text(lead)}</p>' if lead else ""]
    parts += [f"<h2>{_text(heading)}</h2>{_table(rows)}" for heading, rows in (tables or {}).items() if rows]
    if curve is not None:
        data = base64.b64encode(curve).decode()
        parts.append(f'<h2>Curve</h2><img alt="learning curve" src="data:image/png;base64,{data}">')
    if episodes:
        parts.append("<h2>Episodes</h2>")
        for i, episode in enumerate(episodes):
            parts.append(_episode(episode, f"e{i}", pictures[i] if i < len(pictures) else (), opened=i == 0))
    if config:
        rows = [{"setting": key, "value": value} for key, value in _flat(config)]
        parts.append(f"<h2>Configuration</h2>{_table(rows)}")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _episode(episode: Trajectory, name: str, pictures: Sequence[Picture], *, opened: bool) -> str:
    mark = '<b class="solved">solved</b>' if episode.success else '<b class="failed">not solved</b>'
    turns = f"{len(episode.turns)} turn{'s' * (len(episode.turns) != 1)}"
    facts = f"{turns}, return {episode.reward:.3g}, {episode.stop}"
    definitions, drawn = draw_all(pictures, name)
    ends = (0, max((i for i, drawing in enumerate(drawn) if drawing), default=0))  # shown unfolded
    rows = [f"{definitions}<pre>{_text(episode.first_observation)}</pre>{_look(drawn, 0, ends)}"]
    for number, turn in enumerate(episode.turns, 1):
        said = turn.call.text if turn.call.text.strip() != turn.action.strip() else ""
        kind = "action" if turn.valid else "action refused"
        tag = "" if turn.valid else '<span class="tag">refused</span>'
        if turn.reward:
            tag += f'<span class="tag">reward {turn.reward:.3g}</span>'
        rows.append(f"<pre>{_text(said)}</pre>" if said else "")
        rows.append(f'<pre class="{kind}">{number}. {_text(turn.action) or "<i>(nothing)</i>"}{tag}</pre>')
        rows.append(f"<pre>{_text(turn.observation)}</pre>{_look(drawn, number, ends)}")
    if episode.error:
        rows.append(f'<pre class="failed">{_text(episode.error)}</pre>')
    return (
        f"<details{' open' if opened else ''}><summary>{mark} {_text(episode.task.id)}"
        f'<span class="tag">{_text(facts)}</span></summary>{"".join(rows)}</details>'
    )


def _look(drawn: Sequence[str], number: int, opened: Sequence[int]) -> str:
    """What stands there after a turn, where it has changed."""
    if number >= len(drawn) or not drawn[number]:
        return ""
    title = f"After turn {number}" if number else "At the start"
    mark = " open" if number in opened else ""
    return f'<details class="look"{mark}><summary>{title}</summary>{drawn[number]}</details>'


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    columns = list(dict.fromkeys(column for row in rows for column in row))
    numeric = {c for c in columns if all(isinstance(row.get(c, 0), (int, float)) for row in rows)}
    head = "".join(f"<th{_class(c in numeric)}>{_text(c)}</th>" for c in columns)
    body = "".join(
        "<tr>" + "".join(f"<td{_class(c in numeric)}>{_text(_show(row.get(c, '')))}</td>" for c in columns) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def _class(number: bool) -> str:
    return ' class="number"' if number else ""


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _text(text: str) -> str:
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]} … ({len(text) - _LONGEST:,} characters cut)"
    return escape(visible(text))


def _flat(config: Mapping[str, Any], path: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for key, value in config.items():
        name = f"{path}{key}"
        rows += _flat(value, f"{name}.") if isinstance(value, Mapping) else [(name, str(value))]
    return rows
