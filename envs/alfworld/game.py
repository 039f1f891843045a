"""A game as immutable data: what an ALFWorld `game.tw-pddl` (or the generator) says, in the form the engines read.

Format of ALFWorld (Shridhar et al., ICLR 2021, MIT): JSON with `pddl_domain`, `grammar` and `pddl_problem`.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

TASK_TYPES = {
    1: "pick_and_place_simple",
    2: "look_at_obj_in_light",
    3: "pick_clean_then_place_in_recep",
    4: "pick_heat_then_place_in_recep",
    5: "pick_cool_then_place_in_recep",
    6: "pick_two_obj_and_place",
}
"""The benchmark's numbers and names of the task types."""

_TOKEN = re.compile(r"[()]|[^\s()]+")
_TASK = re.compile(r'"rhs": ("Your task is to: (?:[^"\\]|\\.)*")')
_HELP = re.compile(r'"rhs": ("(?:\\n)?Available commands:(?:[^"\\]|\\.)*")')

# The goals of the six task types, told apart by the predicates they are made of.
_SIGNATURES = {
    "inreceptacle objecttype receptacletype": TASK_TYPES[1],
    "atlocation holds inreceptacle istoggled objecttype objecttype receptacleatlocation toggleable": TASK_TYPES[2],
    "cleanable inreceptacle isclean objecttype receptacletype": TASK_TYPES[3],
    "heatable inreceptacle ishot objecttype receptacletype": TASK_TYPES[4],
    "coolable inreceptacle iscool objecttype receptacletype": TASK_TYPES[5],
    "= inreceptacle inreceptacle objecttype objecttype receptacletype receptacletype": TASK_TYPES[6],
}


class BadGame(ValueError):
    """The game file is not one that this package can play; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What must hold for the task to be done; types in lower case without the "type" suffix ("mug")."""

    task_type: str
    object: str
    receptacle: str = ""
    """Where to put it; empty for `look_at_obj_in_light`."""
    lamp: str = ""
    """What to look at it under; only for `look_at_obj_in_light`."""

    @property
    def count(self) -> int:
        """How many objects are wanted."""
        return 2 if self.task_type == TASK_TYPES[6] else 1


@dataclass(frozen=True, slots=True)
class Problem:
    """A PDDL problem: objects with their types, the facts at the start, and the goal as nested lists of words."""

    types: Mapping[str, str]
    facts: Iterable[tuple[str, ...]]
    goal: list[Any]


@dataclass(frozen=True, slots=True)
class Game:
    """Everything about a game that never changes. Live environments share it.

    Ids are PDDL names in lower case. Sequences of ids are sorted, which is the order in which TextWorld lists things.
    """

    instruction: str
    """The task sentence, as the benchmark words it."""
    goal: Goal
    help: str
    """The answer to "help"; empty where the game has no such command (before ALFWorld 0.4)."""
    put_words: str
    """"to" (ALFWorld 0.4: "move X to Y") or "in/on" (before: "put X in/on Y")."""
    arrivals: Mapping[str, str]
    """Receptacle -> what the text says one arrives at: its own name, before ALFWorld 0.4 its location's ("loc 12")."""
    names: Mapping[str, str]
    """id -> what the text calls it ("mug 1")."""
    kind: Mapping[str, str]
    """id of an object or receptacle -> its type ("mug")."""
    receptacles: tuple[str, ...]
    location: Mapping[str, str]
    """Receptacle -> its location."""
    receptacles_at: Mapping[str, tuple[str, ...]]
    """Location -> receptacles there; several may share one."""
    openable: frozenset[str]
    pickupable: frozenset[str]
    cleanable: frozenset[str]
    heatable: frozenset[str]
    coolable: frozenset[str]
    toggleable: frozenset[str]
    sliceable: frozenset[str]
    can_contain: frozenset[tuple[str, str]]
    """(receptacle type, object type)."""
    containers: Mapping[str, tuple[str, ...]]
    """Objects that are receptacles themselves (a bowl) -> what is in them."""
    go_commands: Mapping[str, tuple[str, ...]]
    """"go to mug 1" -> ("go", id), for every receptacle."""
    start: str
    """The agent's first location."""
    held: str | None
    opened: frozenset[str]
    inside: Mapping[str, tuple[str, ...]]
    """Receptacle -> objects in it at the start. A relation: real games have objects that are in two."""
    places: Mapping[str, frozenset[str]]
    """Object -> locations at the start."""
    flags: frozenset[tuple[str, str]]
    """("clean" | "hot" | "cool" | "on" | "sliced", object) at the start."""


