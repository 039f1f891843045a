"""The privileged planner: from any state, the next action towards the goal, knowing where everything is."""

from __future__ import annotations

from collections.abc import Iterator

from .engine_fast import FastEngine
from .scenes import TOOLS

_TOOL = {task_type: tool.lower() for task_type, (tool, _) in TOOLS.items()}
_VERB = {"sinkbasin": "clean", "microwave": "heat", "fridge": "cool"}


def actions(engine: FastEngine) -> Iterator[str]:
    """Actions that solve the game from the engine's current state; take one, step it, take the next.

    It ends when the game is won, or when no sequence is known (possible only in states that the rules cannot leave).
    """
    while not engine.won:
        action = next_action(engine)
        if action is None:
            return
        yield action


def next_action(engine: FastEngine) -> str | None:
    """The next action of a short plan, or None where there is none."""
    game, held = engine.game, engine.state.held
    goal = game.goal
    if held is not None and game.kind.get(held) != goal.object:
        return _put_down(engine)
    if goal.lamp:
        return _fetch(engine, ()) if held is None else _use_lamp(engine)
    full = _goal_receptacle(engine)
    if full is None:
        return None
    if held is None:
        return _fetch(engine, (full,) if goal.count == 2 else ())
    tool = _TOOL.get(goal.task_type)
    if tool is not None and not engine.fulfils(held):
        spot = _nearest(engine, [name for name in game.receptacles if game.kind[name] == tool])
        if spot is None:
            return None
        return _go(engine, spot) or f"{_VERB[tool]} {game.names[held]} with {game.names[spot]}"
    return _approach(engine, full) or _put(engine, held, full)


def target(engine: FastEngine) -> tuple[str, str] | None:
    """(object, receptacle) to fetch next, or None where the hands hold it or nothing is left to fetch."""
    if engine.state.held is not None:
        return None
    full = _goal_receptacle(engine) if engine.game.goal.count == 2 else None
    return _choose(engine, (full,) if full else ())


def _fetch(engine: FastEngine, done: tuple[str, ...]) -> str | None:
    chosen = _choose(engine, done)
    if chosen is None:
        return None
    item, spot = chosen
    return _approach(engine, spot) or f"take {engine.game.names[item]} from {engine.game.names[spot]}"


def _choose(engine: FastEngine, done: tuple[str, ...]) -> tuple[str, str] | None:
    """The cheapest wanted object outside the receptacles in `done`: prepared already, then here, then not shut away."""
    game = engine.game
    found = [
        (not engine.fulfils(item), spot not in engine.here(), not engine.reachable(spot), spot, item)
        for spot in game.receptacles
        if spot not in done
        for item in engine.contents(spot)
        if game.kind.get(item) == game.goal.object and item in game.pickupable
    ]
    if not found:
        return None
    *_, spot, item = min(found)
    return item, spot


def _goal_receptacle(engine: FastEngine) -> str | None:
    """Where to put things: the goal's receptacle that holds most of them, the one at hand before others."""
    game, goal = engine.game, engine.game.goal
    spots = [
        name
        for name in game.receptacles
        if game.kind.get(name) == goal.receptacle and (goal.receptacle, goal.object) in game.can_contain
    ]
    if not spots:
        return None
    counts = {name: sum(game.kind.get(item) == goal.object for item in engine.contents(name)) for name in spots}
    return min(spots, key=lambda name: (-counts[name] if goal.count == 2 else 0, name not in engine.here(), name))


def _use_lamp(engine: FastEngine) -> str | None:
    game = engine.game
    lamps = {
        spot: item
        for spot in game.receptacles
        for item in engine.contents(spot)
        if game.kind.get(item) == game.goal.lamp and item in game.toggleable
    }
    spot = _nearest(engine, list(lamps))
    if spot is None:
        return None
    return _go(engine, spot) or f"use {game.names[lamps[spot]]}"


def _put_down(engine: FastEngine) -> str | None:
    """Free the hands: here if anything takes the object, else in the nearest thing that does."""
    game, held = engine.game, engine.state.held
    assert held is not None
    spots = [name for name in game.receptacles if (game.kind.get(name), game.kind.get(held)) in game.can_contain]
    if not spots:
        return None
    spot = min(spots, key=lambda name: (name not in engine.here(), not engine.reachable(name), name))
    return _approach(engine, spot) or _put(engine, held, spot)


def _put(engine: FastEngine, item: str, spot: str) -> str:
    game = engine.game
    verb = "move" if game.put_words == "to" else "put"
    return f"{verb} {game.names[item]} {game.put_words} {game.names[spot]}"


def _nearest(engine: FastEngine, spots: list[str]) -> str | None:
    return min(spots, key=lambda name: (name not in engine.here(), name), default=None)


def _go(engine: FastEngine, spot: str) -> str | None:
    """The move to a receptacle, or None if the agent is there."""
    return None if spot in engine.here() else f"go to {engine.game.names[spot]}"


def _approach(engine: FastEngine, spot: str) -> str | None:
    """The next action before the receptacle can be reached into, or None if it can."""
    move = _go(engine, spot)
    if move is None and not engine.reachable(spot):
        return f"open {engine.game.names[spot]}"
    return move
