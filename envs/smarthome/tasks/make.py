"""Tasks from numbers: a home, a resident, a request and its goal, checked; and the set of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from random import Random

from ...core.errors import EnvironmentFault, InvalidArgument, UnknownTask
from ...core.tasks import Task, TaskSet, check_split
from ..blueprint.checks import problems
from ..blueprint.run import Recorder
from ..maker.make import make_home
from ..oracle.plan import carry_out
from ..session import Beginning, Session, beginning
from ..sim.home import HomeSnapshot, SimHome
from ..spec import HomeSpec
from ..task import HomeTask
from . import asking, control, limits, personal, timing
from .scene import Draft, Scene

Maker = Callable[[Random, Scene], Draft | None]
KINDS: Mapping[str, tuple[str, Maker]] = {
    **{maker.__name__: ("query", maker) for maker in (asking.state, asking.aggregate, asking.extreme, asking.history)},
    **{
        maker.__name__: ("explicit", maker)
        for maker in (control.single, control.multi, control.area, control.area_except, control.relative)
    },
    **{m.__name__: ("implicit", m) for m in (control.warmer, control.brighter, control.quieter, control.fresher)},
    **{maker.__name__: ("ambiguous", maker) for maker in (control.ask_which, control.ask_value, control.context)},
    **{
        maker.__name__: ("scheduling", maker)
        for maker in (timing.at_time, timing.in_a_while, timing.for_a_while, timing.after_device, timing.automation)
    },
    **{
        maker.__name__: ("personalised", maker)
        for maker in (personal.preference, personal.other_person, personal.routine)
    },
    **{
        maker.__name__: ("infeasible", maker)
        for maker in (
            *(limits.missing, limits.not_capable, limits.out_of_range, limits.past, limits.contradiction),
            *(limits.not_allowed, limits.partial),
        )
    },
    **{m.__name__: ("fault", m) for m in (limits.unavailable, limits.jammed, limits.open_window, limits.stuck)},
}
"""Sub-type -> its family and what makes it. The order is part of the tasks' numbers."""
NAMES = tuple(KINDS)
HOMES = {"train": 4000, "valid_seen": 500, "valid_unseen": 500, "test": 1000}
"""How many homes a split draws from."""
PER_SPLIT = {"train": 100_000, "valid_seen": 5000, "valid_unseen": 5000, "test": 10_000}
WARMUP = 3 * 3600.0
_ATTEMPTS, _OWN, _OTHER = 100, 40, 10


def draft_task(
    split: str, number: int, attempt: int, size: str | None = None
) -> tuple[HomeTask, HomeSnapshot | None] | None:
    """What an attempt at a task gives, not checked yet: None where the home has nothing for its sub-type.

    The snapshot is the home's after the warm-up; None where the task's home is another one (with a fault, say).
    """
    kind = _kind(number, attempt)
    family, maker = KINDS[kind]
    rng = Random(f"task/{split}/{number}/{attempt}")
    spec = make_home(split, rng.randrange(HOMES[split]), size)
    home = _warm(spec)
    present = [who for who in spec.residents if home.people.where[who.id][0] != "away"]
    speaker = rng.choice(present or list(spec.residents))
    scene = Scene(home, speaker)
    try:
        draft = maker(rng, scene)
    except IndexError:  # nothing to choose from
        return None
    if draft is None:
        return None
    task = HomeTask(
        family,
        kind,
        draft.home or spec,
        speaker.id,
        scene.area,
        draft.request,
        draft.goal(),
        WARMUP,
        draft.answers,
        draft.world,
        draft.answer,
        draft.about,
    )
    return task, None if draft.home else home.snapshot()


def _kind(number: int, attempt: int) -> str:
    """The sub-type of an attempt: where homes of a size hardly allow a number's own, another of its family."""
    own = NAMES[number % len(NAMES)]
    family = [name for name in NAMES if KINDS[name][0] == KINDS[own][0]]
    return family[(family.index(own) + max(0, attempt - _OWN) // _OTHER) % len(family)]


def check_task(task: HomeTask, begin: Beginning) -> tuple[list[str], int]:
    """What is wrong with a task (see `blueprint.checks.problems`; the plan is the oracle's), and the plan's length."""
    session, lengths = Session(task, begin), list[int]()

    def follow(recorder: Recorder) -> None:
        session.recorder = recorder
        lengths.append(carry_out(session))

    return problems(task.goal, session.home, follow, task.world, begin.alone), lengths[0]


@lru_cache(maxsize=64)
def make_task(split: str, number: int, size: str | None = None) -> tuple[HomeTask, Beginning]:
    """Task `number` of a split: the first attempt that passes the checks.

    The number tells the sub-type; after 40 attempts that its homes do not allow, others of the family are tried.

    Raises:
        EnvironmentFault: none of many attempts does.
    """
    for attempt in range(_ATTEMPTS):
        drafted = draft_task(split, number, attempt, size)
        if drafted is not None:
            task, snapshot = drafted
            begin = beginning(task, snapshot)
            wrong, length = check_task(task, begin)
            if not wrong:
                return replace(task, oracle_calls=length), begin
    raise EnvironmentFault(
        f"no task {number} of {split!r}: {_ATTEMPTS} attempts at {NAMES[number % len(NAMES)]!r} failed"
    )


def _warm(spec: HomeSpec) -> SimHome:
    home = SimHome(spec)
    home.advance(WARMUP)
    return home


class HomeTasks(TaskSet):
    """The tasks of a split; they are made when they are played.

    Args:
        split: one of the four.
        size: of the homes: "small", "medium", "large", or None for all.
        families: only tasks of these families; None for all.

    Raises:
        InvalidArgument: there is no such family.
    """

    def __init__(self, split: str, size: str | None = None, families: tuple[str, ...] | None = None) -> None:
        self.split = check_split(split)
        self.size = size
        known = tuple(dict.fromkeys(family for family, _ in KINDS.values()))
        strange = [family for family in families or () if family not in known]
        if strange:
            raise InvalidArgument(f"no family {strange[0]!r}; choose from {', '.join(known)}")
        self._kinds = [index for index, name in enumerate(NAMES) if not families or KINDS[name][0] in families]

    def __len__(self) -> int:
        return PER_SPLIT[self.split] // len(NAMES) * len(self._kinds)

    def at(self, index: int) -> Task:
        """The task with this number; neighbours are of different sub-types."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        row, column = divmod(index, len(self._kinds))
        return self._task(self.split, row * len(NAMES) + self._kinds[column], self.size)

    def get(self, task_id: str) -> Task:
        """The task with an id like "train-medium-12"; "any" stands for homes of all sizes."""
        split, _, rest = task_id.partition("-")
        size, _, number = rest.partition("-")
        fits = (
            split in PER_SPLIT and size in ("any", "small", "medium", "large") and number.isascii() and number.isdigit()
        )
        if not fits or len(number) > 7 or str(int(number)) != number or int(number) >= PER_SPLIT[split]:
            raise UnknownTask(f"no task {task_id[:60]!r}; ids look like 'train-any-0', 'test-small-12'")
        return self._task(split, int(number), None if size == "any" else size)

    @staticmethod
    def _task(split: str, number: int, size: str | None) -> Task:
        params = {"split": split, "number": number, "size": size}
        return Task(f"{split}-{size or 'any'}-{number}", split, params)
