"""The device-action cases of home-assistant-datasets as goals: a device, and sentences that tell what to do with it.

These files (Apache-2.0, github.com/allenporter/home-assistant-datasets; none of them is part of sandlot) say nothing of
what is expected: people judged the answers. What a sentence asks for is read here with a small grammar of orders, so
that one entry can become several cases ("Volume 10", "Make it louder"). Where files name no home, it is put together
from the devices that they describe.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...core.errors import MissingData
from ..ha_fixtures import load_fixtures
from ..sim.beginning import slug
from ..spec import DeviceSpec, EntitySpec, HomeSpec, RoomSpec
from .goal import Attribute, Blueprint, Condition, Not, State, Unchanged, Within
from .ha_cases import Case, changed_entity, read_yaml

_MINUTE = 60.0
_TYPES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "light": ("light", {"supported_color_modes": ["onoff"]}),
    "light-dimmable": ("light", {"supported_color_modes": ["brightness"]}),
    "smart-plug": ("switch", {"device_class": "outlet"}),
    "smart-speaker": ("media_player", {"device_class": "speaker"}),
    "smart-tv": ("media_player", {"device_class": "tv"}),
    "hvac": ("climate", {}),
}
"""Type of device -> domain and attributes, where a file names no entity."""


@dataclass(frozen=True)
class Want:
    """What a sentence asks a device to do."""

    action: str
    """The files' own word: "Turn on", "Turn off", "Pause", "Unpause", "Next track", "Previous track", "Set volume",
    "Set brightness", "Set temperature"."""
    value: float | str | None = None
    """A number, or "up" or "down"."""


@dataclass(frozen=True)
class Skipped:
    """A sentence that became no goal."""

    id: str
    """Of its entry."""
    sentence: str
    reason: str


def load_actions(folder: str | Path) -> tuple[tuple[Case, ...], tuple[Skipped, ...]]:
    """The device-action cases below a folder, and the sentences that became none.

    Raises:
        MissingData: there is no such folder, or a file in it is broken.
        MissingExtra: PyYAML is not installed.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise MissingData(f"{folder} is no folder")
    cases: list[Case] = []
    skipped: list[Skipped] = []
    for entry in _entries(folder):
        domain = entry.entity.partition(".")[0]
        sentences: dict[Want, list[str]] = {}
        for sentence in entry.sentences:
            want = read_order(sentence, domain)
            reason = _cannot(want, entry)
            if want is None or reason:
                skipped.append(Skipped(entry.id, sentence, reason))
            else:
                sentences.setdefault(want, []).append(sentence)
        for want, group in sentences.items():
            name = f"{entry.id} {want.action}{'' if want.value is None else f' {want.value}'}"
            cases.append(_case(entry, name, want, tuple(group)))
    return tuple(cases), tuple(skipped)


def read_order(sentence: str, domain: str) -> Want | None:
    """What a sentence asks a device of a domain to do; None where the grammar does not know."""
    text = sentence.lower()
    number = re.search(r"\d+(?=\s*%)" if domain == "light" else r"\d+(?=\s*(?:%|degrees|$))|(?<=volume )\d+", text)
    if domain == "media_player":
        for action, signs in _PLAYING:
            if re.search(signs, text):
                return Want(action)
        if re.search(r"\b(louder|turn up)\b", text) or re.search(r"\b(quieter|turn down)\b", text):
            return Want("Set volume", "up" if re.search(r"\b(louder|up)\b", text) else "down")
        return Want("Set volume", float(number.group())) if number and "volume" in text else None
    if number and domain == "light":
        return Want("Set brightness", float(number.group()))
    if number and domain == "climate":
        return Want("Set temperature", float(number.group()))
    if re.search(r"\b(on|start|open)\b", text):
        return Want("Turn on")
    return Want("Turn off") if re.search(r"\b(off|stop|close|shut)\b", text) else None


_PLAYING = (
    ("Next track", r"\b(next|skip forward)\b"),
    ("Previous track", r"\b(previous|skip backward)\b"),
    ("Unpause", r"\b(unpause|resume|play)\b"),
    ("Pause", r"\b(pause|stop)\b"),
)


@dataclass(frozen=True)
class _Entry:
    """A device with the sentences of one order."""

    id: str
    home: HomeSpec
    entity: str
    sentences: tuple[str, ...]


def _entries(folder: Path) -> Iterator[_Entry]:
    described: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for path in sorted(folder.rglob("*.yaml")):
        data = {} if path.name.startswith("_") else read_yaml(path)
        if not isinstance(data, Mapping):
            continue
        name = path.relative_to(folder).as_posix()
        if "device" in data and "actions" in data:
            described.setdefault(str(data["home"]), []).append((name, data))
        fixtures, spec = path.with_name("_fixtures.yaml"), None
        for index, test in enumerate(data.get("tests") or ()):
            if "entity_id" in test and fixtures.exists():
                sentences = tuple(map(str, test["sentences"]))
                spec = spec or load_fixtures(fixtures)
                yield _Entry(f"{name}#{index + 1}", spec, test["entity_id"], sentences)
    for home, files in described.items():
        spec = _described_home(home, [data["device"] for _, data in files])
        for name, data in files:
            for index, action in enumerate(data["actions"]["actions"]):
                entity = _described_entity(data["device"])
                yield _Entry(f"{name}#{index + 1}", spec, entity.entity_id, tuple(map(str, action["sentences"])))