def parse_expression(text: str) -> list[Any]:
    """Nested lists of lower-case words for a text in parentheses. Raises `BadGame` where they do not match."""
    stack: list[list[Any]] = [[]]
    for token in _TOKEN.findall(text.lower()):
        if token == "(":
            stack.append([])
        elif token != ")":
            stack[-1].append(token)
        elif len(stack) == 1:
            raise BadGame("the PDDL problem has a closing parenthesis too many")
        else:
            done = stack.pop()
            stack[-1].append(done)
    if len(stack) != 1 or not stack[0] or not isinstance(stack[0][0], list):
        raise BadGame("the PDDL problem ends in the middle")
    return stack[0][0]


def parse_problem(text: str) -> Problem:
    """Read a PDDL problem. Raises `BadGame` where the text is not one."""
    sections = {part[0]: part[1:] for part in parse_expression(text) if part and isinstance(part[0], str)}
    for name in (":objects", ":init", ":goal"):
        if not sections.get(name):
            raise BadGame(f"the PDDL problem has no {name}")
    facts = [tuple(fact) for fact in sections[":init"] if all(isinstance(word, str) for word in fact)]
    return Problem(_typed(sections[":objects"]), facts, sections[":goal"][0])


def help_text(grammar: str) -> str:
    """What a game with this grammar answers to "help"."""
    found = _HELP.search(grammar)
    return json.loads(found.group(1)).lstrip("\n") if found else ""


def parse_game(data: Mapping[str, Any]) -> Game:
    """The game in the content of a `game.tw-pddl`. Raises `BadGame` where something needed is missing."""
    try:
        problem, grammar = str(data["pddl_problem"]), str(data["grammar"])
    except (KeyError, TypeError):
        raise BadGame("it needs the keys pddl_problem and grammar") from None
    sentence = _TASK.search(grammar)
    if sentence is None:
        raise BadGame('its grammar has no sentence "Your task is to: …"')
    instruction = json.loads(sentence.group(1)).removeprefix("Your task is to: ")
    return build_game(
        parse_problem(problem),
        instruction,
        help_text(grammar),
        put_words="to" if "move {o} to {r}" in grammar else "in/on",
        arrive_at_location="You arrive at {lend.name}." in grammar,
    )


