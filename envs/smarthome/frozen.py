"""A dictionary that cannot be changed: what the present, snapshots and the history of a home share."""

from __future__ import annotations

from typing import Any, NoReturn


class FrozenDict(dict[str, Any]):
    """A `dict` whose own methods refuse to change it; copies of states share it, and it pickles as itself."""

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError("a FrozenDict does not change: build another from it")

    __setitem__ = __delitem__ = update = setdefault = pop = popitem = clear = __ior__ = _refuse  # pyright: ignore[reportAssignmentType]

    def __reduce__(self) -> tuple[type[FrozenDict], tuple[dict[str, Any]]]:
        return FrozenDict, (dict(self),)

    def __deepcopy__(self, memo: object) -> FrozenDict:
        return self
