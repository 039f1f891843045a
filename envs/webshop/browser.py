"""A headless Chromium, driven through Selenium: it opens pages of the shop, acts on them and reads what they show."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from platformdirs import user_cache_path

from ..core.errors import EnvironmentFault, MissingExtra, UserError
from .page import Node, fold
from .site import HOST

PATIENCE = 30.0
"""Seconds until a page that does not come is given up."""
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_ARGUMENTS = (
    *("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--no-first-run"),
    *("--disable-domain-reliability", "--window-size=1280,900", "--lang=en"),
    f"--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE {HOST}",  # nothing but this machine
)
# Acts as a person would; false where the page offers no such thing.
_ACT = """
const [verb, what] = arguments;
if (verb === "search") {
  const bar = document.getElementById("search_input");
  if (bar) { bar.value = what; bar.form.requestSubmit(); }
  return Boolean(bar);
}
const named = [...document.querySelectorAll("button, .product-link")];
const found = named.find(e => e.textContent.toLowerCase() === what)
  ?? [...document.querySelectorAll("input[type=radio]")].findLast(e => e.value === what);
found?.click();
return Boolean(found);
"""
# What a page without the wanted control cannot do, an address typed in can: the original's agents do so.
_SEND = """
const form = document.createElement("form");
form.method = "post"; form.action = "act";
const field = document.createElement("input");
field.name = "action"; field.value = arguments[0];
form.append(field); document.body.append(form); form.submit();
"""
_READ = """
const [before, wantSource] = arguments;
const [loading] = performance.getEntriesByType("navigation");
if (performance.timeOrigin === before || !loading?.domContentLoadedEventEnd) return null;
const unseen = new Set(["STYLE", "SCRIPT", "HEAD", "TITLE", "META", "HTML"]), texts = [];
document.body.normalize();
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const parent = walker.currentNode.parentElement;
  if (unseen.has(parent.tagName)) continue;
  let role = {BUTTON: "button", LABEL: "option"}[parent.tagName] ?? "text";
  if (role === "text" && parent.className === "product-link") role = "visited" in parent.dataset ? "visited" : "link";
  texts.push([walker.currentNode.data, role]);
}
let source = "";
if (wantSource) {
  const request = new XMLHttpRequest();
  request.open("GET", location.href, false); request.send();
  source = request.responseText;
}
const reward = document.querySelector("#reward b")?.textContent ?? "";
return [performance.timeOrigin, texts, document.body.dataset.url, reward, source];
"""


class BrowserMissing(MissingExtra):
    """There is no Chromium, or no driver for it, on this machine."""

    def __init__(self, program: str) -> None:
        UserError.__init__(self, f"{program} is not installed; on Debian: apt-get install chromium chromium-driver")


@dataclass(frozen=True)
class Shown:
    """What a browser shows."""

    nodes: tuple[Node, ...]
    address: str
    """As the page itself says it."""
    reward: float
    """0 on pages that name none."""
    source: str
    """The page's HTML; "" where it was not asked for."""

    @property
    def clickables(self) -> frozenset[str]:
        """What can be clicked, as `page.clickables` names it."""
        return frozenset(
            node.text if node.role == "option" else node.text.lower() for node in self.nodes if node.role != "text"
        )


