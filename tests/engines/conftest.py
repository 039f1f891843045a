"""Tests against a real vLLM (`make test-vllm`); without one they are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from vllm_parts import make_policy


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`make_policy()` as a folder."""
    folder = tmp_path_factory.mktemp("vllm") / "model"
    make_policy().save(folder)
    return folder


@pytest.fixture(scope="session", autouse=True)
def small_and_offline() -> Iterator[None]:
    """Little memory for keys and values, and no network."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("VLLM_NO_USAGE_STATS", "1")
        yield
