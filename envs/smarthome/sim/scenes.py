"""scene, script and automation: the services that start many calls at once. `rules` runs the sequences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..backend import EntityState, entity_ids
from .domain import Domain, Refused, Service
from .fields import Anything, Boolean, Number, Text, Texts
from .reproduce import calls_for
from .triggers import state_text

if TYPE_CHECKING:
    from .home import SimHome


def _apply(home: SimHome, entities: Mapping[str, Any]) -> None:
    for entity_id, wanted in entities.items():
        state, attributes = _wanted(wanted)
        now = home.state(entity_id)
        if now is None:
            home.warn(f"Unable to find entity {entity_id}")
            continue
        for service, data in calls_for(now, state, attributes):
            # A scene does what it can; one device that refuses does not spoil the rest.
            home.call_inner(now.domain, service, {**data, "entity_id": entity_id})


def _wanted(value: Any) -> tuple[str, Mapping[str, Any]]:
    if isinstance(value, Mapping):
        return state_text(value.get("state", "on")), {key: item for key, item in value.items() if key != "state"}
    return state_text(value), {}


def _scene_on(home: SimHome, scene: EntityState, data: dict[str, Any]) -> None:
    home.update(scene.entity_id, home.now().isoformat())
    _apply(home, home.memory(scene.entity_id).get("entities") or home.params(scene.entity_id).get("entities", {}))


def _scene_apply(home: SimHome, data: dict[str, Any]) -> None:
    _apply(home, data["entities"])


def _scene_create(home: SimHome, data: dict[str, Any]) -> None:
    scene_id = data["scene_id"]
    if not scene_id.replace("_", "").isalnum() or scene_id != scene_id.lower():
        raise Refused(f"invalid slug {scene_id} for dictionary value @ data['scene_id']", "invalid_format")
    entities = dict(data.get("entities", {}))
    for entity_id in data.get("snapshot_entities", ()):
        state = home.state(entity_id)
        if state is None:
            raise Refused(f"Unable to find entity {entity_id}", "home_assistant_error")
        entities[entity_id] = {"state": state.state, **state.attributes}
    if not entities:
        raise Refused("must contain at least one of entities, snapshot_entities.", "invalid_format")
    entity_id = f"scene.{scene_id}"
    name = scene_id.replace("_", " ")
    home.create(entity_id, "unknown", {"friendly_name": name, "entity_id": list(entities)})
    home.remember(entity_id, {"entities": entities})


def _scene_delete(home: SimHome, scene: EntityState, data: dict[str, Any]) -> None:
    if "entities" not in home.memory(scene.entity_id):
        text = f"The scene {scene.entity_id} is not created with service `scene.create`"
        raise Refused(text)
    home.delete(scene.entity_id)


SCENE = Domain(
    "scene",
    "time of the last activation",
    {
        "turn_on": Service(_scene_on, {"transition": Number(0, 6553)}),
        "apply": Service(
            fields={"entities": Anything(), "transition": Number(0, 6553)},
            required=("entities",),
            at_home=_scene_apply,
        ),
        "create": Service(
            fields={"scene_id": Text(), "entities": Anything(), "snapshot_entities": Texts()},
            required=("scene_id",),
            at_home=_scene_create,
        ),
        "delete": Service(_scene_delete),
    },
)


def _script_on(home: SimHome, script: EntityState, data: dict[str, Any]) -> None:
    params = home.params(script.entity_id)
    home.rules.run_script(script.entity_id, tuple(params.get("sequence", ())), str(params.get("mode", "single")))


def _script_off(home: SimHome, script: EntityState, data: dict[str, Any]) -> None:
    home.rules.stop(script.entity_id)


def _script_toggle(home: SimHome, script: EntityState, data: dict[str, Any]) -> None:
    (_script_off if script.state == "on" else _script_on)(home, script, data)


def run_by_name(home: SimHome, name: str) -> Service | None:
    """The service `script.<name>`, where there is such a script."""
    script = home.state(f"script.{name}")
    if script is None:
        return None
    return Service(fields={}, at_home=lambda home, data: _script_on(home, script, data))


SCRIPT = Domain(
    "script",
    "on while it runs, off",
    {
        "turn_on": Service(_script_on, {"variables": Anything()}),
        "turn_off": Service(_script_off),
        "toggle": Service(_script_toggle),
    },
    lambda spec: ("off", {"last_triggered": None, "mode": spec.params.get("mode", "single"), "current": 0}),
    timing="as its parameter `sequence` says (delays, waits)",
)


def _automation_on(home: SimHome, automation: EntityState, data: dict[str, Any]) -> None:
    home.update(automation.entity_id, "on")


def _automation_off(home: SimHome, automation: EntityState, data: dict[str, Any]) -> None:
    if data.get("stop_actions", True):
        home.rules.stop(automation.entity_id)
    home.update(automation.entity_id, "off")


def _automation_toggle(home: SimHome, automation: EntityState, data: dict[str, Any]) -> None:
    (_automation_off if automation.state == "on" else _automation_on)(home, automation, data)


def _automation_trigger(home: SimHome, automation: EntityState, data: dict[str, Any]) -> None:
    rule = home.rules.automations.get(str(automation.attributes.get("id")))
    if rule is not None:
        home.rules.trigger(rule, None, data.get("skip_condition", True))


AUTOMATION = Domain(
    "automation",
    "on, off",
    {
        "turn_on": Service(_automation_on),
        "turn_off": Service(_automation_off, {"stop_actions": Boolean()}),
        "toggle": Service(_automation_toggle),
        "trigger": Service(_automation_trigger, {"skip_condition": Boolean()}),
        "reload": Service(at_home=lambda home, data: None),
    },
    lambda spec: ("on", {"last_triggered": None, "mode": "single", "current": 0}),
    timing="as its triggers, conditions and actions say",
)


def _everywhere(service: str) -> Service:
    """`homeassistant.turn_on` and its like: each entity's own domain does it, where it can."""

    def handle(home: SimHome, data: dict[str, Any]) -> None:
        for entity_id in entity_ids(data["entity_id"]):
            domain = home.domains.get(entity_id.partition(".")[0])
            if domain is not None and service in domain.services and home.state(entity_id) is not None:
                home.call_inner(domain.name, service, {"entity_id": entity_id})
            else:
                home.warn(f"{entity_id} has no service {service}")

    return Service(fields={"entity_id": Texts()}, required=("entity_id",), at_home=handle)


def _nothing(home: SimHome, data: dict[str, Any]) -> None:
    """The call is in the home's log, and that is all."""


HOMEASSISTANT = Domain(
    "homeassistant",
    "(no entities)",
    {
        "turn_on": _everywhere("turn_on"),
        "turn_off": _everywhere("turn_off"),
        "toggle": _everywhere("toggle"),
        "update_entity": Service(fields={"entity_id": Texts()}, required=("entity_id",), at_home=_nothing),
    },
)
_MESSAGE = {"message": Text(), "title": Text(), "target": Texts(), "data": Anything()}
NOTIFY = Domain(
    "notify",
    "(no entities)",
    {name: Service(fields=_MESSAGE, required=("message",), at_home=_nothing) for name in ("notify", "mobile_app")},
)
PERSISTENT_NOTIFICATION = Domain(
    "persistent_notification",
    "(no entities)",
    {
        "create": Service(
            fields={"message": Text(), "title": Text(), "notification_id": Text()},
            required=("message",),
            at_home=_nothing,
        ),
        "dismiss": Service(fields={"notification_id": Text()}, required=("notification_id",), at_home=_nothing),
    },
)
