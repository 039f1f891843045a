"""WebShop as a site: the browser sees what the text says; hostile visitors get nowhere; nothing is left behind."""

from __future__ import annotations

import http.client
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from urllib.parse import urlencode

import numpy as np
import pytest
from platformdirs import user_cache_path

from sandlot.envs import make
from sandlot.envs.core import EnvironmentFault, InvalidArgument, MissingExtra
from sandlot.envs.core.testing import check_text_env
from sandlot.envs.webshop import browser, site_env
from sandlot.envs.webshop.core import Shelf
from sandlot.envs.webshop.env import MODES, WebShopEnv
from sandlot.envs.webshop.page import Page, clickables
from sandlot.envs.webshop.site import HOST, Site
from sandlot.envs.webshop.site_env import WebShopSiteEnv

PRODUCTS = 300


def text_env(**kwargs: object) -> WebShopEnv:
    return WebShopEnv(products=PRODUCTS, **kwargs)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def chromium() -> Iterator[None]:
    """The browser, or a skip that says what is missing; ended afterwards."""
    try:
        with site_env._browser():
            pass
    except (MissingExtra, EnvironmentFault) as error:
        pytest.skip(str(error))
    yield
    site_env._process.end()


@pytest.fixture
def site_environment(chromium: None) -> Iterator[WebShopSiteEnv]:
    env = WebShopSiteEnv(products=PRODUCTS)
    yield env
    env.close()


def script(env: WebShopEnv, rng: np.random.Generator, info: dict[str, object], query: str) -> str:
    """What to do next: mostly what is offered, sometimes what the oracle does, sometimes nonsense."""
    draw, listed = rng.random(), info["admissible"]
    if draw < 0.1:
        return str(
            rng.choice(["click[nothing]", "search[]", "Search[x]", "hello", "click[buy now]", f"search[{query}]"])
        )
    if draw < 0.4 or not listed:
        return next(iter(env.oracle()), "") if draw % 0.1 < 0.06 else f"search[{query}]"
    return str(rng.choice(list(listed)))  # type: ignore[call-overload]


# Queries that an address, a form or HTML could trip over.
QUERIES = [
    "red shoes",
    "a/b/../c",
    "50% off & <b>more</b>",
    "naïve 漢字 👍🏽",
    ' "quoted" ',
    "?x=1#y",
    "item_page",
    "+ +",
    "a]b",
]


@pytest.mark.parametrize(("mode", "compat"), [*((mode, None) for mode in MODES), ("text_rich", "princeton")])
def test_the_browser_and_the_text_environment_agree(chromium: None, mode: str, compat: str | None) -> None:
    """The same actions in both: identical observations, infos (available actions included), rewards and ends."""
    text, site = text_env(mode=mode, compat=compat), WebShopSiteEnv(products=PRODUCTS, mode=mode, compat=compat)
    rng = np.random.default_rng(MODES.index(mode))
    kinds = set()
    try:
        for seed in range(2):
            expected = text.reset(seed=seed)
            assert site.reset(seed=seed) == expected
            info, steps = expected[1], 0
            while steps < 10:
                action = script(text, rng, info, QUERIES[int(rng.integers(len(QUERIES)))])
                outcome = text.step(action)
                assert site.step(action) == outcome, action
                info, steps = outcome[4], steps + 1
                kinds.add(info["page_kind"])
                if outcome[2] and compat is None:
                    break
            shown = site._seen[site.session].clickables
            assert shown == {name for name in clickables(text.page)}
        for action in iter(lambda: next(iter(text.oracle()), ""), ""):
            assert site.step(action) == text.step(action)
    finally:
        text.close()
        site.close()
    assert len(kinds) >= 4


