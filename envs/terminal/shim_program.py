"""Stands in for installers while a verifier runs without a network. It runs inside the sandbox: standard library only.

Called with the name of the program it replaces: `shim_program.py NAME ARGUMENT ...`. It succeeds where what is asked
for is already in the image, and says what is missing where it is not.
"""

import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys

# Packages that verifiers ask for and never need: tools for fetching, recording and reporting.
UNNEEDED = {
    *("asciinema", "build-essential", "ca-certificates", "curl", "gnupg"),
    *("software-properties-common", "tmux", "unzip", "wget", "pip", "uv", "setuptools", "wheel"),
    *("pytest-json-ctrf", "python-is-python3", "git"),
}
UV_INSTALLER = 'mkdir -p "$HOME/.local/bin"\n: > "$HOME/.local/bin/env"\necho "uv: the offline stand-in is used"\n'
UV_VALUED = {
    "-p",
    "--python",
    "-w",
    "--with",
    "--from",
    "--directory",
    "--project",
    "--index-url",
    "--extra",
    "--group",
}
PROGRAMS = {"procps": "ps", "coreutils": "ls", "findutils": "find", "gawk": "awk", "bsdutils": "logger"}
PYTEST_VALUED = {"--ctrf"}


def main(name: str, arguments: list[str]) -> int:
    """Do what `name` would do, offline."""
    if name in ("apt-get", "apt"):
        return apt(arguments)
    if name in ("curl", "wget"):
        return fetch(name, arguments)
    if name in ("pip", "pip3"):
        return pip(arguments)
    if name in ("uv", "uvx"):
        return uv(arguments) if name == "uv" else run_tool(arguments)
    if name in ("pytest", "py.test"):
        return pytest(arguments)
    return 0  # add-apt-repository, update-alternatives: nothing to do


def apt(arguments: list[str]) -> int:
    """Succeeds where every package is installed."""
    words = [word for word in arguments if not word.startswith("-") and "=" not in word[:1]]
    if not words or words[0] != "install":
        return 0
    missing = [word for word in words[1:] if word not in UNNEEDED and not _debian(word.split("=")[0])]
    for word in missing:
        print(f"E: Unable to locate package {word} (no network; it is not in this image)", file=sys.stderr)
    return 100 if missing else 0


def fetch(name: str, arguments: list[str]) -> int:
    """Prints uv's installer; local addresses go to the real program; anything else cannot be reached."""
    addresses = [word for word in arguments if "://" in word]
    if any("astral.sh/uv" in word for word in addresses):
        sys.stdout.write(UV_INSTALLER)
        return 0
    real = f"/usr/bin/{name}"
    if pathlib.Path(real).exists():
        os.execv(real, [name, *arguments])
    print(f"{name}: (6) Could not resolve host: there is no network", file=sys.stderr)
    return 6


def pip(arguments: list[str]) -> int:
    """Succeeds where every distribution is installed, whatever its version."""
    words = [word for word in arguments if not word.startswith("-")]
    if not words or words[0] != "install":
        return 0
    missing = [word for word in words[1:] if not _distribution(word)]
    for word in missing:
        print(f"ERROR: No matching distribution found for {word} (no network; not in this image)", file=sys.stderr)
    return 1 if missing else 0


def uv(arguments: list[str]) -> int:
    """`uv init`, `add`, `pip install`, `run`, `tool run`; the rest does nothing."""
    words = [word for word in arguments if not word.startswith("-")]
    verb = words[0] if words else ""
    rest = arguments[arguments.index(verb) + 1 :] if verb else []
    if verb == "add":
        return pip(["install", *rest])
    if verb == "pip":
        return pip(rest)
    if verb == "run":
        return run_tool(rest)
    if verb == "tool" and rest[:1] == ["run"]:
        return run_tool(rest[1:])
    return 0


def run_tool(arguments: list[str]) -> int:
    """The command after uv's own options, run with the image's Python."""
    while arguments and arguments[0].startswith("-"):
        valued = arguments[0] in UV_VALUED
        if arguments[0] in ("-m", "--module"):
            return _become(["/usr/bin/python3", *arguments])
        arguments = arguments[2 if valued else 1 :]
    if not arguments:
        return 0
    program = arguments[0].split("@")[0]
    if program in ("pytest", "py.test"):
        return pytest(arguments[1:])
    if program in ("python", "python3") or program.endswith(".py"):
        return _become(["/usr/bin/python3", *(arguments if program.endswith(".py") else arguments[1:])])
    return _become(arguments)


def pytest(arguments: list[str]) -> int:
    """The image's pytest, without options of plugins that are not there."""
    kept, skip = [], False
    for word in arguments:
        if skip or word.split("=")[0] in PYTEST_VALUED:
            skip = not skip and "=" not in word
            continue
        kept.append(word)
    return _become(["/usr/bin/python3", "-m", "pytest", "-p", "no:cacheprovider", *kept])


def _become(command: list[str]) -> int:
    os.execvp(command[0], command)


def _debian(package: str) -> bool:
    if re.fullmatch(r"python3?(\.\d+)?(-(venv|dev|pip|full|distutils|minimal))?", package):
        return True  # whichever Python the image has is the one that there is
    if package.startswith("python3-"):
        return _distribution(package[8:])
    if shutil.which(PROGRAMS.get(package, package)):
        return True
    try:
        done = subprocess.run(["dpkg", "-s", package], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except OSError:
        return False
    return done.returncode == 0


def _distribution(requirement: str) -> bool:
    name = re.split(r"[=<>!~\[; @]", requirement)[0]
    if name in UNNEEDED or "/" in requirement or requirement in (".", ""):
        return True
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
