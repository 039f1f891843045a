"""`sandlot shop serve` as a person uses it: in a browser, until Ctrl-C; what they did is on disk."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from typer.testing import CliRunner

from sandlot.cli import app
from sandlot.envs import make
from sandlot.harness.records import StopReason
from sandlot.harness.report import report_html
from sandlot.harness.runs import RunFolder

SANDLOT = str(Path(sys.executable).with_name("sandlot"))
SMALL = ("-k", "products=300")


@contextmanager
def served(folder: Path, *arguments: str) -> Iterator[tuple[str, list[str]]]:
    """The address of a running shop; afterwards the list holds the last line that it printed."""
    command = [SANDLOT, "shop", "serve", "--port", "0", "--out", str(folder), *SMALL, *arguments]
    said: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = None
        while address is None:
            line = process.stdout.readline()
            assert line, "it ended"
            address = re.search(r"http://127\.0\.0\.1:\d+/", line)
        try:
            yield address[0], said
        finally:
            process.send_signal(signal.SIGINT)
            try:
                said += process.communicate(timeout=20)[0].split("\n")
            finally:
                process.kill()
            assert process.returncode == 0


class Visitor:
    """A browser, as far as the site needs one."""

    def __init__(self, address: str) -> None:
        with urlopen(address) as answer:
            self.address, self.page = answer.geturl(), answer.read().decode()

    def act(self, **fields: str) -> None:
        with urlopen(f"{self.address}act", urlencode(fields).encode()) as answer:
            assert answer.geturl() == self.address
            self.page = answer.read().decode()


def test_visits_are_recorded_as_trajectories(tmp_path: Path) -> None:
    with served(tmp_path, "--seed", "5") as (address, said):
        buyer, leaver, _ = Visitor(address), Visitor(address), Visitor(address)
        assert buyer.address != leaver.address
        buyer.act(words="shoes")
        product = re.findall(r'class="product-link"[^>]*>(\w+)<', buyer.page)[2]
        buyer.act(action=f"click[{product.lower()}]")
        option = re.findall(r'type="radio"[^>]* value="([^"]+)"', buyer.page)[1]
        buyer.act(option=option)
        assert f'value="{option}" checked' in buyer.page
        buyer.act(action="click[fly]")
        assert "data-notice=" in buyer.page
        buyer.act(action="click[buy now]")
        assert "Thank you for shopping with us!" in buyer.page
        buyer.act(action="click[buy now]")
        assert "This visit is over" in buyer.page
        leaver.act(words="lamp")
    (folder,) = tmp_path.iterdir()
    assert f"2 visits recorded in {folder}" in said
    run = RunFolder(folder)
    assert run.config()["env_kwargs"] == {"products": 300}
    bought, left = run.trajectories()
    click = product.lower()
    assert [turn.action for turn in bought.turns] == [
        *("search[shoes]", f"click[{click}]", f"click[{option}]", "click[fly]", "click[buy now]"),
    ]
    assert [turn.valid for turn in bought.turns] == [True, True, True, False, True]
    assert (bought.stop, left.stop) == (StopReason.TERMINATED, StopReason.DEADLINE)
    assert {bought.env_id, bought.mode} == {"sandlot/WebShop-v0", "human"}
    assert (bought.seed, left.seed) == (5, 6) and bought.id != left.id
    assert [turn.action for turn in left.turns] == ["search[lamp]"]
    # The record is what the environment says to the same actions.
    env = make("WebShop", products=300)
    observation, info = env.reset(options={"task": bought.task.id})
    assert (observation, info) == (bought.first_observation, bought.first_info)
    for turn in bought.turns:
        assert turn.state_key == info["state_key"] and turn.obs_key == info["obs_key"]
        observation, reward, _, _, info = env.step(turn.action)
        assert (turn.observation, turn.reward, turn.info) == (observation, reward, info)
        assert turn.call.context.messages[0].text == bought.first_observation
    assert f"{bought.reward}" in buyer.page
    assert "click[fly]" in report_html("Visits", episodes=[bought, left])


def test_everybody_gets_the_task_that_is_named(tmp_path: Path) -> None:
    env = make("WebShop", products=300, split="test")
    task = env.tasks.at(3).id
    instruction = env.reset(options={"task": task})[1]["instruction"]
    with served(tmp_path, "--task", task) as (address, said):
        assert instruction in Visitor(address).page.replace("&#39;", "'")
        assert instruction in Visitor(address).page.replace("&#39;", "'")
    assert any(line.startswith("0 visits recorded") for line in said)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task", "nonsense"], "task"),
        (["-k", "size=3"], "has no argument 'size'"),
        (["-k", "compat=princeton"], "people get the shop without it"),
        (["-k", "products=-3"], "products"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(tmp_path: Path, arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["shop", "serve", "--port", "0", "--out", str(tmp_path), *SMALL, *arguments])
    assert result.exit_code == 2 and message in result.output, result.output
    assert not list(tmp_path.iterdir())


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = CliRunner().invoke(app, ["shop", "serve", "--port", port, "--out", str(tmp_path), *SMALL])
    assert result.exit_code == 2 and "choose another one with --port" in result.output
    assert not list(tmp_path.iterdir())
