"""Media players: speakers and televisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..backend import EntityState
from ..spec import EntitySpec
from .domain import Domain, Service, flags, one_of
from .fields import Anything, Boolean, Choice, Number, Text, Texts

if TYPE_CHECKING:
    from .home import SimHome

FEATURES = {
    "PAUSE": 1,
    "SEEK": 2,
    "VOLUME_SET": 4,
    "VOLUME_MUTE": 8,
    "PREVIOUS_TRACK": 16,
    "NEXT_TRACK": 32,
    "TURN_ON": 128,
    "TURN_OFF": 256,
    "PLAY_MEDIA": 512,
    "VOLUME_STEP": 1024,
    "SELECT_SOURCE": 2048,
    "STOP": 4096,
    "CLEAR_PLAYLIST": 8192,
    "PLAY": 16384,
    "SHUFFLE_SET": 32768,
    "SELECT_SOUND_MODE": 65536,
    "BROWSE_MEDIA": 131072,
    "REPEAT_SET": 262144,
    "GROUPING": 524288,
    "MEDIA_ANNOUNCE": 1048576,
    "MEDIA_ENQUEUE": 2097152,
}
_F = FEATURES
_DEFAULT = sum(_F[name] for name in ("PAUSE", "VOLUME_SET", "VOLUME_MUTE", "TURN_ON", "TURN_OFF", "PLAY_MEDIA"))
_DEFAULT += sum(_F[name] for name in ("VOLUME_STEP", "STOP", "PLAY", "NEXT_TRACK", "PREVIOUS_TRACK"))
_PLAYING = ("media_content_id", "media_content_type", "media_track", "media_position")


def _player(spec: EntitySpec) -> tuple[str, dict[str, Any]]:
    features = int(spec.attributes.get("supported_features", _DEFAULT))
    attributes: dict[str, Any] = {"supported_features": features, "volume_level": 0.4, "is_volume_muted": False}
    if features & _F["SELECT_SOURCE"]:
        attributes |= {"source_list": ["TV", "HDMI 1", "Radio"], "source": "TV"}
    if features & _F["SELECT_SOUND_MODE"]:
        attributes |= {"sound_mode_list": ["Standard", "Movie", "Music"], "sound_mode": "Standard"}
    if features & _F["SHUFFLE_SET"]:
        attributes["shuffle"] = False
    if features & _F["REPEAT_SET"]:
        attributes["repeat"] = "off"
    if features & _F["GROUPING"]:
        attributes["group_members"] = []
    return "off", attributes


def _set(state: str | None = None, **fixed: Any) -> Any:
    """A handler that sets a state and the attributes of the call's fields."""

    def handle(home: SimHome, player: EntityState, data: dict[str, Any]) -> None:
        home.update(player.entity_id, state, {**data, **fixed})

    return handle


def _turn_on(home: SimHome, player: EntityState, data: dict[str, Any]) -> None:
    if player.state in ("off", "standby"):
        home.update(player.entity_id, "on" if player.attributes.get("device_class") == "tv" else "idle")


def _turn_off(home: SimHome, player: EntityState, data: dict[str, Any]) -> None:
    home.update(player.entity_id, "off", {key: None for key in _PLAYING if player.attributes.get(key) is not None})


def _toggle(home: SimHome, player: EntityState, data: dict[str, Any]) -> None:
    (_turn_on if player.state in ("off", "standby") else _turn_off)(home, player, data)


def _play(home: SimHome, player: EntityState, data: dict[str, Any]) -> None:
    changes = {} if player.attributes.get("media_track") else {"media_track": 1}
    home.update(player.entity_id, "playing", changes)


def _play_pause(home: SimHome, player: EntityState, data: dict[str, Any]) -> None:
    if player.state == "playing":
        home.update(player.entity_id, "paused")
    else:
        _play(home, player, data)


def _track(step: int) -> Any:
    def handle(home: SimHome, player: EntityState, data: dict[str, Any]) -> None:
        if player.state in ("playing", "paused"):
            number = int(player.attributes.get("media_track") or 1)
            home.update(player.entity_id, None, {"media_track": max(1, number + step)})

    return handle


