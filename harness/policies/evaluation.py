"""Evaluating recorded calls under a causal language model: log-probabilities, entropies and values, with gradients.

The same numbers that the sampler saw, from one forward pass over packed sequences: chains take the model's ordinary
causal path, trees attention of their own (`tree_attention.chosen`) with explicit positions. Only the positions that are
asked for reach the output layer, whatever the model does to its logits afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..packing import Packing, batch_indices, pack
from ..records import Call
from . import block_attention, tree_attention

__all__ = ["Evaluation", "evaluate", "evaluate_tokens", "score"]


@dataclass(slots=True)
class Evaluation:
    """What a model says about recorded calls; units of all calls one after the other, in the order of the calls."""

    logprobs: torch.Tensor
    """(U,) float32 log-probabilities of the recorded units, under each call's own temperature and candidates."""
    entropy: torch.Tensor
    """(U,) float32, in nats, of the distribution that each unit was drawn from."""
    values: torch.Tensor | None = None
    """(calls,) float32 values of the states before the calls, where there is a value head."""
    unit_values: torch.Tensor | None = None
    """(U,) float32 values of the states in which the units were decided, where there is a value head."""


def evaluate(
    model: torch.nn.Module,
    calls: Sequence[Call],
    *,
    value_head: torch.nn.Module | None = None,
    attention: str = "auto",
) -> Evaluation:
    """Evaluates `calls` in one forward pass, differentiably where gradients are on.

    Units are those of `Call`: completion tokens (renormalised over `allowed` where that is set), or the one choice,
    whose candidates weigh in with exp(sum of their tokens' log-probabilities / temperature). Temperature 0 reads as 1,
    which is what greedy calls record.

    Args:
        model: a causal language model with the calling convention of transformers.
        calls: one micro-batch of calls with token ids.
        value_head: maps the last hidden state (size of the model) to one number.
        attention: over packed trees: "blocks", "flex", "dense", or "auto" (`tree_attention.chosen`).

    Raises:
        ValueError: a call cannot be packed (see `pack`), or a recorded id is not among its allowed ones.
    """
    packing = pack(calls, forks=_takes_tree_masks(model), share=True)
    plan = _Plan(packing, calls)
    device = next(model.parameters()).device
    at = None if value_head is None else _decided(packing, calls)
    logits, states = _forward(model, packing, plan.reads, states=at, attention=attention)
    parts = [_free(logits, plan.free, device), _trie(logits, plan.trie, device), _choice(logits, plan.choice, device)]
    forced = torch.zeros(plan.forced, device=device)  # only one id was allowed: nothing was decided
    order = torch.from_numpy(np.argsort(plan.order)).to(device)
    logprobs = torch.cat([part[0] for part in parts] + [forced])[order]
    entropy = torch.cat([part[1] for part in parts] + [forced])[order]
    values = unit_values = None
    if value_head is not None and states is not None:
        read = value_head(states.to(next(value_head.parameters()).dtype)).reshape(-1).float()
        values, unit_values = read[: len(calls)], read[len(calls) :]
    return Evaluation(logprobs, entropy, values, unit_values)


def _decided(packing: Packing, calls: Sequence[Call]) -> np.ndarray:
    """(calls + units,) nodes at which values are read: where each call, then where each unit was decided."""
    units = [
        packing.value[i : i + 1] if call.choices is not None else packing.parent[packing.completion[i]]
        for i, call in enumerate(calls)
    ]
    return np.concatenate([packing.value, *units])


def score(
    model: torch.nn.Module, calls: Sequence[Call], *, max_tokens: int = 16_384, attention: str = "auto"
) -> list[np.ndarray]:
    """Per call, the (units,) float32 log-probabilities, without gradients, in batches of `max_tokens` token slots."""
    scores: list[np.ndarray] = [np.zeros(0, dtype=np.float32)] * len(calls)
    for batch in batch_indices(calls, max_tokens, share=True):
        with torch.no_grad():
            logprobs = evaluate(model, [calls[index] for index in batch], attention=attention).logprobs.cpu().numpy()
        ends = np.cumsum([unit_count(calls[index]) for index in batch])
        for index, part in zip(batch, np.split(logprobs, ends[:-1])):
            scores[index] = part
    return scores


