"""`sandlot serve model`: a person starts it, a client plays through it, Ctrl-C ends it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("aiohttp", reason="aiohttp is not installed (extra: serve)")
pytest.importorskip("torch", reason="torch is not installed (extra: train)")


def test_a_saved_model_is_served_and_evaluated(tmp_path: Path) -> None:
    from sandlot.harness.policies.hf import HFPolicy
    from sandlot.harness.policies.tiny import build_word_tokenizer, tiny_llama

    tokenizer = build_word_tokenizer(["go left right"])
    HFPolicy(tiny_llama(len(tokenizer), 32, 2, 2), tokenizer, name="mini").save(tmp_path / "model")
    sandlot = [sys.executable, "-m", "sandlot.cli"]
    server = subprocess.Popen(
        [*sandlot, "serve", "model", str(tmp_path / "model"), "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        found = re.search(r"mini at (http://127\.0\.0\.1:\d+/v1)", line)
        assert found, line
        command = [*sandlot, "eval", "Corridor", "--policy", f"openai:mini@{found[1]}", "--tasks", "2"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        server.send_signal(signal.SIGINT)
        assert server.wait(30) == 130
    finally:
        server.kill()
        server.wait()
