"""`PoolTasks`: the deals of a game against each player of a pool of frozen opponents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..core.errors import UnknownTask
from ..core.tasks import Task, TaskSet
from ..toys.tasks import NumberedTasks
from .opponents import OpponentPool


class PoolTasks(TaskSet):
    """Every deal of the split against every player; ids look like "leduc-8-train-0@rock".

    A player that is added to the pool later has its tasks from then on. Opponents are drawn evenly.

    Args:
        prefix: of the deals' ids.
        count: deals of all splits together.
        pool: the opponents.
        split: the split to draw from.
        seat: the agent's seat in the first game of deal 0; it alternates with the deal's number.
    """

    def __init__(self, prefix: str, count: int, pool: OpponentPool, split: str, seat: int = 0) -> None:
        self.pool, self._seat = pool, seat
        self._deals = NumberedTasks(prefix, count, self._build, split)
        self.split = self._deals.split

    def _build(self, number: int) -> Mapping[str, Any]:
        return {"deal": number, "seat": (number + self._seat) % 2}

    def __len__(self) -> int:
        return len(self._deals) * len(self.pool)

    def at(self, index: int) -> Task:
        """The tasks of the first opponent, then those of the second, and so on."""
        opponent, deal = divmod(index, len(self._deals))
        return self._against(self._deals.at(deal), self.pool.names[opponent])

    def get(self, task_id: str) -> Task:
        """The task with this id, of any split."""
        deal, _, name = task_id.partition("@")
        if name not in self.pool.names:
            form, known = f"{self._deals.at(0).id}@{self.pool.names[0]}", ", ".join(self.pool.names)
            raise UnknownTask(f"no task {task_id!r}; ids look like {form!r}, opponents are {known}")
        return self._against(self._deals.get(deal), name)

    @staticmethod
    def _against(deal: Task, name: str) -> Task:
        return replace(deal, id=f"{deal.id}@{name}", params={**deal.params, "opponent": name})
