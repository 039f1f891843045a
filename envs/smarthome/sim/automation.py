"""An automation in Home Assistant's form: read, and checked down to its last step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from . import conditions
from .fields import span
from .triggers import BadConfig, Trigger, listed, no_templates, read

MODES = ("single", "restart", "queued", "parallel")
Step = Mapping[str, Any]


@dataclass(frozen=True)
class Automation:
    """An automation, read and checked."""

    id: str
    entity_id: str
    config: Mapping[str, Any]
    triggers: tuple[Trigger, ...]
    conditions: tuple[Mapping[str, Any], ...]
    actions: tuple[Step, ...]
    mode: str
    digest: str
    """Of its configuration."""
    version: int
    """Counts up with each change, so that what was planned for an old version is void."""


def read_automation(config: Mapping[str, Any], entity_id: str, version: int) -> Automation:
    """The automation that `config` describes, in the old or the new spelling. Raises `BadConfig`."""
    if not isinstance(config, Mapping):
        raise BadConfig("expected a dictionary")
    triggers = listed(config.get("triggers", config.get("trigger")))
    tests = listed(config.get("conditions", config.get("condition")))
    actions = listed(config.get("actions", config.get("action")))
    if not triggers:
        raise BadConfig("required key not provided @ data['triggers']")
    if not actions:
        raise BadConfig("required key not provided @ data['actions']")
    mode = str(config.get("mode", "single"))
    if mode not in MODES:
        raise BadConfig(f"value must be one of {sorted(MODES)} @ data['mode']")
    for index, test in enumerate(tests):
        conditions.check(test, f"data['conditions'][{index}]")
    check_sequence(actions, "data['actions']")
    read_triggers = tuple(read(trigger, index) for index, trigger in enumerate(triggers))
    digest = blake2b(repr(config).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return Automation(
        str(config["id"]), entity_id, config, read_triggers, tuple(tests), tuple(actions), mode, digest, version
    )


def check_sequence(steps: Any, where: str) -> None:
    """Raise `BadConfig` unless every step can be carried out."""
    for index, step in enumerate(listed(steps)):
        here = f"{where}[{index}]"
        if not isinstance(step, Mapping):
            raise BadConfig(f"expected a dictionary @ {here}")
        no_templates(step, here)
        if "choose" in step:
            for number, option in enumerate(listed(step["choose"])):
                if not isinstance(option, Mapping):
                    raise BadConfig(f"expected a dictionary @ {here}['choose'][{number}]")
                for test in listed(option.get("conditions")):
                    conditions.check(test, f"{here}['choose'][{number}]")
                check_sequence(option.get("sequence"), f"{here}['choose'][{number}]['sequence']")
            check_sequence(step.get("default"), f"{here}['default']")
        elif "if" in step:
            for test in listed(step["if"]):
                conditions.check(test, f"{here}['if']")
            check_sequence(step.get("then"), f"{here}['then']")
            check_sequence(step.get("else"), f"{here}['else']")
        elif "repeat" in step:
            if not isinstance(step["repeat"], Mapping) or not any(
                key in step["repeat"] for key in ("count", "while", "until")
            ):
                raise BadConfig(f"must contain at least one of count, while, until. @ {here}['repeat']")
            if not str(step["repeat"].get("count", 0)).isdigit():
                raise BadConfig(f"expected int @ {here}['repeat']['count']")
            for test in listed(step["repeat"].get("while")) + listed(step["repeat"].get("until")):
                conditions.check(test, f"{here}['repeat']")
            check_sequence(step["repeat"].get("sequence"), f"{here}['repeat']['sequence']")
        elif "wait_for_trigger" in step:
            for number, trigger in enumerate(listed(step["wait_for_trigger"])):
                read(trigger, number)
        elif "parallel" in step or "sequence" in step:
            check_sequence(step.get("parallel", step.get("sequence")), here)
        elif "delay" in step:
            if span(step["delay"]) is None:
                raise BadConfig(f"invalid time span @ {here}['delay']")
        elif "service" in step or "action" in step:
            if str(step.get("action", step.get("service"))).count(".") != 1:
                raise BadConfig(f"Service {step.get('action', step.get('service'))} does not match format @ {here}")
        elif "condition" in step or any(join in step for join in ("and", "or", "not")):
            conditions.check(step, here)
        elif not any(key in step for key in ("event", "scene", "stop")):
            raise BadConfig(f"Unable to determine action @ {here}")
