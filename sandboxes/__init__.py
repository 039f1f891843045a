"""Isolation: the lowest floor. It imports nothing of the floors above it."""

from .base import Sandbox, Snapshot
from .limits import Capabilities, Limits
from .shell import Shell
from .spec import DockerfileImage, DockerImage, ExecResult, HostImage, Image, Mount, RootfsImage, SandboxSpec
from .sync import SyncSandbox, SyncShell

__all__ = [
    "Capabilities",
    "DockerImage",
    "DockerfileImage",
    "ExecResult",
    "HostImage",
    "Image",
    "Limits",
    "Mount",
    "RootfsImage",
    "Sandbox",
    "SandboxSpec",
    "Shell",
    "Snapshot",
    "SyncSandbox",
    "SyncShell",
]
