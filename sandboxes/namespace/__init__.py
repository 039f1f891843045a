"""The namespace backend."""

from .sandbox import NamespaceSandbox

__all__ = ["NamespaceSandbox"]
