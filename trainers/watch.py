"""Who watches a run: the best checkpoint, early stop, TensorBoard and Weights & Biases. Called after every step.

A watcher gets the whole history (one dict of metrics per step, the newest last) and may return a reason to stop. It
keeps no state of its own that a resumed run would need: what it decides follows from the history.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..envs.core.errors import InvalidArgument, MissingExtra

History = Sequence[dict[str, float]]
BEST = "best"  # folder of the best policy inside a run


class Watcher(Protocol):
    """Called with the history after every step."""

    def __call__(self, history: History) -> str | None:
        """A reason to stop, or None."""
        ...


def values_of(history: History, metric: str) -> list[float]:
    """The finite values of a metric, in the order of the steps that have it."""
    return [m[metric] for m in history if metric in m and math.isfinite(m[metric])]


@dataclass(frozen=True)
class EarlyStop:
    """Stops when the best value of a metric is `patience` of its values old."""

    patience: int
    metric: str = "eval/success"
    min_delta: float = 0.0
    """A value counts as better only by more than this."""

    def __post_init__(self) -> None:
        if self.patience < 1:
            raise InvalidArgument(f"patience must be at least 1, not {self.patience!r}")

    def __call__(self, history: History) -> str | None:
        """The reason, once patience is over; only in steps that have the metric."""
        if not history or self.metric not in history[-1]:
            return None
        best, age = -math.inf, 0
        for value in values_of(history, self.metric):
            best, age = (value, 0) if value > best + self.min_delta else (best, age + 1)
        if age < self.patience:
            return None
        return f"{self.metric} has not risen above {best:.3f} in {age} evaluations"


@dataclass(frozen=True)
class Best:
    """Saves the policy whenever a metric is better than ever before."""

    policy: Any
    """Anything with `save(folder)`."""
    folder: Path
    metric: str = "eval/success"

    def __call__(self, history: History) -> str | None:
        """Saves, or does nothing."""
        values = values_of(history, self.metric)
        if history and self.metric in history[-1] and values and values[-1] > max(values[:-1], default=-math.inf):
            self.policy.save(self.folder)
        return None


class TensorBoard:
    """Writes every metric as a scalar; look at it with `tensorboard --logdir FOLDER`.

    Args:
        folder: where the event files go.

    Raises:
        MissingExtra: tensorboard is not installed.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingExtra("tensorboard", "tensorboard") from None
        self.writer = SummaryWriter(str(folder))

    def __call__(self, history: History) -> str | None:
        """Writes the newest step."""
        for name, value in history[-1].items():
            if math.isfinite(value):
                self.writer.add_scalar(name, value, len(history) - 1)
        self.writer.flush()
        return None


class WandB:
    """Logs every metric to Weights & Biases, if its package is installed; `WANDB_MODE=offline` sends nothing.

    Args:
        folder: where its files go.
        name: of the run.
        config: the run's settings.

    Raises:
        MissingExtra: wandb is not installed.
    """

    def __init__(self, folder: Path, name: str, config: dict[str, Any]) -> None:
        try:
            import wandb  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise MissingExtra("wandb", "wandb") from None
        self.run = wandb.init(project="sandlot", name=name, config=config, dir=str(folder), resume="allow", id=name)

    def __call__(self, history: History) -> str | None:
        """Logs the newest step."""
        self.run.log(history[-1], step=len(history) - 1)
        return None


def trackers(names: Sequence[str], folder: Path, config: dict[str, Any]) -> list[Watcher]:
    """The trackers that a run asks for: "tensorboard", "wandb".

    Raises:
        InvalidArgument: another name.
        MissingExtra: its package is not installed.
    """
    known: dict[str, Callable[[], Watcher]] = {
        "tensorboard": lambda: TensorBoard(folder / "tensorboard"),
        "wandb": lambda: WandB(folder, folder.name, config),
    }
    for name in names:
        if name not in known:
            raise InvalidArgument(f"a tracker is one of {', '.join(known)}, not {name!r}")
    return [known[name]() for name in names]
