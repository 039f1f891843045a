"""Context builders: how a history becomes a prompt."""

from .builders import ContextBuilder, FullHistory, MakeContext, Window

__all__ = ["ContextBuilder", "FullHistory", "MakeContext", "Window"]
