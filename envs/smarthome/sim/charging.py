"""Charging a car (or another battery) through a switch: its parameter `charger`, and when it is full.

    {"capacity": 60.0, "level": 40.0, "limit": "number.charging_limit"}    kWh, percent, an entity or percent

The switch turns itself off at the limit and fires `charging_finished`. Sensors read the level as `charge:<switch>`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .home import SimHome

_ENOUGH = 1e-6  # percent


def level(home: SimHome, switch: str) -> float:
    """The battery's level now, in percent."""
    charger = home.params(switch)["charger"]
    charge, since = home.memory(switch).get("charge", (float(charger.get("level", 50.0)), home.time))
    if home.states()[switch].state == "on":
        charge += _rate(home, switch) * (home.time - since)
    return min(100.0, charge)


def begin(home: SimHome, switch: str) -> None:
    """The switch is about to be turned on (or the limit was reached and has been moved): charge to the limit."""
    here = level(home, switch)
    home.remember(switch, {"charge": (here, home.time)})
    home.begin(switch, "charged", max(0.0, (_limit(home, switch) - here) / _rate(home, switch)))


def end(home: SimHome, switch: str) -> None:
    """The switch is about to be turned off: note the level."""
    home.remember(switch, {"charge": (level(home, switch), home.time)})


def charged(home: SimHome, switch: str, payload: tuple[Any, ...]) -> None:
    """The limit was reached, unless somebody has raised it meanwhile."""
    if level(home, switch) < _limit(home, switch) - _ENOUGH:
        return begin(home, switch)
    end(home, switch)
    home.update(switch, "off")
    return home.fire_event("charging_finished", {"entity_id": switch})


def _rate(home: SimHome, switch: str) -> float:
    """Percent per second."""
    params = home.params(switch)
    return max(1.0, float(params.get("power", 7400.0))) / (float(params["charger"].get("capacity", 60.0)) * 3.6e6) * 100


def _limit(home: SimHome, switch: str) -> float:
    limit = home.params(switch)["charger"].get("limit", 100.0)
    state = home.state(limit) if isinstance(limit, str) else None
    try:
        return min(100.0, float(state.state if state is not None else limit))
    except ValueError:
        return 100.0