def test_two_environments_take_turns_in_one_browser(chromium: None) -> None:
    first, second, text = WebShopSiteEnv(products=PRODUCTS), WebShopSiteEnv(products=PRODUCTS), text_env()
    try:
        starts = [env.reset(seed=seed)[0] for env, seed in ((first, 1), (second, 2), (text, 1))]
        assert starts[0] == starts[2] != starts[1]
        first.step("search[shoes]")
        second.step("search[lamp]")
        snapshot = first.snapshot()
        first.step("click[next >]")
        text.step("search[shoes]")
        assert first.restore(snapshot)[0] == text._last[0]
        for action in ("click[next >]", "click[< prev]"):
            assert first.step(action) == text.step(action)
    finally:
        for env in (first, second, text):
            env.close()


def test_a_picture_of_the_page(site_environment: WebShopSiteEnv) -> None:
    site_environment.reset(seed=0)
    start = site_environment.screenshot()
    site_environment.step("search[shoes]")
    results = site_environment.screenshot()
    assert start.startswith(b"\x89PNG") and results.startswith(b"\x89PNG") and start != results


# The checks that touch what is special here: processes, forks, state on a server. All of them run as slow tests.
QUICK = ("docstring_headings", "info_is_step_info", "invalid_actions_change_nothing", "late_actions_are_refused")


def test_contract_where_the_browser_matters(chromium: None) -> None:
    quick = (*QUICK, "close_leaves_nothing_behind", "privileged_calls_leave_no_trace", "vector_async")
    report = check_text_env(
        WebShopSiteEnv, episodes=1, max_episode_steps=15, only=quick, products=PRODUCTS, raise_on_failure=False
    )
    assert report.ok and len(report.passed) == len(quick), report


def test_a_browser_that_dies_is_a_fault_and_is_replaced(chromium: None) -> None:
    env = WebShopSiteEnv(products=PRODUCTS)
    try:
        start = env.reset(seed=0)
        shared = site_env._process.browser
        assert shared is not None
        shared._driver.service.process.kill()  # type: ignore[union-attr]
        with pytest.raises(EnvironmentFault):
            env.step("search[shoes]")
        assert env.reset(seed=0) == start
        assert env.step("search[shoes]")[4]["valid"]
        assert site_env._process.browser is not shared
    finally:
        env.close()


