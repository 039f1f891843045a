"""Serve a simulated home to clients of Home Assistant: `python -m sandlot.envs.smarthome.hass [--fixtures FILE]`."""

from __future__ import annotations

import argparse
import threading

from ...core.errors import UserError
from ..example import example_home
from ..ha_fixtures import load_fixtures
from ..sim.home import SimHome
from .server import HomeServer


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m sandlot.envs.smarthome.hass", description=__doc__)
    parser.add_argument("--fixtures", help="a _fixtures.yaml of home-assistant-datasets; the example home without it")
    parser.add_argument("--port", type=int, default=8123)
    parser.add_argument("--speed", type=float, default=1.0, help="seconds of home time per second; 0 stops the clock")
    options = parser.parse_args()
    try:
        spec = load_fixtures(options.fixtures) if options.fixtures else example_home()
        server = HomeServer(SimHome(spec), port=options.port, speed=options.speed)
    except UserError as error:
        parser.error(str(error))
    with server:
        print(f"{spec.name} at {server.url}\ntoken: {server.token}\nCtrl-C ends it.", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    main()
