#!/usr/bin/env bash
# Checks what only a GPU can check, in under 8 minutes on one H200: FlexAttention's gradients, vLLM playing while GRPO
# learns at 2k, 4k and 8k tokens, and `sandlot train` with vLLM and its sleep mode. Without a GPU it says so and ends.
#
#   bash benchmarks/gpu_smoke.sh [0.5b|1.5b]     on a GPU; needs pip install 'sandlot[train,vllm]' and pytest
#   bash benchmarks/gpu_smoke.sh --tiny          the same code on a CPU, after scripts/setup_vllm.sh
#
# PYTHON names the interpreter; by default the one that has vLLM: .venv-vllm's, else .venv's, else python3.
set -euo pipefail
cd "$(dirname "$0")/.."

size=${1:-0.5b}
for candidate in ${PYTHON:-} .venv-vllm/bin/python .venv/bin/python python3; do
  if command -v "$candidate" >/dev/null; then python=$candidate; break; fi
done
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1

if [[ $size == --tiny ]]; then
  options=(--tiny --episodes 4 --group 2)
  vllm='vllm={eager=true}'
  export VLLM_CPU_KVCACHE_SPACE=1
elif "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
  nvidia-smi --query-gpu=name,memory.total --format=csv,noheader || true
  "$python" -m pytest -q -m gpu tests/harness/test_tree_attention.py
  options=(--size "$size")
  vllm='vllm={sleep=true}'
else
  echo "not run: no GPU"
  exit 0
fi

timeout 420 "$python" benchmarks/gpu_smoke.py "${options[@]}"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
timeout 240 "$python" -m sandlot.cli train --env KeyDoor --model tiny --steps 2 --eval-tasks 4 --out "$out" \
  -s engine=vllm -s "$vllm" -s demonstrations=32 -s 'tiny={layers=2}' -s checkpointing=true \
  -r groups=4 -r group_size=4 -r entropy_coef=0.01
"$python" - "$out" <<'PYTHON'
import json, pathlib, sys
(run,) = pathlib.Path(sys.argv[1]).iterdir()
for line in (run / "metrics.jsonl").read_text().splitlines():
    row = json.loads(line)
    print({key: round(row[key], 5) for key in ("rollout/success", "update/logprob_gap", "update/grad_norm")})
PYTHON