def left_over(owner: int) -> list[str]:
    """Processes whose command line names the browser's folder of process `owner`."""
    found = subprocess.run(["ps", "-wweo", "args"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in found if f"sandlot/browser/{owner}-" in line]


@pytest.mark.skipif(shutil.which("ps") is None, reason="there is no `ps` here")
@pytest.mark.parametrize("end", ["", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"])
def test_no_process_and_no_file_outlives_its_owner(chromium: None, end: str) -> None:
    code = (
        "from sandlot.envs.webshop.site_env import WebShopSiteEnv\n"
        f"env = WebShopSiteEnv(products={PRODUCTS}); env.reset(seed=0)\n{end}"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as child:
        assert child.wait(60) == {"": 0, "i": -signal.SIGKILL}[end[:1]]
    folders = user_cache_path("sandlot") / "browser"
    deadline = time.monotonic() + 10
    while (left_over(child.pid) or list(folders.glob(f"{child.pid}-*"))) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left_over(child.pid)
    assert not list(folders.glob(f"{child.pid}-*"))


def test_without_a_browser_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser.shutil, "which", lambda name: None)
    with pytest.raises(MissingExtra, match="chromium is not installed; on Debian: apt-get install"):
        browser.Browser()


# -- the site by itself, without a browser -----------------------------------------------------------------------------


class Door:
    """A text environment as a visit."""

    def __init__(self) -> None:
        self.env = text_env()
        self.env.reset(seed=0)
        self.actions: list[str] = []
        self.over = False

    @property
    def shelf(self) -> Shelf:
        return self.env.core.shelf

    def page(self) -> Page:
        return self.env.page

    def act(self, action: str) -> str:
        self.actions.append(action)
        observation, _, _, _, info = self.env.step(action)
        return "" if info["valid"] else observation.splitlines()[0]

    def left(self) -> None:
        self.over = True


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Site, Door, str]]:
    site, door = Site(), Door()
    yield site, door, f"/s/{site.open(door)}"
    site.close()
    site.close()
    door.env.close()
    assert door.over


def ask(
    site: Site, path: str, fields: dict[str, str] | None = None, host: str | None = None
) -> tuple[int, dict[str, str], str]:
    """One request, sent as it is: no client that tidies the address up."""
    connection = http.client.HTTPConnection(HOST, site.port, timeout=20)
    try:
        headers = {"Host": host} if host else {}
        body = urlencode(fields, errors="surrogatepass") if fields is not None else None
        headers |= {"Content-Type": "application/x-www-form-urlencoded"} if body is not None else {}
        connection.request("POST" if body is not None else "GET", path, body, headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode("utf-8", "replace")
    finally:
        connection.close()


def test_the_site_listens_on_this_machine_only(served: tuple[Site, Door, str]) -> None:
    site, _, visit = served
    assert site._server.server_address[0] == "127.0.0.1"
    assert ask(site, f"{visit}/")[0] == 200
    assert ask(site, f"{visit}/", host="evil.example")[0] == 400  # a foreign name that was made to lead here
    status, headers, _ = ask(site, f"{visit}/")
    assert "default-src 'none'" in headers["Content-Security-Policy"] and status == 200
    assert headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/s/", "/s/guess/", "/s/guess/act", "/s/guess/picture/B0.svg", "/static/", "/static/site.py"),
        *(
            "/static/../site.py",
            "/static/%2e%2e/site.py",
            "/static/..%2fsite.py",
            "/static//etc/passwd",
            "/static/base.html",
        ),
        *("/static/%00", "/%ff%fe", "//", "/s/../../etc/passwd"),
    ],
)
def test_there_is_nothing_else_to_be_had(served: tuple[Site, Door, str], path: str) -> None:
    status, _, body = ask(served[0], path)
    assert status in (404, 308, 400)
    assert "root:" not in body and "Traceback" not in body and "import" not in body


@pytest.mark.parametrize("asin", ["B0", "..", "..%2f..%2fsite", "%00", "x" * 3000, "' OR 1=1 --".replace(" ", "%20")])
def test_pictures_of_products_only(served: tuple[Site, Door, str], asin: str) -> None:
    site, _, visit = served
    assert ask(site, f"{visit}/picture/{asin}.svg")[0] in (404, 308, 400)


def test_a_picture_is_served(served: tuple[Site, Door, str]) -> None:
    site, door, visit = served
    asin = door.env.shop.catalogue.product(0).asin
    status, headers, body = ask(site, f"{visit}/picture/{asin}.svg?color=%22%3E%3Cscript%3E")
    assert status == 200 and headers["Content-Type"].startswith("image/svg+xml")
    assert body.startswith("<svg") and "script" not in body


HOSTILE = [
    *("<script>alert(1)</script>", "{{ 7 * 7 }}", "{% include 'x' %}", '" onload="x', "' OR 1=1; --", "../" * 50),
    *("\x00\x1b[2J", "\ud800", "🦊" * 1000, "a" * 4090, "[" * 100, "]" * 100, "\r\nSet-Cookie: a=b", " ", ""),
]


@pytest.mark.parametrize("field", ["words", "action", "option"])
def test_hostile_input_is_text_or_refused(served: tuple[Site, Door, str], field: str) -> None:
    site, door, visit = served
    for text in HOSTILE:
        door.env.reset(seed=0)
        status, headers, _ = ask(site, f"{visit}/act", {field: text})
        assert (status, headers["Location"]) == (303, f"{visit}/"), text
        assert "Set-Cookie" not in headers
        status, _, body = ask(site, f"{visit}/")
        assert status == 200
        assert not re.search(r"<script(?! src=\"/static/shop.js\")|\" onload", body), text
        assert "49" not in re.findall(r'data-url="([^"]*)"|data-notice="([^"]*)"', body)[0], text
    door.env.reset(seed=0)


