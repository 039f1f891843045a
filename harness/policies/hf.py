"""`HFPolicy`: a causal language model of Hugging Face transformers as a policy that plays, evaluates and is trained.

Generation is batched over sessions and keeps their keys and values across turns (`generation.py`): a turn costs its
new tokens.
The recorded log-probabilities are those of the training forward pass (`evaluation.py`) up to float rounding, so
trainers use them as they are. Control tokens other than the stop token have no probability in either.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ...envs.core.errors import InvalidArgument, MissingData, MissingExtra
from ..policy import Sampling
from ..records import Call, Context
from .chat import ChatFormat
from .generation import Generator
from .sampling import OnToken
from .tree_attention import implementation

if TYPE_CHECKING:
    from .evaluation import Evaluation

PRECISIONS = ("auto", "float32", "mixed", "bfloat16")
ATTENTIONS = ("auto", "blocks", "flex", "dense")
CRITIC = Path("critic") / "value_head.safetensors"  # not beside the model: vLLM would take it for a part of that
NEVER = -1e4  # logit of control tokens: probability 0, and finite, so that entropies and gradients stay so


class HFPolicy:
    """A language model that answers contexts.

    Args:
        model: a causal LM with full attention in every layer; it is moved to `device` and switched to `eval`.
        format: the chat format, or a tokenizer with control tokens that `ChatFormat.of` knows.
        critic: add a value head (linear, zero at first) on the last hidden state of the prompt's last token.
        max_context: tokens of prompt and completion together; None takes the model's own limit.
        device: None is the GPU if there is one.
        batch_size: contexts per forward pass; larger calls are cut up.
        max_tokens: token slots per micro-batch when it learns (a caller of `evaluate` cuts the batches).
        name: what reports call the policy.
        precision: "float32"; "mixed": float32 weights, computed with in bfloat16 (autocast); "bfloat16": weights in
            bfloat16, which learners move by way of float32 copies; or "auto": weights as they are, and "mixed" for
            float32 ones on a GPU.
        checkpointing: keep no activations inside the layers and compute them again for the gradients.
        offload: learners keep their optimiser's state in the CPU's memory.
        attention: over packed trees: "blocks", "flex", "dense" or "auto" (`tree_attention.chosen`).

    Raises:
        InvalidArgument: an unknown precision or attention, or a model without checkpointing.
    """

    def __init__(
        self,
        model: Any,
        format: ChatFormat | Any,
        *,
        critic: bool = False,
        max_context: int | None = None,
        device: str | torch.device | None = None,
        batch_size: int = 128,
        max_tokens: int = 4096,
        name: str = "hf",
        precision: str = "auto",
        checkpointing: bool = False,
        offload: bool = False,
        attention: str = "auto",
    ) -> None:
        for chosen, known in ((precision, PRECISIONS), (attention, ATTENTIONS)):
            if chosen not in known:
                raise InvalidArgument(f"{chosen!r} is none of {', '.join(known)}")
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.model = model.to(self.device).eval()
        self.format = format if isinstance(format, ChatFormat) else ChatFormat.of(format)
        limit = int(getattr(model.config, "max_position_embeddings", None) or 1 << 20)
        self.max_context = min(max_context or limit, limit)
        self.name = name
        self.version = 0
        self.value_head: torch.nn.Linear | None = None
        if critic:
            # skip_init: torch's global generator is left alone
            head: Any = torch.nn.utils.skip_init(torch.nn.Linear, model.config.hidden_size, 1, device=self.device)
            for parameter in head.parameters():
                torch.nn.init.zeros_(parameter)
            self.value_head = head
        self.max_tokens = max_tokens
        self.precision, self.checkpointing, self.offload, self.attention = precision, checkpointing, offload, attention
        if precision == "bfloat16":
            for parameter in self.parameters():
                parameter.data = parameter.data.to(torch.bfloat16)  # not the buffers: rotary angles need float32
        if checkpointing:
            _enable_checkpointing(self.model)
        self.generator = Generator(self.model, self.format, self.max_context, batch_size)

    # -- playing ------------------------------------------------------------------------------------------------------

    def generate(
        self,
        contexts: Sequence[Context],
        sampling: Sampling,
        seeds: Sequence[int],
        *,
        on_token: OnToken | None = None,
    ) -> list[Call]:
        """One call per context, in order; a context that does not fit gets an empty call with `finish="context"`.

        `max_tokens` limits free text only: constrained completions end where their action ends. `top_p` narrows free
        text to a nucleus that each call records as `allowed`, so that log-probabilities stay exact under it (at the
        price of many numbers: leave it at 1 for training). Temperature 0 takes the most likely and records
        log-probabilities at temperature 1. `on_token` sees free text as it is sampled and may end it.
        """
        if sampling.decode not in ("free", "trie", "choice"):
            raise InvalidArgument(f"decode is 'free', 'trie' or 'choice', not {sampling.decode!r}")
        if sampling.max_tokens < 1 or sampling.temperature < 0 or not 0 < sampling.top_p <= 1:
            raise InvalidArgument(f"max_tokens >= 1, temperature >= 0 and 0 < top_p <= 1 are needed, not {sampling}")
        training = self.model.training
        self.model.eval()
        try:
            with self._masked(), self._autocast():
                return self.generator.generate(
                    contexts, sampling, seeds, version=self.version, value_head=self.value_head, on_token=on_token
                )
        finally:
            self.model.train(training)

    def forget(self, sessions: Sequence[str]) -> None:
        """Drop what is kept for these sessions; their rows go to the next ones."""
        self.generator.forget(sessions)

    def reset_cache(self) -> None:
        """Drop all keys and values, not the recorded ids. Needed where weights change without a new `version`."""
        self.generator.reset()

    # -- training -----------------------------------------------------------------------------------------------------

    @property
    def compute_dtype(self) -> torch.dtype:
        """What the model computes in."""
        return torch.bfloat16 if self._mixed else next(self.model.parameters()).dtype

    @property
    def optimizer_device(self) -> torch.device | None:
        """Where learners keep their optimiser's state; None: with the weights."""
        return torch.device("cpu") if self.offload else None

    def parameters(self) -> list[torch.nn.Parameter]:
        """All weights, the critic's last."""
        return [*self.model.parameters(), *self.value_parameters()]

    def evaluate(self, calls: Sequence[Call]) -> Evaluation:
        """Log-probabilities, entropies and (with a critic) values of one micro-batch; differentiable in grad mode."""
        from .evaluation import evaluate

        with self._masked(), self._autocast(), self._recomputing():
            return evaluate(self.model, calls, value_head=self.value_head, attention=self.attention)

    def evaluate_tokens(self, calls: Sequence[Call]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Log-probabilities of all that was said, for supervised training (see `evaluation.evaluate_tokens`)."""
        from .evaluation import evaluate_tokens

        with self._autocast(), self._recomputing():
            return evaluate_tokens(self.model, calls, attention=self.attention)

    def score(self, calls: Sequence[Call], contexts: Sequence[Context] | None = None) -> list[np.ndarray]:
        """Per call, the (units,) log-probabilities of its recorded units, under other contexts if given.

        Assistant messages of calls that are neither in `calls` nor in a live session are encoded from their text.
        """
        from .evaluation import score

        if contexts is not None:
            recorded = {**self.generator.recorded, **{call.id: call.completion_ids for call in calls}}
            calls = [
                replace(call, context=context, prompt_ids=tuple(self.format.prompt(context.messages, recorded)))
                for call, context in zip(calls, contexts, strict=True)
            ]
        with self._masked(), self._autocast():
            return score(self.model, calls, attention=self.attention)

    def reference(self) -> HFPolicy | AdapterOff:
        """The policy as it is now (with LoRA: without its adapters), frozen, to score and evaluate with.

        A full policy is copied; with LoRA the weights are shared and the adapters are switched off for each call.
        """
        if hasattr(self.model, "disable_adapter"):
            return AdapterOff(self)
        model = deepcopy(self.model).requires_grad_(False)
        return HFPolicy(
            model,
            self.format,
            max_context=self.max_context,
            device=self.device,
            name=f"{self.name}-ref",
            precision=self.precision,
            attention=self.attention,
        )

    def copy(self) -> HFPolicy:
        """A policy of its own with the same weights, adapters and critic: it may play while this one learns."""
        copied = self._with_model(deepcopy(self.model))
        copied.value_head = deepcopy(self.value_head)
        return copied

    def with_lora(
        self, r: int = 16, alpha: float = 32.0, targets: str | Sequence[str] = "all-linear", *, seed: int = 0
    ) -> HFPolicy:
        """This policy with low-rank adapters as its only trainable weights.

        The adapters are put into this policy's own model; use the returned policy from then on.

        Args:
            r: rank.
            alpha: scale; the adapters' product is multiplied by alpha / r.
            targets: names of the modules that get adapters, or "all-linear" (all but the output layer).
            seed: of the adapters' initial weights.

        Raises:
            MissingExtra: peft is not installed.
            InvalidArgument: a target that no linear layer is called.
        """
        try:
            from peft import LoraConfig, get_peft_model
        except ImportError:
            raise MissingExtra("peft", "train") from None
        modules = targets if isinstance(targets, str) else list(targets)
        if modules != "all-linear":
            _check_targets(self.model, [modules] if isinstance(modules, str) else modules)
        config = LoraConfig(r=r, lora_alpha=alpha, target_modules=modules, lora_dropout=0.0, task_type="CAUSAL_LM")  # pyright: ignore[reportArgumentType]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            # adapters in the weights' own precision: sharding wants one, and learners keep float32 copies anyway
            model = get_peft_model(self.model, config, autocast_adapter_dtype=False)
        return self._with_model(model)

    def trainable_parameters(self) -> list[torch.nn.Parameter]:
        """The weights that a learner may move, the critic's last."""
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad] + self.value_parameters()

    def value_parameters(self) -> list[torch.nn.Parameter]:
        """The value head's weights."""
        return [] if self.value_head is None else list(self.value_head.parameters())

    def state_dict(self) -> dict[str, Any]:
        """Weights (only the trainable ones with LoRA), value head and version."""
        weights = self.model.state_dict()
        if hasattr(self.model, "peft_config"):
            kept = {name for name, parameter in self.model.named_parameters() if parameter.requires_grad}
            weights = {name: tensor for name, tensor in weights.items() if name in kept}
        head = None if self.value_head is None else self.value_head.state_dict()
        return {"model": weights, "value_head": head, "version": self.version}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave; cached keys and values are dropped."""
        partial = hasattr(self.model, "peft_config")
        missing, unexpected = self.model.load_state_dict(state["model"], strict=not partial)
        trainable = {name for name, parameter in self.model.named_parameters() if parameter.requires_grad}
        if unexpected or trainable & set(missing):
            raise InvalidArgument("the checkpoint belongs to another model or other adapters")
        if (state["value_head"] is None) != (self.value_head is None):
            raise InvalidArgument("the checkpoint and the policy differ in whether they have a critic")
        if self.value_head is not None:
            self.value_head.load_state_dict(state["value_head"])
        self.version = state["version"]
        self.reset_cache()

    # -- files --------------------------------------------------------------------------------------------------------

    def save(self, directory: str | Path, *, merge: bool = False) -> None:
        """Write a directory that transformers (and vLLM) load; `HFPolicy.load` also restores critic and adapters.

        Args:
            directory: made if absent.
            merge: fold LoRA adapters into the weights instead of writing them beside the base model.
        """
        from safetensors.torch import save_file

        path = Path(directory)
        path.mkdir(parents=True, exist_ok=True)
        model = self.model
        if hasattr(model, "peft_config"):
            if merge:
                model = deepcopy(model).merge_and_unload()
            else:
                model.save_pretrained(path / "adapter")
                model = deepcopy(model).unload()
        model.save_pretrained(path)
        self.format.tokenizer.save_pretrained(path)
        if self.value_head is not None:
            head = {name: tensor.detach().cpu() for name, tensor in self.value_head.state_dict().items()}
            (path / CRITIC).parent.mkdir(exist_ok=True)
            save_file(head, path / CRITIC)
        settings = {"max_context": self.max_context, "version": self.version, "name": self.name}
        (path / "policy.json").write_text(json.dumps(settings, indent=1) + "\n")

    @classmethod
    def load(
        cls,
        directory: str | Path,
        *,
        dtype: torch.dtype = torch.float32,
        device: str | torch.device | None = None,
        **kwargs: Any,
    ) -> HFPolicy:
        """Load what `save` wrote, or any local Hugging Face model directory.

        Args:
            directory: where the model is.
            dtype: of the weights; a GPU computes with float32 weights in bfloat16.
            device: as for the class.
            kwargs: the class's other arguments.

        Raises:
            MissingData: there is no model in the directory, or it cannot be read.
        """
        from safetensors.torch import load_file

        path = Path(directory)
        if not (path / "config.json").is_file():
            raise MissingData(f"{path} holds no model (config.json is missing)")
        model, tokenizer = load_transformer(path, dtype)
        if (path / "adapter").is_dir():
            from peft import PeftModel

            model = PeftModel.from_pretrained(model, path / "adapter", is_trainable=True)
        head = path / CRITIC
        settings = path / "policy.json"
        known: dict[str, Any] = json.loads(settings.read_text()) if settings.is_file() else {}
        version = known.pop("version", 0)
        policy = cls(model, tokenizer, device=device, **{"critic": head.is_file(), **known, **kwargs})
        policy.version = version
        if policy.value_head is not None and head.is_file():
            policy.value_head.load_state_dict(load_file(head))
        return policy

    def _with_model(self, model: Any) -> HFPolicy:
        policy = HFPolicy(
            model,
            self.format,
            max_context=self.max_context,
            device=self.device,
            batch_size=self.generator.batch_size,
            max_tokens=self.max_tokens,
            name=self.name,
            precision=self.precision,
            checkpointing=self.checkpointing,
            offload=self.offload,
            attention=self.attention,
        )
        policy.value_head, policy.version = self.value_head, self.version
        return policy

    @contextmanager
    def _masked(self) -> Iterator[None]:
        """Control tokens, and ids beyond the tokenizer's, get no probability."""
        head = self.model.get_output_embeddings()
        never = torch.zeros(self.model.config.vocab_size, dtype=torch.bool, device=self.device)
        never[self.format.size :] = True
        never[list(self.format.control)] = True
        handle = head.register_forward_hook(lambda _module, _args, logits: logits.masked_fill(never, NEVER))
        try:
            yield
        finally:
            handle.remove()

    @property
    def _mixed(self) -> bool:
        wanted = self.precision == "mixed" or (self.precision == "auto" and self.device.type == "cuda")
        return wanted and next(self.model.parameters()).dtype == torch.float32

    def _autocast(self) -> Any:
        return torch.autocast(self.device.type, dtype=torch.bfloat16) if self._mixed else nullcontext()

    @contextmanager
    def _recomputing(self) -> Iterator[None]:
        """Transformers checkpoints layers in training mode only; their parts stay in evaluation mode (no dropout)."""
        layers = []
        if self.checkpointing and torch.is_grad_enabled():
            layers = [module for module in self.model.modules() if getattr(module, "gradient_checkpointing", False)]
        for layer in layers:
            layer.training = True
        try:
            yield
        finally:
            for layer in layers:
                layer.training = False


