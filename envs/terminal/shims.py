"""Offline stand-ins for apt, curl, pip, uv and pytest: first on a verifier's PATH, never on the agent's.

Verifiers of real tasks begin by installing pytest over the network. The stand-ins say yes to what the image has.
"""

from __future__ import annotations

from pathlib import Path

from .task import PATH, File

FOLDER = "/opt/sandlot/shims"
NAMES = (
    *("apt-get", "apt", "add-apt-repository", "update-alternatives", "curl", "wget"),
    *("pip", "pip3", "uv", "uvx", "pytest", "py.test"),
)
PATH_WITH_SHIMS = f"{FOLDER}:{PATH}"
_PROGRAM = f"{FOLDER}/shim_program.py"


def shim_files() -> tuple[File, ...]:
    """The stand-ins, to be placed in the sandbox in which a verifier runs or an image is built."""
    source = Path(__file__).with_name("shim_program.py").read_bytes()
    launchers = (
        File(f"{FOLDER}/{name}", f'#!/bin/sh\nexec /usr/bin/python3 -E {_PROGRAM} {name} "$@"\n'.encode(), 0o755)
        for name in NAMES
    )
    return (File(_PROGRAM, source), *launchers)