def test_what_is_too_long_is_turned_away(served: tuple[Site, Door, str]) -> None:
    site, door, visit = served
    before = door.env.session
    started = time.monotonic()
    with pytest.raises((ConnectionError, AssertionError, http.client.HTTPException)):
        # The answer may come before ten megabytes are sent: then the connection breaks.
        assert ask(site, f"{visit}/act", {"words": "x" * 10_000_000})[0] == 303
    assert ask(site, f"{visit}/act?action={'x' * 10_000}")[0] == 303  # refused in words
    assert "characters are accepted" in ask(site, f"{visit}/")[2]
    assert door.env.session == before and time.monotonic() - started < 10
    assert ask(site, f"{visit}/")[0] == 200


def test_a_page_out_of_date_can_ask_for_nothing_more(served: tuple[Site, Door, str]) -> None:
    site, door, visit = served
    door.env.reset(seed=0)
    ask(site, f"{visit}/act", {"words": "red shoes"})
    ask(site, f"{visit}/act", {"action": "click[back to search]"})
    ask(site, f"{visit}/act", {"action": "click[next >]"})  # the browser's back button, then a click
    body = ask(site, f"{visit}/")[2]
    assert "data-notice=" in body and 'id="search_input"' in body
    assert "data-notice=" not in ask(site, f"{visit}/")[2]  # said once
    assert ask(site, f"{visit}/act?action=search%5Bred%20shoes%5D")[0] == 303
    assert "Page 1 (Total results: 50)" in ask(site, f"{visit}/")[2]


def test_a_query_of_any_kind_is_searched_as_it_is(served: tuple[Site, Door, str]) -> None:
    site, door, visit = served
    for query in QUERIES:
        door.env.reset(seed=0)
        ask(site, f"{visit}/act", {"words": query})
        assert door.actions[-1] == f"search[{query}]"
        assert door.env.session.query == query.lower()
    ask(site, f"{visit}/act", {"words": "[red] shoes"})
    assert door.actions[-1] == "search[ red] shoes]"


def test_no_page_names_the_goal(served: tuple[Site, Door, str]) -> None:
    """What is sent from start to purchase has nothing of the goal but the instruction."""
    site, door, visit = served
    for seed in range(5):
        door.env.reset(seed=seed)
        goal = door.env.session.goal
        pages = [ask(site, f"{visit}/")[2]]
        ask(site, f"{visit}/act", {"words": "zzzz"})
        pages.append(ask(site, f"{visit}/")[2])
        ask(site, f"{visit}/act", {"action": "click[back to search]"})
        ask(site, f"{visit}/act", {"words": "aquarium" if "shoe" in goal.query else "shoe"})
        shown = ask(site, f"{visit}/")[2]
        other = re.findall(r'class="product-link"[^>]*>(\w+)<', shown)[0]
        for action in (f"click[{other.lower()}]", "click[description]", "click[< prev]", "click[buy now]"):
            ask(site, f"{visit}/act", {"action": action})
            pages.append(ask(site, f"{visit}/")[2])
        assert "Thank you" in pages[-1]
        for page in [*pages, shown]:
            assert goal.asin not in page and goal.title not in page and goal.product_category not in page
            assert str(goal.price_upper) not in page.replace(goal.instruction, "")


def test_a_port_that_is_taken_is_said_so() -> None:
    site = Site()
    try:
        with pytest.raises(InvalidArgument, match="choose another one with --port"):
            Site(port=site.port)
        for wrong in (99_999, -1):
            with pytest.raises(InvalidArgument, match="--port"):
                Site(port=wrong)
    finally:
        site.close()


def test_it_is_made_by_name() -> None:
    env = make("WebShopSite")
    assert isinstance(env, WebShopSiteEnv) and env.max_steps == 15
    env.close()
