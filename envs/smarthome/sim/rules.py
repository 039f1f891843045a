"""Automations and scripts: what starts them, and how their sequences run over time.

A running sequence is plain data (what is left of it), so that a snapshot holds it: a delay plans an event that takes
it up again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..backend import EntityState
from . import conditions
from .automation import Automation, Step, read_automation
from .fields import span
from .triggers import Trigger, fires, holds, listed, matches_event, next_time, read

if TYPE_CHECKING:
    from .home import SimHome

_BUDGET = 300  # steps per simulated minute, over all sequences: more is automations that trigger each other for ever
_ROUNDS = 1000  # of a repeat, at most
_WAITING = 10  # sequences of one automation at a time, Home Assistant's default


@dataclass(frozen=True)
class Run:
    """A sequence on its way."""

    number: int
    source: str
    """The automation's or script's entity id."""
    left: tuple[Step, ...]
    trigger_id: str | None = None
    waiting: tuple[Trigger, ...] = ()
    queued: bool = False


class Rules:
    """The automations and running sequences of one home."""

    def __init__(self, home: SimHome) -> None:
        self._home = home
        self.automations: dict[str, Automation] = {}  # replaced, never changed in place: snapshots share it
        self.runs: dict[int, Run] = {}
        self._count = 0
        self._minute = (0, 0)  # minute, steps carried out in it
        self._index: dict[str, list[tuple[Automation, int, Trigger]]] | None = None

    # -- the table ------------------------------------------------------------------------------------------------

    def add(self, config: Mapping[str, Any], entity_id: str) -> Automation:
        """Create or replace an automation. Raises `BadConfig`."""
        self._count += 1
        automation = read_automation(config, entity_id, self._count)
        self.automations = {**self.automations, automation.id: automation}
        self._index = None
        self._plan(automation)
        return automation

    def remove(self, automation_id: str) -> None:
        """Delete an automation and stop what it does."""
        gone = self.automations[automation_id]
        self.automations = {key: value for key, value in self.automations.items() if key != automation_id}
        self._index = None
        self.stop(gone.entity_id)

    def _plan(self, automation: Automation) -> None:
        for index, trigger in enumerate(automation.triggers):
            time = next_time(self._home, trigger, self._home.time)
            if time is not None:
                self._home.clock.at(time, "rule_time", automation.id, index, automation.version)

    def on_time(self, automation_id: str, index: int, version: int) -> None:
        """A trigger of time is due."""
        automation = self.automations.get(automation_id)
        if automation is None or automation.version != version:
            return
        trigger = automation.triggers[index]
        time = next_time(self._home, trigger, self._home.time)
        if time is not None:
            self._home.clock.at(time, "rule_time", automation_id, index, version)
        self.trigger(automation, trigger.id)

    # -- what happens ---------------------------------------------------------------------------------------------

    def on_change(self, old: EntityState, new: EntityState) -> None:
        """An entity changed: start what waits for it."""
        if self._index is None:
            self._index = {}
            for automation in self.automations.values():
                for number, trigger in enumerate(automation.triggers):
                    for entity in trigger.entities:
                        self._index.setdefault(entity, []).append((automation, number, trigger))
        for automation, number, trigger in self._index.get(new.entity_id, ()):
            key = f"hold.{automation.id}.{number}.{new.entity_id}"
            if trigger.hold and not holds(self._home, trigger, new):
                self._home.clock.cancel(key)
            elif fires(self._home, trigger, old, new):
                if trigger.hold:
                    self._home.clock.begin(key, "rule_held", trigger.hold, automation.id, number, automation.version)
                else:
                    self.trigger(automation, trigger.id)
        self._wake(lambda trigger: new.entity_id in trigger.entities and fires(self._home, trigger, old, new))

    def on_held(self, automation_id: str, index: int, version: int) -> None:
        """A state has held for as long as a trigger asked."""
        automation = self.automations.get(automation_id)
        if automation is not None and automation.version == version:
            self.trigger(automation, automation.triggers[index].id)

    def on_event(self, event_type: str, data: Mapping[str, Any]) -> None:
        """An event was fired: start what waits for it."""
        for automation in list(self.automations.values()):
            for trigger in automation.triggers:
                if matches_event(trigger, event_type, data):
                    self.trigger(automation, trigger.id)
        self._wake(lambda trigger: matches_event(trigger, event_type, data))

    def _wake(self, test: Any) -> None:
        if not any(run.waiting for run in self.runs.values()):
            return
        for run in list(self.runs.values()):
            if any(test(trigger) for trigger in run.waiting):
                self._home.clock.cancel(f"run.{run.number}")
                self._continue(replace(run, waiting=()))

    # -- running --------------------------------------------------------------------------------------------------

    def trigger(self, automation: Automation, trigger_id: str | None, skip_conditions: bool = False) -> None:
        """Start an automation, unless it is off, its conditions fail or its mode forbids it."""
        home = self._home
        entity = home.state(automation.entity_id)
        if entity is None or (entity.state != "on" and trigger_id is not None):
            return
        if not skip_conditions and not all(conditions.true(home, test, trigger_id) for test in automation.conditions):
            return
        shown = {"last_triggered": home.iso(home.time)}
        if self._start(automation.entity_id, automation.actions, automation.mode, trigger_id):
            home.update(automation.entity_id, None, shown, cause=automation.entity_id)

    def run_script(self, entity_id: str, steps: tuple[Step, ...], mode: str) -> None:
        """Start a script."""
        if self._start(entity_id, steps, mode, None):
            self._home.update(entity_id, None, {"last_triggered": self._home.iso(self._home.time)})

    def _start(self, source: str, steps: tuple[Step, ...], mode: str, trigger_id: str | None) -> bool:
        running = [run for run in self.runs.values() if run.source == source]
        if running and (mode == "single" or len(running) >= _WAITING):
            self._home.warn(f"{source}: Already running")
            return False
        if not self._spend(source):
            return False
        if running and mode == "restart":
            self.stop(source)
        self._count += 1
        run = Run(self._count, source, steps, trigger_id, queued=bool(running) and mode == "queued")
        self.runs[run.number] = run
        self._show(source)
        if not run.queued:
            self._continue(run)
        return True

    def _spend(self, source: str) -> bool:
        """Count a step; False where this minute has seen too many."""
        minute, steps = int(self._home.time // 60), self._minute[1]
        self._minute = (minute, steps + 1 if minute == self._minute[0] else 1)
        if self._minute[1] <= _BUDGET:
            return True
        self._home.warn(f"{source} was stopped: more than {_BUDGET} steps in a minute")
        return False

    def stop(self, source: str) -> None:
        """Stop the running sequences of an automation or script."""
        for run in [run for run in self.runs.values() if run.source == source]:
            del self.runs[run.number]
            self._home.clock.cancel(f"run.{run.number}")
        self._show(source)

    def on_resume(self, number: int) -> None:
        """A delay, or the patience of a wait, is over."""
        run = self.runs.get(number)
        if run is not None:
            if run.waiting and run.left and "_give_up" in run.left[0]:
                self._finish(run)
            else:
                self._continue(replace(run, waiting=()))

    def _continue(self, run: Run) -> None:
        """Carry out steps until one takes time."""
        home = self._home
        left = run.left
        if left and "_give_up" in left[0]:
            left = left[1:]
        while left:
            if run.number not in self.runs:
                return None  # a step stopped it
            if not self._spend(run.source):
                break
            step, left = left[0], left[1:]
            if step.get("enabled") is False:
                continue
            if "delay" in step or "wait_for_trigger" in step:
                return self._pause(run, step, left)
            if "stop" in step:
                break
            inner = self._expand(step, run.trigger_id)
            if inner is None:
                break
            left = (*inner, *left)
            if not inner and ("service" in step or "action" in step or "scene" in step or "event" in step):
                home.run_call(step, run.source)
        return self._finish(run)

    def _pause(self, run: Run, step: Step, left: tuple[Step, ...]) -> None:
        waiting: tuple[Trigger, ...] = ()
        seconds = span(step["delay"]) if "delay" in step else None
        if "wait_for_trigger" in step:
            waiting = tuple(read(item, index) for index, item in enumerate(listed(step["wait_for_trigger"])))
            seconds = span(step["timeout"]) if "timeout" in step else None
            if step.get("continue_on_timeout", True) is False:
                left = ({"_give_up": True}, *left)
        self.runs[run.number] = replace(run, left=left, waiting=waiting)
        if seconds is not None:
            self._home.clock.begin(f"run.{run.number}", "rule_resume", max(0.0, seconds), run.number)

    def _expand(self, step: Step, trigger_id: str | None) -> tuple[Step, ...] | None:
        """The steps that a control step stands for now; () for a plain step, None where the sequence ends."""
        home = self._home

        def met(tests: Any) -> bool:
            return all(conditions.true(home, test, trigger_id) for test in listed(tests))

        if "choose" in step:
            for option in listed(step["choose"]):
                if met(option.get("conditions")):
                    return tuple(listed(option.get("sequence")))
            return tuple(listed(step.get("default")))
        if "if" in step:
            return tuple(listed(step.get("then" if met(step["if"]) else "else")))
        if "repeat" in step:
            return _repeat(step["repeat"], met)
        if "parallel" in step or "sequence" in step:
            return tuple(listed(step.get("parallel", step.get("sequence"))))
        is_test = "condition" in step or any(join in step for join in ("and", "or", "not"))
        return None if is_test and not met([step]) else ()

    def _finish(self, run: Run) -> None:
        self.runs.pop(run.number, None)
        self._show(run.source)
        following = next((other for other in self.runs.values() if other.source == run.source and other.queued), None)
        if following is not None:
            self.runs[following.number] = replace(following, queued=False)
            self._continue(self.runs[following.number])

    def _show(self, source: str) -> None:
        entity = self._home.state(source)
        if entity is None:
            return
        current = sum(run.source == source for run in self.runs.values())
        state = ("on" if current else "off") if entity.domain == "script" else None
        self._home.update(source, state, {"current": current}, cause=source)

    def save(self) -> tuple[Any, ...]:
        """Everything that changes."""
        return self.automations, dict(self.runs), self._count, self._minute

    def load(self, state: tuple[Any, ...]) -> None:
        """Go back."""
        if state[0] is not self.automations:
            self._index = None
        self.automations, self._count, self._minute = state[0], state[2], state[3]
        self.runs = dict(state[1])


def _repeat(repeat: Mapping[str, Any], met: Any) -> tuple[Step, ...]:
    body = tuple(listed(repeat.get("sequence")))
    done = int(repeat.get("_done", 0))
    again: Step = {"repeat": {**repeat, "_done": done + 1}}
    if done >= _ROUNDS:
        return ()
    if "count" in repeat:
        return (*body, again) if done < int(repeat["count"]) else ()
    if "while" in repeat:
        return (*body, again) if met(repeat["while"]) else ()
    return () if done and met(repeat["until"]) else (*body, again)


EVENTS: dict[str, Any] = {
    "rule_time": lambda home, key, payload: home.rules.on_time(key, *payload),
    "rule_held": lambda home, key, payload: home.rules.on_held(*payload),
    "rule_resume": lambda home, key, payload: home.rules.on_resume(*payload),
}
