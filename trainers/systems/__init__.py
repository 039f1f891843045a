"""Published systems, one file each: `systems()` lists them, `trainers.methods.make_recipe(name)` builds one."""

from __future__ import annotations

from pkgutil import iter_modules


def systems() -> dict[str, str]:
    """Every system's name and its module's full name, in alphabetical order. Imports none of them."""
    return {name: f"{__name__}.{name}" for _, name, _ in sorted(iter_modules(__path__), key=lambda m: m.name)}