def evaluate_tokens(
    model: torch.nn.Module, calls: Sequence[Call], *, attention: str = "auto"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Next-token log-probabilities of everything that was said, for supervised training.

    Temperature and constraints are left aside; candidates that were not chosen are left out. Tokens that several
    calls share appear once.

    Returns:
        (T,) float32 log-probabilities; (T,) bool, true where the token is a policy's completion and false where it
        belongs to a prompt (instructions, observations); (T,) int64, the number of the call whose completion the token
        is, for a prompt's tokens that of the session's first call. The first token of each row has no predictor and is
        left out.

    Raises:
        ValueError: a call cannot be packed (see `pack`).
    """
    packing = pack([_as_text(call) for call in calls], forks=_takes_tree_masks(model))
    nodes = np.flatnonzero(packing.parent >= 0)
    spoken = np.zeros(len(packing.ids), dtype=bool)
    spoken[np.concatenate(packing.completion)] = True
    device = next(model.parameters()).device
    logits, _ = _forward(model, packing, packing.parent[nodes], attention=attention)
    logprobs = torch.log_softmax(logits.float(), dim=-1).gather(1, _column(packing.ids[nodes], device)).squeeze(1)
    first: dict[str, int] = {}
    session = np.array([first.setdefault(call.session, i) for i, call in enumerate(calls)], dtype=np.int64)
    of_row = np.zeros(packing.rows, dtype=np.int64)  # a row holds one session's calls
    of_row[np.searchsorted(packing.starts, packing.value, side="right") - 1] = session
    owner = np.repeat(of_row, packing.lengths)
    for number, completion in enumerate(packing.completion):
        owner[completion] = number
    return logprobs, torch.from_numpy(spoken[nodes]).to(device), torch.from_numpy(owner[nodes]).to(device)


def unit_count(call: Call) -> int:
    """How many units `call` has: the length of its log-probabilities, advantages and weights."""
    return len(call.completion_ids) if call.choices is None else 1


def _as_text(call: Call) -> Call:
    """The call with its chosen candidate as plain completion."""
    if call.choices is None:
        return call
    return Call(
        call.id,
        call.context,
        call.text,
        call.logprobs,
        prompt_ids=call.prompt_ids,
        completion_ids=tuple(call.choices[call.choice]),
    )


# -- which logits are needed, and what for ---------------------------------------------------------------------------


class _Plan:
    """The read points (nodes whose logits are needed) and, per kind of unit, arrays that say what to do with them."""

    def __init__(self, packing: Packing, calls: Sequence[Call]) -> None:
        free: list[np.ndarray] = []  # nodes
        free_temperature: list[tuple[float, int]] = []
        trie: list[tuple[int, float, tuple[int, ...]]] = []  # node, temperature, allowed
        choice: list[int] = []  # calls
        orders: dict[str, list[np.ndarray]] = {"free": [], "trie": [], "choice": [], "forced": []}
        unit = 0
        for index, call in enumerate(calls):
            count = unit_count(call)
            units = np.arange(unit, unit + count)
            unit += count
            temperature = call.temperature or 1.0
            if call.choices is not None:
                choice.append(index)
                orders["choice"].append(units)
            elif call.allowed is None:
                free.append(packing.completion[index])
                free_temperature.append((temperature, count))
                orders["free"].append(units)
            else:
                open_ = np.array([len(allowed) > 1 for allowed in call.allowed], dtype=bool)
                _check_allowed(call)
                trie += [
                    (int(packing.completion[index][t]), temperature, call.allowed[t]) for t in np.flatnonzero(open_)
                ]
                orders["trie"].append(units[open_])
                orders["forced"].append(units[~open_])
        self.order = np.concatenate([part for kind in orders.values() for part in kind] or [np.zeros(0, np.int64)])
        self.forced = sum(len(part) for part in orders["forced"])

        free_nodes = np.concatenate(free) if free else np.zeros(0, np.int64)
        trie_nodes = np.array([node for node, _, _ in trie], dtype=np.int64)
        sets = [candidates for index in choice if (candidates := packing.candidates[index]) is not None]
        tokens = [nodes for candidates in sets for nodes in candidates]
        choice_nodes = np.concatenate(tokens) if tokens else np.zeros(0, np.int64)
        unique, inverse = np.unique(packing.parent[choice_nodes], return_inverse=True)
        self.reads = np.concatenate([packing.parent[free_nodes], packing.parent[trie_nodes], unique])
        """(reads,) nodes; the logits come back in this order."""

        temperatures = [value for value, _ in free_temperature], [count for _, count in free_temperature]
        self.free = _Free(packing.ids[free_nodes], np.repeat(np.array(temperatures[0], np.float32), temperatures[1]))
        self.trie = _Trie.make(packing.ids[trie_nodes], trie, first=len(free_nodes))
        self.choice = _Choice(
            ids=packing.ids[choice_nodes],
            read=inverse.reshape(-1),
            first=len(free_nodes) + len(trie_nodes),
            candidate=np.repeat(np.arange(len(tokens)), [len(nodes) for nodes in tokens]),
            sizes=np.array([len(candidates) for candidates in sets], dtype=np.int64),
            chosen=np.array([calls[index].choice for index in choice], dtype=np.int64),
            temperature=np.array([calls[index].temperature or 1.0 for index in choice], dtype=np.float32),
        )


@dataclass(slots=True)
class _Free:
    """Units over the whole vocabulary; unit u reads logits u."""

    ids: np.ndarray  # (U,)
    temperature: np.ndarray  # (U,)


@dataclass(slots=True)
class _Trie:
    """Units over their allowed ids; unit u reads logits first + u."""

    first: int
    allowed: np.ndarray  # (U, K) ids, padded with the first one
    real: np.ndarray  # (U, K) bool
    column: np.ndarray  # (U,) which of the allowed ids was taken
    temperature: np.ndarray  # (U,)

    @classmethod
    def make(cls, ids: np.ndarray, units: Sequence[tuple[int, float, tuple[int, ...]]], first: int) -> _Trie:
        sizes = np.array([len(allowed) for _, _, allowed in units], dtype=np.int64)
        real = np.arange(sizes.max(initial=0)) < sizes[:, None]
        allowed = np.zeros(real.shape, dtype=np.int64)
        allowed[real] = [token for _, _, tokens in units for token in tokens]
        column = ((allowed == ids[:, None]) & real).argmax(1) if len(units) else np.zeros(0, np.int64)
        return cls(first, allowed, real, column, np.array([value for _, value, _ in units], dtype=np.float32))


@dataclass(slots=True)
class _Choice:
    """Units over candidates; a candidate's tokens read logits first + read."""

    ids: np.ndarray  # (T,) tokens of all candidates of all units
    read: np.ndarray  # (T,)
    first: int
    candidate: np.ndarray  # (T,) which candidate (numbered through all units) the token belongs to
    sizes: np.ndarray  # (U,) candidates per unit
    chosen: np.ndarray  # (U,)
    temperature: np.ndarray  # (U,)


def _check_allowed(call: Call) -> None:
    allowed = call.allowed or ()
    if len(allowed) != len(call.completion_ids):
        raise ValueError(
            f"call {call.id!r} has {len(call.completion_ids)} completion ids but {len(allowed)} allowed sets"
        )
    for token, among in zip(call.completion_ids, allowed):
        if token not in among:
            raise ValueError(f"call {call.id!r} has the id {token}, which is not among the {len(among)} allowed there")


# -- from logits to units --------------------------------------------------------------------------------------------


def _free(logits: torch.Tensor, units: _Free, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    scores = logits[: len(units.ids)].float()
    if (units.temperature != 1).any():
        scores = scores / _column(units.temperature, device)
    logp = torch.log_softmax(scores, dim=-1)
    return logp.gather(1, _column(units.ids, device)).squeeze(1), -(logp.exp() * logp).sum(-1)


def _trie(logits: torch.Tensor, units: _Trie, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    if not len(units.column):
        return logits.new_zeros(0, dtype=torch.float32), logits.new_zeros(0, dtype=torch.float32)
    rows = logits[units.first : units.first + len(units.column)]
    scores = rows.gather(1, torch.from_numpy(units.allowed).to(device)).float() / _column(units.temperature, device)
    return _among(scores, units.real, units.column, device)


def _choice(logits: torch.Tensor, units: _Choice, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    if not len(units.chosen):
        return logits.new_zeros(0, dtype=torch.float32), logits.new_zeros(0, dtype=torch.float32)
    logp = torch.log_softmax(logits[units.first :].float(), dim=-1)
    at = torch.from_numpy(units.read * logp.shape[1] + units.ids).to(device)
    tokens = logp.reshape(-1).index_select(0, at)
    real = np.arange(units.sizes.max()) < units.sizes[:, None]
    place = np.flatnonzero(real)[units.candidate]  # of each token, in the padded (units, candidates) table
    sums = torch.zeros(real.size, device=device).index_add(0, torch.from_numpy(place).to(device), tokens)
    scores = sums.reshape(real.shape) / _column(units.temperature, device)
    return _among(scores, real, units.chosen, device)


def _among(
    scores: torch.Tensor, real: np.ndarray, column: np.ndarray, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probability of `column` and entropy under the softmax over each row's real entries."""
    fill = torch.from_numpy(~real).to(device)
    logp = torch.log_softmax(scores.masked_fill(fill, float("-inf")), dim=-1)
    terms = (logp.exp() * logp.masked_fill(fill, 0.0)).masked_fill(fill, 0.0)
    return logp.gather(1, _column(column, device)).squeeze(1), -terms.sum(-1)


def _column(values: np.ndarray, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(values).to(device).unsqueeze(1)


# -- the forward pass ------------------------------------------------------------------------------------------------


def _takes_tree_masks(model: torch.nn.Module) -> bool:
    """Whether the model honours a mask of ours in every layer: full attention in an implementation that adds masks."""
    config: Any = getattr(model, "config", None)
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    window = getattr(config, "sliding_window", None) if getattr(config, "use_sliding_window", True) else None
    return (
        getattr(config, "_attn_implementation", None) in ("sdpa", "eager")
        and kinds == {"full_attention"}
        and window is None
    )


def _forward(
    model: Any, packing: Packing, reads: np.ndarray, *, states: np.ndarray | None = None, attention: str
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Logits (reads, V) of the nodes `reads` and, if wanted, the last hidden states (states, size) of `states`."""
    parameter = next(model.parameters())
    device, dtype = parameter.device, parameter.dtype
    way = "" if packing.chains.all() else tree_attention.chosen(attention, model, packing)
    packing = block_attention.flat(packing) if way == "blocks" else packing
    inputs: dict[str, Any] = {name: tensor.to(device) for name, tensor in _inputs(packing).items()}
    name = model.config._attn_implementation
    if way == "blocks":
        block_attention.register()
        name, inputs["blocks"] = block_attention.NAME, block_attention.plan(packing, device, dtype)
    elif way == "flex":
        tree_attention.register()
        name, inputs["attention_mask"] = tree_attention.NAME, tree_attention.block_mask(packing, device)
    elif way == "dense":
        seen = torch.from_numpy(tree_attention.dense_mask(packing))[:, None].to(device)
        mask = torch.zeros(seen.shape, dtype=dtype, device=device)
        inputs["attention_mask"] = mask.masked_fill_(~seen, torch.finfo(dtype).min)
    at = torch.from_numpy(_slots(packing, reads)).to(device)
    with tree_attention.implementation(model.config, name):
        logits, hidden = _read(model, inputs, at, want_hidden=states is not None)
    if states is None:
        return logits, None
    also = torch.from_numpy(_slots(packing, states)).to(device)
    return logits, hidden.reshape(-1, hidden.shape[-1]).index_select(0, also)


def _read(
    model: Any, inputs: dict[str, Any], at: torch.Tensor, *, want_hidden: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    kept: list[torch.Tensor] = []

    def select(_module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        kept.append(args[0])
        return (args[0].reshape(-1, args[0].shape[-1]).index_select(0, at)[None], *args[1:])

    # Cutting down the output layer's input, and not calling the parts by hand, keeps wrappers (LoRA, sharding) and
    # whatever the model does to its logits.
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    if head is None:
        output = model(**inputs, use_cache=False, output_hidden_states=want_hidden)
        logits = output.logits.reshape(-1, output.logits.shape[-1]).index_select(0, at)
        return logits, output.hidden_states[-1] if want_hidden else logits
    handle = head.register_forward_pre_hook(select)
    try:
        logits = model(**inputs, use_cache=False).logits
    finally:
        handle.remove()
    return logits[0], kept[0]


def _slots(packing: Packing, nodes: np.ndarray) -> np.ndarray:
    """Where `nodes` lie in the padded batch, flattened."""
    row = np.searchsorted(packing.starts, nodes, side="right") - 1
    return row * packing.lengths.max(initial=0) + nodes - packing.starts[row]


def _inputs(packing: Packing) -> dict[str, torch.Tensor]:
    """The padded batch. Padding lies to the right, where causal attention never looks: chains need no mask at all."""
    shape = (packing.rows, int(packing.lengths.max(initial=0)))
    real = np.arange(shape[1]) < packing.lengths[:, None]
    ids = np.zeros(shape, dtype=np.int64)
    ids[real] = packing.ids
    if packing.chains.all():
        return {"input_ids": torch.from_numpy(ids)}
    position = np.zeros(shape, dtype=np.int64)
    position[real] = packing.position
    return {"input_ids": torch.from_numpy(ids), "position_ids": torch.from_numpy(position)}
