"""`sandlot/SmartHome-v0`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..core import Outcome, Task, TextEnv
from ..core.errors import InvalidArgument
from ..core.text_env import text_key
from .blueprint.goal import Asked, Condition, Refused, parts
from .calls import ToolCall, parse_call
from .flow.candidates import accepted, candidates, short_candidates
from .flow.search import apart, search
from .measures import right_acts, tallies
from .oracle.plan import actions
from .picture import Picture, picture
from .session import Session
from .tasks.make import HomeTasks, make_task
from .tools import TOOLS, use

FORMATS = ("text", "json")
_KEPT = 4096
_listed: dict[str, tuple[str, ...]] = {}
"""State key -> the calls listed there; the newest `_KEPT` at most."""


class SmartHomeEnv(TextEnv):
    """Do what a resident of a smart home asks for, and nothing else.

    ## Description
    A simulated home with the domains, services, states and errors of Home Assistant: rooms with heat, light and air,
    residents with routines, weather, energy, automations, devices that take time and fail. A resident says something;
    the agent looks, acts, plans, asks, refuses and finishes with tools that a Home Assistant server offers too. What is
    wanted is an executable goal over the home and the conversation; it is judged after the home has run on to the
    goal's horizon, so that plans and automations count by what they do. Nothing else may have changed, compared with
    the same home left alone. Eight families, 35 sub-types: questions, orders, wishes that are only implied, ambiguous
    ones, schedules and automations, preferences and routines, what cannot be done, and faults.

    ## Action Space
    Text: one tool call, `call_service(service=light.turn_on, entity_id=light.desk, brightness_pct=40)`, or as JSON
    `{"tool": "call_service", "args": {...}}`; both are always understood. Looking: `list_areas`, `list_entities`,
    `get_state`, `get_history`, `get_preferences`, `GetLiveContext`, `list_automations`. Acting: `call_service`, Home
    Assistant's Assist tools (`HassTurnOn`, `HassLightSet`, `HassClimateSetTemperature` and others), `schedule`,
    `create_automation`, `delete_automation`, `wait`. Talking: `ask(question, about)`, `refuse(reason, about)`,
    `finish(message)`. Reasons to refuse: no_such_device, not_capable, out_of_range, not_available, contradiction, past,
    not_allowed.

    ## Observation Space
    Text. At the start: who speaks, where and when, what they say, the rooms, the tools. Then a tool's answer, or the
    error that Home Assistant gives. At most 16,384 characters.

    ## Starting State
    A home of 8 to 135 devices that has run for three hours. Homes, requests and goals are generated from numbers.

    ## Rewards
    The change of a potential: half of `progress` on the way (0 once something forbidden has happened or something else
    has changed), and at the end, by `finish` or after `max_steps`, 1 for success, else 0. Over an episode the rewards
    therefore add up to the success; the shaping cannot change which behaviour is best.

    ## Episode End
    Terminated by `finish`. Registered limit: 30 steps.

    ## Information
    `progress`: the share of the goal's conditions, false at the start, that hold now. `family` and `kind`: of the
    task. `tool_calls`, `questions`, `refusals`: how many so far (calls that were refused as invalid are those with
    `valid` False). `energy`: kilowatt-hours used since the request. Only when the episode is over (finished, or out of
    steps), else None: `partial` (the share met at its end), `side_effects` (how many things differ that should not),
    `should_ask` and `should_refuse` (whether the goal wanted a question, a refusal), `right_questions` and
    `right_refusals` (how many that it wanted were made), `oracle_calls` (how many the oracle needs). Evaluations add
    these up by family: precision and recall of clarification, F1 of refusals, calls against the oracle's, energy.

    ## Privileged Information
    `oracle()` plans from the current state: regression over the services' effects, simulation for rooms, planned calls
    and automations for times and events. `hint()`: its next call. `verify()`: each condition of the goal.

    ## State Key
    The task, the home's state, the agent's calls, words and plans, and whether it is over.

    ## Arguments
    - `split`: "train", "valid_seen" (new homes), "valid_unseen" or "test" (new homes whose devices are named in ways,
      and whose people have names, that no training home has).
    - `size` (None): "small" (8 to 15 devices), "medium" (20 to 50), "large" (60 to 135), or None for all.
    - `families` (None): a list of "query", "explicit", "implicit", "ambiguous", "scheduling", "personalised",
      "infeasible", "fault"; None for all.
    - `call_format` ("text"): "text" or "json": how the tools are shown, and how the oracle writes.
    - `candidates` (False): list at most 16 calls in `info["admissible"]`, made of what was said and of the home, not
      of the goal, and leave rooms and tools out of the first observation. Other calls are understood, too.

    ## Source and Licence
    Written for this project; Apache-2.0. Names, services and errors are those of Home Assistant (Apache-2.0). The
    families follow what SMH-Bench (arXiv 2606.01912) and HomeFlow (arXiv 2606.01230) describe; nothing of them is used.

    ## Version History
    - v0: first version.
    """

    reward_range = (-1.0, 1.0)
    waits = False
    extra_info = (
        *("family", "kind", "tool_calls", "questions", "refusals", "energy"),
        *("partial", "side_effects", "should_ask", "should_refuse", "right_questions", "right_refusals"),
        "oracle_calls",
    )
    breakdown = "family"

    def __init__(
        self,
        split: str = "train",
        *,
        size: str | None = None,
        families: list[str] | tuple[str, ...] | None = None,
        call_format: str = "text",
        candidates: bool = False,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        if size not in (None, "small", "medium", "large"):
            raise InvalidArgument(f"size must be None, 'small', 'medium' or 'large', not {size!r}")
        if call_format not in FORMATS:
            raise InvalidArgument(f"call_format must be 'text' or 'json', not {call_format!r}")
        self.call_format, self.candidates = call_format, candidates
        chosen = tuple(families) if families else None
        super().__init__(HomeTasks(split, size, chosen), max_steps=max_steps, render_mode=render_mode)

    # -- the episode -----------------------------------------------------------------------------------------------

    def _reset(self, task: Task) -> str:
        self.session = Session(*make_task(task.params["split"], task.params["number"], task.params["size"]))
        self._done, self._calls = False, 0
        self._verdict = self.session.verdict()
        self._energy_start = self.session.home.meters.total_energy
        return self._greeting()

    def _greeting(self) -> str:
        session, task = self.session, self.session.task
        who = next(person for person in task.home.residents if person.id == task.speaker)
        areas = session.home.registry().areas
        where = f" in the {areas[task.area].name}" if task.area else ""
        rooms = ", ".join(f"{area.id} ({area.name})" for area in session.home.areas())
        now = session.home.now()
        said = f'{who.name},{where or " from outside"}, says: "{task.request}"'
        if self.candidates:
            return f"It is {now:%A %H:%M}. {said}"
        example = ToolCall(
            "call_service", {"service": "light.turn_on", "entity_id": "light.desk", "brightness_pct": 40}
        )
        shown = example.text() if self.call_format == "text" else example.json()
        tools = "\n".join(f"- {tool.help}" for tool in TOOLS.values())
        return (
            f"You look after a smart home. It is {now:%A %Y-%m-%d %H:%M}. {said}\n"
            f"Rooms: {rooms}\nTools:\n{tools}\n"
            f"Write one call, e.g. {shown}. Change nothing else. When it is done, finish."
        )

    def _step(self, action: str) -> Outcome:
        before = self._potential()
        text, valid = self._act(action)
        out_of_steps = self._steps + 1 == self.max_steps and not self._done
        return Outcome(text, (0.0 if out_of_steps else self._potential()) - before, self._done, valid=valid)

    def _act(self, action: str) -> tuple[str, bool]:
        """Carry an action out; what is answered, and whether it was accepted."""
        call = parse_call(action)
        if isinstance(call, str):
            return call, False
        reply = use(self.session, call)
        if reply.valid:
            self._calls += 1
            self._verdict = self.session.verdict()
            self._done = reply.ended
        return reply.text, reply.valid

    def _potential(self) -> float:
        if self._done:
            return float(self._success())
        clean = not self._verdict.broken and not self._verdict.side_effects
        return 0.5 * self.session.progress(self._verdict) if clean else 0.0

    # -- what is known about it ------------------------------------------------------------------------------------

    def _instruction(self) -> str:
        return self.session.task.request

    def _success(self) -> bool:
        return self._done and self._verdict.success

    def _admissible(self) -> tuple[str, ...] | None:
        if not self.candidates:
            return None
        if self._done:
            return ()
        key = text_key(self.task.id, self._state())  # a group's episodes come through the same states
        if key not in _listed:
            if len(_listed) >= _KEPT:
                _listed.clear()
            _listed[key] = accepted(self)
        return _listed[key]

    def _progress(self) -> float:
        return self.session.progress(self._verdict)

    def verify(self) -> dict[str, float]:
        """Privileged: each condition of the goal, as text, and whether it holds now (or held at the horizon)."""
        from .blueprint.show import show_condition

        goal, verdict = self.session.task.goal, self._verdict
        met = {f"must {show_condition(item)}": float(ok) for item, ok in zip(goal.must, verdict.must, strict=True)}
        for index, item in enumerate(goal.must_not):
            met[f"must_not {show_condition(item)}"] = float(index not in verdict.broken)
        return met

    def _extra_info(self) -> dict[str, str | int | float | bool | None]:
        task, acts = self.session.task, self.session.recorder.acts
        kinds = {type(part) for item in task.goal.must for part in _all_parts(item)}
        over = self._done or (self.max_steps is not None and self._steps >= self.max_steps)
        right = right_acts(task.goal, self._verdict)
        return {
            "family": task.family,
            "kind": task.kind,
            "tool_calls": self._calls,
            "questions": sum(act.kind == "ask" for act in acts),
            "refusals": sum(act.kind == "refuse" for act in acts),
            "energy": round(self.session.home.meters.total_energy - self._energy_start, 6),
            "partial": self._progress() if over else None,
            "side_effects": len(self._verdict.side_effects) if over else None,
            "should_ask": (Asked in kinds) if over else None,
            "should_refuse": (Refused in kinds) if over else None,
            "right_questions": right[0] if over else None,
            "right_refusals": right[1] if over else None,
            "oracle_calls": task.oracle_calls if over else None,
        }

    @classmethod
    def tallies(cls, info: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
        """See `measures.tallies`."""
        return tallies(info)

    def _state(self) -> str:
        recorder = self.session.recorder
        run_calls = [
            (call.time, call.domain, call.service, call.entities, sorted(call.data.items(), key=repr))
            for call in self.session.home.journal.calls
            if call.cause == "agent" and call.error is None
        ]
        rest = (run_calls, recorder.acts, recorder.planned, self._done)
        return f"{self.session.home.key().hex()} {rest!r}"

    def _save(self) -> Any:
        counts = (self._done, self._calls, self._verdict, self._energy_start)
        return self.session.recorder.save(), counts

    def _load(self, state: Any) -> None:
        self.session.recorder.load(state[0])
        self._done, self._calls, self._verdict, self._energy_start = state[1]

    def picture(self) -> Picture:
        """The floor plan, what every device does, and since when."""
        return picture(self.session.recorder)

    def oracle(self) -> Iterator[str]:
        """The calls that reach the goal, each planned from where the episode stands."""
        if not self._done:
            for call in actions(self.session):
                yield call.text() if self.call_format == "text" else call.json()

    def ways(self, keep: int = 4, simulations: int = 32) -> tuple[tuple[tuple[str, float], ...], ...]:
        """Distinct ways to do the task from its start, found by MCTS-Flow: each a sequence of (action, value).

        A value is the mean return of the simulations that took the action. Every way was played again and succeeded.
        Privileged: the search tries actions out and sees their rewards. The running episode is left alone.
        """
        propose = short_candidates if self.candidates else candidates
        found = search(SmartHomeEnv(), self.task.id, simulations=simulations, keep=8 * keep, propose=propose)
        kept = apart(found.trajectories)[:keep]
        return tuple(tuple((step.action, step.value) for step in way.steps) for way in kept)


def _all_parts(condition: Condition) -> Iterator[Condition]:
    yield condition
    for part in parts(condition):
        yield from _all_parts(part)
