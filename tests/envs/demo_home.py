"""A `HomeSpec` with the entities of Home Assistant's own demo that the contract tests use: same ids, same features."""

from __future__ import annotations

from sandlot.envs.smarthome.spec import EntitySpec, HomeSpec, RoomSpec

_MODES = ["auto", "smart", "sleep", "on"]
_MEDIA = 4096 + 16384 + 1 + 4 + 8 + 1024 + 16 + 32 + 128 + 256 + 32768 + 8192


def _entity(entity_id: str, state: str | None = None, params: dict | None = None, **attributes: object) -> EntitySpec:
    name = entity_id.partition(".")[2].replace("_", " ").title()
    return EntitySpec(entity_id, name, area="house", state=state, attributes=attributes, params=params or {})


def demo_home() -> HomeSpec:
    """The home."""
    return HomeSpec(
        "demo",
        rooms=(RoomSpec("house", "House"),),
        entities=(
            _entity(
                "light.bed_light",
                supported_color_modes=["color_temp", "hs"],
                supported_features=4,
                effect_list=["rainbow", "none"],
            ),
            _entity("light.ceiling_lights", "on", supported_color_modes=["color_temp", "hs"], brightness=180),
            _entity("switch.ac", device_class="outlet"),
            _entity("climate.heatpump", "heat", hvac_modes=["heat", "off"], temperature=20.0, supported_features=385),
            _entity(
                "climate.ecobee",
                "heat_cool",
                hvac_modes=["off", "cool", "heat_cool", "auto", "dry", "fan_only"],
                preset_modes=["home", "eco", "away"],
                preset_mode="home",
                target_temp_low=21,
                target_temp_high=24,
                fan_modes=["on_low", "on_high", "auto_low", "auto_high", "off"],
                supported_features=2 | 8 | 16 | 128 | 256,
            ),
            _entity("cover.hall_window", "open", current_position=10, supported_features=15),
            _entity("cover.garage_door", "closed", device_class="garage", supported_features=3),
            _entity("lock.front_door", "locked"),
            _entity("lock.openable_lock", "locked", supported_features=1),
            _entity("fan.living_room_fan", supported_features=7, preset_modes=_MODES),
            _entity("fan.preset_only_limited_fan", supported_features=8, preset_modes=_MODES),
            _entity("humidifier.hygrostat", "on", supported_features=1, available_modes=["home", "eco"], mode="home"),
            _entity("media_player.walkman", "playing", volume_level=1.0, media_track=1, supported_features=_MEDIA),
            _entity("vacuum.0_ground_floor", fan_speed_list=["min", "medium", "high", "max"], fan_speed="medium"),
            _entity("number.volume", "42.0", min=0.0, max=100.0, step=1.0),
            _entity("select.speed", "ridiculous_speed", options=["light_speed", "ridiculous_speed", "ludicrous_speed"]),
            _entity("input_boolean.guests"),
            _entity("input_number.target", "30.0", min=0.0, max=100.0),
            _entity("input_select.mode", options=["day", "evening", "night"]),
            _entity("counter.visitors"),
            _entity("timer.tea", duration="0:05:00"),
            _entity("siren.siren_with_all_features", "on", supported_features=31, available_tones=["fire", "alarm"]),
            _entity("alarm_control_panel.security", params={"code": "1234"}, supported_features=63),
            _entity("water_heater.demo_water_heater_celsius", "eco", min_temp=43.3, max_temp=60.0, temperature=45),
            _entity("button.push"),
        ),
    )