def _described_home(name: str, devices: list[Mapping[str, Any]]) -> HomeSpec:
    areas = dict.fromkeys(str(device["area"]) for device in devices)
    rooms = tuple(RoomSpec(slug(area), area, x=4.0 * index) for index, area in enumerate(areas))
    things = tuple(
        DeviceSpec(_device_id(device), str(device["name"]), slug(str(device["area"])), **_info(device))
        for device in devices
    )
    return HomeSpec(slug(name), name, rooms=rooms, devices=things, entities=tuple(map(_described_entity, devices)))


def _info(device: Mapping[str, Any]) -> dict[str, str]:
    given = device.get("device_info") or {}
    return {key: str(given.get(key, "")) for key in ("manufacturer", "model", "sw_version")}


def _device_id(device: Mapping[str, Any]) -> str:
    name, area = slug(str(device["name"])), slug(str(device["area"]))
    return name if name.startswith(area) else f"{area}_{name}"


def _described_entity(device: Mapping[str, Any]) -> EntitySpec:
    kind = str(device["device_type"])
    if kind not in _TYPES:
        raise MissingData(f"a device of the type {kind!r}: known are {', '.join(_TYPES)}")
    domain, attributes = _TYPES[kind]
    made, params = _device_id(device), {"static": True} if domain == "climate" else {}
    return EntitySpec(f"{domain}.{made}", str(device["name"]), made, attributes=dict(attributes), params=params)


def _cannot(want: Want | None, entry: _Entry) -> str:
    """Why a want becomes no goal; empty where it does."""
    if want is None:
        return "the grammar does not know it"
    if want.action == "Set temperature" and isinstance(want.value, float) and want.value > 60:
        return "it is in degrees Fahrenheit; homes are in Celsius"
    features = next(item for item in entry.home.entities if item.entity_id == entry.entity).attributes
    if not int(features.get("supported_features", -1)) & _NEEDED.get(want.action, -1):
        return "the published device does not support it"
    return ""


def _case(entry: _Entry, name: str, want: Want, sentences: tuple[str, ...]) -> Case:
    entity = entry.entity
    before, condition = _meaning(entity, want)
    entities = tuple(changed_entity(item, before) if item.entity_id == entity else item for item in entry.home.entities)
    goal = Blueprint((Within(_MINUTE, condition), Unchanged((entity,))), horizon=_MINUTE)
    return Case(name, sentences, replace(entry.home, entities=entities), goal)


def _meaning(entity: str, want: Want) -> tuple[dict[str, Any], Condition]:
    """What the device is set to before, so that there is something to do, and what must become true."""
    domain = entity.partition(".")[0]
    on, off = _ENDS.get(domain, ("on", "off"))
    match want.action, want.value:
        case "Turn on", _:
            reached = Not(State(entity, "off")) if domain == "climate" else State(entity, on)
            return {"state": off}, reached
        case "Turn off", _:
            return {"state": on}, State(entity, off)
        case "Pause", _:
            return {"state": "playing"}, Not(State(entity, "playing"))
        case "Unpause", _:
            return {"state": "paused"}, State(entity, "playing")
        case (("Next track" | "Previous track"), _):
            track = 4 if want.action == "Next track" else 2
            return {"state": "playing", "attributes": {"media_track": 3}}, Attribute(entity, "media_track", "=", track)
        case "Set volume", ("up" | "down") as way:
            begin = {"state": "playing", "attributes": {"volume_level": 0.4}}
            return begin, Attribute(entity, "volume_level", ">" if way == "up" else "<", 0.4)
        case "Set volume", float(percent):
            begin = {"state": "playing", "attributes": {"volume_level": 0.4}}
            return begin, Attribute(entity, "volume_level", "=", percent / 100, 0.001)
        case "Set brightness", float(percent):
            begin = {"state": "on", "attributes": {"brightness": 100}}
            return begin, Attribute(entity, "brightness", "=", round(percent * 2.55), 1.0)
        case _:
            assert isinstance(want.value, float)
            return {"state": "heat", "attributes": {"temperature": want.value - 3}}, Attribute(
                entity, "temperature", "=", want.value
            )


_NEEDED = {"Unpause": 16384, "Set temperature": 1}  # PLAY; one TARGET_TEMPERATURE (the fixtures' other one is a range)
_ENDS = {"cover": ("open", "closed"), "valve": ("open", "closed"), "climate": ("heat", "off")}