class AdapterOff:
    """A LoRA policy's base model, frozen: the reference of its own training."""

    def __init__(self, policy: HFPolicy) -> None:
        self.policy = policy

    def score(self, calls: Sequence[Call], contexts: Sequence[Context] | None = None) -> list[np.ndarray]:
        """As `HFPolicy.score`, without the adapters."""
        with self.policy.model.disable_adapter():
            return self.policy.score(calls, contexts)

    def evaluate(self, calls: Sequence[Call]) -> Evaluation:
        """As `HFPolicy.evaluate`, without the adapters and without gradients."""
        with torch.no_grad(), self.policy.model.disable_adapter():
            return self.policy.evaluate(calls)


def _check_targets(model: torch.nn.Module, targets: Sequence[str]) -> None:
    linear = [name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)]
    for target in targets:
        if not any(name == target or name.endswith(f".{target}") for name in linear):
            known = ", ".join(sorted({name.rpartition(".")[2] for name in linear}))
            raise InvalidArgument(f"the model has no linear layer {target!r}; it has {known}")


def _enable_checkpointing(model: Any) -> None:
    """Raises `InvalidArgument` where the model has no layers that can be checkpointed."""
    inner = model.get_base_model() if hasattr(model, "peft_config") else model
    enable = getattr(inner, "activation_checkpointing_enable", None) or inner.gradient_checkpointing_enable
    config = inner.config

    def contexts() -> tuple[Any, Any]:
        """What is computed again, later, is computed with the attention of now."""
        return nullcontext(), implementation(config, config._attn_implementation)

    try:
        enable({"use_reentrant": False, "context_fn": contexts})
    except ValueError as error:
        raise InvalidArgument(f"{type(inner).__name__} cannot recompute activations: {error}") from None


def load_transformer(name: str | Path, dtype: torch.dtype, *, download: bool = False) -> tuple[Any, Any]:
    """Model and tokenizer of a directory or a Hugging Face id, without transformers' progress bars.

    Raises:
        MissingData: they are not there (or, with `download`, not to be had), or cannot be read.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, local_files_only=not download)
        model = AutoModelForCausalLM.from_pretrained(name, local_files_only=not download, dtype=dtype)
    except Exception as error:  # whatever transformers, safetensors or json make of missing and broken files
        reason = str(error).strip().split("\n")[0]
        raise MissingData(f"no model could be loaded from {str(name)!r}: {type(error).__name__}: {reason}") from error
    finally:
        if shown:
            logging.enable_progress_bar()
    return model, tokenizer