class Browser:
    """One Chromium with one tab, for one thread at a time. `quit` ends all its processes.

    Raises:
        MissingExtra: Selenium is not installed.
        BrowserMissing: Chromium is not installed.
        EnvironmentFault: it does not start.
    """

    def __init__(self) -> None:
        try:
            from selenium import webdriver
            from selenium.webdriver.chrome.service import Service
        except ImportError:
            raise MissingExtra("selenium", "browser") from None
        program, driver = _program(_PROGRAMS), _program(("chromedriver",))
        # Everything it writes lies in one folder of its own, wherever temporary files may go meanwhile.
        self._folder = user_cache_path("sandlot") / "browser" / f"{os.getpid()}-{uuid4().hex[:8]}"
        self._folder.mkdir(parents=True)
        options = webdriver.ChromeOptions()
        options.binary_location = program
        options.page_load_strategy = "none"
        # Connections made in the hope of a next page would keep the site's threads waiting.
        options.add_experimental_option("prefs", {"net.network_prediction_options": 2})
        for argument in (*_ARGUMENTS, f"--user-data-dir={self._folder / 'profile'}"):
            options.add_argument(argument)
        if hasattr(os, "geteuid") and os.geteuid() == 0:  # Chromium's own sandbox refuses to run as root
            options.add_argument("--no-sandbox")
        service = Service(driver, env={**os.environ, "TMPDIR": str(self._folder)}, popen_kw={"process_group": 0})
        self.tab = ""
        """Which visit's page is open; whoever uses the browser keeps it."""
        self._origin, self._guard = 0.0, None
        try:
            with _faults("Chromium does not start"):
                self._driver = webdriver.Chrome(options=options, service=service)
                self._guard = _guard(service.process.pid, self._folder)
                self._driver.set_script_timeout(PATIENCE)
        except BaseException:
            self._end(service)
            raise

    def open(self, address: str, *, source: bool = False) -> Shown:
        """Go to a page of the shop."""
        with _faults(f"Chromium does not open {address}"):
            self._driver.get(address)
            return self._read(source)

    def act(self, verb: str, what: str, *, source: bool = False) -> Shown:
        """Search or click on the open page; returns the page that follows."""
        with _faults(f"Chromium cannot {verb}"):
            if not self._driver.execute_script(_ACT, verb, what):
                self._driver.execute_script(_SEND, f"{verb}[{what}]")
            return self._read(source)

    def screenshot(self) -> bytes:
        """The visible part of the open page as PNG."""
        with _faults("Chromium takes no picture"):
            return self._driver.get_screenshot_as_png()

    def quit(self) -> None:
        """End it. May be called twice."""
        with suppress(Exception):  # a browser that is gone is as good as one that ends
            self._driver.quit()
        self._end(self._driver.service)

    def _end(self, service: Any) -> None:
        """End what is left of its processes, and its files."""
        with suppress(Exception):
            service.stop()
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.close()
            self._guard.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _read(self, source: bool) -> Shown:
        """The page that comes after the one that was read last: until it is there, the old one answers."""
        from selenium.common.exceptions import WebDriverException

        deadline, problem = time.monotonic() + PATIENCE, "the page does not come"
        while time.monotonic() < deadline:
            try:
                found = self._driver.execute_script(_READ, self._origin, source)
            except WebDriverException as error:  # between two pages there is nothing to read
                if not self._alive():
                    raise
                found, problem = None, str(error.msg)
            if found:
                self._origin, texts, address, reward, html = found
                nodes = tuple(Node(kept, role) for text, role in texts if (kept := fold(text)))
                return Shown(nodes, address, float(reward or 0.0), html)
            time.sleep(0.002)
        raise EnvironmentFault(f"no page within {PATIENCE:.0f} s: {problem}")

    def _alive(self) -> bool:
        process = self._driver.service.process
        return process is not None and process.poll() is None


@contextmanager
def _faults(what: str) -> Iterator[None]:
    """Turn what goes wrong in or on the way to Chromium into one `EnvironmentFault`."""
    from selenium.common.exceptions import WebDriverException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except (WebDriverException, HTTPError, OSError) as error:
        reason = getattr(error, "msg", None) or str(error)
        raise EnvironmentFault(f"{what}: {reason.splitlines()[0] if reason else type(error).__name__}") from error


def _program(names: tuple[str, ...]) -> str:
    for name in names:
        if found := shutil.which(name):
            return found
    raise BrowserMissing(names[0])


def _guard(leader: int, folder: Path) -> subprocess.Popen[bytes] | None:
    """A process that ends the group of `leader` and removes `folder` when this process is gone, however it ends."""
    shell = shutil.which("sh")
    if shell is None:
        return None
    script = 'read line; kill -9 "-$1"; rm -rf "$2"'
    return subprocess.Popen(
        [shell, "-c", script, shell, str(leader), str(folder)],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