def build_game(
    problem: Problem, instruction: str, answer: str, *, put_words: str = "to", arrive_at_location: bool = False
) -> Game:
    """Index a problem as a `Game`; `answer` is the one to "help".

    Raises:
        BadGame: the goal is none of the six task types', or the agent is nowhere.
    """
    facts: defaultdict[str, list[tuple[str, ...]]] = defaultdict(list)
    for line in "\n".join(map(" ".join, problem.facts)).lower().splitlines():
        predicate, *words = line.split(" ")
        facts[predicate].append(tuple(words))
    types = {name.lower(): kind for name, kind in problem.types.items()}
    mentioned = {word for rows in facts.values() for row in rows for word in row}
    names = _display_names(name for name in mentioned if types.get(name) in ("object", "receptacle", "location"))
    location = {receptacle: place for receptacle, place in facts["receptacleatlocation"]}
    receptacles = tuple(sorted(location))
    agents = [name for name, kind in types.items() if kind == "agent"]
    start = next((place for agent, place in facts["atlocation"] if agent in agents), None)
    if start is None:
        raise BadGame("it does not say where the agent starts")
    kind = {name: word.removesuffix("type") for name, word in facts["objecttype"] + facts["receptacletype"]}

    def having(predicate: str) -> frozenset[str]:
        return frozenset(args[0] for args in facts[predicate])

    inside: defaultdict[str, list[str]] = defaultdict(list)
    for item, receptacle in facts["inreceptacle"]:
        inside[receptacle].append(item)
    inner: defaultdict[str, list[str]] = defaultdict(list)
    for item, outer in facts["inreceptacleobject"]:
        inner[outer].append(item)
    at: defaultdict[str, list[str]] = defaultdict(list)
    for receptacle in receptacles:
        at[location[receptacle]].append(receptacle)
    places: defaultdict[str, set[str]] = defaultdict(set)
    for item, place in facts["objectatlocation"]:
        places[item].add(place)
    flags = [
        (flag, args[0])
        for flag, predicate in (
            ("clean", "isclean"),
            ("hot", "ishot"),
            ("cool", "iscool"),
            ("on", "istoggled"),
            ("sliced", "issliced"),
        )
        for args in facts[predicate]
    ]
    return Game(
        instruction=instruction,
        goal=_read_goal(problem.goal),
        help=answer,
        put_words=put_words,
        arrivals={name: names[place if arrive_at_location else name] for name, place in location.items()},
        names=names,
        kind=kind,
        receptacles=receptacles,
        location=location,
        receptacles_at={place: tuple(here) for place, here in at.items()},
        openable=having("openable"),
        pickupable=having("pickupable"),
        cleanable=having("cleanable"),
        heatable=having("heatable"),
        coolable=having("coolable"),
        toggleable=having("toggleable"),
        sliceable=having("sliceable"),
        can_contain=frozenset(
            (outer.removesuffix("type"), item.removesuffix("type")) for outer, item in facts["cancontain"]
        ),
        containers={item: tuple(sorted(inner[item])) for item in having("isreceptacleobject")},
        go_commands={f"go to {names[receptacle]}": ("go", receptacle) for receptacle in receptacles},
        start=start,
        held=next((item for _, item in facts["holds"]), None),
        opened=having("opened"),
        inside={receptacle: tuple(sorted(inside[receptacle])) for receptacle in receptacles},
        places={item: frozenset(where) for item, where in places.items()},
        flags=frozenset(flags),
    )


def _bare(word: str) -> str:
    return word.lower().removesuffix("type")


def _typed(words: list[Any]) -> dict[str, str]:
    """{"a": "t", "b": "t"} for the words "a b - t"."""
    types: dict[str, str] = {}
    pending: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "-":
            kind = next(rest, "object")
            types |= dict.fromkeys(pending, kind)
            pending = []
        else:
            pending.append(word)
    return types


def _display_names(ids: Iterable[str]) -> dict[str, str]:
    """ALFWorld's names: instances of a class are numbered in descending order of their sorted ids."""
    labels = {name: name.split("_bar_", 1)[0] + ("basin" if "basin" in name else "") for name in ids}
    left = Counter(label for name, label in labels.items() if "_bar_" in name)
    names = {}
    for name in sorted(labels):
        label = labels[name]
        if "_bar_" in name:
            names[name] = f"{label} {left[label]}"
            left[label] -= 1
        else:
            names[name] = f"{name} "  # a class, never listed in a game; kept as upstream prints it
    return names


def _read_goal(goal: list[Any]) -> Goal:
    atoms: list[list[str]] = []
    _collect(goal, atoms)
    task_type = _SIGNATURES.get(" ".join(sorted(atom[0] for atom in atoms)))
    kinds = {atom[1]: _bare(atom[2]) for atom in atoms if atom[0] == "objecttype"}
    if task_type is None or (task_type != TASK_TYPES[2] and len(set(kinds.values())) != 1):
        raise BadGame("its goal is none of the six task types'")
    if task_type == TASK_TYPES[2]:
        wanted = next(atom[2] for atom in atoms if atom[0] == "holds")
        lamp = next(atom[1] for atom in atoms if atom[0] == "istoggled")
        return Goal(task_type, kinds[wanted], lamp=kinds[lamp])
    receptacle = next(_bare(atom[2]) for atom in atoms if atom[0] == "receptacletype")
    return Goal(task_type, next(iter(kinds.values())), receptacle)


def _collect(goal: Any, atoms: list[list[str]]) -> None:
    """The atoms below quantifiers and connectives ("not" occurs only around "=")."""
    if goal[0] in ("and", "not"):
        for part in goal[1:]:
            _collect(part, atoms)
    elif goal[0] == "exists":
        _collect(goal[2], atoms)
    else:
        atoms.append(goal)
