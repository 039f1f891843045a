"""The report page: complete, self-contained, and deaf to what hostile text says."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import numpy as np

from sandlot.harness.records import Call, Context, StopReason, Task, Trajectory, Turn
from sandlot.harness.report import curve_png, report_html, visible

EVIL = "</pre><script>alert(1)</script><img src=http://evil.example/x onerror=alert(1)>\x1b[2J\x00\u0085\ud800"


class Page(HTMLParser):
    """Collects tags, attributes and text, and fails on tags that are not balanced."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def episode(text: str, *, solved: bool = True, **changes: Any) -> Trajectory:
    call = Call("c", Context(()), f"I think {text}", np.zeros(1, np.float32))
    turn = Turn(call, text, text, 1.0, {"valid": False, "success": solved}, "", "")
    return Trajectory("t", "env", Task(text, "train"), text, {}, [turn], StopReason.TERMINATED, **changes)


def test_hostile_text_is_only_text() -> None:
    html = report_html(
        EVIL,
        lead=EVIL,
        tables={EVIL: [{EVIL: EVIL}]},
        episodes=[episode(EVIL, error=EVIL)],
        config={EVIL: {EVIL: EVIL}},
    )
    page = Page(html)
    assert "script" not in page.tags and "img" not in page.tags
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert page.text.count("<script>alert(1)</script>") >= 12
    assert not any(mark in html for mark in ("\x1b", "\x00", "\u0085", "\ud800"))
    html.encode()


def test_the_page_needs_nothing_from_outside() -> None:
    png = curve_png({"a": [(0, 0.1), (1, 0.5)]})
    page = Page(report_html("Title", curve=png, episodes=[episode("go")]))
    sources = [value for name, value in page.attributes if name in ("src", "href")]
    assert len(sources) == 1 and (sources[0] or "").startswith("data:image/png;base64,")
    assert any("default-src 'none'" in (value or "") for _, value in page.attributes)


def test_tables_and_transcripts_say_what_happened() -> None:
    page = Page(
        report_html(
            "Title",
            tables={
                "Result": [{"policy": "a", "success": 0.25}, {"policy": "b", "success": 1.0, "note": "x"}],
                "Empty": [],
            },
            episodes=[episode("open door"), episode("wait", solved=False)],
            config={"eval": {"tasks": 3}},
        )
    )
    for expected in ("0.25", "note", "1. open door", "refused", "reward 1", "not solved", "eval.tasks", "terminated"):
        assert expected in page.text
    assert "Empty" not in page.text


def test_long_texts_are_cut() -> None:
    page = Page(report_html("Title", episodes=[episode("x" * 10_000_000)]))
    assert len(page.text) < 40_000 and "9,996,000 characters cut" in page.text


def test_curves_are_pictures_even_of_nothing() -> None:
    for series in ({}, {"a": []}, {"a": [(0, float("nan")), (1, 0.5)], "b": [(0, -3.0)]}):
        assert curve_png(series, title="$\\frac{ & <b>$").startswith(b"\x89PNG")


def test_visible_keeps_text_and_marks_controls() -> None:
    assert visible("a\tb\nc é 漢") == "a\tb\nc é 漢"
    assert visible("\x1b[31m\x7f\x9b") == "\u241b[31m\ufffd\ufffd"