def _volume(step: float) -> Any:
    def handle(home: SimHome, player: EntityState, data: dict[str, Any]) -> None:
        level = float(player.attributes.get("volume_level") or 0)
        home.update(player.entity_id, None, {"volume_level": round(max(0.0, min(1.0, level + step)), 2)})

    return handle


def _choose(kind: str) -> Any:
    def handle(home: SimHome, player: EntityState, data: dict[str, Any]) -> None:
        one_of(kind, data[kind], player.attributes.get(f"{kind}_list"))
        home.update(player.entity_id, "on" if player.state in ("off", "idle") else None, {kind: data[kind]})

    return handle


def _play_media(home: SimHome, player: EntityState, data: dict[str, Any]) -> None:
    if data.get("announce") and flags(player) & _F["MEDIA_ANNOUNCE"]:
        return
    media = {key: data[key] for key in ("media_content_id", "media_content_type")}
    if data.get("enqueue") in ("add", "next") and player.state == "playing":
        return
    home.update(player.entity_id, "playing", {**media, "media_track": 1})


def _power(player: EntityState, params: Mapping[str, Any]) -> float:
    if player.state in ("off", "standby"):
        return 0.5
    watts = float(params.get("power", 100.0 if player.attributes.get("device_class") == "tv" else 15.0))
    return watts if player.state in ("playing", "on", "paused") else watts / 3


def _need(*names: str) -> tuple[int, ...]:
    return (sum(_F[name] for name in names),)


MEDIA_PLAYER = Domain(
    "media_player",
    "off, on, idle, playing, paused, standby",
    {
        "turn_on": Service(_turn_on, features=_need("TURN_ON")),
        "turn_off": Service(_turn_off, features=_need("TURN_OFF")),
        "toggle": Service(_toggle, features=_need("TURN_OFF", "TURN_ON")),
        "volume_up": Service(_volume(0.1), features=(_F["VOLUME_SET"], _F["VOLUME_STEP"])),
        "volume_down": Service(_volume(-0.1), features=(_F["VOLUME_SET"], _F["VOLUME_STEP"])),
        "volume_mute": Service(
            _set(), {"is_volume_muted": Boolean()}, ("is_volume_muted",), features=_need("VOLUME_MUTE")
        ),
        "volume_set": Service(_set(), {"volume_level": Number(0, 1)}, ("volume_level",), features=_need("VOLUME_SET")),
        "media_play": Service(_play, features=_need("PLAY")),
        "media_pause": Service(_set("paused"), features=_need("PAUSE")),
        "media_play_pause": Service(_play_pause, features=_need("PAUSE", "PLAY")),
        "media_stop": Service(_set("idle"), features=_need("STOP")),
        "media_next_track": Service(_track(1), features=_need("NEXT_TRACK")),
        "media_previous_track": Service(_track(-1), features=_need("PREVIOUS_TRACK")),
        "media_seek": Service(
            lambda home, player, data: home.update(player.entity_id, None, {"media_position": data["seek_position"]}),
            {"seek_position": Number(0)},
            ("seek_position",),
            _need("SEEK"),
        ),
        "play_media": Service(
            _play_media,
            {
                "media_content_id": Text(),
                "media_content_type": Text(),
                "enqueue": Choice(("play", "next", "add", "replace")),
                "announce": Boolean(),
                "extra": Anything(),
            },
            ("media_content_id", "media_content_type"),
            _need("PLAY_MEDIA"),
        ),
        "select_source": Service(_choose("source"), {"source": Text()}, ("source",), _need("SELECT_SOURCE")),
        "select_sound_mode": Service(
            _choose("sound_mode"), {"sound_mode": Text()}, ("sound_mode",), _need("SELECT_SOUND_MODE")
        ),
        "clear_playlist": Service(_set("idle", media_track=None), features=_need("CLEAR_PLAYLIST")),
        "shuffle_set": Service(_set(), {"shuffle": Boolean()}, ("shuffle",), _need("SHUFFLE_SET")),
        "repeat_set": Service(_set(), {"repeat": Choice(("off", "all", "one"))}, ("repeat",), _need("REPEAT_SET")),
        "join": Service(_set(), {"group_members": Texts()}, ("group_members",), _need("GROUPING")),
        "unjoin": Service(_set(group_members=[]), features=_need("GROUPING")),
    },
    _player,
    FEATURES,
    power=_power,
)
