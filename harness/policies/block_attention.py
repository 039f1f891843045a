"""Attention over packed trees in blocks: every token meets little more than the tokens it sees.

The nodes of all rows lie one after the other, without padding. They are cut into pieces: at every fork, and every CHUNK
tokens. A block is some pieces in a row; its tokens are asked about all pieces at or above any of them, in one call of
torch's `scaled_dot_product_attention`. Neighbours are joined where one call over both costs less than two. So the
episodes of a group each attend to the prompt they share and to themselves, and the candidates of a turn are one call
together. A dense mask would cost the square of the tree instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch

from ..packing import Packing

NAME = "sandlot_blocks"  # the implementation's name among transformers' own
CHUNK = 128  # longer pieces are cut: within a block with something above it, half of the square is masked
OVERHEAD = 12_000  # what one more call costs, in pairs of tokens: 0.25 ms, and 5 ns a pair in 4 heads of size 32


@dataclass(frozen=True, slots=True)
class Block:
    """Tokens that ask together."""

    asking: tuple[int, ...]
    """The pieces whose tokens ask, in a row."""
    asked: tuple[int, ...]
    """The pieces that are at or above any of them, in order."""
    mask: torch.Tensor | None
    """(asking tokens, asked tokens), 0 where one sees the other and -inf elsewhere; None: each sees those before it."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """How attention over a packing is computed; given to the model as `blocks=`."""

    sizes: tuple[int, ...]
    """Tokens of every piece; all pieces together are all nodes."""
    blocks: tuple[Block, ...]
    """All pieces ask once, in order."""

    @property
    def pairs(self) -> int:
        """Pairs of tokens that are computed, masked ones included."""
        return sum(self._tokens(block.asking) * self._tokens(block.asked) for block in self.blocks)

    def _tokens(self, pieces: Sequence[int]) -> int:
        return sum(self.sizes[piece] for piece in pieces)


def flat(packing: Packing) -> Packing:
    """The same nodes as one row, as block attention takes them."""
    return replace(packing, starts=np.array([0, len(packing.ids)], dtype=np.int64))


def plan(packing: Packing, device: torch.device, dtype: torch.dtype) -> Blocks:
    """Cut the packing's nodes into blocks.

    Args:
        packing: at least one node.
        device: where the masks go.
        dtype: of the masks: that of the queries.
    """
    count = len(packing.ids)
    nodes = np.arange(count)
    forked = nodes[packing.parent != nodes - 1]  # where a piece starts whose parent is not the node before, or nobody
    starts = np.unique(np.concatenate([[0], forked, packing.parent[forked] + 1]))
    ends = np.append(starts[1:], count)
    starts = np.concatenate([np.arange(start, stop, CHUNK) for start, stop in zip(starts, ends)])
    sizes = np.diff(np.append(starts, count))
    owner = np.searchsorted(starts, packing.parent[starts], side="right") - 1  # the piece above; -1 at a root
    above: list[int] = []  # per piece, a set of pieces as bits: itself and all above it
    for piece, parent in enumerate(owner.tolist()):
        above.append((above[parent] if parent >= 0 else 0) | 1 << piece)
    groups = _join(sizes.tolist(), above)
    blocks = []
    for first, last, seen in groups:
        asking, asked = tuple(range(first, last)), tuple(_bits(seen))
        mask = None
        if not _causal(first, last, seen, owner):
            mask = _mask(asking, asked, starts, sizes, above).to(device, dtype)
        blocks.append(Block(asking, asked, mask))
    return Blocks(tuple(sizes.tolist()), tuple(blocks))


def _join(sizes: list[int], above: list[int]) -> list[tuple[int, int, int]]:
    """Neighbouring pieces as blocks (first piece, last + 1, set of pieces asked), where that costs less.

    torch's causal kernel takes as long as one with a mask, so that both are counted alike.
    """
    groups: list[tuple[int, int, int]] = []
    costs: list[int] = []
    for piece, seen in enumerate(above):
        cost = sizes[piece] * _tokens(seen, sizes) + OVERHEAD
        if groups:
            first, _, before = groups[-1]
            together = sum(sizes[first : piece + 1]) * _tokens(before | seen, sizes) + OVERHEAD
            if together <= costs[-1] + cost:
                groups[-1], costs[-1] = (first, piece + 1, before | seen), together
                continue
        groups.append((piece, piece + 1, seen))
        costs.append(cost)
    return groups


def _tokens(pieces: int, sizes: Sequence[int]) -> int:
    return sum(sizes[piece] for piece in _bits(pieces))


def _causal(first: int, last: int, seen: int, owner: np.ndarray) -> bool:
    """Whether the pieces are one row from its root on."""
    return seen == (1 << last) - (1 << first) and all(owner[piece] == piece - 1 for piece in range(first + 1, last))


def _bits(number: int) -> list[int]:
    """The places of a number's ones, from the lowest."""
    found = []
    while number:
        lowest = number & -number
        found.append(lowest.bit_length() - 1)
        number ^= lowest
    return found


def _mask(
    asking: Sequence[int], asked: Sequence[int], starts: np.ndarray, sizes: np.ndarray, above: list[int]
) -> torch.Tensor:
    """Who sees whom: whole pieces above, and within a piece the tokens before."""
    sees = np.array([[bool(above[low] >> high & 1) for high in asked] for low in asking])
    sees = np.repeat(np.repeat(sees, sizes[list(asking)], axis=0), sizes[list(asked)], axis=1)
    rows, columns = (
        np.concatenate([np.arange(starts[p], starts[p] + sizes[p]) for p in side]) for side in (asking, asked)
    )
    sees &= columns <= rows[:, None]  # a node is always behind those above it
    return torch.zeros(sees.shape).masked_fill_(torch.from_numpy(~sees), float("-inf"))


@cache
def register() -> None:
    """Tell transformers about the implementation."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, _attend)


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Any,
    *,
    blocks: Blocks,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Keep to the calling convention of transformers: (1, heads, N, size) in, (1, N, heads, size) out."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    queries, keys, values = (part.split(blocks.sizes, dim=2) for part in (query, key, value))
    outputs = []
    for block in blocks.blocks:
        asking = _cat([queries[piece] for piece in block.asking])
        asked, answers = (_cat([part[piece] for piece in block.asked]) for part in (keys, values))
        mask = None if block.mask is None else block.mask[None, None]
        outputs.append(sdpa_attention_forward(module, asking, asked, answers, mask, **kwargs)[0])
    return torch.cat(outputs, dim=1), None


def _cat(pieces: list[torch.Tensor]) -> torch.Tensor:
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=2)
