"""Boots a headless Home Assistant with its demo devices: run by the Python of an environment that has the package.

    <environment>/bin/python tests/envs/real_home_assistant.py <configuration folder> <port>

Prints one line of JSON ({"url": ..., "token": ..., "version": ...}) when it is up, and stops when its standard input
ends. Only what the contract tests need is set up: no frontend, no recorder. `bootstrap.async_setup_hass` cannot be
used without the frontend's package (it ends in recovery mode), hence the steps one by one.
"""

# pyright: reportMissingImports=false
import asyncio
import json
import sys
from pathlib import Path

from homeassistant import auth, bootstrap, config_entries, const, loader
from homeassistant.core import HomeAssistant
from homeassistant.setup import async_setup_component

COMPONENTS = (
    *("homeassistant", "http", "api", "websocket_api", "config", "light", "switch", "climate", "cover", "fan", "lock"),
    *("media_player", "vacuum", "humidifier", "water_heater", "valve", "siren", "alarm_control_panel", "sensor"),
    *("binary_sensor", "number", "select", "button", "scene", "script", "automation", "timer", "todo", "weather"),
    *("input_boolean", "input_number", "input_select", "counter", "lawn_mower", "demo"),
)


async def main(folder: Path, port: int) -> None:
    """Boot, say where, wait for the end of standard input, stop."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "automations.yaml").write_text("[]\n")
    (folder / "configuration.yaml").write_text("automation: !include automations.yaml\n")
    hass = HomeAssistant(str(folder))
    hass.config.skip_pip = True
    loader.async_setup(hass)
    hass.config_entries = config_entries.ConfigEntries(hass, {})
    await bootstrap.async_load_base_functionality(hass)
    hass.auth = await auth.auth_manager_from_config(hass, [{"type": "homeassistant"}], [])
    hass.config.time_zone = "UTC"
    config = {
        "homeassistant": {},
        "http": {"server_host": ["127.0.0.1"], "server_port": port},
        "automation": [],
        "timer": {"tea": {"duration": "00:05:00", "name": "Tea"}},
        "input_boolean": {"guests": {"name": "Guests"}},
        "input_number": {"target": {"min": 0, "max": 100, "initial": 30}},
        "input_select": {"mode": {"options": ["day", "evening", "night"]}},
        "counter": {"visitors": {}},
        "demo": {},
    }
    for component in COMPONENTS:
        if not await async_setup_component(hass, component, {"light": {}, **config}):
            print(f"{component} was not set up", file=sys.stderr)
    await hass.async_start()
    await hass.async_block_till_done()
    user = await hass.auth.async_create_system_user("sandlot", group_ids=["system-admin"])
    token = hass.auth.async_create_access_token(await hass.auth.async_create_refresh_token(user))
    print(json.dumps({"url": f"http://127.0.0.1:{port}", "token": token, "version": const.__version__}), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await hass.async_stop(force=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
