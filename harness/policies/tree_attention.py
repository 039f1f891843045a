"""Attention over packed trees: which way is taken, a dense mask, and torch's FlexAttention.

A token sees itself and its ancestors. Numbered in depth-first order, a node's descendants are an interval, so whether
m is above n is two comparisons: enter[m] <= enter[n] < leave[m]. FlexAttention needs no more than that: memory grows
with the length, not with its square, and blocks in which nobody sees anybody are skipped. It is compiled for GPUs;
a CPU computes it, but has no gradients for it, so there `block_attention` is used. The dense mask is the simple way:
any model that adds masks takes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch

from ..packing import Packing

NAME = "sandlot_tree"  # the implementation's name among transformers' own
DENSE_LENGTH = 1024  # tokens of the longest row up to which a dense mask costs less than FlexAttention's setting up


def chosen(attention: str, model: Any, packing: Packing) -> str:
    """Say "blocks", "flex" or "dense" for a batch with forks: what "auto" means here.

    Args:
        attention: "auto", "blocks", "flex" or "dense".
        model: of transformers. Only where its own attention is torch's (and so nothing but scaled scores and a mask)
            can another one take its place.
        packing: the batch.
    """
    if not (model.config._attn_implementation == "sdpa" and getattr(model, "_supports_attention_backend", False)):
        return "dense"
    if attention != "auto":
        return attention
    if next(model.parameters()).device.type != "cuda":
        return "blocks"
    return "flex" if packing.lengths.max(initial=0) > DENSE_LENGTH else "dense"


def dense_mask(packing: Packing) -> np.ndarray:
    """(rows, T, T) bool: what each token sees. Padding sees itself: no softmax is empty."""
    width = int(packing.lengths.max(initial=0))
    seen = np.zeros((packing.rows, width, width), dtype=bool)
    seen[:, np.arange(width), np.arange(width)] = True
    for row in range(packing.rows):
        start, stop = packing.starts[row : row + 2]
        _ancestors(seen[row], packing.parent[start:stop] - start)
    return seen


def intervals(packing: Packing) -> tuple[np.ndarray, np.ndarray]:
    """(rows, T) int64 each: `enter` and `leave` of every token; padding is an interval of its own."""
    width = int(packing.lengths.max(initial=0))
    enter = np.tile(np.arange(width), (packing.rows, 1))
    leave = enter + 1
    for row in range(packing.rows):
        start, stop = packing.starts[row : row + 2]
        parent = (packing.parent[start:stop] - start).tolist()
        size = [1] * len(parent)
        for node in range(len(parent) - 1, 0, -1):
            if parent[node] >= 0:
                size[parent[node]] += size[node]
        free = [0] * (len(parent) + 1)  # the next number below each node; the last entry is for roots
        for node, above in enumerate(parent):
            above = above if above >= 0 else -1
            enter[row, node] = free[above]
            leave[row, node] = free[above] + size[node]
            free[above] += size[node]
            free[node] = enter[row, node] + 1
    return enter, leave


def block_mask(packing: Packing, device: torch.device) -> Any:
    """The same as a BlockMask for FlexAttention."""
    from torch.nn.attention.flex_attention import create_block_mask

    enter, leave = (torch.from_numpy(part).to(device) for part in intervals(packing))

    def sees(row: Any, _head: Any, query: Any, key: Any) -> Any:
        return (enter[row, key] <= enter[row, query]) & (enter[row, query] < leave[row, key])

    rows, width = enter.shape
    return create_block_mask(sees, rows, None, width, width, device=str(device))


@contextmanager
def implementation(config: Any, name: str) -> Iterator[None]:
    """Meanwhile the model with this config (of transformers) computes attention as `name` does."""
    before = config._attn_implementation
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = before


@cache
def register() -> None:
    """Tell transformers about FlexAttention over trees, which takes a BlockMask as its attention mask."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, _attend)


@cache
def _compiled() -> Any:
    from torch.nn.attention.flex_attention import flex_attention as attend

    return torch.compile(attend)


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Any,
    scaling: float | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Keep to the calling convention of transformers: (rows, heads, T, size) in, (rows, T, heads, size) out."""
    from torch.nn.attention.flex_attention import flex_attention as eager

    share = query.shape[1] // key.shape[1]
    if share & (share - 1):  # the GPU's kernel shares keys among 1, 2, 4 ... heads only
        key, value = (part.repeat_interleave(share, dim=1) for part in (key, value))
        share = 1
    attend = _compiled() if query.device.type == "cuda" else eager
    out = attend(query, key, value, block_mask=attention_mask, scale=scaling, enable_gqa=share > 1)
    return out.transpose(1, 2).contiguous(), None


def _ancestors(seen: np.ndarray, parent: np.ndarray) -> None:
    """Sets seen[n, m] where m is n or above it; whole unforked stretches at a time."""
    nodes = np.arange(len(parent))
    firsts = np.flatnonzero(parent != nodes - 1) if len(parent) else nodes
    firsts = np.union1d(firsts, [0])
    for first, stop in zip(firsts, [*firsts[1:], len(parent)]):
        if first and parent[first] >= 0:
            seen[first:stop] = seen[parent[first]]
        seen[first:stop, first:stop] |= np.tri(stop - first, dtype=bool)
