"""`sandlot/WebShopSite-v0`."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.util import Finalize
from typing import ClassVar

from ..core import EnvironmentFault, Outcome, Task
from .browser import Browser, Shown
from .core import Shelf, ShopCore, parse
from .env import WebShopEnv
from .page import Page, text, text_rich
from .session import Session
from .site import Site

_REMEMBERED = 64  # states whose page is known without opening it again


class WebShopSiteEnv(WebShopEnv):
    """The same shop as a web site, used through a real browser.

    ## Description
    As `sandlot/WebShop-v0`, page for page and reward for reward, but every page is served by a web server on this
    machine, opened in a headless Chromium and read from the browser's own tree; actions are clicks and keystrokes
    there. For what needs a real site: pictures, browser agents, a test of the text environment. A step takes about a
    tenth of a second. All environments of a process share one browser and take turns.

    ## Action Space
    As in `sandlot/WebShop-v0`: `search[words]` on the start page, `click[x]` elsewhere.

    ## Observation Space
    As in `sandlot/WebShop-v0`: text in one of the modes `text`, `text_rich`, `html` and `url`, made from what the
    browser shows. `screenshot()` gives the page as a picture.

    ## Starting State
    The start page, with the instruction and a search bar.

    ## Rewards
    As in `sandlot/WebShop-v0`; the number is read from the last page.

    ## Episode End
    Terminated by the purchase. Registered limit: 15 steps.

    ## Information
    The contract's keys, and `page_kind` and `noun_tagger`, all as in `sandlot/WebShop-v0`.

    ## Privileged Information
    As in `sandlot/WebShop-v0`.

    ## State Key
    As in `sandlot/WebShop-v0`, and equal to it for the same task and state.

    ## Arguments
    As in `sandlot/WebShop-v0`.

    ## Source and Licence
    https://github.com/princeton-nlp/WebShop (MIT): rules and page texts. Pages, style and pictures are ours. Needs
    Chromium and its driver (Debian: `chromium`, `chromium-driver`).

    ## Version History
    - v0: first version.
    """

    waits: ClassVar[bool] = True
    _visit: _Visit | None = None
    _seen: OrderedDict[Session, Shown]

    def screenshot(self) -> bytes:
        """The page as PNG."""
        with _browser() as (site, browser):
            self._open(site, browser)
            return browser.screenshot()

    def close(self) -> None:
        """Leave the shop. The browser stays for the process's other environments and ends with it."""
        if self._visit is not None:
            self._visit.site.leave(self._visit.name)
            self._visit = None
        super().close()

    def _reset(self, task: Task) -> str:
        self._seen = OrderedDict()
        return super()._reset(task)

    def _step(self, action: str) -> Outcome:
        # A control that is not there cannot be clicked: what is refused never gets to the site.
        command = parse(action)
        step = self._core.step(self._session, action, self._page)
        if command is None or step.refusal:
            return super()._step(action)
        with _browser() as (site, browser):
            visit = self._open(site, browser)
            shown = browser.act(*command, source=self._mode == "html")
            if visit.refusal:
                raise EnvironmentFault(f"the site refuses {action[:100]!r}, which it offers: {visit.refusal}")
        super()._go(visit.session)
        self._remember(shown)
        return Outcome(self._observe(), shown.reward if step.bought else 0.0, step.bought)

    def _go(self, session: Session) -> None:
        """Put the visit on the site into this state; the browser follows when something is to be read or done."""
        super()._go(session)
        if session not in self._seen:
            with _browser() as (site, browser):
                self._open(site, browser, again=True)

    def _open(self, site: Site, browser: Browser, *, again: bool = False) -> _Visit:
        """Have the browser show this environment's page."""
        visit = self._visit
        if visit is None or visit.site is not site:
            visit = self._visit = _Visit(site)
        if again or visit.session != self._session or visit.core is not self._core or browser.tab != visit.name:
            visit.core, visit.session = self._core, self._session
            browser.tab = ""
            self._remember(browser.open(site.page_address(visit.name), source=self._mode == "html"))
            browser.tab = visit.name
        return visit

    def _remember(self, shown: Shown) -> None:
        self._seen[self._session] = shown
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)

    def _observe(self) -> str:
        shown = self._seen[self._session]
        if self._mode == "text":
            return text(shown.nodes)
        if self._mode == "text_rich":
            return text_rich(shown.nodes, shown.address)
        return shown.address if self._mode == "url" else shown.source

    def _admissible(self) -> tuple[str, ...] | None:
        listed = super()._admissible()
        shown = self._seen[self._session].clickables
        return listed and tuple(action for action in listed if action.startswith("search[") or action[6:-1] in shown)


class _Visit:
    """An environment's place on the site."""

    core: ShopCore
    session: Session

    def __init__(self, site: Site) -> None:
        self.site, self.refusal = site, ""
        self.name = site.open(self)

    @property
    def shelf(self) -> Shelf:
        return self.core.shelf

    def page(self) -> Page:
        return self.core.page(self.session)

    def act(self, action: str) -> str:
        step = self.core.step(self.session, action)
        self.session, self.refusal = step.session, step.refusal
        return step.refusal

    def left(self) -> None: ...


class _Process:
    """What the environments of a process share: the site, the browser, and whose turn it is."""

    def __init__(self) -> None:
        self.turn = threading.RLock()
        self.site: Site | None = None
        self.browser: Browser | None = None

    def end(self) -> None:
        """End browser and site; the next environment starts new ones."""
        browser, site, self.browser, self.site = self.browser, self.site, None, None
        if browser is not None:
            browser.quit()
        if site is not None:
            site.close()


_process = _Process()
_parents: list[_Process] = []  # kept, because Selenium would end a parent's browser when its objects go


def _forked() -> None:
    global _process
    _parents.append(_process)
    _process = _Process()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


@contextmanager
def _browser() -> Iterator[tuple[Site, Browser]]:
    """Site and browser of this process, started when first needed; a browser that fails is replaced the next time."""
    mine = _process
    with mine.turn:
        if mine.site is None or mine.browser is None:
            mine.end()
            mine.site, mine.browser = Site(), Browser()
            Finalize(mine, mine.end, exitpriority=10)
        try:
            yield mine.site, mine.browser
        except EnvironmentFault:
            mine.end()
            raise
