"""Keys and values of many sequences at once: row r holds one session, column p its token at position p.

Nothing is padded inside a row, so rows can be of any length, grow, be cut back to a shared prefix, and be given to
another session. Transformers' models write through `update`; who attends to what is said by an explicit 4D mask.
"""

from __future__ import annotations

from typing import Any

import torch

GROWTH = 256  # columns


class RowCache:
    """Preallocated keys and values per layer, (rows, heads, columns, head dimension)."""

    is_compileable = False

    def __init__(self) -> None:
        self.rows = 0
        self.columns = 0
        self.keys: list[torch.Tensor] = []
        self.values: list[torch.Tensor] = []
        self._at: tuple[Any, torch.Tensor, int] | None = None

    def reserve(self, rows: int, columns: int) -> None:
        """Make room for `rows` sequences of up to `columns` tokens; one column more is kept for padding to land in."""
        columns = -(-(columns + 1) // GROWTH) * GROWTH
        if rows <= self.rows and columns <= self.columns:
            return
        if rows > self.rows:  # sessions often come a few at a time
            rows = max(rows, self.rows * 3 // 2)
        rows, columns = max(rows, self.rows), max(columns, self.columns)
        for tensors in (self.keys, self.values):
            for layer, old in enumerate(tensors):
                tensors[layer] = self._blank(old, rows, columns)
                tensors[layer][: self.rows, :, : self.columns] = old
        self.rows, self.columns = rows, columns

    def aim(self, rows: Any, positions: torch.Tensor, length: int) -> None:
        """Say where the next forward pass writes and reads.

        Args:
            rows: a slice, or a (n,) index tensor (reads then cost a copy).
            positions: (n, Q) column of each new token.
            length: columns to read.
        """
        self._at = (rows, positions, length)

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store one layer's new keys and values, (n, heads, Q, dimension); return all that can be attended to."""
        assert self._at is not None
        rows, positions, length = self._at
        if layer == len(self.keys):
            self.keys.append(self._blank(keys, self.rows, self.columns))
            self.values.append(self._blank(values, self.rows, self.columns))
        index = torch.arange(self.rows, device=keys.device)[rows][:, None]
        stored = []
        for tensor, new in ((self.keys[layer], keys), (self.values[layer], values)):
            tensor[index, :, positions] = new.transpose(1, 2)
            seen = tensor[:, :, :length]
            stored.append(seen[rows] if isinstance(rows, slice) else seen.index_select(0, rows))
        return stored[0], stored[1]

    def swap(self, a: int, b: int, length: int) -> None:
        """Exchange the first `length` columns of two rows."""
        for tensor in (*self.keys, *self.values):
            kept = tensor[a, :, :length].clone()
            tensor[a, :, :length] = tensor[b, :, :length]
            tensor[b, :, :length] = kept

    def copy(self, source: int, rows: list[int], length: int) -> None:
        """Give other rows the first `length` columns of a row."""
        for tensor in (*self.keys, *self.values):
            tensor[rows, :, :length] = tensor[source, :, :length].clone()

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Asked by models that are given no position ids; ours always are."""
        return 0

    @staticmethod
    def _blank(like: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
        # zeros: padding queries attend to column 0 of rows that may be new, and must stay finite
        return torch.zeros(rows, like.shape[1], columns, like.shape[3], dtype=like.dtype, device=like.device)
